// SPDX-License-Identifier: Apache-2.0
#include "passes/shapes/fold_list.h"

#include <cstring>
#include <optional>

#include "base/checked.h"
#include "graph/infer/infer.h"
#include "passes/shapes/cut.h"

namespace quarry::passes {

namespace {

using qir::at;
using qir::Op;

constexpr std::int64_t kMost = 64;  // elements

bool is_index(DType dtype) { return dtype == DType::I64 || dtype == DType::I32; }

// A constant of at most kMost i64, i32 or truth values, as i64.
struct List {
  std::int64_t values[kMost];
  std::int64_t count = 0;
  std::int64_t operator[](std::int64_t i) const { return values[count == 1 ? 0 : i]; }
};

bool read(const qir::Graph &graph, std::int32_t id, List *out) {
  if (id == qir::kAbsent) return false;
  const qir::Tensor &tensor = at(graph, id);
  const std::uint64_t each = dtype_bits(tensor.dtype) / 8;
  if (!tensor.is_constant || tensor.quant || (!is_index(tensor.dtype) && tensor.dtype != DType::Bool) ||
      tensor.data.size > kMost * each)
    return false;
  out->count = static_cast<std::int64_t>(tensor.data.size / each);
  const auto *bytes = static_cast<const char *>(tensor.data.data);
  for (std::int64_t i = 0; i < out->count; ++i, bytes += each) {
    std::int32_t narrow = 0;
    if (each == 8) std::memcpy(out->values + i, bytes, 8);
    else std::memcpy(&narrow, bytes, each), out->values[i] = narrow;
  }
  return true;
}

// Of elements [i]; nothing: left to the kernel.
std::optional<std::int64_t> combine(Op op, std::int64_t a, std::int64_t b) {
  const auto u = static_cast<std::uint64_t>(a), v = static_cast<std::uint64_t>(b);
  switch (op) {  // (integers wrap around)
    case Op::Add: return static_cast<std::int64_t>(u + v);
    case Op::Sub: return static_cast<std::int64_t>(u - v);
    case Op::Mul: return static_cast<std::int64_t>(u * v);
    case Op::Div: return b > 0 ? std::optional(a / b) : std::nullopt;
    case Op::Min: return a < b ? a : b;
    case Op::Max: return a < b ? b : a;
    case Op::Equal: return a == b;
    case Op::Less: return a < b;
    case Op::LessOrEqual: return a <= b;
    case Op::Greater: return a > b;
    case Op::GreaterOrEqual: return a >= b;
    default: return std::nullopt;
  }
}

// A node in the making: its inputs, as far as they are lists.
struct Folding {
  const qir::Graph &graph;
  const qir::Node &node;
  const qir::Tensor &made;
  std::int64_t count;  // of the result
  List in[4];
  List out;

  bool reads(std::size_t inputs) {
    if (node.inputs.size() != inputs) return false;
    for (std::size_t i = 0; i < inputs; ++i)
      if (!read(graph, node.inputs[i], &in[i])) return false;
    return true;
  }
  bool fits(const List &list) const { return list.count == 1 || list.count == count; }

  bool elements() {
    if (!reads(2) || !fits(in[0]) || !fits(in[1])) return false;
    for (std::int64_t i = 0; i < count; ++i) {
      const auto value = combine(node.op, in[0][i], in[1][i]);
      if (!value) return false;
      out.values[i] = *value;
    }
    return true;
  }
  bool where() {
    if (!reads(3) || !fits(in[0]) || !fits(in[1]) || !fits(in[2])) return false;
    for (std::int64_t i = 0; i < count; ++i) out.values[i] = in[0][i] != 0 ? in[1][i] : in[2][i];
    return true;
  }
  // The same elements in their order, or one of them many times.
  bool same() {
    if (!read(graph, node.inputs[0], &in[0]) || (in[0].count != count && (node.op != Op::Expand || in[0].count != 1)))
      return false;
    for (std::int64_t i = 0; i < count; ++i) out.values[i] = in[0][i];
    return true;
  }
  bool joined() {
    std::int64_t filled = 0;
    for (const std::int32_t id : node.inputs) {
      if (!read(graph, id, &in[0]) || at(graph, id).shape.size() != 1 || filled + in[0].count > count) return false;
      for (std::int64_t i = 0; i < in[0].count; ++i) out.values[filled++] = in[0].values[i];
    }
    return filled == count;
  }
  bool gathered() {
    if (!reads(2) || at(graph, node.inputs[0]).shape.size() != 1 || at(graph, node.inputs[1]).shape != made.shape)
      return false;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t index = in[1].values[i] + (in[1].values[i] < 0 ? in[0].count : 0);
      if (index < 0 || index >= in[0].count) return false;
      out.values[i] = in[0].values[index];
    }
    return true;
  }
  bool sliced() {
    if (node.inputs.size() < 3 || at(graph, node.inputs[0]).shape.size() != 1 || !read(graph, node.inputs[0], &in[0]))
      return false;
    Vector<std::int64_t> lists[4];
    for (std::size_t i = 1; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == qir::kAbsent) continue;
      if (!read(graph, node.inputs[i], &in[1]) || in[1].count != 1) return false;
      lists[i - 1] = {in[1].values[0]};
    }
    qir::SliceGeometry slice;
    if (!qir::resolve_slice(node, at(graph, node.inputs[0]).shape, lists[0], lists[1], lists[2], lists[3], &slice)
             .ok() ||
        slice.extent[0] != count)
      return false;
    for (std::int64_t i = 0; i < count; ++i) out.values[i] = in[0].values[slice.start[0] + i * slice.step[0]];
    return true;
  }

  bool run() {
    switch (node.op) {
      case Op::Gather: return gathered();
      case Op::Concat: return made.shape.size() == 1 && joined();
      case Op::Slice: return sliced();
      case Op::Where: return where();
      case Op::Unsqueeze:
      case Op::Squeeze:
      case Op::Reshape:
      case Op::Identity:
      case Op::Cast:
      case Op::Expand: return same();
      default: return elements();
    }
  }
};

bool is_simple(Op op) {
  switch (op) {
    case Op::Gather:
    case Op::Concat:
    case Op::Slice:
    case Op::Where:
    case Op::Unsqueeze:
    case Op::Squeeze:
    case Op::Reshape:
    case Op::Identity:
    case Op::Cast:
    case Op::Expand:
    case Op::Add:
    case Op::Sub:
    case Op::Mul:
    case Op::Div:
    case Op::Min:
    case Op::Max:
    case Op::Equal:
    case Op::Less:
    case Op::LessOrEqual:
    case Op::Greater:
    case Op::GreaterOrEqual: return true;
    default: return false;
  }
}

}  // namespace

bool fold_list(qir::Graph &graph, const qir::Node &node, qir::Store &store) {
  if (!is_simple(node.op) || node.inputs.empty()) return false;
  qir::Tensor &made = at(graph, node.outputs[0]);
  if (made.quant || !known(made.shape) || (!is_index(made.dtype) && made.dtype != DType::Bool)) return false;
  const auto count = element_count(made.shape.data(), made.shape.size());
  if (!count || *count > kMost) return false;
  Folding folding{graph, node, made, *count, {}, {}};
  if (!folding.run()) return false;
  const std::uint64_t each = dtype_bits(made.dtype) / 8;
  char bytes[kMost * 8], *to = bytes;
  for (std::int64_t i = 0; i < *count; ++i, to += each) {
    // Bits of the lower half are those of i32; truth values are 0 and 1.
    const std::int64_t value = made.dtype == DType::Bool ? folding.out.values[i] != 0 : folding.out.values[i];
    const auto narrow = static_cast<std::int32_t>(value);
    if (each == 8) std::memcpy(to, &value, 8);
    else std::memcpy(to, &narrow, each);
  }
  made.is_constant = true;
  made.data = store.copy(bytes, static_cast<std::uint64_t>(*count) * each);
  return true;
}

}  // namespace quarry::passes
