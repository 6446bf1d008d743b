// SPDX-License-Identifier: Apache-2.0
// AMX's kernels beside those of the instruction set that they stand on, and the state of threads.
#include <cstring>

#include "kernels/cpu/pack/pack.h"
#include "tests/kernels/emulated_amx.h"
#include "tests/kernels/convolution/conv_f32.h"
#include "tests/kernels/quantization.h"

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
// Rows: one tile, remainders of 1 to 15, more than two tiles, several blocks. Steps: less than 16, 16, 32, and what is
// left over. Vectors: 1 to 4 and several panels, channels that end within one. In place and gathered.
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

// ---- f32 products of split numbers ----

std::vector<float> product_of(const Isa &isa, const ConvCase &c, ConvData *data) {
  Random random(77);
  const Registry::Prepared prepared = prepare(isa, c, random, data);
  const Bytes y = run(isa, prepared.kernel, prepared.params.data(), prepared.operands).at(0);
  std::vector<float> values(y.size() / sizeof(float));
  std::memcpy(values.data(), y.data(), y.size());
  return values;
}

void split_shapes(const Isa &isa) {
  Random random(5);
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return static_cast<std::int32_t>(random.integer(low, high));
  };
  for (const std::int32_t m : {1, 5, 16, 17, 31, 32, 33, 64, 100, 131})
    for (const std::int32_t k : {1, 2, 31, 32, 33, 64, 100, 257})
      for (const std::int32_t n : {1, 15, 16, 17, 32, 33, 70}) {
        kernel_test::ConvCase c = gemm_case(m, k, n);
        c.p.algorithm = ConvAlgorithm::Split;
        c.p.x_stride += pick(0, 3), c.p.y_stride += pick(0, 3), c.p.r_stride += pick(0, 3);
        c.p.has_bias = static_cast<std::uint32_t>(pick(0, 1));
        c.p.residual = static_cast<Residual>(pick(0, 2));
        constexpr Act kActs[] = {Act::None, Act::Clip, Act::LeakyRelu, Act::HardSwish, Act::Gelu, Act::Tanh};
        c.p.act = {kActs[pick(0, 5)], -0.25f, 0.75f, 0};
        check_conv(isa, c);
      }
}

// Beside float64 and FMA, from lengths that are worth a tile to the longest of real networks.
void split_error(const Isa &isa) {
  const Isa *const base = kernels::find_isa("avx512");
  for (const std::int32_t k : {64, 96, 256, 768, 2304, 4608}) {
    kernel_test::ConvCase c = gemm_case(64, k, 64);
    c.p.has_bias = 0;
    ConvData data;
    const std::vector<float> fma = product_of(*base, c, &data);
    c.p.algorithm = ConvAlgorithm::Split;
    const std::vector<float> split = product_of(isa, c, &data);
    double most_fma = 0, most_split = 0;
    for (std::size_t row = 0; row < 64; ++row)
      for (std::size_t column = 0; column < 64; ++column) {
        double sum = 0, size = 0;
        for (std::size_t i = 0; i < static_cast<std::size_t>(k); ++i) {
          const double one = static_cast<double>(data.x[row * static_cast<std::size_t>(k) + i]) *
                             static_cast<double>(data.w[column * static_cast<std::size_t>(k) + i]);
          sum += one, size += std::fabs(one);
        }
        const std::size_t at = row * 64 + column;
        most_fma = std::max(most_fma, std::fabs(static_cast<double>(fma[at]) - sum) / size);
        most_split = std::max(most_split, std::fabs(static_cast<double>(split[at]) - sum) / size);
      }
    if (most_split > most_fma)
      throw std::runtime_error("k " + std::to_string(k) + ": the largest error is " +
                               std::to_string(most_split * 0x1p24) + " of 2^-24, expected no more than FMA's " +
                               std::to_string(most_fma * 0x1p24));
  }
}

// Rows that hold what tiles do not multiply as f32 does are avx512's, bit by bit, and leave those of other units alone.
void split_specials(const Isa &isa) {
  const Isa *const base = kernels::find_isa("avx512");
  constexpr std::size_t kM = 75, kK = 70, kN = 45;
  kernel_test::ConvCase c = gemm_case(kM, kK, kN);
  ConvData data;
  const auto split_of = [&](kernel_test::ConvCase given) {
    given.p.algorithm = ConvAlgorithm::Split;
    return product_of(isa, given, &data);
  };
  const std::vector<float> plain = split_of(c);
  for (const float special : {std::nanf(""), HUGE_VALF, -HUGE_VALF, 1e-40f, 1e-20f, -1e-45f, 3e38f, -0x1.8p60f}) {
    // In the second unit of 32 rows, and in the third, which is not whole.
    for (const std::size_t row : {std::size_t{40}, std::size_t{74}}) {
      c.special_x = {{row * kK + 33, special}};
      const std::vector<float> found = split_of(c), fma = product_of(*base, c, &data);
      for (std::size_t i = 0; i < kM * kN; ++i) {
        const bool same_unit = i / kN / 32 == row / 32;
        if (std::memcmp(&found[i], &(same_unit ? fma : plain)[i], sizeof(float)) != 0 &&
            !(same_unit && std::isnan(found[i]) && std::isnan(fma[i])))
          throw std::runtime_error("with " + std::to_string(special) + " in row " + std::to_string(row) + ", element " +
                                   std::to_string(i) + ": found " + std::to_string(found[i]) + ", expected " +
                                   std::to_string((same_unit ? fma : plain)[i]));
      }
    }
  }
  // The least and the largest that tiles take, and zeros of either sign.
  for (const float special : {0.0f, -0.0f, 0x1p-44f, 0x1p60f}) {
    c.special_x = {{kK * 40 + 33, special}};
    c.p.algorithm = ConvAlgorithm::Split;
    check_conv(isa, c);
    c.p.algorithm = ConvAlgorithm::Direct;
  }
}

// Weights that three bf16 do not represent without a loss, and products of other shapes, are refused.
void split_refusals(const Isa &isa) {
  const Isa *const base = kernels::find_isa("avx512");
  const ConvF32 good = [] {
    ConvF32 p = gemm_case(40, 64, 64).p;
    p.algorithm = ConvAlgorithm::Split;
    return p;
  }();
  Needs needs;
  const auto takes = [&](const ConvF32 &p, const Isa &set) {
    needs = {};
    return kernels::check_ConvF32(&p, set, needs).ok();
  };
  if (!takes(good, isa) || takes(good, *base)) throw std::runtime_error("split products are those of amx alone");
  for (int i = 0; i < 4; ++i) {
    ConvF32 p = good;
    if (i == 0) p.window.kw = 3, p.window.pad_left = 1;
    else if (i == 1) p.window.sw = 2, p.window.ow = 20;
    else if (i == 2) p.groups = 2;
    else p.weights = kernels::WeightType::BF16;
    if (takes(p, isa)) throw std::runtime_error("took a split product that there is not: " + std::to_string(i));
    if (kernels::split_possible(p, isa)) throw std::runtime_error("would choose it: " + std::to_string(i));
  }
  if (!kernels::split_possible(good, isa) || kernels::split_possible(good, *base)) throw std::runtime_error("who can");
  for (const float w : {1e-40f, 1e-20f, 0x1.8p36f, HUGE_VALF, std::nanf("")})
    if (kernels::split_holds(&w, 1)) throw std::runtime_error("took the weight " + std::to_string(w));
  for (const float w : {0.0f, -0.0f, 0x1p-36f, -0x1p36f, 0.1f})
    if (!kernels::split_holds(&w, 1)) throw std::runtime_error("refused the weight " + std::to_string(w));
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
    throw std::runtime_error(std::string("the user reads ") + (note ? note : "nothing"));
}

}  // namespace

void register_emulated(Registry &registry) {
  if (std::getenv("QR_TEST_AMX"))
    return registry.test("amx refused: avx512 is taken, and that is reported",
                         [](const Isa &) { expect_state(kernels::Amx::Refused, "avx512"); });
  registry.test("amx is asked for once", [](const Isa &) { expect_state(kernels::Amx::Usable, "amx"); });
  for (const Case &c : kCases)
    registry.test(std::string("amx as avx512, conv_int ") + c.name, [c](const Isa &isa) {
      for (const std::uint32_t x : {kU8, kI8}) {
        for (const std::uint32_t y : {kU8, kI8, kU16}) compare(isa, c, x, y, false);
        compare(isa, c, x, kU8, true);
      }
    });
  registry.test("amx, split f32: shapes", split_shapes);
  registry.test("amx, split f32: no larger error than FMA's", split_error);
  registry.test("amx, split f32: NaN, infinities, denormals", split_specials);
  registry.test("amx, split f32: refusals", split_refusals);
  registry.test("amx keeps the caller's shapes of tiles", keeps_shapes);
}

}  // namespace quarry::kernel_test
