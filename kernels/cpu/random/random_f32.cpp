// SPDX-License-Identifier: Apache-2.0
// Random numbers of a seed: those that cpu-reference gives, from the same MT19937 read in the same order, many at a
// time.
#include "kernels/cpu/vector/double_vec.h"
#include "kernels/cpu/vector/isa_kernels.h"

namespace quarry::kernels::QR_ISA {

namespace {

constexpr int kWords = 624, kShift = 397;
typedef std::uint32_t VecUUnaligned __attribute__((vector_size(QR_ISA_BYTES), aligned(4), may_alias));
typedef std::uint64_t VecUL __attribute__((vector_size(QR_ISA_BYTES)));

QR_INLINE VecU words_at(const std::uint32_t *p) noexcept { return *reinterpret_cast<const VecUUnaligned *>(p); }
QR_INLINE VecU splat_word(std::uint32_t x) noexcept { return x - VecU{}; }

// Each round makes as many numbers as there are words, each of an earlier word, or of one that this round has made.
class Twister {
 public:
  explicit Twister(std::uint32_t seed) noexcept {
    for (std::uint32_t i = 0; i < kWords; seed = 1812433253u * (seed ^ (seed >> 30)) + ++i) words_[i] = seed;
  }
  // As reals in [0, 1) of 53 bits, two words each.
  void round(double *to) noexcept {
    twist(0, kWords - kShift, kShift);
    twist(kWords - kShift, kWords - 1, kShift - kWords);
    words_[kWords - 1] = words_[kShift - 1] ^ mixed(words_[kWords - 1], words_[0]);
    for (int i = 0; i < kWords; i += kLanes, to += kDoubles) {
      VecU w = words_at(words_ + i);
      w ^= w >> 11;
      w ^= (w << 7) & splat_word(0x9d2c5680u);
      w ^= (w << 15) & splat_word(0xefc60000u);
      w ^= w >> 18;
      // 27 and 26 bits, made numbers by their place in 2^52's lowest bits.
      const VecUL pairs = reinterpret_cast<VecUL>(w);
      const VecD high = number_of((pairs & 0xffffffffu) >> 5), low = number_of(pairs >> 38);
      store(to, (high * splat(0x1p26) + low) * splat(0x1p-53));
    }
  }

 private:
  static std::uint32_t mixed(std::uint32_t word, std::uint32_t next) noexcept {
    return ((word & 0x80000000u) | (next & 0x7fffffffu)) >> 1 ^ (next & 1u ? 0x9908b0dfu : 0u);
  }
  QR_INLINE VecD number_of(VecUL bits) noexcept {
    return of_bits(reinterpret_cast<VecL>(bits) | splat(std::int64_t{0x4330000000000000})) - splat(0x1p52);
  }
  // Words [begin, end), each of itself, the next and the one `other` behind.
  void twist(int begin, int end, int other) noexcept {
    const int whole = end - (end - begin) % kLanes;
    for (int i = begin; i < whole; i += kLanes) {
      const VecU word = words_at(words_ + i), next = words_at(words_ + i + 1);
      const VecU pair = (word & splat_word(0x80000000u)) | (next & splat_word(0x7fffffffu));
      const VecU odd = (VecU{} - (next & splat_word(1))) & splat_word(0x9908b0dfu);
      *reinterpret_cast<VecUUnaligned *>(words_ + i) = words_at(words_ + i + other) ^ (pair >> 1) ^ odd;
    }
    for (int i = whole; i < end; ++i) words_[i] = words_[i + other] ^ mixed(words_[i], words_[i + 1]);
  }

  alignas(64) std::uint32_t words_[kWords];
};

// Every first and every second of the pairs in two vectors.
QR_INLINE void apart(const double *pairs, VecD *first, VecD *second) noexcept {
  const VecD a = load(pairs), b = load(pairs + kDoubles);
#if QR_ISA_BYTES == 64
  *first = __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14);
  *second = __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15);
#elif QR_ISA_BYTES == 32
  *first = __builtin_shufflevector(a, b, 0, 2, 4, 6);
  *second = __builtin_shufflevector(a, b, 1, 3, 5, 7);
#else
  *first = __builtin_shufflevector(a, b, 0, 2);
  *second = __builtin_shufflevector(a, b, 1, 3);
#endif
}

}  // namespace

void run_RandomF32(const Call &call) {
  const auto &p = call.as<RandomF32>();
  float *y = call.operand<float>(0);
  constexpr int kUniform = kWords / 2, kNormal = kUniform / 2;
  static_assert(kNormal % kDoubles == kDoubles / 2 || kNormal % kDoubles == 0);
  Twister twister(p.seed);
  alignas(64) double drawn[kUniform + kDoubles] = {}, made[kUniform];
  const VecD offset = splat(p.offset), scale = splat(p.scale);
  const int each = p.normal ? kNormal : kUniform;
  for (std::int64_t at = 0; at < p.count; at += each) {
    twister.round(drawn);
    if (p.normal) {  // Box and Muller
      for (int i = 0; i < kNormal; i += kDoubles) {
        VecD first, second;
        apart(drawn + 2 * i, &first, &second);
        const VecD radius = sqrt(splat(-2.0) * log_of_positive(splat(1.0) - first));
        store(made + i, offset + scale * (radius * cosine_near(splat(6.28318530717958647692) * second)));
      }
    } else {
      for (int i = 0; i < kUniform; i += kDoubles) store(made + i, offset + scale * load(drawn + i));
    }
    const std::int64_t count = min_of<std::int64_t>(each, p.count - at);
    for (std::int64_t i = 0; i < count; ++i) y[at + i] = static_cast<float>(made[i]);
  }
}

}  // namespace quarry::kernels::QR_ISA
