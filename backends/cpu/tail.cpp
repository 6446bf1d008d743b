// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/tail.h"

#include <algorithm>

#include "backends/cpu-reference/host_environment.h"
#include "backends/cpu/cut.h"
#include "base/checked.h"

namespace quarry::cpu {

namespace {

// What the telling nodes made, in elements, from which on the rest is worth a plan though it has no products.
constexpr std::int64_t kMuch = 1 << 16;

qir::Shape shape_of(const qr_io_buffer &io) { return qir::Shape(io.dims, io.dims + io.rank); }

// A block aligned as segments and blobs are.
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

}  // namespace

struct TailExecution::Planned : HeapObject {
  Planned(Vector<qir::Shape> &&made_for, const CompiledPlan &compiled)
      : shapes(std::move(made_for)),
        packed(compiled.packed),
        subgraph_constants(compiled.subgraph_constants),
        blob(write_blob(compiled)) {}
  Vector<qir::Shape> shapes;
  Segment packed, subgraph_constants, blob;
  Unique<LoadedPlan> plan;
  Unique<Execution> execution;
};

TailExecution::TailExecution(const LoadedTail &tail)
    : tail_(tail),
      telling_(*tail.telling.program),
      rest_(*tail.rest.program),
      telling_inputs_(tail.telling.part.inputs.size()),
      telling_outputs_(tail.telling.part.outputs.size()),
      rest_inputs_(tail.rest.part.inputs.size()),
      rest_outputs_(tail.rest.part.outputs.size()) {}

TailExecution::~TailExecution() = default;

Status TailExecution::run_part(reference::Execution &execution, const Vector<qr_io_buffer> &inputs,
                               Vector<qr_io_buffer> &outputs, const qr_run_request &request, const qr_host &host,
                               std::uint64_t *events) {
  reads_.assign(inputs.size(), {});
  writes_.assign(outputs.size(), {});
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    reads_[i] = {inputs[i].data, inputs[i].size_bytes, 0, true, inputs[i].rank, {}};
    std::copy_n(inputs[i].dims, qir::kMaxRank, reads_[i].dims);
  }
  for (std::size_t i = 0; i < outputs.size(); ++i)
    writes_[i] = {outputs[i].data, outputs[i].size_bytes, 0, outputs[i].wanted != 0, 0, {}};
  reference::HostEnvironment environment(host, request, events);
  QR_RETURN_IF_ERROR(execution.run(reads_.data(), reads_.size(), writes_.data(), writes_.size(), environment));
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    outputs[i].data = writes_[i].data, outputs[i].used_bytes = writes_[i].used_bytes, outputs[i].rank = writes_[i].rank;
    std::copy_n(writes_[i].dims, qir::kMaxRank, outputs[i].dims);
  }
  return {};
}

bool TailExecution::worth_a_plan() const {
  if (tail_.rest_has_products) return true;
  std::int64_t elements = 0;  // of what was not known before
  for (std::size_t i = 0; i < rest_inputs_.size(); ++i) {
    const qir::Graph &graph = tail_.rest.part.graph;
    if (known(at(graph, graph.inputs[i]).shape)) continue;
    std::int64_t count = 1;
    for (std::uint32_t d = 0; d < rest_inputs_[i].rank; ++d)
      if (!checked_mul(count, rest_inputs_[i].dims[d], &count)) return true;
    if (!checked_add(elements, count, &elements)) return true;
  }
  return elements >= kMuch;
}

Result<TailExecution::Planned *> TailExecution::plan_for() {
  Vector<qir::Shape> shapes;
  for (std::size_t i = 0; i < rest_inputs_.size(); ++i) {
    const qr_io_buffer &input = rest_inputs_[i];
    const qir::Tensor &tensor = at(tail_.rest.part.graph, tail_.rest.part.graph.inputs[i]);
    shapes.push_back(shape_of(input));
    const auto count = element_count(shapes.back().data(), shapes.back().size());
    const auto bytes = count ? packed_size(tensor.dtype, *count) : std::nullopt;
    if (!bytes || input.size_bytes < *bytes || (!input.data && *bytes != 0))
      return Status::error(
          ErrorId::run_no_data,
          format("tensor '%s': found %llu bytes, expected those of shape %s", printable(tensor.name).c_str(),
                 static_cast<unsigned long long>(input.data ? input.size_bytes : 0),
                 shape_text(shapes.back().data(), shapes.back().size()).c_str()));
  }
  const auto found =
      std::ranges::find_if(plans_, [&](const Unique<Planned> &planned) { return planned->shapes == shapes; });
  if (found != plans_.end()) {
    std::rotate(found, found + 1, plans_.end());
    return plans_.back().get();
  }
  qir::Store store;
  qir::Graph graph = tail_.rest.part.graph;
  QR_RETURN_IF_ERROR(bind_extents(graph, shapes, store));
  CompileOptions options;
  options.isa = tail_.isa, options.winograd = tail_.winograd, options.weights = tail_.weights;
  options.f32_products = tail_.f32_products;
  options.sources = tail_.sources;
  const Vector<qir::Bytes> &given = tail_.constants;
  QR_ASSIGN_OR_RETURN(const CompiledPlan compiled, compile(std::move(graph), given, options));
  Unique<Planned> planned(new Planned(std::move(shapes), compiled));
  Vector<qir::Bytes> segments(given.begin(), given.begin() + static_cast<std::ptrdiff_t>(compiled.kept_segments));
  segments.push_back(planned->packed.bytes());
  segments.push_back(planned->subgraph_constants.bytes());
  QR_ASSIGN_OR_RETURN(planned->plan, read_blob(planned->blob.bytes(), segments));
  planned->execution = make_unique<Execution>(*planned->plan);
  if (plans_.size() == kPlansKept) plans_.erase(plans_.begin());
  plans_.push_back(std::move(planned));
  return plans_.back().get();
}

Status TailExecution::run(std::span<const qr_io_buffer> inputs, std::span<qr_io_buffer> outputs,
                          const qr_run_request &request, const qr_host &host, std::uint64_t *events) {
  const LoadedTail::Piece &telling = tail_.telling, &rest = tail_.rest;
  const auto start = [&](const LoadedTail::Piece &piece, Vector<qr_io_buffer> &reads, Vector<qr_io_buffer> &writes) {
    for (std::size_t i = 0; i < reads.size(); ++i)
      reads[i] = piece.reads[i].made ? telling_outputs_[piece.reads[i].index] : inputs[piece.reads[i].index];
    for (std::size_t i = 0; i < writes.size(); ++i) {
      writes[i] = {};
      writes[i].wanted = 1;
      if (piece.part.places[i] != qir::kAbsent) writes[i] = outputs[static_cast<std::size_t>(piece.part.places[i])];
    }
  };
  const auto finish = [&](const LoadedTail::Piece &piece, const Vector<qr_io_buffer> &writes) {
    for (std::size_t i = 0; i < writes.size(); ++i) {
      if (piece.part.places[i] == qir::kAbsent) continue;
      qr_io_buffer &to = outputs[static_cast<std::size_t>(piece.part.places[i])];
      void *const given = to.data;
      const std::uint32_t wanted = to.wanted;
      to = writes[i];
      to.wanted = wanted;
      if (!wanted) to.data = given;
    }
  };
  start(telling, telling_inputs_, telling_outputs_);
  for (qr_io_buffer &made : telling_outputs_) {  // the rest may read what the caller does not want
    if (!made.wanted) made.data = nullptr, made.wanted = 1;
  }
  QR_RETURN_IF_ERROR(run_part(telling_, telling_inputs_, telling_outputs_, request, host, events));
  finish(telling, telling_outputs_);
  if (rest_outputs_.empty()) return {};
  for (qr_io_buffer &made : telling_outputs_) made.size_bytes = made.used_bytes;
  start(rest, rest_inputs_, rest_outputs_);
  if (!worth_a_plan()) {
    QR_RETURN_IF_ERROR(run_part(rest_, rest_inputs_, rest_outputs_, request, host, events));
  } else {
    QR_ASSIGN_OR_RETURN(Planned * planned, plan_for());
    qr_run_request inner = request;
    inner.inputs = rest_inputs_.data(), inner.input_count = rest_inputs_.size();
    inner.outputs = rest_outputs_.data(), inner.output_count = rest_outputs_.size();
    QR_RETURN_IF_ERROR(planned->execution->run(inner, host, events));
  }
  finish(rest, rest_outputs_);
  return {};
}

}  // namespace quarry::cpu
