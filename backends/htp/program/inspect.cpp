// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/program/inspect.h"

#include "backends/htp/qnn/library.h"
#include "backends/htp/soc/soc.h"
#include "base/json_writer.h"

namespace quarry::htp {

namespace {

const char *storage_name(BlobStorage storage) {
  switch (storage) {
    case BlobStorage::Device: return "device";
    case BlobStorage::Unused: return "unused";
    case BlobStorage::Constant: return "constant";
    case BlobStorage::Staged: return "stages";
  }
  return "?";
}

void write_tensors(JsonWriter &json, const char *key, const Vector<BlobTensor> &tensors) {
  json.key(key).begin_array();
  for (const BlobTensor &tensor : tensors) {
    json.begin_object().field("name", tensor.name).field("place", storage_name(tensor.storage));
    if (tensor.storage == BlobStorage::Device) {
      json.field("id", tensor.id).field("device_name", tensor.device_name);
      json.field("device_type", type_name(tensor.device_dtype)).key("device_dims").begin_array();
      for (const std::uint32_t extent : tensor.device_dims) json.value(extent);
      json.end_array();
      if (tensor.device_scale != 0)
        json.field("scale", static_cast<double>(tensor.device_scale)).field("zero_point", tensor.device_zero_point);
      json.field("host_converts", tensor.scale != 0);
    }
    json.end_object();
  }
  json.end_array();
}

}  // namespace

namespace {

void write_blob_text(JsonWriter &json, const Blob &blob) {
  const Soc *const soc = find_soc(blob.soc);
  json.begin_object().field("soc", soc && *soc->name ? String(soc->name)
                                   : blob.soc == 0   ? String("unknown")
                                                     : format("%u", blob.soc));
  json.field("soc_model", blob.soc).field("arch", blob.arch == 0 ? String("unknown") : format("v%u", blob.arch));
  if (!blob.origin.empty()) json.field("origin", blob.origin);
  json.field("build_id", blob.build_id).field("core", qnn::version_text(blob.version.core));
  json.field("htp", qnn::version_text(blob.version.backend)).field("binary_bytes", blob.binary_bytes);
  json.field("binary_xxh3", format("%016llx", blob.binary_hash));
  if (blob.shared_bytes > 0) {
    json.field("shared_weight_bytes", blob.shared_bytes);
    if (blob.alone_bytes > blob.binary_bytes) json.field("saved_bytes", blob.alone_bytes - blob.binary_bytes);
  }
  json.key("graphs").begin_array();
  for (const BlobGraph &graph : blob.graphs) {
    json.begin_object().field("name", graph.name).field("on_device", graph.on_device);
    if (!graph.nodes.empty()) json.field("nodes", graph.nodes.size()).field("layout_copies", graph.layout_copies);
    json.field("vtcm_bytes", graph.vtcm_bytes).field("spill_fill_bytes", graph.spill_bytes);
    json.field("optimization", graph.optimization).field("hvx_threads", graph.hvx_threads);
    if (graph.rows > 0)
      json.key("batches").begin_object().field("rows", graph.rows).field("most", graph.most).end_object();
    write_tensors(json, "inputs", graph.inputs);
    write_tensors(json, "outputs", graph.outputs);
    if (!graph.stages.empty()) {
      json.key("stages").begin_array();
      for (const BlobStage &stage : graph.stages) json.value(blob.parts[stage.part].graphs[stage.graph].name);
      json.end_array();
    }
    if (!graph.region.qir.empty()) {
      json.key("tail").begin_object().field("nodes", graph.region.sources.size());
      json.field("constant_bytes", graph.region.constants.size()).end_object();
    }
    json.end_object();
  }
  json.end_array();
  if (!blob.parts.empty()) {
    json.key("parts").begin_array();
    for (const Blob &part : blob.parts) write_blob_text(json, part);
    json.end_array();
  }
  json.end_object();
}

}  // namespace

String describe_blob(const Blob &blob) {
  JsonWriter json;
  write_blob_text(json, blob);
  return json.take();
}

}  // namespace quarry::htp
