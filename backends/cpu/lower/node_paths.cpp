// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/lower/node_paths.h"

#include <algorithm>

#include "backends/cpu-reference/coverage.h"
#include "base/stop.h"
#include "passes/shapes/cut.h"

namespace quarry::cpu {

using kernels::Kernel;

NodePathTable::NodePathTable(const qir::Graph &given, std::size_t sources)
    : paths_(std::max(given.nodes.size(), sources)) {
  for (const qir::Node &node : given.nodes)
    if (Entry *const entry = of(node.source)) entry->name = node.name, entry->op = node.op;
}

NodePathTable::Entry *NodePathTable::of(std::int32_t source) {
  return source < 0 || index_of(source) >= paths_.size() ? nullptr : &paths_[index_of(source)];
}

void NodePathTable::add(Entry &entry, String kernel) {
  if (std::ranges::find(entry.kernels, kernel) == entry.kernels.end()) entry.kernels.push_back(std::move(kernel));
}

void NodePathTable::composed(const Vector<passes::Composed> &found) {
  for (const passes::Composed &one : found)
    for (const std::int32_t piece : one.pieces) fused(piece, one.node);
}

void NodePathTable::steps(std::int32_t source, std::span<const Step> made) {
  Entry *const entry = of(source);
  if (!entry) return;
  constexpr auto kCopy = static_cast<std::uint32_t>(Kernel::Copy);
  // Copies bring operands into the form that a kernel wants; where there is nothing else they are the work.
  const bool only_copies = std::ranges::all_of(made, [](const Step &step) { return step.kernel == kCopy; });
  for (const Step &step : made) {
    if (step.kernel == kCopy && !only_copies) continue;
    entry->native = true;
    add(*entry, kernels::kernel_row(static_cast<Kernel>(step.kernel)).name);
  }
  entry->view |= made.empty();
}

void NodePathTable::reference(std::int32_t source, qir::Op op) {
  Entry *const entry = of(source);
  if (!entry) return;
  entry->reference = true;
  add(*entry, reference::path_of(op));
}

void NodePathTable::fused(std::int32_t source, std::int32_t into) {
  if (Entry *const entry = of(source); entry && into != source) entry->into = into;
}

void NodePathTable::chained(std::int32_t source, std::span<const Step> left, std::int32_t into) {
  Entry *const entry = of(source);
  if (!entry || entry->reference) return;
  entry->native = false;
  entry->kernels.clear();
  if (left.empty()) fused(source, into);
  else steps(source, left);
}

void NodePathTable::region(const qir::Graph &part) {
  const Vector<bool> tells = passes::telling(part);
  const bool planned = passes::has_contractions(passes::cut(part, tells).second.graph);
  for (std::size_t n = 0; n < part.nodes.size(); ++n) {
    Entry *const entry = of(part.nodes[n].source);
    if (!entry) continue;
    entry->late = true;
    if (tells[n] || !planned) reference(part.nodes[n].source, part.nodes[n].op);
    else entry->native = true, add(*entry, "planned when they are known");
  }
}

// Whose step each is in the end; itself where it went into none.
Vector<std::size_t> NodePathTable::ends() const {
  constexpr std::size_t kUnknown = SIZE_MAX, kVisiting = SIZE_MAX - 1;
  Vector<std::size_t> ends(paths_.size(), kUnknown), met;
  for (std::size_t i = 0; i < paths_.size() && !stop_asked(); ++i) {
    std::size_t node = i;
    const auto goes_on = [&] {
      const Entry &entry = paths_[node];
      return ends[node] == kUnknown && !entry.native && !entry.reference && entry.into != qir::kNoSource;
    };
    for (met.clear(); goes_on(); node = index_of(paths_[node].into)) ends[node] = kVisiting, met.push_back(node);
    const std::size_t end = ends[node] < kVisiting ? ends[node] : node;  // (a circle ends where it closes)
    ends[node] = end;
    for (const std::size_t one : met) ends[one] = end;
  }
  return ends;
}

// Each step says which other nodes it does the work of. Of several steps of a node that is the last one that is no
// copy.
void NodePathTable::write_fused(Plan &plan, const Vector<std::size_t> &in) const {
  Vector<String> fused(paths_.size());
  for (std::size_t i = 0; i < paths_.size() && !stop_asked(); ++i)
    if (in[i] != i) fused[in[i]].append(fused[in[i]].empty() ? "" : ", ").append(paths_[i].name);
  for (std::size_t s = plan.steps.size(); s-- > 0 && !stop_asked();) {
    const Step &step = plan.steps[s];
    if (step.source < 0 || step.kernel == static_cast<std::uint32_t>(Kernel::Copy)) continue;
    String &text = fused[index_of(step.source)];
    if (text.empty()) continue;
    plan.notes[s].fused = static_cast<std::uint32_t>(plan.names.size());
    plan.names.insert(plan.names.end(), text.begin(), text.end());
    plan.names.push_back('\0');
    text.clear();
  }
}

void NodePathTable::write_steps(Plan &plan) const {
  write_fused(plan, ends());
  if (plan.names.empty()) plan.names.push_back('\0');
  plan.paths.resize(paths_.size());  // (of the first of the names)
}

void NodePathTable::write(Plan &plan) const {
  const Vector<std::size_t> in = ends();
  if (stop_asked()) return;  // compile() asks too
  write_fused(plan, in);
  StringMap<std::uint32_t> known;
  for (std::size_t i = 0; i < paths_.size() && !stop_asked(); ++i) {
    const Entry &entry = paths_[i];
    NodePathRow out;
    String text;
    if (entry.native || entry.reference) {
      out.path = entry.reference ? NodePath::Reference : NodePath::Native;
      if (entry.late) text = "data-dependent shape: ";
      for (const String &kernel : entry.kernels) (text += &kernel == entry.kernels.data() ? "" : ", ") += kernel;
    } else if (entry.into != qir::kNoSource) {
      text = format("fused into %s", paths_[in[i]].name);
    } else {
      text = entry.view ? "no work: a view" : "no work: computed when compiled";
    }
    const auto [at, added] = known.emplace(text, static_cast<std::uint32_t>(plan.names.size()));
    if (added) {
      plan.names.insert(plan.names.end(), text.begin(), text.end());
      plan.names.push_back('\0');
    }
    out.text = at->second;
    plan.paths.push_back(out);
  }
}

}  // namespace quarry::cpu
