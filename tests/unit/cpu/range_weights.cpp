// SPDX-License-Identifier: Apache-2.0
// Weights of every kind are packed once for a range: plans share them, and a plan's own memory has none.
#include <thread>

#include "backends/cpu-reference/folder.h"
#include "backends/cpu/run/dynamic_region.h"
#include "base/float16.h"
#include "tests/unit/cpu/dynamic_graphs.h"

using namespace quarry;
using namespace quarry::test;
using qir::Op;
using i32 = std::int32_t;

namespace {

constexpr std::int64_t kWide = 128;
constexpr std::uint64_t kWeights = kWide * kWide;

i32 stored(Builder &b, DType dtype, std::initializer_list<std::int64_t> shape, Data::value_type bytes) {
  const i32 made = b.tensor(dtype, shape);
  auto &kept = b.data[made] = std::move(bytes);
  qir::Tensor &tensor = b.graph.tensors[static_cast<std::size_t>(made)];
  tensor.is_constant = true, tensor.data = {kept.data(), kept.size()};
  return made;
}

Data::value_type random_bytes(std::size_t count, std::uint64_t seed) {
  Random random(seed);
  Data::value_type out(count);
  for (std::uint8_t &byte : out) byte = static_cast<std::uint8_t>(random.integer(0, 255));
  return out;
}

Data::value_type random_halves(std::size_t count) {
  Random random(3);
  Data::value_type out(count * 2);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint16_t half = f32_to_f16(random.real(-0.1f, 0.1f));
    std::memcpy(out.data() + 2 * i, &half, sizeof half);
  }
  return out;
}

void range_of_rows(Builder &b) { b.graph.dimensions.push_back({"rows", 1, 64, {{0, 0}}, {}, 0}); }

// f16 weights behind a Cast, as converters write them.
Builder halves() {
  Builder b;
  const i32 x = b.input(DType::F32, {-1, kWide}), h = stored(b, DType::F16, {kWide, kWide}, random_halves(kWeights)),
            w = b.tensor(DType::F32, {kWide, kWide}), y = b.tensor(DType::F32, {-1, kWide});
  b.node(Op::Cast, {h}, {w}).set("to", std::int64_t{1});
  b.node(Op::MatMul, {x, w}, {y});
  b.gives({y});
  range_of_rows(b);
  return b;
}

// Weights of 8 bits alone: they are dequantised.
Builder bytes_as_floats() {
  Builder b;
  const i32 x = b.input(DType::F32, {-1, kWide}), q = stored(b, DType::U8, {kWide, kWide}, random_bytes(kWeights, 4)),
            w = b.tensor(DType::F32, {kWide, kWide}), y = b.tensor(DType::F32, {-1, kWide});
  b.node(Op::DequantizeLinear, {q, b.constant<float>({}, {0.01f}), b.constant<std::uint8_t>({}, {100})}, {w});
  b.node(Op::MatMul, {x, w}, {y});
  b.gives({y});
  range_of_rows(b);
  return b;
}

// Quantised tensors, as QDQ models become; a product and a convolution.
Builder quantised() {
  Builder b;
  const i32 x = b.input(DType::F32, {-1, kWide}), xq = b.tensor(DType::U8, {-1, kWide}),
            wq = stored(b, DType::I8, {kWide, kWide}, random_bytes(kWeights, 5)), yq = b.tensor(DType::U8, {-1, kWide}),
            y = b.tensor(DType::F32, {-1, kWide});
  b.quantize(xq, {0.02f}, {128}).quantize(wq, {0.001f}, {0}).quantize(yq, {0.02f}, {120});
  b.node(Op::QuantizeLinear, {x, b.constant<float>({}, {0.02f}), b.constant<std::uint8_t>({}, {128})}, {xq});
  b.node(Op::MatMul, {xq, wq}, {yq});
  b.node(Op::DequantizeLinear, {yq, b.constant<float>({}, {0.02f}), b.constant<std::uint8_t>({}, {120})}, {y});
  b.gives({y});
  range_of_rows(b);
  return b;
}

// Sums of integers with the zero point of the run, as dynamically quantised models have them.
Builder sums() {
  Builder b;
  const i32 x = b.input(DType::F32, {-1, kWide}), xq = b.tensor(DType::U8, {-1, kWide}),
            scale = b.tensor(DType::F32, {}), zero = b.tensor(DType::U8, {}),
            w = stored(b, DType::I8, {kWide, kWide}, random_bytes(kWeights, 6)),
            sum = b.tensor(DType::I32, {-1, kWide}), y = b.tensor(DType::F32, {-1, kWide});
  b.node(Op::DynamicQuantizeLinear, {x}, {xq, scale, zero});
  b.node(Op::MatMulInteger, {xq, w, zero}, {sum});
  b.node(Op::Cast, {sum}, {y}).set("to", std::int64_t{1});
  b.gives({y});
  range_of_rows(b);
  return b;
}

// Four bits, in blocks.
Builder blocks() {
  Builder b;
  const i32 x = b.input(DType::F32, {-1, kWide}), y = b.tensor(DType::F32, {-1, 512}),
            w = stored(b, DType::U8, {512, 4, 16}, random_bytes(512 * 4 * 16, 7)), s = weights(b, {512, 4});
  qir::Node &node = b.node(Op::MatMulNBits, {x, w, s}, {y});
  node.set("K", kWide), node.set("N", std::int64_t{512}), node.set("bits", std::int64_t{4});
  node.set("block_size", std::int64_t{32});
  b.gives({y});
  range_of_rows(b);
  return b;
}

// A filter bank by Winograd's algorithm, a depthwise one, and one transposed, over images of any width.
Builder images() {
  Builder b;
  const i32 x = b.input(DType::F32, {1, 32, 16, -1}), c = b.tensor(DType::F32, {1, 32, 16, -1}),
            d = b.tensor(DType::F32, {1, 32, 16, -1}), y = b.tensor(DType::F32, {1, 16, 32, -1});
  b.node(Op::Conv, {x, weights(b, {32, 32, 3, 3}), weights(b, {32})}, {c})
      .set("pads", Vector<std::int64_t>{1, 1, 1, 1});
  qir::Node &depthwise = b.node(Op::Conv, {c, weights(b, {32, 1, 3, 3})}, {d});
  depthwise.set("pads", Vector<std::int64_t>{1, 1, 1, 1}), depthwise.set("group", std::int64_t{32});
  b.node(Op::ConvTranspose, {d, weights(b, {32, 16, 2, 2})}, {y}).set("strides", Vector<std::int64_t>{2, 2});
  b.gives({y});
  b.graph.dimensions.push_back({"columns", 8, 64, {{0, 3}}, {}, 0});
  return b;
}

// Bytes of the constants that a plan for such a shape has to itself.
std::uint64_t own_constants(const cpu::LoadedRegion &region, Vector<qir::Shape> shapes, std::int64_t number) {
  std::ranges::replace(shapes[0], std::int64_t{-1}, number);
  qir::Graph bound = region.pieces.rest.part.graph;
  qir::Store store;
  reference::ReferenceFolder folder;
  REQUIRE_OK(passes::bind_dimensions(bound, shapes, folder, store));
  cpu::CompileOptions options;
  options.isa = region.isa, options.sources = region.sources;
  options.shared = region.shared.get(), options.again = true;
  auto compiled = cpu::compile(std::move(bound), region.constants, options);
  REQUIRE_OK(compiled);
  return compiled->packed.size() + compiled->subgraph_constants.size();
}

}  // namespace

TEST_CASE("weights of a range are packed once, of every kind") {
  struct Kind {
    const char *name;
    Builder (*graph)();
    float tolerance;
  };
  const Kind kinds[] = {{"halves", halves, 1e-4f}, {"bytes", bytes_as_floats, 1e-4f}, {"quantised", quantised, 0.021f},
                        {"sums", sums, 1e-6f},     {"blocks", blocks, 1e-4f},         {"images", images, 1e-3f}};
  for (const Kind &kind : kinds) {
    CAPTURE(kind.name);
    const Builder builder = kind.graph();
    const PlanCase made(builder.graph);
    REQUIRE(made.ok());
    const cpu::LoadedRegion &region = *made.loaded().region;
    REQUIRE(region.shared);
    cpu::DynamicExecution execution(region, 4);
    Request request(made.loaded(), 1);
    const auto run = [&](std::int64_t number) {
      Vector<qir::Shape> shapes{builder.graph.tensors[0].shape};
      std::ranges::replace(shapes[0], std::int64_t{-1}, number);
      Random random(static_cast<std::uint64_t>(number));
      const Data inputs = made.random_inputs(random, &shapes);
      qr_io_buffer &input = request.inputs[0];
      input.data = const_cast<std::uint8_t *>(inputs[0].data()), input.size_bytes = inputs[0].size();
      std::ranges::copy(shapes[0], input.dims);
      request.outputs[0].data = nullptr;
      std::uint64_t events = 0;
      REQUIRE_OK(execution.run(request.inputs, request.outputs, request.request, test_host(), &events));
      Data expected;
      REQUIRE_OK(made.run_reference(inputs, expected, &shapes));
      const Vector<float> right = floats_of(DType::F32, expected[0]);
      REQUIRE_EQ(request.outputs[0].used_bytes, expected[0].size());
      float most = 0;
      for (const float value : right) most = std::max(most, std::abs(value));
      for (std::size_t k = 0; k < right.size(); ++k)
        REQUIRE(std::abs(static_cast<const float *>(request.outputs[0].data)[k] - right[k]) <=
                kind.tolerance * std::max(most, 1.0f));
    };
    // One column more or less may be another layout, as for a vector; behind those nothing is packed, and nothing kept.
    for (const std::int64_t number : {64, 33, 16, 8}) run(number);
    const std::uint64_t packed = region.shared->packed(), bytes = region.shared->own_bytes();
    for (std::int64_t number = 9; number < 64; number += 5) run(number);
    CHECK_EQ(region.shared->packed(), packed);
    CHECK_EQ(region.shared->own_bytes(), bytes);
    CHECK_EQ(execution.figures().kept, 4u);
    CHECK_EQ(execution.figures().made, 15u);
    CHECK_EQ(execution.figures().dropped, 11u);
    run(59);
    CHECK_EQ(execution.figures().hits, 1u);
    CHECK(own_constants(region, {builder.graph.tensors[0].shape}, 21) < 512);
  }
}

TEST_CASE("packed integers of a container that lie about themselves") {
  const Builder builder = quantised();
  const PlanCase made(builder.graph);
  REQUIRE(made.ok());
  cpu::SharedWeights &shared = *made.loaded().region->shared;
  const auto run = [&] {
    cpu::DynamicExecution execution(*made.loaded().region, 1);
    Request request(made.loaded(), 1);
    const Vector<qir::Shape> shapes{{9, kWide}};
    Random random(1);
    const Data inputs = made.random_inputs(random, &shapes);
    qr_io_buffer &input = request.inputs[0];
    input.data = const_cast<std::uint8_t *>(inputs[0].data()), input.size_bytes = inputs[0].size(), input.dims[0] = 9;
    std::uint64_t events = 0;
    return execution.run(request.inputs, request.outputs, request.request, test_host(), &events);
  };
  REQUIRE_OK(run());
  int found = 0;
  for (const cpu::SharedWeights::Entry &entry : shared.entries()) {
    if (entry.key.find(" integers") == String::npos) continue;
    ++found;
    const qir::Bytes whole = entry.block->bytes();
    Vector<std::uint8_t> lies(static_cast<const std::uint8_t *>(whole.data),
                              static_cast<const std::uint8_t *>(whole.data) + whole.size);
    for (const std::size_t size : {std::size_t{0}, std::size_t{32}, std::size_t{64}, whole.size / 2, whole.size - 1}) {
      shared.add(entry.key, {whole.data, size});
      CHECK_EQ(run().id(), "QR-B0005");
    }
    // More bits than there is room for; forms and bits that there are none of are refused as any parameters, and
    // cpu-reference runs the node.
    Guarded changed(whole.size);
    for (const std::uint32_t bits : {0u, 7u, 9u, 16u, 17u, 18u, UINT32_MAX})
      for (const std::uint32_t form : {0u, 1u, 2u, 3u, UINT32_MAX}) {
        std::memcpy(changed.data(), lies.data(), lies.size());
        std::memcpy(changed.data(), &form, sizeof form), std::memcpy(changed.data() + 4, &bits, sizeof bits);
        shared.add(entry.key, changed.bytes());
        (void)run();
      }
    shared.add(entry.key, whole);
    REQUIRE_OK(run());
  }
  CHECK(found > 0);
}

namespace {

void fill_with_sevens(void *to) { std::memset(to, 7, 64); }

// What another thread asks for while "first" is being packed.
void ask_meanwhile(cpu::SharedWeights &shared, void *room) {
  (void)shared.get("second", 64, fill_with_sevens);
  (void)shared.get("first", 64, fill_with_sevens);
  CHECK_EQ(shared.fact("fact", [&] { return shared.fact("fact", [] { return 3u; }); }), 3);
  CHECK(shared.keep_computed("third", {room, 64}) != nullptr);
  (void)shared.name_of({room, 64});
}

}  // namespace

// A thread that packs may take long, or not be there any more (in a child of fork()): whoever wants others, or the
// same, goes on. With a lock around the packing this test would never end.
TEST_CASE("nobody waits for another's packing") {
  cpu::SharedWeights shared({});
  const cpu::SharedBytes first = shared.get("first", 64, [&](void *to) {
    std::memset(to, 1, 64);
    std::thread([&] { ask_meanwhile(shared, to); }).join();
  });
  CHECK_EQ(static_cast<const std::uint8_t *>(first->bytes().data)[0], 7);  // that one was the first to be there
  CHECK_EQ(shared.packed(), 2);
}
