// SPDX-License-Identifier: Apache-2.0
// Memory of backends that run on this machine's processor: plain memory needs no registration, descriptors (memfd,
// dma-buf) are mapped.
#pragma once

#include "backends/common/plugin_support.h"

namespace quarry::plugin {

struct ProcessorMemory {
  void *base = nullptr;  // of the mapping
  std::uint64_t mapped_bytes = 0;
  int fd = -1;               // borrows: open until release
  bool is_dma = false;       // the kernel wants to know when the processor uses it
  std::uint64_t offset = 0;  // where it begins in the file
};

}  // namespace quarry::plugin

// Of a name of its own in each backend that is linked in statically, so what is compiled once for all knows its base
// alone.
struct qr_registration : quarry::plugin::ProcessorMemory {};

namespace quarry::plugin {

Status import_memory(const qr_plugin_memory_request &request, qr_plugin_memory_info *out_info, ProcessorMemory &out);
void unmap_memory(const ProcessorMemory &memory) noexcept;

// Reports to the kernel that the processor reads or writes dma-bufs of a run, for as long as it lives.
class DmaAccess {
 public:
  explicit DmaAccess(const qr_run_request &request) noexcept : request_(request) { tell(true); }
  ~DmaAccess() { tell(false); }
  DmaAccess(const DmaAccess &) = delete;
  DmaAccess &operator=(const DmaAccess &) = delete;

 private:
  void tell(bool begins) const noexcept;
  const qr_run_request &request_;
};

// The same for the host's own access, QR_PLUGIN_ACCESS_*.
Status report_access(const ProcessorMemory &memory, std::uint32_t access, bool begins);

template <class Backend>
qr_plugin_code processor_import_fd(Backend *backend, const qr_plugin_memory_request *request,
                                   qr_plugin_memory_info *out_info, qr_registration **out_registration,
                                   const qr_error_sink *errors) {
  return guard(backend->allocator, errors, [&]() -> Status {
    auto made = quarry::make_unique<qr_registration>();
    QR_RETURN_IF_ERROR(import_memory(*request, out_info, *made));
    *out_registration = made.release();
    return {};
  });
}
template <class Backend>
void processor_release(Backend *backend, qr_registration *registration) {
  const AllocatorScope scope(backend->allocator);
  unmap_memory(*registration);
  FreeDelete<qr_registration>()(registration);
}
template <class Backend, bool begins>
qr_plugin_code processor_access(Backend *backend, qr_registration *registration, std::uint32_t access,
                                const qr_error_sink *errors) {
  return guard(backend->allocator, errors, [&] { return report_access(*registration, access, begins); });
}
template <class Backend>
inline constexpr qr_plugin_memory_api kProcessorMemory = {sizeof(qr_plugin_memory_api),
                                                          0,
                                                          nullptr,
                                                          processor_import_fd<Backend>,
                                                          nullptr,
                                                          processor_release<Backend>,
                                                          nullptr,
                                                          nullptr,
                                                          processor_access<Backend, true>,
                                                          processor_access<Backend, false>,
                                                          nullptr};

}  // namespace quarry::plugin
