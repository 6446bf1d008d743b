// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/program/metadata.h"

#include <algorithm>
#include <cstring>

#include "backends/htp/qnn/htp_abi.h"
#include "backends/htp/qnn/log.h"

namespace quarry::htp {

namespace {

bool says_the_same(const BlobTensor &tensor, const qnn::Tensor &given) {
  return given.v1.dtype == tensor.device_dtype && given.v1.rank == tensor.device_dims.size() &&
         std::equal(tensor.device_dims.begin(), tensor.device_dims.end(), given.v1.dims);
}

Status check_list(const Vector<BlobTensor> &list, const qnn::Tensor *given, std::uint32_t count) {
  std::uint32_t on_device = 0;
  for (const BlobTensor &tensor : list) {
    if (tensor.storage != BlobStorage::Device) continue;
    ++on_device;
    const qnn::Tensor *const end = given + count;
    const qnn::Tensor *const found =
        std::find_if(given, end, [&](const qnn::Tensor &t) { return t.v1.id == tensor.id; });
    if (found == end || !says_the_same(tensor, *found))
      return Status::error(
          ErrorId::backend_bad_blob,
          format("htp blob: tensor %s: found another id, type or shape than the binary has", printable(tensor.name)));
  }
  if (on_device == count) return {};
  return Status::error(ErrorId::backend_bad_blob,
                       format("htp blob: found %u inputs or outputs, the binary has %u", on_device, count));
}

}  // namespace

bool is_raw_binary(std::span<const std::uint8_t> bytes) noexcept {
  constexpr std::uint8_t kBegin[] = {0, 0, 0, 2, 0, 0, 0};  // and a small version
  return bytes.size() > 16 && std::equal(std::begin(kBegin), std::end(kBegin), bytes.begin()) && bytes[7] < 16;
}

Result<Unique<Metadata>> Metadata::read(const qnn::Library &library, std::span<const std::uint8_t> binary) {
  auto made = quarry::make_unique<Metadata>(library);
  qnn::LogLines lines;
  if (const qnn::Error error = library.system().contextCreate(&made->handle_))
    return qnn::call_failed("contextCreate of the system library", error, &lines);
  if (const qnn::Error error =
          library.system().contextGetMetadata(made->handle_, binary.data(), binary.size(), &made->info_))
    return qnn::call_failed("contextGetMetadata", error, &lines);
  return made;
}

Metadata::~Metadata() {
  if (handle_) (void)library_.system().contextFree(handle_);
}

std::span<const qnn::GraphInfo> Metadata::graphs() const noexcept {
  if (!info_) return {};
  if (info_->version == 3) return {info_->v3.graphs, info_->v3.graphs ? info_->v3.n_graphs : 0};
  return {info_->v1.graphs, info_->v1.graphs ? info_->v1.n_graphs : 0};  // the two before it begin alike
}

const qnn::GraphInfo *Metadata::find(std::string_view name) const noexcept {
  for (const qnn::GraphInfo &graph : graphs())
    if (graph.name && name == graph.name) return &graph;
  return nullptr;
}

void Metadata::maker(Blob &out) const {
  const auto take = [&](const char *build_id, const qnn::Version &core, const qnn::Version &backend) {
    out.build_id = build_id ? build_id : "";
    out.version.core = core, out.version.backend = backend;
  };
  out.soc = out.arch = 0;
  if (info_->version != 3) return take(info_->v1.build_id, info_->v1.core, info_->v1.backend);
  take(info_->v3.build_id, info_->v3.core, info_->v3.backend);
  out.soc = info_->v3.soc_model;
  qnn::HtpContextBlobV1 of_htp{};
  if (!info_->v3.meta || info_->v3.meta_bytes < sizeof of_htp) return;
  std::memcpy(&of_htp, info_->v3.meta, sizeof of_htp);
  out.arch = of_htp.arch;
}

void Metadata::figures(std::string_view graph, BlobGraph &out) const noexcept {
  const qnn::GraphInfo *const info = find(graph);
  qnn::HtpGraphBlobV1 blob{};
  if (!info || info->version < 3 || !info->blob || info->blob_bytes < sizeof blob) return;  // none before that
  std::memcpy(&blob, info->blob, sizeof blob);
  out.spill_bytes = blob.spill, out.optimization = blob.opt_level, out.hvx_threads = blob.hvx_threads;
  constexpr std::uint32_t kMostMegabytes = 4096;  // no device has as much
  out.vtcm_bytes = blob.vtcm_mb > kMostMegabytes ? blob.vtcm_mb : std::uint64_t{blob.vtcm_mb} << 20;
}

std::uint64_t Metadata::shared_weights() const noexcept {
  std::uint64_t most = 0;
  for (const qnn::GraphInfo &graph : graphs()) {
    qnn::HtpGraphBlobLong blob{};
    if (graph.version < 3 || !graph.blob || graph.blob_bytes < sizeof blob) continue;
    std::memcpy(&blob, graph.blob, sizeof blob);
    most = std::max(most, blob.shared_weights);
  }
  return most;
}

Status Metadata::check(const BlobGraph &graph) const {
  const qnn::GraphInfo *const info = find(graph.name);
  if (!info)
    return Status::error(ErrorId::backend_bad_blob,
                         format("htp blob: graph %s: the binary has none of this name", printable(graph.name)));
  QR_RETURN_IF_ERROR(check_list(graph.inputs, info->in, info->n_in));
  return check_list(graph.outputs, info->out, info->n_out);
}

}  // namespace quarry::htp
