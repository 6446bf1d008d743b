// SPDX-License-Identifier: Apache-2.0
// What backends that run on this machine's processor share at the plugin's edge: one device, segments kept under their
// numbers, how tensors and grades are reported.
#pragma once

#include "backends/common/plugin_support.h"
#include "backends/common/processor.h"
#include "base/os/processor.h"
#include "graph/graph.h"
#include "quarry/runtime.h"

namespace quarry::plugin {

// The base of such a plugin's qr_backend.
struct ProcessorBackend {
  explicit ProcessorBackend(const qr_host *host) noexcept : allocator(host) {
    processor_name(device_name, sizeof device_name);
  }
  static constexpr std::uint64_t kFeatures = 0;  // beside what all have
  HostAllocator allocator;
  char device_name[128] = {};
};

// An error for an index at or beyond `count`.
Status check_index(const char *what, std::uint64_t index, std::uint64_t count);

// Keeps all segments of a request for one graph, under the numbers that they have there: what is compiled points into
// them.
Status keep_segments(const qr_compile_request &request, const qr_blob_sink &result);
Vector<qir::Bytes> segments_of(const qr_blob &blob);

void give_grade(std::int32_t grade, const String &why, std::int32_t *out_grade, const qr_error_sink &reason);
void give_tensor(DType dtype, const qir::Shape &shape, const String &name, qr_plugin_tensor_info *out_info);
Status check_counts(const qr_run_request &request, std::size_t inputs, std::size_t outputs);

template <class Backend>
qr_plugin_code processor_device_info(Backend *backend, std::uint64_t index, qr_plugin_device_info *out_info,
                                     const qr_error_sink *errors) {
  return guard(backend->allocator, errors, [&]() -> Status {
    QR_RETURN_IF_ERROR(check_index("device", index, 1));
    qr_plugin_device_info info{};
    info.usable = 1;
    info.name = text(backend->device_name);
    info.target = text(QR_PLUGIN_BUILD_ARCH);
    info.memory_bytes = os::memory_bytes();
    info.features = QR_DEVICE_IMPORTS_FD | QR_DEVICE_RANGES | Backend::kFeatures;
    give(info, out_info);
    return {};
  });
}
template <class Backend>
inline constexpr qr_plugin_device_api kProcessorDevice = {sizeof(qr_plugin_device_api), 0,
                                                          [](Backend *) -> std::uint64_t { return 1; },
                                                          processor_device_info<Backend>, nullptr};

// The slots `destroy` of contexts and executions; `owner` leads to the backend.
template <class Object, class Backend>
void destroy_in(Object *object, Backend *backend) {
  AllocatorScope scope(backend->allocator);
  delete object;
}

}  // namespace quarry::plugin
