// SPDX-License-Identifier: Apache-2.0
// From and to stored integers. Bounds: Requantize: one quantum from cpu-reference, and that only next to ties (few
// elements; see kOffLimit); the rest: equal.
#include "tests/kernels/operands.h"
#include "tests/kernels/quantization.h"

namespace quarry::kernel_test {

namespace {

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

void test_quantize(const Isa &isa) {
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
      const float special[] = {
          NAN,   INFINITY, -INFINITY, 3e38f, -3e38f, 0.0f, -0.0f, 0.5f * p.y.scale, 1.5f * p.y.scale, -2.5f * p.y.scale,
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
}

void test_dequantize(const Isa &isa) {
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
}

void test_requantize(const Isa &isa) {
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
}

// By the values' own range: exact.
void test_dynamic_quantize(const Isa &isa) {
  Random random(14);
  for (const std::int64_t count : {1, 3, 16, 33, 64, 1000, 100000})
    for (const float low : {-3.0f, 0.5f, -7.0f}) {
      auto x = random.reals(static_cast<std::size_t>(count), low, low + 4);
      if (count == 16) std::fill(x.begin(), x.end(), 0.0f);
      if (count > 60) x[7] = std::nanf("");
      const DynamicQuantize p{count};
      const auto found =
          run(isa, Kernel::DynamicQuantize, &p, {{bytes_of(x)}, out(static_cast<std::size_t>(count)), out(4), out(1)});
      const auto expected = reference(node_of(qir::Op::DynamicQuantizeLinear, 1, 3), {tensor_of({count}, x)});
      for (std::size_t i = 0; i < 3; ++i)
        if (found[i] != expected[i].data) throw std::runtime_error("quantised by range: not the reference's");
    }
  refuse(isa, Kernel::DynamicQuantize, DynamicQuantize{1}, "a negative count", [](auto &q) { q.count = -1; });
}

void register_conversions(Registry &registry) {
  registry.test("quantize", test_quantize);
  registry.test("dequantize", test_dequantize);
  registry.test("quantize_rows, dequantize_rows", test_rows);
  registry.test("requantize", test_requantize);
  registry.test("quantised by range", test_dynamic_quantize);
}

// ---- benchmarks ---------------------------------------------------------------------------------

void register_quantize_benches(Registry &registry) {
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

void register_quantize(Registry &registry) {
  register_conversions(registry);
  register_quantize_benches(registry);
}

}  // namespace quarry::kernel_test
