// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/program/blob.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backends/htp/program/io_binding.h"
#include "base/checked.h"

namespace quarry::htp {

namespace {

constexpr char kMagic[8] = {'Q', 'R', 'H', 'T', 'P', 'B', 'L', 'B'};

class BlobWriter {
 public:
  void bytes(const void *data, std::size_t size) {
    const auto *const from = static_cast<const std::uint8_t *>(data);
    if (size > 0) out_.insert(out_.end(), from, from + size);
  }
  void u32(std::uint32_t value) { bytes(&value, sizeof value); }
  void u64(std::uint64_t value) { bytes(&value, sizeof value); }
  void text(std::string_view value) {
    u32(static_cast<std::uint32_t>(value.size()));
    bytes(value.data(), value.size());
  }
  void tensors(const Vector<BlobTensor> &list) {
    u32(static_cast<std::uint32_t>(list.size()));
    for (const BlobTensor &tensor : list) {
      text(tensor.name);
      u32(static_cast<std::uint32_t>(tensor.dtype));
      u32(static_cast<std::uint32_t>(tensor.shape.size()));
      for (const std::int64_t extent : tensor.shape) u64(static_cast<std::uint64_t>(extent));
      u32(static_cast<std::uint32_t>(tensor.storage));
      if (tensor.storage == BlobStorage::Constant) block(tensor.constant);
      if (tensor.storage != BlobStorage::Device) continue;
      u32(tensor.id);
      u32(static_cast<std::uint32_t>(tensor.device_dtype));
      u32(static_cast<std::uint32_t>(tensor.device_dims.size()));
      for (const std::uint32_t extent : tensor.device_dims) u32(extent);
      bytes(&tensor.scale, sizeof tensor.scale);
      u32(static_cast<std::uint32_t>(tensor.zero_point));
      u32(tensor.may_saturate ? 1 : 0);
      text(tensor.device_name);
      bytes(&tensor.device_scale, sizeof tensor.device_scale);
      u32(static_cast<std::uint32_t>(tensor.device_zero_point));
    }
  }
  void numbers(const Vector<std::uint32_t> &list) {
    u32(static_cast<std::uint32_t>(list.size()));
    for (const std::uint32_t value : list) u32(value);
  }
  void block(const Vector<std::uint8_t> &list) { text({reinterpret_cast<const char *>(list.data()), list.size()}); }
  void region(const BlobRegion &region) {
    block(region.qir);
    if (region.qir.empty()) return;
    block(region.constants);
    numbers(Vector<std::uint32_t>(region.sources.begin(), region.sources.end()));
    u32(region.part), u32(region.graph);
    for (const auto *list : {&region.first_inputs, &region.first_outputs, &region.reads, &region.writes})
      numbers(*list);
  }
  Vector<std::uint8_t> take() { return std::move(out_); }

 private:
  Vector<std::uint8_t> out_;
};

Status bad(const char *what) { return Status::error(ErrorId::backend_bad_blob, format("htp blob: %s", what)); }

// Reads past the end give zeros and are remembered.
class Reader {
 public:
  explicit Reader(std::span<const std::uint8_t> bytes) : left_(bytes) {}
  bool ok() const noexcept { return ok_; }
  bool at_end() const noexcept { return left_.empty(); }
  void bytes(void *to, std::size_t size) {
    if (size == 0) return;  // there may be no room for nothing
    if (size > left_.size()) {
      ok_ = false;
      std::memset(to, 0, size);
      return;
    }
    std::memcpy(to, left_.data(), size);
    left_ = left_.subspan(size);
  }
  std::uint32_t u32() {
    std::uint32_t value;
    bytes(&value, sizeof value);
    return value;
  }
  std::uint64_t u64() {
    std::uint64_t value;
    bytes(&value, sizeof value);
    return value;
  }
  // A count of things that have at least `least` bytes each: never more than can be there.
  std::uint32_t count(std::size_t least) {
    const std::uint32_t value = u32();
    if (value <= left_.size() / least) return value;
    ok_ = false;
    return 0;
  }
  Vector<std::uint32_t> numbers() {
    Vector<std::uint32_t> values;
    for (std::uint32_t left = count(4); left > 0; --left) values.push_back(u32());
    return values;
  }
  Vector<std::uint8_t> block() {
    Vector<std::uint8_t> values(count(1));
    bytes(values.data(), values.size());
    return values;
  }
  void region(BlobRegion &region) {
    region.qir = block();
    if (region.qir.empty()) return;
    region.constants = block();
    const Vector<std::uint32_t> sources = numbers();
    region.sources.assign(sources.begin(), sources.end());
    region.part = u32(), region.graph = u32();
    for (Vector<std::uint32_t> *list : {&region.first_inputs, &region.first_outputs, &region.reads, &region.writes})
      *list = numbers();
  }
  String text() {
    const std::uint32_t size = count(1);
    String value(reinterpret_cast<const char *>(left_.data()), size);
    left_ = left_.subspan(size);
    return value;
  }

 private:
  std::span<const std::uint8_t> left_;
  bool ok_ = true;
};

// Values have the size that they have in the session, or are 64-bit integers that have 32 bits on the device, or f64
// and bf16 that are f32 there, or the host quantises them; and the library counts their bytes in 32 bits.
bool fits_device(const BlobTensor &tensor, std::int64_t count) {
  const DType dtype = tensor.dtype;
  const qnn::DataType device = tensor.device_dtype;
  const std::optional<std::uint64_t> bytes = packed_size(dtype, count);
  const std::uint64_t there = static_cast<std::uint64_t>(count) * element_bytes(device);
  if (!bytes || there > UINT32_MAX) return false;
  if (tensor.scale != 0)
    return dtype == DType::F32 && is_stored_border(device) && std::isfinite(tensor.scale) && tensor.scale > 0 &&
           tensor.zero_point >= -32768 && tensor.zero_point <= 65535;
  // Binaries of others have 64 bits too.
  if (is_pairs(tensor)) return *bytes <= UINT32_MAX;
  if (dtype == DType::I64) return device == qnn::DataType::I32 || device == qnn::DataType::I64;
  if (dtype == DType::U64) return device == qnn::DataType::U32 || device == qnn::DataType::U64;
  if (dtype == DType::F64 || (dtype == DType::BF16 && device != qnn::DataType::BF16))
    return device == qnn::DataType::F32;
  return *bytes == there;
}

Status read_tensors(Reader &reader, Vector<BlobTensor> &list) {
  const std::uint32_t count = reader.count(16);
  for (std::uint32_t i = 0; i < count; ++i) {
    BlobTensor tensor;
    tensor.name = reader.text();
    tensor.dtype = static_cast<DType>(reader.u32());
    const std::uint32_t rank = reader.u32();
    if (rank > qir::kMaxRank) return bad("found a tensor of a rank past 8");
    for (std::uint32_t d = 0; d < rank; ++d) tensor.shape.push_back(static_cast<std::int64_t>(reader.u64()));
    // Data-dependent shapes are those of a dynamic region's results.
    const bool is_open = std::ranges::find(tensor.shape, qir::kUnknownDim) != tensor.shape.end();
    qir::Shape known = tensor.shape;
    std::ranges::replace(known, qir::kUnknownDim, std::int64_t{1});
    const std::optional<std::int64_t> model = element_count(known.data(), rank);
    if (!model || *model > (std::int64_t{1} << 40) || dtype_bits(tensor.dtype) == 0)
      return bad("found a tensor without a size that it can have");
    tensor.storage = static_cast<BlobStorage>(reader.u32());
    if (tensor.storage > BlobStorage::Staged) return bad("found a tensor in no known place");
    if (is_open && tensor.storage != BlobStorage::Staged)
      return bad("found a tensor without a shape that no dynamic region has");
    if (tensor.storage == BlobStorage::Constant) {
      const String bytes = reader.text();
      tensor.constant.assign(bytes.begin(), bytes.end());
      if (tensor.constant.size() != packed_size(tensor.dtype, *model))
        return bad("found a constant of another size than its shape has");
    }
    if (tensor.storage != BlobStorage::Device) {
      if (!reader.ok()) return bad("it ends in the midst of a tensor");
      list.push_back(std::move(tensor));
      continue;
    }
    tensor.id = reader.u32();
    tensor.device_dtype = static_cast<qnn::DataType>(reader.u32());
    const std::uint32_t device_rank = reader.u32();
    if (device_rank == 0 || device_rank > qir::kMaxRank)
      return bad("found a device tensor without a rank that it can have");
    std::int64_t elements = 1;
    for (std::uint32_t d = 0; d < device_rank; ++d) {
      tensor.device_dims.push_back(reader.u32());
      if (tensor.device_dims.back() == 0 || !checked_mul<std::int64_t>(elements, tensor.device_dims.back(), &elements))
        return bad("found a device tensor without a dimension that it can have");
    }
    reader.bytes(&tensor.scale, sizeof tensor.scale);
    tensor.zero_point = static_cast<std::int32_t>(reader.u32());
    const std::uint32_t may_saturate = reader.u32();
    if (may_saturate > 1) return bad("found a tensor that neither may saturate nor may not");
    tensor.may_saturate = may_saturate == 1;
    tensor.device_name = reader.text();
    reader.bytes(&tensor.device_scale, sizeof tensor.device_scale);
    tensor.device_zero_point = static_cast<std::int32_t>(reader.u32());
    if (!reader.ok()) return bad("it ends in the midst of a tensor");
    if (element_bytes(tensor.device_dtype) == 0) return bad("found a tensor of an unknown type");
    if (!fits_device(tensor, *model)) return bad("found a tensor whose type on the device is another than its own");
    if (*model != elements && !is_pairs(tensor)) return bad("found a tensor whose two shapes have different sizes");
    list.push_back(std::move(tensor));
  }
  return {};
}

// Of several batches all inputs and outputs have as many rows, and nothing but the library computes.
Status check_batches(const BlobGraph &graph) {
  if (graph.rows == 0) return graph.most == 0 ? Status() : bad("found batches without rows");
  if (graph.most < graph.rows || graph.most > static_cast<std::uint64_t>(qir::kMaxExtent) || !graph.on_device)
    return bad("found batches that no run can have");
  for (const auto *list : {&graph.inputs, &graph.outputs})
    for (const BlobTensor &tensor : *list)
      if (tensor.shape.empty() || static_cast<std::uint64_t>(tensor.shape[0]) % graph.rows != 0 ||
          (tensor.storage != BlobStorage::Device && tensor.storage != BlobStorage::Unused))
        return bad("found a tensor of batches whose first axis is not theirs");
  return {};
}

// Each value is made once, before it is used, and has one type and size wherever it is; every output is made.
Status check_stages(const Blob &blob, const BlobGraph &graph) {
  if (graph.on_device) return bad("found a graph on the device that has stages too");
  struct Value {
    bool is_made = false;
    const BlobTensor *type = nullptr;
  };
  const std::size_t borders = graph.inputs.size() + graph.outputs.size();
  Vector<Value> values;
  for (const BlobTensor &input : graph.inputs) values.push_back({true, &input});
  for (const BlobTensor &output : graph.outputs) values.push_back({false, &output});
  for (const BlobStage &stage : graph.stages) {
    if (stage.part >= blob.parts.size() || stage.graph >= blob.parts[stage.part].graphs.size())
      return bad("found a stage whose graph is none of its parts");
    const BlobGraph &step = blob.parts[stage.part].graphs[stage.graph];
    if (step.inputs.size() != stage.inputs.size() || step.outputs.size() != stage.outputs.size())
      return bad("found a stage with more or fewer values than its graph has");
    for (const bool gives : {false, true}) {
      const auto &list = gives ? stage.outputs : stage.inputs;
      for (std::size_t i = 0; i < list.size(); ++i) {
        const BlobTensor &tensor = (gives ? step.outputs : step.inputs)[i];
        if (list[i] > values.size() || (list[i] == values.size() && !gives))
          return bad("found a stage that takes a value which nothing makes");
        if (list[i] == values.size()) values.emplace_back();
        Value &value = values[list[i]];
        if (value.is_made == gives) return bad("found a value of stages that is made twice, or used before it is");
        if (value.type && (value.type->dtype != tensor.dtype || value.type->shape != tensor.shape))
          return bad("found a value of stages with two types");
        value.is_made = true, value.type = &tensor;
      }
    }
  }
  for (std::size_t i = graph.inputs.size(); i < borders; ++i)
    if (!values[i].is_made) return bad("found an output that no stage makes");
  return {};
}

// What goes from where to where; the graph is read where it is loaded (run/dynamic_region.h).
Status check_region(const Blob &blob, const BlobGraph &graph) {
  const BlobRegion &region = graph.region;
  const auto is_open = [](const BlobTensor &tensor) {
    return std::ranges::find(tensor.shape, qir::kUnknownDim) != tensor.shape.end();
  };
  if (std::ranges::any_of(graph.inputs, is_open)) return bad("found an input without a shape");
  if (region.qir.empty())
    return std::ranges::any_of(graph.outputs, is_open) ? bad("found an output without a shape and no dynamic region")
                                                       : Status();
  if (graph.on_device || !graph.stages.empty())
    return bad("found a dynamic region of a graph on the device, or of stages");
  const BlobGraph none;
  const bool has_first = region.part != BlobRegion::kNone;
  if (has_first && (region.part >= blob.parts.size() || region.graph >= blob.parts[region.part].graphs.size()))
    return bad("found a dynamic region behind a graph that is none of its parts");
  const BlobGraph &first = has_first ? blob.parts[region.part].graphs[region.graph] : none;
  const auto is_same = [](const BlobTensor &a, const BlobTensor &b) {
    return a.dtype == b.dtype && a.shape == b.shape;
  };
  if (region.first_inputs.size() != first.inputs.size() || region.first_outputs.size() != first.outputs.size())
    return bad("found a dynamic region behind another graph");
  for (std::size_t i = 0; i < first.inputs.size(); ++i)
    if (region.first_inputs[i] >= graph.inputs.size() ||
        !is_same(first.inputs[i], graph.inputs[region.first_inputs[i]]))
      return bad("found a dynamic region whose first part takes what is no input");
  Vector<bool> made(graph.outputs.size(), false);
  const auto make = [&](std::uint32_t to) {
    if (to >= made.size() || made[to]) return false;
    made[to] = true;
    return true;
  };
  for (std::size_t i = 0; i < first.outputs.size(); ++i) {
    const std::uint32_t to = region.first_outputs[i];
    if (to != BlobRegion::kNone && (!make(to) || !is_same(first.outputs[i], graph.outputs[to])))
      return bad("found a dynamic region whose first part gives what is no output");
  }
  for (const std::uint32_t to : region.writes)
    if (!make(to)) return bad("found a dynamic region that gives what is no output");
  for (const std::uint32_t from : region.reads)
    if (from >= graph.inputs.size() + first.outputs.size())
      return bad("found a dynamic region that reads what nothing makes");
  if (std::ranges::find(made, false) != made.end()) return bad("found an output that nothing makes");
  for (const auto *list : {&graph.inputs, &graph.outputs})
    for (const BlobTensor &tensor : *list)
      if (tensor.storage != BlobStorage::Staged)
        return bad("found a graph with a dynamic region whose values are elsewhere");
  return {};
}

}  // namespace

bool is_pairs(const BlobTensor &tensor) noexcept {
  if ((tensor.dtype != DType::I64 && tensor.dtype != DType::U64) || tensor.device_dtype != qnn::DataType::I32)
    return false;
  std::uint64_t count = 2, elements = 1;
  for (const std::int64_t extent : tensor.shape) count *= static_cast<std::uint64_t>(extent);
  for (const std::uint32_t extent : tensor.device_dims) elements *= extent;
  return elements == count;
}

Vector<std::uint8_t> write_blob(const Blob &blob) {
  BlobWriter writer;
  writer.bytes(kMagic, sizeof kMagic);
  writer.u32(kBlobVersion);
  writer.u32(blob.soc);
  writer.u32(blob.arch);
  for (const qnn::Version &version : {blob.version.core, blob.version.backend})
    for (const std::uint32_t part : {version.major, version.minor, version.patch}) writer.u32(part);
  writer.text(blob.build_id);
  writer.u64(blob.binary_bytes);
  for (const std::uint64_t figure : {blob.binary_hash, blob.shared_bytes, blob.alone_bytes}) writer.u64(figure);
  writer.u32(static_cast<std::uint32_t>(blob.graphs.size()));
  for (const BlobGraph &graph : blob.graphs) {
    writer.text(graph.name);
    writer.u32(graph.on_device ? 1 : 0);
    writer.tensors(graph.inputs);
    writer.tensors(graph.outputs);
    writer.u32(static_cast<std::uint32_t>(graph.nodes.size()));
    for (const BlobNode &node : graph.nodes) writer.text(node.name), writer.u32(node.path), writer.text(node.text);
    writer.u32(graph.layout_copies);
    for (const std::uint64_t figure : {graph.spill_bytes, graph.vtcm_bytes, graph.hvx_threads}) writer.u64(figure);
    writer.u32(graph.optimization);
    writer.u64(graph.rows), writer.u64(graph.most);
    writer.u32(static_cast<std::uint32_t>(graph.stages.size()));
    for (const BlobStage &stage : graph.stages) {
      writer.u32(stage.part), writer.u32(stage.graph);
      writer.numbers(stage.inputs), writer.numbers(stage.outputs);
    }
    writer.region(graph.region);
  }
  writer.text(blob.origin);
  writer.u32(static_cast<std::uint32_t>(blob.parts.size()));
  for (const Blob &part : blob.parts) writer.block(write_blob(part));
  return writer.take();
}

namespace {

Status read_graph(Reader &reader, BlobGraph &graph) {
  graph.name = reader.text();
  graph.on_device = reader.u32() != 0;
  QR_RETURN_IF_ERROR(read_tensors(reader, graph.inputs));
  QR_RETURN_IF_ERROR(read_tensors(reader, graph.outputs));
  const std::uint32_t nodes = reader.count(12);
  for (std::uint32_t n = 0; n < nodes; ++n) {
    BlobNode &node = graph.nodes.emplace_back();
    node.name = reader.text();
    node.path = reader.u32();
    node.text = reader.text();
    if (node.path > 3) return bad("found a node that runs by no known path");
  }
  graph.layout_copies = reader.u32();
  for (std::uint64_t *figure : {&graph.spill_bytes, &graph.vtcm_bytes, &graph.hvx_threads}) *figure = reader.u64();
  graph.optimization = reader.u32();
  graph.rows = reader.u64(), graph.most = reader.u64();
  const std::uint32_t stages = reader.count(16);
  for (std::uint32_t s = 0; s < stages; ++s) {
    BlobStage &stage = graph.stages.emplace_back();
    stage.part = reader.u32(), stage.graph = reader.u32();
    stage.inputs = reader.numbers(), stage.outputs = reader.numbers();
  }
  reader.region(graph.region);
  return {};
}

}  // namespace

Result<Blob> read_blob(std::span<const std::uint8_t> bytes) {
  Reader reader(bytes);
  char magic[sizeof kMagic];
  reader.bytes(magic, sizeof magic);
  if (!reader.ok() || std::memcmp(magic, kMagic, sizeof magic) != 0) return bad("found another kind of blob");
  if (const std::uint32_t version = reader.u32(); version != kBlobVersion)
    return Status::error(ErrorId::backend_bad_blob,
                         format("htp blob: found version %u, expected %u", version, kBlobVersion));
  Blob blob;
  blob.soc = reader.u32();
  blob.arch = reader.u32();
  for (qnn::Version *version : {&blob.version.core, &blob.version.backend})
    version->major = reader.u32(), version->minor = reader.u32(), version->patch = reader.u32();
  blob.build_id = reader.text();
  blob.binary_bytes = reader.u64();
  for (std::uint64_t *figure : {&blob.binary_hash, &blob.shared_bytes, &blob.alone_bytes}) *figure = reader.u64();
  const std::uint32_t graphs = reader.count(20);
  for (std::uint32_t i = 0; i < graphs; ++i) {
    QR_RETURN_IF_ERROR(read_graph(reader, blob.graphs.emplace_back()));
  }
  blob.origin = reader.text();
  const std::uint32_t parts = reader.count(16);
  for (std::uint32_t i = 0; i < parts; ++i) {
    QR_ASSIGN_OR_RETURN(Blob part, read_blob(reader.block()));
    if (!part.parts.empty()) return bad("found a part that has parts");
    blob.parts.push_back(std::move(part));
  }
  if (!blob.parts.empty() && blob.binary_bytes > 0) return bad("found a binary beside parts");
  for (const BlobGraph &graph : blob.graphs) {
    for (const auto *list : {&graph.inputs, &graph.outputs})
      for (const BlobTensor &tensor : *list) {
        if (tensor.storage == BlobStorage::Device && (!graph.on_device || blob.binary_bytes == 0))
          return bad("found a tensor of a graph that is not on the device");
        if (tensor.storage == BlobStorage::Staged && graph.stages.empty() && graph.region.qir.empty())
          return bad("found a tensor of stages in a graph that has none");
      }
    QR_RETURN_IF_ERROR(check_batches(graph));
    QR_RETURN_IF_ERROR(check_region(blob, graph));
    if (!graph.stages.empty()) QR_RETURN_IF_ERROR(check_stages(blob, graph));
  }
  if (!reader.ok()) return bad("it ends too early");
  if (!reader.at_end()) return bad("found bytes behind its end");
  if (blob.graphs.empty()) return bad("found no graph");
  return blob;
}

}  // namespace quarry::htp
