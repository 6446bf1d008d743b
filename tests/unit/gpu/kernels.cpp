// SPDX-License-Identifier: Apache-2.0
// Each kernel against cpu-reference: odd shapes, views, NaN, infinities, saturation. Runs on the first usable device,
// or ends where there is none; meson runs it under Oclgrind too, which watches bounds, races and values nobody wrote.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "backends/common/view.h"
#include "backends/gpu/doctor.h"
#include "backends/gpu/execution.h"
#include "backends/gpu/kernels/bounds.h"
#include "backends/gpu/tune.h"
#include "base/float16.h"
#include "tests/unit/passes/pieces.h"

using namespace quarry;
using namespace quarry::test;

namespace {

using Data = std::vector<std::uint8_t>;

struct DeviceUnderTest {
  gpu::Machine machine;
  std::shared_ptr<gpu::Engine> engine;
  DeviceUnderTest() {
    auto chosen = machine.choose(0, "");
    if (!chosen.ok()) return;
    auto made = gpu::Engine::make(machine.library(), **chosen);
    REQUIRE_OK(made);
    engine = *made;
  }
};
DeviceUnderTest &device() {
  static DeviceUnderTest &one = *new DeviceUnderTest;  // drivers may be gone when the program ends
  return one;
}
bool has_device() {
  if (device().engine) return true;
  MESSAGE("no OpenCL device here: not tested");
  return false;
}

std::size_t elements_of(const qir::Tensor &tensor) { return static_cast<std::size_t>(strided::count_of(tensor.shape)); }

// Numbers of [-4, 4]; `special`: some are NaN, infinite, zero of either sign, or the ends of the type.
Data numbers(const qir::Tensor &tensor, bool special, std::uint32_t seed) {
  const std::size_t count = elements_of(tensor);
  Data bytes(count * dtype_bits(tensor.dtype) / 8);
  std::uint32_t state = seed;
  for (std::size_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    float value = static_cast<float>(state >> 8) / static_cast<float>(1 << 24) * 8 - 4;
    constexpr float kSpecial[] = {NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 1e30f, -1e30f, 0.5f, -2.5f};
    if (special && i % 3 == 0) value = kSpecial[i / 3 % std::size(kSpecial)];
    std::uint8_t *const to = bytes.data() + i * dtype_bits(tensor.dtype) / 8;
    switch (tensor.dtype) {
      case DType::F32: std::memcpy(to, &value, 4); break;
      case DType::F16: {
        const std::uint16_t half = f32_to_f16(value);
        std::memcpy(to, &half, 2);
        break;
      }
      case DType::BF16: {
        const std::uint16_t half = f32_to_bf16(value);
        std::memcpy(to, &half, 2);
        break;
      }
      case DType::F64: {
        const double wide = value;
        std::memcpy(to, &wide, 8);
        break;
      }
      case DType::Bool: *to = state >> 31; break;
      case DType::I32:
      case DType::U32: {
        const std::int32_t integer = special && i % 5 == 0 ? INT32_MIN : static_cast<std::int32_t>(state >> 20) - 2048;
        std::memcpy(to, &integer, 4);
        break;
      }
      case DType::I64:
      case DType::U64: {
        const std::int64_t integer = special && i % 5 == 0 ? INT64_MIN : static_cast<std::int64_t>(state >> 24) - 128;
        std::memcpy(to, &integer, 8);
        break;
      }
      default: *to = static_cast<std::uint8_t>(state >> 24); break;
    }
  }
  return bytes;
}

double number_at(DType dtype, const Data &data, std::size_t i) {
  switch (dtype) {
    case DType::F32: return reinterpret_cast<const float *>(data.data())[i];
    case DType::F64: return reinterpret_cast<const double *>(data.data())[i];
    case DType::F16: return f16_to_f32(reinterpret_cast<const std::uint16_t *>(data.data())[i]);
    case DType::BF16: return bf16_to_f32(reinterpret_cast<const std::uint16_t *>(data.data())[i]);
    case DType::Bool: return data[i] != 0;
    default: return static_cast<double>(qir::stored_integer(dtype, data.data(), i));
  }
}

std::vector<Data> by_reference(const qir::Graph &graph, std::vector<Data> &given) {
  auto program = reference::Program::build(graph);
  REQUIRE_OK(program);
  reference::Execution execution(**program);
  struct Alone final : reference::Environment {
  } alone;
  std::vector<reference::IoBuffer> inputs(graph.inputs.size()), outputs(graph.outputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const qir::Tensor &tensor = qir::at(graph, graph.inputs[i]);
    inputs[i].data = given[i].data(), inputs[i].size_bytes = given[i].size();
    inputs[i].rank = static_cast<std::uint32_t>(tensor.shape.size());
    std::copy(tensor.shape.begin(), tensor.shape.end(), inputs[i].dims);
  }
  REQUIRE_OK(execution.run(inputs.data(), inputs.size(), outputs.data(), outputs.size(), alone));
  std::vector<Data> results;
  for (const reference::IoBuffer &output : outputs) {
    const auto *bytes = static_cast<const std::uint8_t *>(output.data);
    results.emplace_back(bytes, bytes + output.used_bytes);
  }
  return results;
}

// What a test does to a plan before it is loaded.
void (*g_change)(gpu::Plan &plan) = nullptr;

std::uint64_t no_clock(void *) { return 0; }

std::vector<Data> by_device(const qir::Graph &graph, std::vector<Data> &given) {
  const gpu::Engine &engine = *device().engine;
  auto compiled = gpu::compile(graph, {}, engine.device().computes_double());
  REQUIRE_OK(compiled);
  for (const Status &refused : compiled->refused) REQUIRE_OK(refused);
  gpu::Blob made;
  made.plan = std::move(compiled->plan);
  if (g_change) g_change(made.plan);
  const Vector<std::uint8_t> bytes = gpu::write_blob(made);
  const Vector<qir::Bytes> segments{{compiled->packed.data(), compiled->packed.size()}};
  auto blob = gpu::read_blob({bytes.data(), bytes.size()}, segments);
  REQUIRE_OK(blob);
  String note;
  auto loaded = gpu::LoadedContext::load(device().engine, std::move(*blob), segments, nullptr, &note);
  REQUIRE_OK(loaded);
  auto execution = gpu::Execution::make(**loaded, "normal");
  REQUIRE_OK(execution);
  std::vector<Data> results;
  std::vector<qr_io_buffer> inputs(graph.inputs.size()), outputs(graph.outputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i)
    inputs[i].data = given[i].data(), inputs[i].size_bytes = given[i].size();
  for (const std::int32_t id : graph.outputs) {
    const qir::Tensor &tensor = qir::at(graph, id);
    results.emplace_back(elements_of(tensor) * dtype_bits(tensor.dtype) / 8, std::uint8_t{0xee});
  }
  for (std::size_t i = 0; i < outputs.size(); ++i)
    outputs[i].data = results[i].data(), outputs[i].size_bytes = results[i].size(), outputs[i].wanted = 1;
  qr_host host{};
  host.clock_ns = no_clock;
  const plugin::HostAllocator unused(&host);
  qr_run_request request{};
  request.struct_size = sizeof request;
  request.inputs = inputs.data(), request.input_count = inputs.size();
  request.outputs = outputs.data(), request.output_count = outputs.size();
  for (int twice = 0; twice < 2; ++twice) REQUIRE_OK((*execution)->run(request, host));
  return results;
}

// The graph gives the same on both, to `tolerance` of the largest finite number (integers: exactly).
void same(Pieces &p, const char *what, bool special = false, double tolerance = 2e-5) {
  CAPTURE(std::string(what));
  REQUIRE_OK(qir::validate_graph(p.graph));
  std::vector<Data> given;
  for (const std::int32_t id : p.graph.inputs)
    given.push_back(numbers(qir::at(p.graph, id), special, static_cast<std::uint32_t>(given.size()) * 77 + 12345));
  const std::vector<Data> wanted = by_reference(p.graph, given), found = by_device(p.graph, given);
  for (std::size_t o = 0; o < wanted.size(); ++o) {
    const qir::Tensor &tensor = qir::at(p.graph, p.graph.outputs[o]);
    REQUIRE_EQ(wanted[o].size(), found[o].size());
    double largest = 1e-30, worst = 0;
    std::size_t where = 0, count = elements_of(tensor);
    for (std::size_t i = 0; i < count; ++i) {
      const double value = std::fabs(number_at(tensor.dtype, wanted[o], i));
      if (value < 1e20) largest = std::max(largest, value);
    }
    for (std::size_t i = 0; i < count; ++i) {
      const double a = number_at(tensor.dtype, wanted[o], i), b = number_at(tensor.dtype, found[o], i);
      if (a == b || (a != a && b != b) || (std::fabs(a) >= 1e20 && std::fabs(b - a) <= 1e-5 * std::fabs(a))) continue;
      const double off = is_float(tensor.dtype) ? std::fabs(a - b) / largest : INFINITY;
      if (!(off <= worst)) worst = off, where = i;
    }
    INFO("output ", o, " element ", where, ": found ", number_at(tensor.dtype, found[o], where), ", expected ",
         number_at(tensor.dtype, wanted[o], where));
    CHECK_LE(worst, tolerance);
  }
}

template <class T>
qir::Attribute attribute(const char *name, T value) {
  return Pieces::attribute(name, value);
}
double tolerance_of(DType dtype) { return dtype == DType::F16 ? 2e-3 : dtype == DType::BF16 ? 1.6e-2 : 2e-5; }

}  // namespace

TEST_CASE("elementwise operators of one operand") {
  if (!has_device()) return;
  for (const Op op :
       {Op::Abs,  Op::Neg,  Op::Sign,       Op::Ceil,        Op::Floor,     Op::Round,   Op::Relu,     Op::LeakyRelu,
        Op::Elu,  Op::Selu, Op::Celu,       Op::HardSigmoid, Op::HardSwish, Op::Sigmoid, Op::Softplus, Op::Softsign,
        Op::Mish, Op::Gelu, Op::Reciprocal, Op::Sqrt,        Op::Exp,       Op::Log,     Op::Erf,      Op::Sin,
        Op::Cos,  Op::Tanh, Op::Atan,       Op::Asinh,       Op::IsNaN}) {
    Pieces p;
    p.gives({p.of(op, p.input({3, 7, 5}))});
    same(p, qir::op_name(op));
  }
  // What becomes of NaN and infinities, each way that keeps them.
  for (const Op op : {Op::Abs, Op::Neg, Op::Sign, Op::Ceil, Op::Round, Op::Relu, Op::LeakyRelu, Op::Sigmoid, Op::Tanh,
                      Op::IsNaN, Op::IsInf}) {
    Pieces p;
    p.gives({p.of(op, p.input({71}))});
    same(p, qir::op_name(op), true);
  }
}

TEST_CASE("elementwise operators of two operands broadcast, and types convert") {
  if (!has_device()) return;
  for (const DType dtype : {DType::F32, DType::F16, DType::BF16, DType::I32, DType::I64, DType::U8, DType::I8})
    for (const Op op : {Op::Add, Op::Sub, Op::Mul, Op::Div, Op::Max, Op::Min, Op::Greater, Op::Equal}) {
      Pieces p;
      const i32 a = p.input({3, 1, 5}, dtype), b = p.input({4, 1}, dtype);
      p.gives({p.node(op, {a, b})});
      const bool has_infinities = is_float(dtype) && op == Op::Div;
      same(p, qir::op_name(op),
           !has_infinities && (op == Op::Max || op == Op::Min || op == Op::Greater || is_integer(dtype)),
           tolerance_of(dtype));
    }
  for (const DType from : {DType::F32, DType::F16, DType::I32, DType::I64, DType::U8, DType::Bool})
    for (const DType to : {DType::F32, DType::F16, DType::I8, DType::U8, DType::I32, DType::I64, DType::Bool}) {
      Pieces p;
      p.gives({p.node(Op::Cast, {p.input({67}, from)}, {attribute("to", static_cast<std::int64_t>(to))})});
      same(p, dtype_name(to), to != DType::F16);
    }
}

TEST_CASE("convolutions") {
  if (!has_device()) return;
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
      same(p, "Conv", false, tolerance_of(dtype));
    }
    // Packed weights, and another image added behind.
    Pieces q;
    const i32 x = q.input({c.n, c.c, c.h, c.w});
    const i32 y =
        q.node(Op::Conv, {x, q.column(c.m * c.c / c.group * c.kh * c.kw, {c.m, c.c / c.group, c.kh, c.kw})},
               {attribute("pads", Ints{c.pad, c.pad, c.pad, c.pad}), attribute("strides", Ints{c.stride, c.stride}),
                attribute("dilations", Ints{c.dilation, c.dilation}), attribute("group", c.group)});
    q.gives({q.add(y, q.input(qir::Shape(q.at(y).shape)))});
    same(q, "Conv packed");
  }
  for (const std::int64_t group : {1, 2}) {
    Pieces p;
    const i32 x = p.input({1, 4, 5, 4}), w = p.input({4, 3, 3, 2});
    p.gives({p.node(Op::ConvTranspose, {x, w},
                    {attribute("strides", Ints{2, 3}), attribute("pads", Ints{1, 0, 0, 1}), attribute("group", group),
                     attribute("output_padding", Ints{1, 0})})});
    same(p, "ConvTranspose");
  }
  Pieces line;
  line.gives({line.node(Op::Conv, {line.input({2, 3, 17}), line.input({4, 3, 5})}, {attribute("pads", Ints{2, 2})})});
  same(line, "Conv of one axis");
  Pieces cube;
  cube.gives({cube.node(Op::Conv, {cube.input({1, 2, 4, 5, 3}), cube.input({3, 2, 2, 3, 2})})});
  same(cube, "Conv of three axes");
}

TEST_CASE("products") {
  if (!has_device()) return;
  const std::vector<std::pair<qir::Shape, qir::Shape>> shapes{
      {{5, 7}, {7, 3}}, {{1, 9}, {9, 65}}, {{2, 3, 4, 5}, {5, 6}}, {{3, 1, 4, 5}, {2, 5, 9}}, {{6}, {6, 5}},
      {{3, 6}, {6}},    {{4}, {4}}};
  for (const auto &[a, b] : shapes)
    for (const DType dtype : {DType::F32, DType::F16, DType::I32}) {
      Pieces p;
      p.gives({p.node(Op::MatMul, {p.input(a, dtype), p.input(b, dtype)})});
      same(p, "MatMul", false, tolerance_of(dtype));
    }
  for (const std::int64_t turned : {0, 1, 2, 3}) {
    Pieces p;
    const i32 a = p.input(turned & 1 ? qir::Shape{7, 5} : qir::Shape{5, 7}),
              b = p.input(turned & 2 ? qir::Shape{9, 7} : qir::Shape{7, 9});
    p.gives({p.of(Op::Tanh, p.node(Op::Gemm, {a, b, p.input({9})},
                                   {attribute("transA", turned & 1), attribute("transB", turned >> 1),
                                    attribute("alpha", 0.25f), attribute("beta", 2.0f)}))});
    same(p, "Gemm");
  }
  // A transposed operand is a view.
  Pieces p;
  p.gives({p.node(Op::MatMul, {p.input({2, 3, 5}), p.transpose(p.input({2, 4, 5}), {0, 2, 1})})});
  same(p, "MatMul transposed");
}

TEST_CASE("products in tiles: whole ones, parts at the edges, weights in panels, columns that are laid side by side") {
  if (!has_device()) return;
  for (const DType dtype : {DType::F32, DType::F16, DType::BF16})
    for (const auto &[a, b] : std::vector<std::pair<qir::Shape, qir::Shape>>{
             {{17, 33}, {33, 37}}, {{2, 8, 5}, {2, 5, 16}}, {{1, 40}, {40, 21}}, {{3, 2, 9, 4}, {3, 1, 4, 5}}}) {
      Pieces p;
      p.gives({p.node(Op::MatMul, {p.input(a, dtype), p.input(b, dtype)})});
      same(p, "MatMul", false, tolerance_of(dtype));
    }
  for (const std::int64_t columns : {5, 16, 35})
    for (const std::int64_t turned : {0, 1}) {
      Pieces p;
      const i32 w = p.column(13 * columns, turned ? qir::Shape{columns, 13} : qir::Shape{13, columns});
      p.gives({p.of(Op::Relu,
                    p.node(Op::Gemm, {p.input({11, 13}), w, p.input({columns})}, {attribute("transB", turned)}))});
      same(p, "Gemm of weights");
      Pieces q;
      q.gives({q.node(Op::MatMul, {q.input({2, 3, 13}), q.column(13 * columns, {13, columns})})});
      same(q, "MatMul of weights");
    }
  Pieces turned;
  turned.gives({turned.node(Op::MatMul,
                            {turned.input({2, 3, 9, 6}), turned.transpose(turned.input({2, 3, 7, 6}), {0, 1, 3, 2})})});
  same(turned, "MatMul by what is turned");
  Pieces shared;
  shared.gives({shared.node(Op::MatMul, {shared.input({4, 9, 6}), shared.transpose(shared.input({7, 6}), {1, 0})})});
  same(shared, "MatMul by what is turned, for all");
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
    same(p, "Conv in tiles", false, 1e-4);
  }
  // What is outside an image is zero whatever stands in it.
  Pieces p;
  p.gives({p.node(Op::Conv, {p.input({1, 2, 4, 4}), p.column(8 * 18, {8, 2, 3, 3})},
                  {attribute("pads", Ints{1, 1, 1, 1})})});
  same(p, "Conv of NaN", true, 1e-4);
}

TEST_CASE("products in tiles by way of local memory") {
  if (!has_device()) return;
  static std::int32_t tile[5];
  for (const auto &[rows, cols, x, y, local] : {std::array{4, 4, 16, 4, 8}, std::array{8, 8, 8, 8, 16},
                                                std::array{2, 16, 1, 4, 4}, std::array{1, 2, 4, 1, 32}}) {
    tile[0] = rows, tile[1] = cols, tile[2] = x, tile[3] = y, tile[4] = local;
    g_change = [](gpu::Plan &plan) {
      for (const gpu::Step &step : plan.steps) {
        const auto kernel = static_cast<gpu::Kernel>(step.kernel);
        REQUIRE_EQ(kernel, gpu::Kernel::MatMulTile);
        std::copy_n(tile, 5,
                    plan.numbers.data() + step.numbers + gpu::Fields::place(gpu::kernel_row(kernel).fields, "ROWS"));
      }
    };
    for (const auto &[a, b] : std::vector<std::pair<qir::Shape, qir::Shape>>{
             {{17, 33}, {33, 37}}, {{2, 8, 5}, {2, 5, 16}}, {{70, 40}, {40, 130}}}) {
      Pieces p;
      p.gives({p.of(Op::Relu, p.node(Op::MatMul, {p.input(a), p.input(b)}))});
      same(p, "local");
      Pieces q;
      q.gives({q.of(Op::Relu, q.node(Op::MatMul, {q.input(a, DType::F16), q.input(b, DType::F16)}))});
      same(q, "local, f16", false, tolerance_of(DType::F16));
    }
    Pieces w;
    w.gives({w.node(Op::MatMul, {w.input({2, 9, 40}), w.column(40 * 35, {40, 35})})});
    same(w, "local, weights in panels");
  }
  g_change = nullptr;
}

TEST_CASE("tiles are fitted to a device and measured") {
  if (!has_device()) return;
  Pieces p;
  const i32 h = p.node(Op::MatMul, {p.input({40, 24}), p.column(24 * 48, {24, 48})});
  p.gives({p.node(Op::MatMul, {p.of(Op::Relu, h), p.column(48 * 40, {48, 40})})});
  auto compiled = gpu::compile(p.graph, {}, false);
  REQUIRE_OK(compiled);
  gpu::Plan &plan = compiled->plan;
  const auto before = plan.numbers;
  const qr_host host{};
  gpu::fit_tiles(plan, device().engine->device());
  REQUIRE_OK(gpu::measure_tiles(plan, *device().engine, plugin::StopToken(nullptr, host)));
  CHECK_EQ(plan.numbers.size(), before.size());
  Vector<gpu::StepOperand> operands;
  for (const gpu::Step &step : plan.steps) {
    gpu::Form form;
    gpu::Bounds bounds;
    REQUIRE(gpu::form_of(plan, step, operands, form));
    REQUIRE_OK(gpu::find_bounds(form, bounds));
  }
}

TEST_CASE("reductions, lines and norms") {
  if (!has_device()) return;
  for (const Op op : {Op::ReduceSum, Op::ReduceMean, Op::ReduceProd, Op::ReduceMax, Op::ReduceMin, Op::ReduceL1,
                      Op::ReduceL2, Op::ReduceSumSquare, Op::ReduceLogSumExp})
    for (const auto &axes :
         {std::vector<std::int64_t>{1}, std::vector<std::int64_t>{0, 2}, std::vector<std::int64_t>{0, 1, 2, 3}}) {
      Pieces p;
      p.gives({p.node(op, {p.input({3, 4, 2, 5}), p.integers(axes)}, {attribute("keepdims", std::int64_t{0})})});
      same(p, qir::op_name(op), op == Op::ReduceMax || op == Op::ReduceMin, 1e-4);
    }
  for (const Op op : {Op::Softmax, Op::LogSoftmax, Op::LpNormalization})
    for (const std::int64_t axis : {0, 1, 2}) {
      Pieces p;
      p.gives({p.node(op, {p.input({4, 13, 3})}, {attribute("axis", axis)})});
      same(p, qir::op_name(op));
    }
  for (const Op op : {Op::ArgMax, Op::ArgMin})
    for (const std::int64_t last : {0, 1}) {
      Pieces p;
      p.gives({p.node(op, {p.input({3, 14, 2}, DType::I32)},
                      {attribute("axis", std::int64_t{1}), attribute("select_last_index", last)})});
      same(p, qir::op_name(op), true);
    }
  // Long lines, each by a group of work items.
  for (const Op op : {Op::ReduceSum, Op::ReduceMean, Op::ReduceMax, Op::ReduceMin, Op::ReduceL1, Op::ReduceL2,
                      Op::ReduceSumSquare, Op::ReduceLogSumExp}) {
    Pieces p;
    p.gives({p.node(op, {p.input({3, 5, 2, 67}), p.integers({1, 3})}, {attribute("keepdims", std::int64_t{0})})});
    same(p, qir::op_name(op), op == Op::ReduceMax || op == Op::ReduceMin, 1e-4);
  }
  for (const Op op : {Op::ReduceMax, Op::ReduceMin, Op::ReduceSum}) {
    Pieces p;
    p.gives({p.node(op, {p.input({2, 515}, DType::I32), p.integers({1})})});
    same(p, qir::op_name(op), op != Op::ReduceSum);
  }
  for (const std::int64_t length : {256, 300, 1001}) {
    Pieces p;
    p.gives({p.node(Op::Softmax, {p.input({3, length})}),
             p.node(Op::LogSoftmax, {p.input({length, 2})}, {attribute("axis", std::int64_t{0})})});
    same(p, "Softmax of long lines");
    Pieces q;
    q.gives({q.node(Op::LayerNormalization, {q.input({3, 5, length}), q.input({length}), q.input({length})}),
             q.node(Op::RMSNormalization, {q.input({2, length}), q.input({length})}),
             q.node(Op::InstanceNormalization, {q.input({2, 3, length}), q.input({3}), q.input({3})})});
    same(q, "norms of long lines");
  }
  Pieces layer;
  layer.gives({layer.node(Op::LayerNormalization, {layer.input({3, 5, 7}), layer.input({7}), layer.input({7})})});
  same(layer, "LayerNormalization");
  Pieces root;
  root.gives({root.node(Op::RMSNormalization, {root.input({3, 5, 7}), root.input({5, 7})},
                        {attribute("axis", std::int64_t{1})})});
  same(root, "RMSNormalization");
  Pieces instance;
  instance.gives({instance.node(Op::InstanceNormalization,
                                {instance.input({2, 3, 4, 5}), instance.input({3}), instance.input({3})})});
  same(instance, "InstanceNormalization");
  Pieces group;
  group.gives({group.node(Op::GroupNormalization, {group.input({2, 6, 5}), group.input({6}), group.input({6})},
                          {attribute("num_groups", std::int64_t{3})})});
  same(group, "GroupNormalization");
  for (const std::int64_t reverse : {0, 1}) {
    Pieces p;
    p.gives({p.node(Op::CumSum, {p.input({3, 7, 2}), p.integers({1})},
                    {attribute("reverse", reverse), attribute("exclusive", 1 - reverse)})});
    same(p, "CumSum");
  }
}

TEST_CASE("pools, Resize and what else moves windows") {
  if (!has_device()) return;
  for (const Op op : {Op::MaxPool, Op::AveragePool, Op::LpPool})
    for (const std::int64_t ceil : {0, 1}) {
      Pieces p;
      p.gives({p.node(op, {p.input({2, 3, 9, 7})},
                      {attribute("kernel_shape", Ints{3, 2}), attribute("strides", Ints{2, 2}),
                       attribute("pads", Ints{1, 0, 1, 1}), attribute("ceil_mode", ceil)})});
      same(p, qir::op_name(op), op == Op::MaxPool);
    }
  for (const char *const mode : {"nearest", "linear", "cubic"})
    for (const char *const how : {"half_pixel", "align_corners", "asymmetric"}) {
      Pieces p;
      const i32 scales = p.constant<float>(DType::F32, {4}, {1, 1, 1.7f, 0.6f});
      p.gives({p.node(Op::Resize, {p.input({1, 2, 6, 9}), qir::kAbsent, scales},
                      {attribute("mode", std::string_view(mode)),
                       attribute("coordinate_transformation_mode", std::string_view(how))})});
      same(p, mode);
    }
  Pieces lrn;
  lrn.gives({lrn.node(Op::LRN, {lrn.input({1, 7, 3, 2})}, {attribute("size", std::int64_t{3})})});
  same(lrn, "LRN");
  for (const char *const mode : {"constant", "reflect", "edge", "wrap"}) {
    Pieces p;
    p.gives(
        {p.node(Op::Pad, {p.input({3, 5}), p.integers({1, 2, 2, -1})}, {attribute("mode", std::string_view(mode))})});
    same(p, mode);
  }
  for (const char *const mode : {"nearest", "linear", "cubic"})
    for (const char *const padding : {"zeros", "border", "reflection"}) {
      Pieces p;
      p.gives(
          {p.node(Op::GridSample, {p.input({1, 2, 5, 4}), p.mul(p.input({1, 3, 6, 2}), 0.37)},
                  {attribute("mode", std::string_view(mode)), attribute("padding_mode", std::string_view(padding))})});
      same(p, padding, false, 1e-4);
    }
}

TEST_CASE("what moves elements") {
  if (!has_device()) return;
  Pieces views;
  const i32 x = views.input({4, 6, 5});
  const i32 part = views.node(Op::Slice, {x, views.integers({3, 5}), views.integers({-10, 0}), views.integers({0, 1}),
                                          views.integers({-1, -2})});
  views.gives({views.transpose(part, {2, 0, 1}), views.node(Op::Reshape, {part, views.integers({-1})})});
  same(views, "Slice backwards");
  for (const DType dtype : {DType::F32, DType::F16, DType::U8, DType::I64}) {
    Pieces p;
    const i32 a = p.input({2, 3, 4}, dtype), b = p.input({2, 5, 4}, dtype);
    const i32 both = p.node(Op::Concat, {a, b}, {attribute("axis", std::int64_t{1})});
    const i32 picked = p.node(Op::Gather, {both, p.integers({0, -1, 3})}, {attribute("axis", std::int64_t{1})});
    p.gives({p.node(Op::Tile, {picked, p.integers({1, 2, 3})})});
    same(p, dtype_name(dtype));
  }
  Pieces blocks;
  blocks.gives({blocks.node(
      Op::DepthToSpace,
      {blocks.node(Op::SpaceToDepth, {blocks.input({1, 3, 4, 6})}, {attribute("blocksize", std::int64_t{2})})},
      {attribute("blocksize", std::int64_t{2}), attribute("mode", std::string_view("CRD"))})});
  same(blocks, "SpaceToDepth");
  Pieces triangle;
  triangle.gives({triangle.node(Op::Trilu, {triangle.input({2, 4, 5})}, {attribute("upper", std::int64_t{0})})});
  same(triangle, "Trilu");
  Pieces tuples;
  tuples.gives({tuples.node(
      Op::GatherND, {tuples.input({3, 4, 5}), tuples.constant<std::int64_t>(DType::I64, {2, 2}, {0, 3, -1, 1})})});
  same(tuples, "GatherND");
  for (const std::size_t which : {0u, 1u, 2u}) {
    Pieces p;
    qir::Node &node = p.graph.nodes.emplace_back();
    node.op = Op::DynamicQuantizeLinear, node.name = "quantize", node.source = 0;
    node.inputs = {p.input({3, 7})};
    node.outputs = {p.tensor(DType::U8, {3, 7}), p.tensor(DType::F32, {}), p.tensor(DType::U8, {})};
    p.gives({node.outputs[which]});
    same(p, "DynamicQuantizeLinear");
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
      same(p, direction);
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
    same(p, "TopK", true);
  }
}

namespace {

// Of one type, one scale and zero point.
i32 stored_input(Pieces &p, qir::Shape shape, DType dtype, float scale, i32 zero) {
  return p.quantized(p.input(std::move(shape), dtype), dtype, {scale}, {zero});
}
i32 stored(Pieces &p, i32 id, DType dtype, float scale, i32 zero) { return p.quantized(id, dtype, {scale}, {zero}); }
i32 stored_weights(Pieces &p, const qir::Shape &shape, DType dtype, Vector<float> scales, Vector<i32> zeros, i32 axis) {
  std::vector<std::uint8_t> values;
  for (std::int64_t i = 0; i < strided::count_of(shape) * dtype_bits(dtype) / 8; ++i)
    values.push_back(static_cast<std::uint8_t>(i * 73 + 11));
  return p.quantized(p.constant(dtype, shape, values), dtype, std::move(scales), std::move(zeros), axis);
}
i32 counted_bias(Pieces &p, std::int64_t channels) {
  std::vector<std::int32_t> values;
  for (std::int64_t i = 0; i < channels; ++i) values.push_back(static_cast<std::int32_t>(i * 977 % 2000) - 1000);
  return p.constant(DType::I32, {channels}, values);
}

std::size_t steps_of(const Pieces &p) {
  auto compiled = gpu::compile(p.graph, {}, false);
  REQUIRE_OK(compiled);
  return compiled->plan.steps.size();
}

}  // namespace

TEST_CASE("products of quantised tensors are of integers, and one step") {
  if (!has_device()) return;
  for (const DType x_type : {DType::U8, DType::I8, DType::U16})
    for (const bool by_channel : {false, true}) {
      Pieces p;
      const i32 x = stored_input(p, {1, 5, 7, 6}, x_type, 0.0217f, x_type == DType::I8 ? -7 : 119);
      const i32 w = by_channel ? stored_weights(p, {6, 5, 3, 2}, DType::I8,
                                                {0.011f, 0.02f, 0.013f, 0.017f, 0.009f, 0.031f}, {0, 0, 0, 0, 0, 0}, 0)
                               : stored_weights(p, {6, 5, 3, 2}, DType::U8, {0.013f}, {101}, 0);
      const i32 y = p.node(Op::Conv, {x, w, counted_bias(p, 6)}, {attribute("pads", Ints{1, 0, 1, 1})});
      p.gives({stored(p, y, x_type, x_type == DType::U16 ? 0.31f : 0.37f, x_type == DType::I8 ? 3 : 130)});
      CHECK_EQ(steps_of(p), 1u);
      same(p, dtype_name(x_type));
    }
  {  // sums of 64 bits; a result of reals
    Pieces p;
    const i32 x = stored_input(p, {2, 64, 3, 3}, DType::U16, 0.0003f, 31000),
              w = stored_weights(p, {10, 32, 1, 1}, DType::I16, {0.0001f}, {0}, 0);
    p.gives({p.of(Op::Relu, p.node(Op::Conv, {x, w}, {attribute("group", std::int64_t{2})}))});
    CHECK_EQ(steps_of(p), 1u);
    same(p, "u16 by i16");
  }
  for (const bool both : {false, true}) {
    Pieces p;
    const i32 a = stored_input(p, {2, 3, 9, 17}, DType::U8, 0.031f, 121);
    const i32 b =
        both ? stored_input(p, {3, 17, 5}, DType::U8, 0.027f, 99)
             : stored_weights(p, {17, 5}, DType::I8, {0.01f, 0.02f, 0.03f, 0.015f, 0.012f}, {0, 0, 0, 0, 0}, 1);
    p.gives({stored(p, p.node(Op::MatMul, {a, b}), DType::U8, 0.31f, 117)});
    CHECK_EQ(steps_of(p), 1u);
    same(p, "MatMul");
  }
  Pieces p;
  const i32 a = stored_input(p, {4, 33}, DType::I8, 0.031f, 5),
            b = stored_weights(p, {7, 33}, DType::I8, {0.013f}, {0}, 0);
  p.gives({stored(p, p.node(Op::Gemm, {a, b, counted_bias(p, 7)}, {attribute("transB", std::int64_t{1})}), DType::I8,
                  0.43f, -9)});
  CHECK_EQ(steps_of(p), 1u);
  same(p, "Gemm");
}

TEST_CASE("operators on elements of quantised tensors, and what moves them") {
  if (!has_device()) return;
  for (const Op op : {Op::Add, Op::Mul, Op::Sub, Op::Max}) {
    Pieces p;
    const i32 a = stored_input(p, {3, 5, 4}, DType::U8, 0.021f, 100),
              b = stored_input(p, {5, 1}, DType::I8, 0.017f, -3);
    p.gives({stored(p, p.node(op, {a, b}), DType::U16, 0.0013f, 31000)});
    CHECK_EQ(steps_of(p), 1u);
    same(p, qir::op_name(op));
  }
  for (const Op op : {Op::Sigmoid, Op::HardSwish, Op::LeakyRelu}) {
    Pieces p;
    p.gives({stored(p, p.of(op, stored_input(p, {301}, DType::U8, 0.037f, 128)), DType::U8, 0.0173f, 3)});
    same(p, qir::op_name(op));
  }
  Pieces joined;
  const i32 part = stored_input(joined, {2, 3}, DType::U8, 0.02f, 128),
            other = stored_input(joined, {2, 4}, DType::U8, 0.033f, 99);
  joined.gives({stored(joined, joined.node(Op::Concat, {part, other}, {attribute("axis", std::int64_t{1})}), DType::U8,
                       0.02f, 128)});
  same(joined, "Concat");
  Pieces moved;
  const i32 x = stored_input(moved, {1, 4, 6, 6}, DType::I8, 0.02f, -11);
  const i32 padded =
      stored(moved, moved.node(Op::Pad, {x, moved.integers({0, 0, 1, 0, 0, 0, 0, 2})}), DType::I8, 0.02f, -11);
  const i32 pooled =
      stored(moved, moved.node(Op::MaxPool, {padded}, {attribute("kernel_shape", Ints{3, 3})}), DType::I8, 0.02f, -11);
  moved.gives({stored(moved, moved.transpose(pooled, {0, 2, 3, 1}), DType::I8, 0.02f, -11)});
  same(moved, "Pad, MaxPool, Transpose");
}

TEST_CASE("kernels that compute reals read and write what is stored: no step in between") {
  if (!has_device()) return;
  const auto image = [](Pieces &p) { return stored_input(p, {2, 3, 9, 8}, DType::U8, 0.021f, 100); };
  const auto check = [](Pieces &p, i32 y, const char *what, DType dtype = DType::U8, std::size_t steps = 1) {
    p.gives({stored(p, y, dtype, dtype == DType::I16 ? 0.00031f : 0.0173f, dtype == DType::U8 ? 91 : -7)});
    CHECK_EQ(steps_of(p), steps);
    same(p, what);
  };
  for (const std::int64_t padded : {0, 1}) {
    Pieces p;
    check(p,
          p.node(Op::AveragePool, {image(p)},
                 {attribute("kernel_shape", Ints{3, 2}), attribute("strides", Ints{2, 2}),
                  attribute("pads", Ints{1, 0, 1, 1}), attribute("count_include_pad", padded)}),
          "AveragePool");
  }
  for (const DType dtype : {DType::U8, DType::I8, DType::I16}) {
    Pieces p;
    check(p, p.of(Op::GlobalAveragePool, image(p)), "GlobalAveragePool", dtype);
    for (const std::int64_t length : {10, 300}) {
      Pieces q;
      check(q, q.of(Op::Softmax, stored_input(q, {4, length}, DType::I8, 0.11f, -9)), "Softmax", dtype);
    }
    Pieces m;
    check(m, m.node(Op::ReduceMean, {image(m), m.integers({1, 3})}), "ReduceMean", dtype);
    Pieces n;
    check(n,
          n.node(Op::LayerNormalization, {stored_input(n, {5, 33}, DType::U8, 0.031f, 121),
                                          stored_weights(n, {33}, DType::I8, {0.013f}, {3}, 0), n.input({33})}),
          "LayerNormalization", dtype);
  }
  {  // a result of reals, and an operand of reals
    Pieces p;
    p.gives({p.of(Op::Softmax, stored_input(p, {4, 10}, DType::I8, 0.11f, -9))});
    CHECK_EQ(steps_of(p), 1u);
    same(p, "Softmax to reals");
    Pieces q;
    check(q, q.of(Op::Softmax, q.input({4, 10})), "Softmax of reals");
  }
  {  // seen by other strides, and moved before: what is copied stays stored
    Pieces p;
    const i32 turned = stored(p, p.transpose(image(p), {0, 2, 3, 1}), DType::U8, 0.021f, 100);
    check(p, p.node(Op::ReduceMean, {turned, p.integers({2, 3})}), "ReduceMean of a view");
    Pieces q;
    const i32 other = stored(q, q.transpose(image(q), {0, 2, 3, 1}), DType::U8, 0.021f, 100);
    check(q, q.node(Op::LayerNormalization, {other, q.input({3})}), "LayerNormalization of a view", DType::U8, 2);
  }
  {  // an activation behind it works on what is stored
    Pieces p;
    const i32 pooled = stored(p, p.of(Op::GlobalAveragePool, image(p)), DType::U8, 0.0173f, 91);
    p.gives({stored(p, p.of(Op::Sigmoid, pooled), DType::U8, 0.004f, 0)});
    CHECK_EQ(steps_of(p), 2u);
    same(p, "GlobalAveragePool, Sigmoid");
  }
}

TEST_CASE("updates that go where indices say, regions, powers of integers") {
  if (!has_device()) return;
  for (const char *const how : {"none", "add", "mul", "max", "min"})
    for (const DType dtype : {DType::F32, DType::I64}) {
      Pieces p;
      const i32 at = p.constant<std::int64_t>(DType::I64, {2, 3}, {0, -1, 1, 4, 2, 1});
      p.gives({p.node(Op::ScatterElements, {p.input({3, 5}, dtype), at, p.input({2, 3}, dtype)},
                      {attribute("axis", std::int64_t{1}), attribute("reduction", std::string_view(how))})});
      same(p, how);
      Pieces q;
      const i32 tuples = q.constant<std::int64_t>(DType::I64, {3, 2}, {0, 3, -1, 1, 0, 3});
      q.gives({q.node(Op::ScatterND, {q.input({3, 4, 5}, dtype), tuples, q.input({3, 5}, dtype)},
                      {attribute("reduction", std::string_view(how))})});
      same(q, how);
    }
  for (const char *const mode : {"avg", "max"})
    for (const std::int64_t ratio : {0, 2}) {
      Pieces p;
      const i32 regions = p.constant<float>(DType::F32, {3, 4}, {0.5f, 1, 6.5f, 7, -3, 2, 4, 30, 2, 2, 2.5f, 3}),
                images = p.constant<std::int64_t>(DType::I64, {3}, {0, 1, 1});
      p.gives({p.node(Op::RoiAlign, {p.input({2, 3, 9, 8}), regions, images},
                      {attribute("mode", std::string_view(mode)), attribute("sampling_ratio", ratio),
                       attribute("output_height", std::int64_t{3}), attribute("output_width", std::int64_t{2}),
                       attribute("spatial_scale", 0.75f)})});
      same(p, mode, false, 1e-4);
    }
  for (const DType exponent : {DType::I32, DType::F32}) {
    Pieces p;
    const i32 powers = exponent == DType::F32 ? p.constant<float>(exponent, {5}, {2, 3, 0, 1, 5})
                                              : p.constant<std::int32_t>(exponent, {5}, {2, 3, 0, -1, 5});
    p.gives({p.node(
        Op::Pow,
        {p.node(Op::Mod, {p.input({7, 5}, DType::I32), p.constant<std::int32_t>(DType::I32, {}, {13})}), powers})});
    same(p, "Pow");
  }
}
