// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

namespace quarry {

namespace os {
void close_descriptor(int fd) noexcept;
}  // namespace os

// A descriptor that closes itself.
class OpenFd {
 public:
  OpenFd() noexcept = default;
  explicit OpenFd(int fd) noexcept : fd_(fd) {}
  OpenFd(OpenFd &&other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  OpenFd &operator=(OpenFd &&other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~OpenFd() {
    if (fd_ >= 0) os::close_descriptor(fd_);
  }
  int get() const noexcept { return fd_; }
  int release() noexcept { return std::exchange(fd_, -1); }  // the caller closes it

 private:
  int fd_ = -1;
};

}  // namespace quarry
