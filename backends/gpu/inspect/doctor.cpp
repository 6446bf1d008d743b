// SPDX-License-Identifier: Apache-2.0
#include "backends/gpu/inspect/doctor.h"

#include <algorithm>
#include <cctype>

#include "base/os/signal_handlers.h"

namespace quarry::gpu {

namespace {

bool holds(std::string_view text, std::string_view part) {
  const auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
  };
  return std::search(text.begin(), text.end(), part.begin(), part.end(), same) != text.end();
}

}  // namespace

Machine::Machine() {
  const os::KeptSignalHandlers handlers;
  const auto none = [this](Status status) {
    Entry &entry = devices_.emplace_back();
    entry.name = "OpenCL device";
    entry.why_not = String(status.message()) + "; " + String(status.hint());
    entry.details = (library_ ? "libOpenCL: " + printable(library_->path(), 1000) : String("libOpenCL: not there")) +
                    "\nnext: " + String(status.hint());
  };
  auto opened = opencl::Library::open();
  if (!opened.ok()) {
    none(opened.take_status());
    return;
  }
  library_ = *opened;
  auto found = opencl::find_devices(*library_);
  if (!found.ok()) {
    none(found.take_status());
    return;
  }
  for (opencl::Device &device : *found) {
    Entry &entry = devices_.emplace_back();
    entry.name = printable(device.name);
    entry.why_not = device.why_not;
    entry.details = "libOpenCL: " + printable(library_->path(), 1000) + "\n" + opencl::describe(device) +
                    "\nnext: " + (device.why_not.empty() ? String("nothing") : device.why_not);
    entry.device = std::move(device);
  }
}

Result<const opencl::Device *> Machine::choose(std::uint32_t index, std::string_view pattern) const {
  const Entry *chosen = index < devices_.size() ? &devices_[index] : nullptr;
  if (chosen && !pattern.empty() && !holds(chosen->name, pattern)) {
    chosen = nullptr;
    if (index == 0)
      for (const Entry &entry : devices_)
        if (!chosen && entry.why_not.empty() && holds(entry.name, pattern)) chosen = &entry;
    if (!chosen) {
      String names;
      for (const Entry &entry : devices_) names += (names.empty() ? "" : ", ") + entry.name;
      return Status::error(ErrorId::backend_no_device,
                           format("option gpu.device: found '%s', expected part of the name of a device: %s",
                                  printable(pattern), names));
    }
  }
  if (!chosen)
    return Status::error(ErrorId::backend_no_device,
                         format("gpu: found device %u, expected less than %zu", index, devices_.size()));
  if (!chosen->why_not.empty())
    return Status::error(ErrorId::backend_no_device, "gpu: " + chosen->name + ": " + chosen->why_not);
  return &chosen->device;
}

}  // namespace quarry::gpu
