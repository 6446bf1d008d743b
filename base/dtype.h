// SPDX-License-Identifier: Apache-2.0
// Element types, from the one table base/dtypes.inc.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace quarry {

enum class DType : std::uint8_t {
  Unknown = 0,
#define QR_DTYPE_ROW(enumerator, number, name, bits, kind) enumerator = number,
#include "base/dtypes.inc"
#undef QR_DTYPE_ROW
};
enum class DTypeKind : std::uint8_t { None, Float, Signed, Unsigned, Bool };

struct DTypeRow {
  DType dtype;
  const char *name;
  std::uint8_t bits;
  DTypeKind kind;
};

const DTypeRow *dtype_row(DType dtype) noexcept;  // nullptr: not in the table
std::optional<DType> dtype_from_number(std::int64_t number) noexcept;
std::optional<DType> dtype_from_name(std::string_view name) noexcept;
const char *dtype_name(DType dtype) noexcept;  // "unknown" where it is none
std::uint32_t dtype_bits(DType dtype) noexcept;
DTypeKind dtype_kind(DType dtype) noexcept;
inline bool is_float(DType dtype) noexcept { return dtype_kind(dtype) == DTypeKind::Float; }
inline bool is_integer(DType dtype) noexcept {
  return dtype_kind(dtype) == DTypeKind::Signed || dtype_kind(dtype) == DTypeKind::Unsigned;
}
// Bytes of `count` packed elements; nothing on overflow or a negative count.
std::optional<std::uint64_t> packed_size(DType dtype, std::int64_t count) noexcept;

}  // namespace quarry
