// SPDX-License-Identifier: Apache-2.0
#include "prepare/low_rank.h"

#include <algorithm>

#include "base/stop.h"
#include "passes/edit.h"
#include "prepare/prepare_api.h"

namespace quarry::prepare {
namespace {

using qir::at;
using qir::Op;

// A node whose weights an adapter can change, or could if it were not for `refused`.
struct Site {
  std::size_t node = 0;
  String name;
  std::int64_t from = 0, to = 0;  // K and N
  bool by_point = false;          // Conv: channels are axis 1
  const char *refused = nullptr;
};

bool all_are(const Vector<std::int64_t> *values, std::int64_t expected) {
  return !values || std::ranges::all_of(*values, [&](std::int64_t value) { return value == expected; });
}

// Whether x W is what the node computes, and of which sizes.
bool is_site(const qir::Graph &graph, const qir::Node &node, Site *out) {
  const qir::Shape &weights = at(graph, node.inputs[1]).shape;
  switch (node.op) {
    case Op::MatMul:
      if (weights.size() != 2) return false;
      out->from = weights[0], out->to = weights[1];
      return true;
    case Op::Gemm: {
      const bool turned = node.get_int("transB", 0) != 0;
      out->from = weights[turned ? 1 : 0], out->to = weights[turned ? 0 : 1];
      if (node.get_int("transA", 0) != 0) out->refused = "it reads its first operand transposed (transA)";
      if (node.get_float("alpha", 1) != 1) out->refused = "it scales its product (alpha)";
      return true;
    }
    case Op::MatMulNBits: out->from = node.get_int("K", 0), out->to = node.get_int("N", 0); return true;
    case Op::Conv: {
      if (weights.size() < 3 || node.get_int("group", 1) != 1 || !all_are(node.get_ints("strides"), 1) ||
          !all_are(node.get_ints("pads"), 0) ||
          !std::all_of(weights.begin() + 2, weights.end(), [](std::int64_t extent) { return extent == 1; }))
        return false;
      out->from = weights[1], out->to = weights[0], out->by_point = true;
      const qir::Shape &image = at(graph, node.inputs[0]).shape;
      if (std::any_of(image.begin() + 2, image.end(), [](std::int64_t extent) { return extent < 0; }))
        out->refused = "the size of its images is not known, expected numbers";
      return true;
    }
    default: return false;
  }
}

bool takes_off(std::string_view *name, std::string_view end) {
  if (!name->ends_with(end) || name->size() == end.size()) return false;
  name->remove_suffix(end.size());
  return true;
}

// "model.layers.0.attn.q_proj": of the initializer, or of the node.
String name_of(const qir::Graph &graph, const qir::Node &node, bool whole) {
  std::string_view name = at(graph, node.inputs[1]).name;
  if (takes_off(&name, ".weight")) {
    if (!whole) takes_off(&name, ".MatMul");
    return String(name);
  }
  name = node.name;
  while (name.starts_with('/')) name.remove_prefix(1);
  const std::size_t last = name.find_last_of('/');
  if (!whole && last != name.npos) {
    const std::string_view end = name.substr(last + 1);
    if (end.starts_with("MatMul") || end.starts_with("Gemm") || end.starts_with("Conv")) name = name.substr(0, last);
  }
  String dotted(name);
  std::ranges::replace(dotted, '/', '.');
  return dotted;
}

bool fits(std::string_view pattern, std::string_view name) {
  std::size_t p = 0, n = 0, star = pattern.npos, from = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') star = p++, from = n;
    else if (p < pattern.size() && pattern[p] == name[n]) ++p, ++n;
    else if (star != pattern.npos) p = star + 1, n = ++from;
    else return false;
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

bool fits_whole_or_end(std::string_view pattern, std::string_view name) {
  while (!fits(pattern, name)) {
    const std::size_t dot = name.find('.');
    if (dot == name.npos) return false;
    name.remove_prefix(dot + 1);
  }
  return true;
}

// Nodes of the graph itself, in order; those of bodies stay as they are.
Vector<Site> find_sites(const qir::Graph &graph) {
  Vector<bool> fixed(graph.tensors.size());
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) fixed[i] = graph.tensors[i].is_constant;
  const auto is_fixed = [&](std::int32_t id) { return id == qir::kAbsent || fixed[index_of(id)]; };
  Vector<Site> sites;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const qir::Node &node = graph.nodes[i];
    if (!node.inputs.empty() && node.subgraphs.empty() && node.op != Op::Custom && !qir::is_random(node.op) &&
        std::ranges::all_of(node.inputs, is_fixed)) {
      for (const std::int32_t made : node.outputs)
        if (made != qir::kAbsent) fixed[index_of(made)] = true;
      continue;
    }
    Site site;
    site.node = i;
    if (node.inputs[1] == qir::kAbsent || !is_fixed(node.inputs[1]) || !is_site(graph, node, &site)) continue;
    const qir::Tensor &x = at(graph, node.inputs[0]), &y = at(graph, node.outputs[0]);
    if (x.quant || y.quant) site.refused = "its activations are quantised, expected reals: quantise weights alone";
    else if (y.dtype != DType::F32 && y.dtype != DType::F16 && y.dtype != DType::BF16)
      site.refused = "its numbers are not f32, f16 or bf16";
    site.name = name_of(graph, node, false);
    sites.push_back(std::move(site));
  }
  // One weight that several nodes read is one; different ones of one module go by their nodes' own names.
  StringMap<std::int32_t> weights;
  StringSet shared;
  for (const Site &site : sites) {
    const std::int32_t weight = graph.nodes[site.node].inputs[1];
    if (weights.emplace(site.name, weight).first->second != weight) shared.insert(site.name);
  }
  for (Site &site : sites)
    if (shared.contains(site.name)) site.name = name_of(graph, graph.nodes[site.node], true);
  return sites;
}

Status no_site(std::string_view pattern, const Vector<Site> &sites) {
  constexpr std::size_t kShown = 12;
  String names;
  for (std::size_t i = 0; i < sites.size() && i < kShown; ++i)
    names += format("%s%s", i ? ", " : "", printable(sites[i].name));
  if (sites.size() > kShown) names += format(" and %zu more", sites.size() - kShown);
  return Status::errorf(ErrorId::bad_option_value,
                        "option adapter.targets: found no weight '%s', expected one of those that adapters can change: "
                        "%s",
                        printable(pattern), names.empty() ? "none" : names.c_str())
      .with("option", "adapter.targets");
}

Status refusal(const Vector<Site> &sites, const Vector<bool> &chosen) {
  Status status;
  for (std::size_t i = 0; i < sites.size(); ++i) {
    if (!chosen[i] || !sites[i].refused) continue;
    const String reason = format("weight %s: %s", printable(sites[i].name), sites[i].refused);
    if (status.ok())
      status = Status::errorf(ErrorId::bad_adapter_target, "option adapter.targets: %s", reason)
                   .with("option", "adapter.targets");
    status.with("reason", reason);
  }
  return status;
}

class Writing : passes::Rewriting {
 public:
  Writing(qir::Graph &to, qir::Store &constants, std::int64_t rank) : Rewriting(to, constants), rank_(rank) {}

  Status run(const Vector<Site> &sites, const Vector<bool> &chosen) {
    std::size_t next = 0;
    for (std::size_t i = 0; i < old.size() && !stop_asked(); ++i) {
      const Site *const site = next < sites.size() && sites[next].node == i ? &sites[next] : nullptr;
      const bool is_chosen = site && chosen[next];
      next += site != nullptr;
      if (is_chosen) QR_RETURN_IF_ERROR(write(std::move(old[i]), *site));
      else keep(std::move(old[i]));
    }
    return stop_status("adding room for adapters");
  }

 private:
  Status write(qir::Node node, const Site &site) {
    const std::int32_t x = node.inputs[0], y = node.outputs[0];
    const DType dtype = at(graph, y).dtype;
    const qir::Shape given = at(graph, x).shape, made = at(graph, y).shape;
    std::int32_t a = qir::kAbsent, b = qir::kAbsent;
    QR_RETURN_IF_ERROR(
        input('A', site, dtype, site.by_point ? qir::Shape{rank_, site.from, 1, 1} : qir::Shape{site.from, rank_}, &a));
    QR_RETURN_IF_ERROR(
        input('B', site, dtype, site.by_point ? qir::Shape{site.to, rank_, 1, 1} : qir::Shape{rank_, site.to}, &b));
    const std::int32_t whole = tensor(at(graph, y).name, dtype, made);
    node.outputs.set(0, whole);
    keep(qir::Node(node));
    std::int32_t update;
    if (site.by_point) {
      std::int64_t points = 1;
      for (std::size_t i = 2; i < given.size(); ++i) points *= given[i];
      const std::int32_t flat = reshaped(node, x, {0, 0, -1}, {given[0], given[1], points});
      const std::int32_t low =
          product(node, reshaped(node, a, {0, 0}, {rank_, site.from}), flat, {given[0], rank_, points});
      const std::int32_t high =
          product(node, reshaped(node, b, {0, 0}, {site.to, rank_}), low, {made[0], made[1], points});
      qir::Shape back{0, 0};
      back.insert(back.end(), made.begin() + 2, made.end());
      update = reshaped(node, high, back, made);
    } else {
      qir::Shape low = given;
      low.back() = rank_;
      update = product(node, product(node, x, a, low), b, made);
    }
    emit(Op::Add, node, {whole, update}, y);
    return {};
  }
  std::int32_t product(const qir::Node &like, std::int32_t left, std::int32_t right, const qir::Shape &shape) {
    const std::int32_t made = tensor(like.name + "/adapter", at(graph, right).dtype, shape);
    emit(Op::MatMul, like, {left, right}, made);
    return made;
  }
  std::int32_t reshaped(const qir::Node &like, std::int32_t id, const qir::Shape &to, const qir::Shape &shape) {
    const DType dtype = at(graph, id).dtype;
    const std::int32_t made = tensor(like.name + "/adapter", dtype, shape);
    const std::int32_t dims = integers(like.name + "/adapter", to);
    emit(Op::Reshape, like, {id, dims}, made);
    return made;
  }
  // The graph's input, which two nodes of one weight share.
  Status input(char half, const Site &site, DType dtype, const qir::Shape &shape, std::int32_t *out) {
    const String name = format(QR_ADAPTER_INPUT "%c.%s", half, site.name);
    const auto [at_place, is_new] = inputs_.emplace(name, qir::kAbsent);
    if (is_new) {
      const std::int32_t id = tensor(name, dtype, shape);
      if (at(graph, id).name != name)
        return Status::errorf(
                   ErrorId::bad_adapter_target,
                   "option adapter.targets: the graph has a tensor %s already, expected that name to be free",
                   printable(name))
            .with("option", "adapter.targets");
      at_place->second = id;
      graph.inputs.push_back(id);
    }
    *out = at_place->second;
    if (at(graph, *out).shape != shape || at(graph, *out).dtype != dtype)
      return Status::errorf(ErrorId::bad_adapter_target,
                            "option adapter.targets: two weights go by the name %s, with %lld to %lld numbers here, "
                            "expected a name for each",
                            printable(site.name), site.from, site.to)
          .with("option", "adapter.targets");
    return {};
  }

  const std::int64_t rank_;
  StringMap<std::int32_t> inputs_;
};

}  // namespace

Status add_low_rank(qir::Graph &graph, qir::Store &store, const LowRank &wanted) {
  const Vector<Site> sites = find_sites(graph);
  Vector<bool> chosen(sites.size());
  for (const std::string_view pattern : wanted.patterns) {
    bool any = false;
    for (std::size_t i = 0; i < sites.size(); ++i)
      if (fits_whole_or_end(pattern, sites[i].name)) any = chosen[i] = true;
    if (!any) return no_site(pattern, sites);
  }
  QR_RETURN_IF_ERROR(refusal(sites, chosen));
  return Writing(graph, store, wanted.rank).run(sites, chosen);
}

}  // namespace quarry::prepare
