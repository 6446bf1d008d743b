// SPDX-License-Identifier: Apache-2.0
#include "base/dtype.h"

#include "base/checked.h"

namespace quarry {
namespace {
constexpr DTypeRow kRows[] = {
#define QR_DTYPE_ROW(enumerator, number, name, bits, kind) {DType::enumerator, name, bits, DTypeKind::kind},
#include "base/dtypes.inc"
#undef QR_DTYPE_ROW
};
}  // namespace

const DTypeRow *dtype_row(DType dtype) noexcept {
  for (const DTypeRow &row : kRows)
    if (row.dtype == dtype) return &row;
  return nullptr;
}
std::optional<DType> dtype_from_number(std::int64_t number) noexcept {
  for (const DTypeRow &row : kRows)
    if (static_cast<std::int64_t>(row.dtype) == number) return row.dtype;
  return std::nullopt;
}
std::optional<DType> dtype_from_name(std::string_view name) noexcept {
  for (const DTypeRow &row : kRows)
    if (name == row.name) return row.dtype;
  return std::nullopt;
}
const char *dtype_name(DType dtype) noexcept {
  const DTypeRow *row = dtype_row(dtype);
  return row ? row->name : "unknown";
}
std::uint32_t dtype_bits(DType dtype) noexcept {
  const DTypeRow *row = dtype_row(dtype);
  return row ? row->bits : 0;
}
DTypeKind dtype_kind(DType dtype) noexcept {
  const DTypeRow *row = dtype_row(dtype);
  return row ? row->kind : DTypeKind::None;
}
std::optional<std::uint64_t> packed_size(DType dtype, std::int64_t count) noexcept {
  const std::uint64_t bits = dtype_bits(dtype);
  std::uint64_t total;
  if (bits == 0 || count < 0 || !checked_mul<std::uint64_t>(static_cast<std::uint64_t>(count), bits, &total))
    return std::nullopt;
  if (!checked_add<std::uint64_t>(total, 7, &total)) return std::nullopt;
  return total / 8;
}

}  // namespace quarry
