// SPDX-License-Identifier: Apache-2.0
#include "backends/gpu/engine/engine.h"

#include <CL/cl_ext.h>

#include <algorithm>

#include "backends/gpu/program/plan.h"
#include "base/os/signal_handlers.h"

namespace quarry::gpu {

namespace {

using opencl::check;

}  // namespace

Result<std::shared_ptr<Engine>> Engine::make(std::shared_ptr<const opencl::Library> library,
                                             const opencl::Device &device) {
  if (device.alignment > kAlign)
    return Status::error(ErrorId::backend_limit,
                         format("gpu: %s: found buffers aligned to %u bytes, expected at most %llu",
                                printable(device.name), device.alignment, kAlign));
  const os::KeptSignalHandlers handlers;
  auto engine = quarry::make_shared<Engine>();
  engine->library_ = std::move(library);
  engine->device_ = device;
  const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM,
                                              reinterpret_cast<cl_context_properties>(device.platform), 0};
  cl_int error = CL_SUCCESS;
  const cl_context context = (*engine->library_)->CreateContext(properties, 1, &device.id, nullptr, nullptr, &error);
  QR_RETURN_IF_ERROR(check("CreateContext", error, device.name));
  engine->context_ = opencl::Context(*engine->library_, context);
  return engine;
}

// Without the compiler's warnings, which some drivers count on standard error.
Result<opencl::Program> Engine::finish(cl_program made, const char *from) const {
  const os::KeptSignalHandlers handlers;  // a driver's compiler begins here
  opencl::Program program(*library_, made);
  String how = device_.computes_dots() ? "-cl-std=CL3.0 -w" : "-cl-std=CL1.2 -w";
  if (device_.divides_exactly()) how += " -cl-fp32-correctly-rounded-divide-sqrt";
  const cl_int built = (*library_)->BuildProgram(made, 1, &device_.id, how.c_str(), nullptr, nullptr);
  if (built == CL_SUCCESS) return program;
  String log;
  std::size_t size = 0;
  if ((*library_)->GetProgramBuildInfo(made, device_.id, CL_PROGRAM_BUILD_LOG, 0, nullptr, &size) == CL_SUCCESS &&
      size > 1) {
    log.resize(size);
    if ((*library_)->GetProgramBuildInfo(made, device_.id, CL_PROGRAM_BUILD_LOG, size, log.data(), nullptr) !=
        CL_SUCCESS)
      log.clear();
    log.resize(std::min(log.size(), log.find('\0')));
  }
  Status failed = check("BuildProgram", built, from);
  if (failed.id() != "QR-B0009") return failed;
  return Status::error(ErrorId::backend_library_call,
                       String(failed.message()) + "; the compiler of " + printable(device_.driver) +
                           " says: " + (log.empty() ? String("nothing") : printable(log, 2000)),
                       "update the device's driver; `quarry doctor` says its version");
}

Result<opencl::Program> Engine::build(const String &source) const {
  const char *text = source.c_str();
  const std::size_t size = source.size();
  cl_int error = CL_SUCCESS;
  const cl_program program = (*library_)->CreateProgramWithSource(context_.get(), 1, &text, &size, &error);
  QR_RETURN_IF_ERROR(check("CreateProgramWithSource", error));
  return finish(program, "the kernels' source");
}

Result<opencl::Program> Engine::build(qir::Bytes binary) const {
  const auto *data = static_cast<const unsigned char *>(binary.data);
  const std::size_t size = binary.size;
  cl_int status = CL_SUCCESS, error = CL_SUCCESS;
  const cl_program program =
      (*library_)->CreateProgramWithBinary(context_.get(), 1, &device_.id, &size, &data, &status, &error);
  QR_RETURN_IF_ERROR(check("CreateProgramWithBinary", error));
  return finish(program, "the kernels' binary");
}

Result<Vector<std::uint8_t>> Engine::binary_of(cl_program program) const {
  std::size_t size = 0;
  QR_RETURN_IF_ERROR(check("GetProgramInfo",
                           (*library_)->GetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, nullptr),
                           "the kernels' size"));
  Vector<std::uint8_t> binary(size);
  unsigned char *const data = binary.data();
  QR_RETURN_IF_ERROR(check("GetProgramInfo",
                           (*library_)->GetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof data,
                                                       const_cast<unsigned char **>(&data), nullptr),
                           "the kernels"));
  return binary;
}

Result<opencl::Queue> Engine::queue(bool profiled, std::string_view priority) const {
  cl_int error = CL_SUCCESS;
  const cl_command_queue_properties how = profiled ? CL_QUEUE_PROFILING_ENABLE : 0;
  if ((*library_)->CreateCommandQueueWithProperties && device_.has("cl_khr_priority_hints") && priority != "normal" &&
      !priority.empty()) {
    const cl_queue_properties level = priority == "low" ? CL_QUEUE_PRIORITY_LOW_KHR : CL_QUEUE_PRIORITY_HIGH_KHR;
    const cl_queue_properties list[] = {CL_QUEUE_PROPERTIES, how, CL_QUEUE_PRIORITY_KHR, level, 0};
    const cl_command_queue made =
        (*library_)->CreateCommandQueueWithProperties(context_.get(), device_.id, list, &error);
    QR_RETURN_IF_ERROR(check("CreateCommandQueueWithProperties", error));
    return opencl::Queue(*library_, made);
  }
  const cl_command_queue made = (*library_)->CreateCommandQueue(context_.get(), device_.id, how, &error);
  QR_RETURN_IF_ERROR(check("CreateCommandQueue", error));
  return opencl::Queue(*library_, made);
}

Result<opencl::Queue> Engine::recordable_queue() const {
  cl_int error = CL_SUCCESS;
  const cl_command_queue made =
      (*library_)->CreateCommandQueue(context_.get(), device_.id, opencl::kRecordableQueue, &error);
  QR_RETURN_IF_ERROR(check("CreateCommandQueue", error, "kernels that are recorded"));
  return opencl::Queue(*library_, made);
}

Result<opencl::Memory> Engine::memory(std::uint64_t bytes, const char *what, cl_mem_flags flags, void *host) const {
  cl_int error = CL_SUCCESS;
  const cl_mem made = (*library_)->CreateBuffer(context_.get(), flags, std::max<std::uint64_t>(bytes, 1), host, &error);
  QR_RETURN_IF_ERROR(check("CreateBuffer", error, format("%s (%llu bytes)", what, bytes)));
  return opencl::Memory(*library_, made);
}

Result<opencl::Memory> Engine::imported(int descriptor, std::uint64_t bytes) const {
  const std::uint64_t properties[] = {opencl::kDmaBuf, static_cast<std::uint64_t>(descriptor), 0};
  cl_int error = CL_SUCCESS;
  const cl_mem made = device_.external.create(context_.get(), properties, CL_MEM_READ_WRITE, bytes, nullptr, &error);
  QR_RETURN_IF_ERROR(check("CreateBufferWithProperties", error, format("a dma-buf (descriptor %d)", descriptor)));
  return opencl::Memory(*library_, made);
}

Result<opencl::Memory> Engine::image(const ImageSize &size, DType dtype, const void *contents, cl_mem view_of) const {
  cl_image_format texel{CL_RGBA, CL_FLOAT};
  if (dtype == DType::F16) texel.image_channel_data_type = CL_HALF_FLOAT;
  cl_image_desc how{};
  how.image_type = CL_MEM_OBJECT_IMAGE2D;
  how.image_width = static_cast<std::size_t>(size.width), how.image_height = static_cast<std::size_t>(size.height);
  if (view_of) {
    how.image_row_pitch = how.image_width * (dtype == DType::F16 ? 8 : 16);
    how.mem_object = view_of;
  }
  cl_int error = CL_SUCCESS;
  const cl_mem made = (*library_)->CreateImage(context_.get(), CL_MEM_READ_ONLY | (contents ? CL_MEM_COPY_HOST_PTR : 0),
                                               &texel, &how, const_cast<void *>(contents), &error);
  QR_RETURN_IF_ERROR(
      check("CreateImage", error,
            format("%s (%lld x %lld texels)", view_of ? "values between steps" : "weights", size.width, size.height)));
  return opencl::Memory(*library_, made);
}

Result<opencl::Memory> Engine::part(const opencl::Memory &of, std::uint64_t offset, std::uint64_t bytes) const {
  cl_int error = CL_SUCCESS;
  const cl_buffer_region region{offset, std::max<std::uint64_t>(bytes, 1)};
  const cl_mem made =
      (*library_)->CreateSubBuffer(of.get(), CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &error);
  QR_RETURN_IF_ERROR(check("CreateSubBuffer", error));
  return opencl::Memory(*library_, made);
}

}  // namespace quarry::gpu
