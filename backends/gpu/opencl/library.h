// SPDX-License-Identifier: Apache-2.0
// libOpenCL: opened by its name at run time, never linked, and never closed again (drivers leave threads behind). A
// machine without it still loads the plugin, which says why it has no device.
#pragma once

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <memory>

#include "base/os/process.h"
#include "base/status.h"

namespace quarry::opencl {

// The functions, under their names without "cl"; those that are not needed may be null.
struct Api {
#define QR_CL_FUNCTION(name, needed) decltype(&::cl##name) name = nullptr;
#include "backends/gpu/opencl/functions.inc"
#undef QR_CL_FUNCTION
};

class Library {
 public:
  // If QUARRY_OPENCL_PATH names the file, nothing else is searched; else the system's loader searches for it by name.
  static Result<std::shared_ptr<const Library>> open();
  const Api *operator->() const noexcept { return &api_; }
  // A function that not every library has; null: this one does not.
  void *find(const char *name) const noexcept;
  const String &path() const noexcept { return path_; }
  // Not in a child of fork(): there the library must not be called, and objects are left to themselves.
  bool is_ours() const noexcept { return process_ == os::process_id(); }

 private:
  Api api_;
  void *handle_ = nullptr;
  String path_;
  std::uint32_t process_ = os::process_id();
};

// "-5 CL_OUT_OF_RESOURCES".
String error_text(cl_int error);

// What a call's return means: ok, or an error with the function's name. Out of memory and a lost device have ids of
// their own. `subject`: what the call was for, "the weights (12 MB)"; may be empty.
Status check(const char *function, cl_int returned, std::string_view subject = {});

// Objects of the library that end with the scope.
template <class T, cl_int (*Api::*kRelease)(T)>
class Handle {
 public:
  Handle() noexcept = default;
  Handle(const Library &library, T object) noexcept : library_(&library), object_(object) {}
  Handle(Handle &&other) noexcept : library_(other.library_), object_(std::exchange(other.object_, nullptr)) {}
  Handle &operator=(Handle &&other) noexcept {
    std::swap(library_, other.library_);
    std::swap(object_, other.object_);
    return *this;
  }
  ~Handle() {
    if (object_ && library_->is_ours()) (void)(library_->operator->()->*kRelease)(object_);
  }
  T get() const noexcept { return object_; }
  // For the library to write to.
  const T *address() const noexcept { return &object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }

 private:
  const Library *library_ = nullptr;
  T object_ = nullptr;
};

using Context = Handle<cl_context, &Api::ReleaseContext>;
using Queue = Handle<cl_command_queue, &Api::ReleaseCommandQueue>;
using Memory = Handle<cl_mem, &Api::ReleaseMemObject>;
using Program = Handle<cl_program, &Api::ReleaseProgram>;
using Kernel = Handle<cl_kernel, &Api::ReleaseKernel>;
using Event = Handle<cl_event, &Api::ReleaseEvent>;

// Parts of buffers and views of them, released last first: NVIDIA's driver (580.159) ends the process where two parts
// overlap, kernels used them, and the one that was made first is released first.
class Parts {
 public:
  Parts() noexcept = default;
  Parts(Parts &&) noexcept = default;
  ~Parts() { clear(); }
  void push_back(Memory part) { list_.push_back(std::move(part)); }
  void clear() noexcept {
    while (!list_.empty()) list_.pop_back();
  }

 private:
  Vector<Memory> list_;
};

}  // namespace quarry::opencl
