// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/compile/raw_binary.h"

#include <algorithm>

#include "backends/htp/compile/ep_context.h"
#include "backends/htp/program/binary_hash.h"
#include "backends/htp/program/inspect.h"
#include "backends/htp/program/metadata.h"

namespace quarry::htp {

namespace {

constexpr char kOther[] = "compile the model that it was made from";

Result<BlobTensor> tensor_of(const qnn::Tensor &from, const String &graph) {
  BlobTensor made;
  made.name = made.device_name = from.v1.name ? from.v1.name : "";
  const auto bad = [&](const char *found) {
    return Status::error(ErrorId::backend_bad_blob,
                         format("context binary: graph %s, tensor %s: found %s, expected a name, up to 8 axes, and "
                                "integers of at least 8 bits or floats",
                                printable(graph), printable(made.name), found),
                         kOther);
  };
  if (made.name.empty()) return bad("no name");
  if (element_bytes(from.v1.dtype) == 0 || plain_type(from.v1.dtype) == DType::Unknown)
    return bad(format("type %u", static_cast<unsigned>(from.v1.dtype)).c_str());
  if (from.v1.rank > qir::kMaxRank || (from.v1.rank > 0 && !from.v1.dims))
    return bad(format("%u axes", from.v1.rank).c_str());
  made.dtype = plain_type(from.v1.dtype), made.device_dtype = from.v1.dtype, made.id = from.v1.id;
  made.device_dims.assign(from.v1.dims, from.v1.dims + from.v1.rank);
  for (const std::uint32_t extent : made.device_dims) made.shape.push_back(extent);
  if (const qnn::Quant &q = from.v1.q; q.defined == qnn::Defined::Yes && q.enc == qnn::QuantEnc::ScaleOffset)
    made.device_scale = q.so.scale, made.device_zero_point = -q.so.offset;
  return made;
}

// Graphs of shape buckets have the same names: "graph/tensor" then.
void make_names_unique(Vector<BlobGraph> &graphs) {
  StringMap<std::uint32_t> count;
  Vector<std::pair<const BlobGraph *, BlobTensor *>> all;
  for (BlobGraph &graph : graphs)
    for (auto *list : {&graph.inputs, &graph.outputs})
      for (BlobTensor &tensor : *list) all.emplace_back(&graph, &tensor);
  for (const auto &[graph, tensor] : all) ++count.emplace(tensor->name, 0).first->second;
  for (const auto &[graph, tensor] : all)
    if (count.find(tensor->device_name)->second > 1) tensor->name = graph->name + "/" + tensor->device_name;
}

}  // namespace

Result<RawBinary> read_raw_binary(const qnn::Library &library, std::span<const std::uint8_t> bytes,
                                  std::string_view file) {
  auto metadata = Metadata::read(library, bytes);
  if (!metadata.ok())
    return Status::error(ErrorId::backend_bad_blob,
                         format("context binary: found %zu bytes that the library cannot read as a context, expected a "
                                "whole one: %s",
                                bytes.size(), String(metadata.status().message())),
                         kOther);
  Blob blob;
  (*metadata)->maker(blob);
  blob.binary_bytes = bytes.size(), blob.binary_hash = binary_hash(bytes);
  blob.origin = "a context binary of QNN";
  for (const qnn::GraphInfo &from : (*metadata)->graphs()) {
    BlobGraph &graph = blob.graphs.emplace_back();
    graph.name = from.name ? from.name : "";
    (*metadata)->figures(graph.name, graph);
    const auto take = [&](const qnn::Tensor *tensors, std::uint32_t count, Vector<BlobTensor> &out) -> Status {
      for (std::uint32_t i = 0; tensors && i < count; ++i) {
        QR_ASSIGN_OR_RETURN(BlobTensor tensor, tensor_of(tensors[i], graph.name));
        out.push_back(std::move(tensor));
      }
      return {};
    };
    QR_RETURN_IF_ERROR(take(from.in, from.n_in, graph.inputs));
    QR_RETURN_IF_ERROR(take(from.out, from.n_out, graph.outputs));
  }
  if (blob.graphs.empty())
    return Status::error(ErrorId::backend_bad_blob, "context binary: found no graph, expected one at least", kOther);
  make_names_unique(blob.graphs);
  return RawBinary{ep_context_model(blob.graphs, {bytes, file, {}, blob.build_id, "QNN"}), describe_blob(blob)};
}

}  // namespace quarry::htp
