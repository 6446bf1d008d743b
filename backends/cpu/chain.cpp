// SPDX-License-Identifier: Apache-2.0
// Elementwise steps one behind the other as one step: what lies between them is never written to memory.
#include <algorithm>
#include <functional>
#include <optional>

#include "backends/cpu/compile.h"
#include "backends/cpu/view.h"
#include "backends/cpu/ways.h"

namespace quarry::cpu {

namespace {

using kernels::ChainF32;
using kernels::ChainForm;
using kernels::ChainStage;
using kernels::kChainStages;
using kernels::Kernel;
using kernels::kLoopRank;

bool is(const Step &step, Kernel kernel) { return step.kernel == static_cast<std::uint32_t>(kernel); }

// A loop nest that may still be cut finer. Cuts lie where a number of elements, counted from the innermost, begins
// anew.
struct Walk {
  Vector<std::int64_t> dims;
  Vector<Vector<std::int64_t>> strides;  // per operand; the first is x
};

Vector<std::int64_t> cuts_of(const Vector<std::int64_t> &dims) {
  Vector<std::int64_t> cuts(dims.size() + 1, 1);
  for (std::size_t d = dims.size(); d-- > 0;) cuts[d] = cuts[d + 1] * dims[d];
  return cuts;  // falling
}
// `dims` so that a cut lies wherever one of either has one; nothing where one nest does not divide the other.
std::optional<Vector<std::int64_t>> common_dims(const Walk &one, const Walk &other) {
  Vector<std::int64_t> cuts = cuts_of(one.dims);
  const Vector<std::int64_t> more = cuts_of(other.dims);
  if (cuts[0] != more[0] || cuts[0] == 0) return std::nullopt;
  cuts.insert(cuts.end(), more.begin(), more.end());
  std::ranges::sort(cuts, std::greater<>());
  const auto doubles = std::ranges::unique(cuts);
  cuts.erase(doubles.begin(), doubles.end());
  Vector<std::int64_t> dims;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    if (cuts[i] % cuts[i + 1] != 0) return std::nullopt;
    dims.push_back(cuts[i] / cuts[i + 1]);
  }
  if (dims.empty()) dims.push_back(1);
  if (dims.size() > static_cast<std::size_t>(kLoopRank)) return std::nullopt;
  return dims;
}
void refine(Walk &walk, const Vector<std::int64_t> &dims) {
  const Vector<std::int64_t> old = cuts_of(walk.dims), now = cuts_of(dims);
  for (Vector<std::int64_t> &strides : walk.strides) {
    Vector<std::int64_t> finer(dims.size(), 0);
    for (std::size_t d = 0; d < dims.size(); ++d) {
      for (std::size_t o = 0; o < walk.dims.size(); ++o)
        if (old[o + 1] <= now[d + 1] && now[d + 1] < old[o]) finer[d] = strides[o] * (now[d + 1] / old[o + 1]);
    }
    strides = std::move(finer);
  }
  walk.dims = dims;
}

// A step, or several as one. Operands are those of the plan: x, those of the stages that have one, y.
struct Link {
  Vector<ChainStage> stages;  // their strides stand in `walk`
  Walk walk;
  Vector<Operand> operands;
  Vector<std::size_t> steps;  // which it does the work of; the last gives it its name and place
};

// The step as a chain of one; nothing where it is no elementwise step of f32. `swapped`: a Binary whose value comes by
// its second operand.
std::optional<Link> link_of(const Plan &plan, std::size_t s, bool swapped) {
  const Step &step = plan.steps[s];
  Link link;
  link.steps = {s};
  link.operands.assign(plan.operands.begin() + step.first_operand,
                       plan.operands.begin() + step.first_operand + step.operand_count);
  ChainStage stage;
  if (is(step, Kernel::UnaryF32)) {
    const auto p = params_of<kernels::UnaryF32>(plan, step);
    stage.act = p.act;
    link.walk.dims = {p.count};
    link.walk.strides = {{1}};
  } else if (is(step, Kernel::BinaryF32)) {
    const auto p = params_of<kernels::BinaryF32>(plan, step);
    stage.op = p.op, stage.act = p.act;
    stage.form = swapped ? ChainForm::OperandFirst : ChainForm::ValueFirst;
    link.walk.dims.assign(p.dims, p.dims + p.rank);
    link.walk.strides = {{p.a, p.a + p.rank}, {p.b, p.b + p.rank}};
    if (swapped) std::swap(link.walk.strides[0], link.walk.strides[1]), std::swap(link.operands[0], link.operands[1]);
  } else {
    return std::nullopt;
  }
  link.stages = {stage};
  return link;
}

// `front` and behind it `back`, which takes front's result as its x.
std::optional<Link> joined(const Link &front, const Link &back) {
  if (!is_row_major(back.walk.dims, back.walk.strides[0])) return std::nullopt;
  Link both = front;
  Walk rest = back.walk;
  const auto dims = common_dims(both.walk, rest);
  if (!dims) return std::nullopt;
  refine(both.walk, *dims), refine(rest, *dims);
  both.walk.strides.insert(both.walk.strides.end(), rest.strides.begin() + 1, rest.strides.end());
  both.operands.pop_back();
  both.operands.insert(both.operands.end(), back.operands.begin() + 1, back.operands.end());
  both.steps.insert(both.steps.end(), back.steps.begin(), back.steps.end());
  const bool bare = both.stages.back().act.kind == kernels::Act::None && back.stages[0].form == ChainForm::Alone;
  if (bare) both.stages.back().act = back.stages[0].act;
  both.stages.insert(both.stages.end(), back.stages.begin() + bare, back.stages.end());
  if (both.stages.size() > kChainStages) return std::nullopt;
  return both;
}

ChainF32 params_of(const Link &link) {
  ChainF32 p;
  p.rank = static_cast<std::uint32_t>(link.walk.dims.size());
  p.stages = static_cast<std::uint32_t>(link.stages.size());
  std::ranges::copy(link.walk.dims, p.dims);
  std::ranges::copy(link.walk.strides[0], p.x);
  std::size_t next = 1;
  for (std::size_t s = 0; s < link.stages.size(); ++s) {
    p.stage[s] = link.stages[s];
    if (p.stage[s].form != ChainForm::Alone) std::ranges::copy(link.walk.strides[next++], p.stage[s].b);
  }
  return p;
}

class Chains {
 public:
  explicit Chains(Plan &plan)
      : plan_(plan), readers_(plan.values.size(), 0), writers_(plan.values.size(), 0), made_by_(plan.values.size(), 0) {
    for (std::size_t s = 0; s < plan.steps.size(); ++s) {
      const Step &step = plan.steps[s];
      for (std::uint32_t o = 0; o < step.operand_count; ++o) {
        const std::uint32_t value = plan.operands[step.first_operand + o].value;
        // What other steps write is told by their check; here only elementwise steps matter, which write their last.
        const bool written = link_of(plan, s, false) && o + 1 == step.operand_count;
        if (written) ++writers_[value], made_by_[value] = s;
        else ++readers_[value];
      }
    }
  }

  Vector<Link> find() {
    Vector<Link> links(plan_.steps.size());
    for (std::size_t s = 0; s < plan_.steps.size(); ++s) {
      std::optional<Link> best = link_of(plan_, s, false);
      if (!best) continue;
      const Link plain = *best;
      for (const bool swapped : {false, true}) {
        if (swapped && plain.operands.size() != 3) break;
        const Link back = *link_of(plan_, s, swapped);
        const std::optional<std::size_t> front = maker_of(back.operands[0], s);
        if (!front || links[*front].stages.empty()) continue;
        std::optional<Link> both = joined(links[*front], back);
        if (both && both->steps.size() > best->steps.size()) best = std::move(both);
      }
      for (const std::size_t part : best->steps)
        if (part != s) links[part] = {};
      links[s] = std::move(*best);
    }
    return links;
  }

 private:
  // The elementwise step that makes all of what this operand reads, where nobody else wants it.
  std::optional<std::size_t> maker_of(const Operand &operand, std::size_t reader) const {
    const Value &value = plan_.values[operand.value];
    if (value.place != Place::Arena || readers_[operand.value] != 1 || writers_[operand.value] != 1)
      return std::nullopt;
    const std::size_t maker = made_by_[operand.value];
    const Step &step = plan_.steps[maker];
    if (maker >= reader || operand.offset != 0 ||
        plan_.operands[step.first_operand + step.operand_count - 1].offset != 0)
      return std::nullopt;
    return maker;
  }

  const Plan &plan_;
  Vector<std::uint32_t> readers_, writers_;
  Vector<std::size_t> made_by_;
};

std::uint64_t bytes_read(const Plan &plan, const Link &link) {
  std::uint64_t bytes = 0;
  for (std::size_t o = 0; o < link.walk.strides.size(); ++o) {
    std::uint64_t elements = 1;
    for (std::size_t d = 0; d < link.walk.dims.size(); ++d)
      if (link.walk.strides[o][d] != 0) elements *= static_cast<std::uint64_t>(link.walk.dims[d]);
    bytes += std::min(elements * 4, plan.values[link.operands[o].value].bytes);
  }
  return bytes;
}

}  // namespace

void chain_steps(Plan &plan, Ways &ways) {
  const Vector<Link> links = Chains(plan).find();
  if (std::ranges::none_of(links, [](const Link &link) { return link.steps.size() > 1; })) return;
  Vector<bool> gone(plan.steps.size(), false);
  for (const Link &link : links)
    for (std::size_t i = 0; i + 1 < link.steps.size(); ++i) gone[link.steps[i]] = true;

  const Plan before = std::move(plan);
  plan = before;
  plan.steps.clear(), plan.notes.clear(), plan.params.clear(), plan.operands.clear();
  for (std::size_t s = 0; s < before.steps.size(); ++s) {
    if (gone[s]) continue;
    const Link &link = links[s];
    Step step = before.steps[s];
    StepNote note = before.notes[s];
    std::span operands = std::span(before.operands).subspan(step.first_operand, step.operand_count);
    const bool has_kernel = step.kernel != kReferenceStep && step.kernel != kTailStep;
    const std::uint8_t *params = has_kernel ? before.params.data() + step.params : nullptr;
    ChainF32 chain;
    if (link.steps.size() > 1) {
      chain = params_of(link);
      params = reinterpret_cast<const std::uint8_t *>(&chain);
      step.kernel = static_cast<std::uint32_t>(Kernel::ChainF32);
      operands = link.operands;
      note.bytes_read = bytes_read(before, link);
    }
    if (params) {
      plan.params.resize((plan.params.size() + 7) / 8 * 8);
      step.params = static_cast<std::uint32_t>(plan.params.size());
      plan.params.insert(plan.params.end(), params,
                         params + kernels::kernel_row(static_cast<Kernel>(step.kernel)).params_bytes);
    }
    step.first_operand = static_cast<std::uint32_t>(plan.operands.size());
    step.operand_count = static_cast<std::uint32_t>(operands.size());
    plan.operands.insert(plan.operands.end(), operands.begin(), operands.end());
    plan.steps.push_back(step);
    plan.notes.push_back(note);
  }
  // What lay between the steps of a chain is nowhere now.
  for (const Link &link : links)
    for (std::size_t i = 0; i + 1 < link.steps.size(); ++i) {
      const Step &step = before.steps[link.steps[i]];
      plan.values[before.operands[step.first_operand + step.operand_count - 1].value].bytes = 0;
    }
  for (const Link &link : links) {
    if (link.steps.size() < 2) continue;
    const std::int32_t into = before.steps[link.steps.back()].source;
    for (const std::size_t s : link.steps) {
      Vector<Step> left;
      for (const Step &step : plan.steps)
        if (step.source == before.steps[s].source) left.push_back(step);
      ways.chained(before.steps[s].source, left, into);
    }
  }
}

}  // namespace quarry::cpu
