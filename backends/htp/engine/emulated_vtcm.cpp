// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/engine/emulated_vtcm.h"

#include <mutex>
#include <new>
#include <utility>

#include "backends/common/plugin_support.h"
#include "backends/htp/qnn/library.h"

namespace quarry::htp {

namespace {

class VtcmInUse {
 public:
  static VtcmInUse &of_process() noexcept {
    // Never ended: a thread may still run when the process exits.
    alignas(VtcmInUse) static unsigned char place[sizeof(VtcmInUse)];
    static VtcmInUse *const one = ::new (place) VtcmInUse;
    return *one;
  }

  // Whether there is nothing to wait for: `in_the_way` is null then, or a SoC whose contexts hold another size.
  bool enter(const Soc &soc, bool is_context, const Soc *&in_the_way) noexcept {
    const std::lock_guard lock(mutex_);
    in_the_way = nullptr;
    if (contexts_ + compilations_ > 0 && holder_->vtcm_mb != soc.vtcm_mb) {
      if (contexts_ > 0) in_the_way = holder_;
      return contexts_ > 0;
    }
    if (contexts_ == 0) holder_ = &soc;
    ++(is_context ? contexts_ : compilations_);
    return true;
  }

  void leave(bool is_context) noexcept {
    const std::lock_guard lock(mutex_);
    --(is_context ? contexts_ : compilations_);
  }

 private:
  std::mutex mutex_;
  const Soc *holder_ = nullptr;
  std::uint32_t contexts_ = 0, compilations_ = 0;
};

// As plugin::lock_or_stop wants it.
struct Entry {
  const Soc &soc;
  bool is_context;
  const Soc *in_the_way = nullptr;
  bool try_lock() noexcept { return VtcmInUse::of_process().enter(soc, is_context, in_the_way); }
};

}  // namespace

Result<EmulatedVtcm> EmulatedVtcm::hold(const Soc &soc, For use) {
  EmulatedVtcm made;
  if (!qnn::Library::emulates()) return made;
  const bool is_context = use == For::Context;
  Entry entry{soc, is_context};
  QR_RETURN_IF_ERROR(plugin::lock_or_stop(entry, is_context ? "load" : "compile"));
  if (entry.in_the_way)
    return Status::error(
        ErrorId::device_busy,
        format("the emulator: found sessions for %s open in this process, expected none beside %s for %s: it has one "
               "VTCM for all, and theirs has %u MB, this SoC's %u",
               soc_text(*entry.in_the_way), is_context ? "a session" : "a compilation", soc_text(soc),
               entry.in_the_way->vtcm_mb, soc.vtcm_mb),
        "end those sessions first, or have a process for each; compile.process=child compiles in one of its own");
  made.holds_ = true, made.use_ = use;
  return made;
}

EmulatedVtcm::EmulatedVtcm(EmulatedVtcm &&other) noexcept
    : holds_(std::exchange(other.holds_, false)), use_(other.use_) {}

EmulatedVtcm &EmulatedVtcm::operator=(EmulatedVtcm &&other) noexcept {
  if (this == &other) return *this;
  release();
  holds_ = std::exchange(other.holds_, false), use_ = other.use_;
  return *this;
}

void EmulatedVtcm::release() noexcept {
  if (std::exchange(holds_, false)) VtcmInUse::of_process().leave(use_ == For::Context);
}

}  // namespace quarry::htp
