// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/lower/doubles.h"

namespace quarry::htp {

HostReals take_reals_as_floats(qir::Graph &graph, qir::Store &store, const Soc &soc) {
  const auto is_taken = [&](DType dtype) {
    return dtype == DType::F64 || (dtype == DType::BF16 && !has_brain_floats(soc));
  };
  HostReals out;
  const auto note = [&](const Vector<std::int32_t> &ids, Vector<DType> &types) {
    for (const std::int32_t id : ids) {
      const DType dtype = qir::at(graph, id).dtype;
      types.push_back(is_taken(dtype) ? dtype : DType::Unknown);
    }
  };
  note(graph.inputs, out.inputs), note(graph.outputs, out.outputs);
  for (qir::Tensor &tensor : graph.tensors) {
    if (!is_taken(tensor.dtype)) continue;
    if (tensor.is_constant) {
      const std::uint64_t count = tensor.data.size / (dtype_bits(tensor.dtype) / 8);
      void *const floats = store.allocate(count * sizeof(float));
      reals_to_floats(tensor.dtype, tensor.data.data, floats, count);
      tensor.data = {floats, count * sizeof(float)};
    }
    tensor.dtype = DType::F32;
  }
  for (qir::Node &node : graph.nodes) {
    if (node.outputs[0] == qir::kAbsent || qir::at(graph, node.outputs[0]).dtype != DType::F32) continue;
    for (const char *const name : {"to", "dtype"})
      if (const std::int64_t given = node.get_int(name, 0); given > 0 && is_taken(static_cast<DType>(given)))
        node.set(name, static_cast<std::int64_t>(DType::F32));
  }
  return out;
}

}  // namespace quarry::htp
