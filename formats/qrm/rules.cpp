// SPDX-License-Identifier: Apache-2.0
// The rules of a container's metadata. The runtime may rely on all of them: every index is in range and leads to the
// right kind of segment, every list is as long as the one it goes with.
#include <algorithm>
#include <cinttypes>

#include "base/text.h"
#include "formats/qrm/limits.h"
#include "formats/qrm/metadata.h"

namespace quarry::qrm {
namespace {

Status bad(const String &message) { return Status::error(ErrorId::qrm_bad_metadata, message); }

Status at_most(const String &subject, const char *what, std::uint64_t found, std::uint64_t limit) {
  if (found <= limit) return {};
  return Status::errorf(ErrorId::qrm_limit, "%s: found %" PRIu64 " %s, expected at most %" PRIu64, subject, found, what,
                        limit);
}

// Values of options may name files, which are of any bytes.
Status pairs(const String &subject, const Vector<KeyValue> &all, bool options) {
  QR_RETURN_IF_ERROR(at_most(subject, "entries", all.size(), kMaxPairs));
  StringSet keys;
  for (const KeyValue &each : all) {
    if (each.key.empty() || !is_utf8(each.key) || (!options && !is_utf8(each.value)))
      return bad(format("%s: found key '%s', expected a key that is not empty, and a value, both in UTF-8", subject,
                        printable(each.key)));
    QR_RETURN_IF_ERROR(at_most(subject, "bytes in a key", each.key.size(), kMaxNameBytes));
    QR_RETURN_IF_ERROR(at_most(subject, "bytes in a value", each.value.size(), kMaxTextBytes));
    if (!keys.insert(each.key).second) return bad(format("%s: found key '%s' twice", subject, printable(each.key)));
  }
  return {};
}

Status signature(const char *role, const Vector<TensorInfo> &tensors) {
  QR_RETURN_IF_ERROR(at_most("container", role, tensors.size(), kMaxSignatureTensors));
  StringSet names;
  for (const TensorInfo &each : tensors) {
    if (each.name.empty() || !is_utf8(each.name))
      return bad(
          format("container: found one of the %s named '%s', expected a name in UTF-8", role, printable(each.name)));
    if (!names.insert(each.name).second)
      return bad(format("container: found two of the %s named '%s'", role, printable(each.name)));
    if (!each.dim_names.empty() && each.dim_names.size() != each.dims.size())
      return bad(format("tensor '%s': found %zu names for %zu axes", printable(each.name), each.dim_names.size(),
                        each.dims.size()));
    for (const String &name : each.dim_names) {
      QR_RETURN_IF_ERROR(at_most("container", "bytes in a dimension's name", name.size(), kMaxNameBytes));
      if (!is_utf8(name))
        return bad(
            format("tensor '%s': found a dimension named '%s', expected UTF-8", printable(each.name), printable(name)));
    }
    qir::Tensor tensor;
    tensor.name = each.name;
    tensor.dtype = each.dtype;
    tensor.shape = each.dims;
    tensor.quant = each.quant;
    QR_RETURN_IF_ERROR(qir::validate_tensor(tensor));
  }
  return {};
}

// The shapes of a graph's inputs or outputs agree with those of the signature.
Status bucket(const String &subject, const char *role, const Vector<qir::Shape> &shapes,
              const Vector<TensorInfo> &tensors) {
  if (shapes.size() != tensors.size())
    return bad(format("%s: found shapes of %zu %s, expected %zu", subject, shapes.size(), role, tensors.size()));
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const qir::Shape &shape = shapes[i], &declared = tensors[i].dims;
    bool fits = shape.size() == declared.size();
    for (std::size_t axis = 0; fits && axis < shape.size(); ++axis)
      fits = shape[axis] >= qir::kUnknownDim && (declared[axis] == qir::kUnknownDim || declared[axis] == shape[axis]);
    if (!fits)
      return bad(format("%s: found '%s' of %s, expected %s", subject, printable(tensors[i].name),
                        shape_text(shape.data(), shape.size()), shape_text(declared.data(), declared.size())));
    // Its bytes can be counted: a bucket's shape with the signature's type.
    qir::Tensor tensor;
    tensor.name = tensors[i].name;
    tensor.dtype = tensors[i].dtype;
    tensor.shape = shape;
    QR_RETURN_IF_ERROR(qir::validate_tensor(tensor));
  }
  return {};
}

Status reference(const String &subject, std::uint32_t index, SegmentKind kind, const Vector<SegmentInfo> &segments) {
  if (index >= segments.size())
    return bad(format("%s: found segment number %u, expected one under %zu", subject, index, segments.size()));
  if (segments[index].kind != kind)
    return bad(format("%s: found segment %u of kind %s, expected %s", subject, index,
                      segment_kind_name(segments[index].kind), segment_kind_name(kind)));
  return {};
}
Status references(const String &subject, const Vector<std::uint32_t> &indices, const Vector<SegmentInfo> &segments) {
  QR_RETURN_IF_ERROR(at_most(subject, "segments", indices.size(), kMaxSegmentRefs));
  for (const std::uint32_t index : indices)
    QR_RETURN_IF_ERROR(reference(subject, index, SegmentKind::Weights, segments));
  return {};
}

Status graphs(const Metadata &metadata, const Vector<SegmentInfo> &segments) {
  QR_RETURN_IF_ERROR(at_most("container", "graphs", metadata.graphs.size(), kMaxGraphs));
  const auto is_network = [](const SegmentInfo &segment) { return segment.kind == SegmentKind::Network; };
  if (metadata.graphs.empty() && std::ranges::none_of(segments, is_network)) return bad("container: found no graph");
  StringSet names;
  for (const GraphInfo &graph : metadata.graphs) {
    const String subject = format("graph '%s'", printable(graph.name));
    QR_RETURN_IF_ERROR(at_most(subject, "bytes of name", graph.name.size(), kMaxTextBytes));
    if (!names.insert(graph.name).second)
      return bad(format("container: found two graphs named '%s'", printable(graph.name)));
    QR_RETURN_IF_ERROR(bucket(subject, "inputs", graph.input_dims, metadata.inputs));
    QR_RETURN_IF_ERROR(bucket(subject, "outputs", graph.output_dims, metadata.outputs));
    if (graph.qir_segment) QR_RETURN_IF_ERROR(reference(subject, *graph.qir_segment, SegmentKind::Graph, segments));
    QR_RETURN_IF_ERROR(references(subject, graph.segments, segments));
  }
  return {};
}

// Each graph is in one program, so that any of them can be chosen and there is no doubt how. The order of programs is
// fixed, so that the same compilation gives the same file.
Status programs_of_graphs(const String &subject, const Vector<Program> &programs, std::size_t graph_count) {
  Vector<bool> seen(graph_count);
  std::size_t seen_count = 0;
  std::uint32_t before = 0;
  for (std::size_t i = 0; i < programs.size(); ++i) {
    std::uint32_t first = kOtherNetwork;
    for (const std::uint32_t graph : programs[i].graphs) {
      if (graph == kOtherNetwork) continue;
      if (first == kOtherNetwork) first = graph;
      if (graph >= graph_count)
        return bad(
            format("%s: found graph number %u in program %zu, expected one under %zu", subject, graph, i, graph_count));
      if (seen[graph]) return bad(format("%s: found graph %u in program %zu, and once before", subject, graph, i));
      seen[graph] = true;
      ++seen_count;
    }
    if (first == kOtherNetwork) return bad(format("%s: found no graph in program %zu", subject, i));
    if (first < before)
      return bad(
          format("%s: found program %zu to begin with graph %u, expected one after %u, which the program before "
                 "begins with",
                 subject, i, first, before));
    before = first;
  }
  if (seen_count != graph_count)
    return bad(format("%s: found programs of %zu graphs, expected all %zu", subject, seen_count, graph_count));
  return {};
}

Status contexts(const Metadata &metadata, const Vector<SegmentInfo> &segments) {
  QR_RETURN_IF_ERROR(at_most("container", "contexts", metadata.contexts.size(), kMaxContexts));
  for (const ContextInfo &context : metadata.contexts) {
    const String subject = format("context for '%s'", printable(context.backend));
    if (context.backend.empty()) return bad("container: found a context without a backend");
    for (const String *text : {&context.backend, &context.backend_version, &context.target})
      QR_RETURN_IF_ERROR(at_most(subject, "bytes in a name", text->size(), kMaxNameBytes));
    for (const ContextInfo &other : metadata.contexts)
      if (&other < &context && other.backend == context.backend && other.target == context.target)
        return bad(format("%s: found two for target '%s'", subject, printable(context.target)));
    QR_RETURN_IF_ERROR(pairs(subject + ", options", context.options, true));
    QR_RETURN_IF_ERROR(programs_of_graphs(subject, context.programs, metadata.graphs.size()));
    for (const Program &program : context.programs) {
      QR_RETURN_IF_ERROR(at_most(subject, "bytes of compatibility key", program.key.size(), kMaxTextBytes));
      QR_RETURN_IF_ERROR(reference(subject, program.blob_segment, SegmentKind::Blob, segments));
      QR_RETURN_IF_ERROR(references(subject, program.segments, segments));
    }
  }
  return {};
}

}  // namespace

const char *segment_kind_name(SegmentKind kind) noexcept {
  switch (kind) {
    case SegmentKind::Weights: return "weights";
    case SegmentKind::Graph: return "graph";
    case SegmentKind::Blob: return "blob";
    case SegmentKind::Network: return "network";
    case SegmentKind::Unknown: break;
  }
  return "unknown";
}

Status check_metadata(const Metadata &metadata, const Vector<SegmentInfo> &segments) {
  QR_RETURN_IF_ERROR(at_most("container", "bytes of producer", metadata.producer.size(), kMaxTextBytes));
  QR_RETURN_IF_ERROR(at_most("container", "bytes of source", metadata.source.size(), kMaxTextBytes));
  QR_RETURN_IF_ERROR(at_most("container", "segments", segments.size(), kMaxSegments));
  for (const SegmentInfo &segment : segments)
    QR_RETURN_IF_ERROR(at_most("container", "bytes in a segment's name", segment.name.size(), kMaxNameBytes));
  QR_RETURN_IF_ERROR(pairs("container, options", metadata.created_by, true));
  QR_RETURN_IF_ERROR(pairs("container, metadata", metadata.user, false));
  QR_RETURN_IF_ERROR(signature("inputs", metadata.inputs));
  QR_RETURN_IF_ERROR(signature("outputs", metadata.outputs));
  QR_RETURN_IF_ERROR(graphs(metadata, segments));
  return contexts(metadata, segments);
}

}  // namespace quarry::qrm
