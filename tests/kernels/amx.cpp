// SPDX-License-Identifier: Apache-2.0
// AMX's kernels beside those of the instruction set that they stand on, and the state of threads.
#include <cstring>

#include "backends/common/kernels/pack.h"
#include "tests/kernels/emulated_amx.h"
#include "tests/kernels/int.h"

namespace quarry::kernels {

// The processor that is emulated, and a system that refuses its tiles where QR_TEST_AMX says so.
bool amx_processor() noexcept { return true; }
int amx_asked = 0;
bool amx_permission() noexcept {
  ++amx_asked;
  const char *const wanted = std::getenv("QR_TEST_AMX");
  return !wanted || std::strcmp(wanted, "refused") != 0;
}

}  // namespace quarry::kernels

namespace quarry::kernel_test {

namespace {

struct Case {
  const char *name;
  std::int32_t n, h, w, ic, oc, groups, k, step, pad, slack;
};
// Rows: one tile, tails of 1 to 15, more than two tiles, several blocks. Steps: less than 16, 16, 32, and what is left
// over. Vectors: 1 to 4 and several panels, channels that end within one. In place and gathered.
constexpr Case kCases[] = {
    {"8 rows", 1, 1, 8, 64, 16, 1, 1, 1, 0, 0},       {"9 rows", 1, 1, 9, 64, 33, 1, 1, 1, 0, 3},
    {"16 rows", 1, 4, 4, 128, 64, 1, 1, 1, 0, 0},     {"17 rows", 1, 1, 17, 68, 50, 1, 1, 1, 0, 1},
    {"31 rows", 1, 1, 31, 4, 130, 1, 1, 1, 0, 0},     {"33 rows", 1, 3, 11, 132, 48, 1, 1, 1, 0, 0},
    {"49 rows", 1, 7, 7, 192, 100, 1, 1, 1, 0, 5},    {"97 rows", 1, 1, 97, 60, 20, 1, 1, 1, 0, 0},
    {"many rows", 2, 19, 13, 96, 72, 1, 1, 1, 0, 0},  {"long", 1, 5, 5, 2052, 17, 1, 1, 1, 0, 0},
    {"odd channels", 1, 6, 7, 37, 65, 1, 1, 1, 0, 0}, {"one channel", 1, 5, 5, 1, 1, 1, 1, 1, 0, 0},
    {"3x3", 1, 10, 11, 16, 24, 1, 3, 1, 1, 0},        {"3x3 odd", 2, 7, 6, 5, 19, 1, 3, 1, 1, 2},
    {"3x3 step 2", 1, 15, 17, 3, 32, 1, 3, 2, 1, 0},  {"groups", 1, 6, 7, 16, 40, 2, 1, 1, 0, 0},
    {"3x3 groups", 1, 6, 7, 12, 20, 2, 3, 1, 1, 0},   {"5x5 wide", 1, 9, 30, 24, 200, 1, 5, 1, 2, 0},
};

void compare(const Isa &isa, const Case &c, std::uint32_t x, std::uint32_t y, bool residual) {
  const Isa *const base = kernels::find_isa("avx512");
  if (!base) throw std::runtime_error("there is no avx512 to compare with");
  ConvInt p;
  Window &w = p.window;
  w.n = c.n, w.ih = c.h, w.iw = c.w, w.kh = w.kw = c.k, w.sh = w.sw = c.step, w.pad_top = w.pad_left = c.pad;
  w.oh = (c.h + 2 * c.pad - c.k) / c.step + 1, w.ow = (c.w + 2 * c.pad - c.k) / c.step + 1;
  p.ic = c.ic, p.oc = c.oc, p.groups = c.groups, p.w_bits = 8;
  p.x_stride = c.ic + c.slack * 4, p.y_stride = c.oc + c.slack, p.r_stride = c.oc + 2 * c.slack;
  p.x = some_quant(x, 0.02f), p.y = some_quant(y, y >= kU16 ? 0.001f : 0.3f);
  p.lo = low_of(y), p.hi = high_of(y);
  if (residual) {
    p.has_residual = 1, p.mid = some_quant(y, 0.2f), p.r = some_quant(x, 0.1f);
    p.mid_lo = low_of(y) + 3, p.mid_hi = high_of(y) - 2;
  }
  Needs needs, base_needs;
  for (const auto &[set, into] : {std::pair{&isa, &needs}, std::pair{base, &base_needs}})
    if (const Status status = kernels::check_ConvInt(&p, *set, *into); !status.ok())
      throw std::runtime_error(std::string(c.name) + ": " + std::string(status.message()));
  if (std::memcmp(needs.operand_bytes, base_needs.operand_bytes, sizeof needs.operand_bytes) != 0)
    throw std::runtime_error("the two instruction sets pack weights differently");
  Random random(static_cast<std::uint64_t>(c.ic * 7 + c.oc + c.w));
  const std::int64_t ic = c.ic / c.groups, taps = std::int64_t{c.k} * c.k;
  std::vector<std::int32_t> weights(static_cast<std::size_t>(c.oc * ic * taps)), bias(static_cast<std::size_t>(c.oc));
  for (std::int32_t &v : weights) v = static_cast<std::int32_t>(random.integer(-128, 127));
  for (std::int32_t &v : bias) v = static_cast<std::int32_t>(random.integer(-100000, 100000));
  Bytes packed(needs.operand_bytes[1]), packed_bias(needs.operand_bytes[2]), multiplier(needs.operand_bytes[3]);
  if (!kernels::pack_conv_int(p, isa, {weights.data(), ic * taps, taps, c.k, 1}, bias.data(), packed.data(),
                              packed_bias.data()))
    throw std::runtime_error("weights do not fit");
  for (std::size_t i = 0; i < multiplier.size() / sizeof(float); ++i) {
    const float m = random.real(0.001f, 0.01f);
    std::memcpy(multiplier.data() + i * sizeof m, &m, sizeof m);
  }
  std::vector<Operand> operands{{random_ints(random, x, needs.operand_bytes[0])},
                                {std::move(packed)},
                                {std::move(packed_bias)},
                                {std::move(multiplier)}};
  if (residual) operands.push_back({random_ints(random, x, needs.operand_bytes[4])});
  operands.push_back({Bytes(needs.operand_bytes[needs.operand_count - 1]), true});
  const std::vector<Bytes> found = run(isa, Kernel::ConvInt, &p, operands),
                           expected = run(*base, Kernel::ConvInt, &p, operands);
  if (found != expected)
    throw std::runtime_error(std::string(c.name) + ": x " + std::to_string(x) + " y " + std::to_string(y) +
                             (residual ? " residual" : "") + ": not bit by bit what avx512 gives");
}

// Tiles that somebody had configured when he called keep their shapes; else none are left configured.
void keeps_shapes(const Isa &isa) {
  emulated_amx::Tiles::Shapes mine = {};
  mine.palette = 1;
  mine.columns[2] = 20, mine.rows[2] = 7;
  emulated_amx::tile_shapes_load(&mine);
  compare(isa, kCases[3], kU8, kU8, false);
  emulated_amx::Tiles::Shapes after;
  emulated_amx::tile_shapes_store(&after);
  if (std::memcmp(&after, &mine, sizeof mine) != 0) throw std::runtime_error("the caller's shapes of tiles are lost");
  emulated_amx::tile_shapes_release();
  compare(isa, kCases[3], kU8, kU8, false);
  emulated_amx::tile_shapes_store(&after);
  if (after.palette != 0) throw std::runtime_error("tiles were left configured");
}

void expect_state(kernels::Amx state, const char *best) {
  for (int i = 0; i < 2; ++i) {
    if (kernels::amx_state() != state || kernels::best_isa().name != std::string(best))
      throw std::runtime_error(std::string("found ") + kernels::best_isa().name + ", expected " + best);
  }
  if (kernels::amx_asked != 1)
    throw std::runtime_error("the system was asked " + std::to_string(kernels::amx_asked) + " times, expected once");
  const char *const note = kernels::amx_note();
  if ((note != nullptr) != (state == kernels::Amx::Refused) || (note && !std::strstr(note, "avx512 is taken")))
    throw std::runtime_error(std::string("the user is told ") + (note ? note : "nothing"));
}

}  // namespace

void register_emulated(Registry &registry) {
  if (std::getenv("QR_TEST_AMX"))
    return registry.test("amx refused: avx512 is taken, and that is told",
                         [](const Isa &) { expect_state(kernels::Amx::Refused, "avx512"); });
  registry.test("amx is asked for once", [](const Isa &) { expect_state(kernels::Amx::Usable, "amx"); });
  for (const Case &c : kCases)
    registry.test(std::string("amx as avx512, conv_int ") + c.name, [c](const Isa &isa) {
      for (const std::uint32_t x : {kU8, kI8}) {
        for (const std::uint32_t y : {kU8, kI8, kU16}) compare(isa, c, x, y, false);
        compare(isa, c, x, kU8, true);
      }
    });
  registry.test("amx keeps the caller's shapes of tiles", keeps_shapes);
}

}  // namespace quarry::kernel_test
