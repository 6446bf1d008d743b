// SPDX-License-Identifier: Apache-2.0
#include "backends/gpu/run/rehearsal.h"

#include "backends/gpu/run/execution.h"
#include "base/checked.h"

namespace quarry::gpu {

Status rehearse(const LoadedContext &context, const qr_host &host) {
  QR_ASSIGN_OR_RETURN(const Unique<Execution> execution, Execution::make(context, {.record = false}));
  const Plan &plan = context.plan();
  Vector<Vector<std::uint8_t>> bytes;
  Vector<qr_io_buffer> inputs(plan.inputs.size()), outputs(plan.outputs.size());
  for (auto [list, buffers] : {std::pair{&plan.inputs, &inputs}, std::pair{&plan.outputs, &outputs}})
    for (std::size_t i = 0; i < list->size(); ++i) {
      const Io &io = (*list)[i];
      const auto count = element_count(io.shape.data(), io.shape.size());
      const auto size = count ? packed_size(io.dtype, *count) : std::nullopt;
      if (!size) return {};
      qr_io_buffer &buffer = (*buffers)[i];
      buffer.data = bytes.emplace_back(*size).data();
      buffer.size_bytes = *size;
      buffer.wanted = 1;
    }
  qr_run_request request{};
  request.struct_size = sizeof request;
  request.inputs = inputs.data(), request.input_count = inputs.size();
  request.outputs = outputs.data(), request.output_count = outputs.size();
  return execution->run(request, host);
}

}  // namespace quarry::gpu
