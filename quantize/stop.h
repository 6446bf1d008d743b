// SPDX-License-Identifier: Apache-2.0
// Ends work of this library's own, between the runs of a session, which look at the signal themselves.
#pragma once

#include <optional>

#include <quarry/quarry.hpp>

#include "base/stop.h"
#include "prepare/float_model.h"

namespace quarry::quantize {

// A call's signal, as the C ABI has it; NULL never stops.
class SignalSource final : public StopSource {
 public:
  explicit SignalSource(qr_signal *signal) noexcept : signal_(signal) {}
  bool stopped() const noexcept override { return signal_ && !qr::Status(qr_signal_check(signal_)).ok(); }
  Status status(std::string_view what) const noexcept override {
    const qr::Status found(qr_signal_check(signal_));
    if (found.ok()) return {};
    return Status::error(found.code() == QR_DEADLINE_EXCEEDED ? ErrorId::deadline_exceeded : ErrorId::cancelled, what);
  }

 private:
  qr_signal *signal_;
};

inline constexpr std::string_view kStopped = "quantising: stopped by its signal or its timeout";

// Has libquarry-prepare ask the signal in what `body` calls of it: a scope is of one library alone.
template <class Body>
auto in_prepare(qr_signal *signal, Body &&body) {
  std::optional<decltype(body())> out;
  struct Context {
    decltype(out) &result;
    Body &body;
  } context{out, body};
  const SignalSource source(signal);
  qr_prepare_for_quantize()->with_stop(
      source,
      [](void *self) {
        auto &to = *static_cast<Context *>(self);
        to.result.emplace(to.body());
      },
      &context);
  return *std::move(out);
}

// Asks whether to stop after so much work that asking costs nothing beside it.
class SeldomAsked {
 public:
  // `more`: operations, about, before the next call.
  bool stopped(std::size_t more) noexcept {
    constexpr std::size_t kMost = std::size_t{1} << 22;  // some milliseconds
    if ((work_ += more) < kMost) return stopped_;
    work_ = 0;
    return stopped_ = stop_asked();
  }

 private:
  std::size_t work_ = 0;
  bool stopped_ = false;
};

}  // namespace quarry::quantize
