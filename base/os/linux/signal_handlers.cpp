// SPDX-License-Identifier: Apache-2.0
#include "base/os/signal_handlers.h"

#include <signal.h>

#include <cstring>

namespace quarry::os {

namespace {

constexpr int kSignals = 31;  // those without a number of real time
using Handlers = struct sigaction[kSignals];

bool is_function(const struct sigaction &action) noexcept {
  return (action.sa_flags & SA_SIGINFO) != 0 || (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
}

bool is_same(const struct sigaction &a, const struct sigaction &b) noexcept {
  const bool takes_info = (a.sa_flags & SA_SIGINFO) != 0;
  if (takes_info != ((b.sa_flags & SA_SIGINFO) != 0)) return false;
  return takes_info ? a.sa_sigaction == b.sa_sigaction : a.sa_handler == b.sa_handler;
}

}  // namespace

KeptSignalHandlers::KeptSignalHandlers() noexcept {
  static_assert(sizeof(Handlers) <= sizeof room_);
  std::memset(room_, 0, sizeof room_);
  auto &handlers = *reinterpret_cast<Handlers *>(room_);
  for (int i = 0; i < kSignals; ++i) (void)sigaction(i + 1, nullptr, &handlers[i]);
}

KeptSignalHandlers::~KeptSignalHandlers() {
  const auto &handlers = *reinterpret_cast<const Handlers *>(room_);
  for (int i = 0; i < kSignals; ++i) {
    struct sigaction now;
    if (is_function(handlers[i]) && sigaction(i + 1, nullptr, &now) == 0 && !is_same(handlers[i], now))
      (void)sigaction(i + 1, &handlers[i], nullptr);
  }
}

}  // namespace quarry::os
