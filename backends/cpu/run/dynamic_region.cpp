// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/run/dynamic_region.h"

#include <algorithm>

#include "backends/cpu/compile/compile.h"
#include "base/checked.h"
#include "base/stop.h"

namespace quarry::cpu {

namespace {

// What the telling nodes made, in elements, from which on the rest is worth a plan though it has no products.
constexpr std::int64_t kMuch = 1 << 16;

// A block aligned as segments are.
class Segment {
 public:
  explicit Segment(const Vector<std::uint8_t> &bytes)
      : data_(allocate_block(std::max<std::size_t>(bytes.size(), 1), 64)), size_(bytes.size()) {
    if (!bytes.empty()) std::memcpy(data_, bytes.data(), bytes.size());
  }
  Segment(const Segment &) = delete;
  Segment &operator=(const Segment &) = delete;
  ~Segment() { free_block(data_); }
  qir::Bytes bytes() const noexcept { return {data_, size_}; }

 private:
  void *data_;
  std::size_t size_;
};

class Planned;
// What plan() makes.
class CpuRun : public dynamic::PlannedRun {
 public:
  virtual Planned *whole() noexcept { return nullptr; }
};

class Planned final : public CpuRun {
 public:
  Planned(const CompiledPlan &compiled, const Vector<AppendedShape> &appended)
      : appended_(appended),
        packed_(compiled.packed),
        subgraph_constants_(compiled.subgraph_constants),
        blob_(write_blob(compiled)),
        shared_(compiled.shared) {}
  Status load(const Vector<qir::Bytes> &given, std::size_t kept) {
    segments_.assign(given.begin(), given.begin() + static_cast<std::ptrdiff_t>(kept));
    segments_.push_back(packed_.bytes());
    segments_.push_back(subgraph_constants_.bytes());
    for (const SharedBytes &block : shared_) segments_.push_back(block->bytes());
    QR_ASSIGN_OR_RETURN(plan_, read_blob({blob_.data(), blob_.size()}, segments_));
    execution_ = make_unique<Execution>(*plan_);
    return {};
  }
  Status run(const qr_run_request &request, const qr_host &host, std::uint64_t *events) override {
    QR_RETURN_IF_ERROR(execution_->run(request, host, events));
    for (const AppendedShape &one : appended_) {  // the plan's output is the block
      qr_io_buffer &output = request.outputs[one.output];
      output.dims[one.axis] = one.entries, output.used_bytes = one.bytes;
    }
    return {};
  }
  Planned *whole() noexcept override { return this; }
  LengthSample sample(std::int64_t length) noexcept {
    return {length, plan_.get(), blob_.data(), packed_.bytes(), subgraph_constants_.bytes(), appended_.data()};
  }
  // This is the longest of those.
  bool join(std::span<const LengthSample> samples) {
    length_ = samples.back().length;
    return numbers_.find(samples, appended_.size());
  }
  Status set_longer(std::int64_t length) override {
    if (length == length_) return {};
    length_ = length;
    QR_RETURN_IF_ERROR(numbers_.write(length));
    execution_->place_operands();
    return {};
  }
  std::uint64_t bytes() const noexcept override {
    return packed_.bytes().size + subgraph_constants_.bytes().size + blob_.size() + plan_->arena_bytes +
           plan_->scratch_bytes + plan_->shared_bytes;
  }

 private:
  Vector<AppendedShape> appended_;
  Segment packed_, subgraph_constants_;
  Vector<std::uint8_t> blob_;  // (which numbers_ writes to)
  const Vector<SharedBytes> shared_;
  Vector<qir::Bytes> segments_;
  Unique<LoadedPlan> plan_;
  Unique<Execution> execution_;
  LengthNumbers numbers_;
  std::int64_t length_ = 0;  // that they are of
};

// A plan that knows nothing of blocks, for its shapes depend on data: it gets their entries as tensors of their own,
// and what it makes is copied there.
class AppendsApart final : public CpuRun {
 public:
  AppendsApart(Unique<dynamic::PlannedRun> plan, const Vector<Appended> &appended)
      : plan_(std::move(plan)), appended_(appended), copies_(appended.size()) {}
  Status run(const qr_run_request &request, const qr_host &host, std::uint64_t *events) override {
    inputs_.assign(request.inputs, request.inputs + request.input_count);
    outputs_.assign(request.outputs, request.outputs + request.output_count);
    for (std::size_t i = 0; i < appended_.size(); ++i) {
      const Appended &one = appended_[i];
      outputs_[one.output].data = nullptr;
      qr_io_buffer &input = inputs_[one.input];
      const Parts parts(input, one);
      copies_[i].resize(parts.outer * parts.dense + 1);
      for (std::uint64_t part = 0; part < parts.outer && parts.dense > 0; ++part)
        std::memcpy(copies_[i].data() + part * parts.dense, static_cast<char *>(input.data) + part * parts.pitch,
                    parts.dense);
      input.data = copies_[i].data();
    }
    qr_run_request apart = request;
    apart.inputs = inputs_.data(), apart.outputs = outputs_.data();
    QR_RETURN_IF_ERROR(plan_->run(apart, host, events));
    return give(request);
  }
  std::uint64_t bytes() const noexcept override { return plan_->bytes(); }

 private:
  struct Parts {
    Parts(const qr_io_buffer &io, const Appended &one) {
      std::uint64_t elements = 1;
      for (std::uint32_t d = 0; d < io.rank; ++d) {
        if (d < one.axis) outer *= static_cast<std::uint64_t>(io.dims[d]);
        elements *= static_cast<std::uint64_t>(io.dims[d]);
      }
      const std::uint64_t bytes = io.used_bytes ? io.used_bytes : io.size_bytes;
      if (outer == 0 || elements == 0) return;
      dense = bytes / outer;
      pitch = dense / static_cast<std::uint64_t>(io.dims[one.axis]) * static_cast<std::uint64_t>(one.capacity);
    }
    std::uint64_t outer = 1, dense = 0, pitch = 0;  // bytes of a part, and from one to the next in the block
  };
  Status give(const qr_run_request &request) {
    for (const Appended &one : appended_)
      if (outputs_[one.output].dims[one.axis] > one.capacity)
        return Status::error(ErrorId::run_room,
                             format("output %u: found room for %lld entries along axis %u, expected %lld", one.output,
                                    one.capacity, one.axis, outputs_[one.output].dims[one.axis]));
    for (const Appended &one : appended_) {
      qr_io_buffer &made = outputs_[one.output];
      char *const block = static_cast<char *>(request.outputs[one.output].data);
      const Parts parts(made, one);
      for (std::uint64_t part = 0; part < parts.outer && parts.dense > 0; ++part)
        std::memcpy(block + part * parts.pitch, static_cast<char *>(made.data) + part * parts.dense, parts.dense);
      made.data = block;
    }
    std::ranges::copy(outputs_, request.outputs);
    return {};
  }

  Unique<dynamic::PlannedRun> plan_;
  const Vector<Appended> appended_;
  Vector<Vector<char>> copies_;
  Vector<qr_io_buffer> inputs_, outputs_;
};

}  // namespace

bool DynamicExecution::wants_plan(std::int64_t elements) const {
  return region_.shared || region_.pieces.rest_has_contractions || elements >= kMuch;
}

std::optional<Appended> appended_in(const LoadedPlan &plan, const Appended &pair) {
  const LoadedRegion &region = *plan.region;
  const dynamic::Pieces::Piece &rest = region.pieces.rest;
  const Step &step = plan.steps.back();
  const auto is_input = [&](const dynamic::Pieces::Read &read) {
    const Value &value = plan.values[plan.operands[step.first_operand + read.index].value];
    return !read.made && value.storage == StorageKind::Input && value.index == pair.input;
  };
  const auto output = std::ranges::find(region.outputs, pair.output) - region.outputs.begin();
  const auto reads = std::ranges::find_if(rest.reads, is_input);
  const auto gives = std::ranges::find(rest.part.positions, output);
  if (reads == rest.reads.end() || gives == rest.part.positions.end()) return std::nullopt;
  const Appended found{static_cast<std::uint32_t>(reads - rest.reads.begin()),
                       static_cast<std::uint32_t>(gives - rest.part.positions.begin()), pair.axis, pair.capacity};
  const qir::Graph &graph = rest.part.graph;
  const std::int32_t input = graph.inputs[found.input], output_id = graph.outputs[found.output];
  std::int32_t whole = qir::kAbsent;  // what a Concat makes of it
  for (const qir::Node &node : graph.nodes) {
    const auto joins = [&](std::size_t from, std::size_t to) {
      return node.inputs.size() > from && node.outputs.size() > to && node.inputs[from] == input &&
             node.outputs[to] == output_id;
    };
    const std::int64_t axis = node.get_int("axis", 0), rank = static_cast<std::int64_t>(at(graph, input).shape.size());
    if (node.op == qir::Op::Concat && node.inputs[0] == input && (axis < 0 ? axis + rank : axis) == pair.axis)
      whole = node.outputs[0];
    if (whole == output_id) return found;
    // New entries in each row's own place: of one row that is where the Concat has them (bind_dimensions).
    if (node.op == qir::Op::TensorScatter && node.inputs[0] == whole && node.outputs[0] == output_id) return found;
    // Its past and present, which passes make a Concat of.
    if (node.op == qir::Op::Attention && pair.axis == 2 && (joins(4, 1) || joins(5, 2))) return found;
  }
  return std::nullopt;
}

// Gives each output that is appended to its shape; an error where there is no room for that.
Status DynamicExecution::shapes_of(const qir::Graph &graph, Vector<AppendedShape> &out) const {
  for (const Appended &one : appended_) {
    const qir::Tensor &made = at(graph, graph.outputs[one.output]);
    const std::int64_t count = element_count(made.shape.data(), made.shape.size()).value_or(0);
    if (made.shape[one.axis] > one.capacity)
      return Status::error(ErrorId::run_room,
                           format("output '%s': found room for %lld entries along axis %u, expected %lld",
                                  printable(made.name), one.capacity, one.axis, made.shape[one.axis]));
    out.push_back({one.output, one.axis, made.shape[one.axis], packed_size(made.dtype, count).value_or(0)});
  }
  return {};
}

Result<Unique<dynamic::PlannedRun>> DynamicExecution::plan(qir::Graph &&graph) {
  CompileOptions options;
  options.isa = region_.isa, options.winograd = region_.winograd, options.weights = region_.weights;
  options.f32_gemm = region_.f32_gemm;
  options.sources = region_.sources;
  options.shared = region_.shared.get();
  options.again = options.shared != nullptr;
  const auto is_known = [](const qir::Tensor &tensor) { return passes::known(tensor.shape); };
  const bool in_place = std::ranges::all_of(graph.tensors, is_known);
  Vector<AppendedShape> shapes;
  if (in_place) {
    options.appended = appended_;
    QR_RETURN_IF_ERROR(shapes_of(graph, shapes));
  }
  QR_ASSIGN_OR_RETURN(const CompiledPlan compiled, compile(std::move(graph), region_.constants, options));
  auto planned = quarry::make_unique<Planned>(compiled, shapes);
  QR_RETURN_IF_ERROR(stop_status("run"));  // what was stopped wrote no whole blob
  QR_RETURN_IF_ERROR(planned->load(region_.constants, compiled.kept_segments));
  Unique<dynamic::PlannedRun> made(planned.release());
  if (in_place || appended_.empty()) return made;
  return Unique<dynamic::PlannedRun>(quarry::make_unique<AppendsApart>(std::move(made), appended_).release());
}

// Where a state grows; whatever else grows along with it (a mask) is the model's own to do.
bool DynamicExecution::joins(const dynamic::Lengths &lengths) const {
  return !appended_.empty() &&
         std::ranges::all_of(appended_, [&](const Appended &one) { return lengths.grows(one.input, one.axis); });
}

Unique<dynamic::PlannedRun> DynamicExecution::join(std::span<Sample> samples) {
  Vector<LengthSample> compared;
  for (const Sample &sample : samples) {
    Planned *const planned = static_cast<CpuRun &>(*sample.run).whole();
    if (!planned) return nullptr;
    compared.push_back(planned->sample(sample.longer));
  }
  if (!static_cast<CpuRun &>(*samples.back().run).whole()->join(compared)) return nullptr;
  return std::move(samples.back().run);
}

}  // namespace quarry::cpu
