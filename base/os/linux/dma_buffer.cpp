// SPDX-License-Identifier: Apache-2.0
#include <linux/dma-buf.h>
#include <sys/ioctl.h>

#include <cerrno>

#include "base/os/shared_memory.h"

namespace quarry::os {

bool sync_dma(int fd, DmaEdge edge, bool reads, bool writes) noexcept {
  dma_buf_sync order{(edge == DmaEdge::Begin ? DMA_BUF_SYNC_START : DMA_BUF_SYNC_END) |
                     (reads ? DMA_BUF_SYNC_READ : 0u) | (writes ? DMA_BUF_SYNC_WRITE : 0u)};
  int result;
  do result = ::ioctl(fd, DMA_BUF_IOCTL_SYNC, &order);
  while (result != 0 && (errno == EINTR || errno == EAGAIN));
  return result == 0;
}

}  // namespace quarry::os
