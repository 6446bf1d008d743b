// SPDX-License-Identifier: Apache-2.0
// Quantisation at the model's borders on the host (offload_graph_io_quantization): there it is exact, on the device the
// numbers would go through f16 first, and fewer bytes travel.
#pragma once

#include "backends/htp/qnn/abi.h"
#include "graph/graph.h"

namespace quarry::htp {

// What the session has at a border whose tensor in the graph is quantised.
struct HostIoBinding {
  String name;  // empty: the border is as it is in the graph
  float scale = 0;
  std::int32_t zero_point = 0;
};
struct HostBorders {
  Vector<HostIoBinding> inputs, outputs;  // one per input and output of the graph
  Vector<std::int32_t> sources;           // of the nodes that are no longer there
};
// What the session has at an input or output that is f32 in the graph; Unknown: what the graph has.
struct HostReals {
  Vector<DType> inputs, outputs;
};
// Takes out QuantizeLinear behind inputs and DequantizeLinear before outputs, f32 and of one quantisation per tensor,
// where nothing else wants the f32 values; the graph's inputs and outputs become the stored integers.
HostBorders take_border_quantization(qir::Graph &graph, const HostReals &reals = {});

// Between f32 and stored integers of 8 or 16 bits, as ONNX has it.
bool is_stored_border(qnn::DataType stored) noexcept;
void quantize_border(qnn::DataType stored, float scale, std::int32_t zero_point, const void *from, void *to,
                     std::uint64_t count);
void dequantize_border(qnn::DataType stored, float scale, std::int32_t zero_point, const void *from, void *to,
                       std::uint64_t count);

// Between f64 or bf16 and f32.
void reals_to_floats(DType dtype, const void *from, void *floats, std::uint64_t count);
void floats_to_reals(DType dtype, const void *floats, void *to, std::uint64_t count);

}  // namespace quarry::htp
