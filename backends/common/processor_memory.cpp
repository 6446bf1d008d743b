// SPDX-License-Identifier: Apache-2.0
#include "backends/common/processor_memory.h"

#include <cerrno>

#include "base/os/mapping.h"
#include "base/os/shared_memory.h"

namespace quarry::plugin {
Status import_memory(const qr_plugin_memory_request &request, qr_plugin_memory_info *out_info, ProcessorMemory &out) {
  const std::uint64_t lead = request.offset % os::page_size();
  if (request.size_bytes > UINT64_MAX - lead)
    return Status::error(ErrorId::bad_argument, "memory: found a size past the address space, expected less");
  const std::uint64_t bytes = lead + request.size_bytes;
  void *const base = os::map_file(request.fd, request.offset - lead, bytes, os::MappedFor::Writing);
  if (!base)
    return Status::error(
        errno == ENOMEM ? ErrorId::out_of_memory : ErrorId::memory_unsupported,
        format("memory: descriptor %d cannot be mapped for reading and writing: %s", request.fd, std::strerror(errno)));
  // Only a dma-buf knows this call; ended at once, it changes nothing.
  const bool is_dma = os::sync_dma(request.fd, os::DmaEdge::Begin, true, true);
  if (is_dma) os::sync_dma(request.fd, os::DmaEdge::End, true, true);
  give(qr_plugin_memory_info{sizeof(qr_plugin_memory_info), !is_dma, static_cast<char *>(base) + lead}, out_info);
  out = {base, bytes, request.fd, is_dma, request.offset};
  return {};
}

void unmap_memory(const ProcessorMemory &memory) noexcept { os::unmap(memory.base, memory.mapped_bytes); }

Status report_access(const ProcessorMemory &memory, std::uint32_t access, bool begins) {
  if (!memory.is_dma) return {};
  const os::DmaEdge edge = begins ? os::DmaEdge::Begin : os::DmaEdge::End;
  if (os::sync_dma(memory.fd, edge, access & QR_PLUGIN_ACCESS_READ, access & QR_PLUGIN_ACCESS_WRITE)) return {};
  return Status::error(ErrorId::io_error, format("memory: the dma-buf refuses %s of an access: %s",
                                                 begins ? "the begin" : "the end", std::strerror(errno)));
}

void DmaAccess::tell(bool begins) const noexcept {
  const os::DmaEdge edge = begins ? os::DmaEdge::Begin : os::DmaEdge::End;
  for (std::uint64_t i = 0; i < request_.input_count; ++i)
    if (const ProcessorMemory *memory = request_.inputs[i].memory; memory && memory->is_dma)
      os::sync_dma(memory->fd, edge, true, false);
  for (std::uint64_t i = 0; i < request_.output_count; ++i)
    if (const ProcessorMemory *memory = request_.outputs[i].memory; memory && memory->is_dma)
      os::sync_dma(memory->fd, edge, false, true);
}

}  // namespace quarry::plugin
