// SPDX-License-Identifier: Apache-2.0
#include "backends/gpu/opencl/external.h"

#include <algorithm>

#include "backends/gpu/opencl/extension.h"

namespace quarry::opencl {

namespace {

constexpr char kExtension[] = "cl_khr_external_memory_dma_buf";
constexpr cl_device_info kHandleTypes = 0x204F;

}  // namespace

External find_external(const Library &library, cl_platform_id platform, cl_device_id device,
                       std::string_view extensions) {
  External out;
  const auto none = [&](const char *why) {
    out = External();
    out.text = why;
    return out;
  };
  if (!names_extension(extensions, kExtension)) return none("the driver has no cl_khr_external_memory_dma_buf");
  std::size_t bytes = 0;
  Vector<cl_uint> types;
  if (library->GetDeviceInfo(device, kHandleTypes, 0, nullptr, &bytes) == CL_SUCCESS) {
    types.resize(bytes / sizeof(cl_uint));
    if (!types.empty() && library->GetDeviceInfo(device, kHandleTypes, types.size() * sizeof(cl_uint), types.data(),
                                                 nullptr) != CL_SUCCESS)
      types.clear();
  }
  if (std::ranges::find(types, static_cast<cl_uint>(kDmaBuf)) == types.end())
    return none("cl_khr_external_memory_dma_buf: found no dma-buf among what the device takes");
  if (!find_function(library, platform, "clCreateBufferWithProperties", out.create) ||
      !find_function(library, platform, "clEnqueueAcquireExternalMemObjectsKHR", out.acquire) ||
      !find_function(library, platform, "clEnqueueReleaseExternalMemObjectsKHR", out.release))
    return none("cl_khr_external_memory_dma_buf: found not all of its functions");
  out.text = kExtension;
  return out;
}

}  // namespace quarry::opencl
