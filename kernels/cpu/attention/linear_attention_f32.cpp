// SPDX-License-Identifier: Apache-2.0
// Linear attention: the columns of a state do not ask for each other, so each task takes a few vectors of them through
// all tokens, its part of the state in the first cache, and threads share the tasks.
#include "kernels/cpu/vector/activate.h"
#include "kernels/cpu/vector/isa_kernels.h"

namespace quarry::kernels::QR_ISA {

namespace {

constexpr int kVectors = 4;
constexpr std::int64_t kColumns = kVectors * kLanes;

// A vector's room more than there are keys, for the factors of all.
struct Task {
  const LinearAttentionF32 &p;
  const float *q, *k, *v, *past, *decay, *rate;
  float *y, *present, *state, *factors;

  template <bool gated, bool corrected>
  void run(std::int64_t batch, std::int64_t head, std::int64_t first) const noexcept {
    const std::int64_t count = min_of(kColumns, p.d_v - first), group = p.q_heads / p.heads;
    const std::int64_t from = (batch * p.heads + head) * p.d_k * p.d_v + first;
    const auto bytes = bytes_of<float>(count);
    std::memset(state, 0, bytes_of<float>(p.d_k * kColumns));
    for (std::int64_t i = 0; past && i < p.d_k; ++i) std::memcpy(state + i * kColumns, past + from + i * p.d_v, bytes);
    alignas(64) float some[kColumns] = {};
    for (std::int64_t t = 0; t < p.length; ++t) {
      const std::int64_t token = batch * p.length + t, place = token * p.heads + head;
      const float *const key = k + place * p.d_k;
      if constexpr (gated) find_factors(place);
      std::memcpy(some, v + place * p.d_v + first, bytes);
      VecF line[kVectors], sums[kVectors];
      QR_UNROLL for (int c = 0; c < kVectors; ++c) line[c] = load(some + c * kLanes);
      if constexpr (corrected) {
        QR_UNROLL for (int c = 0; c < kVectors; ++c) sums[c] = VecF{};
        for (std::int64_t i = 0; i < p.d_k; ++i) {
          const VecF x = splat(key[i]);
          QR_UNROLL for (int c = 0; c < kVectors; ++c) {
            float *const at = state + i * kColumns + c * kLanes;
            VecF value = load(at);
            if constexpr (gated) value *= splat(factors[i]), store(at, value);
            sums[c] = fma(x, value, sums[c]);
          }
        }
        const VecF by = splat(rate[p.rate == LinearRate::Shared ? token : place]);
        QR_UNROLL for (int c = 0; c < kVectors; ++c) line[c] = by * (line[c] - sums[c]);
      }
      // The first of the group reads what is written.
      for (std::int64_t member = 0; member < group; ++member) {
        const std::int64_t reader = token * p.q_heads + head * group + member;
        const float *const query = q + reader * p.d_k;
        QR_UNROLL for (int c = 0; c < kVectors; ++c) sums[c] = VecF{};
        for (std::int64_t i = 0; i < p.d_k; ++i) {
          const VecF asked = splat(query[i]);
          float *const row = state + i * kColumns;
          if (member == 0) {
            const VecF x = splat(key[i]);
            QR_UNROLL for (int c = 0; c < kVectors; ++c) {
              VecF value = load(row + c * kLanes);
              if constexpr (gated && !corrected) value *= splat(factors[i]);
              value = fma(x, line[c], value);
              store(row + c * kLanes, value);
              sums[c] = fma(asked, value, sums[c]);
            }
          } else {
            QR_UNROLL for (int c = 0; c < kVectors; ++c) sums[c] = fma(asked, load(row + c * kLanes), sums[c]);
          }
        }
        float *const to = y + reader * p.d_v + first;
        const VecF scale = splat(p.scale);
        if (count == kColumns) {
          QR_UNROLL for (int c = 0; c < kVectors; ++c) store(to + c * kLanes, scale * sums[c]);
        } else {
          QR_UNROLL for (int c = 0; c < kVectors; ++c) store(some + c * kLanes, scale * sums[c]);
          std::memcpy(to, some, bytes);
          std::memset(some, 0, sizeof some);
        }
      }
    }
    for (std::int64_t i = 0; present && i < p.d_k; ++i)
      std::memcpy(present + from + i * p.d_v, state + i * kColumns, bytes);
  }

  // exp(decay) for each key.
  void find_factors(std::int64_t place) const noexcept {
    if (p.decay == LinearDecay::Head) {
      const float factor = exp(splat(decay[place]))[0];
      for (std::int64_t i = 0; i < p.d_k; ++i) factors[i] = factor;
      return;
    }
    const float *const given = decay + place * p.d_k;
    for (std::int64_t i = 0; i < p.d_k; i += kLanes) {
      const int lanes = static_cast<int>(min_of<std::int64_t>(kLanes, p.d_k - i));
      store(factors + i, exp(lanes == kLanes ? load(given + i) : load_part(given + i, lanes)));
    }
  }
};

}  // namespace

void run_LinearAttentionF32(const Call &call) {
  const auto &p = call.as<LinearAttentionF32>();
  std::size_t next = 3;
  const float *const past = p.has_past ? call.operand<const float>(next++) : nullptr;
  const float *const decay = p.decay != LinearDecay::None ? call.operand<const float>(next++) : nullptr;
  const float *const rate = p.rate != LinearRate::None ? call.operand<const float>(next++) : nullptr;
  float *const y = call.operand<float>(next++);
  float *const present = p.has_present ? call.operand<float>(next) : nullptr;
  const std::int64_t parts = ceil_div(p.d_v, kColumns);
  const double work = 4.0 * static_cast<double>(p.length * p.d_k * kColumns);
  call.threads.run(
      static_cast<std::uint64_t>(p.batches * p.heads * parts), static_cast<std::uint64_t>(kWorthSharing / work) + 1,
      [&](std::uint64_t begin, std::uint64_t end, std::uint32_t worker) {
        float *const state = reinterpret_cast<float *>(call.worker_scratch(worker));
        const Task task{p,
                        call.operand<const float>(0),
                        call.operand<const float>(1),
                        call.operand<const float>(2),
                        past,
                        decay,
                        rate,
                        y,
                        present,
                        state,
                        state + p.d_k * kColumns};
        for (auto i = static_cast<std::int64_t>(begin); i < static_cast<std::int64_t>(end); ++i) {
          const std::int64_t batch = i / (p.heads * parts), head = i / parts % p.heads, first = i % parts * kColumns;
          if (decay && rate) task.run<true, true>(batch, head, first);
          else if (decay) task.run<true, false>(batch, head, first);
          else if (rate) task.run<false, true>(batch, head, first);
          else task.run<false, false>(batch, head, first);
        }
      });
}

}  // namespace quarry::kernels::QR_ISA
