// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/program/blob.h"

#include <algorithm>

#include "base/checked.h"
#include "base/stop.h"
#include "kernels/reference/widen.h"

namespace quarry::cpu {

namespace {

constexpr char kMagic[8] = {'Q', 'R', 'C', 'P', 'U', 'P', 'L', 'N'};

struct Header {
  char magic[8];
  std::uint32_t version, header_bytes;
  char isa[16];
  std::uint64_t weights_bytes, arena_bytes, io_bytes, scratch_bytes, shared_bytes;
  std::uint64_t region_bytes;  // of its QIR; 0: there is none
  std::uint32_t kept_segments, values, steps, operands, subgraphs, inputs, outputs, params_bytes, names_bytes, paths;
  std::uint32_t region_nodes, region_winograd, region_weights, region_f32_gemm;
  // Of a range: whether it is one, the table of its packed weights, and what a plan of it takes.
  std::uint32_t is_range, range_weights_bytes;
  std::uint64_t range_arena_bytes, range_scratch_bytes;
};
struct RangeWeightRow {  // its key follows
  std::uint64_t offset, bytes;
  std::uint32_t key_bytes, reserved;
};
struct IoRow {
  std::uint32_t dtype, rank;
  std::int64_t dims[qir::kMaxRank];
  std::uint32_t name, reserved;
};
struct SubgraphRow {
  std::uint64_t bytes;
  std::uint32_t inputs, outputs;
};

class Writer {
 public:
  // A caller who is to stop has no use for it: he asks too.
  void put(const void *data, std::size_t size) {
    if (stop_asked()) return;
    const std::uint8_t *bytes = static_cast<const std::uint8_t *>(data);
    if (size > 0) out_.insert(out_.end(), bytes, bytes + size);
    out_.resize((out_.size() + kAlign - 1) / kAlign * kAlign);
  }
  template <class T>
  void table(const Vector<T> &rows) {
    put(rows.data(), rows.size() * sizeof(T));
  }
  void reserve(std::size_t bytes) { out_.reserve(bytes); }  // about: to move it to a larger place takes long
  Vector<std::uint8_t> take() { return std::move(out_); }

 private:
  Vector<std::uint8_t> out_;
};

Status bad(const char *what, std::uint64_t found, const char *expected) {
  return Status::error(ErrorId::backend_bad_blob,
                       format("cpu blob: %s: found %llu, expected %s", what, found, expected));
}

// Walks the tables in the order in which Writer put them.
class Reader {
 public:
  explicit Reader(qir::Bytes blob) : at_(static_cast<const std::uint8_t *>(blob.data)), left_(blob.size) {}
  Result<const std::uint8_t *> take(std::uint64_t size) {
    std::uint64_t padded;
    if (!checked_align_up(size, kAlign, &padded) || padded > left_)
      return Status::error(ErrorId::backend_bad_blob,
                           format("cpu blob: found %llu bytes, expected %llu more", left_, size));
    const std::uint8_t *const part = at_;
    at_ += padded, left_ -= padded;
    return part;
  }
  template <class T>
  Result<std::span<const T>> table(std::uint32_t count) {
    QR_ASSIGN_OR_RETURN(const std::uint8_t *part, take(std::uint64_t{count} * sizeof(T)));
    return std::span<const T>(reinterpret_cast<const T *>(part), count);
  }
  std::uint64_t left() const noexcept { return left_; }

 private:
  const std::uint8_t *at_;
  std::uint64_t left_;
};

Result<const Header *> read_header(qir::Bytes blob, Reader &reader) {
  if (reinterpret_cast<std::uintptr_t>(blob.data) % 8 != 0)
    return Status::error(ErrorId::backend_bad_blob, "cpu blob: found it at an odd address, expected 8-byte alignment");
  QR_ASSIGN_OR_RETURN(const std::uint8_t *part, reader.take(sizeof(Header)));
  const Header *header = reinterpret_cast<const Header *>(part);
  if (std::memcmp(header->magic, kMagic, sizeof kMagic) != 0)
    return Status::error(ErrorId::backend_bad_blob,
                         "cpu blob: found another kind of blob, expected a plan of the cpu backend");
  if (header->version != kBlobVersion) return bad("version", header->version, format("%u", kBlobVersion).c_str());
  if (header->header_bytes != sizeof(Header)) return bad("header bytes", header->header_bytes, "those of this version");
  return header;
}

// Kernels read packed weights with aligned loads.
bool reads_packed(std::uint32_t kernel) {
  using kernels::Kernel;
  return kernel == static_cast<std::uint32_t>(Kernel::ConvF32) ||
         kernel == static_cast<std::uint32_t>(Kernel::DepthwiseF32) ||
         kernel == static_cast<std::uint32_t>(Kernel::ConvInt) ||
         kernel == static_cast<std::uint32_t>(Kernel::BlockF32);
}

Header header_of(const CompiledPlan &compiled, std::size_t names_bytes) {
  const Plan &plan = compiled.plan;
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kBlobVersion, header.header_bytes = sizeof(Header);
  std::string_view(plan.isa->name).copy(header.isa, sizeof header.isa - 1);
  header.weights_bytes = compiled.weights_bytes, header.arena_bytes = plan.arena_bytes,
  header.io_bytes = compiled.io_bytes;
  header.scratch_bytes = plan.scratch_bytes, header.shared_bytes = plan.shared_bytes;
  header.kept_segments = static_cast<std::uint32_t>(compiled.kept_segments);
  header.values = static_cast<std::uint32_t>(plan.values.size()),
  header.steps = static_cast<std::uint32_t>(plan.steps.size());
  header.operands = static_cast<std::uint32_t>(plan.operands.size()),
  header.subgraphs = static_cast<std::uint32_t>(plan.subgraphs.size());
  header.inputs = static_cast<std::uint32_t>(plan.inputs.size()),
  header.outputs = static_cast<std::uint32_t>(plan.outputs.size());
  header.params_bytes = static_cast<std::uint32_t>(plan.params.size()),
  header.names_bytes = static_cast<std::uint32_t>(names_bytes);
  header.paths = static_cast<std::uint32_t>(plan.paths.size());
  header.region_bytes = plan.region.qir.size();
  header.region_nodes = static_cast<std::uint32_t>(plan.region.sources.size());
  header.region_winograd = compiled.winograd ? 1 : 0,
  header.region_weights = static_cast<std::uint32_t>(compiled.weights);
  header.region_f32_gemm = static_cast<std::uint32_t>(compiled.f32_gemm);
  header.is_range = compiled.is_range ? 1 : 0;
  header.range_arena_bytes = compiled.range_arena_bytes, header.range_scratch_bytes = compiled.range_scratch_bytes;
  return header;
}

Vector<std::uint8_t> range_table(const CompiledPlan &compiled) {
  Vector<std::uint8_t> out;
  for (const CompiledPlan::RangeWeight &weight : compiled.range_weights) {
    const RangeWeightRow row{weight.offset, weight.bytes, static_cast<std::uint32_t>(weight.key.size()), 0};
    const auto *const bytes = reinterpret_cast<const std::uint8_t *>(&row);
    out.insert(out.end(), bytes, bytes + sizeof row);
    out.insert(out.end(), weight.key.begin(), weight.key.end());
  }
  return out;
}

}  // namespace

Vector<std::uint8_t> write_blob(const CompiledPlan &compiled) {
  const Plan &plan = compiled.plan;
  Vector<char> names = plan.names;
  Vector<IoRow> io;
  for (const auto *list : {&plan.inputs, &plan.outputs}) {
    for (const Io &row : *list) {
      IoRow &to = io.emplace_back();
      to = {static_cast<std::uint32_t>(row.dtype),
            static_cast<std::uint32_t>(row.shape.size()),
            {},
            static_cast<std::uint32_t>(names.size()),
            0};
      std::copy(row.shape.begin(), row.shape.end(), to.dims);
      names.insert(names.end(), row.name.begin(), row.name.end());
      names.push_back('\0');
    }
  }
  Vector<SubgraphRow> subgraphs;
  for (const ReferenceSubgraph &subgraph : plan.subgraphs)
    subgraphs.push_back({subgraph.qir.size(), subgraph.inputs, subgraph.outputs});
  Header header = header_of(compiled, names.size());
  const Vector<std::uint8_t> range = range_table(compiled);
  header.range_weights_bytes = static_cast<std::uint32_t>(range.size());
  Writer writer;
  writer.reserve(plan.values.size() * sizeof plan.values[0] + plan.steps.size() * sizeof plan.steps[0] +
                 plan.notes.size() * sizeof plan.notes[0] + plan.operands.size() * sizeof plan.operands[0] +
                 plan.params.size() + names.size() + plan.paths.size() * sizeof plan.paths[0] +
                 io.size() * sizeof(IoRow) + 4096);
  writer.put(&header, sizeof header);
  writer.table(plan.values);
  writer.table(plan.steps);
  writer.table(plan.notes);
  writer.table(plan.operands);
  writer.table(plan.params);
  writer.table(names);
  writer.table(plan.paths);
  writer.table(io);
  writer.table(subgraphs);
  for (const ReferenceSubgraph &subgraph : plan.subgraphs) writer.table(subgraph.qir);
  writer.table(plan.region.sources);
  writer.table(plan.region.qir);
  writer.table(range);
  return writer.take();
}

Result<BlobFigures> read_figures(qir::Bytes blob) {
  Reader reader(blob);
  QR_ASSIGN_OR_RETURN(const Header *header, read_header(blob, reader));
  BlobFigures figures{header->weights_bytes, header->arena_bytes, header->io_bytes,
                      header->scratch_bytes + header->shared_bytes};
  if (!checked_add(figures.arena_bytes, header->range_arena_bytes, &figures.arena_bytes) ||
      !checked_add(figures.scratch_bytes, header->range_scratch_bytes, &figures.scratch_bytes))
    return bad("bytes of memory", header->range_arena_bytes, "those of a plan");
  return figures;
}

namespace {

class Loader {
 public:
  Loader(qir::Bytes blob, std::span<const qir::Bytes> segments) : blob_(blob), segments_(segments), reader_(blob) {}
  Result<Unique<LoadedPlan>> run();

 private:
  Status read_io();
  Status read_values();
  std::span<const qir::Bytes> subgraph_segment() const;
  Status read_subgraph(const SubgraphRow &row);
  Status read_region();
  Status read_range(LoadedRegion &region);
  Status check_region_step();
  Status check_outputs() const;
  Status check_step(const Step &step);
  Status check_piece_step(const Step &step);
  bool is_name(std::uint32_t offset) const noexcept { return offset < plan_->names.size(); }

  const qir::Bytes blob_;
  const std::span<const qir::Bytes> segments_;
  Reader reader_;
  const Header *header_ = nullptr;
  Unique<LoadedPlan> plan_;
  std::span<const IoRow> io_;
  Vector<Io> region_outputs_;
};

Status Loader::read_io() {
  for (std::size_t i = 0; i < io_.size(); ++i) {
    const IoRow &row = io_[i];
    const auto dtype = dtype_from_number(row.dtype);
    if (!dtype || row.rank > qir::kMaxRank || !is_name(row.name))
      return bad("type, rank or name of input or output", i, "valid ones");
    Io io{*dtype, qir::Shape(row.dims, row.dims + row.rank), String(plan_->name(row.name))};
    for (const std::int64_t extent : io.shape)
      if (extent < qir::kUnknownDim)
        return bad("dimension of input or output", static_cast<std::uint64_t>(extent), "-1 or more");
    (i < header_->inputs ? plan_->inputs : plan_->outputs).push_back(std::move(io));
  }
  return {};
}

Status Loader::read_values() {
  plan_->constants.assign(plan_->values.size(), nullptr);
  for (std::size_t v = 0; v < plan_->values.size(); ++v) {
    const Value &value = plan_->values[v];
    const auto io_bytes = [&](const Vector<Io> &list) -> std::optional<std::uint64_t> {
      if (value.index >= list.size()) return std::nullopt;
      const Io &io = list[value.index];
      if (std::any_of(io.shape.begin(), io.shape.end(), [](std::int64_t extent) { return extent < 0; }))
        return value.bytes == 0 ? std::optional<std::uint64_t>(0) : std::nullopt;
      const auto count = element_count(io.shape.data(), io.shape.size());
      return count ? packed_size(io.dtype, *count) : std::nullopt;
    };
    switch (value.storage) {
      case StorageKind::Arena:
        if (value.bytes > 0 &&
            (!range_fits(value.offset, value.bytes, plan_->arena_bytes) || value.offset % kAlign != 0))
          return bad("offset of value", value.offset, "one inside the arena");
        break;
      case StorageKind::Constant: {
        if (value.bytes == 0) break;
        if (value.index >= segments_.size()) return bad("segment of constant", value.index, "one that the blob has");
        const qir::Bytes &segment = segments_[value.index];
        if (!range_fits(value.offset, value.bytes, segment.size))
          return bad("offset of constant", value.offset, "one inside its segment");
        plan_->constants[v] = static_cast<const std::byte *>(segment.data) + value.offset;
        if (reinterpret_cast<std::uintptr_t>(plan_->constants[v]) % kAlign != 0)
          return bad("offset of constant", value.offset, "a multiple of 64");
        break;
      }
      case StorageKind::Input: {
        const auto bytes = io_bytes(plan_->inputs);
        if (!bytes || value.bytes > *bytes) return bad("bytes of input value", value.bytes, "those of the input");
        break;
      }
      case StorageKind::Output: {
        const auto bytes = io_bytes(plan_->outputs);
        if (!bytes || value.bytes != (plan_->region && plan_->region->gives(value.index) ? 0 : *bytes))
          return bad("bytes of output value", value.bytes, "those of the output");
        if (value.bytes > 0 && value.offset != kNoPlace &&
            (!range_fits(value.offset, value.bytes, plan_->arena_bytes) || value.offset % kAlign != 0))
          return bad("offset of output value", value.offset, "one inside the arena");
        break;
      }
      default: return bad("place of value", static_cast<std::uint64_t>(value.storage), "0 to 3");
    }
  }
  return {};
}

// Subgraphs have one segment of their own, behind the kept and the packed one.
std::span<const qir::Bytes> Loader::subgraph_segment() const {
  const std::size_t own = header_->kept_segments + std::size_t{1};
  return segments_.subspan(std::min(own, segments_.size()), own < segments_.size() ? 1 : 0);
}

Status Loader::read_subgraph(const SubgraphRow &row) {
  QR_ASSIGN_OR_RETURN(const std::uint8_t *bytes, reader_.take(row.bytes));
  const std::span<const qir::Bytes> given = subgraph_segment();
  Unique<LoadedPlan::LoadedSubgraph> subgraph(new LoadedPlan::LoadedSubgraph);
  QR_ASSIGN_OR_RETURN(subgraph->graph, qir::read_graph({bytes, row.bytes}, given.data(), given.size()));
  QR_RETURN_IF_ERROR(reference::widen_float16(subgraph->graph));
  QR_ASSIGN_OR_RETURN(subgraph->program, reference::Program::build(subgraph->graph));
  if (subgraph->graph.inputs.size() != row.inputs || subgraph->graph.outputs.size() != row.outputs)
    return bad("operands of a subgraph", row.inputs, "those of its graph");
  subgraph->bytes = {bytes, row.bytes};
  plan_->subgraphs.push_back(std::move(subgraph));
  return {};
}

Status Loader::read_region() {
  QR_ASSIGN_OR_RETURN(const std::span<const std::int32_t> sources, reader_.table<std::int32_t>(header_->region_nodes));
  QR_ASSIGN_OR_RETURN(const std::uint8_t *bytes, reader_.take(header_->region_bytes));
  if (header_->region_bytes == 0)
    return sources.empty() ? Status() : bad("nodes of the dynamic region", sources.size(), "none");
  plan_->region = make_unique<LoadedRegion>();
  LoadedRegion &region = *plan_->region;
  const auto is_range = header_->is_range != 0;
  if (is_range) {  // the graph's, that of packed weights, and that of what was copied
    const std::size_t own = header_->kept_segments + std::size_t{1};
    if (segments_.size() <= own) return bad("segments of a range", segments_.size(), "those of its graph and two more");
    region.constants.assign(segments_.begin(), segments_.begin() + static_cast<std::ptrdiff_t>(own + 1));
  } else {
    region.constants.assign(subgraph_segment().begin(), subgraph_segment().end());
  }
  QR_ASSIGN_OR_RETURN(qir::Graph graph, qir::read_graph({bytes, header_->region_bytes}, region.constants.data(),
                                                        region.constants.size()));
  if (graph.nodes.size() != sources.size())
    return bad("nodes of the dynamic region", sources.size(), "those of its graph");
  for (std::size_t n = 0; n < sources.size(); ++n) {
    if (sources[n] < qir::kNoSource || sources[n] >= static_cast<std::int64_t>(plan_->paths.size()))
      return bad("node of the dynamic region", static_cast<std::uint64_t>(sources[n]), "one of the graph");
    graph.nodes[n].source = sources[n];
  }
  if (header_->region_weights > static_cast<std::uint32_t>(WeightStorage::BF16))
    return bad("weights of the dynamic region", header_->region_weights, "0 to 2");
  if (header_->region_f32_gemm > static_cast<std::uint32_t>(F32Gemm::Split))
    return bad("multiplications of the dynamic region", header_->region_f32_gemm, "0 to 2");
  region.f32_gemm = static_cast<F32Gemm>(header_->region_f32_gemm);
  region.isa = plan_->isa, region.winograd = header_->region_winograd != 0;
  region.weights = static_cast<WeightStorage>(header_->region_weights);
  region.sources = plan_->paths.size();
  for (const std::int32_t id : graph.inputs) {
    const qir::Tensor &tensor = at(graph, id);
    region.inputs.push_back({tensor.dtype, tensor.shape, tensor.name});
  }
  for (const std::int32_t id : graph.outputs) region_outputs_.push_back({at(graph, id).dtype, at(graph, id).shape, {}});
  if (is_range) QR_RETURN_IF_ERROR(read_range(region));
  return dynamic::take_pieces(graph, region.pieces);
}

// What the weights are is not looked at, as with those of any plan; where they lie is.
Status Loader::read_range(LoadedRegion &region) {
  region.shared = quarry::make_unique<SharedWeights>(region.constants);
  QR_ASSIGN_OR_RETURN(const std::uint8_t *at, reader_.take(header_->range_weights_bytes));
  const qir::Bytes &packed = region.constants[header_->kept_segments];
  for (std::uint64_t left = header_->range_weights_bytes; left > 0;) {
    RangeWeightRow row;
    if (left < sizeof row) return bad("row of packed weights", left, "a whole one");
    std::memcpy(&row, at, sizeof row);
    at += sizeof row, left -= sizeof row;
    if (row.key_bytes > left) return bad("key of packed weights", row.key_bytes, "one inside the table");
    const bool fits = range_fits(row.offset, row.bytes, packed.size);
    const auto *const data = static_cast<const std::byte *>(packed.data) + (fits ? row.offset : 0);
    if (!fits || reinterpret_cast<std::uintptr_t>(data) % kAlign != 0)
      return bad("offset of packed weights", row.offset, "a multiple of 64 inside their segment");
    region.shared->add(String(reinterpret_cast<const char *>(at), row.key_bytes), {data, row.bytes});
    at += row.key_bytes, left -= row.key_bytes;
  }
  return {};
}

// The last step, and no other. Says which of the plan's outputs are the dynamic region's; those of unknown shape must
// be.
Status Loader::check_region_step() {
  for (std::size_t s = 0; s < plan_->steps.size(); ++s) {
    if ((plan_->steps[s].kernel == kRegionStep) != (plan_->region && s + 1 == plan_->steps.size()))
      return bad("step of the dynamic region", s, "the last one, where there is a dynamic region");
  }
  if (plan_->region) {
    if (plan_->steps.empty()) return bad("steps", 0, "that of the dynamic region");
    LoadedRegion &region = *plan_->region;
    const Step &step = plan_->steps.back();
    if (step.operand_count != region.inputs.size() + region_outputs_.size() ||
        !range_fits(step.first_operand, step.operand_count, plan_->operands.size()))
      return bad("operands of the dynamic region", step.operand_count, "those of its graph");
    for (std::size_t i = 0; i < step.operand_count; ++i) {
      const Operand &operand = plan_->operands[step.first_operand + i];
      if (operand.value >= plan_->values.size()) return bad("operand of the dynamic region", operand.value, "a value");
      const Value &value = plan_->values[operand.value];
      const bool reads = i < region.inputs.size();
      const Io &stated = reads ? region.inputs[i] : region_outputs_[i - region.inputs.size()];
      if (value.storage == (reads ? StorageKind::Input : StorageKind::Output)) {
        const Vector<Io> &list = reads ? plan_->inputs : plan_->outputs;
        if (value.index >= list.size() || list[value.index].dtype != stated.dtype ||
            list[value.index].shape != stated.shape || operand.offset != 0)
          return bad("operand of the dynamic region", operand.value, "an input or output of its type and shape");
        if (!reads && region.gives(value.index)) return bad("output of the dynamic region", value.index, "each once");
        if (reads) continue;
        region.outputs.push_back(value.index);
        region.given.resize(plan_->outputs.size());
        region.given[value.index] = true;
        continue;
      }
      const auto count = element_count(stated.shape.data(), stated.shape.size());
      const auto bytes = count && passes::known(stated.shape) ? packed_size(stated.dtype, *count) : std::nullopt;
      if (!reads || !bytes || !range_fits(operand.offset, *bytes, value.bytes))
        return bad("operand of the dynamic region", operand.value, "room for its tensor");
    }
  }
  for (std::size_t i = 0; i < plan_->outputs.size(); ++i)
    if (!passes::known(plan_->outputs[i].shape) && !(plan_->region && plan_->region->gives(i)))
      return bad("output of unknown shape", i, "one of the dynamic region");
  return {};
}

// Each output is some step's: the host is given what an operand points to.
Status Loader::check_outputs() const {
  Vector<bool> met(plan_->outputs.size(), false);
  for (const Step &step : plan_->steps)
    for (std::uint32_t o = 0; o < step.operand_count; ++o) {
      const Value &value = plan_->values[plan_->operands[step.first_operand + o].value];
      if (value.storage == StorageKind::Output) met[value.index] = true;
    }
  for (std::size_t i = 0; i < met.size(); ++i)
    if (!met[i]) return bad("output that no step writes", i, "none");
  return {};
}

Status Loader::check_piece_step(const Step &step) {
  if (step.params >= plan_->subgraphs.size()) return bad("subgraph", step.params, "one that the blob has");
  const LoadedPlan::LoadedSubgraph &subgraph = *plan_->subgraphs[step.params];
  const std::size_t inputs = subgraph.graph.inputs.size();
  if (step.operand_count != inputs + subgraph.graph.outputs.size())
    return bad("operands of a subgraph", step.operand_count, "those of its graph");
  for (std::size_t i = 0; i < step.operand_count; ++i) {
    const Operand &operand = plan_->operands[step.first_operand + i];
    const Value &value = plan_->values[operand.value];
    const qir::Tensor &tensor =
        at(subgraph.graph, i < inputs ? subgraph.graph.inputs[i] : subgraph.graph.outputs[i - inputs]);
    const auto count = element_count(tensor.shape.data(), tensor.shape.size());
    const auto bytes = count ? packed_size(tensor.dtype, *count) : std::nullopt;
    if (!bytes || !range_fits(operand.offset, *bytes, value.bytes))
      return bad("offset of operand", operand.offset, "room for its tensor");
    if (i >= inputs && value.storage != StorageKind::Arena && value.storage != StorageKind::Output)
      return bad("place of a result", static_cast<std::uint64_t>(value.storage), "arena or output");
  }
  return {};
}

Status Loader::check_step(const Step &step) {
  if (!range_fits(step.first_operand, step.operand_count, plan_->operands.size()))
    return bad("operands of step", step.first_operand, "a range of the table");
  if (!is_name(step.name) || !is_name(step.op)) return bad("name of step", step.name, "one of the names");
  if (step.source < qir::kNoSource || step.source >= static_cast<std::int64_t>(plan_->paths.size()))
    return bad("node of step", static_cast<std::uint32_t>(step.source), "one of the graph, or none");
  if (step.kernel == kRegionStep) return {};
  if (step.kernel == kReferenceStep) return check_piece_step(step);
  const kernels::KernelRow *row = kernels::kernel_row(step.kernel);
  if (!row) return bad("kernel", step.kernel, "one that this release has");
  if (step.params % 8 != 0 || !range_fits(step.params, row->params_bytes, header_->params_bytes))
    return bad("parameters of step", step.params, "a range of the table");
  return check_kernel_step(*plan_, step);
}

Result<Unique<LoadedPlan>> Loader::run() {
  QR_ASSIGN_OR_RETURN(header_, read_header(blob_, reader_));
  plan_ = make_unique<LoadedPlan>();
  plan_->isa = kernels::find_isa(std::string_view(header_->isa, strnlen(header_->isa, sizeof header_->isa)));
  if (!plan_->isa || !plan_->isa->usable())
    return Status::error(
        ErrorId::backend_bad_blob,
        format("cpu blob: found it packed for '%.16s', expected an instruction set of this processor", header_->isa));
  plan_->arena_bytes = header_->arena_bytes, plan_->scratch_bytes = header_->scratch_bytes,
  plan_->shared_bytes = header_->shared_bytes;
  constexpr std::uint64_t kMost = std::uint64_t{1} << 46;
  if (plan_->arena_bytes > kMost || plan_->scratch_bytes > kMost || plan_->shared_bytes > kMost ||
      plan_->scratch_bytes % kAlign != 0)
    return bad("bytes of memory", plan_->arena_bytes, "at most 2^46");
  QR_ASSIGN_OR_RETURN(plan_->values, reader_.table<Value>(header_->values));
  QR_ASSIGN_OR_RETURN(plan_->steps, reader_.table<Step>(header_->steps));
  QR_ASSIGN_OR_RETURN(plan_->notes, reader_.table<StepNote>(header_->steps));
  QR_ASSIGN_OR_RETURN(plan_->operands, reader_.table<Operand>(header_->operands));
  // Those of no step too, which steps that were joined leave behind: an execution goes through them all.
  for (const Operand &operand : plan_->operands)
    if (operand.value >= plan_->values.size()) return bad("value of operand", operand.value, "one of the table");
  QR_ASSIGN_OR_RETURN(plan_->params, reader_.take(header_->params_bytes));
  QR_ASSIGN_OR_RETURN(const std::uint8_t *names, reader_.take(header_->names_bytes));
  plan_->names = {reinterpret_cast<const char *>(names), header_->names_bytes};
  if (plan_->names.empty() || plan_->names.back() != '\0')
    return bad("names", header_->names_bytes, "texts that end in NUL");
  QR_ASSIGN_OR_RETURN(plan_->paths, reader_.table<NodePathRow>(header_->paths));
  for (const NodePathRow &row : plan_->paths)
    if (!is_name(row.text) || row.path < NodePath::Native || row.path > NodePath::None)
      return bad("path of a node", row.text, "a path and one of the names");
  for (const StepNote &note : plan_->notes)
    if (!is_name(note.shapes) || !is_name(note.fused)) return bad("note of a step", note.shapes, "names");
  std::uint32_t io;
  if (!checked_add(header_->inputs, header_->outputs, &io)) return bad("inputs", header_->inputs, "fewer");
  QR_ASSIGN_OR_RETURN(io_, reader_.table<IoRow>(io));
  QR_ASSIGN_OR_RETURN(const std::span<const SubgraphRow> subgraphs, reader_.table<SubgraphRow>(header_->subgraphs));
  QR_RETURN_IF_ERROR(read_io());
  for (const SubgraphRow &row : subgraphs) {
    QR_RETURN_IF_ERROR(stop_status("load"));
    QR_RETURN_IF_ERROR(read_subgraph(row));
  }
  QR_RETURN_IF_ERROR(read_region());
  if (reader_.left() != 0) return bad("bytes at the end", reader_.left(), "none");
  QR_RETURN_IF_ERROR(check_region_step());
  QR_RETURN_IF_ERROR(read_values());
  for (const Step &step : plan_->steps) {
    QR_RETURN_IF_ERROR(stop_status("load"));
    QR_RETURN_IF_ERROR(check_step(step));
  }
  QR_RETURN_IF_ERROR(check_outputs());
  return std::move(plan_);
}

}  // namespace

Result<Unique<LoadedPlan>> read_blob(qir::Bytes blob, std::span<const qir::Bytes> segments) {
  return Loader(blob, segments).run();
}

Status check_kernel_step(const LoadedPlan &plan, const Step &step) {
  kernels::Needs needs;
  QR_RETURN_IF_ERROR(kernels::kernel_row(step.kernel)->check(plan.params + step.params, *plan.isa, needs));
  if (needs.operand_count != step.operand_count)
    return bad("operands of step", step.operand_count, "as many as its parameters say");
  if (needs.scratch_bytes > plan.scratch_bytes || needs.shared_bytes > plan.shared_bytes)
    return bad("scratch of step", needs.scratch_bytes, "no more than the header says");
  for (std::uint32_t i = 0; i < step.operand_count; ++i) {
    const Operand &operand = plan.operands[step.first_operand + i];
    const Value &value = plan.values[operand.value];
    if (!range_fits(operand.offset, needs.operand_bytes[i], value.bytes))
      return bad("offset of operand", operand.offset, "room for what its step reads or writes");
    if (needs.written[i] && value.storage != StorageKind::Arena && value.storage != StorageKind::Output)
      return bad("place of a result", static_cast<std::uint64_t>(value.storage), "arena or output");
    // The compiler aligns whatever it packs; of what stands elsewhere, kernels expect nothing.
    if (reads_packed(step.kernel) && value.storage == StorageKind::Constant && operand.offset % kAlign != 0)
      return bad("offset of packed weights", operand.offset, "a multiple of 64");
    if (reads_packed(step.kernel) && i == 1) {
      if (value.storage != StorageKind::Constant && value.storage != StorageKind::Arena)
        return bad("place of packed weights", static_cast<std::uint64_t>(value.storage), "a segment, or the arena");
      if (operand.offset % kAlign != 0) return bad("offset of packed weights", operand.offset, "a multiple of 64");
    }
  }
  return {};
}

}  // namespace quarry::cpu
