// SPDX-License-Identifier: Apache-2.0
// Graphs of several contexts: their stages run one behind the other, and what they hand to each other lies here.
#include <algorithm>

#include "backends/htp/run/execution.h"
#include "base/checked.h"

namespace quarry::htp {

void Execution::bind_stages(const Settings &settings) {
  if (graph_.stages.empty()) return;
  const auto add = [&](std::size_t index, const BlobTensor &tensor) {
    if (index >= values_.size()) values_.resize(index + 1);
    Value &value = values_[index];
    value.type = &tensor;
    // The reader of the blob has found that it has a size.
    value.bytes = *packed_size(tensor.dtype, *element_count(tensor.shape.data(), tensor.shape.size()));
  };
  for (const auto *list : {&graph_.inputs, &graph_.outputs})
    for (const BlobTensor &tensor : *list) add(values_.size(), tensor);
  const std::size_t borders = values_.size();
  for (const BlobStage &stage : graph_.stages) {
    stages_.push_back(quarry::make_unique<Execution>(context_.part(stage.part), stage.graph, settings));
    const BlobGraph &step = context_.blob().parts[stage.part].graphs[stage.graph];
    for (std::size_t i = 0; i < stage.outputs.size(); ++i) add(stage.outputs[i], step.outputs[i]);
  }
  for (std::size_t i = borders; i < values_.size(); ++i) values_[i].room.resize(values_[i].bytes);
}

Status Execution::run_stages(const qr_run_request &request, const plugin::StopToken &stop) {
  const std::size_t inputs = graph_.inputs.size(), borders = inputs + graph_.outputs.size();
  for (std::size_t i = 0; i < inputs; ++i)
    if (!request.inputs[i].data || request.inputs[i].size_bytes != values_[i].bytes)
      return Status::error(ErrorId::run_shape,
                           format("input %s: found %llu bytes, expected %llu", printable(graph_.inputs[i].name),
                                  request.inputs[i].data ? request.inputs[i].size_bytes : 0, values_[i].bytes));
  const auto buffer = [&](std::uint32_t index) {
    Value &value = values_[index];
    qr_io_buffer io{};
    if (index < inputs) io = request.inputs[index];
    else if (index < borders && request.outputs[index - inputs].data) io = request.outputs[index - inputs];
    if (!io.data) {  // between stages, or an output that the session does not want
      value.room.resize(value.bytes);
      io.data = value.room.data(), io.size_bytes = value.bytes;
      io.wanted = 1;
    }
    io.rank = static_cast<std::uint32_t>(value.type->shape.size());
    std::copy(value.type->shape.begin(), value.type->shape.end(), io.dims);
    return io;
  };
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    const BlobStage &stage = graph_.stages[s];
    stage_inputs_.clear(), stage_outputs_.clear();  // a later run has the room of the first
    for (const std::uint32_t index : stage.inputs) stage_inputs_.push_back(buffer(index));
    for (const std::uint32_t index : stage.outputs) stage_outputs_.push_back(buffer(index));
    qr_run_request one = request;
    one.inputs = stage_inputs_.data(), one.input_count = stage_inputs_.size();
    one.outputs = stage_outputs_.data(), one.output_count = stage_outputs_.size();
    QR_RETURN_IF_ERROR(stages_[s]->run(one, stop));
  }
  return {};
}

}  // namespace quarry::htp
