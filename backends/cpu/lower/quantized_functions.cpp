// SPDX-License-Identifier: Apache-2.0
// Functions of one element between integers of 16 bits: Dequantize, the function and Quantize become one step, and the
// floats between are never in memory. Nothing else is rounded, so results keep their bits.
#include <algorithm>
#include <optional>

#include "backends/cpu/lower/node_paths.h"
#include "backends/cpu/lower/plan_passes.h"
#include "base/stop.h"

namespace quarry::cpu {

namespace {

using kernels::Kernel;

constexpr std::size_t kNoStep = SIZE_MAX;

class QuantizedFunctions {
 public:
  QuantizedFunctions(Plan &plan, NodePathTable &paths)
      : plan_(plan), paths_(paths), uses_(plan.values.size()), gone_(plan.steps.size(), false) {
    for (std::size_t s = 0; s < plan.steps.size(); ++s) {
      const Step &step = plan.steps[s];
      const bool is_part = is(s, Kernel::Dequantize) || is(s, Kernel::UnaryF32) || is(s, Kernel::Quantize);
      for (std::uint32_t o = 0; o < step.operand_count; ++o) {
        Use &use = uses_[operand(s, o).value];
        // What another step writes counts as read: nobody is taken for the only one then.
        if (is_part && o + 1 == step.operand_count) ++use.writers, use.writer = s;
        else ++use.readers, use.reader = s;
      }
    }
  }

  void run() {
    for (std::size_t s = 0; s < plan_.steps.size() && !stop_asked(); ++s)
      if (is(s, Kernel::UnaryF32)) fuse(s);
    if (std::ranges::find(gone_, true) == gone_.end()) return;
    Vector<std::pair<Step, std::int32_t>> gone;  // and into whose step it went
    Vector<Step> steps;
    Vector<StepNote> notes;
    for (std::size_t s = 0; s < plan_.steps.size(); ++s) {
      if (gone_[s]) gone.push_back({plan_.steps[s], into_[s]});
      else steps.push_back(plan_.steps[s]), notes.push_back(plan_.notes[s]);
    }
    plan_.steps = std::move(steps), plan_.notes = std::move(notes);
    const StepsOfNodes left(plan_);
    for (const auto &[step, into] : gone)
      if (step.source >= 0) paths_.chained(step.source, left.of(step.source), into);
  }

 private:
  struct Use {
    std::uint32_t readers = 0, writers = 0;
    std::size_t reader = kNoStep, writer = kNoStep;
  };

  bool is(std::size_t s, Kernel kernel) const { return plan_.steps[s].kernel == static_cast<std::uint32_t>(kernel); }
  Operand &operand(std::size_t s, std::uint32_t o) { return plan_.operands[plan_.steps[s].first_operand + o]; }

  // Floats that one step writes and one reads, all of them.
  bool is_between(const Operand &written, const Operand &read, std::int64_t count) const {
    const Use &use = uses_[read.value];
    return written.value == read.value && written.offset == 0 && read.offset == 0 && use.writers == 1 &&
           use.readers == 1 && plan_.values[read.value].storage == StorageKind::Arena &&
           plan_.values[read.value].bytes == static_cast<std::uint64_t>(count) * 4;
  }

  void fuse(std::size_t s) {
    const auto function = params_of<kernels::UnaryF32>(plan_, plan_.steps[s]);
    const std::size_t before = uses_[operand(s, 0).value].writer, behind = uses_[operand(s, 1).value].reader;
    if (before == kNoStep || behind == kNoStep || !is(before, Kernel::Dequantize) || !is(behind, Kernel::Quantize) ||
        before >= s || behind <= s)
      return;
    const auto from = params_of<kernels::Dequantize>(plan_, plan_.steps[before]);
    const auto to = params_of<kernels::Quantize>(plan_, plan_.steps[behind]);
    if (from.count != function.count || to.count != function.count ||
        !is_between(operand(before, 1), operand(s, 0), function.count) ||
        !is_between(operand(s, 1), operand(behind, 0), function.count))
      return;
    for (const std::uint32_t o : {0u, 1u}) plan_.values[operand(s, o).value].bytes = 0;
    operand(s, 0) = operand(before, 0), operand(s, 1) = operand(behind, 1);
    plan_.notes[s].bytes_read = plan_.notes[before].bytes_read;
    plan_.notes[s].bytes_written = plan_.notes[behind].bytes_written;
    store(s, {function.count, from.x, to.y, function.act});
    into_.resize(plan_.steps.size(), qir::kNoSource);
    for (const std::size_t part : {before, behind}) gone_[part] = true, into_[part] = plan_.steps[s].source;
  }

  void store(std::size_t s, const kernels::UnaryInt &params) {
    plan_.params.resize((plan_.params.size() + 7) / 8 * 8);
    plan_.steps[s].kernel = static_cast<std::uint32_t>(Kernel::UnaryInt);
    plan_.steps[s].params = static_cast<std::uint32_t>(plan_.params.size());
    const auto *const bytes = reinterpret_cast<const std::uint8_t *>(&params);
    plan_.params.insert(plan_.params.end(), bytes, bytes + sizeof params);
  }

  Plan &plan_;
  NodePathTable &paths_;
  Vector<Use> uses_;  // per value
  Vector<bool> gone_;
  Vector<std::int32_t> into_;
};

}  // namespace

void fuse_quantized_functions(Plan &plan, NodePathTable &paths) { QuantizedFunctions(plan, paths).run(); }

}  // namespace quarry::cpu
