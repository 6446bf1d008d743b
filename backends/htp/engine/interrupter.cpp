// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/engine/interrupter.h"

#include <chrono>

#include "backends/htp/qnn/log.h"

namespace quarry::htp {

Interrupter::~Interrupter() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    wake_.notify_all();
  }
  if (watcher_.joinable()) watcher_.join();
}

Interrupter::Call::Call(Interrupter &owner, const plugin::StopToken &stop, bool may_stop) : owner_(owner), stop_(stop) {
  if (!may_stop || owner.has_none_) return;
  const qnn::Api &api = owner.api_;
  constexpr std::uint32_t kAbort = 1;
  qnn::SignalConfig config{};
  config.option = kAbort;
  const qnn::SignalConfig *list[] = {&config, nullptr};
  const qnn::LogLines unheard;  // that it has no signals is no trouble
  const std::lock_guard lock(owner.mutex_);
  if (!api.signalCreate || !api.signalTrigger || !api.signalFree ||
      api.signalCreate(owner.backend_, list, &signal_) != qnn::kOk) {
    signal_ = nullptr;
    owner.has_none_ = true;
    return;
  }
  next_ = owner.first_;
  owner.first_ = this;
  if (!owner.watcher_.joinable()) owner.watcher_ = std::thread([&owner] { owner.watch(); });
  owner.wake_.notify_one();
}

Interrupter::Call::~Call() {
  if (!signal_) return;
  {
    const std::lock_guard lock(owner_.mutex_);
    Call **place = &owner_.first_;
    while (*place != this) place = &(*place)->next_;
    *place = next_;
  }
  (void)owner_.api_.signalFree(signal_);
}

void Interrupter::watch() {
  std::unique_lock lock(mutex_);
  while (!ends_) {
    if (!first_) {
      wake_.wait(lock);
      continue;
    }
    for (Call *call = first_; call; call = call->next_) {
      if (call->triggered_ || !call->stop_.stopped()) continue;
      call->triggered_ = true;
      (void)api_.signalTrigger(call->signal_);
    }
    wake_.wait_for(lock, std::chrono::milliseconds(1));
  }
}

}  // namespace quarry::htp
