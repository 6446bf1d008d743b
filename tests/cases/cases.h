// SPDX-License-Identifier: Apache-2.0
// The tables of this folder as rows, and what their texts say.
#pragma once

#include <cmath>
#include <cstdlib>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/infer/infer.h"
#include "graph/ops/op_spec.h"

namespace quarry::test {

struct FunctionCase {
  qir::Op op;
  double low, high;  // where it is drawn from
  long double (*formula)(long double);
  double ulps;      // of cpu's f32, at most
  double absolute;  // or this
};
struct BinaryCase {
  qir::Op op;
  const char *attributes;
  double low[2], high[2];
  long double (*formula)(long double, long double);
};
struct ReductionCase {
  qir::Op op;
  double low, high;
  long double (*formula)(std::span<const long double>);
};
struct OperatorCase {
  qir::Op op;
  const char *attributes, *operands, *values, *result;
};

// log(1 + exp(x)) without loss.
inline long double softplus(long double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }
inline long double sigmoid(long double x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }
inline long long bits(long double x) { return static_cast<long long>(x); }

inline constexpr FunctionCase kFunctionCases[] = {
#define QR_FUNCTION_CASE(op, low, high, jumps, ulps, absolute, formula) \
  {qir::Op::op, low, high, [](long double x) -> long double { return formula; }, ulps, absolute},
#include "tests/cases/functions.inc"
};
inline constexpr BinaryCase kBinaryCases[] = {
#define QR_BINARY_CASE(op, attributes, low, high, low2, high2, jumps, formula)                            \
  {qir::Op::op, attributes, {low, low2}, {high, high2}, [](long double x, long double y) -> long double { \
     return formula;                                                                                      \
   }},
#include "tests/cases/binary.inc"
};
inline constexpr ReductionCase kReductionCases[] = {
#define QR_REDUCTION_CASE(op, low, high, jumps, first, joined, result)          \
  {qir::Op::op, low, high, [](std::span<const long double> elements) {          \
     [[maybe_unused]] const auto n = static_cast<long double>(elements.size()); \
     long double s = first;                                                     \
     for (const long double x : elements) s = joined;                           \
     return static_cast<long double>(result);                                   \
   }},
#include "tests/cases/reductions.inc"
};
inline constexpr OperatorCase kOperatorCases[] = {
#define QR_OPERATOR_CASE(op, attributes, operands, values, result) {qir::Op::op, attributes, operands, values, result},
#include "tests/cases/operators.inc"
};

// The types that an operator's variable may have, one bit per DType number.
inline std::uint32_t types_of(qir::Op op, std::string_view variable) {
  return qir::TypeSpec(qir::op_row(op).types).mask(variable);
}
inline bool takes_type(qir::Op op, std::string_view variable, DType dtype) {
  return (types_of(op, variable) & qir::dtype_bit(dtype)) != 0;
}

// The type of its first output where the variable is this type.
inline DType result_type(qir::Op op, std::string_view variable, DType dtype) {
  const qir::TypeSpec types(qir::op_row(op).types);
  std::string_view outputs = types.outputs();
  qir::TypeSlot slot;
  if (!qir::TypeSpec::next(&outputs, &slot) || slot.type == variable || types.mask(slot.type) == qir::dtype_bit(dtype))
    return dtype;
  for (std::int64_t number = 1; number < 32; ++number)
    if (const auto made = dtype_from_number(number); made && types.mask(slot.type) == qir::dtype_bit(*made))
      return *made;
  return dtype;
}

// What stands between separators, without the spaces around it.
inline std::vector<std::string> parts_of(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = text.find(separator);
    if (const std::string_view part = qir::detail::trim(text.substr(0, end)); !part.empty()) parts.emplace_back(part);
    text = end == text.npos ? std::string_view() : text.substr(end + 1);
  }
  return parts;
}
// "name=value; name=value", of the kinds that the operator's row says.
inline void set_attributes(qir::Node &node, std::string_view text) {
  for (const std::string &part : parts_of(text, ';')) {
    const std::size_t at = part.find('=');
    const std::string name = part.substr(0, at), value = part.substr(at + 1);
    qir::AttributeSpec spec;
    for (qir::AttributeSpecs walk(qir::op_row(node.op).attributes); walk.next(&spec);) {
      if (spec.name != name) continue;
      if (spec.kind == qir::Attribute::Kind::Int) node.set(name, std::int64_t{std::atoll(value.c_str())});
      else if (spec.kind == qir::Attribute::Kind::Float) node.set(name, std::strtof(value.c_str(), nullptr));
      else node.set(name, std::string_view(value));
    }
  }
}

inline std::vector<double> numbers_of(std::string_view text) {
  std::vector<double> numbers;
  for (const std::string &number : parts_of(text, ' ')) numbers.push_back(std::strtod(number.c_str(), nullptr));
  return numbers;
}

// An operand of a row's `operands`; a constant has values.
struct CaseOperand {
  std::string type;
  qir::Shape shape;
  std::optional<std::vector<double>> values;
};
// `extent`: how long the dimension of a letter is.
template <class Extent>
std::vector<CaseOperand> operands_of(const OperatorCase &row, Extent &&extent) {
  std::vector<CaseOperand> operands;
  const std::string_view text = row.operands;
  for (const std::string &part : parts_of(text.substr(0, text.find("->")), ';')) {
    const std::vector<std::string> words = parts_of(part, ' ');
    CaseOperand &operand = operands.emplace_back();
    operand.type = words.at(0);
    if (const std::size_t at = part.find('='); at != part.npos) operand.values = numbers_of(part.substr(at + 1));
    for (const std::string &dim : parts_of(words.at(1) == "-" ? "" : words.at(1), ','))
      operand.shape.push_back(dim[0] >= 'a' ? extent(dim[0]) : std::atoll(dim.c_str()));
  }
  return operands;
}

// A literal operand or result: "2,2: 0 1 3 5".
struct LiteralOperand {
  qir::Shape shape;
  std::vector<double> values;
};
inline std::vector<LiteralOperand> literals_of(std::string_view text) {
  std::vector<LiteralOperand> operands;
  for (const std::string &part : parts_of(text, ';')) {
    const std::size_t colon = part.find(':');
    LiteralOperand &operand = operands.emplace_back();
    operand.values = numbers_of(part.substr(colon + 1));
    for (const std::string &dim : parts_of(part[0] == '-' ? "" : part.substr(0, colon), ','))
      operand.shape.push_back(std::atoll(dim.c_str()));
  }
  return operands;
}

}  // namespace quarry::test
