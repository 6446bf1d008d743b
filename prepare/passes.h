// SPDX-License-Identifier: Apache-2.0
// Graph to graph. Each pass keeps what the graph computes on cpu-reference: to the bit where it says nothing else.
// Constants that a pass makes lie in the store.
#pragma once

#include "formats/onnx/store.h"
#include "formats/qir/graph.h"

namespace quarry::prepare {

using onnx_import::Store;

// Nodes that change nothing (Reshape to the same shape, Transpose in order, Cast to the same type, ...) go, then what
// nobody uses: nodes, and tensors. Graph inputs stay.
void remove_unused(qir::Graph &graph);
void remove_no_ops(qir::Graph &graph);

// Conv, ConvTranspose and Gemm take over the BatchNormalization behind them: f32, constant parameters, no other user.
// Rounding differs.
void fold_batch_normalization(qir::Graph &graph, Store &store);

// DequantizeLinear -> operator -> QuantizeLinear becomes the operator on tensors of quantised types (see graph.h).
void make_quantized_types(qir::Graph &graph, Store &store);

// What is constant and was left for make_quantized_types to see (DequantizeLinear), and what became constant since.
void fold_constants(qir::Graph &graph, Store &store);

}  // namespace quarry::prepare
