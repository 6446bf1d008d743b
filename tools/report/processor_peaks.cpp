// SPDX-License-Identifier: Apache-2.0
#include "tools/report/processor_peaks.h"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string_view>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>

#include "base/os/processor.h"
#endif

namespace tools {
namespace {

// A loop of one instruction on twelve sums, which depend on nothing but themselves: enough to keep every unit busy. The
// operands look new each time, so that nothing is computed before the loop.
struct PeakLoop {
  const char *instruction;
  void (*run)(uint64_t rounds);
  double operations;  // of a round
};

#define QR_TWELVE(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11)
#define QR_SUM(i) auto sum##i = zero;
#define QR_KEEP(i) __asm__ volatile("" : : QR_REGISTER(sum##i));
#define QR_PEAK_LOOP(NAME, TARGET, ZERO, STEP) \
  TARGET void NAME(uint64_t rounds) {          \
    auto zero = ZERO;                          \
    auto x = zero, y = zero;                   \
    QR_TWELVE(QR_SUM)                          \
    for (; rounds > 0; --rounds) {             \
      QR_TWELVE(STEP)                          \
    }                                          \
    QR_TWELVE(QR_KEEP)                         \
  }

#if defined(__x86_64__)

// Some of clang's releases want registers of 512 bits asked for, where the command line has said a processor without.
#if defined(__clang__) && __clang_major__ >= 18 && __clang_major__ < 22
#define QR_ZMM ",evex512"
#else
#define QR_ZMM ""
#endif
#define QR_REGISTER(value) "v"(value)
#define QR_NEW __asm__ volatile("" : "+v"(x), "+v"(y));
#define QR_FMA512(i) QR_NEW sum##i = _mm512_fmadd_ps(x, y, sum##i);
#define QR_FMA256(i) QR_NEW sum##i = _mm256_fmadd_ps(x, y, sum##i);
#define QR_MULADD128(i) QR_NEW sum##i = _mm_add_ps(sum##i, _mm_mul_ps(x, y));
#define QR_DPBUSD512(i) QR_NEW sum##i = _mm512_dpbusd_epi32(sum##i, x, y);
#define QR_DPBUSD256(i) QR_NEW sum##i = _mm256_dpbusd_avx_epi32(sum##i, x, y);
#define QR_DPWSSD512(i) QR_NEW sum##i = _mm512_dpwssd_epi32(sum##i, x, y);
#define QR_DPWSSD256(i) QR_NEW sum##i = _mm256_dpwssd_avx_epi32(sum##i, x, y);
#define QR_MADD256(i) QR_NEW sum##i = _mm256_add_epi32(sum##i, _mm256_madd_epi16(x, y));
#define QR_MADD128(i) QR_NEW sum##i = _mm_add_epi32(sum##i, _mm_madd_epi16(x, y));

QR_PEAK_LOOP(fma512, __attribute__((target("avx512f" QR_ZMM))), _mm512_setzero_ps(), QR_FMA512)
QR_PEAK_LOOP(fma256, __attribute__((target("avx2,fma"))), _mm256_setzero_ps(), QR_FMA256)
QR_PEAK_LOOP(dpbusd512, __attribute__((target("avx512f,avx512vnni" QR_ZMM))), _mm512_setzero_si512(), QR_DPBUSD512)
QR_PEAK_LOOP(dpwssd512, __attribute__((target("avx512f,avx512vnni" QR_ZMM))), _mm512_setzero_si512(), QR_DPWSSD512)
QR_PEAK_LOOP(dpbusd256, __attribute__((target("avx2,avxvnni"))), _mm256_setzero_si256(), QR_DPBUSD256)
QR_PEAK_LOOP(dpwssd256, __attribute__((target("avx2,avxvnni"))), _mm256_setzero_si256(), QR_DPWSSD256)
QR_PEAK_LOOP(madd256, __attribute__((target("avx2"))), _mm256_setzero_si256(), QR_MADD256)
#undef QR_REGISTER
#undef QR_NEW
#define QR_REGISTER(value) "x"(value)
#define QR_NEW __asm__ volatile("" : "+x"(x), "+x"(y));
QR_PEAK_LOOP(muladd128, , _mm_setzero_ps(), QR_MULADD128)
QR_PEAK_LOOP(madd128, , _mm_setzero_si128(), QR_MADD128)

struct PeakLoops {
  PeakLoop f32 = {"mulps, addps xmm", muladd128, 12 * 8}, int8 = {"pmaddwd, paddd xmm", madd128, 12 * 16}, int16 = int8;
};

PeakLoops peak_loops(std::string_view features) {
  // Not __builtin_cpu_supports: zig's runtime library lacks what it reads.
  const auto has = [&](std::string_view word) {
    for (size_t at = 0; at < features.size(); ++at) {
      const size_t end = std::min(features.find(' ', at), features.size());
      if (features.substr(at, end - at) == word) return true;
      at = end;
    }
    return false;
  };
  PeakLoops best;
  if (has("avx2")) {
    best.int8 = best.int16 = {"vpmaddwd, vpaddd ymm", madd256, 12 * 32};
    if (has("fma")) best.f32 = {"vfmadd231ps ymm", fma256, 12 * 16};
    if (has("avxvnni")) {
      best.int8 = {"vpdpbusd ymm", dpbusd256, 12 * 64};
      best.int16 = {"vpdpwssd ymm", dpwssd256, 12 * 32};
    }
  }
  if (has("avx512f")) best.f32 = {"vfmadd231ps zmm", fma512, 12 * 32};
  if (has("avx512vnni")) {
    best.int8 = {"vpdpbusd zmm", dpbusd512, 12 * 128};
    best.int16 = {"vpdpwssd zmm", dpwssd512, 12 * 64};
  }
  return best;
}

#elif defined(__aarch64__)

#define QR_REGISTER(value) "w"(value)
#define QR_NEW __asm__ volatile("" : "+w"(x), "+w"(y));
#define QR_FMLA(i) QR_NEW sum##i = vfmaq_f32(sum##i, x, y);
#define QR_SMLAL(i) \
  QR_NEW sum##i = vmlal_s16(sum##i, vget_low_s16(vreinterpretq_s16_s32(x)), vget_low_s16(vreinterpretq_s16_s32(y)));
#define QR_SDOT(i) \
  QR_NEW __asm__ volatile(".arch armv8.2-a+dotprod\n sdot %0.4s, %1.16b, %2.16b" : "+w"(sum##i) : "w"(x), "w"(y));

QR_PEAK_LOOP(fmla, , vdupq_n_f32(0), QR_FMLA)
QR_PEAK_LOOP(smlal, , vdupq_n_s32(0), QR_SMLAL)
QR_PEAK_LOOP(sdot, , vdupq_n_s32(0), QR_SDOT)

struct PeakLoops {
  PeakLoop f32 = {"fmla v.4s", fmla, 12 * 8}, int8 = {"smlal v.4s", smlal, 12 * 8}, int16 = int8;
};

PeakLoops peak_loops(std::string_view) {
  PeakLoops best;
  constexpr unsigned long kDotProducts = 1ul << 20;  // HWCAP_ASIMDDP
  if (quarry::os::processor_features().first & kDotProducts) best.int8 = {"sdot v.4s", sdot, 12 * 32};
  return best;
}

#else
struct PeakLoops {
  PeakLoop f32 = {"", nullptr, 0}, int8 = f32, int16 = f32;
};
PeakLoops peak_loops(std::string_view) { return {}; }
#endif

// From the first thread's beginning to the last one's end, by their own clocks: whoever waits for them may be late.
double seconds_of(const std::function<void(unsigned)> &work, unsigned threads) {
  using Clock = std::chrono::steady_clock;
  std::vector<Clock::time_point> begins(threads), ends(threads);
  const auto timed = [&](unsigned t) {
    begins[t] = Clock::now();
    work(t);
    ends[t] = Clock::now();
  };
  if (threads == 1) {
    timed(0);
  } else {
    std::barrier ready(threads);
    std::vector<std::thread> workers;
    for (unsigned t = 0; t < threads; ++t)
      workers.emplace_back([&, t] {
        ready.arrive_and_wait();
        timed(t);
      });
    for (std::thread &worker : workers) worker.join();
  }
  return std::chrono::duration<double>(*std::max_element(ends.begin(), ends.end()) -
                                       *std::min_element(begins.begin(), begins.end()))
      .count();
}

constexpr int kTries = 7;  // the best one counts: the others were disturbed

double billions_a_second(const PeakLoop &loop, unsigned threads) {
  if (!loop.run) return 0;
  constexpr double kLong = 0.005;
  uint64_t rounds = 1 << 12;
  while (seconds_of([&](unsigned) { loop.run(rounds); }, 1) < kLong) rounds *= 2;
  double best = 0;
  for (int i = 0; i < kTries; ++i) {
    const double seconds = seconds_of([&](unsigned) { loop.run(rounds); }, threads);
    best = std::max(best, loop.operations * static_cast<double>(rounds) * threads / seconds / 1e9);
  }
  return best;
}

// The bits of all words, so that each is read.
uint64_t read_all(const uint64_t *words, size_t count) {
  uint64_t a = 0, b = 0, c = 0, d = 0;
  for (size_t i = 0; i + 8 <= count; i += 8) {
    a |= words[i] | words[i + 1], b |= words[i + 2] | words[i + 3];
    c |= words[i + 4] | words[i + 5], d |= words[i + 6] | words[i + 7];
  }
  return a | b | c | d;
}

double read_rate(unsigned threads) {
  constexpr size_t kWords = (size_t{256} << 20) / sizeof(uint64_t);
  const std::vector<uint64_t> memory(kWords, 1);
  const size_t each = kWords / threads;
  double best = 0;
  for (int i = 0; i < kTries; ++i) {
    const double seconds = seconds_of(
        [&](unsigned t) {
          uint64_t bits = read_all(memory.data() + each * t, each);
          __asm__ volatile("" : "+r"(bits));
        },
        threads);
    best = std::max(best, static_cast<double>(each * threads * sizeof(uint64_t)) / seconds / 1e9);
  }
  return best;
}

}  // namespace

ProcessorPeaks measure_peaks(unsigned threads, std::string_view features) {
  const PeakLoops loops = peak_loops(features);
  ProcessorPeaks peaks;
  peaks.threads = std::max(threads, 1u);
  peaks.f32_by = loops.f32.instruction, peaks.int8_by = loops.int8.instruction;
  peaks.int16_by = loops.int16.instruction;
  peaks.f32 = billions_a_second(loops.f32, peaks.threads);
  peaks.int8 = billions_a_second(loops.int8, peaks.threads);
  peaks.int16 = billions_a_second(loops.int16, peaks.threads);
  peaks.read_gb_per_s = read_rate(peaks.threads);
  return peaks;
}

}  // namespace tools
