// SPDX-License-Identifier: Apache-2.0
// Weights that are packed in the run. Bounds: the same bytes as of weights that are packed when a model is compiled,
// whatever the strides are.
#include <algorithm>

#include "kernels/cpu/pack/pack.h"
#include "tests/kernels/operands.h"

namespace quarry::kernel_test {

namespace {

struct PackCase {
  std::int32_t oc, ic, groups, kh, kw;
};

ConvF32 conv_of(const PackCase &c) {
  ConvF32 p;
  p.ic = p.x_stride = c.ic, p.oc = p.y_stride = c.oc, p.groups = c.groups;
  p.window.kh = c.kh, p.window.kw = c.kw;
  p.window.ih = c.kh + 3, p.window.iw = c.kw + 3, p.window.oh = p.window.ow = 4;
  return p;
}

// w[oc][ic][kh][kw] as it lies by strides in another order, the taps from behind where `turned`.
void test_pack(const Isa &isa, const PackCase &c, PackKind kind, ConvAlgorithm algorithm, bool turned) {
  Random random(21);
  PackF32 p;
  p.conv = conv_of(c), p.conv.algorithm = algorithm, p.kind = kind;
  p.lanes = isa.f32_lanes, p.panel = isa.f32_panel;
  const std::int64_t dims[] = {c.oc, c.ic / c.groups, c.kh, c.kw};
  const std::int64_t order[] = {1, 0, 3, 2};  // [ic][oc][kw][kh]
  std::int64_t step = 1, first = 0;
  for (int i = 4; i-- > 0;) {
    const std::int64_t axis = order[i];
    p.strides[axis] = step * (turned && axis >= 2 ? -1 : 1);
    if (p.strides[axis] < 0) first += (dims[axis] - 1) * step;
    step *= dims[axis];
  }
  const std::vector<float> w = random.reals(size(step));
  Needs needs;
  if (Status status = kernel_row(Kernel::PackF32).check(&p, isa, needs); !status.ok())
    throw std::runtime_error(std::string(status.message()));
  Bytes expected(needs.operand_bytes[1]);
  const FilterView<float> view{w.data() + first, p.strides[0], p.strides[1], p.strides[2], p.strides[3]};
  if (kind == PackKind::Depthwise) {
    DepthwiseF32 d;
    d.window = p.conv.window, d.c = c.oc;
    pack_depthwise_f32(d, isa, view, expected.data());
  } else {
    pack_conv_f32(p.conv, isa, view, expected.data());
  }
  const Bytes found = run(isa, Kernel::PackF32, &p, {in(w), out(expected.size())})[0];
  if (found != expected)
    throw std::runtime_error("packed weights: " + std::to_string(c.oc) + " of " + std::to_string(c.ic) + " channels");
}

void test_pack_all(const Isa &isa) {
  for (const bool turned : {false, true}) {
    for (const PackCase &c : {PackCase{1, 1, 1, 1, 1},
                              {70, 300, 1, 1, 1},
                              {33, 9, 1, 3, 5},
                              {24, 3, 1, 7, 7},
                              {48, 12, 3, 3, 3},
                              {129, 64, 1, 2, 2}})
      test_pack(isa, c, PackKind::Conv, ConvAlgorithm::Direct, turned);
    test_pack(isa, {64, 64, 16, 3, 3}, PackKind::Conv, ConvAlgorithm::Groups, turned);
    for (const std::int32_t channels : {1, 8, 37, 4100})
      test_pack(isa, {channels, channels, channels, 3, 2}, PackKind::Depthwise, ConvAlgorithm::Direct, turned);
  }
  PackF32 p;
  p.conv = conv_of({8, 4, 1, 3, 3});
  p.lanes = isa.f32_lanes, p.panel = isa.f32_panel;
  refuse(isa, Kernel::PackF32, p, "a kind of 2", [](auto &q) { q.kind = PackKind::Count; });
  refuse(isa, Kernel::PackF32, p, "vectors of others", [](auto &q) { q.lanes = 3; });
  refuse(isa, Kernel::PackF32, p, "weights of 16 bits", [](auto &q) { q.conv.weights = WeightType::F16; });
  refuse(isa, Kernel::PackF32, p, "Winograd", [](auto &q) { q.conv.algorithm = ConvAlgorithm::Winograd4x4; });
  refuse(isa, Kernel::PackF32, p, "more inputs than channels", [](auto &q) { q.kind = PackKind::Depthwise; });
  refuse(isa, Kernel::PackF32, p, "a stride of 2^60", [](auto &q) { q.strides[0] = std::int64_t{1} << 60; });
  refuse(isa, Kernel::PackF32, p, "the least stride", [](auto &q) { q.strides[1] = INT64_MIN; });
}

void test_pack_recurrent(const Isa &isa) {
  Random random(22);
  for (const Cell cell : {Cell::Rnn, Cell::Gru, Cell::GruAfter, Cell::Lstm})
    for (const std::int64_t hidden : {1, 7, 16, 33, 150}) {
      PackRecurrentF32 p;
      p.lanes = isa.f32_lanes;
      p.layer.cell = cell, p.layer.steps = p.layer.batch = 1, p.layer.hidden = hidden;
      const std::int64_t gates = cell == Cell::Lstm ? 4 : cell == Cell::Rnn ? 1 : 3;
      const std::vector<float> r = random.reals(size(gates * hidden * hidden));
      Needs needs;
      if (Status status = kernel_row(Kernel::PackRecurrentF32).check(&p, isa, needs); !status.ok())
        throw std::runtime_error(std::string(status.message()));
      Bytes expected(needs.operand_bytes[1]);
      pack_recurrent_f32(p.layer, isa, r.data(), expected.data());
      const Bytes found = run(isa, Kernel::PackRecurrentF32, &p, {in(r), out(expected.size())})[0];
      if (found != expected) throw std::runtime_error("packed state weights of " + std::to_string(hidden));
    }
  PackRecurrentF32 p;
  p.lanes = isa.f32_lanes, p.layer.steps = p.layer.batch = p.layer.hidden = 1;
  refuse(isa, Kernel::PackRecurrentF32, p, "vectors of others", [](auto &q) { q.lanes = 3; });
  refuse(isa, Kernel::PackRecurrentF32, p, "a state of 2^40", [](auto &q) { q.layer.hidden = std::int64_t{1} << 40; });
}

// Packing asks on its way whether to stop, and packs little more where it shall.
struct Asks {
  std::int64_t count = 0, most = 0;
};
std::int64_t asked(const Isa &isa, Kernel kernel, const void *params, std::int64_t most, std::size_t *packed) {
  const Needs needs = [&] {
    Needs made;
    if (Status status = kernel_row(kernel).check(params, isa, made); !status.ok())
      throw std::runtime_error(std::string(status.message()));
    return made;
  }();
  const std::vector<float> w(needs.operand_bytes[0] / 4, 1);
  const std::size_t room = needs.operand_bytes[1] / 4;
  std::vector<float> to(room + 16, -77);
  float *const at = to.data() + (64 - reinterpret_cast<std::uintptr_t>(to.data()) % 64) % 64 / 4;
  std::byte *const operands[] = {reinterpret_cast<std::byte *>(const_cast<float *>(w.data())),
                                 reinterpret_cast<std::byte *>(at)};
  Asks asks{0, most};
  const Threads threads{1, &asks, nullptr, [](void *self) {
                          Asks &seen = *static_cast<Asks *>(self);
                          return ++seen.count > seen.most;
                        }};
  isa.run[static_cast<std::size_t>(kernel)](Call{params, operands, threads, nullptr, 0, nullptr});
  *packed = static_cast<std::size_t>(std::count_if(at, at + room, [](float v) { return v != -77; }));
  return asks.count;
}
void test_pack_asks(const Isa &isa) {
  const auto check = [&](const char *what, Kernel kernel, const auto &params, std::int64_t elements) {
    std::size_t packed;
    const std::int64_t asks = asked(isa, kernel, &params, INT64_MAX, &packed);
    if (asks < elements / Parts::kElements - 1)
      throw std::runtime_error(std::string(what) + ": asks " + std::to_string(asks) + " times");
    asked(isa, kernel, &params, 0, &packed);
    if (packed > std::size_t{2} * Parts::kElements)
      throw std::runtime_error(std::string(what) + ": packs " + std::to_string(packed) + " elements before it stops");
  };
  PackF32 p;
  p.lanes = isa.f32_lanes, p.panel = isa.f32_panel;
  const auto pack = [&](const char *what, const PackCase &c, PackKind kind, ConvAlgorithm algorithm) {
    p.conv = conv_of(c), p.conv.algorithm = algorithm, p.kind = kind;
    p.strides[3] = 1, p.strides[2] = c.kw, p.strides[1] = std::int64_t{c.kh} * c.kw;
    p.strides[0] = p.strides[1] * (c.ic / c.groups);
    check(what, Kernel::PackF32, p, p.strides[0] * c.oc);
  };
  pack("many inputs of few outputs", {4, 40000, 1, 3, 3}, PackKind::Conv, ConvAlgorithm::Direct);
  pack("many taps", {4, 8, 1, 255, 255}, PackKind::Conv, ConvAlgorithm::Direct);
  pack("groups of many taps", {4, 4, 2, 255, 255}, PackKind::Conv, ConvAlgorithm::Groups);
  pack("many taps of a channel each", {4, 4, 4, 255, 255}, PackKind::Depthwise, ConvAlgorithm::Direct);
  PackRecurrentF32 r;
  r.lanes = isa.f32_lanes;
  r.layer.cell = Cell::Gru, r.layer.steps = r.layer.batch = 1, r.layer.hidden = 1500;
  check("a large state", Kernel::PackRecurrentF32, r, 3 * 1500 * 1500);
}

}  // namespace

void register_pack_weights(Registry &registry) {
  registry.test("pack weights", test_pack_all);
  registry.test("pack recurrent weights", test_pack_recurrent);
  registry.test("pack weights: asks", test_pack_asks);
}

}  // namespace quarry::kernel_test
