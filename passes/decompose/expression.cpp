// SPDX-License-Identifier: Apache-2.0
#include "passes/decompose/expression.h"

#include <cctype>
#include <cstdlib>
#include <optional>

namespace quarry::passes {

using qir::Op;

namespace {

struct WrittenFunction {
  const char *p, *q;  // attributes
  float p_value, q_value;
  const char *text;
};

std::optional<WrittenFunction> written_function(Op op) {
  switch (op) {
#define QR_FUNCTION(op, cpu, p, p_value, q, q_value, range, reals, integers) \
  case Op::op: {                                                             \
    return WrittenFunction{p, q, p_value, q_value, reals};                   \
  }
#define QR_EXPRESSION(op, p, p_value, q, q_value, range, types, expression) \
  case Op::op: {                                                            \
    return WrittenFunction{p, q, p_value, q_value, #expression};            \
  }
#include "graph/ops/functions.inc"
    default: return std::nullopt;
  }
}

struct WrittenCall {
  std::string_view name;
  Op op;
};
constexpr WrittenCall kWrittenCalls[] = {{"fabs", Op::Abs},    {"sqrt", Op::Sqrt}, {"exp", Op::Exp},
                                         {"log", Op::Log},     {"tanh", Op::Tanh}, {"erf", Op::Erf},
                                         {"floor", Op::Floor}, {"ceil", Op::Ceil}, {"rint", Op::Round},
                                         {"sin", Op::Sin},     {"cos", Op::Cos}};
struct WrittenBinary {
  std::string_view sign;
  Op op;
  int level;  // binds the tighter the greater
};
constexpr WrittenBinary kWrittenBinaries[] = {{"<=", Op::LessOrEqual, 1}, {">=", Op::GreaterOrEqual, 1},
                                              {"<", Op::Less, 1},         {">", Op::Greater, 1},
                                              {"+", Op::Add, 2},          {"-", Op::Sub, 2},
                                              {"*", Op::Mul, 3},          {"/", Op::Div, 3}};

// Reads an expression from left to right. Dry, it writes nothing: whether all of it can be written is known first.
class ExpressionReader {
 public:
  ExpressionReader(Decomposer *to, const WrittenFunction &function, const qir::Node &node)
      : to_(to), rest_(function.text), node_(node), function_(function) {}

  // The whole expression. The result is a tensor, or the element itself where the function is none of it.
  std::optional<std::int32_t> read() {
    const Value value = choice();
    skip();
    if (bad_ || !rest_.empty() || value.kind != Kind::Tensor) return std::nullopt;
    return value.id;
  }

 private:
  enum class Kind : std::uint8_t { Number, Tensor, Truth };
  struct Value {
    Kind kind = Kind::Number;
    double number = 0;
    std::int32_t id = 0;
  };

  void skip() {  // $ stands before what is filled in (gpu's texts)
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '$')) rest_.remove_prefix(1);
  }
  bool take(std::string_view text) {
    skip();
    if (rest_.substr(0, text.size()) != text) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  std::string_view take_name() {
    skip();
    std::size_t size = 0;
    while (size < rest_.size() && (std::isalnum(static_cast<unsigned char>(rest_[size])) || rest_[size] == '_')) ++size;
    const std::string_view name = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return name;
  }
  Value fail() {
    bad_ = true;
    return {};
  }

  std::int32_t tensor_of(const Value &value) {
    return value.kind == Kind::Number && to_ ? to_->number(to_->in(0).dtype, value.number) : value.id;
  }
  Value made(Op op, Vector<std::int32_t> inputs, Kind kind) {
    if (op == node_.op) return fail();  // nothing were gained
    if (!to_) return {kind, 0, 0};
    const qir::Tensor &x = to_->in(0);
    return {kind, 0, to_->of(op, std::move(inputs), kind == Kind::Truth ? DType::Bool : x.dtype, qir::Shape(x.shape))};
  }

  Value choice() {
    const Value condition = binary(1);
    if (!take("?")) return condition;
    const Value yes = choice();
    if (!take(":")) return fail();
    const Value no = choice();
    if (condition.kind != Kind::Truth || yes.kind == Kind::Truth || no.kind == Kind::Truth) return fail();
    return made(Op::Where, {condition.id, tensor_of(yes), tensor_of(no)}, Kind::Tensor);
  }
  const WrittenBinary *next_binary(int level) {
    skip();
    for (const WrittenBinary &one : kWrittenBinaries)
      if (one.level >= level && rest_.substr(0, one.sign.size()) == one.sign) return &one;
    return nullptr;
  }
  Value binary(int level) {
    Value left = unary();
    while (const WrittenBinary *const found = bad_ ? nullptr : next_binary(level)) {
      rest_.remove_prefix(found->sign.size());
      const Value right = binary(found->level + 1);
      if (left.kind == Kind::Truth || right.kind == Kind::Truth) return fail();
      const bool truth = found->level == 1;
      if (left.kind == Kind::Number && right.kind == Kind::Number) {
        if (truth) return fail();
        left.number = of_numbers(found->op, left.number, right.number);
        continue;
      }
      const std::int32_t a = tensor_of(left), b = tensor_of(right);
      left = made(found->op, {a, b}, truth ? Kind::Truth : Kind::Tensor);
    }
    return left;
  }
  static double of_numbers(Op op, double a, double b) {
    return op == Op::Add ? a + b : op == Op::Sub ? a - b : op == Op::Mul ? a * b : a / b;
  }
  Value unary() {
    if (!take("-")) return primary();
    const Value value = unary();
    if (value.kind == Kind::Truth) return fail();
    if (value.kind == Kind::Number) return {Kind::Number, -value.number, 0};
    return made(Op::Neg, {value.id}, Kind::Tensor);
  }
  Value primary() {
    if (bad_) return {};
    if (take("(")) {
      const std::string_view before = rest_;
      if (take_name() == "t" && take(")")) return unary();  // a cast of C
      rest_ = before;
      const Value inner = choice();
      return take(")") ? inner : fail();
    }
    skip();
    if (!rest_.empty() && std::isdigit(static_cast<unsigned char>(rest_[0]))) return literal();
    const std::string_view name = take_name();
    if (name == "a") return {Kind::Tensor, 0, node_.inputs[0]};
    if (name == "p") return {Kind::Number, attribute(function_.p, function_.p_value), 0};
    if (name == "q") return {Kind::Number, attribute(function_.q, function_.q_value), 0};
    return call(name);
  }
  Value call(std::string_view name) {
    if (!take("(")) return fail();
    const Value of = choice();
    if (!take(")") || of.kind == Kind::Truth) return fail();
    if (name == "t") return of;  // a number of the element's type
    if (of.kind != Kind::Tensor) return fail();
    if (name == "expm1") {
      const Value power = made(Op::Exp, {of.id}, Kind::Tensor);
      return made(Op::Sub, {power.id, tensor_of({Kind::Number, 1, 0})}, Kind::Tensor);
    }
    for (const WrittenCall &one : kWrittenCalls)
      if (one.name == name) return made(one.op, {of.id}, Kind::Tensor);
    return fail();
  }
  Value literal() {
    const String text(rest_.substr(0, rest_.find_first_not_of("0123456789.")));
    rest_.remove_prefix(text.size());
    if (!rest_.empty() && rest_[0] == 'f') rest_.remove_prefix(1);
    return {Kind::Number, std::strtod(text.c_str(), nullptr), 0};
  }
  double attribute(const char *name, float value) const {
    return static_cast<double>(*name ? node_.get_float(name, value) : 0);
  }

  Decomposer *to_;
  std::string_view rest_;
  const qir::Node &node_;
  const WrittenFunction &function_;
  bool bad_ = false;
};

}  // namespace

bool decompose_expression(Decomposer &s) {
  const std::optional<WrittenFunction> function = written_function(s.node().op);
  if (!function || !ExpressionReader(nullptr, *function, s.node()).read()) return false;
  const std::int32_t result = *ExpressionReader(&s, *function, s.node()).read();
  s.give(Op::Identity, {result});
  return true;
}

}  // namespace quarry::passes
