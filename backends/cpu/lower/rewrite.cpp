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

// Zeros for what is large: who only looks does not read it.
class Blanks final : public qir::Folder {
 public:
  bool fold(const qir::Graph &graph, const qir::Node &node, qir::Store &store,
            Vector<qir::Constant> *outputs) override {
    constexpr std::uint64_t kSmall = 4096;
    const qir::Tensor &made = at(graph, node.outputs[0]);
    const auto count = element_count(made.shape.data(), made.shape.size());
    const auto bytes = count ? packed_size(made.dtype, *count) : std::nullopt;
    if (!bytes || *bytes <= kSmall) return folder_.fold(graph, node, store, outputs);
    void *const zeros = store.allocate(*bytes);
    std::memset(zeros, 0, *bytes);
    outputs->push_back({made.dtype, made.shape, {zeros, *bytes}});
    return true;
  }

 private:
  reference::ReferenceFolder folder_;
};

bool is_decomposed(const qir::Graph &graph, const qir::Node &node) {
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

Status rewrite(qir::Graph &graph, qir::Store &store, NodePathTable &paths, bool dry_run) {
  QR_RETURN_IF_ERROR(stop_status("compile"));
  QR_RETURN_IF_ERROR(reference::widen_float16(graph));
  // What a pass that was stopped leaves is for no other to read.
  const auto stopped = [] { return stop_status("compile"); };
  passes::decompose_unsupported(graph, store, is_decomposed);
  QR_RETURN_IF_ERROR(stopped());
  passes::dequantize_nodes(graph, store, runs_in_integers);
  QR_RETURN_IF_ERROR(stopped());
  reference::ReferenceFolder folder;
  Blanks blanks;
  const auto conversions = [](qir::Op op) { return op == qir::Op::Cast || op == qir::Op::DequantizeLinear; };
  passes::fold_constants(graph, store, dry_run ? static_cast<qir::Folder &>(blanks) : folder,
                         {.wanted = conversions, .may_grow = true});
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
  passes::simplify_convolutions(graph, store, dry_run, &joined);
  QR_RETURN_IF_ERROR(stopped());
  for (const passes::Joined &node : joined) paths.fused(node.source, node.into);
  return qir::validate_graph(graph);
}

}  // namespace quarry::cpu
