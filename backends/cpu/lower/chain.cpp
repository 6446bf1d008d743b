// SPDX-License-Identifier: Apache-2.0
// Elementwise steps one behind the other as one step: what lies between them is never written to memory.
#include <algorithm>
#include <functional>
#include <optional>

#include "backends/cpu/lower/node_paths.h"
#include "backends/cpu/lower/plan_passes.h"
#include "backends/cpu/program/view.h"
#include "base/stop.h"

namespace quarry::cpu {

namespace {

using kernels::ChainF32;
using kernels::ChainForm;
using kernels::ChainStage;
using kernels::kChainStages;
using kernels::Kernel;
using kernels::kLoopRank;

bool is(const Step &step, Kernel kernel) { return step.kernel == static_cast<std::uint32_t>(kernel); }
bool is_elementwise(const Step &step) { return is(step, Kernel::UnaryF32) || is(step, Kernel::BinaryF32); }

// A loop nest that may still be cut finer. Cuts lie where a number of elements, counted from the innermost, begins
// anew.
class ShortDims {
 public:
  ShortDims() = default;
  ShortDims(const std::int64_t *from, std::size_t size) : size_(size) { std::copy_n(from, size, at_); }
  std::size_t size() const { return size_; }
  const std::int64_t *begin() const { return at_; }
  const std::int64_t *end() const { return at_ + size_; }
  std::int64_t operator[](std::size_t d) const { return at_[d]; }
  friend bool operator==(const ShortDims &a, const ShortDims &b) { return std::ranges::equal(a, b); }

 private:
  std::int64_t at_[kLoopRank] = {};
  std::size_t size_ = 0;
};
struct Walk {
  ShortDims dims;
  Vector<ShortDims> strides;  // per operand; the first is x
};

Vector<std::int64_t> cuts_of(std::span<const std::int64_t> dims) {
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
void refine(Walk &walk, std::span<const std::int64_t> dims) {
  const Vector<std::int64_t> old = cuts_of(walk.dims), now = cuts_of(dims);
  for (ShortDims &strides : walk.strides) {
    std::int64_t finer[kLoopRank] = {};
    for (std::size_t d = 0; d < dims.size(); ++d) {
      for (std::size_t o = 0; o < walk.dims.size(); ++o)
        if (old[o + 1] <= now[d + 1] && now[d + 1] < old[o]) finer[d] = strides[o] * (now[d + 1] / old[o + 1]);
    }
    strides = {finer, dims.size()};
  }
  walk.dims = {dims.data(), dims.size()};
}

// A step, or several as one. Operands are those of the plan: x, those of the stages that have one, y.
struct Link {
  Vector<ChainStage> stages;  // their strides stand in `walk`
  Walk walk;
  Vector<Operand> operands;
  Vector<std::size_t> steps;  // which it does the work of; the last gives it its name and position
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
    const std::int64_t count = p.count, each = 1;
    link.walk.dims = {&count, 1};
    link.walk.strides = {{&each, 1}};
  } else if (is(step, Kernel::BinaryF32)) {
    const auto p = params_of<kernels::BinaryF32>(plan, step);
    stage.op = p.op, stage.act = p.act;
    stage.form = swapped ? ChainForm::OperandFirst : ChainForm::ValueFirst;
    link.walk.dims = {p.dims, p.rank};
    link.walk.strides = {{p.a, p.rank}, {p.b, p.rank}};
    if (swapped) std::swap(link.walk.strides[0], link.walk.strides[1]), std::swap(link.operands[0], link.operands[1]);
  } else {
    return std::nullopt;
  }
  link.stages = {stage};
  return link;
}

// Each stage reads and writes the result: what a later one reads beside it may not lie there (the sum of Sum, Max or
// Min so far).
bool reads_what_it_wrote(const Link &link) {
  const std::size_t first = 1 + (link.stages[0].form != ChainForm::Alone);  // x, and what the first stage reads
  const std::uint32_t written = link.operands.back().value;
  return std::any_of(link.operands.begin() + static_cast<std::ptrdiff_t>(first), link.operands.end() - 1,
                     [written](const Operand &operand) { return operand.value == written; });
}

// `front` and behind it `back`, which takes front's result as its x.
std::optional<Link> joined(const Link &front, const Link &back) {
  const bool bare = front.stages.back().act.kind == kernels::Act::None && back.stages[0].form == ChainForm::Alone;
  if (front.stages.size() + back.stages.size() - bare > kChainStages) return std::nullopt;
  if (!is_row_major(back.walk.dims, back.walk.strides[0])) return std::nullopt;
  Link both = front;
  Walk rest = back.walk;
  if (both.walk.dims != rest.dims || std::ranges::any_of(rest.dims, [](std::int64_t d) { return d <= 1; })) {
    const auto dims = common_dims(both.walk, rest);
    if (!dims) return std::nullopt;
    refine(both.walk, *dims), refine(rest, *dims);
  }
  both.walk.strides.insert(both.walk.strides.end(), rest.strides.begin() + 1, rest.strides.end());
  both.operands.pop_back();
  both.operands.insert(both.operands.end(), back.operands.begin() + 1, back.operands.end());
  both.steps.insert(both.steps.end(), back.steps.begin(), back.steps.end());
  if (bare) both.stages.back().act = back.stages[0].act;
  both.stages.insert(both.stages.end(), back.stages.begin() + bare, back.stages.end());
  if (reads_what_it_wrote(both)) return std::nullopt;
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
    for (std::size_t s = 0; s < plan.steps.size() && !stop_asked(); ++s) {
      const Step &step = plan.steps[s];
      for (std::uint32_t o = 0; o < step.operand_count; ++o) {
        const std::uint32_t value = plan.operands[step.first_operand + o].value;
        // Their check says what other steps write; here only elementwise steps matter, which write their last.
        const bool written = is_elementwise(step) && o + 1 == step.operand_count;
        if (written) ++writers_[value], made_by_[value] = s;
        else ++readers_[value];
      }
    }
  }

  // Those of more than one step, and some of one. Where the work is to stop, what was found until then: compile() asks
  // again after this.
  Vector<Link> find() {
    Vector<Link> links(plan_.steps.size());
    for (std::size_t s = 0; s < plan_.steps.size() && !stop_asked(); ++s) {
      const Step &step = plan_.steps[s];
      if (!is_elementwise(step)) continue;
      std::optional<Link> best;
      for (const bool swapped : {false, true}) {
        if (swapped && step.operand_count != 3) break;
        const std::optional<std::size_t> front = maker_of(plan_.operands[step.first_operand + (swapped ? 1 : 0)], s);
        if (!front) continue;
        if (links[*front].steps.empty()) links[*front] = *link_of(plan_, *front, false);
        std::optional<Link> both = joined(links[*front], *link_of(plan_, s, swapped));
        if (both && (!best || both->steps.size() > best->steps.size())) best = std::move(both);
      }
      if (!best) continue;
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
    if (value.storage != StorageKind::Arena || readers_[operand.value] != 1 || writers_[operand.value] != 1)
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

std::uint64_t bytes_read(const Plan &plan, const Link &link) {  // asks its values alone
  std::uint64_t bytes = 0;
  for (std::size_t o = 0; o < link.walk.strides.size(); ++o) {
    std::uint64_t elements = 1;
    for (std::size_t d = 0; d < link.walk.dims.size(); ++d)
      if (link.walk.strides[o][d] != 0) elements *= static_cast<std::uint64_t>(link.walk.dims[d]);
    bytes += std::min(elements * 4, plan.values[link.operands[o].value].bytes);
  }
  return bytes;
}

// What lay between the steps of a chain is nowhere, and they are one step of all their nodes. `steps`, `operands`: of
// the plan before.
void forget_links(const Vector<Link> &links, std::span<const Step> steps, std::span<const Operand> operands, Plan &plan,
                  NodePathTable &paths) {
  if (stop_asked()) return;
  for (const Link &link : links)
    for (std::size_t i = 0; i + 1 < link.steps.size(); ++i) {
      const Step &step = steps[link.steps[i]];
      plan.values[operands[step.first_operand + step.operand_count - 1].value].bytes = 0;
    }
  if (stop_asked()) return;
  const StepsOfNodes left(plan);
  for (const Link &link : links) {
    if (link.steps.size() < 2) continue;
    if (stop_asked()) return;
    const std::int32_t into = steps[link.steps.back()].source;
    for (const std::size_t s : link.steps) paths.chained(steps[s].source, left.of(steps[s].source), into);
  }
}

}  // namespace

void chain_steps(Plan &plan, NodePathTable &paths) {
  const Vector<Link> links = Chains(plan).find();
  if (stop_asked()) return;
  if (std::ranges::none_of(links, [](const Link &link) { return link.steps.size() > 1; })) return;
  Vector<bool> gone(plan.steps.size(), false);
  for (const Link &link : links)
    for (std::size_t i = 0; i + 1 < link.steps.size(); ++i) gone[link.steps[i]] = true;

  struct {
    decltype(plan.steps) steps;
    decltype(plan.notes) notes;
    decltype(plan.params) params;
    decltype(plan.operands) operands;
  } before;
  before.steps.swap(plan.steps), before.notes.swap(plan.notes);
  before.params.swap(plan.params), before.operands.swap(plan.operands);
  for (std::size_t s = 0; s < before.steps.size(); ++s) {
    if (stop_asked()) return;  // half a plan: compile() asks again after this
    if (gone[s]) continue;
    const Link &link = links[s];
    Step step = before.steps[s];
    StepNote note = before.notes[s];
    std::span<const Operand> operands = std::span(before.operands).subspan(step.first_operand, step.operand_count);
    const bool has_kernel = step.kernel != kReferenceStep && step.kernel != kRegionStep;
    const std::uint8_t *params = has_kernel ? before.params.data() + step.params : nullptr;
    ChainF32 chain;
    if (link.steps.size() > 1) {
      chain = params_of(link);
      params = reinterpret_cast<const std::uint8_t *>(&chain);
      step.kernel = static_cast<std::uint32_t>(Kernel::ChainF32);
      operands = link.operands;
      note.bytes_read = bytes_read(plan, link);
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
  forget_links(links, before.steps, before.operands, plan, paths);
}

}  // namespace quarry::cpu
