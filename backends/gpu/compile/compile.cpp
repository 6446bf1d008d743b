// SPDX-License-Identifier: Apache-2.0
#include "backends/gpu/compile/compile.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu-reference/folder.h"
#include "backends/dynamic/trial_shapes.h"
#include "backends/gpu/lower/quantized.h"
#include "base/checked.h"
#include "base/stop.h"
#include "passes/fuse/compose.h"
#include "passes/passes.h"
#include "passes/shapes/cut.h"
#include "quarry/backend.h"

namespace quarry::gpu {

namespace {

// One kernel where the pieces would be several.
constexpr passes::Composites kComposites = {passes::Composite::Gelu, passes::Composite::GeluTanh,
                                            passes::Composite::LayerNormalization, passes::Composite::RMSNormalization};

// A recurrent operator is unrolled.
constexpr std::int64_t kMostSteps = 128;

// Constants that are no larger are packed though they lie in a segment: few allocations.
constexpr std::uint64_t kSmallConstant = 64 << 10;

bool wants_other_spelling(const qir::Graph &, const qir::Node &node) {
  switch (node.op) {
    case qir::Op::MaxPool: return node.outputs.size() > 1 && node.outputs[1] != qir::kAbsent;
    case qir::Op::ConstantOfShape: return true;
    default: return is_rewritten(node.op);
  }
}

// Its other form, if it has one, is of f32: kernels compute reals of 16 bits so too. (What CastLike gives has a type of
// its own.)
bool has_no_form_of_half(const qir::Graph &, const qir::Node &node) {
  return find_operator(node.op) && is_rewritten(node.op) && node.op != qir::Op::CastLike;
}

Status rewrite(qir::Graph &graph, qir::Store &store, Vector<passes::Composed> &composed) {
  // What a pass that was stopped leaves is for no other to read.
  const auto stopped = [] { return stop_status("compile"); };
  passes::dequantize_nodes(graph, store, computes_quantized);
  QR_RETURN_IF_ERROR(stopped());
  reference::ReferenceFolder folder;
  const auto fold_and_decompose = [&] {
    passes::fold_constants(graph, store, folder,
                           {.wanted = [](qir::Op op) { return op == qir::Op::Cast || op == qir::Op::DequantizeLinear; },
                            .may_grow = true});
    QR_RETURN_IF_ERROR(stopped());
    passes::decompose_unsupported(graph, store, wants_other_spelling, true);
    return stopped();
  };
  QR_RETURN_IF_ERROR(fold_and_decompose());
  if (passes::compute_in_f32(graph, store, has_no_form_of_half)) QR_RETURN_IF_ERROR(fold_and_decompose());
  QR_RETURN_IF_ERROR(stopped());
  passes::fold_batch_normalization(graph, store);
  passes::compose(graph, store, kComposites, &composed);
  QR_RETURN_IF_ERROR(stopped());
  if (std::ranges::any_of(graph.nodes, [](const qir::Node &node) { return node.op == qir::Op::Einsum; })) {
    passes::decompose_spatial(graph, store);
    passes::decompose_matmul(graph, store);  // Einsum of one operand, of more than two
  }
  QR_RETURN_IF_ERROR(passes::einsum_to_matmul(graph, store));
  QR_RETURN_IF_ERROR(stopped());
  passes::unroll_recurrent(graph, store, kMostSteps);
  QR_RETURN_IF_ERROR(stopped());
  passes::remove_no_ops(graph);
  passes::remove_unused(graph);
  return {};
}

std::uint64_t bytes_of(const qir::Tensor &tensor) {
  const auto count = element_count(tensor.shape.data(), tensor.shape.size());
  return count ? packed_size(tensor.dtype, *count).value_or(0) : 0;
}

// What no plan has, though its shapes may be known.
bool is_late(const qir::Node &node) {
  switch (node.op) {
    case qir::Op::Compress:
    case qir::Op::NonMaxSuppression:
    case qir::Op::NonZero:
    case qir::Op::Unique: return true;
    default: return passes::is_control_flow(node) || qir::is_random(node.op);
  }
}

// What the host does (`by_host`, per node), or a plan of the run's: its operators must be ours, or late ones.
void check_dynamic_region(const qir::Graph &region, const Vector<bool> &by_host, HostRegion host_region,
                          Vector<Status> &refused) {
  for (std::size_t n = 0; n < region.nodes.size(); ++n) {
    const qir::Node &node = region.nodes[n];
    if (node.source < 0) continue;
    Status &verdict = refused[index_of(node.source)];
    if (!find_operator(node.op))
      verdict = refuse(ErrorId::backend_op, node, "found an operator that the backend gpu does not have");
    else if (by_host[n] && host_region == HostRegion::Refused && passes::is_control_flow(node))
      verdict =
          refuse(ErrorId::backend_limit, node,
                 "found a body whose iterations or results are data-dependent, expected them known when the model is "
                 "compiled",
                 "option gpu.tail=host has the host run such nodes, and the device all before them");
    else if (host_region == HostRegion::Refused && is_late(node) &&
             std::ranges::all_of(node.outputs, [&](std::int32_t id) {
               return id == qir::kAbsent || passes::known(qir::at(region, id).shape);
             }))
      verdict = refuse(ErrorId::backend_limit, node, "found an operator that has no kernel, expected one that has",
                       "option gpu.tail=host has the host run such nodes, and the device all before them");
    else if (by_host[n] && host_region == HostRegion::Refused)
      verdict = refuse(ErrorId::backend_limit, node,
                       "found data-dependent shapes, expected them known when the model is compiled",
                       "option gpu.tail=host has the host run such nodes, and the device all before them");
  }
}

// Where each of a list stands; what is none of it behind all.
class Positions {
 public:
  explicit Positions(const Vector<std::int32_t> &ids) : count_(static_cast<std::uint32_t>(ids.size())) {
    for (std::uint32_t i = 0; i < count_; ++i) positions_.emplace(ids[i], i);
  }
  std::uint32_t of(std::int32_t id) const {
    const auto found = positions_.find(id);
    return found == positions_.end() ? count_ : found->second;
  }

 private:
  std::uint32_t count_;
  HashMap<std::int32_t, std::uint32_t> positions_;
};

// Its constants are copied, but those of a range, which the segments of the model keep for the plans of all shapes.
Status write_region(const qir::Graph &graph, const passes::Parts &parts, std::span<const qir::Bytes> segments,
                    Compiled &out) {
  DynamicRegion &region = out.region;
  const passes::Part &first = parts.first, &second = parts.second;
  qir::ConstantPool pool;
  region.is_range = !graph.dimensions.empty();
  const auto pool_segment = static_cast<std::uint32_t>(region.is_range ? segments.size() + 1 : 0);
  QR_ASSIGN_OR_RETURN(region.qir, qir::write_graph(second.graph, pool, pool_segment,
                                                   region.is_range ? segments : std::span<const qir::Bytes>()));
  out.region_constants.resize(pool.size());
  if (pool.size() > 0) pool.write_to(out.region_constants.data());
  out.weights_bytes += pool.size();
  for (const qir::Node &node : second.graph.nodes) region.sources.push_back(node.source);
  region.inputs = std::move(out.plan.inputs), region.outputs = std::move(out.plan.outputs);
  out.plan.inputs.clear(), out.plan.outputs.clear();
  const Positions inputs(graph.inputs), made(first.outputs);
  for (const std::int32_t id : first.inputs) {
    region.plan_inputs.push_back(inputs.of(id));
    out.plan.inputs.push_back(region.inputs[region.plan_inputs.back()]);
  }
  for (std::size_t i = 0; i < first.outputs.size(); ++i) {
    const qir::Tensor &tensor = qir::at(graph, first.outputs[i]);
    region.plan_outputs.push_back(first.positions[i] == qir::kAbsent ? kRegionOnly
                                                                     : static_cast<std::uint32_t>(first.positions[i]));
    out.plan.outputs.push_back({tensor.dtype, tensor.shape, tensor.name});
  }
  for (const std::int32_t id : second.inputs) {
    const std::uint32_t given = inputs.of(id), count = static_cast<std::uint32_t>(graph.inputs.size());
    region.reads.push_back(given < count ? given : count + made.of(id));
  }
  region.writes.assign(second.positions.begin(), second.positions.end());
  return {};
}

// What is large and lies in a segment stays there, the rest is packed. Only what a step reads.
void place_constants(const Constants &constants, std::span<const qir::Bytes> segments, Compiled &out) {
  Vector<bool> read(out.plan.values.size(), false);
  for (const Operand &operand : out.plan.operands) read[operand.value] = true;
  const auto segment_of = [&](const qir::Bytes &contents) {
    return std::ranges::find_if(segments, [&](const qir::Bytes &segment) {
      const auto *begin = static_cast<const std::uint8_t *>(segment.data),
                 *at = static_cast<const std::uint8_t *>(contents.data);
      return at >= begin && at < begin + segment.size;
    });
  };
  const auto stays = [&](const Constants::Entry &entry) {
    return entry.contents.size > kSmallConstant && segment_of(entry.contents) != segments.end();
  };
  const bool keep = out.region.is_range || std::ranges::any_of(constants.entries, [&](const auto &entry) {
                      return read[entry.value] && stays(entry);
                    });
  out.kept_segments = keep ? segments.size() : 0;
  for (const Constants::Entry &entry : constants.entries) {
    Value &value = out.plan.values[entry.value];
    if (!read[entry.value]) {
      value.bytes = 0;
      continue;
    }
    out.weights_bytes += entry.contents.size;
    if (stays(entry)) {
      const auto segment = segment_of(entry.contents);
      value.index = static_cast<std::uint32_t>(segment - segments.begin());
      value.offset = static_cast<std::uint64_t>(static_cast<const std::uint8_t *>(entry.contents.data) -
                                                static_cast<const std::uint8_t *>(segment->data));
      continue;
    }
    value.index = static_cast<std::uint32_t>(out.kept_segments);
    value.offset = out.packed.size();
    const auto *bytes = static_cast<const std::uint8_t *>(entry.contents.data);
    out.packed.insert(out.packed.end(), bytes, bytes + entry.contents.size);
    out.packed.resize((out.packed.size() + 63) / 64 * 64);
  }
}

// A plan for some shapes of a range says which nodes are refused, how nodes run and what memory a plan takes.
Status try_shapes(const qir::Graph &graph, std::span<const qir::Bytes> segments, const Target &target,
                  HostRegion host_region, std::string_view prepare, Compiled &out) {
  QR_ASSIGN_OR_RETURN(dynamic::TrialShapes trials, dynamic::TrialShapes::make(graph, prepare));
  Status failed;
  for (bool is_done = false; !is_done;) {
    qir::Graph bound;
    qir::Store store;
    QR_ASSIGN_OR_RETURN(const bool more, trials.next(bound, store));
    if (!more) break;
    Result<Compiled> tried = compile(std::move(bound), segments, target, host_region, out.refused.size());
    QR_RETURN_IF_ERROR(stop_status("compile"));
    if (!tried.ok()) {
      failed = tried.take_status();
      if (trials.all()) return failed;
      continue;
    }
    failed = {};
    const bool is_taken = !is_refused(*tried);
    out.refused = std::move(tried->refused);
    const auto texts = static_cast<std::uint32_t>(out.plan.names.size());
    out.plan.names.insert(out.plan.names.end(), tried->plan.names.begin(), tried->plan.names.end());
    out.plan.paths = std::move(tried->plan.paths);
    for (NodePathRow &row : out.plan.paths) row.text += texts;
    out.weights_bytes = tried->weights_bytes;
    std::uint64_t arena = 0;
    for (const std::uint64_t piece : tried->plan.pieces) arena += piece;
    out.range_arena_bytes = std::max(out.range_arena_bytes, arena);
    is_done = trials.all() ? !is_taken : is_taken;
  }
  return failed;
}

}  // namespace

bool is_planned(const qir::Graph &region, const qir::Graph &rest) noexcept {
  return passes::has_contractions(rest) ||
         std::ranges::any_of(region.inputs, [&](std::int32_t id) { return !passes::known(qir::at(region, id).shape); });
}

Result<Compiled> compile(qir::Graph graph, std::span<const qir::Bytes> segments, const Target &target,
                         HostRegion host_region, std::size_t sources, std::string_view prepare) {
  Compiled out;
  const bool is_range = !graph.dimensions.empty();
  for (const auto &[ids, list] :
       {std::pair{&graph.inputs, &out.plan.inputs}, std::pair{&graph.outputs, &out.plan.outputs}})
    for (const std::int32_t id : *ids) {
      const qir::Tensor &tensor = qir::at(graph, id);
      list->push_back({tensor.dtype, tensor.shape, tensor.name});
      out.io_bytes += bytes_of(tensor);
    }
  if (sources == 0) qir::number_sources(graph);
  Vector<String> names(std::max(sources, graph.nodes.size()));
  for (const qir::Node &node : graph.nodes)
    if (node.source >= 0) names[index_of(node.source)] = node.name;
  out.refused.resize(names.size());
  Vector<NodePathRow> late(names.size());  // of nodes of the dynamic region
  qir::Store store;
  const bool chooses = std::ranges::any_of(graph.nodes, passes::is_control_flow);
  if (!is_range) passes::unfold_control_flow(graph, store, kMostSteps);
  QR_RETURN_IF_ERROR(stop_status("compile"));
  const qir::Graph whole = is_range ? graph : qir::Graph();
  const bool has_region =
      std::ranges::any_of(graph.tensors, [](const auto &tensor) { return !passes::known(tensor.shape); }) ||
      std::ranges::any_of(graph.nodes, is_late);
  if (has_region) {
    // Of a range nothing is planned before a run gives its shapes.
    passes::Parts parts =
        passes::cut(graph, is_range ? Vector<bool>(graph.nodes.size()) : passes::plannable(graph, is_late));
    const qir::Graph &region = parts.second.graph;
    if (!is_range) {
      Vector<bool> by_host = passes::telling(region);
      if (!is_planned(region, passes::cut(region, by_host).second.graph)) by_host.assign(region.nodes.size(), true);
      check_dynamic_region(region, by_host, host_region, out.refused);
      for (std::size_t n = 0; n < region.nodes.size(); ++n)
        if (region.nodes[n].source >= 0)
          late[index_of(region.nodes[n].source)].path = by_host[n] ? QR_PLUGIN_PATH_REFERENCE : QR_PLUGIN_PATH_NATIVE;
    }
    QR_RETURN_IF_ERROR(write_region(graph, parts, segments, out));
    graph = std::move(parts.first.graph);
  }
  Vector<passes::Composed> composed;
  QR_RETURN_IF_ERROR(rewrite(graph, store, composed));
  QR_RETURN_IF_ERROR(stop_status("compile"));
  Constants constants;
  Lowering lowering(graph, store, target, out.plan, constants);
  if (chooses) lowering.leave_indices_unchecked();
  QR_RETURN_IF_ERROR(lowering.run(out.refused));
  lowering.report_paths(names, late);
  if (is_refused(out)) return out;
  QR_RETURN_IF_ERROR(assign_offsets(out.plan));

  place_constants(constants, segments, out);
  if (is_range) QR_RETURN_IF_ERROR(try_shapes(whole, segments, target, host_region, prepare, out));
  return out;
}

}  // namespace quarry::gpu
