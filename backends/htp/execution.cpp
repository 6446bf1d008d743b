// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/execution.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "backends/htp/borders.h"
#include "backends/htp/metadata.h"
#include "base/checked.h"
#include "base/hash.h"

namespace quarry::htp {

namespace {

unsigned long long ull(std::uint64_t value) noexcept { return value; }

}  // namespace

Result<Unique<LoadedContext>> LoadedContext::load(std::shared_ptr<Engine> engine, Blob blob,
                                                  std::span<const std::uint8_t> binary) {
  if (binary.size() != blob.binary_bytes)
    return Status::error(ErrorId::backend_bad_blob,
                         format("htp blob: found a binary of %zu bytes, expected %llu", binary.size(),
                                static_cast<unsigned long long>(blob.binary_bytes)));
  if (const std::uint64_t hash = hash64(binary.data(), binary.size()); hash != blob.binary_hash)
    return Status::error(
        ErrorId::backend_bad_blob,
        format("htp blob: found a binary whose hash is %016llx, expected %016llx",
               static_cast<unsigned long long>(hash), static_cast<unsigned long long>(blob.binary_hash)));
  auto made = quarry::make_unique<LoadedContext>(std::move(engine), std::move(blob));
  const qnn::Api &api = made->engine_->api();
  if (made->blob_.binary_bytes == 0) {
    made->graphs_.resize(made->blob_.graphs.size());
    return made;
  }
  QR_ASSIGN_OR_RETURN(const Unique<Metadata> metadata, Metadata::read(made->engine_->library(), binary));
  for (const BlobGraph &graph : made->blob_.graphs)
    if (graph.on_device) QR_RETURN_IF_ERROR(metadata->check(graph));
  qnn::LogLines lines;
  if (const qnn::Error error = api.contextCreateFromBinary(made->engine_->backend(), made->engine_->device(), nullptr,
                                                           binary.data(), binary.size(), &made->context_, nullptr))
    return qnn::call_failed(
        "contextCreateFromBinary", error, &lines,
        "the binary may be of a newer library than the one here, or for another device: compile the model again");
  for (const BlobGraph &graph : made->blob_.graphs) {
    lines.clear();
    qnn::Handle handle = nullptr;
    if (!graph.on_device) {
      made->graphs_.push_back(nullptr);
      continue;
    }
    if (const qnn::Error error = api.graphRetrieve(made->context_, graph.name.c_str(), &handle))
      return qnn::call_failed("graphRetrieve " + printable(graph.name), error, &lines);
    made->graphs_.push_back(handle);
  }
  return made;
}

LoadedContext::~LoadedContext() {
  if (context_) (void)engine_->api().contextFree(context_, nullptr);
}

Execution::Execution(const LoadedContext &context, std::size_t graph)
    : context_(context), graph_(context.blob().graphs[graph]), handle_(context.graph(graph)) {
  bind(graph_.inputs, inputs_, input_places_);
  bind(graph_.outputs, outputs_, output_places_);
}

void Execution::bind(const Vector<BlobTensor> &from, Vector<qnn::Tensor> &tensors, Vector<Place> &places) {
  for (std::size_t i = 0; i < from.size(); ++i) {
    const BlobTensor &tensor = from[i];
    if (tensor.place != BlobPlace::Device) continue;
    qnn::Tensor made{};
    made.version = 1;
    made.v1.id = tensor.id;
    made.v1.dtype = tensor.device_dtype;
    made.v1.rank = static_cast<std::uint32_t>(tensor.device_dims.size());
    made.v1.dims = const_cast<std::uint32_t *>(tensor.device_dims.data());
    made.v1.mem = qnn::TensorMem::Raw;
    made.v1.q.defined = qnn::Defined::Undef, made.v1.q.enc = qnn::QuantEnc::Undef;
    std::uint64_t elements = 1;
    for (const std::uint32_t extent : tensor.device_dims) elements *= extent;
    Place &place = places.emplace_back();
    place.io = i;
    place.session_bytes = elements * dtype_bits(tensor.dtype) / 8;
    place.device_bytes = elements * element_bytes(tensor.device_dtype);
    place.way = tensor.scale != 0                           ? Way::Quantized
                : place.session_bytes == place.device_bytes ? Way::AsIs
                : tensor.dtype == DType::I64                ? Way::Narrow
                                                            : Way::NarrowUnsigned;
    if (place.way != Way::AsIs) place.room.resize(place.device_bytes);
    tensors.push_back(made);
  }
}

Status Execution::take_inputs(const qr_run_request &request) {
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    Place &place = input_places_[i];
    const qr_io_buffer &io = request.inputs[place.io];
    const char *const name = graph_.inputs[place.io].name.c_str();
    if (!io.data || io.size_bytes != place.session_bytes)
      return Status::error(ErrorId::run_shape,
                           format("input %s: found %llu bytes, expected %llu", printable(name).c_str(),
                                  ull(io.data ? io.size_bytes : 0), ull(place.session_bytes)));
    inputs_[i].v1.buf = {io.data, static_cast<std::uint32_t>(place.device_bytes)};
    if (place.way == Way::AsIs) continue;
    if (place.way == Way::Quantized) {
      const BlobTensor &tensor = graph_.inputs[place.io];
      quantize_border(tensor.device_dtype, tensor.scale, tensor.zero_point, io.data, place.room.data(),
                      place.device_bytes / element_bytes(tensor.device_dtype));
      inputs_[i].v1.buf.data = place.room.data();
      continue;
    }
    const bool is_signed = place.way == Way::Narrow;
    const std::int64_t low = is_signed ? std::numeric_limits<std::int32_t>::min() : 0,
                       high = is_signed ? std::numeric_limits<std::int32_t>::max()
                                        : std::numeric_limits<std::uint32_t>::max();
    for (std::uint64_t k = 0; k < place.device_bytes / 4; ++k) {
      std::int64_t value;
      std::memcpy(&value, static_cast<const std::uint8_t *>(io.data) + 8 * k, 8);
      if (value < low || value > high)
        return Status::error(
            ErrorId::run_value,
            format("input %s: found %lld at element %llu, expected a number of 32 bits, which is what the "
                   "device computes with",
                   printable(name).c_str(), static_cast<long long>(value), ull(k)));
      const auto narrow = static_cast<std::uint32_t>(value);
      std::memcpy(place.room.data() + 4 * k, &narrow, 4);
    }
    inputs_[i].v1.buf.data = place.room.data();
  }
  return {};
}

Status Execution::run(const qr_run_request &request) {
  // The library looks at no size: all are checked here.
  QR_RETURN_IF_ERROR(take_inputs(request));
  for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
    qr_io_buffer &io = request.outputs[i];
    const BlobTensor &tensor = graph_.outputs[i];
    const std::uint64_t bytes = *packed_size(tensor.dtype, *element_count(tensor.shape.data(), tensor.shape.size()));
    if (io.data && io.size_bytes < bytes)
      return Status::error(ErrorId::run_shape, format("output %s: found room for %llu bytes, expected %llu",
                                                      printable(tensor.name).c_str(), ull(io.size_bytes), ull(bytes)));
    io.rank = static_cast<std::uint32_t>(tensor.shape.size());
    std::copy(tensor.shape.begin(), tensor.shape.end(), io.dims);
    io.used_bytes = bytes;
    if (tensor.place == BlobPlace::Constant && io.data) std::memcpy(io.data, tensor.constant.data(), bytes);
  }
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    Place &place = output_places_[i];
    void *to = request.outputs[place.io].data;
    if (place.way != Way::AsIs || !to) {
      if (place.room.size() < place.device_bytes) place.room.resize(place.device_bytes);
      to = place.room.data();
    }
    outputs_[i].v1.buf = {to, static_cast<std::uint32_t>(place.device_bytes)};
  }
  if (!handle_) return {};
  qnn::LogLines lines;
  if (const qnn::Error error = context_.engine().api().graphExecute(
          handle_, inputs_.data(), static_cast<std::uint32_t>(inputs_.size()), outputs_.data(),
          static_cast<std::uint32_t>(outputs_.size()), nullptr, nullptr))
    return qnn::call_failed("graphExecute", error, &lines);
  for (const Place &place : output_places_) {
    qr_io_buffer &io = request.outputs[place.io];
    if (!io.data || place.way == Way::AsIs) continue;
    if (place.way == Way::Quantized) {
      const BlobTensor &tensor = graph_.outputs[place.io];
      dequantize_border(tensor.device_dtype, tensor.scale, tensor.zero_point, place.room.data(), io.data,
                        place.device_bytes / element_bytes(tensor.device_dtype));
      continue;
    }
    for (std::uint64_t k = 0; k < place.device_bytes / 4; ++k) {
      std::int32_t narrow;
      std::memcpy(&narrow, place.room.data() + 4 * k, 4);
      const std::int64_t value =
          place.way == Way::Narrow ? std::int64_t{narrow} : std::int64_t{static_cast<std::uint32_t>(narrow)};
      std::memcpy(static_cast<std::uint8_t *>(io.data) + 8 * k, &value, 8);
    }
  }
  return {};
}

}  // namespace quarry::htp
