// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "kernels/reference/kernels.h"

namespace quarry::reference {
namespace {

constexpr std::size_t kOpCount = 0
#define QR_OP(...) +1
#include "graph/ops/ops.inc"
#undef QR_OP
    ;

constexpr KernelRow kRows[] = {
#define QR_KERNEL(op, function, handling, types, note) {qir::Op::op, function, Handling::handling, types, note},
#include "kernels/reference/kernels.inc"
#undef QR_KERNEL
};

// Row number + 1 per op; 0: no kernel.
constexpr auto kIndex = [] {
  std::array<std::uint16_t, kOpCount> index{};
  std::uint16_t number = 0;
  for (const KernelRow &row : kRows) index[index_of(row.op)] = ++number;
  return index;
}();

bool is_one_of(std::string_view token, DType dtype) noexcept {
  const DTypeKind kind = dtype_kind(dtype);
  const std::uint32_t bits = dtype_bits(dtype);
  const bool integer = kind == DTypeKind::Signed || kind == DTypeKind::Unsigned;
  if (token == "all") return true;
  if (token == "floats") return kind == DTypeKind::Float && bits >= 16;
  if (token == "small_floats") return kind == DTypeKind::Float && bits <= 8 && dtype != DType::F8E8M0;
  if (token == "integers") return integer && bits >= 8;
  if (token == "small_integers") return integer && bits < 8;
  return token == dtype_name(dtype);
}

}  // namespace

const KernelRow *find_kernel(qir::Op op) noexcept {
  const std::size_t number = kIndex[index_of(op)];
  return number == 0 ? nullptr : &kRows[number - 1];
}

bool takes_dtype(const KernelRow &row, DType dtype) noexcept {
  std::string_view rest = row.types;
  while (!rest.empty()) {
    const std::size_t end = rest.find(' ');
    if (is_one_of(rest.substr(0, end), dtype)) return true;
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  }
  return false;
}

}  // namespace quarry::reference
