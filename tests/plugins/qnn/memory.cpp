// SPDX-License-Identifier: Apache-2.0
// Registered memory: descriptors are mapped here, as the device would map them there.
#include <sys/mman.h>
#include <sys/stat.h>

#include <map>

#include "tests/plugins/qnn/objects.h"
#include "tests/plugins/qnn/script.h"

namespace standin {
namespace {

std::mutex g_mutex;
std::map<qnn::Handle, std::unique_ptr<Memory>> g_memory;

Error register_memory(qnn::Handle, const qnn::MemDesc *list, std::uint32_t count, qnn::Handle *out) {
  if (const Error error = meet("memRegister")) return error;
  for (std::uint32_t i = 0; i < count; ++i) {
    const qnn::MemDesc &given = list[i];
    auto made = std::make_unique<Memory>();
    int fd = given.ion_fd;
    std::string dims;
    for (std::uint32_t d = 0; d < given.shape.rank; ++d) dims += (d ? "x" : "") + std::to_string(given.shape.dims[d]);
    if (given.kind == qnn::MemKind::Custom) {
      const auto &shared = *static_cast<const qnn::HtpMemDesc *>(given.custom);
      fd = shared.shared.fd, made->offset = shared.shared.offset;
      record("memRegister custom kind=%u size=%llu offset=%llu dims=%s type=%x", shared.kind,
             static_cast<unsigned long long>(shared.size), static_cast<unsigned long long>(shared.shared.offset),
             dims.c_str(), static_cast<unsigned>(given.dtype));
    } else {
      record("memRegister kind=%u dims=%s type=%x", static_cast<unsigned>(given.kind), dims.c_str(),
             static_cast<unsigned>(given.dtype));
    }
    struct stat info {};
    if (fstat(fd, &info) != 0) return 8000;
    made->mapped = static_cast<std::size_t>(info.st_size);
    made->base = mmap(nullptr, made->mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (made->base == MAP_FAILED) return 8003;
    const std::lock_guard lock(g_mutex);
    out[i] = made.get();
    g_memory.emplace(made.get(), std::move(made));
  }
  return 0;
}
Error forget_memory(const qnn::Handle *list, std::uint32_t count) {
  record("memDeRegister %u", count);
  const std::lock_guard lock(g_mutex);
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto found = g_memory.find(list[i]);
    if (found == g_memory.end()) return 8001;
    munmap(found->second->base, found->second->mapped);
    g_memory.erase(found);
  }
  return 0;
}

}  // namespace

void *place_of(const qnn::Tensor &tensor) {
  if (tensor.v1.mem != qnn::TensorMem::Registered) return tensor.v1.buf.data;
  const std::lock_guard lock(g_mutex);
  const auto found = g_memory.find(tensor.v1.mem_handle);
  return found == g_memory.end() ? nullptr : static_cast<char *>(found->second->base) + found->second->offset;
}

void fill_memory(qnn::Api &api) { api.memRegister = register_memory, api.memDeRegister = forget_memory; }

}  // namespace standin
