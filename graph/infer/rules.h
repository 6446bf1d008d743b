// SPDX-License-Identifier: Apache-2.0
// Shape rules and what they share; only the files of graph/infer include this. A rule may rely on:
// arity, attributes and input
// types are as the row says, every rank is at most kMaxRank, `outputs` has as many entries as the node. It sets dtype
// and shape of the outputs that are there; infer_node then checks ranks and element counts.
#pragma once

#include "base/checked.h"
#include "graph/infer/infer.h"

namespace quarry::qir {
namespace rules {

using Inputs = const Vector<InferValue> &;
using Outputs = Vector<InferType> &;

// The rules of ops.inc, of each in the file of its operators' family: Status name(node, inputs, outputs).
#define QR_OP(enumerator, name, domain, family, value, opset, traits, least_in, most_in, least_out, most_out, \
              attributes, types, rule)                                                                        \
  Status rule(const Node &node, Inputs inputs, Outputs outputs);
#include "graph/ops/ops.inc"
#undef QR_OP

}  // namespace rules

// For messages: %lld takes no int64_t as it is, and %s no shape.
inline long long ll(std::int64_t number) noexcept { return number; }
inline String text(Dims dims) { return shape_text(dims.data(), dims.size()); }

namespace rules {

// ---- what rules share ---------------------------------------------------------------------------

inline bool is_known(std::int64_t extent) noexcept { return extent >= 0; }
// Whether two dimensions can be the same one.
inline bool may_equal(std::int64_t a, std::int64_t b) noexcept { return a == b || a < 0 || b < 0; }
inline std::int64_t known_of(std::int64_t a, std::int64_t b) noexcept { return a >= 0 ? a : b; }
bool all_known(Dims dims) noexcept;

// The type that a rule computes with: a quantised tensor stands for real numbers.
inline DType real_dtype(const InferValue &value) noexcept {
  return value.quant && value.quant->has_value() ? DType::F32 : value.dtype;
}
inline bool has_input(Inputs inputs, std::size_t i) noexcept { return i < inputs.size() && inputs[i].present; }
inline bool value_known(Inputs inputs, std::size_t i) noexcept {
  return has_input(inputs, i) && inputs[i].value.data != nullptr;
}
inline Dims dims_of(const InferValue &value) noexcept { return {value.shape.data(), value.shape.size()}; }

// Sets an output; nothing where the node has no such output.
void set_output(Outputs outputs, std::size_t i, DType dtype, Dims dims);
// A shape under construction.
struct DimList : IntList {
  DimList() = default;
  explicit DimList(Dims dims) noexcept {
    for (const std::int64_t d : dims) push(d);
  }
  void push(std::int64_t extent) noexcept { values[size++] = extent; }  // callers keep to 2 * kMaxRank
};

// Products and sums of dimensions; unknown in, unknown out; an error of the node on overflow.
Status multiply(const Node &node, std::int64_t a, std::int64_t b, std::int64_t *out);
Status add(const Node &node, std::int64_t a, std::int64_t b, std::int64_t *out);
Status product(const Node &node, Dims dims, std::int64_t *out);

Status expect_rank(const Node &node, const char *what, Dims dims, std::size_t rank);
Status expect_rank_from(const Node &node, const char *what, Dims dims, std::size_t least);
// "... has shape [5], expected [16]"; unknown dimensions fit anything.
Status expect_shape(const Node &node, const char *what, Dims dims, Dims expected);
Status expect_one_element(const Node &node, const char *what, const InferValue &value);
// An optional input has one element, or as many as `count`.
Status expect_one_or(const Node &node, Inputs inputs, std::size_t i, const char *what, std::int64_t count);
// An optional input has that many elements, in whatever shape.
Status expect_elements(const Node &node, Inputs inputs, std::size_t i, const char *what, std::int64_t count);
// An optional input that is there must have this shape.
Status expect_input_shape(const Node &node, Inputs inputs, std::size_t i, const char *what, Dims expected);

// Element `index` of a value of type i32 or i64, wherever it lies.
std::int64_t int_at(const InferValue &value, std::size_t index) noexcept;
// The same for any type; false for one under 8 bits or an 8-bit float. f16 and bf16 are exact.
bool number_at(const InferValue &value, std::size_t index, double *out) noexcept;
// The number in a one-element input of type i32 or i64; *out untouched when its value is not known.
Status scalar_int(const Node &node, Inputs inputs, std::size_t i, const char *what, std::int64_t *out);
// The element type that an int attribute (an ONNX number) names; refuses what is none.
Status dtype_attribute(const Node &node, const char *attribute, DType fallback, DType *out);

}  // namespace rules
}  // namespace quarry::qir
