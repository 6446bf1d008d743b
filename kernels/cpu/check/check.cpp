// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/check/check.h"

#include "base/checked.h"
#include "base/text.h"

namespace quarry::kernels {

Status refuse(std::string_view kernel, std::string_view what, std::int64_t found, std::string_view expected) {
  return Status::error(ErrorId::backend_bad_blob,
                       format("%.*s: %.*s: found %lld, expected %.*s", kernel, what, found, expected));
}

Status check_act(std::string_view kernel, const Activation &act) {
  if (!valid(act)) return refuse(kernel, "activation", static_cast<std::int64_t>(act.kind), "0 to 25");
  if (act.reserved != 0) return refuse(kernel, "reserved field of the activation", act.reserved, "0");
  return {};
}

bool nest_extent(const std::int64_t *dims, const std::int64_t *strides, std::size_t rank, std::uint64_t *out) noexcept {
  std::uint64_t last = 0;
  bool empty = false;
  for (std::size_t i = 0; i < rank; ++i) {
    if (dims[i] < 0 || strides[i] < 0) return false;
    if (dims[i] == 0) {
      empty = true;
      continue;
    }
    std::uint64_t reach;
    if (!checked_mul(static_cast<std::uint64_t>(dims[i] - 1), static_cast<std::uint64_t>(strides[i]), &reach) ||
        !checked_add(last, reach, &last) || last >= static_cast<std::uint64_t>(kMostElements))
      return false;
  }
  *out = empty ? 0 : last + 1;
  return true;
}

bool image_bytes(std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t stride, std::int64_t c,
                 std::uint64_t width, std::uint64_t *out) noexcept {
  if (n < 1 || h < 1 || w < 1 || c < 1 || stride < c || stride > INT32_MAX) return false;
  std::int64_t pixels = n;
  if (!checked_mul(pixels, h, &pixels) || !checked_mul(pixels, w, &pixels) || pixels > kMostElements) return false;
  const std::int64_t dims[2] = {pixels, c}, strides[2] = {stride, 1};
  std::uint64_t elements;
  return nest_extent(dims, strides, 2, &elements) && checked_mul(elements, width, out);
}

Status check_window(std::string_view kernel, const Window &w) {
  const struct {
    const char *what;
    std::int32_t value, low, high;
  } fields[] = {{"images", w.n, 1, 1 << 24},
                {"input rows", w.ih, 1, 1 << 24},
                {"input columns", w.iw, 1, 1 << 24},
                {"output rows", w.oh, 1, 1 << 24},
                {"output columns", w.ow, 1, 1 << 24},
                {"kernel rows", w.kh, 1, 1 << 16},
                {"kernel columns", w.kw, 1, 1 << 16},
                {"row step", w.sh, 1, 1 << 16},
                {"column step", w.sw, 1, 1 << 16},
                {"row dilation", w.dh, 1, 1 << 16},
                {"column dilation", w.dw, 1, 1 << 16},
                {"rows of padding", w.pad_top, 0, 1 << 24},
                {"columns of padding", w.pad_left, 0, 1 << 24}};
  for (const auto &field : fields)
    if (field.value < field.low || field.value > field.high)
      return refuse(kernel, field.what, field.value, format("%d to %d", field.low, field.high));
  if (std::int64_t{w.kh} * w.kw > 1 << 16) return refuse(kernel, "taps", std::int64_t{w.kh} * w.kw, "at most 65536");
  return {};
}

bool valid(const Activation &act) noexcept { return act.kind < Act::Count; }

}  // namespace quarry::kernels
