// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/run/trace_folder.h"

#include <thread>

#include "base/os/path.h"
#include "base/os_error.h"

namespace quarry::htp {

Status in_folder(std::string_view folder, const std::function<void()> &body) {
  const String path(folder);
  Allocator &allocator = current_allocator();
  int error = 0;
  bool threw = false;
  std::thread thread([&] {
    AllocatorScope scope(allocator);
    // Threads that the library begins from here on share the folder with this one.
    error = os::enter_own_folder(path.c_str());
    if (error != 0) return;
    try {
      body();
    } catch (const std::bad_alloc &) {
      threw = true;
    }
  });
  thread.join();
  if (threw) throw std::bad_alloc();
  if (error == 0) return {};
  return Status::error(
      os_error_id(error, ErrorId::io_error),
      format("option htp.optrace_dir: found %s, where nothing can be written: %s; expected a folder for the library's "
             "files",
             printable(path, 1000), os_error_text(error)));
}

}  // namespace quarry::htp
