// SPDX-License-Identifier: Apache-2.0
#include "formats/qrm/metadata.h"

#include <cinttypes>

#include "formats/flatbuffer.h"
#include "formats/qrm/limits.h"
#include "qrm_generated.h"

namespace quarry::qrm {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

// Metadata > Context > Program > Plan is the deepest.
constexpr std::uint32_t kMaxTableDepth = 8;

// ---- struct to bytes ----------------------------------------------------------------------------

// A vector of what `make` makes of each value; absent where there are none. Once the buffer is over its limit nothing
// more is added (flatbuffers would assert at 2 GiB); write_metadata reports it.
template <class T, class Make>
auto tables(FlatBufferBuilder &builder, const Vector<T> &values, Make &&make) {
  Vector<decltype(make(builder, values[0]))> offsets;
  offsets.reserve(values.size());
  for (const T &value : values) {
    if (builder.GetSize() > kMaxMetadataBytes) break;
    offsets.push_back(make(builder, value));
  }
  return flat::optional_vector(builder, offsets);
}

Offset<flatbuffers::String> string(FlatBufferBuilder &builder, const String &value) {
  return flat::text(builder, value);
}

Offset<fb::KeyValue> pair(FlatBufferBuilder &builder, const KeyValue &from) {
  const auto key = flat::text(builder, from.key);
  return fb::CreateKeyValue(builder, key, flat::optional_text(builder, from.value));
}

Offset<fb::Tensor> tensor(FlatBufferBuilder &builder, const TensorInfo &from) {
  Offset<fb::Quantization> quant;
  if (from.quant) {
    const auto scales = flat::optional_vector(builder, from.quant->scales);
    const auto zero_points = flat::optional_vector(builder, from.quant->zero_points);
    quant = fb::CreateQuantization(builder, scales, zero_points, from.quant->axis, from.quant->block_size);
  }
  const auto name = flat::text(builder, from.name);
  const auto dims = flat::optional_vector(builder, from.dims);
  const auto dim_names = tables(builder, from.dim_names, string);
  return fb::CreateTensor(builder, name, static_cast<std::uint8_t>(from.dtype), dims, dim_names, quant);
}

Offset<fb::Dims> dims(FlatBufferBuilder &builder, const qir::Shape &from) {
  return fb::CreateDims(builder, flat::optional_vector(builder, from));
}

Offset<fb::Graph> graph(FlatBufferBuilder &builder, const GraphInfo &from) {
  const auto name = flat::optional_text(builder, from.name);
  const auto input_dims = tables(builder, from.input_dims, dims);
  const auto output_dims = tables(builder, from.output_dims, dims);
  const auto segments = flat::optional_vector(builder, from.segments);
  return fb::CreateGraph(builder, name, input_dims, output_dims, from.qir_segment.has_value(),
                         from.qir_segment.value_or(0), segments);
}

Offset<fb::Program> program(FlatBufferBuilder &builder, const Program &from) {
  const auto segments = flat::optional_vector(builder, from.segments);
  const auto key = flat::optional_text(builder, from.key);
  const auto plan = fb::CreatePlan(builder, from.plan.weights_bytes, from.plan.arena_bytes, from.plan.io_bytes,
                                   from.plan.device_bytes, from.plan.scratchpad_bytes, from.plan.spill_fill_bytes);
  const auto graphs = flat::optional_vector(builder, from.graphs);
  // The old field serves readers of format 1.0, which know programs of one graph.
  return fb::CreateProgram(builder, from.graphs.empty() ? 0 : from.graphs[0], from.blob_segment, segments, key, plan,
                           graphs);
}

Offset<fb::Context> context(FlatBufferBuilder &builder, const ContextInfo &from) {
  const auto backend = flat::text(builder, from.backend);
  const auto backend_version = flat::optional_text(builder, from.backend_version);
  const auto target = flat::optional_text(builder, from.target);
  const auto options = tables(builder, from.options, pair);
  const auto programs = tables(builder, from.programs, program);
  return fb::CreateContext(builder, backend, backend_version, target, from.blob_version, options, programs);
}

Offset<fb::Segment> segment(FlatBufferBuilder &builder, const SegmentInfo &from) {
  const auto name = flat::optional_text(builder, from.name);
  return fb::CreateSegment(builder, static_cast<fb::SegmentKind>(from.kind), name, from.offset, from.size, from.align,
                           from.sum);
}

// ---- bytes to struct ----------------------------------------------------------------------------

template <class T>
using Tables = flatbuffers::Vector<Offset<T>>;

class Reader {
 public:
  explicit Reader(std::uint64_t size) : copy_(size) {}

  void metadata(const fb::Metadata &from, Metadata &out, Vector<SegmentInfo> &segments) {
    out.producer = copy_.text(from.producer());
    out.source = copy_.text(from.source());
    each(from.created_by(), out.created_by, &Reader::pair);
    each(from.inputs(), out.inputs, &Reader::tensor);
    each(from.outputs(), out.outputs, &Reader::tensor);
    each(from.graphs(), out.graphs, &Reader::graph);
    each(from.contexts(), out.contexts, &Reader::context);
    each(from.user(), out.user, &Reader::pair);
    each(from.segments(), segments, &Reader::segment);
  }
  bool within_budget() const { return copy_.within_budget(); }

 private:
  template <class From, class T>
  void each(const Tables<From> *from, Vector<T> &out, void (Reader::*read)(const From &, T &)) {
    const std::uint32_t count = copy_.count(from);
    out.resize(count);
    for (std::uint32_t i = 0; i < count; ++i) (this->*read)(*from->Get(i), out[i]);
  }

  void string(const flatbuffers::String &from, String &out) { out = copy_.text(&from); }
  void pair(const fb::KeyValue &from, KeyValue &out) { out = {copy_.text(from.key()), copy_.text(from.value())}; }
  void dims(const fb::Dims &from, qir::Shape &out) { out = copy_.vector(from.dims()); }

  void tensor(const fb::Tensor &from, TensorInfo &out) {
    out.name = copy_.text(from.name());
    out.dtype = dtype_from_number(from.dtype()).value_or(DType::Unknown);
    out.dims = copy_.vector(from.dims());
    each(from.dim_names(), out.dim_names, &Reader::string);
    if (const fb::Quantization *quant = from.quantization())
      out.quant = qir::Quantization{copy_.vector(quant->scales()), copy_.vector(quant->zero_points()), quant->axis(),
                                    quant->block_size()};
  }

  void graph(const fb::Graph &from, GraphInfo &out) {
    out.name = copy_.text(from.name());
    each(from.input_dims(), out.input_dims, &Reader::dims);
    each(from.output_dims(), out.output_dims, &Reader::dims);
    if (from.has_qir()) out.qir_segment = from.qir_segment();
    out.segments = copy_.vector(from.segments());
  }

  void program(const fb::Program &from, Program &out) {
    if (from.graphs()) out.graphs = copy_.vector(from.graphs());
    else out.graphs.push_back(from.graph());
    out.blob_segment = from.blob_segment();
    out.segments = copy_.vector(from.segments());
    out.key = copy_.text(from.key());
    if (const fb::Plan *plan = from.plan())
      out.plan = {plan->weights_bytes(), plan->arena_bytes(),      plan->io_bytes(),
                  plan->device_bytes(),  plan->scratchpad_bytes(), plan->spill_fill_bytes()};
  }

  void context(const fb::Context &from, ContextInfo &out) {
    out.backend = copy_.text(from.backend());
    out.backend_version = copy_.text(from.backend_version());
    out.target = copy_.text(from.target());
    out.blob_version = from.blob_version();
    each(from.options(), out.options, &Reader::pair);
    each(from.programs(), out.programs, &Reader::program);
  }

  void segment(const fb::Segment &from, SegmentInfo &out) {
    out.kind = from.kind() <= fb::SegmentKind::MAX ? static_cast<SegmentKind>(from.kind()) : SegmentKind::Unknown;
    out.name = copy_.text(from.name());
    out.offset = from.offset_bytes();
    out.size = from.size_bytes();
    out.align = from.align_bytes();
    out.sum = from.sum();
  }

  flat::Copier copy_;
};

static_assert(static_cast<int>(fb::SegmentKind::MAX) == static_cast<int>(SegmentKind::Network));

}  // namespace

Result<Vector<std::uint8_t>> write_metadata(const Metadata &metadata, const Vector<SegmentInfo> &segments) {
  flat::BuilderMemory memory;
  FlatBufferBuilder builder(4096, &memory);
  const auto producer = flat::optional_text(builder, metadata.producer);
  const auto source = flat::optional_text(builder, metadata.source);
  const auto created_by = tables(builder, metadata.created_by, pair);
  const auto inputs = tables(builder, metadata.inputs, tensor);
  const auto outputs = tables(builder, metadata.outputs, tensor);
  const auto graphs = tables(builder, metadata.graphs, graph);
  const auto contexts = tables(builder, metadata.contexts, context);
  const auto all_segments = tables(builder, segments, segment);
  const auto user = tables(builder, metadata.user, pair);
  fb::FinishMetadataBuffer(builder, fb::CreateMetadata(builder, producer, source, created_by, inputs, outputs, graphs,
                                                       contexts, all_segments, user));
  if (builder.GetSize() > kMaxMetadataBytes)
    return Status::errorf(ErrorId::qrm_limit,
                          "container: found over %" PRIu64 " bytes of metadata, expected at most that",
                          kMaxMetadataBytes);
  return Vector<std::uint8_t>(builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize());
}

Status verify_metadata(Bytes bytes) {
  if (flat::verify<fb::Metadata>(bytes.data, bytes.size, fb::MetadataIdentifier(), kMaxTableDepth)) return {};
  return Status::errorf(ErrorId::qrm_bad_metadata, "container: its %" PRIu64 " bytes of metadata are not well formed",
                        bytes.size);
}

Status read_metadata(Bytes verified, Metadata &metadata, Vector<SegmentInfo> &segments) {
  Reader reader(verified.size);
  reader.metadata(*fb::GetMetadata(verified.data), metadata, segments);
  if (reader.within_budget()) return {};
  return Status::error(ErrorId::qrm_bad_metadata,
                       "container: found texts or lists of the metadata that share bytes, expected each its own");
}

}  // namespace quarry::qrm
