// SPDX-License-Identifier: Apache-2.0
// Casts between f16 or bf16 and f32 beside steps that can read or write such numbers themselves: the step does it, and
// no f32 of them is in memory. Nothing is rounded that was not, so results keep their bits.
#include <algorithm>
#include <optional>

#include "backends/cpu/lower/node_paths.h"
#include "backends/cpu/lower/plan_passes.h"
#include "base/stop.h"
#include "kernels/cpu/shapes/elements_shape.h"

namespace quarry::cpu {

namespace {

using kernels::ChainF32;
using kernels::ChainForm;
using kernels::ElementOp;
using kernels::Kernel;
using kernels::NumberType;

bool is(const Step &step, Kernel kernel) { return step.kernel == static_cast<std::uint32_t>(kernel); }

NumberType number_type(std::uint32_t dtype) {
  if (dtype == static_cast<std::uint32_t>(DType::F16)) return NumberType::F16;
  return dtype == static_cast<std::uint32_t>(DType::BF16) ? NumberType::BF16 : NumberType::F32;
}

// An elementwise step of f32 as a chain.
std::optional<ChainF32> chain_of(const Plan &plan, const Step &step) {
  if (is(step, Kernel::ChainF32)) return params_of<ChainF32>(plan, step);
  ChainF32 chain;
  if (is(step, Kernel::UnaryF32)) {
    const auto p = params_of<kernels::UnaryF32>(plan, step);
    chain.dims[0] = p.count, chain.x[0] = 1;
    chain.stage[0].act = p.act;
    return chain;
  }
  if (!is(step, Kernel::BinaryF32)) return std::nullopt;
  const auto p = params_of<kernels::BinaryF32>(plan, step);
  chain.rank = p.rank;
  std::ranges::copy(p.dims, chain.dims);
  std::ranges::copy(p.a, chain.x);
  chain.stage[0].form = ChainForm::ValueFirst, chain.stage[0].op = p.op, chain.stage[0].act = p.act;
  std::ranges::copy(p.b, chain.stage[0].b);
  return chain;
}

class Float16Steps {
 public:
  Float16Steps(Plan &plan, NodePathTable &paths)
      : plan_(plan),
        paths_(paths),
        readers_(plan.values.size(), 0),
        writers_(plan.values.size(), 0),
        cast_to_(plan.values.size(), kNone),
        cast_from_(plan.values.size(), kNone),
        gone_(plan.steps.size(), false) {
    for (std::size_t s = 0; s < plan.steps.size(); ++s) {
      const Step &step = plan.steps[s];
      const bool cast = is(step, Kernel::Cast);
      for (std::uint32_t o = 0; o < step.operand_count; ++o) {
        const std::uint32_t value = plan.operands[step.first_operand + o].value;
        // What a step other than these writes is no matter here: it counts as read, so nobody is taken for the only
        // one.
        const bool last = o + 1 == step.operand_count && (cast || takes_float16(step));
        last ? ++writers_[value] : ++readers_[value];
      }
      if (!cast) continue;
      cast_to_[operand(step, 1).value] = s;
      cast_from_[operand(step, 0).value] = s;
    }
  }

  void run() {
    for (std::size_t s = 0; s < plan_.steps.size() && !stop_asked(); ++s) {
      Step &step = plan_.steps[s];
      if (const std::optional<ChainF32> chain = chain_of(plan_, step)) at_chain(s, *chain);
      else if (is(step, Kernel::ReduceF32)) at_reduction(s);
      else if (is(step, Kernel::Elements)) at_elements(s);
      else if (is(step, Kernel::RotaryF32)) at_rotary(s);
    }
    if (std::ranges::none_of(gone_, [](bool gone) { return gone; })) return;
    Vector<Step> gone, steps;
    Vector<StepNote> notes;
    for (std::size_t s = 0; s < plan_.steps.size(); ++s) {
      if (gone_[s]) {
        gone.push_back(plan_.steps[s]);
        continue;
      }
      steps.push_back(plan_.steps[s]), notes.push_back(plan_.notes[s]);
    }
    plan_.steps = std::move(steps), plan_.notes = std::move(notes);
    const StepsOfNodes left(plan_);
    for (const Step &step : gone)
      if (step.source >= 0) paths_.chained(step.source, left.of(step.source), static_cast<std::int32_t>(step.op));
  }

 private:
  static constexpr std::size_t kNone = SIZE_MAX;
  // A reduction's scratch: what it reads at a time, as f32.
  static constexpr std::int64_t kMostReduced = 16384;

  bool takes_float16(const Step &step) const {
    return is(step, Kernel::ChainF32) || is(step, Kernel::UnaryF32) || is(step, Kernel::BinaryF32) ||
           is(step, Kernel::ReduceF32) || is(step, Kernel::Elements) || is(step, Kernel::RotaryF32);
  }
  Operand &operand(const Step &step, std::uint32_t o) { return plan_.operands[step.first_operand + o]; }
  bool all_of(const Operand &operand, std::int64_t count) const {
    return operand.offset == 0 && plan_.values[operand.value].bytes == static_cast<std::uint64_t>(count) * 4;
  }

  // The Cast that makes all of an operand from 16 bits.
  std::size_t widened(const Operand &read) const {
    const std::size_t s = cast_to_[read.value];
    if (s == kNone || writers_[read.value] != 1 || plan_.values[read.value].storage != StorageKind::Arena) return kNone;
    const Step &step = plan_.steps[s];
    const auto cast = params_of<kernels::Cast>(plan_, step);
    const bool fits = cast.to == static_cast<std::uint32_t>(DType::F32) && number_type(cast.from) != NumberType::F32 &&
                      all_of(plan_.operands[step.first_operand + 1], cast.count);
    return fits ? s : kNone;
  }
  // The Cast to 16 bits that is all that reads what a step writes.
  std::size_t narrowed(const Operand &written, std::size_t by) const {
    const std::size_t s = cast_from_[written.value];
    if (s == kNone || s <= by || gone_[s] || writers_[written.value] != 1 || readers_[written.value] != 1 ||
        plan_.values[written.value].storage != StorageKind::Arena || written.offset != 0)
      return kNone;
    const Step &step = plan_.steps[s];
    const auto cast = params_of<kernels::Cast>(plan_, step);
    const bool fits = cast.from == static_cast<std::uint32_t>(DType::F32) && number_type(cast.to) != NumberType::F32 &&
                      all_of(plan_.operands[step.first_operand], cast.count);
    return fits ? s : kNone;
  }
  NumberType type_of(std::size_t cast, bool of_source) const {
    const auto p = params_of<kernels::Cast>(plan_, plan_.steps[cast]);
    return number_type(of_source ? p.from : p.to);
  }

  // The operand reads what the Cast read.
  void read_before(std::size_t reader, std::uint32_t o, std::size_t cast) {
    Operand &read = operand(plan_.steps[reader], o);
    const Operand &from = operand(plan_.steps[cast], 0);
    const std::uint32_t value = read.value;
    plan_.notes[reader].bytes_read -= std::min(plan_.notes[reader].bytes_read, plan_.values[value].bytes / 2);
    read.offset = from.offset + read.offset / 2;
    read.value = from.value;
    ++readers_[from.value];
    if (--readers_[value] == 0) remove(cast, reader, value), --readers_[from.value];
  }
  void write_behind(std::size_t writer, std::size_t cast) {
    const Step &step = plan_.steps[writer];
    Operand &written = operand(step, step.operand_count - 1);
    const std::uint32_t value = written.value;
    plan_.notes[writer].bytes_written /= 2;
    written = operand(plan_.steps[cast], 1);
    remove(cast, writer, value);
  }
  void remove(std::size_t cast, std::size_t into, std::uint32_t value) {
    gone_[cast] = true;
    plan_.values[value].bytes = 0;
    plan_.steps[cast].op = static_cast<std::uint32_t>(plan_.steps[into].source);  // for the paths
  }

  template <class P>
  void store(std::size_t s, Kernel kernel, const P &params) {
    plan_.params.resize((plan_.params.size() + 7) / 8 * 8);
    plan_.steps[s].kernel = static_cast<std::uint32_t>(kernel);
    plan_.steps[s].params = static_cast<std::uint32_t>(plan_.params.size());
    const auto *const bytes = reinterpret_cast<const std::uint8_t *>(&params);
    plan_.params.insert(plan_.params.end(), bytes, bytes + sizeof params);
  }

  void at_chain(std::size_t s, ChainF32 chain) {
    const Step step = plan_.steps[s];
    bool any = false;
    const auto read = [&](std::uint32_t o, NumberType *type) {
      const std::size_t cast = *type == NumberType::F32 ? widened(operand(step, o)) : kNone;
      if (cast == kNone) return;
      *type = type_of(cast, true);
      read_before(s, o, cast);
      any = true;
    };
    std::uint32_t o = 0;
    read(o++, &chain.x_type);
    for (std::uint32_t i = 0; i < chain.stages; ++i)
      if (chain.stage[i].form != ChainForm::Alone) read(o++, &chain.stage[i].b_type);
    if (const std::size_t cast = narrowed(operand(step, o), s); cast != kNone) {
      chain.y_type = type_of(cast, false);
      write_behind(s, cast);
      any = true;
    }
    if (any) store(s, Kernel::ChainF32, chain);
  }

  void at_reduction(std::size_t s) {
    auto p = params_of<kernels::ReduceF32>(plan_, plan_.steps[s]);
    const std::size_t cast = widened(operand(plan_.steps[s], 0));
    if (cast == kNone || p.reduced > kMostReduced / std::min(p.inner, kernels::kReduceColumns)) return;
    p.x_type = type_of(cast, true);
    kernels::Needs needs;
    if (!kernels::kernel_row(Kernel::ReduceF32).check(&p, *plan_.isa, needs).ok()) return;
    plan_.scratch_bytes = std::max(plan_.scratch_bytes, needs.scratch_bytes);
    read_before(s, 0, cast);
    store(s, Kernel::ReduceF32, p);
  }

  void at_rotary(std::size_t s) {
    const Step step = plan_.steps[s];
    auto p = params_of<kernels::RotaryF32>(plan_, step);
    const std::size_t before = widened(operand(step, 0)), behind = narrowed(operand(step, step.operand_count - 1), s);
    if (before == kNone && behind == kNone) return;
    if (before != kNone) p.x_type = type_of(before, true);
    if (behind != kNone) p.y_type = type_of(behind, false);
    kernels::Needs needs;
    if (!kernels::kernel_row(Kernel::RotaryF32).check(&p, *plan_.isa, needs).ok()) return;
    plan_.scratch_bytes = std::max(plan_.scratch_bytes, needs.scratch_bytes);
    if (before != kNone) read_before(s, 0, before);
    if (behind != kNone) write_behind(s, behind);
    store(s, Kernel::RotaryF32, p);
  }

  // All operands, and the result where it is no truth value, of one type.
  void at_elements(std::size_t s) {
    auto p = params_of<kernels::Elements>(plan_, plan_.steps[s]);
    const Step step = plan_.steps[s];
    if (p.dtype != static_cast<std::uint32_t>(DType::F32)) return;
    NumberType type = NumberType::F32;
    std::size_t casts[3] = {}, behind = kNone;
    const std::uint32_t reads = step.operand_count - 1;
    for (std::uint32_t o = 0; o < reads; ++o) {
      casts[o] = widened(operand(step, o));
      if (casts[o] == kNone || (o > 0 && type_of(casts[o], true) != type)) return;
      type = type_of(casts[o], true);
    }
    if (!kernels::gives_truth(p.op)) {
      behind = narrowed(operand(step, reads), s);
      if (behind == kNone || type_of(behind, false) != type) return;
    }
    p.dtype = static_cast<std::uint32_t>(type == NumberType::F16 ? DType::F16 : DType::BF16);
    for (std::uint32_t o = 0; o < reads; ++o) read_before(s, o, casts[o]);
    if (behind != kNone) write_behind(s, behind);
    store(s, Kernel::Elements, p);
  }

  Plan &plan_;
  NodePathTable &paths_;
  Vector<std::uint32_t> readers_, writers_;
  Vector<std::size_t> cast_to_, cast_from_;  // per value: the Cast that writes it; that reads it
  Vector<bool> gone_;
};

}  // namespace

void read_float16(Plan &plan, NodePathTable &paths) { Float16Steps(plan, paths).run(); }

}  // namespace quarry::cpu
