// SPDX-License-Identifier: Apache-2.0
// Ends calls of the library by its signals, where it has them: a thread looks whether the caller's signal wants the
// call to end, and triggers the library's. The emulator has none; its calls run to their end.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "backends/common/plugin_support.h"
#include "backends/htp/qnn/function_table.h"

namespace quarry::htp {

class Interrupter : public HeapObject {
 public:
  Interrupter(const qnn::Api &api, qnn::Handle backend) : api_(api), backend_(backend) {}
  ~Interrupter();
  Interrupter(const Interrupter &) = delete;
  Interrupter &operator=(const Interrupter &) = delete;

  // One call. `signal()` goes into it: nullptr where the library has none, or the caller has none.
  class Call {
   public:
    Call(Interrupter &owner, const plugin::StopToken &stop, bool may_stop);
    ~Call();
    Call(const Call &) = delete;
    Call &operator=(const Call &) = delete;
    qnn::Handle signal() const noexcept { return signal_; }
    void abandon() noexcept { signal_ = nullptr; }  // the engine was closed meanwhile, and its signals with it

   private:
    friend class Interrupter;
    Interrupter &owner_;
    const plugin::StopToken &stop_;
    qnn::Handle signal_ = nullptr;
    bool triggered_ = false;
    Call *next_ = nullptr;
  };

 private:
  void watch();
  const qnn::Api &api_;
  qnn::Handle backend_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::thread watcher_;
  Call *first_ = nullptr;
  bool ends_ = false;
  std::atomic<bool> has_none_{false};
};

}  // namespace quarry::htp
