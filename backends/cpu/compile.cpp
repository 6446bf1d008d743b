// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/compile.h"

#include <algorithm>

#include "backends/cpu/lowering.h"
#include "backends/cpu/rewrite.h"

namespace quarry::cpu {

namespace {

constexpr std::uint64_t kAlign = 64;
// Constants of kept segments that are no larger are packed too: reading a few of their bytes there may bring 2 MB
// around them into memory.
constexpr std::uint64_t kSmallConstant = 64 << 10;
// Where less than this part of the segments would be read, that is packed too and no segment is kept for it: a
// container without the graph is so much smaller.
constexpr std::uint64_t kWorthKeeping = 16;

bool known(const qir::Graph &graph) {
  return std::all_of(graph.tensors.begin(), graph.tensors.end(), [](const qir::Tensor &tensor) {
    return std::none_of(tensor.shape.begin(), tensor.shape.end(), [](std::int64_t extent) { return extent < 0; });
  });
}

std::uint64_t bytes_of(const qir::Tensor &tensor) {
  std::int64_t count = 1;
  for (const std::int64_t extent : tensor.shape) count *= std::max<std::int64_t>(extent, 0);
  return packed_size(tensor.dtype, count).value_or(0);
}

// The whole graph as one subgraph for cpu-reference: extents that are known only at run time have no place in a plan.
void whole_graph(const qir::Graph &graph, qir::Bytes qir, Plan &plan) {
  ReferenceSubgraph subgraph;
  const std::uint8_t *bytes = static_cast<const std::uint8_t *>(qir.data);
  subgraph.qir.assign(bytes, bytes + qir.size);
  subgraph.whole = true;
  subgraph.inputs = static_cast<std::uint32_t>(graph.inputs.size());
  subgraph.outputs = static_cast<std::uint32_t>(graph.outputs.size());
  Step step;
  step.kernel = kReferenceStep;
  step.operand_count = subgraph.inputs + subgraph.outputs;
  plan.names.push_back('\0');
  for (std::uint32_t i = 0; i < subgraph.inputs; ++i) plan.values.push_back({Place::Input, i, 0, 0});
  for (std::uint32_t i = 0; i < subgraph.outputs; ++i) plan.values.push_back({Place::Output, i, 0, 0});
  for (std::uint32_t v = 0; v < step.operand_count; ++v) plan.operands.push_back({v, 0, 0});
  plan.subgraphs.push_back(std::move(subgraph));
  plan.steps.push_back(step);
  plan.notes.emplace_back();  // its nodes have events of their own
}

}  // namespace

Result<CompiledPlan> compile(qir::Graph graph, qir::Bytes qir, std::span<const qir::Bytes> segments,
                             const CompileOptions &options) {
  CompiledPlan out;
  out.plan.isa = options.isa;
  for (const auto &[ids, list] :
       {std::pair{&graph.inputs, &out.plan.inputs}, std::pair{&graph.outputs, &out.plan.outputs}}) {
    for (const std::int32_t id : *ids) {
      const qir::Tensor &tensor = qir::at(graph, id);
      list->push_back({tensor.dtype, tensor.shape, tensor.name});
      out.io_bytes += bytes_of(tensor);
    }
  }
  for (const qir::Tensor &tensor : graph.tensors)
    if (tensor.is_constant) out.weights_bytes += tensor.data.size;
  qir::number_sources(graph);
  Ways ways(graph);
  if (!known(graph)) {
    out.kept_segments = segments.size();
    whole_graph(graph, qir, out.plan);
    ways.all_reference();
    ways.write(out.plan);
    return out;
  }
  qir::Store store;
  Constants constants;
  qir::ConstantPool pool;
  QR_RETURN_IF_ERROR(rewrite(graph, store, ways, options.look_only));
  Lowering lowering(graph, out.plan, constants, pool, ways, options);
  QR_RETURN_IF_ERROR(lowering.run());
  ways.write(out.plan);
  if (options.look_only) return out;
  place_values(out.plan);

  // Constants: what is large and lies in a segment stays there, the rest is packed. Only what a step reads.
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
  const bool keep = staying > all / kWorthKeeping;
  out.kept_segments = keep ? segments.size() : 0;
  std::uint64_t packed = 0;
  for (const Constants::Entry &entry : constants.entries) {
    Value &value = out.plan.values[entry.value];
    if (!read[entry.value]) {
      value.bytes = 0;
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
    const Value &value = out.plan.values[entry.value];
    if (value.bytes > 0 && value.index == out.kept_segments)
      std::memcpy(out.packed.data() + value.offset, entry.contents.data, entry.contents.size);
  }
  out.subgraph_constants.resize(pool.size());
  if (pool.size() > 0) pool.write_to(out.subgraph_constants.data());
  // Subgraphs were written with their constants in segment 0; blob.cpp gives the reader just that segment.
  return out;
}

}  // namespace quarry::cpu
