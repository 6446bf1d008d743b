// SPDX-License-Identifier: Apache-2.0
#include "backends/common/processor_backend.h"

#include <algorithm>

namespace quarry::plugin {

Status check_index(const char *what, std::uint64_t index, std::uint64_t count) {
  if (index < count) return {};
  return Status::error(ErrorId::index_out_of_range,
                       format("%s: found index %llu, expected one under %llu", what, index, count));
}

Status keep_segments(const qr_compile_request &request, const qr_blob_sink &result) {
  for (std::uint64_t i = 0; i < request.graphs[0]->segment_count; ++i) {
    std::uint32_t number = 0;
    if (result.keep_segment(result.self, 0, i, &number) != QR_OK || number != i)
      return Status::error(ErrorId::internal, format("compile: segment %llu was not kept under its number", i));
  }
  return {};
}

Vector<qir::Bytes> segments_of(const qr_blob &blob) {
  Vector<qir::Bytes> segments(blob.segment_count);
  for (std::uint64_t i = 0; i < blob.segment_count; ++i) segments[i] = {blob.segments[i].data, blob.segments[i].size};
  return segments;
}

void give_grade(std::int32_t grade, const String &why, std::int32_t *out_grade, const qr_error_sink &reason) {
  *out_grade = grade;
  if (!why.empty()) reason.set(reason.self, QR_OK, text(""), text(why), text(""));
}

void give_tensor(DType dtype, const qir::Shape &shape, const String &name, qr_plugin_tensor_info *out_info) {
  qr_plugin_tensor_info info{};
  info.dtype = static_cast<std::int32_t>(dtype);
  info.rank = static_cast<std::uint32_t>(shape.size());
  std::copy(shape.begin(), shape.end(), info.dims);
  info.name = text(name);
  give(info, out_info);
}

Status check_counts(const qr_run_request &request, std::size_t inputs, std::size_t outputs) {
  if (request.input_count == inputs && request.output_count == outputs) return {};
  return Status::error(ErrorId::run_input_count, format("run: found %llu inputs and %llu outputs, expected %zu and %zu",
                                                        request.input_count, request.output_count, inputs, outputs));
}

}  // namespace quarry::plugin
