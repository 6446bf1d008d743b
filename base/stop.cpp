// SPDX-License-Identifier: Apache-2.0
#include "base/stop.h"

#include <utility>

namespace quarry {
namespace {

constinit thread_local StopScope *t_scope = nullptr;

}  // namespace

StopScope::StopScope(const StopSource &source) noexcept : source_(source), previous_(std::exchange(t_scope, this)) {}
StopScope::~StopScope() { t_scope = previous_; }

bool stop_asked() noexcept {
  if (t_scope && !t_scope->told_) t_scope->told_ = t_scope->source_.stopped();
  return t_scope && t_scope->told_;
}

Status stop_status(std::string_view what) noexcept {
  if (!stop_asked()) return {};
  Status status = t_scope->source_.status(what);
  return status.ok() ? Status::error(ErrorId::cancelled, what) : std::move(status);
}

}  // namespace quarry
