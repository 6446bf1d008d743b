// SPDX-License-Identifier: Apache-2.0
// Graph to graph, before lowering: what the kernels have a better form of. The result means what the graph meant, up to
// the rounding of f32.
#pragma once

#include "backends/cpu/lower/node_paths.h"
#include "backends/cpu/program/compiled_plan.h"
#include "passes/passes.h"

namespace quarry::cpu {

// The composite operators that kernels are quicker for than for the pieces. (Attention is fused when steps are made.)
inline constexpr passes::Composites kComposites = {passes::Composite::Gelu,
                                                   passes::Composite::GeluTanh,
                                                   passes::Composite::Swish,
                                                   passes::Composite::HardSwish,
                                                   passes::Composite::HardSigmoid,
                                                   passes::Composite::Mish,
                                                   passes::Composite::LayerNormalization,
                                                   passes::Composite::RMSNormalization};

// Operators that other operators' kernels do better than one of cpu-reference.
bool decomposes(qir::Op op) noexcept;

// f16 and bf16 widened as cpu-reference does it; quantised operators without an integer kernel dequantised; Einsum of
// two tensors as MatMul; casts and dequantisations of constants computed; composite operators. New constants lie in
// the store; `paths` learns what went into what. In a dry run large constants are not computed, but zeros; plans that
// share weights compute them once.
Status rewrite(qir::Graph &graph, qir::Store &store, NodePathTable &paths, const CompileOptions &options);

}  // namespace quarry::cpu
