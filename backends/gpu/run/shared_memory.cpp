// SPDX-License-Identifier: Apache-2.0
#include "backends/gpu/run/shared_memory.h"

#include "base/checked.h"

namespace quarry::gpu {

using opencl::check;

namespace {

constexpr std::uint32_t kBoth = QR_PLUGIN_ACCESS_READ | QR_PLUGIN_ACCESS_WRITE;
// Of one memory. A ring of more windows than that is copied on the device.
constexpr std::size_t kMostParts = 4096;

}  // namespace

Result<Unique<SharedMemory>> SharedMemory::make(std::shared_ptr<const Engine> engine,
                                                const qr_plugin_memory_request &request,
                                                qr_plugin_memory_info *out_info, std::uint64_t id, String *note) {
  auto made = quarry::make_unique<SharedMemory>(std::move(engine), request, id);
  qr_plugin_memory_info info{sizeof(qr_plugin_memory_info), 1, request.data};
  if (made->is_file()) {
    // Who needs no view does without one, where the driver takes the descriptor.
    Status viewed = plugin::import_memory(request, &info, made->view_);
    if (!viewed.ok() && (!(request.flags & QR_PLUGIN_MEMORY_NO_HOST_POINTER) || !made->can_import())) return viewed;
  }
  made->data_ = info.data;
  QR_RETURN_IF_ERROR(made->open(note));
  if (made->is_imported_) info.coherent = 0;
  plugin::give(info, out_info);
  return made;
}

Status SharedMemory::open(String *note) {
  QR_ASSIGN_OR_RETURN(queue_, engine_->queue(false, "normal"));
  parts_ = std::allocate_shared<opencl::Parts>(Alloc<opencl::Parts>());
  is_imported_ = false;
  std::uint64_t bytes = 0;
  if (can_import() && checked_add(request_.offset, request_.size_bytes, &bytes)) {
    // Of a memfd, and of a dma-buf that it cannot reach, the driver says so.
    auto imported = engine_->imported(request_.fd, bytes);
    if (imported.ok()) {
      memory_ = std::move(*imported);
      is_imported_ = true;
      return {};
    }
    *note = String(imported.status().message());
    if (!data_) return imported.take_status();
  }
  QR_ASSIGN_OR_RETURN(memory_, engine_->memory(request_.size_bytes, "memory of the caller's",
                                               CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, data_));
  return map();
}

Status SharedMemory::reopen(std::shared_ptr<const Engine> engine) {
  const std::lock_guard lock(mutex_);
  known_.clear(), parts_.reset();
  memory_ = opencl::Memory(), queue_ = opencl::Queue();
  mapped_ = false, runs_ = 0;
  engine_ = std::move(engine);
  String note;  // was reported when it was registered
  return open(&note);
}

SharedMemory::~SharedMemory() {
  const opencl::Library &cl = engine_->library();
  if (mapped_ && cl.is_ours() && !engine_->is_lost() &&
      cl->EnqueueUnmapMemObject(queue_.get(), memory_.get(), data_, 0, nullptr, nullptr) == CL_SUCCESS)
    (void)cl->Finish(queue_.get());
  known_.clear(), parts_.reset();
  memory_ = opencl::Memory();  // before the pages that it lies in
  if (view_.base) plugin::unmap_memory(view_);
}

Result<cl_mem> SharedMemory::part(std::uint64_t offset, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const std::pair key{offset, bytes};
  if (const auto found = known_.find(key); found != known_.end()) return found->second;
  if (known_.size() == kMostParts) return nullptr;
  QR_ASSIGN_OR_RETURN(opencl::Memory made, engine_->part(memory_, this->offset() + offset, bytes));
  const cl_mem part = made.get();
  parts_->push_back(std::move(made));
  known_.emplace(key, part);
  return part;
}

// The driver gives the caller's own pointer back: that is what CL_MEM_USE_HOST_PTR says.
Status SharedMemory::map() {
  cl_int error = CL_SUCCESS;
  (void)engine_->library()->EnqueueMapBuffer(queue_.get(), memory_.get(), CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0,
                                             request_.size_bytes, 0, nullptr, nullptr, &error);
  mapped_ = error == CL_SUCCESS;
  return check("EnqueueMapBuffer", error, "memory of the caller's");
}

Status SharedMemory::edge(opencl::External::Edge call, const char *name) {
  const cl_mem memory = memory_.get();
  QR_RETURN_IF_ERROR(check(name, call(queue_.get(), 1, &memory, 0, nullptr, nullptr), "a dma-buf"));
  return check("Finish", engine_->library()->Finish(queue_.get()), "a dma-buf");
}

// Mapped memory is copied by some drivers at the edges of a run, so the processor works on it until the last one ends.
Status SharedMemory::lend() {
  const std::lock_guard lock(mutex_);
  if (runs_ == 0 && is_imported_) {
    QR_RETURN_IF_ERROR(edge(engine_->device().external.acquire, "EnqueueAcquireExternalMemObjectsKHR"));
  } else if (runs_ == 0 && mapped_) {
    const opencl::Library &cl = engine_->library();
    QR_RETURN_IF_ERROR(plugin::report_access(view_, kBoth, true));
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
  if (--runs_ != 0) return {};
  if (is_imported_) return edge(engine_->device().external.release, "EnqueueReleaseExternalMemObjectsKHR");
  Status status = map();
  Status told = plugin::report_access(view_, kBoth, false);
  return status.ok() ? std::move(told) : std::move(status);
}

}  // namespace quarry::gpu
