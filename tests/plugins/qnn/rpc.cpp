// SPDX-License-Identifier: Apache-2.0
// A stand-in for libcdsprpc.so, a device's memory that the NPU shares: rpcmem_* over memfds.
#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <mutex>

namespace {
struct Block {
  int fd;
  std::size_t size;
};
std::mutex g_mutex;
std::map<void *, Block> g_blocks;
}  // namespace

#define STANDIN_EXPORT extern "C" __attribute__((visibility("default")))

STANDIN_EXPORT void *rpcmem_alloc(int, unsigned, int size) {
  const int fd = memfd_create("rpcmem", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, size) != 0) return nullptr;
  void *const made = mmap(nullptr, static_cast<std::size_t>(size), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (made == MAP_FAILED) return nullptr;
  const std::lock_guard lock(g_mutex);
  g_blocks[made] = {fd, static_cast<std::size_t>(size)};
  return made;
}
STANDIN_EXPORT int rpcmem_to_fd(void *data) {
  const std::lock_guard lock(g_mutex);
  const auto found = g_blocks.find(data);
  return found == g_blocks.end() ? -1 : found->second.fd;
}
STANDIN_EXPORT void rpcmem_free(void *data) {
  const std::lock_guard lock(g_mutex);
  const auto found = g_blocks.find(data);
  if (found == g_blocks.end()) return;
  munmap(data, found->second.size);
  close(found->second.fd);
  g_blocks.erase(found);
}
