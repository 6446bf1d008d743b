// SPDX-License-Identifier: Apache-2.0
// Kernels of reals, and what moves elements of any type, against cpu-reference.
#include <cmath>

#include "backends/gpu/lower/rules.h"
#include "tests/cases/cases.h"
#include "tests/unit/gpu/kernel_case.h"

using namespace quarry;
using namespace quarry::test;

namespace {

bool is_decomposed(Op op) {
  const gpu::OperatorRow *const row = gpu::find_operator(op);
  return !row || row->rule == gpu::lower_rewritten;
}

void set_case(Pieces &p, const OperatorCase &row, DType dtype, std::int64_t least) {
  Vector<i32> inputs;
  for (const CaseOperand &operand : operands_of(row, [&](char letter) { return least + letter % 7; })) {
    const DType type = dtype_from_name(operand.type).value_or(dtype);
    inputs.push_back(
        operand.values
            ? p.constant(type, operand.shape, std::vector<std::int64_t>(operand.values->begin(), operand.values->end()))
            : p.input(operand.shape, type));
  }
  qir::Node attributes;
  attributes.op = row.op;
  set_attributes(attributes, row.attributes);
  p.gives({p.node(row.op, inputs, attributes.attributes)});
}

}  // namespace

TEST_CASE("elementwise operators of one operand") {
  if (!has_device()) return;
  Cases cases;
  for (const FunctionCase &one : kFunctionCases) {
    Pieces p;
    p.gives({p.of(one.op, p.input({3, 7, 5}))});
    cases.same(p, qir::op_name(one.op));
  }
  Pieces nan;
  nan.gives({nan.of(Op::IsNaN, nan.input({3, 7, 5}))});
  cases.same(nan, "IsNaN");
  // What becomes of NaN and infinities, each way that keeps them.
  for (const Op op : {Op::Abs, Op::Neg, Op::Sign, Op::Ceil, Op::Round, Op::Relu, Op::LeakyRelu, Op::Sigmoid, Op::Tanh,
                      Op::IsNaN, Op::IsInf}) {
    Pieces p;
    p.gives({p.of(op, p.input({71}))});
    cases.same(p, qir::op_name(op), true);
  }
  cases.run();
}

TEST_CASE("elementwise operators of two operands broadcast, and types convert") {
  if (!has_device()) return;
  Cases cases;
  for (const DType dtype :
       {DType::F32, DType::F16, DType::BF16, DType::I32, DType::I64, DType::U8, DType::I8, DType::Bool})
    for (const BinaryCase &one : kBinaryCases) {
      if (!takes_type(one.op, "T", dtype) || is_decomposed(one.op)) continue;
      Pieces p;
      const i32 a = p.input({3, 1, 5}, dtype),
                b = p.input(one.op == Op::PRelu ? qir::Shape{1, 5} : qir::Shape{4, 1}, dtype);
      qir::Node attributes;
      attributes.op = one.op;
      set_attributes(attributes, one.attributes);
      p.gives({p.node(one.op, {a, b}, attributes.attributes)});
      const bool has_infinities = is_float(dtype) && one.op == Op::Div;
      cases.same(
          p, qir::op_name(one.op),
          !has_infinities && (one.op == Op::Max || one.op == Op::Min || one.op == Op::Greater || is_integer(dtype)),
          tolerance_of(dtype));
    }
  for (const DType from : {DType::F32, DType::F16, DType::I32, DType::I64, DType::U8, DType::Bool})
    for (const DType to : {DType::F32, DType::F16, DType::I8, DType::U8, DType::I32, DType::I64, DType::Bool}) {
      Pieces p;
      p.gives({p.node(Op::Cast, {p.input({67}, from)}, {attribute("to", static_cast<std::int64_t>(to))})});
      cases.same(p, dtype_name(to), to != DType::F16);
    }
  cases.run();
}

TEST_CASE("operators of the table of cases") {
  if (!has_device()) return;
  Cases cases;
  // An interpreter of kernels takes minutes for the largest.
  const std::int64_t largest = engine_under_test()->device().platform_name == "Oclgrind" ? 5 : 40;
  for (const OperatorCase &row : kOperatorCases)
    for (const DType dtype : {DType::F32, DType::F16})
      for (const std::int64_t least : {1, 5, 40}) {
        if (least > largest || is_decomposed(row.op) || qir::is_random(row.op))
          continue;  // (Dropout is left out when a model is imported)
        Pieces p;
        set_case(p, row, dtype, least);
        cases.same(p, qir::op_name(row.op), false, tolerance_of(dtype));
      }
  cases.run();
}

TEST_CASE("choices, parts, indices of elements, statistics") {
  if (!has_device()) return;
  Cases cases;
  Pieces where;
  where.gives({where.node(Op::Where, {where.input({3, 1}, DType::Bool), where.input({3, 5}), where.input({5})})});
  cases.same(where, "Where", true);
  Pieces split;
  const i32 first =
      split.node(Op::Split, {split.input({4, 6}), split.integers({2, 4})}, {attribute("axis", std::int64_t{1})}, 2);
  split.gives({split.of(Op::Neg, first), split.of(Op::Neg, first + 1)});
  cases.same(split, "Split");
  Pieces gather;
  const i32 indices = gather.constant<std::int64_t>(DType::I64, {2, 3}, {0, -1, 2, 3, 1, 0});
  gather.gives(
      {gather.node(Op::GatherElements, {gather.input({2, 4}), indices}, {attribute("axis", std::int64_t{1})})});
  cases.same(gather, "GatherElements");
  Pieces hot;
  hot.gives({hot.node(Op::OneHot,
                      {hot.integers({0, 3, -1}), hot.constant<std::int64_t>(DType::I64, {}, {4}), hot.input({2})})});
  cases.same(hot, "OneHot");
  Pieces norm;
  norm.gives({norm.node(Op::BatchNormalization,
                        {norm.input({2, 3, 5}), norm.column(3), norm.column(3), norm.column(3), norm.column(3)})});
  cases.same(norm, "BatchNormalization");
  Pieces real;
  real.gives({real.node(Op::DequantizeLinear, {real.input({2, 7}, DType::U8), real.scalar(0.25f)})});
  cases.same(real, "DequantizeLinear");
  cases.run();
}

TEST_CASE("convolutions") {
  if (!has_device()) return;
  Cases cases;
  struct Case {
    std::int64_t n, c, h, w, m, kh, kw, stride, pad, dilation, group;
  };
  for (const Case &c : {Case{1, 3, 9, 7, 5, 3, 3, 1, 1, 1, 1}, Case{2, 4, 8, 8, 8, 3, 3, 2, 1, 1, 1},
                        Case{1, 6, 5, 5, 6, 3, 3, 1, 1, 1, 6}, Case{1, 8, 6, 5, 12, 1, 1, 1, 0, 1, 2},
                        Case{1, 2, 11, 13, 17, 5, 3, 3, 2, 2, 1}}) {
    for (const DType dtype : {DType::F32, DType::F16}) {
      Pieces p;
      const i32 x = p.input({c.n, c.c, c.h, c.w}, dtype), w = p.input({c.m, c.c / c.group, c.kh, c.kw}, dtype);
      p.gives({p.of(
          Op::Relu,
          p.node(Op::Conv, {x, w, p.input({c.m}, dtype)},
                 {attribute("pads", Ints{c.pad, c.pad, c.pad, c.pad}), attribute("strides", Ints{c.stride, c.stride}),
                  attribute("dilations", Ints{c.dilation, c.dilation}), attribute("group", c.group)}))});
      cases.same(p, "Conv", false, tolerance_of(dtype));
    }
    // Packed weights, and another image added behind.
    Pieces q;
    const i32 x = q.input({c.n, c.c, c.h, c.w});
    const i32 y =
        q.node(Op::Conv, {x, q.column(c.m * c.c / c.group * c.kh * c.kw, {c.m, c.c / c.group, c.kh, c.kw})},
               {attribute("pads", Ints{c.pad, c.pad, c.pad, c.pad}), attribute("strides", Ints{c.stride, c.stride}),
                attribute("dilations", Ints{c.dilation, c.dilation}), attribute("group", c.group)});
    q.gives({q.add(y, q.input(qir::Shape(q.at(y).shape)))});
    cases.same(q, "Conv packed");
  }
  for (const std::int64_t group : {1, 2}) {
    Pieces p;
    const i32 x = p.input({1, 4, 5, 4}), w = p.input({4, 3, 3, 2});
    p.gives({p.node(Op::ConvTranspose, {x, w},
                    {attribute("strides", Ints{2, 3}), attribute("pads", Ints{1, 0, 0, 1}), attribute("group", group),
                     attribute("output_padding", Ints{1, 0})})});
    cases.same(p, "ConvTranspose");
  }
  Pieces line;
  line.gives({line.node(Op::Conv, {line.input({2, 3, 17}), line.input({4, 3, 5})}, {attribute("pads", Ints{2, 2})})});
  cases.same(line, "Conv of one axis");
  Pieces cube;
  cube.gives({cube.node(Op::Conv, {cube.input({1, 2, 4, 5, 3}), cube.input({3, 2, 2, 3, 2})})});
  cases.same(cube, "Conv of three axes");
  cases.run();
}

TEST_CASE("products") {
  if (!has_device()) return;
  Cases cases;
  const std::vector<std::pair<qir::Shape, qir::Shape>> shapes{
      {{5, 7}, {7, 3}}, {{1, 9}, {9, 65}}, {{2, 3, 4, 5}, {5, 6}}, {{3, 1, 4, 5}, {2, 5, 9}}, {{6}, {6, 5}},
      {{3, 6}, {6}},    {{4}, {4}}};
  for (const auto &[a, b] : shapes)
    for (const DType dtype : {DType::F32, DType::F16, DType::I32}) {
      Pieces p;
      p.gives({p.node(Op::MatMul, {p.input(a, dtype), p.input(b, dtype)})});
      cases.same(p, "MatMul", false, tolerance_of(dtype));
    }
  for (const std::int64_t turned : {0, 1, 2, 3}) {
    Pieces p;
    const i32 a = p.input(turned & 1 ? qir::Shape{7, 5} : qir::Shape{5, 7}),
              b = p.input(turned & 2 ? qir::Shape{9, 7} : qir::Shape{7, 9});
    p.gives({p.of(Op::Tanh, p.node(Op::Gemm, {a, b, p.input({9})},
                                   {attribute("transA", turned & 1), attribute("transB", turned >> 1),
                                    attribute("alpha", 0.25f), attribute("beta", 2.0f)}))});
    cases.same(p, "Gemm");
  }
  // A transposed operand is a view.
  Pieces p;
  p.gives({p.node(Op::MatMul, {p.input({2, 3, 5}), p.transpose(p.input({2, 4, 5}), {0, 2, 1})})});
  cases.same(p, "MatMul transposed");
  cases.run();
}

TEST_CASE("products in tiles: whole ones, parts at the edges, weights in panels, columns that are laid side by side") {
  if (!has_device()) return;
  Cases cases;
  for (const DType dtype : {DType::F32, DType::F16, DType::BF16})
    for (const auto &[a, b] : std::vector<std::pair<qir::Shape, qir::Shape>>{
             {{17, 33}, {33, 37}}, {{2, 8, 5}, {2, 5, 16}}, {{1, 40}, {40, 21}}, {{3, 2, 9, 4}, {3, 1, 4, 5}}}) {
      Pieces p;
      p.gives({p.node(Op::MatMul, {p.input(a, dtype), p.input(b, dtype)})});
      cases.same(p, "MatMul", false, tolerance_of(dtype));
    }
  for (const std::int64_t columns : {5, 16, 35})
    for (const std::int64_t turned : {0, 1}) {
      Pieces p;
      const i32 w = p.column(13 * columns, turned ? qir::Shape{columns, 13} : qir::Shape{13, columns});
      p.gives({p.of(Op::Relu,
                    p.node(Op::Gemm, {p.input({11, 13}), w, p.input({columns})}, {attribute("transB", turned)}))});
      cases.same(p, "Gemm of weights");
      Pieces q;
      q.gives({q.node(Op::MatMul, {q.input({2, 3, 13}), q.column(13 * columns, {13, columns})})});
      cases.same(q, "MatMul of weights");
    }
  Pieces turned;
  turned.gives({turned.node(Op::MatMul,
                            {turned.input({2, 3, 9, 6}), turned.transpose(turned.input({2, 3, 7, 6}), {0, 1, 3, 2})})});
  cases.same(turned, "MatMul by what is turned");
  Pieces shared;
  shared.gives({shared.node(Op::MatMul, {shared.input({4, 9, 6}), shared.transpose(shared.input({7, 6}), {1, 0})})});
  cases.same(shared, "MatMul by what is turned, for all");
  struct Case {
    std::int64_t n, c, h, w, m, k, stride, pad, group;
  };
  for (const Case &c :
       {Case{2, 5, 7, 9, 19, 3, 1, 1, 1}, Case{1, 8, 9, 8, 40, 3, 2, 1, 2}, Case{2, 6, 5, 7, 10, 1, 1, 0, 2},
        Case{1, 3, 4, 4, 16, 1, 2, 0, 1}, Case{1, 3, 6, 5, 7, 1, 1, 1, 1}, Case{1, 4, 3, 3, 8, 5, 1, 2, 1}}) {
    Pieces p;
    const i32 x = p.input({c.n, c.c, c.h, c.w});
    p.gives({p.of(
        Op::Relu,
        p.node(Op::Conv, {x, p.column(c.m * c.c / c.group * c.k * c.k, {c.m, c.c / c.group, c.k, c.k}), p.column(c.m)},
               {attribute("pads", Ints{c.pad, c.pad, c.pad, c.pad}), attribute("strides", Ints{c.stride, c.stride}),
                attribute("group", c.group)}))});
    cases.same(p, "Conv in tiles", false, 1e-4);
  }
  // What is outside an image is zero whatever stands in it.
  Pieces p;
  p.gives({p.node(Op::Conv, {p.input({1, 2, 4, 4}), p.column(8 * 18, {8, 2, 3, 3})},
                  {attribute("pads", Ints{1, 1, 1, 1})})});
  cases.same(p, "Conv of NaN", true, 1e-4);
  cases.run();
}

TEST_CASE("reductions, lines and norms") {
  if (!has_device()) return;
  Cases cases;
  for (const ReductionCase &one : kReductionCases)
    for (const auto &axes :
         {std::vector<std::int64_t>{1}, std::vector<std::int64_t>{0, 2}, std::vector<std::int64_t>{0, 1, 2, 3}}) {
      Pieces p;
      p.gives({p.node(one.op, {p.input({3, 4, 2, 5}), p.integers(axes)}, {attribute("keepdims", std::int64_t{0})})});
      cases.same(p, qir::op_name(one.op), one.op == Op::ReduceMax || one.op == Op::ReduceMin, 1e-4);
    }
  for (const Op op : {Op::Softmax, Op::LogSoftmax, Op::LpNormalization})
    for (const std::int64_t axis : {0, 1, 2}) {
      Pieces p;
      p.gives({p.node(op, {p.input({4, 13, 3})}, {attribute("axis", axis)})});
      cases.same(p, qir::op_name(op));
    }
  for (const Op op : {Op::ArgMax, Op::ArgMin})
    for (const std::int64_t last : {0, 1}) {
      Pieces p;
      p.gives({p.node(op, {p.input({3, 14, 2}, DType::I32)},
                      {attribute("axis", std::int64_t{1}), attribute("select_last_index", last)})});
      cases.same(p, qir::op_name(op), true);
    }
  // Long lines, each by a group of work items.
  for (const Op op : {Op::ReduceSum, Op::ReduceMean, Op::ReduceMax, Op::ReduceMin, Op::ReduceL1, Op::ReduceL2,
                      Op::ReduceSumSquare, Op::ReduceLogSumExp}) {
    Pieces p;
    p.gives({p.node(op, {p.input({3, 5, 2, 67}), p.integers({1, 3})}, {attribute("keepdims", std::int64_t{0})})});
    cases.same(p, qir::op_name(op), op == Op::ReduceMax || op == Op::ReduceMin, 1e-4);
  }
  for (const Op op : {Op::ReduceMax, Op::ReduceMin, Op::ReduceSum}) {
    Pieces p;
    p.gives({p.node(op, {p.input({2, 515}, DType::I32), p.integers({1})})});
    cases.same(p, qir::op_name(op), op != Op::ReduceSum);
  }
  for (const std::int64_t length : {256, 300, 1001}) {
    Pieces p;
    p.gives({p.node(Op::Softmax, {p.input({3, length})}),
             p.node(Op::LogSoftmax, {p.input({length, 2})}, {attribute("axis", std::int64_t{0})})});
    cases.same(p, "Softmax of long lines");
    Pieces q;
    q.gives({q.node(Op::LayerNormalization, {q.input({3, 5, length}), q.input({length}), q.input({length})}),
             q.node(Op::RMSNormalization, {q.input({2, length}), q.input({length})}),
             q.node(Op::InstanceNormalization, {q.input({2, 3, length}), q.input({3}), q.input({3})})});
    cases.same(q, "norms of long lines");
    // Lines of equal elements: what is left of a mean that was rounded would be all of the result.
    Pieces equal;
    const i32 line = equal.node(
        Op::Mul, {equal.input({3, 1}), equal.constant<float>(DType::F32, {1, length},
                                                             std::vector<float>(static_cast<std::size_t>(length), 1))});
    equal.gives({equal.node(Op::LayerNormalization, {line, equal.input({length})})});
    cases.same(equal, "LayerNormalization of equal elements");
  }
  Pieces layer;
  layer.gives({layer.node(Op::LayerNormalization, {layer.input({3, 5, 7}), layer.input({7}), layer.input({7})})});
  cases.same(layer, "LayerNormalization");
  Pieces root;
  root.gives({root.node(Op::RMSNormalization, {root.input({3, 5, 7}), root.input({5, 7})},
                        {attribute("axis", std::int64_t{1})})});
  cases.same(root, "RMSNormalization");
  Pieces instance;
  instance.gives({instance.node(Op::InstanceNormalization,
                                {instance.input({2, 3, 4, 5}), instance.input({3}), instance.input({3})})});
  cases.same(instance, "InstanceNormalization");
  Pieces group;
  group.gives({group.node(Op::GroupNormalization, {group.input({2, 6, 5}), group.input({6}), group.input({6})},
                          {attribute("num_groups", std::int64_t{3})})});
  cases.same(group, "GroupNormalization");
  for (const std::int64_t reverse : {0, 1}) {
    Pieces p;
    p.gives({p.node(Op::CumSum, {p.input({3, 7, 2}), p.integers({1})},
                    {attribute("reverse", reverse), attribute("exclusive", 1 - reverse)})});
    cases.same(p, "CumSum");
  }
  cases.run();
}

TEST_CASE("pools, Resize and what else moves windows") {
  if (!has_device()) return;
  Cases cases;
  for (const Op op : {Op::MaxPool, Op::AveragePool, Op::LpPool})
    for (const std::int64_t ceil : {0, 1}) {
      Pieces p;
      p.gives({p.node(op, {p.input({2, 3, 9, 7})},
                      {attribute("kernel_shape", Ints{3, 2}), attribute("strides", Ints{2, 2}),
                       attribute("pads", Ints{1, 0, 1, 1}), attribute("ceil_mode", ceil)})});
      cases.same(p, qir::op_name(op), op == Op::MaxPool);
    }
  for (const char *const mode : {"nearest", "linear", "cubic"})
    for (const char *const how : {"half_pixel", "align_corners", "asymmetric"}) {
      Pieces p;
      const i32 scales = p.constant<float>(DType::F32, {4}, {1, 1, 1.7f, 0.6f});
      p.gives({p.node(Op::Resize, {p.input({1, 2, 6, 9}), qir::kAbsent, scales},
                      {attribute("mode", std::string_view(mode)),
                       attribute("coordinate_transformation_mode", std::string_view(how))})});
      cases.same(p, mode);
    }
  Pieces lrn;
  lrn.gives({lrn.node(Op::LRN, {lrn.input({1, 7, 3, 2})}, {attribute("size", std::int64_t{3})})});
  cases.same(lrn, "LRN");
  for (const char *const mode : {"constant", "reflect", "edge", "wrap"}) {
    Pieces p;
    p.gives(
        {p.node(Op::Pad, {p.input({3, 5}), p.integers({1, 2, 2, -1})}, {attribute("mode", std::string_view(mode))})});
    cases.same(p, mode);
  }
  for (const char *const mode : {"nearest", "linear", "cubic"})
    for (const char *const padding : {"zeros", "border", "reflection"}) {
      Pieces p;
      p.gives(
          {p.node(Op::GridSample, {p.input({1, 2, 5, 4}), p.mul(p.input({1, 3, 6, 2}), 0.37)},
                  {attribute("mode", std::string_view(mode)), attribute("padding_mode", std::string_view(padding))})});
      cases.same(p, padding, false, 1e-4);
    }
  // On a pixel only that one counts, whatever its neighbours are.
  std::vector<float> strange(2 * 5 * 5, 0), places;
  for (std::size_t i = 0; i < strange.size(); i += 3) strange[i] = i % 2 ? INFINITY : -INFINITY;
  for (int i = 0; i < 81; ++i)
    for (const int k : {i % 9, i / 9}) places.push_back(static_cast<float>(k - 4) * 0.25f);
  const auto image = [&](Pieces &p) {
    return p.add(p.input({1, 2, 5, 5}), p.constant<float>(DType::F32, {1, 2, 5, 5}, strange));
  };
  for (const char *const mode : {"linear", "cubic"}) {
    Pieces p;
    p.gives({p.node(Op::GridSample, {image(p), p.constant<float>(DType::F32, {1, 9, 9, 2}, places)},
                    {attribute("mode", std::string_view(mode)), attribute("align_corners", std::int64_t{1})})});
    cases.same(p, mode, false, 1e-4);
  }
  for (const char *const mode : {"avg", "max"}) {
    Pieces p;
    p.gives({p.node(Op::RoiAlign,
                    {image(p), p.constant<float>(DType::F32, {1, 4}, {0.5f, 0.5f, 4.5f, 4.5f}),
                     p.constant<std::int64_t>(DType::I64, {1}, {0})},
                    {attribute("mode", std::string_view(mode)), attribute("sampling_ratio", std::int64_t{1}),
                     attribute("output_height", std::int64_t{2}), attribute("output_width", std::int64_t{2})})});
    cases.same(p, mode, false, 1e-4);
  }
  cases.run();
}

TEST_CASE("what moves elements") {
  if (!has_device()) return;
  Cases cases;
  Pieces views;
  const i32 x = views.input({4, 6, 5});
  const i32 part = views.node(Op::Slice, {x, views.integers({3, 5}), views.integers({-10, 0}), views.integers({0, 1}),
                                          views.integers({-1, -2})});
  views.gives({views.transpose(part, {2, 0, 1}), views.node(Op::Reshape, {part, views.integers({-1})})});
  cases.same(views, "Slice backwards");
  for (const DType dtype : {DType::F32, DType::F16, DType::U8, DType::I64}) {
    Pieces p;
    const i32 a = p.input({2, 3, 4}, dtype), b = p.input({2, 5, 4}, dtype);
    const i32 both = p.node(Op::Concat, {a, b}, {attribute("axis", std::int64_t{1})});
    const i32 picked = p.node(Op::Gather, {both, p.integers({0, -1, 3})}, {attribute("axis", std::int64_t{1})});
    p.gives({p.node(Op::Tile, {picked, p.integers({1, 2, 3})})});
    cases.same(p, dtype_name(dtype));
  }
  Pieces blocks;
  blocks.gives({blocks.node(
      Op::DepthToSpace,
      {blocks.node(Op::SpaceToDepth, {blocks.input({1, 3, 4, 6})}, {attribute("blocksize", std::int64_t{2})})},
      {attribute("blocksize", std::int64_t{2}), attribute("mode", std::string_view("CRD"))})});
  cases.same(blocks, "SpaceToDepth");
  Pieces triangle;
  triangle.gives({triangle.node(Op::Trilu, {triangle.input({2, 4, 5})}, {attribute("upper", std::int64_t{0})})});
  cases.same(triangle, "Trilu");
  Pieces tuples;
  tuples.gives({tuples.node(
      Op::GatherND, {tuples.input({3, 4, 5}), tuples.constant<std::int64_t>(DType::I64, {2, 2}, {0, 3, -1, 1})})});
  cases.same(tuples, "GatherND");
  Pieces steps;  // NaN becomes the zero point
  steps.gives({steps.node(Op::QuantizeLinear, {steps.input({65}), steps.scalar(0.1f),
                                               steps.constant<std::uint8_t>(DType::U8, {}, {128})})});
  cases.same(steps, "QuantizeLinear", true);
  for (const std::size_t which : {0u, 1u, 2u}) {
    Pieces p;
    qir::Node &node = p.graph.nodes.emplace_back();
    node.op = Op::DynamicQuantizeLinear, node.name = "quantize", node.source = 0;
    node.inputs = {p.input({3, 7})};
    node.outputs = {p.tensor(DType::U8, {3, 7}), p.tensor(DType::F32, {}), p.tensor(DType::U8, {})};
    p.gives({node.outputs[which]});
    cases.same(p, "DynamicQuantizeLinear");
  }
  for (const char *const direction : {"LEFT", "RIGHT"})
    for (const DType dtype : {DType::U8, DType::I32, DType::U64}) {
      Pieces p;
      const i32 a = p.input({33}, dtype);
      p.gives({p.node(Op::BitShift,
                      {a, p.node(Op::BitwiseAnd,
                                 {p.input({33}, dtype), p.node(Op::Cast, {p.integers({63})},
                                                               {attribute("to", static_cast<std::int64_t>(dtype))})})},
                      {attribute("direction", std::string_view(direction))})});
      cases.same(p, direction);
    }
  for (const std::size_t which : {0u, 1u}) {
    Pieces p;
    const i32 data = p.input({3, 17, 2}), k = p.integers({5});
    qir::Node &node = p.graph.nodes.emplace_back();
    node.op = Op::TopK, node.name = "best", node.source = 0;
    node.inputs = {data, k};
    node.set("axis", std::int64_t{1});
    node.outputs = {p.tensor(DType::F32, {3, 5, 2}), p.tensor(DType::I64, {3, 5, 2})};
    p.gives({node.outputs[which]});
    cases.same(p, "TopK", true);
  }
  cases.run();
}

TEST_CASE("many updates that go where indices say, by atomics") {
  if (!has_device()) return;
  Cases cases;
  // So many that the last one of each place is found first, by its number.
  for (const DType dtype : {DType::F32, DType::F16, DType::I64, DType::Bool}) {
    std::vector<std::int64_t> along, tuples, wide;
    for (std::int64_t i = 0; i < 2 * 23; ++i) along.push_back(i * i % 18 - 9);
    for (std::int64_t i = 0; i < 70; ++i) tuples.insert(tuples.end(), {i * 7 % 6 - 3, i * 5 % 8 - 4});
    for (std::int64_t i = 0; i < 41; ++i) wide.push_back(i * i % 7 - 3);
    Pieces p;
    const i32 few = p.constant<std::int64_t>(DType::I64, {2, 23}, along);
    p.gives({p.node(Op::ScatterElements, {p.input({3, 9}, dtype), few, p.input({2, 23}, dtype)},
                    {attribute("axis", std::int64_t{1})})});
    cases.same(p, "many of an axis, less than all lines");
    Pieces q;
    const i32 first = q.constant<std::int64_t>(DType::I64, {23, 2}, along);
    q.gives({q.node(Op::ScatterElements,
                    {q.input({9, 2}, dtype), first, q.node(Op::Transpose, {q.input({2, 23}, dtype)})})});
    cases.same(q, "many of the first axis, turned");
    Pieces r;
    const i32 named = r.constant<std::int64_t>(DType::I64, {10, 7, 2}, tuples);
    r.gives({r.node(Op::ScatterND, {r.input({3, 4, 5}, dtype), named, r.input({10, 7, 5}, dtype)})});
    cases.same(r, "many tuples of two");
    Pieces u;
    const i32 single = u.constant<std::int64_t>(DType::I64, {41, 1}, wide);
    u.gives({u.node(Op::ScatterND, {u.input({11}, dtype), single, u.input({41}, dtype)})});
    cases.same(u, "many of a line");
  }
  cases.run();
}

TEST_CASE("updates that go where indices say, powers of integers") {
  if (!has_device()) return;
  Cases cases;
  for (const char *const how : {"none", "add", "mul", "max", "min"})
    for (const DType dtype : {DType::F32, DType::I64}) {
      Pieces p;
      const i32 at = p.constant<std::int64_t>(DType::I64, {2, 3}, {0, -1, 1, 4, 2, 1});
      p.gives({p.node(Op::ScatterElements, {p.input({3, 5}, dtype), at, p.input({2, 3}, dtype)},
                      {attribute("axis", std::int64_t{1}), attribute("reduction", std::string_view(how))})});
      cases.same(p, how);
      Pieces q;
      const i32 tuples = q.constant<std::int64_t>(DType::I64, {3, 2}, {0, 3, -1, 1, 0, 3});
      q.gives({q.node(Op::ScatterND, {q.input({3, 4, 5}, dtype), tuples, q.input({3, 5}, dtype)},
                      {attribute("reduction", std::string_view(how))})});
      cases.same(q, how);
    }
  for (const DType exponent : {DType::I32, DType::F32}) {
    Pieces p;
    const i32 powers = exponent == DType::F32 ? p.constant<float>(exponent, {5}, {2, 3, 0, 1, 5})
                                              : p.constant<std::int32_t>(exponent, {5}, {2, 3, 0, -1, 5});
    p.gives({p.node(
        Op::Pow,
        {p.node(Op::Mod, {p.input({7, 5}, DType::I32), p.constant<std::int32_t>(DType::I32, {}, {13})}), powers})});
    cases.same(p, "Pow");
  }
  cases.run();
}

TEST_CASE("regions of images") {
  if (!has_device()) return;
  Cases cases;
  for (const char *const mode : {"avg", "max"})
    for (const std::int64_t ratio : {0, 2}) {
      Pieces p;
      const i32 regions = p.constant<float>(DType::F32, {3, 4}, {0.5f, 1, 6.5f, 7, -3, 2, 4, 30, 2, 2, 2.5f, 3}),
                images = p.constant<std::int64_t>(DType::I64, {3}, {0, 1, 1});
      p.gives({p.node(Op::RoiAlign, {p.input({2, 3, 9, 8}), regions, images},
                      {attribute("mode", std::string_view(mode)), attribute("sampling_ratio", ratio),
                       attribute("output_height", std::int64_t{3}), attribute("output_width", std::int64_t{2}),
                       attribute("spatial_scale", 0.75f)})});
      cases.same(p, mode, false, 1e-4);
    }
  for (const DType dtype : {DType::F32, DType::F16}) {
    Pieces p;
    const i32 regions = p.constant<float>(DType::F32, {3, 5}, {1, 0.5f, 1, 6.5f, 7, 0, -3, 2, 4, 30, 1, 2, 2, 2.5f, 3});
    const i32 cast = p.node(Op::Cast, {regions}, {attribute("to", static_cast<std::int64_t>(dtype))});
    p.gives({p.node(Op::MaxRoiPool, {p.input({2, 3, 9, 8}, dtype), cast},
                    {attribute("pooled_shape", Ints{3, 2}), attribute("spatial_scale", 0.5f)})});
    cases.same(p, "MaxRoiPool");
  }
  cases.run();
}

TEST_CASE("forms of f32 alone take f16 and bf16") {
  if (!has_device()) return;
  Cases cases;
  for (const DType dtype : {DType::F16, DType::BF16}) {
    Pieces p;
    const i32 x = p.input({3, 2, 4}, dtype), w = p.input({1, 12, 4}, dtype), r = p.input({1, 12, 3}, dtype);
    p.gives({p.node(Op::LSTM, {x, w, r}, {attribute("hidden_size", std::int64_t{3})})});
    cases.same(p, "LSTM", false, 4 * tolerance_of(dtype));
    Pieces q;
    q.gives(
        {q.node(Op::AffineGrid, {q.input({2, 2, 3}, dtype), q.constant<std::int64_t>(DType::I64, {4}, {2, 1, 3, 4})})});
    cases.same(q, "AffineGrid", false, tolerance_of(dtype));
  }
  cases.run();
}
