// SPDX-License-Identifier: Apache-2.0
// What becomes a step and what does not, what is refused and how, and that no blob, however it is damaged, reaches
// outside its memory.
#include "backends/gpu/compile/compile.h"
#include "backends/gpu/kernels/params.h"
#include "backends/gpu/lower/lowering.h"
#include "backends/gpu/program/blob.h"
#include "backends/gpu/program/images.h"
#include "backends/gpu/run/context.h"
#include "backends/gpu/compile/tune.h"
#include "tests/unit/passes/pieces.h"

using namespace quarry;
using namespace quarry::test;

namespace {

gpu::Compiled compiled(const Pieces &p, bool has_doubles = false) {
  auto made = gpu::compile(p.graph, {}, {.doubles = has_doubles});
  REQUIRE_OK(made.status());
  return std::move(*made);
}
std::string kernels(const gpu::Plan &plan) {
  std::string text;
  for (const gpu::Step &step : plan.steps)
    text += (text.empty() ? "" : " ") + std::string(gpu::kernel_row(static_cast<gpu::Kernel>(step.kernel)).name);
  return text;
}

// What a device with images makes of a plan reads constants, and views values, where they are.
void check_images(const gpu::Plan &plan) {
  opencl::Device device;
  device.has_images = true, device.image_width = device.image_height = 16384;
  device.extensions = "cl_khr_image2d_from_buffer", device.image_pitch = device.image_base = 64;
  Vector<std::int32_t> layouts;
  Vector<gpu::Bounds> bounds;
  Vector<gpu::StepOperand> operands;
  Vector<std::int32_t> fields;
  for (const gpu::Step &step : plan.steps) {
    layouts.push_back(gpu::images_on(plan, step, device));
    gpu::Form form;
    REQUIRE(gpu::form_with_images(plan, step, layouts.back(), operands, fields, form));
    REQUIRE_OK(gpu::find_bounds(form, bounds.emplace_back()));
    for (std::size_t o = 0; o < 2; ++o) {
      if ((layouts.back() & gpu::kRowImages & gpu::images_of_operand(o)) == 0) continue;
      const gpu::Value &value = plan.values[plan.operands[step.first_operand + o].value];
      REQUIRE_EQ(value.storage, gpu::StorageKind::Arena);
      const std::uint64_t element = operands[o].dtype == DType::F16 ? 2 : 4;
      CHECK_LE(value.offset + gpu::row_image_bytes(value.bytes, element), plan.pieces[value.index]);
    }
  }
  for (const gpu::ConstantImages::Entry &entry : gpu::constant_images(plan, layouts, bounds).entries) {
    const gpu::Value &value = plan.values[entry.value];
    REQUIRE_EQ(value.storage, gpu::StorageKind::Constant);
    const std::int64_t element = entry.dtype == DType::F16 ? 2 : 4;
    const std::int64_t lines = entry.layout == gpu::kRowsOfLeft ? entry.size.height : entry.size.width * 4;
    CHECK_LE(static_cast<std::uint64_t>(lines * entry.steps * element), value.bytes);
  }
}

// A convolution, activations, an addition, a pool, a reshape and a product.
void small_network(Pieces &p) {
  const i32 x = p.input({1, 3, 8, 8});
  const i32 conv = p.node(Op::Conv, {x, p.column(12 * 27, {12, 3, 3, 3}), p.column(12)},
                          {Pieces::attribute("pads", Ints{1, 1, 1, 1})});
  const i32 a = p.of(Op::Relu, conv);
  const i32 b = p.node(Op::Conv, {a, p.column(12 * 12, {12, 12, 1, 1})});
  const i32 c = p.of(Op::Sigmoid, p.add(b, a));
  const i32 pool = p.of(Op::GlobalAveragePool, c);
  const i32 flat = p.node(Op::Flatten, {pool});
  p.gives({p.node(Op::MatMul, {flat, p.column(12 * 5, {12, 5})})});
}

}  // namespace

TEST_CASE("elementwise operators behind a step are code of it, and views are no steps") {
  Pieces p;
  small_network(p);
  const gpu::Compiled made = compiled(p);
  CHECK_EQ(kernels(made.plan), "ConvTile MatMulTile Reduce MatMulTile");
  CHECK_EQ(made.plan.steps[1].code_count, 2u);  // plus, sigmoid
}

TEST_CASE("a value that two read is stored; a chain is one step") {
  Pieces p;
  const i32 x = p.input({4, 6});
  const i32 a = p.of(Op::Exp, x), b = p.of(Op::Tanh, a);
  p.gives({p.of(Op::Neg, p.add(b, p.scalar(2))), a});
  CHECK_EQ(kernels(compiled(p).plan), "Elementwise Elementwise");
  Pieces turned;
  const i32 y = turned.input({2, 3, 4});
  const i32 t = turned.node(Op::Transpose, {y}, {Pieces::attribute("perm", Ints{2, 0, 1})});
  turned.gives({turned.of(Op::Relu, t)});
  CHECK_EQ(kernels(compiled(turned).plan), "Elementwise");
}

TEST_CASE("a refused node says what was found and what was expected") {
  Pieces p;
  const i32 x = p.input({4}, DType::F64);
  p.gives({p.of(Op::Relu, x)});
  const gpu::Compiled made = compiled(p);
  CHECK_EQ(made.refused[0].id(), "QR-B0003");
  CHECK_NE(made.refused[0].message().find("found f64, expected a type that the device computes in"),
           std::string_view::npos);
  CHECK(compiled(p, true).refused[0].ok());
  Pieces q;
  q.gives({q.node(Op::ReverseSequence, {q.input({4, 2}), q.input({2}, DType::I64)})});
  CHECK_EQ(compiled(q).refused[0].message(),
           "ReverseSequence: found f32[4,2], i64[2], expected a form that can be decomposed; not: lengths that are not "
           "constant");
}

namespace {

// A rule that is wrong: it has copied its input, and made a constant, when it refuses.
Status refuse_in_the_middle(gpu::Lowering &l, const qir::Node &node) {
  static constexpr float kOne = 1;
  const gpu::View y = l.result(node.outputs[0]);
  (void)l.constant({&kOne, sizeof kOne}, {1});
  QR_RETURN_IF_ERROR(l.copy(l.arg(node.inputs[0]), {y, l.dtype(node.outputs[0])}));
  return gpu::refuse(ErrorId::backend_limit, node, "found what the test wants refused");
}
// A rule as they should be: it has only looked at what there is.
Status refuse_at_once(gpu::Lowering &l, const qir::Node &node) {
  (void)l.view(node.inputs[0]);
  return gpu::refuse(ErrorId::backend_limit, node, "found what the test wants refused");
}

std::vector<std::size_t> table_sizes(const gpu::Plan &plan, const gpu::Constants &constants) {
  return {plan.values.size(), plan.operands.size(), plan.steps.size(),       plan.numbers.size(),
          plan.code.size(),   plan.names.size(),    constants.entries.size()};
}

}  // namespace

TEST_CASE("a refusal leaves no trace, and a rule that writes before it refuses is found") {
  Pieces p;
  p.gives({p.of(Op::Exp, p.column(6, {6})), p.of(Op::Tanh, p.input({6}))});
  qir::Store store;
  const gpu::Target target;
  gpu::Plan plan;
  gpu::Constants constants;
  gpu::Lowering l(p.graph, store, target, plan, constants);
  const auto before = table_sizes(plan, constants);
  const qir::Node &node = p.graph.nodes[0];
  CHECK_EQ(l.apply(refuse_at_once, node).id(), "QR-B0004");
  CHECK_EQ(table_sizes(plan, constants), before);
  CHECK(!l.is_there(node.outputs[0]));
  CHECK_EQ(l.apply(refuse_in_the_middle, node).id(), "QR-C0010");
  CHECK_EQ(table_sizes(plan, constants), before);
  CHECK(!l.is_there(node.outputs[0]));
  // What was taken back can be made again.
  Vector<Status> refused(p.graph.nodes.size());
  REQUIRE_OK(l.run(refused));
  CHECK_EQ(kernels(plan), "Elementwise Elementwise");
}

// Where every element looked at every update, a table of an embedding's gradients would never end.
TEST_CASE(
    "many scattered updates that replace are found by their numbers; few, and those that are joined, are looked at") {
  const auto steps = [](std::int64_t updates, std::string_view reduction) {
    Pieces p;
    const Vector<std::int64_t> rows(static_cast<std::size_t>(updates), 1);
    const i32 at = p.constant<std::int64_t>(DType::I64, {updates, 1}, {rows.begin(), rows.end()});
    p.gives({p.node(Op::ScatterND, {p.input({5, 8}), at, p.input({updates, 8})},
                    {Pieces::attribute("reduction", reduction)})});
    return kernels(compiled(p).plan);
  };
  const std::string many = steps(500, "none");
  CHECK(many.ends_with(" ScatterWinner ScatterTake"));
  CHECK_EQ(many.find("Scatter "), std::string::npos);
  CHECK_EQ(steps(2, "none"), "Scatter");
  CHECK_EQ(steps(500, "add"), "Scatter");
}

TEST_CASE("tiles are as large as leaves all units of a device enough to do") {
  Pieces p;
  p.gives({p.node(Op::MatMul, {p.input({128, 768}), p.column(768 * 768, {768, 768})})});
  gpu::Compiled made = compiled(p);
  const gpu::Step &step = made.plan.steps.front();
  REQUIRE_EQ(step.kernel, static_cast<std::uint32_t>(gpu::Kernel::MatMulTile));
  // 32 x 192 items of 4 x 4 elements are 256 for each of 24 units.
  const std::pair<std::uint32_t, std::int32_t> expected[] = {{24, 4}, {25, 2}, {48, 2}, {49, 1}, {1000, 1}};
  for (const auto &[units, height] : expected) {
    CAPTURE(units);
    opencl::Device device;
    device.type = CL_DEVICE_TYPE_GPU, device.compute_units = units;
    gpu::fit_tiles(made.plan, device);
    const auto tiled = gpu::read_params<gpu::MatMulTileParams>(std::span(made.plan.numbers).subspan(step.numbers));
    CHECK_EQ(tiled.tile.ROWS, height);
    CHECK_EQ(tiled.tile.COLS, 4);
  }
}

TEST_CASE("what is said of an operator's types is what its rule is checked by") {
  const auto types = [](Op op) { return std::string(gpu::types_text(*gpu::find_operator(op))); };
  CHECK_EQ(types(Op::Add), "floats integers");
  CHECK_EQ(types(Op::And), "bool");
  CHECK_EQ(types(Op::LRN), "f16 bf16 f32");
  CHECK_EQ(types(Op::MatMul), "floats i32 i64 u32 u64");
  for (const DType dtype : {DType::F32, DType::F64}) {
    Pieces p;
    p.gives({p.node(Op::LRN, {p.input({1, 3, 4, 4}, dtype)}, {Pieces::attribute("size", std::int64_t{3})})});
    CHECK_EQ(compiled(p, true).refused[0].ok(), gpu::takes(*gpu::find_operator(Op::LRN), dtype));
  }
}

TEST_CASE("a choice that no kernel has is refused, of a blob too") {
  Pieces p;
  p.gives({p.node(Op::ReduceLogSumExp, {p.input({4, 6})}, {Pieces::attribute("keepdims", std::int64_t{1})})});
  gpu::Compiled made = compiled(p);
  REQUIRE_EQ(kernels(made.plan), "Reduce");
  const gpu::Step &step = made.plan.steps[0];
  std::int32_t &how = made.plan.numbers[step.numbers];
  CHECK_EQ(how, gpu::field_of(gpu::Reduction::LogSumExp));
  for (const std::int64_t number : {gpu::field_of(gpu::Reduction::Count), std::int64_t{-1}, std::int64_t{1000}}) {
    how = static_cast<std::int32_t>(number);
    Vector<gpu::StepOperand> operands;
    gpu::Form form;
    gpu::Bounds bounds;
    REQUIRE(gpu::form_of(made.plan, step, operands, form));
    const Status status = gpu::find_bounds(form, bounds);
    CHECK_EQ(status.message(), "gpu plan: Reduce: found a reduction that is not known");
  }
}

TEST_CASE("equal steps share a kernel, and the source follows from the plan") {
  Pieces p;
  const i32 x = p.input({2, 8});
  const i32 w = p.column(64, {8, 8});
  i32 h = x;
  for (int i = 0; i < 3; ++i) h = p.of(Op::Relu, p.node(Op::MatMul, {h, w}));
  p.gives({h});
  const gpu::Compiled made = compiled(p);
  const gpu::PlanSource source = gpu::source_of(made.plan);
  CHECK_EQ(source.kernels, Vector<std::uint32_t>({0, 0, 0}));
  CHECK_EQ(source.text, gpu::source_of(made.plan).text);
}

TEST_CASE("a blob is read as it was written, and a damaged one reaches nothing") {
  Pieces p;
  small_network(p);
  gpu::Compiled made = compiled(p);
  REQUIRE_OK(gpu::fit_images(made.plan, {.images = gpu::Images::All}, nullptr).status());
  gpu::Blob blob;
  blob.plan = std::move(made.plan);
  const Vector<std::uint8_t> bytes = gpu::write_blob(blob);
  const Vector<qir::Bytes> segments{{made.packed.data(), made.packed.size()}};
  auto read = gpu::read_blob({bytes.data(), bytes.size()}, segments);
  REQUIRE_OK(read.status());
  CHECK_EQ(read->plan.numbers, blob.plan.numbers);
  CHECK_EQ(gpu::source_of(read->plan).text, gpu::source_of(blob.plan).text);
  for (std::size_t size = 0; size < bytes.size(); size += 7)
    CHECK_FALSE(gpu::read_blob({bytes.data(), size}, segments).ok());
  // A piece that ends with a value, and not with the last row of its view.
  check_images(read->plan);
  std::size_t values = 0;
  for (const gpu::Value &value : read->plan.values) {
    if (value.storage != gpu::StorageKind::Arena || value.bytes == 0) continue;
    gpu::Plan tight = read->plan;
    tight.pieces[value.index] = value.offset + value.bytes;
    check_images(tight);
    ++values;
  }
  CHECK_GT(values, 2u);
  std::size_t refused = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i)
    for (const std::uint8_t flip : {std::uint8_t{0x01}, std::uint8_t{0x80}}) {
      Vector<std::uint8_t> damaged = bytes;
      damaged[i] ^= flip;
      auto other = gpu::read_blob({damaged.data(), damaged.size()}, segments);
      if (!other.ok()) {
        ++refused;
        continue;
      }
      check_images(other->plan);
      for (const gpu::Step &step : other->plan.steps) {
        Vector<gpu::StepOperand> operands;
        gpu::Form form;
        gpu::Bounds bounds;
        REQUIRE(gpu::form_of(other->plan, step, operands, form));
        REQUIRE_OK(gpu::find_bounds(form, bounds));
        for (std::size_t o = 0; o < operands.size(); ++o) {
          const gpu::Value &value = other->plan.values[other->plan.operands[step.first_operand + o].value];
          const std::int64_t end = operands[o].offset + bounds.ranges[o].high + 1;
          CHECK_LE(packed_size(operands[o].dtype, end).value_or(UINT64_MAX), value.bytes);
          CHECK_GE(operands[o].offset + bounds.ranges[o].low, 0);
        }
      }
    }
  CHECK_GT(refused, bytes.size() / 4);
}
