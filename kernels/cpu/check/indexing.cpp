// SPDX-License-Identifier: Apache-2.0
// Kernels that choose elements.
#include "base/checked.h"
#include "kernels/cpu/check/check.h"
#include "kernels/cpu/element_types.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/shapes/gather_shape.h"
#include "kernels/cpu/shapes/top_k_shape.h"

namespace quarry::kernels {

namespace {

constexpr const char *kNumbers = "f32, f64 or an integer of 8 to 64 bits";

}  // namespace

Status check_TopK(const void *params, const Isa &, Needs &needs) {
  constexpr const char *kName = "TopK";
  const auto &p = *static_cast<const TopK *>(params);
  if (!is_number(static_cast<DType>(p.dtype))) return refuse(kName, "dtype", p.dtype, kNumbers);
  for (const std::uint32_t flag : {p.least, p.has_values, p.has_indices})
    if (flag > 1) return refuse(kName, "flag", flag, "0 or 1");
  if (p.has_values + p.has_indices == 0) return refuse(kName, "outputs", 0, "1 or 2");
  if (p.n < 1 || p.n > 1 << 30) return refuse(kName, "elements of a row", p.n, "1 to 2^30");
  if (p.k < 1 || p.k > p.n) return refuse(kName, "k", p.k, "1 to the elements of a row");
  if (p.outer < 1 || p.inner < 1) return refuse(kName, "extent", p.outer < 1 ? p.outer : p.inner, "1 or more");
  const std::int64_t from[3] = {p.outer, p.n, p.inner}, to[3] = {p.outer, p.k, p.inner};
  const auto count = element_count(from, 3), chosen = element_count(to, 3);
  if (!count || !chosen || *count > std::int64_t{1} << 48)
    return refuse(kName, "elements (outer size given)", p.outer, "at most 2^48 elements");
  const auto width = static_cast<std::uint64_t>(top_k_width(p));
  add(needs, static_cast<std::uint64_t>(*count) * width);
  if (p.has_values) add(needs, static_cast<std::uint64_t>(*chosen) * width, true);
  if (p.has_indices) add(needs, static_cast<std::uint64_t>(*chosen) * 8, true);
  needs.scratch_bytes = static_cast<std::uint64_t>(top_k_room(p).bytes);
  return {};
}

Status check_GatherElements(const void *params, const Isa &, Needs &needs) {
  constexpr const char *kName = "GatherElements";
  const auto &p = *static_cast<const GatherElements *>(params);
  if (p.width != 1 && p.width != 2 && p.width != 4 && p.width != 8)
    return refuse(kName, "bytes of an element", p.width, "1, 2, 4 or 8");
  if (p.index_bytes != 4 && p.index_bytes != 8) return refuse(kName, "bytes of an index", p.index_bytes, "4 or 8");
  const std::int64_t table[3] = {p.outer, p.rows, p.inner}, picked[3] = {p.outer, p.count, p.inner};
  const auto from = element_count(table, 3), to = element_count(picked, 3);
  if (!from || !to || *from > std::int64_t{1} << 48 || *to > std::int64_t{1} << 48)
    return refuse(kName, "elements (outer size given)", p.outer, "no negative sizes, and at most 2^48 elements");
  if (p.rows < 1 || (p.index_bytes == 4 && p.rows > INT32_MAX))
    return refuse(kName, "rows", p.rows, "1 or more, as far as indices reach");
  needs.scratch_bytes = static_cast<std::uint64_t>(gathered_columns(p) * p.rows) * p.width;
  add(needs, static_cast<std::uint64_t>(*from) * p.width);
  add(needs, static_cast<std::uint64_t>(*to) * p.index_bytes);
  add(needs, static_cast<std::uint64_t>(*to) * p.width, true);
  return {};
}

namespace {

bool combines(ElementOp op) noexcept {
  return op == ElementOp::Add || op == ElementOp::Mul || op == ElementOp::Min || op == ElementOp::Max;
}

Status scatter_rows(const char *kName, const ScatterRows &p, Needs &needs) {
  constexpr std::int64_t kMost = std::int64_t{1} << 48;
  if (p.reserved != 0) return refuse(kName, "reserved field", p.reserved, "0");
  if (p.length < 1 || p.length > kCopyRank) return refuse(kName, "indices of a tuple", p.length, "1 to 8");
  if (p.bytes < 0 || p.bytes > kMost) return refuse(kName, "bytes", p.bytes, "0 to 2^48");
  std::uint64_t reach = 0;
  if (!nest_extent(p.dims, p.steps, p.length, &reach) || reach == 0)
    return refuse(kName, "axes (first size given)", p.dims[0], "1 or more elements, within 2^48 bytes");
  const std::int64_t updates[2] = {p.tuples, p.row_bytes}, indices[2] = {p.tuples, p.length};
  const auto given = element_count(updates, 2), told = element_count(indices, 2);
  if (!given || !told || *given > kMost || *told > kMost / 8)
    return refuse(kName, "tuples", p.tuples, "none negative, and at most 2^48 bytes of updates");
  if (p.row_bytes > p.bytes - static_cast<std::int64_t>(reach) + 1)
    return refuse(kName, "bytes of a row", p.row_bytes, "what is left behind the last row's beginning, at most");
  const auto bytes = static_cast<std::uint64_t>(p.bytes);
  add(needs, bytes), add(needs, static_cast<std::uint64_t>(*told) * 8), add(needs, static_cast<std::uint64_t>(*given));
  add(needs, bytes, true);
  return {};
}

}  // namespace

Status check_ScatterRows(const void *params, const Isa &, Needs &needs) {
  return scatter_rows("ScatterRows", *static_cast<const ScatterRows *>(params), needs);
}

Status check_ScatterInto(const void *params, const Isa &, Needs &needs) {
  constexpr const char *kName = "ScatterInto";
  const auto &p = *static_cast<const ScatterInto *>(params);
  const auto dtype = static_cast<DType>(p.dtype);
  if (!is_number(dtype)) return refuse(kName, "dtype", p.dtype, kNumbers);
  if (!combines(p.op)) return refuse(kName, "operation", static_cast<std::int64_t>(p.op), "Add, Mul, Min or Max");
  QR_RETURN_IF_ERROR(scatter_rows(kName, p.rows, needs));
  const auto width = static_cast<std::int64_t>(dtype_bits(dtype) / 8);
  if (p.rows.row_bytes % width != 0)
    return refuse(kName, "bytes of a row", p.rows.row_bytes, "whole elements of the type");
  for (std::uint32_t k = 0; k < p.rows.length; ++k)
    if (p.rows.steps[k] % width != 0) return refuse(kName, "step", p.rows.steps[k], "whole elements of the type");
  return {};
}

Status check_TensorScatter(const void *params, const Isa &, Needs &needs) {
  constexpr const char *kName = "TensorScatter";
  constexpr std::int64_t kMost = std::int64_t{1} << 48;
  const auto &p = *static_cast<const TensorScatter *>(params);
  if (p.circular > 1) return refuse(kName, "circular", p.circular, "0 or 1");
  if (p.reserved != 0) return refuse(kName, "reserved field", p.reserved, "0");
  if (p.length < 1 || p.length > kMost) return refuse(kName, "entries of the cache", p.length, "1 to 2^48");
  if (p.added < 1 || p.added > p.length) return refuse(kName, "new entries", p.added, "1 to those of the cache");
  if (p.batches < 1 || p.batches > kMost / 8) return refuse(kName, "batches", p.batches, "1 to 2^45");
  const auto extent = [&](const std::int64_t steps[3], std::int64_t entries, std::uint64_t *bytes) {
    const std::int64_t dims[4] = {p.batches, p.heads, entries, p.entry_bytes},
                       all[4] = {steps[0], steps[1], steps[2], 1};
    return nest_extent(dims, all, 4, bytes) && *bytes > 0;
  };
  std::uint64_t updates = 0, y = 0;
  if (!extent(p.updates, p.added, &updates))
    return refuse(kName, "bytes of an entry of updates", p.entry_bytes, "1 or more, within 2^48 of all");
  if (!extent(p.y, p.length, &y))
    return refuse(kName, "bytes of an entry", p.entry_bytes, "1 or more, within 2^48 of y");
  add(needs, updates), add(needs, static_cast<std::uint64_t>(p.batches) * 8), add(needs, y, true);
  return {};
}

Status check_ScatterElements(const void *params, const Isa &, Needs &needs) {
  constexpr const char *kName = "ScatterElements";
  const auto &p = *static_cast<const ScatterElements *>(params);
  const auto dtype = static_cast<DType>(p.dtype);
  if (p.combines > 1) return refuse(kName, "flag", p.combines, "0 or 1");
  const bool moved = dtype == DType::Bool || dtype == DType::F16 || dtype == DType::BF16;
  if (!is_number(dtype) && (p.combines || !moved)) return refuse(kName, "dtype", p.dtype, kNumbers);
  if (!combines(p.op)) return refuse(kName, "operation", static_cast<std::int64_t>(p.op), "Add, Mul, Min or Max");
  if (p.index_bytes != 4 && p.index_bytes != 8) return refuse(kName, "bytes of an index", p.index_bytes, "4 or 8");
  const std::int64_t table[3] = {p.outer, p.rows, p.inner}, given[3] = {p.outer, p.count, p.inner};
  const auto to = element_count(table, 3), from = element_count(given, 3);
  if (!from || !to || *from > std::int64_t{1} << 48 || *to > std::int64_t{1} << 48)
    return refuse(kName, "elements (outer size given)", p.outer, "no negative sizes, and at most 2^48 elements");
  if (p.rows < 1 || (p.index_bytes == 4 && p.rows > INT32_MAX))
    return refuse(kName, "rows", p.rows, "1 or more, as far as indices reach");
  const std::uint64_t width = dtype_bits(dtype) / 8;
  add(needs, static_cast<std::uint64_t>(*to) * width);
  add(needs, static_cast<std::uint64_t>(*from) * p.index_bytes);
  add(needs, static_cast<std::uint64_t>(*from) * width);
  add(needs, static_cast<std::uint64_t>(*to) * width, true);
  return {};
}

Status check_ArgExtreme(const void *params, const Isa &, Needs &needs) {
  constexpr const char *kName = "ArgExtreme";
  const auto &p = *static_cast<const ArgExtreme *>(params);
  const auto dtype = static_cast<DType>(p.dtype);
  if (!is_number(dtype)) return refuse(kName, "dtype", p.dtype, kNumbers);
  for (const std::uint32_t flag : {p.least, p.last})
    if (flag > 1) return refuse(kName, "flag", flag, "0 or 1");
  if (p.reserved != 0) return refuse(kName, "reserved field", p.reserved, "0");
  if (p.n < 1 || p.n > 1 << 30) return refuse(kName, "elements of a row", p.n, "1 to 2^30");
  const std::int64_t dims[3] = {p.outer, p.n, p.inner}, rows[2] = {p.outer, p.inner};
  const auto count = element_count(dims, 3), made = element_count(rows, 2);
  if (!count || !made || *count > std::int64_t{1} << 48)
    return refuse(kName, "rows (outer size given)", p.outer, "none negative, and at most 2^48 elements");
  add(needs, static_cast<std::uint64_t>(*count) * dtype_bits(dtype) / 8);
  add(needs, static_cast<std::uint64_t>(*made) * 8, true);
  return {};
}

Status check_ArgExtremeF32(const void *params, const Isa &, Needs &needs) {
  constexpr const char *kName = "ArgExtremeF32";
  const auto &p = *static_cast<const ArgExtremeF32 *>(params);
  for (const std::uint32_t flag : {p.least, p.last})
    if (flag > 1) return refuse(kName, "flag", flag, "0 or 1");
  if (p.cols < 1 || p.cols > 1 << 30) return refuse(kName, "elements of a row", p.cols, "1 to 2^30");
  const std::int64_t dims[2] = {p.rows, p.cols};
  const auto count = element_count(dims, 2);
  if (!count || *count > std::int64_t{1} << 48)
    return refuse(kName, "rows", p.rows, "none negative, and at most 2^48 elements");
  add(needs, static_cast<std::uint64_t>(*count) * 4), add(needs, static_cast<std::uint64_t>(p.rows) * 8, true);
  return {};
}

}  // namespace quarry::kernels
