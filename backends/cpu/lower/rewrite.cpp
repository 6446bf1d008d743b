// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/lower/rewrite.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu-reference/folder.h"
#include "backends/cpu/lower/quantized_nodes.h"
#include "base/checked.h"
#include "base/stop.h"
#include "kernels/reference/widen.h"

namespace quarry::cpu {

namespace {

// What is large: who looks at that alone, or has it already, computes it by itself.
constexpr std::uint64_t kSmall = 4096;
std::optional<std::uint64_t> bytes_of(const qir::Tensor &tensor) {
  const auto count = element_count(tensor.shape.data(), tensor.shape.size());
  return count ? packed_size(tensor.dtype, *count) : std::nullopt;
}

// Zeros for what is large: who only looks does not read it.
class Blanks final : public qir::Folder {
 public:
  bool fold(const qir::Graph &graph, const qir::Node &node, qir::Store &store,
            Vector<qir::Constant> *outputs) override {
    const qir::Tensor &made = at(graph, node.outputs[0]);
    const auto bytes = bytes_of(made);
    if (!bytes || *bytes <= kSmall) return folder_.fold(graph, node, store, outputs);
    void *const zeros = store.allocate(*bytes);
    std::memset(zeros, 0, *bytes);
    outputs->push_back({made.dtype, made.shape, {zeros, *bytes}});
    return true;
  }

 private:
  reference::ReferenceFolder folder_;
};

// What another plan of the range has computed is not computed again.
class ComputedOnce final : public qir::Folder {
 public:
  explicit ComputedOnce(SharedWeights &shared) : shared_(shared) {}
  bool fold(const qir::Graph &graph, const qir::Node &node, qir::Store &store,
            Vector<qir::Constant> *outputs) override {
    const qir::Tensor &made = at(graph, node.outputs[0]);
    const auto bytes = bytes_of(made);
    if (!bytes || *bytes <= kSmall || node.outputs.size() != 1) return folder_.fold(graph, node, store, outputs);
    // What the shapes of a run decide is another constant in each plan.
    const String from = shared_.name_of(at(graph, node.inputs[0]).data);
    if (from[0] == '#') return folder_.fold(graph, node, store, outputs);
    const String key = key_of(graph, node);
    SharedBytes block = shared_.computed(key);
    if (!block || block->bytes().size != *bytes) {
      qir::Store own;
      Vector<qir::Constant> results;
      if (!folder_.fold(graph, node, own, &results) || stop_asked()) return false;  // (what was stopped is not whole)
      if (results[0].data.size != *bytes) return folder_.fold(graph, node, store, outputs);
      block = shared_.keep_computed(key, results[0].data);
    }
    outputs->push_back({made.dtype, made.shape, block->bytes()});
    return true;
  }

 private:
  // The operator, its attributes and what it reads.
  String key_of(const qir::Graph &graph, const qir::Node &node) const {
    String key = qir::op_name(node.op);
    for (const qir::Attribute &attribute : node.attributes) {
      (key += ' ') += attribute.name;
      append_number(&key, '=', attribute.i);
      key += attribute.s;
    }
    for (const std::int32_t id : node.inputs) {
      const qir::Tensor &read = at(graph, id);
      append_number(&key, ' ', static_cast<std::int64_t>(read.dtype));
      for (const std::int64_t extent : read.shape) append_number(&key, 'x', extent);
      if (read.data.size > 0) (key += ' ') += shared_.name_of(read.data);
    }
    append_number(&key, '>', static_cast<std::int64_t>(at(graph, node.outputs[0]).dtype));
    return key;
  }

  SharedWeights &shared_;
  reference::ReferenceFolder folder_;
};

// The kernel takes it whole: scores are neither shown nor capped, and what is there is f32.
bool keeps_attention(const qir::Graph &graph, const qir::Node &node) {
  if (node.op != qir::Op::Attention || node.get_float("softcap", 0) > 0 ||
      (node.outputs.size() > 3 && node.outputs[3] != qir::kAbsent))
    return false;
  for (const std::int32_t id : {node.inputs[0], node.inputs[1], node.inputs[2], node.inputs[4], node.inputs[5]})
    if (id != qir::kAbsent &&
        (at(graph, id).dtype != DType::F32 || at(graph, id).quant || bytes_of(at(graph, id)).value_or(0) == 0))
      return false;
  if (node.inputs[3] == qir::kAbsent) return true;
  const qir::Tensor &added = at(graph, node.inputs[3]);
  // A mask that is shorter forbids the rest.
  const qir::Shape &k = at(graph, node.inputs[1]).shape;
  const std::int64_t columns =
      k[k.size() - 2] + (node.inputs[4] != qir::kAbsent ? at(graph, node.inputs[4]).shape[2] : 0);
  return (added.dtype == DType::F32 || added.dtype == DType::Bool) && !added.quant && bytes_of(added) &&
         !added.shape.empty() && added.shape.size() <= 4 && added.shape.back() == columns;
}

bool is_decomposed(const qir::Graph &graph, const qir::Node &node) {
  if (node.op == qir::Op::Attention)
    return !keeps_attention(graph, node) || at(graph, node.inputs[0]).shape.size() != 4 ||
           node.inputs[4] != qir::kAbsent;
  // EyeLike as a constant, unless the caller gets it: to write it takes half as long as to copy it.
  return decomposes(node.op) &&
         (node.op != qir::Op::EyeLike || std::ranges::find(graph.outputs, node.outputs[0]) == graph.outputs.end());
}

// Its weights are packed, when it is compiled or in the run.
bool is_conv(const qir::Graph &, const qir::Node &node) { return node.op == qir::Op::Conv; }

}  // namespace

// (What is left of SoftmaxCrossEntropyLoss, NegativeLogLikelihoodLoss, is cpu-reference's: it looks whether targets are
// classes.)
bool decomposes(qir::Op op) noexcept {
  switch (op) {
    case qir::Op::Attention:
    case qir::Op::FusedMatMul:
    case qir::Op::SwiGLU:
    case qir::Op::CastLike:
    case qir::Op::AffineGrid:
    case qir::Op::CenterCropPad:
    case qir::Op::SoftmaxCrossEntropyLoss:
    case qir::Op::EyeLike: return true;
    default: return false;
  }
}

Status rewrite(qir::Graph &graph, qir::Store &store, NodePathTable &paths, const CompileOptions &options) {
  QR_RETURN_IF_ERROR(stop_status("compile"));
  QR_RETURN_IF_ERROR(reference::widen_float16(graph));
  // What a pass that was stopped leaves is for no other to read.
  const auto stopped = [] { return stop_status("compile"); };
  passes::attention_on_heads(graph, store, keeps_attention);
  passes::decompose_unsupported(graph, store, is_decomposed);
  QR_RETURN_IF_ERROR(stopped());
  passes::dequantize_nodes(graph, store, runs_in_integers);
  QR_RETURN_IF_ERROR(stopped());
  reference::ReferenceFolder folder;
  Blanks blanks;
  std::optional<ComputedOnce> computed;
  if (options.shared) computed.emplace(*options.shared);
  qir::Folder &folds = options.dry_run ? static_cast<qir::Folder &>(blanks)
                       : computed      ? static_cast<qir::Folder &>(*computed)
                                       : folder;
  const auto conversions = [](qir::Op op) { return op == qir::Op::Cast || op == qir::Op::DequantizeLinear; };
  passes::fold_constants(graph, store, folds, {.wanted = conversions, .may_grow = true});
  QR_RETURN_IF_ERROR(stopped());
  passes::decompose_spatial(graph, store, is_conv);  // asks which weights are constant
  passes::decompose_matmul(graph, store, integer_matrices);
  QR_RETURN_IF_ERROR(stopped());
  QR_RETURN_IF_ERROR(passes::einsum_to_matmul(graph, store));
  Vector<passes::Composed> found;
  passes::compose(graph, store, kComposites, &found);
  QR_RETURN_IF_ERROR(stopped());
  paths.composed(found);
  Vector<passes::Joined> joined;
  passes::simplify_convolutions(graph, store, options.dry_run, &joined);
  QR_RETURN_IF_ERROR(stopped());
  for (const passes::Joined &node : joined) paths.fused(node.source, node.into);
  // (Of a range, the passes have given a graph of this form before; what kernels rely on, their checks say.)
  return options.again ? Status() : qir::validate_graph(graph);
}

}  // namespace quarry::cpu
