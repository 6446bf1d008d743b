// SPDX-License-Identifier: Apache-2.0
// Checks of what works element by element, along rows, or moves data.
#include "kernels/cpu/check/check.h"
#include "kernels/cpu/shapes/elements_shape.h"

#include "base/checked.h"
#include "base/dtype.h"

namespace quarry::kernels {

namespace {

// The number of elements of a list of dimensions; nothing that overflows later on.
bool count_of(const std::int64_t *dims, std::size_t rank, std::uint64_t *out) noexcept {
  const auto count = element_count(dims, rank);
  if (!count || *count > kMostElements) return false;
  *out = static_cast<std::uint64_t>(*count);
  return true;
}

Status check_flag(std::string_view kernel, std::string_view what, std::uint32_t value) {
  return value > 1 ? refuse(kernel, what, value, "0 or 1") : Status();
}
Status check_reserved(std::string_view kernel, std::uint32_t value) {
  return value != 0 ? refuse(kernel, "reserved field", value, "0") : Status();
}

// outer x middle x inner elements.
Status check_block(std::string_view kernel, std::int64_t outer, std::int64_t middle, std::int64_t inner,
                   std::uint64_t *count) {
  const std::int64_t dims[3] = {outer, middle, inner};
  if (!count_of(dims, 3, count))
    return refuse(kernel, "elements (outer size given)", outer, "no negative sizes, and at most 2^48 elements");
  return {};
}
Status check_count(std::string_view kernel, std::int64_t count) {
  return count < 0 || count > kMostElements ? refuse(kernel, "elements", count, "0 to 2^48") : Status();
}

Status check_type(std::string_view kernel, NumberType type) {
  return type >= NumberType::Count
             ? refuse(kernel, "type of an operand", static_cast<std::int64_t>(type), "0 to 2 (f32, f16, bf16)")
             : Status();
}
std::uint64_t bytes_of(std::uint64_t elements, NumberType type) noexcept {
  return elements * (type == NumberType::F32 ? 4 : 2);
}

bool valid_width(std::uint32_t width) noexcept {
  return width == 1 || width == 2 || width == 4 || width == 8 || width == 16;
}

}  // namespace

Status check_BinaryF32(const void *params, const Isa &, Needs &needs) {
  const auto &p = *static_cast<const BinaryF32 *>(params);
  if (p.op >= BinaryOp::Count) return refuse("BinaryF32", "operator", static_cast<std::int64_t>(p.op), "0 to 7");
  if (p.rank < 1 || p.rank > kLoopRank) return refuse("BinaryF32", "rank", p.rank, "1 to 6");
  QR_RETURN_IF_ERROR(check_act("BinaryF32", p.act));
  std::uint64_t a, b, y;
  if (!count_of(p.dims, p.rank, &y))
    return refuse("BinaryF32", "elements (first size given)", p.dims[0],
                  "no negative sizes, and at most 2^48 elements");
  if (!nest_extent(p.dims, p.a, p.rank, &a))
    return refuse("BinaryF32", "strides of a (first given)", p.a[0], "0 or more, within 2^48 elements");
  if (!nest_extent(p.dims, p.b, p.rank, &b))
    return refuse("BinaryF32", "strides of b (first given)", p.b[0], "0 or more, within 2^48 elements");
  if (y == 0) a = b = 0;
  add(needs, a * 4), add(needs, b * 4), add(needs, y * 4, true);
  return {};
}

Status check_ChainF32(const void *params, const Isa &, Needs &needs) {
  const auto &p = *static_cast<const ChainF32 *>(params);
  if (p.rank < 1 || p.rank > kLoopRank) return refuse("ChainF32", "rank", p.rank, "1 to 6");
  if (p.stages < 1 || p.stages > kChainStages) return refuse("ChainF32", "stages", p.stages, "1 to 7");
  std::uint64_t bytes, y;
  if (!count_of(p.dims, p.rank, &y))
    return refuse("ChainF32", "elements (first size given)", p.dims[0], "no negative sizes, and at most 2^48 elements");
  if (!nest_extent(p.dims, p.x, p.rank, &bytes))
    return refuse("ChainF32", "strides of x (first given)", p.x[0], "0 or more, within 2^48 elements");
  QR_RETURN_IF_ERROR(check_type("ChainF32", p.x_type));
  QR_RETURN_IF_ERROR(check_type("ChainF32", p.y_type));
  add(needs, y == 0 ? 0 : bytes_of(bytes, p.x_type));
  for (std::uint32_t s = 0; s < p.stages; ++s) {
    const ChainStage &stage = p.stage[s];
    if (stage.form >= ChainForm::Count)
      return refuse("ChainF32", "form of a stage", static_cast<std::int64_t>(stage.form), "0 to 2");
    if (stage.op >= BinaryOp::Count)
      return refuse("ChainF32", "operator", static_cast<std::int64_t>(stage.op), "0 to 7");
    QR_RETURN_IF_ERROR(check_act("ChainF32", stage.act));
    QR_RETURN_IF_ERROR(check_type("ChainF32", stage.b_type));
    QR_RETURN_IF_ERROR(check_reserved("ChainF32", stage.reserved));
    if (stage.form == ChainForm::Alone) continue;
    if (!nest_extent(p.dims, stage.b, p.rank, &bytes))
      return refuse("ChainF32", "strides of an operand (first given)", stage.b[0], "0 or more, within 2^48 elements");
    add(needs, y == 0 ? 0 : bytes_of(bytes, stage.b_type));
  }
  add(needs, bytes_of(y, p.y_type), true);
  return {};
}

Status check_UnaryF32(const void *params, const Isa &, Needs &needs) {
  const auto &p = *static_cast<const UnaryF32 *>(params);
  QR_RETURN_IF_ERROR(check_count("UnaryF32", p.count));
  QR_RETURN_IF_ERROR(check_act("UnaryF32", p.act));
  const std::uint64_t bytes = static_cast<std::uint64_t>(p.count) * 4;
  add(needs, bytes), add(needs, bytes, true);
  return {};
}

Status check_SoftmaxF32(const void *params, const Isa &, Needs &needs) {
  const auto &p = *static_cast<const SoftmaxF32 *>(params);
  std::uint64_t count = 0;
  QR_RETURN_IF_ERROR(check_block("SoftmaxF32", p.outer, p.n, p.inner, &count));
  QR_RETURN_IF_ERROR(check_flag("SoftmaxF32", "log", p.log));
  add(needs, count * 4), add(needs, count * 4, true);
  return {};
}

Status check_UnaryF64(const void *params, const Isa &, Needs &needs) {
  const auto &p = *static_cast<const UnaryF64 *>(params);
  QR_RETURN_IF_ERROR(check_count("UnaryF64", p.count));
  if (!takes_f64(p.kind))
    return refuse("UnaryF64", "activation", static_cast<std::int64_t>(p.kind), "one that f64 has");
  QR_RETURN_IF_ERROR(check_reserved("UnaryF64", p.reserved));
  const std::uint64_t bytes = static_cast<std::uint64_t>(p.count) * 8;
  add(needs, bytes), add(needs, bytes, true);
  return {};
}

Status check_SoftmaxF64(const void *params, const Isa &, Needs &needs) {
  const auto &p = *static_cast<const SoftmaxF64 *>(params);
  std::uint64_t count = 0;
  QR_RETURN_IF_ERROR(check_block("SoftmaxF64", p.outer, p.n, p.inner, &count));
  QR_RETURN_IF_ERROR(check_flag("SoftmaxF64", "log", p.log));
  QR_RETURN_IF_ERROR(check_reserved("SoftmaxF64", p.reserved));
  add(needs, count * 8), add(needs, count * 8, true);
  return {};
}

Status check_Hardmax(const void *params, const Isa &, Needs &needs) {
  const auto &p = *static_cast<const Hardmax *>(params);
  std::uint64_t count = 0;
  QR_RETURN_IF_ERROR(check_block("Hardmax", p.outer, p.n, p.inner, &count));
  if (p.n > INT32_MAX) return refuse("Hardmax", "elements of a row", p.n, "less than 2^31");
  QR_RETURN_IF_ERROR(check_reserved("Hardmax", p.reserved));
  const auto dtype = static_cast<DType>(p.dtype);
  if (p.dtype > 255 || (dtype != DType::F32 && dtype != DType::F64))
    return refuse("Hardmax", "dtype", p.dtype, "f32 or f64");
  const std::uint64_t bytes = count * (dtype == DType::F32 ? 4 : 8);
  add(needs, bytes), add(needs, bytes, true);
  return {};
}

Status check_LayerNormF32(const void *params, const Isa &, Needs &needs) {
  const auto &p = *static_cast<const LayerNormF32 *>(params);
  std::uint64_t count = 0;
  QR_RETURN_IF_ERROR(check_block("LayerNormF32", p.rows, p.cols, 1, &count));
  QR_RETURN_IF_ERROR(check_count("LayerNormF32", p.cols));
  QR_RETURN_IF_ERROR(check_flag("LayerNormF32", "rms", p.rms));
  QR_RETURN_IF_ERROR(check_flag("LayerNormF32", "has_residual", p.has_residual));
  QR_RETURN_IF_ERROR(check_flag("LayerNormF32", "has_beta", p.has_beta));
  QR_RETURN_IF_ERROR(check_flag("LayerNormF32", "has_sum", p.has_sum));
  QR_RETURN_IF_ERROR(check_flag("LayerNormF32", "has_statistics", p.has_statistics));
  QR_RETURN_IF_ERROR(check_flag("LayerNormF32", "plain", p.plain));
  if (p.plain && p.has_beta) return refuse("LayerNormF32", "has_beta", p.has_beta, "0 where there is no gamma");
  QR_RETURN_IF_ERROR(check_act("LayerNormF32", p.act));
  const std::uint64_t row = static_cast<std::uint64_t>(p.cols) * 4;
  add(needs, count * 4);
  if (p.has_residual) add(needs, count * 4);
  if (!p.plain) add(needs, row);
  if (p.has_beta) add(needs, row);
  add(needs, count * 4, true);
  if (p.has_sum) add(needs, count * 4, true);
  for (std::uint32_t i = 0; i < 2u * p.has_statistics; ++i) add(needs, static_cast<std::uint64_t>(p.rows) * 4, true);
  return {};
}

Status check_ReduceF32(const void *params, const Isa &, Needs &needs) {
  const auto &p = *static_cast<const ReduceF32 *>(params);
  std::uint64_t in = 0, out = 0;
  QR_RETURN_IF_ERROR(check_block("ReduceF32", p.outer, p.reduced, p.inner, &in));
  QR_RETURN_IF_ERROR(check_block("ReduceF32", p.outer, 1, p.inner, &out));
  if (p.op >= ReduceOp::Count) return refuse("ReduceF32", "operator", static_cast<std::int64_t>(p.op), "0 to 8");
  QR_RETURN_IF_ERROR(check_type("ReduceF32", p.x_type));
  QR_RETURN_IF_ERROR(check_act("ReduceF32", p.act));
  add(needs, bytes_of(in, p.x_type)), add(needs, out * 4, true);
  if (p.x_type != NumberType::F32)
    needs.scratch_bytes = (static_cast<std::uint64_t>(p.reduced) *
                               static_cast<std::uint64_t>(p.inner == 1               ? kReduceRows
                                                          : p.inner < kReduceColumns ? p.inner
                                                                                     : kReduceColumns) *
                               4 +
                           63) /
                          64 * 64;
  return {};
}

Status check_Reduce(const void *params, const Isa &, Needs &needs) {
  const auto &p = *static_cast<const Reduce *>(params);
  std::uint64_t in = 0, out = 0;
  QR_RETURN_IF_ERROR(check_block("Reduce", p.outer, p.reduced, p.inner, &in));
  QR_RETURN_IF_ERROR(check_block("Reduce", p.outer, 1, p.inner, &out));
  if (p.op >= ReduceOp::Count) return refuse("Reduce", "operator", static_cast<std::int64_t>(p.op), "0 to 8");
  if (p.dtype > 255 || !takes(p.op, static_cast<DType>(p.dtype)))
    return refuse("Reduce", "dtype", p.dtype, "one that the operator takes");
  const std::uint64_t width = dtype_bits(static_cast<DType>(p.dtype)) / 8;
  add(needs, in * width), add(needs, out * width, true);
  return {};
}

Status check_Copy(const void *params, const Isa &, Needs &needs) {
  const auto &p = *static_cast<const Copy *>(params);
  if (!valid_width(p.width)) return refuse("Copy", "bytes of an element", p.width, "1, 2, 4, 8 or 16");
  if (p.rank < 1 || p.rank > kCopyRank) return refuse("Copy", "rank", p.rank, "1 to 8");
  std::uint64_t count, from, to;
  if (!count_of(p.dims, p.rank, &count))
    return refuse("Copy", "elements (first size given)", p.dims[0], "no negative sizes, and at most 2^48 elements");
  if (!nest_extent(p.dims, p.from, p.rank, &from))
    return refuse("Copy", "strides of the source (first given)", p.from[0], "0 or more, within 2^48 elements");
  if (!nest_extent(p.dims, p.to, p.rank, &to))
    return refuse("Copy", "strides of the destination (first given)", p.to[0], "0 or more, within 2^48 elements");
  if (count == 0) from = to = 0;
  // No element of the destination is written twice: sorted by stride, every dimension steps over all that the shorter
  // ones span. What stands there afterwards would depend on the order.
  std::size_t order[kCopyRank], rank = 0;
  for (std::size_t i = 0; i < p.rank; ++i) {
    if (p.dims[i] <= 1) continue;
    std::size_t at = rank++;
    for (; at > 0 && p.to[order[at - 1]] > p.to[i]; --at) order[at] = order[at - 1];
    order[at] = i;
  }
  std::int64_t span = 0;  // from the first to the last element so far; below 2^48, as `to` is
  for (std::size_t i = 0; count != 0 && i < rank; ++i) {
    if (p.to[order[i]] <= span)
      return refuse("Copy", "stride of the destination", p.to[order[i]], "strides that keep elements apart");
    span += (p.dims[order[i]] - 1) * p.to[order[i]];
  }
  add(needs, from * p.width), add(needs, to * p.width, true);
  return {};
}

Status check_Fill(const void *params, const Isa &, Needs &needs) {
  const auto &p = *static_cast<const Fill *>(params);
  if (p.width != 1 && p.width != 2 && p.width != 4 && p.width != 8)
    return refuse("Fill", "bytes of an element", p.width, "1, 2, 4 or 8");
  QR_RETURN_IF_ERROR(check_reserved("Fill", p.reserved));
  QR_RETURN_IF_ERROR(check_count("Fill", p.count));
  add(needs, static_cast<std::uint64_t>(p.count) * p.width, true);
  return {};
}

Status check_Gather(const void *params, const Isa &, Needs &needs) {
  const auto &p = *static_cast<const Gather *>(params);
  if (p.index_bytes != 4 && p.index_bytes != 8) return refuse("Gather", "bytes of an index", p.index_bytes, "4 or 8");
  QR_RETURN_IF_ERROR(check_reserved("Gather", p.reserved));
  QR_RETURN_IF_ERROR(check_count("Gather", p.count));
  // With a row there is, 0 is never out of range, so that bad_index[0] says whether one was.
  if (p.rows < 1) return refuse("Gather", "rows", p.rows, "1 or more");
  std::uint64_t table = 0, out = 0;
  QR_RETURN_IF_ERROR(check_block("Gather", p.outer, p.rows, p.row_bytes, &table));
  QR_RETURN_IF_ERROR(check_block("Gather", p.outer, p.count, p.row_bytes, &out));
  add(needs, table), add(needs, static_cast<std::uint64_t>(p.count) * p.index_bytes), add(needs, out, true);
  return {};
}

Status check_Cast(const void *params, const Isa &, Needs &needs) {
  const auto &p = *static_cast<const Cast *>(params);
  const auto width = [](std::uint32_t dtype) -> std::uint64_t {
    switch (static_cast<DType>(dtype)) {
      case DType::Bool:
      case DType::I8:
      case DType::U8: return 1;
      case DType::F16:
      case DType::BF16:
      case DType::I16:
      case DType::U16: return 2;
      case DType::F32:
      case DType::U32:
      case DType::I32: return 4;
      case DType::F64:
      case DType::U64:
      case DType::I64: return 8;
      default: return 0;
    }
  };
  const std::uint64_t from = p.from < 256 ? width(p.from) : 0, to = p.to < 256 ? width(p.to) : 0;
  if (from == 0)
    return refuse("Cast", "source dtype", p.from, "a real of 16 bits and more, an integer of 8 and more, or bool");
  if (to == 0)
    return refuse("Cast", "destination dtype", p.to, "a real of 16 bits and more, an integer of 8 and more, or bool");
  QR_RETURN_IF_ERROR(check_count("Cast", p.count));
  add(needs, static_cast<std::uint64_t>(p.count) * from), add(needs, static_cast<std::uint64_t>(p.count) * to, true);
  return {};
}

}  // namespace quarry::kernels
