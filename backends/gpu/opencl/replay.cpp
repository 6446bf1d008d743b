// SPDX-License-Identifier: Apache-2.0
#include "backends/gpu/opencl/replay.h"

#include <cstring>

#include "backends/gpu/opencl/extension.h"

namespace quarry::opencl {

namespace {

constexpr char kBuffers[] = "cl_khr_command_buffer", kRecordings[] = "cl_qcom_recordable_queues";
// Numbers of clGetDeviceInfo, and of what it gives.
constexpr cl_device_info kExtensionsWithVersion = 0x1060, kCapabilities = 0x12A9, kRequiredQueue = 0x12AA,
                         kMostRecorded = 0x41DE;
constexpr std::uint64_t kSimultaneousCapability = 1 << 2;

// As CL_MAKE_VERSION packs it; 0: drivers before OpenCL 3.0 do not say.
std::uint32_t version_of(const Library &library, cl_device_id device, std::string_view name) {
  struct Row {
    std::uint32_t version;
    char name[64];
  };
  std::size_t bytes = 0;
  if (library->GetDeviceInfo(device, kExtensionsWithVersion, 0, nullptr, &bytes) != CL_SUCCESS) return 0;
  Vector<Row> rows(bytes / sizeof(Row));
  if (rows.empty() || library->GetDeviceInfo(device, kExtensionsWithVersion, rows.size() * sizeof(Row), rows.data(),
                                             nullptr) != CL_SUCCESS)
    return 0;
  for (const Row &row : rows)
    if (std::string_view(row.name, strnlen(row.name, sizeof row.name)) == name) return row.version;
  return 0;
}

String find_buffers(const Library &library, cl_platform_id platform, cl_device_id device, Replay &out) {
  const std::uint32_t version = version_of(library, device, kBuffers);
  const std::uint32_t major = version >> 22, minor = (version >> 12) & 1023, patch = version & 4095;
  const String name = version ? format("%s %u.%u.%u", kBuffers, major, minor, patch) : String(kBuffers);
  if (version && !(major == 0 && minor == 9) && major != 1) return format("found %s, expected 0.9 to 1", name);
  std::uint64_t required = 0, capabilities = 0;
  if (library->GetDeviceInfo(device, kRequiredQueue, sizeof required, &required, nullptr) == CL_SUCCESS &&
      required != 0)
    return format("%s: found queue properties 0x%llx required, expected none", name, required);
  if (library->GetDeviceInfo(device, kCapabilities, sizeof capabilities, &capabilities, nullptr) == CL_SUCCESS)
    out.simultaneous = (capabilities & kSimultaneousCapability) != 0;
  if (!find_function(library, platform, "clCreateCommandBufferKHR", out.create) ||
      !find_function(library, platform, "clCommandNDRangeKernelKHR", out.kernel) ||
      !find_function(library, platform, "clFinalizeCommandBufferKHR", out.finalize) ||
      !find_function(library, platform, "clEnqueueCommandBufferKHR", out.enqueue) ||
      !find_function(library, platform, "clReleaseCommandBufferKHR", out.release))
    return format("%s: found not all of its functions", name);
  out.api = Replay::Api::CommandBuffer;
  return name;
}

String find_recordings(const Library &library, cl_platform_id platform, cl_device_id device, Replay &out) {
  std::size_t most = 0;
  if (library->GetDeviceInfo(device, kMostRecorded, sizeof most, &most, nullptr) == CL_SUCCESS && most > 0)
    out.most = most;
  if (!find_function(library, platform, "clNewRecordingQCOM", out.begin) ||
      !find_function(library, platform, "clEndRecordingQCOM", out.end) ||
      !find_function(library, platform, "clEnqueueRecordingQCOM", out.enqueue_recording) ||
      !find_function(library, platform, "clReleaseRecordingQCOM", out.release))
    return format("%s: found not all of its functions", kRecordings);
  out.api = Replay::Api::Qualcomm;
  return kRecordings;
}

}  // namespace

Replay find_replay(const Library &library, cl_platform_id platform, cl_device_id device, std::string_view extensions) {
  Replay out;
  out.text = "the driver has no extension for it";
  if (names_extension(extensions, kBuffers)) out.text = find_buffers(library, platform, device, out);
  if (out.api == Replay::Api::None && names_extension(extensions, kRecordings))
    out.text = find_recordings(library, platform, device, out);
  return out;
}

}  // namespace quarry::opencl
