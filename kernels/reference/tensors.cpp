// SPDX-License-Identifier: Apache-2.0
#include "kernels/reference/tensors.h"

#include <algorithm>

namespace quarry::reference {

Status read_list(const Context &context, std::uint32_t input, qir::IntList *out) {
  *out = {};
  const View *view = context.input(input);
  if (!view) return {};
  if (!qir::read_ints(view->dtype, view->data, view->count, out)) {
    return qir::node_error(context.node(), ErrorId::run_value,
                           "input %u is %s %s, expected a list of at most %zu integers", input, dtype_name(view->dtype),
                           shape_text(view->dims, view->rank), std::size(out->values));
  }
  return {};
}

Status read_integer(const Context &context, std::uint32_t input, std::int64_t fallback, std::int64_t *out) {
  *out = fallback;
  const View *view = context.input(input);
  if (!view) return {};
  if (view->count != 1 || (view->dtype != DType::I64 && view->dtype != DType::I32)) {
    return qir::node_error(context.node(), ErrorId::run_value, "input %u is %s %s, expected one integer", input,
                           dtype_name(view->dtype), shape_text(view->dims, view->rank));
  }
  *out = integer_at(*view, 0);
  return {};
}

Status read_axis(const Context &context, std::int64_t fallback, std::size_t rank, std::size_t *out) {
  return qir::resolve_axis(context.node(), context.node().get_int("axis", fallback), rank, out);
}

Status make_output(Context &context, std::uint32_t index, const std::int64_t *dims, std::size_t rank, View **out) {
  *out = context.output(index);
  if (!*out) return {};
  if (!element_count(dims, rank)) {
    return qir::node_error(context.node(), ErrorId::run_value, "output %u comes to %s, which is no shape", index,
                           shape_text(dims, rank));
  }
  if (!(*out)->data) {
    QR_RETURN_IF_ERROR(context.resize_output(index, dims, static_cast<std::uint32_t>(rank)));
    *out = context.output(index);
  }
  if ((*out)->rank != rank || !std::equal(dims, dims + rank, (*out)->dims)) {
    return qir::node_error(context.node(), ErrorId::run_value, "output %u comes to %s, expected %s", index,
                           shape_text(dims, rank), shape_text((*out)->dims, (*out)->rank));
  }
  return {};
}

Status index_error(const Context &context, std::int64_t index, std::int64_t extent) {
  return qir::node_error(context.node(), ErrorId::run_value, "found index %lld, expected %lld to %lld", index, -extent,
                         extent - 1);
}

Status type_error(const Context &context, DType dtype) {
  return qir::node_error(context.node(), ErrorId::backend_type, "found %s, which the kernel does not take",
                         dtype_name(dtype));
}

namespace {

struct CopyAxis {
  std::int64_t extent, to, from;
};

template <class T>
void copy_row(CopyAxis row, void *to, const void *from) noexcept {
  T *out = static_cast<T *>(to);
  const T *in = static_cast<const T *>(from);
  if (row.to == 1 && row.from == 1) {
    std::memmove(out, in, static_cast<std::size_t>(row.extent) * sizeof(T));
  } else {
    std::int64_t i = 0;
    for (; i + 4 <= row.extent; i += 4, out += 4 * row.to, in += 4 * row.from) {
      out[0] = in[0];
      out[row.to] = in[row.from];
      out[2 * row.to] = in[2 * row.from];
      out[3 * row.to] = in[3 * row.from];
    }
    for (; i < row.extent; ++i, out += row.to, in += row.from) *out = *in;
  }
}

}  // namespace

void copy_strided(std::uint32_t width, std::size_t rank, const std::int64_t *dims, void *to,
                  const std::int64_t *to_strides, const void *from, const std::int64_t *from_strides,
                  Poll *poll) noexcept {
  // Axes that follow each other in both become one; the last one is the row.
  CopyAxis axes[kMaxCopyRank + 1] = {{1, 1, 1}};
  std::size_t count = 0;
  for (std::size_t i = 0; i < rank; ++i) {
    if (dims[i] == 0) return;
    if (dims[i] == 1) continue;
    const CopyAxis axis = {dims[i], to_strides[i], from_strides[i]};
    if (count > 0 && axes[count - 1].to == axis.to * axis.extent && axes[count - 1].from == axis.from * axis.extent) {
      axes[count - 1] = {axes[count - 1].extent * axis.extent, axis.to, axis.from};
    } else {
      axes[count++] = axis;
    }
  }
  if (count == 0) count = 1;
  const CopyAxis row = axes[count - 1];
  const auto row_copy = width == 1   ? copy_row<std::uint8_t>
                        : width == 2 ? copy_row<std::uint16_t>
                        : width == 4 ? copy_row<std::uint32_t>
                                     : copy_row<std::uint64_t>;
  std::int64_t outer[kMaxCopyRank];
  for (std::size_t i = 0; i + 1 < count; ++i) outer[i] = axes[i].extent;
  for (Odometer at(outer, count - 1); !at.done(); at.next()) {
    std::int64_t to_offset = 0, from_offset = 0;
    for (std::size_t i = 0; i + 1 < count; ++i) {
      to_offset += at[i] * axes[i].to;
      from_offset += at[i] * axes[i].from;
    }
    constexpr std::int64_t kPiece = 1 << 20;
    for (std::int64_t i = 0; i < row.extent; i += kPiece) {
      const CopyAxis piece = {std::min(kPiece, row.extent - i), row.to, row.from};
      if (poll && poll->stopped(piece.extent)) return;
      row_copy(piece, static_cast<char *>(to) + (to_offset + i * row.to) * width,
               static_cast<const char *>(from) + (from_offset + i * row.from) * width);
    }
  }
}

void fill(void *to, std::int64_t count, const void *value, std::uint32_t width) noexcept {
  // A few copies one by one, then those again and again.
  constexpr std::int64_t kFew = 256;
  const std::int64_t one = 1, none = 0, few = std::min(count, kFew);
  copy_strided(width, 1, &few, to, &one, value, &none);
  auto *const bytes = static_cast<std::byte *>(to);
  const std::size_t part = static_cast<std::size_t>(kFew) * width, all = static_cast<std::size_t>(count) * width;
  for (std::size_t at = part; at < all; at += part) std::memcpy(bytes + at, bytes, std::min(part, all - at));
}

void fill(const Context &context, const View &out, const void *value) noexcept {
  constexpr std::int64_t kPiece = 1 << 20;
  for (std::int64_t at = 0; at < out.count; at += kPiece) {
    if (at > 0 && context.stopped()) return;
    fill(out.as<char>() + at * out.width, std::min(kPiece, out.count - at), value, out.width);
  }
}

Status copy_bits(Context &context) {
  const View &in = *context.input(0);
  View *out = context.output(0);
  if (!out) return {};
  if (in.width != out->width) return type_error(context, in.dtype);
  if (in.count != 0) std::memcpy(out->data, in.data, in.bytes());
  return {};
}

}  // namespace quarry::reference
