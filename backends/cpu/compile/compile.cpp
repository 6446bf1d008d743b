// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/compile/compile.h"
#include "backends/cpu/lower/plan_passes.h"

#include <algorithm>

#include "backends/cpu/compile/ranged.h"
#include "backends/cpu/lower/lowering.h"
#include "backends/cpu/lower/rewrite.h"
#include "base/stop.h"
#include "passes/shapes/cut.h"

namespace quarry::cpu {

namespace {

// Where less than this part of the segments would be read, that is packed too and no segment is kept for it: a
// container without the graph is so much smaller.
constexpr std::uint64_t kWorthKeeping = 16;

std::uint64_t bytes_of(const qir::Tensor &tensor) {
  std::int64_t count = 1;
  for (const std::int64_t extent : tensor.shape) count *= std::max<std::int64_t>(extent, 0);
  return packed_size(tensor.dtype, count).value_or(0);
}

HashMap<std::int32_t, std::size_t> positions_of(const Vector<std::int32_t> &ids) {
  HashMap<std::int32_t, std::size_t> positions;
  for (std::size_t i = 0; i < ids.size(); ++i) positions.emplace(ids[i], i);
  return positions;
}

// What the head's results are in the graph: its outputs, or what the dynamic region reads. Gives where each lies.
Vector<std::uint32_t> settle_io(const qir::Graph &graph, const passes::Part &head, Plan &plan) {
  Vector<std::uint32_t> results(head.outputs.size());
  const HashMap<std::int32_t, std::size_t> inputs = positions_of(graph.inputs);
  for (std::uint32_t v = 0; v < plan.values.size(); ++v) {
    Value &value = plan.values[v];
    if (value.storage == StorageKind::Input) {
      const std::int32_t id = head.inputs[value.index];
      value.index = static_cast<std::uint32_t>(inputs.at(id));
    } else if (value.storage == StorageKind::Output) {
      results[value.index] = v;
      const std::int32_t position = head.positions[value.index];
      if (position == qir::kAbsent) value.storage = StorageKind::Arena, value.index = 0;
      else value.index = static_cast<std::uint32_t>(position);
    }
  }
  return results;
}

// The dynamic region as the last step: it reads what the head made and inputs of the graph, and brings its own memory.
// Its constants are copied, but those of a range, which `segments` keeps: what packs weights anew reads them there.
Status add_region(const qir::Graph &graph, const passes::Parts &parts, const Vector<std::uint32_t> &head_results,
                  qir::ConstantPool &pool, std::span<const qir::Bytes> segments, bool dry_run, Plan &plan) {
  const passes::Part &part = parts.second;
  const bool is_range = !graph.dimensions.empty();
  if (!dry_run) {
    const auto pool_segment = static_cast<std::uint32_t>(is_range ? segments.size() + 1 : 0);
    QR_ASSIGN_OR_RETURN(plan.region.qir, qir::write_graph(part.graph, pool, pool_segment,
                                                          is_range ? segments : std::span<const qir::Bytes>()));
  }
  for (const qir::Node &node : part.graph.nodes) plan.region.sources.push_back(node.source);
  plan.region.inputs = static_cast<std::uint32_t>(part.inputs.size());
  plan.region.outputs = static_cast<std::uint32_t>(part.outputs.size());
  Step step;
  step.kernel = kRegionStep;
  step.first_operand = static_cast<std::uint32_t>(plan.operands.size());
  step.operand_count = plan.region.inputs + plan.region.outputs;
  const auto add = [&](StorageKind storage, std::ptrdiff_t index, std::uint64_t bytes) {
    plan.operands.push_back({static_cast<std::uint32_t>(plan.values.size()), 0, 0});
    plan.values.push_back({storage, static_cast<std::uint32_t>(index), 0, bytes});
  };
  const HashMap<std::int32_t, std::size_t> inputs = positions_of(graph.inputs),
                                           made = positions_of(parts.first.outputs);
  for (const std::int32_t id : part.inputs) {
    if (const auto input = inputs.find(id); input != inputs.end())
      add(StorageKind::Input, static_cast<std::ptrdiff_t>(input->second),
          passes::known(at(graph, id).shape) ? bytes_of(at(graph, id)) : 0);
    else plan.operands.push_back({head_results[made.at(id)], 0, 0});
  }
  for (const std::int32_t position : part.positions) add(StorageKind::Output, position, 0);
  plan.steps.push_back(step);
  plan.notes.emplace_back();  // its nodes have events of their own
  return {};
}

void list_io(const qir::Graph &graph, std::span<const Appended> appended, CompiledPlan &out) {
  for (const auto &[ids, list] :
       {std::pair{&graph.inputs, &out.plan.inputs}, std::pair{&graph.outputs, &out.plan.outputs}}) {
    for (const std::int32_t id : *ids) {
      const qir::Tensor &tensor = qir::at(graph, id);
      list->push_back({tensor.dtype, tensor.shape, tensor.name});
      out.io_bytes += bytes_of(tensor);
    }
  }
  for (const Appended &one : appended) out.plan.outputs[one.output].shape[one.axis] = one.capacity;
}

// What is large and lies in a segment stays there, the rest is packed. Only what a step reads.
Status place_constants(const Constants &constants, std::span<const qir::Bytes> segments, bool is_shared,
                       CompiledPlan &out) {
  Vector<bool> read(out.plan.values.size(), false);
  for (const Operand &operand : out.plan.operands) read[operand.value] = true;
  const auto segment_of = [&](const Constants::Entry &entry) {
    return std::find_if(segments.begin(), segments.end(), [&](const qir::Bytes &segment) {
      const auto *begin = static_cast<const std::uint8_t *>(segment.data),
                 *at = static_cast<const std::uint8_t *>(entry.contents.data);
      return at >= begin && at < begin + segment.size;
    });
  };
  const auto stays = [&](const Constants::Entry &entry) {
    return entry.contents.size > kSmallConstant && segment_of(entry) != segments.end();
  };
  std::uint64_t all = 0, staying = 0;
  for (const qir::Bytes &segment : segments) all += segment.size;
  for (const Constants::Entry &entry : constants.entries)
    if (read[entry.value] && stays(entry)) staying += entry.contents.size;
  const bool keep = is_shared || staying > all / kWorthKeeping;
  out.kept_segments = keep ? segments.size() : 0;
  std::uint64_t packed = 0;
  for (const Constants::Entry &entry : constants.entries) {
    QR_RETURN_IF_ERROR(stop_status("compile"));
    Value &value = out.plan.values[entry.value];
    if (!read[entry.value]) {
      value.bytes = 0;
      continue;
    }
    if (entry.shared) {
      const auto found = std::ranges::find(out.shared, entry.shared);
      value.index = static_cast<std::uint32_t>(out.kept_segments + 2 + index_of(found - out.shared.begin()));
      if (found == out.shared.end()) out.shared.push_back(entry.shared);
      continue;
    }
    if (keep && stays(entry)) {
      const auto inside = segment_of(entry);
      value.index = static_cast<std::uint32_t>(inside - segments.begin());
      value.offset = static_cast<std::uint64_t>(static_cast<const std::uint8_t *>(entry.contents.data) -
                                                static_cast<const std::uint8_t *>(inside->data));
      continue;
    }
    value.index = static_cast<std::uint32_t>(out.kept_segments);
    value.offset = packed;
    packed += (entry.contents.size + kAlign - 1) / kAlign * kAlign;
  }
  out.packed.resize(packed);
  for (const Constants::Entry &entry : constants.entries) {
    QR_RETURN_IF_ERROR(stop_status("compile"));
    const Value &value = out.plan.values[entry.value];
    if (value.bytes > 0 && value.index == out.kept_segments)
      std::memcpy(out.packed.data() + value.offset, entry.contents.data, entry.contents.size);
  }
  return {};
}

Status finish_range(const qir::Graph &graph, std::span<const qir::Bytes> segments, const CompileOptions &options,
                    const NodePathTable &paths, const qir::ConstantPool &pool, CompiledPlan &out) {
  QR_ASSIGN_OR_RETURN(const bool planned, plan_ahead(graph, segments, options, out));
  if (!planned) paths.write(out.plan);
  if (options.dry_run) return {};
  out.kept_segments = segments.size();
  out.subgraph_constants.resize(pool.size());
  if (pool.size() > 0) pool.write_to(out.subgraph_constants.data());
  return {};
}

}  // namespace

Result<CompiledPlan> compile(qir::Graph graph, std::span<const qir::Bytes> segments, const CompileOptions &options) {
  CompiledPlan out;
  out.plan.isa = options.isa;
  out.winograd = options.winograd, out.weights = options.weights;
  out.f32_gemm = options.f32_gemm;
  list_io(graph, options.appended, out);
  for (const qir::Tensor &tensor : graph.tensors)
    if (tensor.is_constant) out.weights_bytes += tensor.data.size;
  if (options.sources == 0) qir::number_sources(graph);
  QR_RETURN_IF_ERROR(stop_status("compile"));
  NodePathTable paths(graph, options.sources);
  QR_RETURN_IF_ERROR(stop_status("compile"));
  qir::Store store;
  Constants constants;
  qir::ConstantPool pool;
  // (Of a range nothing is planned before a run gives its shapes.)
  out.is_range = !graph.dimensions.empty();
  const Vector<bool> early = out.is_range ? Vector<bool>(graph.nodes.size()) : passes::plannable(graph);
  QR_RETURN_IF_ERROR(stop_status("compile"));
  const bool whole =
      std::ranges::all_of(graph.tensors, [](const qir::Tensor &tensor) { return passes::known(tensor.shape); });
  passes::Parts parts;
  if (!whole) parts = passes::cut(graph, early);
  QR_RETURN_IF_ERROR(stop_status("compile"));
  qir::Graph &head = whole ? graph : parts.first.graph;
  if (!whole) out.plan.names.push_back('\0');
  if (!head.outputs.empty()) {
    QR_RETURN_IF_ERROR(rewrite(head, store, paths, options));
    Lowering lowering(head, out.plan, constants, pool, paths, options);
    QR_RETURN_IF_ERROR(lowering.run());
    out.refusals_with_trace = lowering.traces();
  }
  if (!whole) {
    const Vector<std::uint32_t> results = settle_io(graph, parts.first, out.plan);
    QR_RETURN_IF_ERROR(add_region(graph, parts, results, pool, segments, options.dry_run, out.plan));
    paths.region(parts.second.graph);
  }
  if (out.is_range) {
    QR_RETURN_IF_ERROR(finish_range(graph, segments, options, paths, pool, out));
    return out;
  }
  QR_RETURN_IF_ERROR(stop_status("compile"));
  chain_steps(out.plan, paths);
  QR_RETURN_IF_ERROR(stop_status("compile"));
  read_float16(out.plan, paths);
  QR_RETURN_IF_ERROR(stop_status("compile"));
  fuse_quantized_functions(out.plan, paths);
  QR_RETURN_IF_ERROR(stop_status("compile"));
  options.again ? paths.write_steps(out.plan) : paths.write(out.plan);
  QR_RETURN_IF_ERROR(stop_status("compile"));
  if (options.dry_run) return out;
  assign_offsets(out.plan);
  QR_RETURN_IF_ERROR(stop_status("compile"));

  QR_RETURN_IF_ERROR(place_constants(constants, segments, options.shared != nullptr, out));
  out.subgraph_constants.resize(pool.size());
  if (pool.size() > 0) pool.write_to(out.subgraph_constants.data());
  // Subgraphs were written with their constants in segment 0; blob.cpp gives the reader just that segment.
  return out;
}

}  // namespace quarry::cpu
