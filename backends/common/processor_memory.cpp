// SPDX-License-Identifier: Apache-2.0
#include "backends/common/processor_memory.h"

#include <linux/dma-buf.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

namespace quarry::plugin {
namespace {

int sync(int fd, std::uint64_t flags) noexcept {
  dma_buf_sync order{flags};
  int result;
  do result = ioctl(fd, DMA_BUF_IOCTL_SYNC, &order);
  while (result != 0 && (errno == EINTR || errno == EAGAIN));
  return result;
}

}  // namespace

Status import_memory(const qr_plugin_memory_request &request, qr_plugin_memory_info *out_info, ProcessorMemory &out) {
  const std::uint64_t page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)), lead = request.offset % page;
  if (request.size_bytes > UINT64_MAX - lead)
    return Status::error(ErrorId::bad_argument, "memory: found a size past the address space, expected less");
  const std::uint64_t bytes = lead + request.size_bytes;
  void *const base =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, request.fd, static_cast<off_t>(request.offset - lead));
  if (base == MAP_FAILED)
    return Status::error(
        errno == ENOMEM ? ErrorId::out_of_memory : ErrorId::memory_unsupported,
        format("memory: descriptor %d cannot be mapped for reading and writing: %s", request.fd, std::strerror(errno)));
  // Only a dma-buf knows this call; ended at once, it changes nothing.
  const bool is_dma = sync(request.fd, DMA_BUF_SYNC_START | DMA_BUF_SYNC_RW) == 0;
  if (is_dma) sync(request.fd, DMA_BUF_SYNC_END | DMA_BUF_SYNC_RW);
  give(qr_plugin_memory_info{sizeof(qr_plugin_memory_info), !is_dma, static_cast<char *>(base) + lead}, out_info);
  out = {base, bytes, request.fd, is_dma, request.offset};
  return {};
}

void unmap_memory(const ProcessorMemory &memory) noexcept { munmap(memory.base, memory.mapped_bytes); }

Status report_access(const ProcessorMemory &memory, std::uint32_t access, bool begins) {
  if (!memory.is_dma) return {};
  const std::uint64_t flags = (begins ? DMA_BUF_SYNC_START : DMA_BUF_SYNC_END) |
                              (access & QR_PLUGIN_ACCESS_READ ? DMA_BUF_SYNC_READ : 0u) |
                              (access & QR_PLUGIN_ACCESS_WRITE ? DMA_BUF_SYNC_WRITE : 0u);
  if (sync(memory.fd, flags) == 0) return {};
  return Status::error(ErrorId::io_error, format("memory: the dma-buf refuses %s of an access: %s",
                                                 begins ? "the begin" : "the end", std::strerror(errno)));
}

void DmaAccess::tell(bool begins) const noexcept {
  const std::uint64_t edge = begins ? DMA_BUF_SYNC_START : DMA_BUF_SYNC_END;
  for (std::uint64_t i = 0; i < request_.input_count; ++i)
    if (const ProcessorMemory *memory = request_.inputs[i].memory; memory && memory->is_dma)
      sync(memory->fd, edge | DMA_BUF_SYNC_READ);
  for (std::uint64_t i = 0; i < request_.output_count; ++i)
    if (const ProcessorMemory *memory = request_.outputs[i].memory; memory && memory->is_dma)
      sync(memory->fd, edge | DMA_BUF_SYNC_WRITE);
}

}  // namespace quarry::plugin
