// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/engine/listed_context.h"

#include "backends/htp/engine/engine.h"
#include "backends/htp/qnn/htp_abi.h"
#include "base/stop.h"

namespace quarry::htp {

void ListedContext::tell(qnn::Handle context, bool is_context, qnn::Error error) noexcept {
  const std::lock_guard lock(mutex_);
  if (left_ > 0) --left_;
  if (error != qnn::kOk) error_ = error;
  if (is_context) has_context_ = true, context_ = context;
  came_.notify_all();
}

bool ListedContext::is_done() const {
  const std::lock_guard lock(mutex_);
  return left_ == 0;
}

qnn::Handle ListedContext::orphan() noexcept {
  const std::lock_guard lock(mutex_);
  return is_waited_for_ ? nullptr : std::exchange(context_, nullptr);
}

Result<qnn::Handle> ListedContext::wait() {
  std::unique_lock lock(mutex_);
  while (!has_context_ && error_ == qnn::kOk) {
    if (Status stopped = stop_status("load"); !stopped.ok()) {
      is_waited_for_ = false;
      return stopped;
    }
    came_.wait_for(lock, std::chrono::milliseconds(1));
  }
  if (error_ == qnn::kOk && context_) return qnn::Handle(context_);
  is_waited_for_ = false;
  return qnn::call_failed("contextCreateFromBinaryListAsync, reported of the context", error_, nullptr,
                          "compile the model again, for this device and with its library");
}

Result<qnn::Handle> ListedContext::create(Engine &engine, std::span<const std::uint8_t> binary, std::uint64_t graphs,
                                          const qnn::ContextConfig **configs, std::uint32_t type) {
  const qnn::Api &api = engine.api();
  if (!api.contextCreateFromBinaryListAsync)
    return qnn::slot_missing(engine.library(), "contextCreateFromBinaryListAsync", "htp_share_resource_optimization");
  qnn::HtpContextConfig share{};
  share.option = static_cast<std::uint32_t>(qnn::HtpContextOpt::ShareResources);
  share.flag = true;
  qnn::HtpContextConfig how{};
  how.option = static_cast<std::uint32_t>(qnn::HtpContextOpt::ShareOptType);
  how.kind = type;
  qnn::ContextConfig of_list{}, kind_of_list{};
  of_list.option = kind_of_list.option = qnn::ContextOpt::Custom;
  of_list.custom = &share, kind_of_list.custom = &how;
  // The first type is the library's own choice, and an older library does not know the configuration.
  const qnn::ContextConfig *list_configs[] = {&of_list, type == 0 ? nullptr : &kind_of_list, nullptr};
  const auto made = std::allocate_shared<ListedContext>(Alloc<ListedContext>(), graphs + 1);
  engine.keep(made);
  qnn::CtxParams params{};
  params.version = 1;
  params.v1.config = configs, params.v1.bin = binary.data(), params.v1.bytes = binary.size();
  params.v1.arg = made.get();
  params.v1.fn = [](qnn::Handle context, qnn::Handle, const char *, std::uint32_t what, void *self, qnn::Error status) {
    constexpr std::uint32_t kContext = 1;
    static_cast<ListedContext *>(self)->tell(context, what == kContext, status);
  };
  const qnn::CtxParams *list[] = {&params, nullptr};
  qnn::LogLines lines;
  if (const qnn::Error error =
          api.contextCreateFromBinaryListAsync(engine.backend(), engine.device(), list, list_configs, nullptr))
    return qnn::call_failed("contextCreateFromBinaryListAsync (htp_share_resource_optimization=1)", error, &lines,
                            "the library's word on what was asked for counts: leave out the option that it refuses");
  return made->wait();
}

}  // namespace quarry::htp
