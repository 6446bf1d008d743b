// SPDX-License-Identifier: Apache-2.0
#include "backends/gpu/compile.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu-reference/folder.h"
#include "backends/gpu/lower/quantized.h"
#include "base/checked.h"
#include "passes/compose.h"
#include "passes/passes.h"

namespace quarry::gpu {

namespace {

// One kernel where the pieces would be several.
constexpr passes::Composites kComposites = {passes::Composite::Gelu, passes::Composite::GeluTanh,
                                            passes::Composite::LayerNormalization, passes::Composite::RMSNormalization};

// A recurrent operator is written out step by step.
constexpr std::int64_t kMostSteps = 128;

// Constants that are no larger are packed though they lie in a segment: few allocations.
constexpr std::uint64_t kSmallConstant = 64 << 10;

bool wants_other_spelling(const qir::Graph &, const qir::Node &node) {
  switch (node.op) {
    case qir::Op::MaxPool: return node.outputs.size() > 1 && node.outputs[1] != qir::kAbsent;
    default: return is_rewritten(node.op);
  }
}

Status rewrite(qir::Graph &graph, qir::Store &store, Vector<passes::Composed> &composed) {
  passes::take_apart_quantized(graph, store, computes_quantized);
  reference::ReferenceFolder folder;
  passes::fold_constants(
      graph, store, folder,
      {.wanted = [](qir::Op op) { return op == qir::Op::Cast || op == qir::Op::DequantizeLinear; }, .may_grow = true});
  passes::spell_out(graph, store, wants_other_spelling);
  passes::fold_batch_normalization(graph, store);
  passes::compose(graph, store, kComposites, &composed);
  if (std::ranges::any_of(graph.nodes, [](const qir::Node &node) { return node.op == qir::Op::Einsum; }))
    passes::fewer_axes(graph, store);  // of one operand, of more than two
  QR_RETURN_IF_ERROR(passes::einsum_to_matmul(graph, store));
  passes::unroll_recurrent(graph, store, kMostSteps);
  passes::remove_no_ops(graph);
  passes::remove_unused(graph);
  return {};
}

std::uint64_t bytes_of(const qir::Tensor &tensor) {
  const auto count = element_count(tensor.shape.data(), tensor.shape.size());
  return count ? packed_size(tensor.dtype, *count).value_or(0) : 0;
}

}  // namespace

Result<Compiled> compile(qir::Graph graph, std::span<const qir::Bytes> segments, bool has_doubles) {
  Compiled out;
  for (const auto &[ids, list] :
       {std::pair{&graph.inputs, &out.plan.inputs}, std::pair{&graph.outputs, &out.plan.outputs}})
    for (const std::int32_t id : *ids) {
      const qir::Tensor &tensor = qir::at(graph, id);
      list->push_back({tensor.dtype, tensor.shape, tensor.name});
      out.io_bytes += bytes_of(tensor);
    }
  qir::number_sources(graph);
  Vector<String> names;
  for (const qir::Node &node : graph.nodes) names.push_back(node.name);
  out.refused.resize(graph.nodes.size());
  qir::Store store;
  Vector<passes::Composed> composed;
  QR_RETURN_IF_ERROR(rewrite(graph, store, composed));
  Constants constants;
  Lowering lowering(graph, store, has_doubles, out.plan, constants);
  QR_RETURN_IF_ERROR(lowering.run(out.refused));
  lowering.tell_ways(names);
  if (std::ranges::any_of(out.refused, [](const Status &status) { return !status.ok(); })) return out;
  QR_RETURN_IF_ERROR(place_values(out.plan));

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
  const bool keep =
      std::ranges::any_of(constants.entries, [&](const auto &entry) { return read[entry.value] && stays(entry); });
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
  return out;
}

bool form_of(const Plan &plan, const Step &step, Vector<StepOperand> &operands, Form &out) {
  if (step.kernel >= static_cast<std::uint32_t>(Kernel::Count) || step.operand_count > kMaxOperands ||
      !range_fits(step.first_operand, step.operand_count, plan.operands.size()) ||
      !range_fits(step.first_code, step.code_count, plan.code.size()))
    return false;
  out.kernel = static_cast<Kernel>(step.kernel);
  const std::size_t fields = field_count(kernel_row(out.kernel));
  const std::span<const std::int32_t> numbers = plan.numbers;
  if (!range_fits(step.numbers, fields + 1, numbers.size())) return false;
  out.fields = numbers.subspan(step.numbers, fields);
  const std::int32_t rank = numbers[step.numbers + fields];
  if (rank < 0 || rank > static_cast<std::int32_t>(kMaxRank)) return false;
  const std::size_t r = static_cast<std::size_t>(rank), at = step.numbers + fields + 1;
  if (!range_fits(at, r * (step.operand_count + 1u), numbers.size())) return false;
  out.nest = Nest();
  out.nest.rank = static_cast<std::uint32_t>(rank);
  std::copy_n(numbers.begin() + static_cast<std::ptrdiff_t>(at), r, out.nest.dims);
  operands.clear();
  for (std::size_t i = 0; i < step.operand_count; ++i) {
    const Operand &operand = plan.operands[step.first_operand + i];
    const auto dtype = dtype_from_number(operand.dtype);
    if (!dtype || operand.value >= plan.values.size()) return false;
    operands.push_back({*dtype, operand.offset});
    std::copy_n(numbers.begin() + static_cast<std::ptrdiff_t>(at + r * (i + 1)), r, out.nest.strides[i]);
  }
  out.operands = operands;
  out.code = std::span(plan.code).subspan(step.first_code, step.code_count);
  return true;
}

}  // namespace quarry::gpu
