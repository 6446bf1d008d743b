// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/compile/shared_check.h"

#include <cstring>

namespace quarry::htp {

namespace {

// Any numbers that every model has a result for: small floats, all integers of quantised tensors, and zeros where
// integers may be indices.
void fill(const DraftTensor &tensor, std::uint32_t &seed, Vector<std::uint8_t> &out) {
  const std::uint64_t count = tensor_bytes(tensor);
  out.assign(count, 0);
  const auto draw = [&] { return (seed = seed * 1664525u + 1013904223u) >> 8; };
  if (tensor.dtype == qnn::DataType::F32) {
    for (std::uint64_t i = 0; i + 4 <= count; i += 4) {
      const float value = static_cast<float>(draw() % 2001) / 1000.0f - 1.0f;
      std::memcpy(&out[i], &value, sizeof value);
    }
  } else if (tensor.dtype == qnn::DataType::F16 || tensor.dtype == qnn::DataType::BF16) {
    constexpr std::uint32_t kHalf = 0x3800, kBrainHalf = 0x3f00;  // from one half to below one
    for (std::uint64_t i = 0; i + 2 <= count; i += 2) {
      const auto value = static_cast<std::uint16_t>(tensor.dtype == qnn::DataType::F16 ? kHalf | (draw() & 0x3ff)
                                                                                       : kBrainHalf | (draw() & 0x7f));
      std::memcpy(&out[i], &value, sizeof value);
    }
  } else if (!tensor.encoding.scales.empty()) {
    for (std::uint8_t &byte : out) byte = static_cast<std::uint8_t>(draw());
  }
}

// One run; the outputs, one behind the other.
Result<Vector<std::uint8_t>> run(const qnn::Api &api, const FreshGraph &graph, const char *where) {
  Vector<qnn::Tensor> inputs, outputs;
  Vector<Vector<std::uint8_t>> room(graph.draft->tensors.size());
  std::uint32_t seed = 1;
  for (std::size_t i = 0; i < graph.draft->tensors.size(); ++i) {
    const DraftTensor &tensor = graph.draft->tensors[i];
    const bool is_input = tensor.type == qnn::TensorType::AppWrite;
    if (!is_input && tensor.type != qnn::TensorType::AppRead) continue;
    if (is_input) fill(tensor, seed, room[i]);
    else room[i].assign(tensor_bytes(tensor), 0);
    qnn::Tensor made = graph.writer->tensors()[i];
    made.v1.buf = {room[i].data(), static_cast<std::uint32_t>(room[i].size())};
    (is_input ? inputs : outputs).push_back(made);
  }
  qnn::LogLines lines;
  if (const qnn::Error error =
          api.graphExecute(graph.handle, inputs.data(), static_cast<std::uint32_t>(inputs.size()), outputs.data(),
                           static_cast<std::uint32_t>(outputs.size()), nullptr, nullptr))
    return qnn::call_failed(format("graphExecute of %s %s, before it is written", printable(graph.draft->name), where),
                            error, &lines, "compile without enable_htp_weight_sharing");
  Vector<std::uint8_t> all;
  for (std::size_t i = 0; i < room.size(); ++i)
    if (graph.draft->tensors[i].type == qnn::TensorType::AppRead) all.insert(all.end(), room[i].begin(), room[i].end());
  return all;
}

}  // namespace

Result<std::uint64_t> check_shared_graphs(const Engine &engine, const Vector<FreshGraph> &graphs,
                                          const CompileOptions &options, const Writer::Step &step,
                                          const CompileCall &call) {
  const qnn::Api &api = engine.api();
  std::uint64_t bytes = 0;
  for (const FreshGraph &graph : graphs) {
    QR_ASSIGN_OR_RETURN(const Vector<std::uint8_t> together, run(api, graph, "beside others"));
    ContextConfigs context_configs(options.settings, ContextConfigs::For::Compile);
    ScopedContext context{api};
    qnn::LogLines lines;
    if (const qnn::Error error =
            api.contextCreate(engine.backend(), engine.device(), context_configs.list(), &context.handle))
      return qnn::call_failed("contextCreate", error, &lines);
    Writer writer(engine, *graph.draft);
    GraphConfigs configs(options, graph.draft->name);
    QR_ASSIGN_OR_RETURN(const qnn::Handle handle, writer.write(context.handle, configs, step, call));
    QR_ASSIGN_OR_RETURN(const Vector<std::uint8_t> alone, run(api, {handle, graph.draft, &writer}, "alone"));
    if (together != alone)
      return Status::error(
          ErrorId::backend_library_call,
          format("graph %s: found other results beside the graphs that it shares weights with than alone, expected "
                 "the same bytes",
                 printable(graph.draft->name)),
          "compile without enable_htp_weight_sharing");
    qnn::BinSize size = 0;
    if (api.contextGetBinarySize(context.handle, &size) == qnn::kOk) bytes += size;
  }
  return bytes;
}

}  // namespace quarry::htp
