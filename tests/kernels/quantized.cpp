// SPDX-License-Identifier: Apache-2.0
// Integer kernels but for convolutions. Bounds: BinaryInt, PoolInt (averages), MeanInt, Requantize: one quantum from
// cpu-reference, and that only next to ties (few elements; see kOffLimit); the rest: equal.
#include "tests/kernels/operands.h"
#include "tests/kernels/quantized.h"

namespace quarry::kernel_test {

namespace {

constexpr std::uint32_t kAll[] = {kU8, kI8, kU16, kI16};

Tensor tensor_of(const Quant &q, std::vector<std::int64_t> shape, Bytes data) {
  return {static_cast<DType>(q.dtype), std::move(shape), std::move(data), quant_of(q)};
}
qir::Node node_of(qir::Op op, int inputs) {
  qir::Node node;
  node.op = op;
  node.name = "node";
  for (int i = 0; i < inputs; ++i) node.inputs.push_back(i);
  node.outputs = {inputs};
  return node;
}
Bytes reference_quantised(const qir::Node &node, const std::vector<Tensor> &inputs, const Quant &y) {
  const std::vector<reference::OutputType> types{{static_cast<DType>(y.dtype), quant_of(y)}};
  return reference(node, inputs, &types)[0].data;
}

void test_binary(const Isa &isa, BinaryOp op, const Quant &qa, const Quant &qb, const Quant &qy,
                 std::vector<std::int64_t> a_shape, std::vector<std::int64_t> b_shape) {
  Random random(11);
  BinaryInt p;
  p.op = op;
  p.rank = static_cast<std::uint32_t>(a_shape.size());
  p.qa = qa, p.qb = qb, p.qy = qy;
  p.lo = low_of(qy.dtype) + 3, p.hi = high_of(qy.dtype) - 2;
  std::int64_t a_count = 1, b_count = 1, count = 1;
  for (std::size_t i = a_shape.size(); i-- > 0;) {
    p.dims[i] = std::max(a_shape[i], b_shape[i]);
    p.a[i] = a_shape[i] == 1 ? 0 : a_count;
    p.b[i] = b_shape[i] == 1 ? 0 : b_count;
    a_count *= a_shape[i], b_count *= b_shape[i], count *= p.dims[i];
  }
  const Bytes a = random_ints(random, qa.dtype, static_cast<std::size_t>(a_count)),
              b = random_ints(random, qb.dtype, static_cast<std::size_t>(b_count));
  const Bytes found = run(isa, Kernel::BinaryInt, &p,
                          {{a}, {b}, {Bytes(static_cast<std::size_t>(count) * width_of(qy.dtype)), true}})[0];
  const qir::Op ops[] = {qir::Op::Add, qir::Op::Sub, qir::Op::Mul};
  Bytes expected = reference_quantised(node_of(ops[static_cast<int>(op)], 2),
                                       {tensor_of(qa, a_shape, a), tensor_of(qb, b_shape, b)}, qy);
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
    set(expected, qy.dtype, i, std::clamp(get(expected, qy.dtype, i), p.lo, p.hi));
  expect_quanta("binary " + std::to_string(static_cast<int>(op)) + " types " + std::to_string(qa.dtype) +
                    std::to_string(qb.dtype) + std::to_string(qy.dtype),
                found, expected, qy.dtype, 0.02);
}

void register_binary(Registry &registry) {
  registry.test("binary_int types", [](const Isa &isa) {
    for (const BinaryOp op : {BinaryOp::Add, BinaryOp::Sub, BinaryOp::Mul})
      for (const std::uint32_t a : kAll)
        for (const std::uint32_t b : kAll)
          for (const std::uint32_t y : kAll)
            test_binary(isa, op, some_quant(a, a >= kU16 ? 3e-5f : 0.007f),
                        some_quant(b, b >= kU16 ? 2.3e-5f : 0.0061f), some_quant(y, y >= kU16 ? 4.7e-5f : 0.0119f),
                        {3, 37}, {3, 37});
  });
  registry.test("binary_int shapes", [](const Isa &isa) {
    const std::vector<std::int64_t> shapes[][2] = {{{1}, {1}},
                                                   {{7}, {7}},
                                                   {{65}, {1}},
                                                   {{1}, {65}},
                                                   {{5, 40}, {1, 40}},
                                                   {{5, 1}, {1, 40}},
                                                   {{3, 1, 5, 9}, {1, 4, 5, 1}},
                                                   {{40000}, {40000}},
                                                   {{2, 3, 20000}, {2, 1, 20000}},
                                                   {{2, 2, 2, 2, 2, 3}, {1, 2, 1, 2, 1, 3}}};
    for (const auto &shape : shapes)
      for (const BinaryOp op : {BinaryOp::Add, BinaryOp::Mul})
        test_binary(isa, op, some_quant(kU8, 0.02f), some_quant(kI8, 0.011f), some_quant(kU8, 0.031f), shape[0],
                    shape[1]);
  });
  registry.test("binary_int strided", [](const Isa &isa) {
    // Every second element of a, and a nest with nothing in it.
    BinaryInt p;
    p.qa = p.qb = p.qy = quant(kU8, 0, 1);
    p.hi = 255;
    p.dims[0] = 21;
    p.a[0] = 2, p.b[0] = 1;
    Bytes a(41), b(21);
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = std::byte(i);
    for (std::size_t i = 0; i < b.size(); ++i) b[i] = std::byte(i);
    const Bytes y = run(isa, Kernel::BinaryInt, &p, {{a}, {b}, {Bytes(21), true}})[0];
    for (std::size_t i = 0; i < y.size(); ++i)
      if (y[i] != std::byte(3 * i)) throw std::runtime_error("strided sum is wrong");
    p.dims[0] = 0;
    run(isa, Kernel::BinaryInt, &p, {{{}}, {{}}, {{}, true}});
  });
}

void test_pool(const Isa &isa, PoolOp op, std::uint32_t x_type, std::uint32_t y_type, std::int32_t c, Window w,
               std::int32_t pad_bottom, std::int32_t pad_right, std::int32_t slack) {
  Random random(23);
  PoolInt p;
  p.op = op;
  p.window = w;
  p.c = c;
  p.x_stride = c + slack, p.y_stride = c + 2 * slack;
  p.pad_bottom = pad_bottom, p.pad_right = pad_right;
  p.x = some_quant(x_type, 0.013f);
  p.y = op == PoolOp::Max ? p.x : some_quant(y_type, x_type >= kU16 && y_type <= kI8 ? 2.9f : 0.011f);
  const std::size_t x_count = static_cast<std::size_t>((w.n * w.ih * w.iw - 1) * p.x_stride + c),
                    y_count = static_cast<std::size_t>((w.n * w.oh * w.ow - 1) * p.y_stride + c);
  Bytes x = random_ints(random, x_type, x_count), y = random_ints(random, y_type, y_count);
  const Bytes found = run(isa, Kernel::PoolInt, &p, {{x}, {y, true}})[0];
  qir::Node node = node_of(op == PoolOp::Max ? qir::Op::MaxPool : qir::Op::AveragePool, 1);
  node.set("kernel_shape", Vector<std::int64_t>{w.kh, w.kw});
  node.set("strides", Vector<std::int64_t>{w.sh, w.sw});
  node.set("dilations", Vector<std::int64_t>{w.dh, w.dw});
  node.set("pads", Vector<std::int64_t>{w.pad_top, w.pad_left, pad_bottom, pad_right});
  // The extra row that ceil_mode adds.
  if ((w.oh - 1) * w.sh + (w.kh - 1) * w.dh + 1 > w.ih + w.pad_top + pad_bottom) node.set("ceil_mode", std::int64_t{1});
  if (op == PoolOp::AverageIncludePad) node.set("count_include_pad", std::int64_t{1});
  x.resize(static_cast<std::size_t>(w.n * w.ih * w.iw * p.x_stride) * width_of(x_type));
  const Bytes expected = reference_quantised(
      node, {tensor_of(p.x, {w.n, c, w.ih, w.iw}, to_nchw(x, w.n, w.ih * w.iw, c, p.x_stride, width_of(x_type)))}, p.y);
  expect_quanta("pool " + std::to_string(static_cast<int>(op)) + " c " + std::to_string(c), found,
                to_nhwc(expected, w.n, w.oh * w.ow, c, p.y_stride, width_of(y_type), y), y_type,
                op == PoolOp::Max ? 0 : 0.03);
}

void register_pool(Registry &registry) {
  registry.test("pool_int", [](const Isa &isa) {
    //                         n  ih iw oh ow kh kw sh sw dh dw top left
    const Window windows[] = {{1, 9, 8, 9, 8, 3, 3, 1, 1, 1, 1, 1, 1},
                              {2, 7, 7, 3, 3, 3, 3, 2, 2, 1, 1, 0, 0},
                              {1, 8, 9, 4, 4, 2, 2, 2, 2, 1, 1, 0, 0},
                              {1, 6, 7, 2, 3, 3, 3, 1, 1, 2, 2, 0, 0},
                              {1, 8, 8, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0}};
    const std::int32_t pads[][2] = {{1, 1}, {0, 0}, {0, 0}, {0, 0}, {0, 0}};
    for (std::size_t i = 0; i < std::size(windows); ++i)
      for (const std::int32_t c : {1, 5, 16, 43, 80})
        for (const std::int32_t slack : {0, 3}) {
          for (const std::uint32_t type : kAll) {
            test_pool(isa, PoolOp::Max, type, type, c, windows[i], pads[i][0], pads[i][1], slack);
            test_pool(isa, PoolOp::AverageExcludePad, type, type, c, windows[i], pads[i][0], pads[i][1], slack);
          }
          test_pool(isa, PoolOp::AverageIncludePad, kU8, kU8, c, windows[i], pads[i][0], pads[i][1], slack);
          test_pool(isa, PoolOp::AverageIncludePad, kU16, kI8, c, windows[i], pads[i][0], pads[i][1], slack);
        }
  });
  registry.test("mean_int", [](const Isa &isa) {
    Random random(31);
    const std::int64_t extents[][3] = {{1, 49, 1280}, {2, 7, 13},    {3, 50, 1}, {1, 1, 5},
                                       {1, 70000, 3}, {2, 70001, 1}, {0, 3, 4}};
    for (const auto &e : extents)
      for (const std::uint32_t x_type : kAll)
        for (const std::uint32_t y_type : {x_type, kU8}) {
          MeanInt p;
          p.outer = e[0], p.reduced = e[1], p.inner = e[2];
          p.x = some_quant(x_type, 0.013f);
          p.y = some_quant(y_type, x_type >= kU16 && y_type <= kI8 ? 2.9f : 0.0071f);
          const Bytes x = random_ints(random, x_type, static_cast<std::size_t>(e[0] * e[1] * e[2]));
          const Bytes found = run(isa, Kernel::MeanInt, &p,
                                  {{x}, {Bytes(static_cast<std::size_t>(e[0] * e[2]) * width_of(y_type)), true}})[0];
          if (e[0] == 0) continue;
          qir::Node node = node_of(qir::Op::ReduceMean, 2);
          node.set("keepdims", std::int64_t{0});
          const Tensor axes{DType::I64, {1}, bytes_of(std::vector<std::int64_t>{1}), {}};
          expect_quanta("mean", found, reference_quantised(node, {tensor_of(p.x, {e[0], e[1], e[2]}, x), axes}, p.y),
                        y_type, 0.02);
        }
  });
}

// Rows with scales and zero points that are operands, in every form that ONNX has: one per index of an axis, blocks.
constexpr auto kWide = static_cast<std::uint32_t>(DType::I32);
void test_rows(const Isa &isa) {
  Random random(59);
  struct Form {
    std::int64_t outer, n, inner, block;
  };
  for (const std::uint32_t type : {kU8, kI8, kU16, kI16, kWide})
    for (const Form f : {Form{2, 5, 1, 0}, Form{3, 70, 1, 0}, Form{2, 3, 9, 0}, Form{1, 4, 200, 0}, Form{3, 64, 1, 32},
                         Form{2, 6, 19, 3}, Form{1, 3, 40000, 0}, Form{700, 130, 1, 0}, Form{1, 1, 33, 0}})
      for (int form = 0; form < 4; ++form) {
        const bool to_int = form % 2, zeros = form / 2;
        if (type == kWide && form != 0) continue;
        QuantizeRows p;
        p.dtype = type, p.has_zeros = zeros, p.each = (f.block == 0) == (f.inner == 1);
        const std::int64_t blocks = f.block ? f.n / f.block : f.n;
        p.length = f.inner > 1 ? f.inner : f.block ? f.block : f.n;
        p.rows = f.outer * f.n * f.inner / p.length;
        p.groups = f.block ? f.outer * blocks : f.inner > 1 ? f.n : 1;
        p.repeat = p.groups == 1 ? p.rows : f.block && f.inner > 1 ? f.block : 1;
        const auto count = static_cast<std::size_t>(f.outer * f.n * f.inner);
        const Dims entry_dims = f.block ? Dims{f.outer, blocks, f.inner} : Dims{f.n};
        const std::size_t entries = product(entry_dims), width = type == kWide ? 4 : width_of(type);
        std::vector<float> scales = random.reals(entries, type >= kU16 ? 5e-5f : 0.01f, type >= kU16 ? 2e-4f : 0.05f);
        if (entries > 4) scales[2] = 1e-30f, scales[3] = 1e30f;  // whose products with bounds leave f32
        std::vector<float> x = random.reals(count, -5, 5);
        const float special[] = {NAN, INFINITY, -INFINITY, 3e38f, -3e38f, 0.0f, -0.0f, 1e-40f};
        for (std::size_t i = 0; i < count; i += i % 3 + 5) x[i] = special[i % std::size(special)];
        Bytes integers(count * width);
        for (auto &byte : integers) byte = static_cast<std::byte>(random.bits());
        const Bytes zero = zeros ? random_ints(random, type, entries) : Bytes();
        std::vector<Operand> operands{{to_int ? bytes_of(x) : integers}, {bytes_of(scales)}};
        const DType dtype = static_cast<DType>(type);
        std::vector<Tensor> inputs{{to_int ? DType::F32 : dtype, {f.outer, f.n, f.inner}, operands[0].contents, {}},
                                   {DType::F32, entry_dims, bytes_of(scales), {}}};
        if (zeros) operands.push_back({zero}), inputs.push_back({dtype, entry_dims, zero, {}});
        operands.push_back({Bytes(count * (to_int ? width : 4)), true});
        qir::Node node = node_of(to_int ? qir::Op::QuantizeLinear : qir::Op::DequantizeLinear, inputs.size());
        node.set("axis", std::int64_t{1});
        if (f.block) node.set("block_size", f.block);
        const Kernel kernel = to_int ? Kernel::QuantizeRows : Kernel::DequantizeRows;
        const Bytes found = run(isa, kernel, &p, operands)[0];
        // Without zero points the type of the result is the node's to say.
        if (to_int && !zeros)
          inputs.push_back({dtype, entry_dims, Bytes(entries * width), {}}), node.inputs.push_back(2);
        if (found != reference(node, inputs)[0].data)
          throw std::runtime_error("differs, type " + std::to_string(type) + ", inner " + std::to_string(f.inner));
      }
  QuantizeRows p;
  p.rows = 2, p.length = 3, p.dtype = kU8;
  refuse(isa, Kernel::QuantizeRows, p, "i32", [](auto &q) { q.dtype = kWide; });
  refuse(isa, Kernel::DequantizeRows, p, "f32", [](auto &q) { q.dtype = static_cast<std::uint32_t>(DType::F32); });
  refuse(isa, Kernel::DequantizeRows, p, "i32 with zero points", [](auto &q) { q.dtype = kWide, q.has_zeros = 1; });
  refuse(isa, Kernel::QuantizeRows, p, "no groups", [](auto &q) { q.groups = 0; });
  refuse(isa, Kernel::QuantizeRows, p, "no repeat", [](auto &q) { q.repeat = 0; });
  refuse(isa, Kernel::QuantizeRows, p, "negative rows", [](auto &q) { q.rows = -1; });
  refuse(isa, Kernel::QuantizeRows, p, "too many scales",
         [](auto &q) { q.groups = std::int64_t{1} << 62, q.each = 1; });
}

void register_conversions(Registry &registry) {
  registry.test("lookup8", [](const Isa &isa) {
    Random random(41);
    const Bytes table = random_ints(random, kU8, 256);
    for (const std::int64_t count : {0, 1, 7, 8, 31, 63, 64, 65, 100, 129, 127, 70001, 300007}) {
      const Lookup8 p{count};
      const Bytes x = random_ints(random, kU8, static_cast<std::size_t>(count));
      const Bytes y = run(isa, Kernel::Lookup8, &p, {{x}, {table}, {Bytes(x.size()), true}})[0];
      for (std::size_t i = 0; i < x.size(); ++i)
        if (y[i] != table[static_cast<std::size_t>(x[i])])
          throw std::runtime_error("element " + std::to_string(i) + " is wrong");
    }
  });
  registry.test("quantize", [](const Isa &isa) {
    Random random(43);
    for (const std::uint32_t type : kAll)
      for (const std::size_t count : {0, 1, 5, 8, 33, 128, 100000}) {
        Quantize p;
        p.count = static_cast<std::int64_t>(count);
        p.y = some_quant(type, type >= kU16 ? 1e-4f : 0.03f);
        std::vector<float> x = random.reals(count, -5, 5);
        // Next to ties, where a quotient that is not rounded right shows.
        for (std::size_t i = 0; i < count; i += 3)
          x[i] = (std::floor(x[i] / p.y.scale) + 0.5f) * p.y.scale,
          x[i] = i % 2 ? std::nextafter(x[i], i % 4 == 1 ? 9.0f : -9.0f) : x[i];
        const float special[] = {NAN,
                                 INFINITY,
                                 -INFINITY,
                                 3e38f,
                                 -3e38f,
                                 0.0f,
                                 -0.0f,
                                 0.5f * p.y.scale,
                                 1.5f * p.y.scale,
                                 -2.5f * p.y.scale,
                                 1e-40f};
        for (std::size_t i = 0; i < count && i < std::size(special); ++i) x[count - 1 - i] = special[i];
        const Bytes found = run(isa, Kernel::Quantize, &p, {{bytes_of(x)}, {Bytes(count * width_of(type)), true}})[0];
        if (count == 0) continue;
        const Tensor tensors[] = {{DType::F32, {p.count}, bytes_of(x), {}},
                                  {DType::F32, {}, bytes_of(std::vector<float>{p.y.scale}), {}},
                                  {static_cast<DType>(type), {}, Bytes(width_of(type)), {}}};
        Tensor zero = tensors[2];
        set(zero.data, type, 0, p.y.zero);
        if (found != reference(node_of(qir::Op::QuantizeLinear, 3), {tensors[0], tensors[1], zero})[0].data)
          throw std::runtime_error("differs from QuantizeLinear, type " + std::to_string(type));
      }
  });
  registry.test("dequantize", [](const Isa &isa) {
    Random random(47);
    for (const std::uint32_t type : kAll)
      for (const std::size_t count : {0, 1, 5, 8, 33, 100000}) {
        Dequantize p;
        p.count = static_cast<std::int64_t>(count);
        p.x = some_quant(type, 0.0123f);
        const Bytes x = random_ints(random, type, count);
        const Bytes found = run(isa, Kernel::Dequantize, &p, {{x}, {Bytes(count * 4), true}})[0];
        if (count == 0) continue;
        Tensor zero{static_cast<DType>(type), {}, Bytes(width_of(type)), {}};
        set(zero.data, type, 0, p.x.zero);
        const Tensor scale{DType::F32, {}, bytes_of(std::vector<float>{p.x.scale}), {}};
        if (found != reference(node_of(qir::Op::DequantizeLinear, 3),
                               {{static_cast<DType>(type), {p.count}, x, {}}, scale, zero})[0]
                         .data)
          throw std::runtime_error("differs from DequantizeLinear, type " + std::to_string(type));
      }
  });
  registry.test("quantize_rows, dequantize_rows", test_rows);
  registry.test("requantize", [](const Isa &isa) {
    Random random(53);
    for (const std::uint32_t x_type : kAll)
      for (const std::uint32_t y_type : kAll)
        for (const std::size_t count : {1, 5, 8, 33, 70000}) {
          Requantize p;
          p.count = static_cast<std::int64_t>(count);
          p.x = some_quant(x_type, x_type >= kU16 ? 3e-5f : 0.007f);
          p.y = some_quant(y_type, y_type >= kU16 ? 2.3e-5f : 0.0083f);
          p.lo = p.y.zero - 2, p.hi = high_of(y_type);
          const Bytes x = random_ints(random, x_type, count);
          const Bytes found = run(isa, Kernel::Requantize, &p, {{x}, {Bytes(count * width_of(y_type)), true}})[0];
          Bytes expected = reference_quantised(node_of(qir::Op::Relu, 1),
                                               {tensor_of({x_type, low_of(x_type), p.x.scale, 0}, {p.count}, x)}, p.y);
          // Relu of values that are never negative is the identity; but the zero point is another: compute it here.
          for (std::size_t i = 0; i < count; ++i) {
            const float real = static_cast<float>(get(x, x_type, i) - p.x.zero) * p.x.scale;
            set(expected, y_type, i,
                static_cast<std::int32_t>(
                    std::clamp<double>(std::nearbyint(static_cast<double>(real / p.y.scale)) + p.y.zero, p.lo, p.hi)));
          }
          expect_quanta("requantize", found, expected, y_type, 0.02);
        }
  });
}

// ---- benchmarks ---------------------------------------------------------------------------------

void register_quantized_benches(Registry &registry) {
  const auto binary = [&](const char *name, std::uint32_t type, std::int64_t count) {
    registry.bench(std::string("binary_int add ") + name, [=](const Isa &) {
      BinaryInt p;
      p.qa = some_quant(type, 0.02f), p.qb = some_quant(type, 0.013f), p.qy = some_quant(type, 0.03f);
      p.lo = low_of(type), p.hi = high_of(type);
      p.dims[0] = count, p.a[0] = p.b[0] = 1;
      const std::size_t bytes = static_cast<std::size_t>(count) * width_of(type);
      return Registry::Prepared{Kernel::BinaryInt,
                                params_of(p),
                                {{Bytes(bytes)}, {Bytes(bytes)}, {Bytes(bytes), true}},
                                {0, 3.0 * static_cast<double>(bytes)}};
    });
  };
  binary("u8 56x56x24", kU8, 56 * 56 * 24);
  binary("u16 56x56x24", kU16, 56 * 56 * 24);
  binary("u8 8", kU8, 8);
  registry.bench("lookup8 65536", [](const Isa &) {
    Random random(3);
    return Registry::Prepared{
        Kernel::Lookup8,
        params_of(Lookup8{65536}),
        {{random_ints(random, kU8, 65536)}, {random_ints(random, kU8, 256)}, {Bytes(65536), true}},
        {0, 131072}};
  });
  registry.bench("pool_int max 112x112x64 3x3 s2", [](const Isa &) {
    PoolInt p;
    p.window = {1, 112, 112, 56, 56, 3, 3, 2, 2, 1, 1, 1, 1};
    p.c = p.x_stride = p.y_stride = 64;
    p.pad_bottom = p.pad_right = 1;
    p.x = p.y = some_quant(kU8, 0.02f);
    return Registry::Prepared{Kernel::PoolInt,
                              params_of(p),
                              {{Bytes(112 * 112 * 64)}, {Bytes(56 * 56 * 64), true}},
                              {0, 112 * 112 * 64 + 56 * 56 * 64.0}};
  });
  registry.bench("mean_int 49x1280", [](const Isa &) {
    MeanInt p{1, 49, 1280, some_quant(kU8, 0.02f), some_quant(kU8, 0.02f)};
    return Registry::Prepared{
        Kernel::MeanInt, params_of(p), {{Bytes(49 * 1280)}, {Bytes(1280), true}}, {0, 50 * 1280.0}};
  });
  const auto conversions = [&](std::uint32_t type) {
    const std::string name = std::string(type == kU8 ? "u8" : "u16") + " 224x224x3";
    constexpr std::int64_t kCount = 224 * 224 * 3;
    const std::size_t bytes = static_cast<std::size_t>(kCount) * width_of(type);
    registry.bench("quantize " + name, [=](const Isa &) {
      return Registry::Prepared{Kernel::Quantize,
                                params_of(Quantize{kCount, some_quant(type, 0.02f)}),
                                {{Bytes(kCount * 4)}, {Bytes(bytes), true}},
                                {0, kCount * 4.0 + double(bytes)}};
    });
    registry.bench("dequantize " + name, [=](const Isa &) {
      return Registry::Prepared{Kernel::Dequantize,
                                params_of(Dequantize{kCount, some_quant(type, 0.02f)}),
                                {{Bytes(bytes)}, {Bytes(kCount * 4), true}},
                                {0, kCount * 4.0 + double(bytes)}};
    });
    registry.bench("requantize " + name, [=](const Isa &) {
      return Registry::Prepared{
          Kernel::Requantize,
          params_of(Requantize{kCount, some_quant(type, 0.02f), some_quant(type, 0.03f), low_of(type), high_of(type)}),
          {{Bytes(bytes)}, {Bytes(bytes), true}},
          {0, 2.0 * double(bytes)}};
    });
  };
  conversions(kU8);
  conversions(kU16);
}

}  // namespace

void register_quantized(Registry &registry) {
  register_conv_int(registry);
  register_binary(registry);
  register_pool(registry);
  register_conversions(registry);
  register_quantized_benches(registry);
}

}  // namespace quarry::kernel_test
