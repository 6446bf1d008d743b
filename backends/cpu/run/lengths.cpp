// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/run/lengths.h"

#include <cstring>

namespace quarry::cpu {

namespace {

// A constant that differs (positions, a mask) has at most so many bytes.
constexpr std::uint64_t kMostBytes = 1 << 16;
// Rows are copied for each length: what a plan takes to make is more.
constexpr std::uint64_t kMostRowBytes = 1 << 20;

bool equal(const qir::Bytes &a, const qir::Bytes &b) {
  return a.size == b.size && (a.size == 0 || std::memcmp(a.data, b.data, a.size) == 0);
}

}  // namespace

// As numbers of 32 bits. (One of 64 bits is two, where the lower does not carry; an f32 that counts goes along evenly
// between two powers of two.)
bool LengthNumbers::words(const Places &places, std::size_t bytes) {
  if (bytes == 0) return true;  // (a list of none has no address)
  bool same = true;
  for (std::size_t i = 1; i < samples_.size(); ++i) same &= std::memcmp(places[i], places[0], bytes) == 0;
  if (same) return true;
  if (bytes % 4 != 0) return false;
  for (std::size_t at = 0; at < bytes; at += 4) {
    std::uint32_t found[kMostSamples];
    for (std::size_t i = 0; i < samples_.size(); ++i)
      std::memcpy(&found[i], static_cast<const std::uint8_t *>(places[i]) + at, 4);
    const std::uint32_t each = found[1] - found[0];
    for (std::size_t i = 2; i < samples_.size(); ++i)
      if (found[i] != found[0] + each * static_cast<std::uint32_t>(samples_[i].length)) return false;
    auto *const to = static_cast<std::uint8_t *>(const_cast<void *>(places[samples_.size() - 1]));
    if (each != 0) numbers_.push_back({to + at, found[0], each});
  }
  return true;
}

// Something in the blob's tables, which lie alike in each.
bool LengthNumbers::field(const void *in_longest, std::size_t bytes) {
  const std::ptrdiff_t at = static_cast<const std::uint8_t *>(in_longest) - samples_.back().blob;
  Places places;
  for (std::size_t i = 0; i < samples_.size(); ++i) places[i] = samples_[i].blob + at;
  return words(places, bytes);
}

bool LengthNumbers::alike() const {
  const LengthSample &last = samples_.back();
  for (const LengthSample &sample : samples_) {
    const LoadedPlan &plan = *sample.plan;
    if (plan.region || plan.values.size() != plan_->values.size() || plan.steps.size() != plan_->steps.size() ||
        plan.operands.size() != plan_->operands.size() || plan.inputs.size() != plan_->inputs.size() ||
        plan.outputs.size() != plan_->outputs.size() || plan.subgraphs.size() != plan_->subgraphs.size() ||
        plan.params - sample.blob != plan_->params - last.blob ||
        !equal(sample.subgraph_constants, last.subgraph_constants))
      return false;
    for (std::size_t i = 0; i < plan.subgraphs.size(); ++i)
      if (!equal(plan.subgraphs[i]->bytes, plan_->subgraphs[i]->bytes)) return false;
  }
  return true;
}

// By sizes alone how long a row is: with each length all rows together are longer by one element each.
bool LengthNumbers::find_rows(std::size_t v, const Places &places) {
  const auto bytes_of = [&](std::size_t i) { return static_cast<std::size_t>(samples_[i].plan->values[v].bytes); };
  const std::size_t most = bytes_of(samples_.size() - 1);
  if (bytes_of(1) <= bytes_of(0)) return false;
  const std::size_t more = bytes_of(1) - bytes_of(0);
  for (std::size_t i = 0; i < samples_.size(); ++i)
    if (bytes_of(i) != bytes_of(0) + more * static_cast<std::size_t>(samples_[i].length)) return false;
  auto *const at = static_cast<std::uint8_t *>(const_cast<void *>(places[samples_.size() - 1]));
  Rows rows{at, Vector<std::uint8_t>(at, at + most), 0, 0, 0, 0, true};
  const auto fits = [&](bool ends) {
    rows.ends = ends;
    for (std::size_t i = 0; i < samples_.size(); ++i)
      if (!rows.match(static_cast<const std::uint8_t *>(places[i]), bytes_of(i) / rows.count)) return false;
    return true;
  };
  for (rows.each = 8; rows.each > 0; rows.each /= 2) {
    rows.count = more / rows.each;
    if (more % rows.each != 0 || rows.count < 2 || bytes_of(0) % rows.count != 0) continue;
    rows.row = most / rows.count, rows.first = bytes_of(0) / rows.count;
    if (!fits(true) && !fits(false)) continue;
    rows_.push_back(std::move(rows));
    return true;
  }
  return false;
}

bool LengthNumbers::Rows::match(const std::uint8_t *others, std::size_t bytes) const {
  for (std::size_t i = 0; i < count; ++i)
    if (std::memcmp(others + i * bytes, begin(i, bytes), bytes) != 0) return false;
  return true;
}

// Of one size: numbers in it. Else the longest begins with the others, or its rows do or end so.
bool LengthNumbers::find_constant(std::size_t v) {
  const qir::Bytes &packed = samples_.back().packed;
  const std::uint64_t most = plan_->values[v].bytes;
  Places places;
  bool shared = true, begins = true, same_size = true, there = true;
  for (std::size_t i = 0; i < samples_.size(); ++i) {
    const std::uint64_t bytes = samples_[i].plan->values[v].bytes;
    const std::byte *const data = samples_[i].plan->constants[v];
    places[i] = data;
    same_size &= bytes == most;
    shared &= data == plan_->constants[v] && bytes == most;
    there &= data && bytes <= most && (i == 0 || bytes >= samples_[i - 1].plan->values[v].bytes);
  }
  if (shared) return true;
  const auto at = reinterpret_cast<std::uintptr_t>(plan_->constants[v]),
             begin = reinterpret_cast<std::uintptr_t>(packed.data);
  if (!there || at < begin || at >= begin + packed.size || most > kMostRowBytes) return false;
  if (same_size) return most <= kMostBytes && words(places, most);
  for (std::size_t i = 0; i < samples_.size(); ++i)
    begins &= std::memcmp(places[i], plan_->constants[v], samples_[i].plan->values[v].bytes) == 0;
  return begins || find_rows(v, places);
}

bool LengthNumbers::find_values() {
  for (std::size_t v = 0; v < plan_->values.size(); ++v) {
    const Value &last = plan_->values[v];
    const bool is_constant = last.storage == StorageKind::Constant, is_arena = last.storage == StorageKind::Arena;
    for (const LengthSample &sample : samples_) {
      const Value &one = sample.plan->values[v];
      if (one.storage != last.storage || (one.offset == kNoPlace) != (last.offset == kNoPlace) ||
          (!is_constant && one.index != last.index))
        return false;
      // Values lie in the arena as the longest ones do, which need most room.
      if (is_arena && one.bytes > last.bytes) return false;
    }
    if (is_constant ? !find_constant(v) : !is_arena && !field(&last.bytes, sizeof last.bytes)) return false;
  }
  return true;
}

bool LengthNumbers::find_steps() {
  for (std::uint32_t s = 0; s < plan_->steps.size(); ++s) {
    const Step &step = plan_->steps[s];
    for (const LengthSample &sample : samples_) {
      const Step &other = sample.plan->steps[s];
      if (other.kernel != step.kernel || other.params != step.params || other.source != step.source ||
          other.first_operand != step.first_operand || other.operand_count != step.operand_count)
        return false;
      for (std::uint32_t o = step.first_operand; o < step.first_operand + step.operand_count; ++o)
        if (sample.plan->operands[o].value != plan_->operands[o].value) return false;
    }
    const std::size_t before = numbers_.size();
    const bool is_reference = step.kernel == kReferenceStep;
    if (!field(plan_->operands.data() + step.first_operand, step.operand_count * sizeof(Operand)) ||
        (!is_reference && !field(plan_->params + step.params, kernels::kernel_row(step.kernel)->params_bytes)))
      return false;
    if (numbers_.size() == before) continue;
    if (is_reference) return false;
    steps_.push_back(s);
  }
  return true;
}

bool LengthNumbers::find_shapes(std::size_t appended) {
  Places places;
  for (const auto list : {&LoadedPlan::inputs, &LoadedPlan::outputs}) {
    for (std::size_t n = 0; n < (plan_->*list).size(); ++n) {
      for (std::size_t i = 0; i < samples_.size(); ++i) places[i] = (samples_[i].plan->*list)[n].shape.data();
      if (!words(places, (plan_->*list)[n].shape.size() * sizeof(std::int64_t))) return false;
    }
  }
  for (std::size_t i = 0; i < samples_.size(); ++i) places[i] = samples_[i].appended;
  return words(places, appended * sizeof(AppendedShape));
}

bool LengthNumbers::find(std::span<const LengthSample> samples, std::size_t appended) {
  samples_ = samples, plan_ = samples.back().plan;
  return alike() && find_values() && find_steps() && find_shapes(appended);
}

Status LengthNumbers::write(std::int64_t length) {
  for (const Number &number : numbers_) {
    const std::uint32_t made = number.first + number.each * static_cast<std::uint32_t>(length);
    std::memcpy(number.at, &made, sizeof made);
  }
  for (const Rows &rows : rows_) {
    const std::size_t bytes = rows.first + rows.each * static_cast<std::size_t>(length);
    for (std::size_t i = 0; i < rows.count; ++i) std::memcpy(rows.at + i * bytes, rows.begin(i, bytes), bytes);
  }
  for (const std::uint32_t s : steps_) QR_RETURN_IF_ERROR(check_kernel_step(*plan_, plan_->steps[s]));
  return {};
}

}  // namespace quarry::cpu
