// SPDX-License-Identifier: Apache-2.0
#include "backends/gpu/shared_memory.h"

namespace quarry::gpu {

using opencl::check;

Result<Unique<SharedMemory>> SharedMemory::make(std::shared_ptr<const Engine> engine, void *data, std::uint64_t bytes,
                                                std::uint64_t id) {
  auto made = quarry::make_unique<SharedMemory>(std::move(engine), data, bytes, id);
  QR_RETURN_IF_ERROR(made->open());
  return made;
}

Status SharedMemory::open() {
  QR_ASSIGN_OR_RETURN(queue_, engine_->queue(false, "normal"));
  QR_ASSIGN_OR_RETURN(
      memory_, engine_->memory(bytes_, "memory of the caller's", CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, data_));
  return map();
}

Status SharedMemory::reopen(std::shared_ptr<const Engine> engine) {
  const std::lock_guard lock(mutex_);
  memory_ = opencl::Memory(), queue_ = opencl::Queue();
  mapped_ = false, runs_ = 0;
  engine_ = std::move(engine);
  return open();
}

SharedMemory::~SharedMemory() {
  const opencl::Library &cl = engine_->library();
  if (!mapped_ || !cl.is_ours() || engine_->is_lost()) return;
  if (cl->EnqueueUnmapMemObject(queue_.get(), memory_.get(), data_, 0, nullptr, nullptr) == CL_SUCCESS)
    (void)cl->Finish(queue_.get());
}

// The driver gives the caller's own pointer back: that is what CL_MEM_USE_HOST_PTR says.
Status SharedMemory::map() {
  cl_int error = CL_SUCCESS;
  (void)engine_->library()->EnqueueMapBuffer(queue_.get(), memory_.get(), CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0,
                                             bytes_, 0, nullptr, nullptr, &error);
  mapped_ = error == CL_SUCCESS;
  return check("EnqueueMapBuffer", error, "memory of the caller's");
}

Status SharedMemory::lend() {
  const std::lock_guard lock(mutex_);
  if (runs_ == 0 && mapped_) {
    const opencl::Library &cl = engine_->library();
    QR_RETURN_IF_ERROR(check("EnqueueUnmapMemObject",
                             cl->EnqueueUnmapMemObject(queue_.get(), memory_.get(), data_, 0, nullptr, nullptr)));
    mapped_ = false;
    QR_RETURN_IF_ERROR(check("Finish", cl->Finish(queue_.get())));
  }
  ++runs_;
  return {};
}

Status SharedMemory::take_back() {
  const std::lock_guard lock(mutex_);
  return --runs_ == 0 ? map() : Status();
}

}  // namespace quarry::gpu
