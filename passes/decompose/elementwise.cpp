// SPDX-License-Identifier: Apache-2.0
// Functions of elements as others. The forms suit f16 too: none goes past 65504 or cancels where its result does not.
#include <cmath>
#include <numbers>

#include "passes/decompose/expression.h"

namespace quarry::passes {

using qir::Op;

namespace {

// 2 * atan(x / (1 + sqrt((1 - x) * (1 + x)))), which is right near 1 and -1 too.
std::int32_t arc_sine(Decomposer &s, std::int32_t x) {
  const std::int32_t one = s.number(s.in(0).dtype, 1);
  const std::int32_t below = s.of(Op::Sub, {s.of(Op::Neg, {x}), s.number(s.in(0).dtype, -1)});
  const std::int32_t root = s.of(Op::Sqrt, {s.of(Op::Mul, {below, s.of(Op::Add, {x, one})})});
  return s.with(Op::Mul, s.of(Op::Atan, {s.of(Op::Div, {x, s.with(Op::Add, root, 1)})}), 2);
}

// Past 200 the square would leave f16, and the function is its logarithm up to 2e-5: log(x / 200) is what comes on top.
struct Far {
  std::int32_t near, rest;
};
Far split_far(Decomposer &s, std::int32_t x) {
  const std::int32_t near = s.with(Op::Min, x, 200), far = s.with(Op::Max, x, 200);
  return {near, s.of(Op::Log, {s.with(Op::Mul, far, 1.0 / 200)})};
}

// (e^(x - ln 2)) + e^(-x - ln 2)
std::int32_t hyperbolic_cosine(Decomposer &s, std::int32_t x) {
  const std::int32_t up = s.of(Op::Exp, {s.with(Op::Sub, x, std::numbers::ln2)}),
                     down = s.of(Op::Exp, {s.with(Op::Sub, s.of(Op::Neg, {x}), std::numbers::ln2)});
  return s.of(Op::Add, {up, down});
}

// The angle from the nearest multiple of pi, and of that what is left to 0 or to a quarter turn: the device's sine and
// cosine are too coarse for a quotient near the pole. Pi is taken off in parts of which the first has few bits.
void tangent(Decomposer &s, std::int32_t x) {
  const auto number = [&](double value) { return s.number(s.in(0).dtype, value); };
  const std::int32_t turns = s.of(Op::Round, {s.with(Op::Mul, x, std::numbers::inv_pi)});
  const std::int32_t near = s.of(Op::Sub, {x, s.with(Op::Mul, turns, 3.140625)}),
                     angle = s.of(Op::Sub, {near, s.with(Op::Mul, turns, std::numbers::pi - 3.140625)});
  const std::int32_t size = s.of(Op::Abs, {angle}), to_pole = s.with(Op::Add, s.of(Op::Neg, {size}), 1.5703125),
                     other = s.with(Op::Add, to_pole, std::numbers::pi / 2 - 1.5703125);
  const std::int32_t small = s.of(Op::Min, {size, other}), square = s.of(Op::Mul, {small, small});
  constexpr double kTerms[] = {3.11992232697e-3, 2.44301354525e-2, 5.34112807005e-2, 1.33387994085e-1,
                               3.33331568548e-1};
  std::int32_t sum = number(9.38540185543e-3);
  for (const double term : kTerms) sum = s.with(Op::Add, s.of(Op::Mul, {square, sum}), term);
  const std::int32_t tangent = s.of(Op::Add, {small, s.of(Op::Mul, {s.of(Op::Mul, {small, square}), sum})});
  const std::int32_t far = s.of(Op::Greater, {size, number(std::numbers::pi / 4)}, DType::Bool, s.in(0).shape);
  const std::int32_t inverse = s.of(Op::Reciprocal, {tangent});
  const std::int32_t value = s.of(Op::Where, {far, inverse, tangent}, s.in(0).dtype, s.in(0).shape);
  s.give(Op::Mul, {s.of(Op::Sign, {angle}), value});
}

bool cast_like(Decomposer &s) {
  const qir::Node &node = s.node();
  const std::int64_t saturate = node.get_int("saturate", 1);
  const String round_mode(node.get_string("round_mode", "up"));
  qir::Node &cast = s.give(Op::Cast, {node.inputs[0]});
  cast.set("to", static_cast<std::int64_t>(s.out().dtype)), cast.set("saturate", saturate);
  cast.set("round_mode", std::string_view(round_mode));
  return true;
}

bool global_lp_pool(Decomposer &s) {
  const qir::Node &node = s.node();
  const std::int32_t x = node.inputs[0];
  Vector<std::int64_t> axes;
  for (std::size_t i = 2; i < s.in(0).shape.size(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  const std::int64_t p = node.get_int("p", 2);
  if ((p != 1 && p != 2) || axes.empty()) return false;
  s.give(p == 1 ? Op::ReduceL1 : Op::ReduceL2, {x, s.integers(axes)}).set("keepdims", std::int64_t{1});
  return true;
}

void hardmax(Decomposer &s) {
  const qir::Shape shape = s.in(0).shape;
  const std::int64_t given = s.node().get_int("axis", -1), rank = static_cast<std::int64_t>(shape.size());
  const auto axis = index_of(given < 0 ? given + rank : given);
  qir::Shape one = shape, along(shape.size(), 1);
  one[axis] = 1, along[axis] = shape[axis];
  Vector<std::int64_t> places;
  for (std::int64_t i = 0; i < shape[axis]; ++i) places.push_back(i);
  const std::int32_t best = s.of(Op::ArgMax, {s.node().inputs[0]}, DType::I64, one);
  s.last_made().set("axis", static_cast<std::int64_t>(axis));
  const std::int32_t is_best = s.of(Op::Equal, {best, s.integers(along, places)}, DType::Bool, shape);
  s.give(Op::Cast, {is_best}).set("to", static_cast<std::int64_t>(s.out().dtype));
}

}  // namespace

bool decompose_elements(Decomposer &s) {
  const qir::Node &node = s.node();
  if (node.op == Op::RandomNormalLike || node.op == Op::RandomUniformLike) {
    const qir::Node like = node;
    const Vector<std::int64_t> shape(s.out().shape.begin(), s.out().shape.end());
    const auto dtype = static_cast<std::int64_t>(s.out().dtype);
    qir::Node &made = s.give(node.op == Op::RandomNormalLike ? Op::RandomNormal : Op::RandomUniform, {});
    made.attributes = like.attributes;
    made.set("shape", shape), made.set("dtype", dtype);
    return true;
  }
  if (node.op == Op::CastLike) return cast_like(s);
  if (node.inputs.empty() || s.in(0).quant || (s.in(0).dtype != DType::F32 && s.in(0).dtype != DType::F16))
    return false;
  const std::int32_t x = node.inputs[0];
  const qir::Shape shape = s.in(0).shape;
  const DType dtype = s.in(0).dtype;
  const auto choose = [&](Op compare, double number, std::int32_t yes, std::int32_t no) {
    return Vector<std::int32_t>{s.of(compare, {x, s.number(dtype, number)}, DType::Bool, shape), yes, no};
  };
  switch (node.op) {
    case Op::Acos: s.give(Op::Sub, {s.number(dtype, std::numbers::pi / 2), arc_sine(s, x)}); return true;
    case Op::Acosh: {
      const Far far = split_far(s, x);
      const std::int32_t square = s.of(Op::Mul, {s.with(Op::Sub, far.near, 1), s.with(Op::Add, far.near, 1)});
      s.give(Op::Add, {s.of(Op::Log, {s.of(Op::Add, {far.near, s.of(Op::Sqrt, {square})})}), far.rest});
      return true;
    }
    case Op::Asin: s.give(Op::Identity, {arc_sine(s, x)}); return true;
    case Op::Asinh: {
      const Far far = split_far(s, s.of(Op::Abs, {x}));
      const std::int32_t root = s.of(Op::Sqrt, {s.with(Op::Add, s.of(Op::Mul, {far.near, far.near}), 1)});
      const std::int32_t size = s.of(Op::Add, {s.of(Op::Log, {s.of(Op::Add, {far.near, root})}), far.rest});
      s.give(Op::Mul, {s.of(Op::Sign, {x}), size});
      return true;
    }
    case Op::Atanh: {
      const std::int32_t up = s.of(Op::Log, {s.with(Op::Add, x, 1)}),
                         down = s.of(Op::Log, {s.with(Op::Add, s.of(Op::Neg, {x}), 1)});
      s.give(Op::Mul, {s.of(Op::Sub, {up, down}), s.number(dtype, 0.5)});
      return true;
    }
    case Op::Cosh: s.give(Op::Identity, {hyperbolic_cosine(s, x)}); return true;
    case Op::Sinh:  // a difference would cancel near 0
      s.give(Op::Mul, {s.of(Op::Tanh, {x}), hyperbolic_cosine(s, x)});
      return true;
    case Op::Tan: tangent(s, x); return true;
    case Op::GlobalLpPool: return global_lp_pool(s);
    case Op::Hardmax: hardmax(s); return true;
    case Op::Shrink: {
      const double limit = static_cast<double>(node.get_float("lambd", 0.5f)),
                   bias = static_cast<double>(node.get_float("bias", 0));
      const std::int32_t low =
          s.of(Op::Where, choose(Op::Less, -limit, s.with(Op::Add, x, bias), s.number(dtype, 0)), dtype, shape);
      s.give(Op::Where, choose(Op::Greater, limit, s.with(Op::Sub, x, bias), low));
      return true;
    }
    default: return decompose_expression(s);
  }
}

}  // namespace quarry::passes
