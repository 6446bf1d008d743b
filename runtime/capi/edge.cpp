// SPDX-License-Identifier: Apache-2.0
#include "runtime/capi/edge.h"

#include <bit>
#include <limits>

#include "base/checked.h"
#include "base/text.h"

namespace quarry::capi {
namespace {

// No struct of this ABI comes near; a larger size is not one that a caller meant.
constexpr std::uint32_t kMaxStructSize = 4096;

}  // namespace

qr_status *caught(const char *function) noexcept {
  try {
    throw;
  } catch (const std::bad_alloc &) {
    return give(Status::out_of_memory(function));
  } catch (...) {
    return give(Status::error(ErrorId::internal, "an exception reached the edge of the C ABI"));
  }
}

Status null_argument(const char *function, const char *argument) {
  try {
    return Status::errorf(ErrorId::null_argument, "%s: %s is NULL, expected a pointer", function, argument);
  } catch (const std::bad_alloc &) {
    return Status::out_of_memory();
  }
}

qr_status *refuse_null(const char *function, const char *argument) noexcept {
  return give(null_argument(function, argument));
}

Status read_text(const char *function, const char *argument, const qr_string &from, Empty empty,
                 std::string_view *out) {
  if (!from.data && from.size != 0)
    return Status::errorf(ErrorId::null_argument, "%s: %s.data is NULL and its size is not 0", function, argument);
  const std::string_view text = text_of(from);
  if (text.empty() && empty == Empty::Refused)
    return Status::hinted(ErrorId::bad_argument, "set data and size of the qr_string", "%s: %s is empty, expected text",
                          function, argument);
  if (empty != Empty::Value && ((empty != Empty::Path && !is_utf8(text)) || text.find('\0') != std::string_view::npos))
    return Status::errorf(ErrorId::not_utf8, "%s: %s is not %s without NUL bytes: \"%s\"", function, argument,
                          empty == Empty::Path ? "a path" : "UTF-8", printable(text));
  *out = text;
  return {};
}

Status check_struct(const char *function, const char *type, const void *from, std::uint32_t first,
                    std::uint32_t known) {
  if (!from) return null_argument(function, type);
  std::uint32_t size;
  std::memcpy(&size, from, sizeof size);  // struct_size is the first field of each
  if (size < first || size > kMaxStructSize)
    return Status::errorf(ErrorId::bad_struct_size, "%s: %s.struct_size is %u, expected at least %u%s", function, type,
                          size, first, size > kMaxStructSize ? " and not more than 4096" : "");
  const auto *bytes = static_cast<const unsigned char *>(from);
  for (std::uint32_t offset = known; offset < size; ++offset)
    if (bytes[offset] != 0)
      return Status::errorf(ErrorId::unknown_field,
                            "%s: %s has a value at offset %u, this library knows %u bytes of it", function, type,
                            offset, known);
  return {};
}

Status unknown_field(const char *function, const char *type, const char *field) {
  return Status::errorf(ErrorId::unknown_field, "%s: %s.%s is not 0, which this library does not know", function, type,
                        field);
}

Status check_flags(const char *function, const char *type, std::uint64_t flags, std::uint64_t known) {
  if ((flags & ~known) == 0) return {};
  return Status::errorf(ErrorId::unknown_flag,
                        "%s: %s.flags has bit %d set, which this library does not know; it knows 0x%llx", function,
                        type, std::countr_zero(flags & ~known), known);
}

namespace {

Status read_call(const char *function, const Runtime &runtime, const qr_call_options *call, CallWatch &out) {
  if (!call) return {};
  qr_call_options given = QR_CALL_OPTIONS_INIT;
  QR_RETURN_IF_ERROR(read_struct(function, "qr_call_options", call, given, QR_CALL_OPTIONS_FIRST_SIZE));
  if (given.reserved) return unknown_field(function, "qr_call_options", "reserved");
  QR_RETURN_IF_ERROR(check_flags(function, "qr_call_options", given.flags, 0));
  if (given.progress) {
    qr_progress progress = QR_PROGRESS_INIT;
    QR_RETURN_IF_ERROR(read_struct(function, "qr_progress", given.progress, progress, QR_PROGRESS_FIRST_SIZE));
    if (progress.reserved) return unknown_field(function, "qr_progress", "reserved");
    // One of this call's own: to stop it does not abort the caller's.
    const auto own = Ref<Signal>::make(Ref<Runtime>(const_cast<Runtime *>(&runtime)), object(given.signal));
    out.signal = CallSignal(own.get());
    out.progress = Progress(progress, out.signal);
  } else {
    out.signal = CallSignal(object(given.signal));
  }
  out.profile = object(given.profile);
  return {};
}

}  // namespace

LongCall::LongCall(const char *function, const Runtime &runtime, const qr_call_options *call)
    : function_(function), read_(read_call(function, runtime, call, watch_)), stop_(watch_.signal), scope_(stop_) {}
LongCall::~LongCall() = default;

Status LongCall::outcome(Status status) const {
  return status.code() == QR_CANCELLED && watch_.progress.stopped() ? watch_.signal.check(function_)
                                                                    : std::move(status);
}

Status read_target(const char *function, const qr_target *target, qr_target &out) {
  QR_RETURN_IF_ERROR(read_struct(function, "qr_target", target, out, QR_TARGET_FIRST_SIZE));
  return TargetWriter::check(function, out);
}

Status index_out_of_range(const char *function, const char *what, std::uint64_t index, std::uint64_t count) {
  return Status::errorf(ErrorId::index_out_of_range, "%s: %s is %llu, expected less than %llu", function, what, index,
                        count);
}

char *give_text(std::string_view text) {
  char *out = static_cast<char *>(allocate_block(text.size() + 1, 16));
  std::memcpy(out, text.data(), text.size());
  out[text.size()] = '\0';
  return out;
}

qr_tensor_info tensor_info(const qrm::TensorInfo &info) noexcept {
  qr_tensor_info out = QR_TENSOR_INFO_INIT;
  out.dtype = static_cast<qr_dtype>(info.dtype);
  out.rank = static_cast<std::uint32_t>(info.dims.size() < QR_MAX_RANK ? info.dims.size() : QR_MAX_RANK);
  for (std::uint32_t axis = 0; axis < out.rank; ++axis) out.dims[axis] = info.dims[axis];
  if (const auto count = element_count(out.dims, out.rank))
    out.size_bytes = packed_size(info.dtype, *count).value_or(0);
  out.name = string_of(info.name);
  if (info.quant) {
    const qir::Quantization &quant = *info.quant;
    if (quant.per_tensor()) {
      out.is_quantized = QR_QUANTIZED_PER_TENSOR;
      out.scale = static_cast<double>(quant.scales[0]);
      out.zero_point = quant.zero_points.empty() ? 0 : quant.zero_points[0];
    } else {
      out.is_quantized = quant.block_size > 0 ? QR_QUANTIZED_PER_BLOCK : QR_QUANTIZED_PER_CHANNEL;
      out.scale = std::numeric_limits<double>::quiet_NaN();  // who overlooks the rest sees it at once
      out.scales = quant.scales.data();
      out.zero_points = quant.zero_points.empty() ? nullptr : quant.zero_points.data();
      out.scale_count = quant.scales.size();
      out.block_size = quant.block_size;
      out.quantized_axis =
          static_cast<std::uint32_t>(quant.axis < 0 ? quant.axis + static_cast<std::int32_t>(out.rank) : quant.axis);
    }
  }
  return out;
}

Status give_tensor_info(const char *function, const char *what, const Vector<qrm::TensorInfo> &tensors,
                        std::uint64_t index, qr_tensor_info *out_info) {
  if (index >= tensors.size()) return index_out_of_range(function, what, index, tensors.size());
  QR_RETURN_IF_ERROR(
      check_struct(function, "qr_tensor_info", out_info, QR_TENSOR_INFO_FIRST_SIZE, sizeof(qr_tensor_info)));
  write_struct(tensor_info(tensors[index]), out_info);
  return {};
}

}  // namespace quarry::capi
