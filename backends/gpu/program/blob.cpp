// SPDX-License-Identifier: Apache-2.0
#include "backends/gpu/program/blob.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"

namespace quarry::gpu {

namespace {

constexpr char kMagic[8] = {'Q', 'R', 'G', 'P', 'U', 'P', 'L', 'N'};
constexpr std::uint32_t kMostIo = 1u << 16;

struct Header {
  char magic[8];
  std::uint32_t version, header_bytes;
  std::uint64_t weights_bytes, io_bytes, source_hash, binary_hash, binary_bytes;
  std::uint64_t region_bytes;  // of its QIR; 0: there is none
  std::uint32_t values, operands, steps, numbers, code, names, paths, pieces, inputs, outputs, device;
  std::uint32_t region_nodes, region_inputs, region_outputs, region_reads, region_writes, region_segment,
      region_is_range;
};
struct IoRow {
  std::uint32_t dtype, rank;
  std::int64_t dims[qir::kMaxRank];
  std::uint32_t name, reserved;
};

class Writer {
 public:
  void put(const void *data, std::size_t size) {
    const auto *const bytes = static_cast<const std::uint8_t *>(data);
    if (size > 0) out_.insert(out_.end(), bytes, bytes + size);
  }
  template <class T>
  void table(const Vector<T> &rows) {
    put(rows.data(), rows.size() * sizeof(T));
  }
  Vector<std::uint8_t> take() { return std::move(out_); }

 private:
  Vector<std::uint8_t> out_;
};

Status bad(const char *what) { return Status::error(ErrorId::backend_bad_blob, format("gpu blob: found %s", what)); }

class Reader {
 public:
  explicit Reader(qir::Bytes bytes) : at_(static_cast<const std::uint8_t *>(bytes.data)), left_(bytes.size) {}
  bool take(void *to, std::uint64_t size) {
    if (size > left_) return false;
    if (size > 0) std::memcpy(to, at_, size);
    at_ += size, left_ -= size;
    return true;
  }
  template <class T>
  bool table(Vector<T> &rows, std::uint32_t count) {
    if (std::uint64_t{count} * sizeof(T) > left_) return false;
    rows.resize(count);
    return take(rows.data(), std::uint64_t{count} * sizeof(T));
  }
  std::uint64_t left() const noexcept { return left_; }

 private:
  const std::uint8_t *at_;
  std::uint64_t left_;
};

Status check_value(const Plan &plan, const Value &value, std::span<const qir::Bytes> segments) {
  switch (value.storage) {
    case StorageKind::Arena:
      if (value.bytes == 0 && plan.pieces.empty()) return {};
      if (value.index >= plan.pieces.size() || value.offset % kAlign != 0 ||
          !range_fits(value.offset, value.bytes, plan.pieces[value.index]))
        return bad("a value outside its memory");
      return {};
    case StorageKind::Constant:
      if (value.bytes == 0) return {};
      if (value.index >= segments.size() || !range_fits(value.offset, value.bytes, segments[value.index].size))
        return bad("a constant outside its segment");
      return {};
    case StorageKind::Input:
    case StorageKind::Output: {
      const Vector<Io> &list = value.storage == StorageKind::Input ? plan.inputs : plan.outputs;
      if (value.index >= list.size()) return bad("an input or output that is not there");
      const Io &io = list[value.index];
      const auto count = element_count(io.shape.data(), io.shape.size());
      if (!count || packed_size(io.dtype, *count) != value.bytes) return bad("an input or output of another size");
      return {};
    }
  }
  return bad("a value of no place");
}

Status check_step(const Plan &plan, const Step &step, Vector<bool> &written) {
  Vector<StepOperand> operands;
  Form form;
  if (!form_of(plan, step, operands, form)) return bad("a step outside its tables");
  Bounds bounds;
  QR_RETURN_IF_ERROR(find_bounds(form, bounds));
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Value &value = plan.values[plan.operands[step.first_operand + i].value];
    const auto bytes = packed_size(operands[i].dtype, operands[i].offset + bounds.ranges[i].high + 1);
    if (!bytes || *bytes > value.bytes) return bad("an operand that reaches behind its value");
    const bool is_result = i + 1 == operands.size();
    if (is_result && (value.storage == StorageKind::Constant || value.storage == StorageKind::Input))
      return bad("a step that writes what is given");
    if (is_result) written[plan.operands[step.first_operand + i].value] = true;
  }
  for (const std::uint32_t text : {step.name, step.op, step.shapes, step.fused})
    if (text >= plan.names.size()) return bad("a text outside its table");
  return {};
}

bool is_same(const Io &a, const Io &b) { return a.dtype == b.dtype && a.shape == b.shape; }

// What goes from where to where; the dynamic region's own graph is read where it is loaded (dynamic_region.h).
Status check_region(const Plan &plan, const DynamicRegion &region, std::span<const qir::Bytes> segments) {
  if (region.qir.empty()) {
    if (!region.inputs.empty() || !region.outputs.empty() || !region.sources.empty() || !region.reads.empty() ||
        !region.writes.empty())
      return bad("parts of a dynamic region that is not there");
    return {};
  }
  if (region.segment >= segments.size()) return bad("a dynamic region without its constants");
  for (const std::int32_t source : region.sources)
    if (source < qir::kNoSource || source >= std::ssize(plan.paths))
      return bad("a node of the dynamic region that is none");
  for (std::size_t i = 0; i < plan.inputs.size(); ++i)
    if (region.plan_inputs[i] >= region.inputs.size() || !is_same(plan.inputs[i], region.inputs[region.plan_inputs[i]]))
      return bad("an input that is not the model's");
  Vector<bool> made(region.outputs.size(), false);
  const auto make = [&](std::uint32_t output) {
    if (output >= made.size() || made[output]) return false;
    made[output] = true;
    return true;
  };
  for (std::size_t i = 0; i < plan.outputs.size(); ++i) {
    const std::uint32_t to = region.plan_outputs[i];
    if (to != kRegionOnly && (!make(to) || !is_same(plan.outputs[i], region.outputs[to])))
      return bad("an output that is not the model's");
  }
  for (const std::uint32_t to : region.writes)
    if (!make(to)) return bad("an output of the dynamic region that is not the model's");
  if (!std::ranges::all_of(made, [](bool is) { return is; })) return bad("an output that nothing makes");
  for (const std::uint32_t from : region.reads)
    if (from >= region.inputs.size() + plan.outputs.size()) return bad("an operand of the dynamic region that is none");
  return {};
}

}  // namespace

Vector<std::uint8_t> write_blob(const Blob &blob) {
  const Plan &plan = blob.plan;
  Vector<char> names = plan.names;
  const auto text = [&](std::string_view view) {
    const auto at = static_cast<std::uint32_t>(names.size());
    names.insert(names.end(), view.begin(), view.end());
    names.push_back('\0');
    return at;
  };
  const DynamicRegion &region = blob.region;
  Vector<IoRow> io;
  for (const auto *list : {&plan.inputs, &plan.outputs, &region.inputs, &region.outputs})
    for (const Io &row : *list) {
      IoRow &to = io.emplace_back();
      to = {static_cast<std::uint32_t>(row.dtype), static_cast<std::uint32_t>(row.shape.size()), {}, text(row.name), 0};
      std::ranges::copy(row.shape, to.dims);
    }
  const auto count = [](const auto &rows) { return static_cast<std::uint32_t>(rows.size()); };
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kBlobVersion, header.header_bytes = sizeof(Header);
  header.weights_bytes = blob.weights_bytes, header.io_bytes = blob.io_bytes;
  header.source_hash = blob.source_hash, header.binary_hash = blob.binary_hash, header.binary_bytes = blob.binary_bytes;
  header.device = text(blob.device);
  header.values = count(plan.values), header.operands = count(plan.operands), header.steps = count(plan.steps);
  header.numbers = count(plan.numbers), header.code = count(plan.code), header.names = count(names);
  header.paths = count(plan.paths), header.pieces = count(plan.pieces);
  header.inputs = count(plan.inputs), header.outputs = count(plan.outputs);
  header.region_bytes = region.qir.size(), header.region_nodes = count(region.sources),
  header.region_segment = region.segment, header.region_is_range = region.is_range;
  header.region_inputs = count(region.inputs), header.region_outputs = count(region.outputs);
  header.region_reads = count(region.reads), header.region_writes = count(region.writes);
  Writer writer;
  writer.put(&header, sizeof header);
  writer.table(plan.values), writer.table(plan.operands), writer.table(plan.steps), writer.table(plan.code);
  writer.table(plan.pieces), writer.table(plan.paths), writer.table(io), writer.table(plan.numbers);
  if (!region.qir.empty())
    for (const auto *list : {&region.plan_inputs, &region.plan_outputs, &region.reads, &region.writes})
      writer.table(*list);
  writer.table(region.sources), writer.table(names), writer.table(region.qir);
  return writer.take();
}

namespace {

// Inputs and outputs of the plan, then those of its dynamic region.
Status read_io(const Header &header, const Vector<IoRow> &io, Plan &plan, DynamicRegion &region) {
  for (std::size_t i = 0; i < io.size(); ++i) {
    const IoRow &row = io[i];
    const auto dtype = dtype_from_number(row.dtype);
    if (!dtype || row.rank > qir::kMaxRank || row.name >= plan.names.size())
      return bad("an input or output that is none");
    for (std::uint32_t d = 0; d < row.rank; ++d)
      if (row.dims[d] < (i < header.inputs + header.outputs ? 0 : qir::kUnknownDim))
        return bad("a dimension that is none");
    const std::size_t plans = header.inputs + header.outputs;
    (i < header.inputs                  ? plan.inputs
     : i < plans                        ? plan.outputs
     : i < plans + header.region_inputs ? region.inputs
                                        : region.outputs)
        .push_back({*dtype, qir::Shape(row.dims, row.dims + row.rank), plan.names.data() + row.name});
  }
  return {};
}

}  // namespace

Result<Blob> read_blob(qir::Bytes bytes, std::span<const qir::Bytes> segments) {
  Reader reader(bytes);
  Header header;
  if (!reader.take(&header, sizeof header) || std::memcmp(header.magic, kMagic, sizeof kMagic) != 0)
    return bad("another kind of blob, expected a plan of the gpu backend");
  if (header.version != kBlobVersion || header.header_bytes != sizeof(Header)) return bad("another version");
  for (const std::uint32_t count : {header.inputs, header.outputs, header.region_inputs, header.region_outputs})
    if (count > kMostIo) return bad("more inputs or outputs than models have");
  Blob blob;
  Plan &plan = blob.plan;
  DynamicRegion &region = blob.region;
  const bool has_region = header.region_bytes > 0;
  Vector<IoRow> io;
  if (!reader.table(plan.values, header.values) || !reader.table(plan.operands, header.operands) ||
      !reader.table(plan.steps, header.steps) || !reader.table(plan.code, header.code) ||
      !reader.table(plan.pieces, header.pieces) || !reader.table(plan.paths, header.paths) ||
      !reader.table(io, header.inputs + header.outputs + header.region_inputs + header.region_outputs) ||
      !reader.table(plan.numbers, header.numbers) ||
      !reader.table(region.plan_inputs, has_region ? header.inputs : 0) ||
      !reader.table(region.plan_outputs, has_region ? header.outputs : 0) ||
      !reader.table(region.reads, header.region_reads) || !reader.table(region.writes, header.region_writes) ||
      !reader.table(region.sources, header.region_nodes) || !reader.table(plan.names, header.names) ||
      header.region_bytes != reader.left() || header.region_bytes > UINT32_MAX ||
      !reader.table(region.qir, static_cast<std::uint32_t>(header.region_bytes)))
    return bad("tables that do not fill it");
  if (plan.names.empty() || plan.names.back() != '\0' || header.device >= plan.names.size())
    return bad("texts without an end");
  blob.weights_bytes = header.weights_bytes, blob.io_bytes = header.io_bytes;
  blob.device = plan.names.data() + header.device;
  blob.source_hash = header.source_hash, blob.binary_hash = header.binary_hash, blob.binary_bytes = header.binary_bytes;
  if (blob.binary_bytes > 0 && (segments.empty() || segments.back().size != blob.binary_bytes))
    return bad("a binary of another size");
  QR_RETURN_IF_ERROR(read_io(header, io, plan, region));
  region.segment = header.region_segment, region.is_range = header.region_is_range != 0;
  QR_RETURN_IF_ERROR(check_region(plan, region, segments));
  for (const std::uint64_t piece : plan.pieces)
    if (piece == 0 || piece > (std::uint64_t{1} << 40)) return bad("a piece of memory of no size");
  for (const Value &value : plan.values) QR_RETURN_IF_ERROR(check_value(plan, value, segments));
  for (const NodePathRow &row : plan.paths)
    if (row.text >= plan.names.size()) return bad("a text outside its table");
  Vector<bool> written(plan.values.size(), false);
  for (const Step &step : plan.steps) QR_RETURN_IF_ERROR(check_step(plan, step, written));
  // Each output is made.
  Vector<bool> made(plan.outputs.size(), false);
  for (std::size_t v = 0; v < plan.values.size(); ++v)
    if (plan.values[v].storage == StorageKind::Output && (written[v] || plan.values[v].bytes == 0))
      made[plan.values[v].index] = true;
  if (!std::ranges::all_of(made, [](bool is) { return is; })) return bad("an output that no step makes");
  return blob;
}

}  // namespace quarry::gpu
