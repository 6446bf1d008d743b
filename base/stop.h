// SPDX-License-Identifier: Apache-2.0
// Whether the call that a thread works for is to end: work that may take long asks, however deep it stands. An edge
// that was given a signal opens a StopScope over it, as it opens an AllocatorScope; without one nothing is ever
// stopped. Who must stop returns at once, with a Status where it has one; what it leaves behind is half done, so
// its caller asks too before it goes on.
#pragma once

#include <string_view>

#include "base/status.h"

namespace quarry {

// Where the answer comes from: abort and deadline of a call.
class StopSource {
 public:
  virtual bool stopped() const noexcept = 0;
  // cancelled or deadline_exceeded when stopped, ok otherwise. `what` names the work: "run".
  virtual Status status(std::string_view what) const noexcept = 0;

 protected:
  ~StopSource() = default;
};

// Makes a source the thread's own until the scope ends; scopes nest.
class StopScope {
 public:
  explicit StopScope(const StopSource &source) noexcept;
  ~StopScope();
  StopScope(const StopScope &) = delete;
  StopScope &operator=(const StopScope &) = delete;

 private:
  friend bool stop_asked() noexcept;
  friend Status stop_status(std::string_view what) noexcept;
  const StopSource &source_;
  StopScope *const previous_;
  bool told_ = false;  // somebody left work half done for it: taking the abort back does not mend that
};

// Reads a clock: for each node, or for some ten thousand elements, not for each of them.
bool stop_asked() noexcept;
Status stop_status(std::string_view what) noexcept;

}  // namespace quarry
