// SPDX-License-Identifier: Apache-2.0
// Stands between the backend and Qualcomm's library: each call is written down with what it is given before the library
// is called, and what the library gave when it has returned. One for the process, as the library is.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>

#include "backends/htp/qnn/function_table.h"
#include "backends/htp/record/pen.h"

namespace quarry::record {

class Recorder {
 public:
  struct Wish {
    const char *file;
    bool keeps_weights;
    const qnn::Provider *provider;
    const char *build;
    const char *quarry;
  };
  // The table that records: of the functions of calls.inc, as far as the library has them; the others are null.
  static Result<const qnn::Api *> begin(const Wish &wish);
  static Recorder &get() noexcept { return *g_recorder; }

  template <class Table>
  const Table &real() const noexcept {
    if constexpr (std::is_same_v<Table, qnn::Api>) return real_;
    else return real_infra_;
  }

  // The number of the call, 0: nothing can be written any more.
  template <class F>
  std::uint64_t before(std::uint32_t function, F arguments) noexcept {
    return locked(EntryKind::Call, function, 0, 0, arguments);
  }
  template <class F>
  void after(std::uint32_t function, std::uint64_t call, qnn::Error error, F given) noexcept {
    (void)locked(EntryKind::Return, function, call, error, given);
  }
  // Nothing that happens unseen: calls fail from then on, and this is why.
  qnn::Error refuse() noexcept;

  // ---- for parts.h
  qnn::LogFn hear(qnn::LogFn fn) noexcept;
  void *expect_notice(qnn::NotifyFn fn, void *arg, const qnn::Tensor *out, std::uint32_t count, std::uint64_t call,
                      std::uint32_t function);
  static void take_notice(void *self, qnn::NotifyStatus status);
  const qnn::CtxParams **expect_contexts(const qnn::CtxParams **list, std::uint64_t call, std::uint32_t function);
  static void take_context(qnn::Handle context, qnn::Handle graph, const char *name, std::uint32_t what, void *self,
                           qnn::Error status);
  void *infra_before(void *real) noexcept;
  void map_memory(qnn::Handle handle, const qnn::MemDesc &desc);
  void forget_memory(qnn::Handle handle);

 private:
  struct Notice;
  struct ListedContext;
  struct ContextCall;
  static void take_line(const char *pattern, std::uint32_t level, std::uint64_t time, va_list arguments);

  template <class F>
  std::uint64_t locked(EntryKind kind, std::uint32_t function, std::uint64_t call, qnn::Error error, F write) noexcept {
    const std::lock_guard lock(mutex_);
    if (error_ || file_.error()) return 0;
    try {
      Pen pen(file_, registered_, is_wide_);
      write(pen);
      return put(kind, function, call ? call : ++calls_, error, 0, pen);
    } catch (const std::bad_alloc &) {
      error_ = kNoMemory;
      return 0;
    }
  }
  std::uint64_t put(EntryKind kind, std::uint32_t function, std::uint64_t call, qnn::Error error, std::uint32_t level,
                    const Pen &pen);

  static constexpr int kNoMemory = 12;  // ENOMEM
  static constinit Recorder *g_recorder;
  std::mutex mutex_;
  RecordFile file_;
  int error_ = 0;
  bool is_wide_ = false, keeps_weights_ = true;
  std::uint64_t begun_ns_ = 0, calls_ = 0;
  qnn::Api real_ = {}, api_ = {};
  qnn::HtpInfra real_infra_ = {}, infra_ = {};
  std::atomic<qnn::LogFn> hears_{nullptr};
  HashMap<qnn::Handle, Mapped> registered_;
  Vector<Unique<ContextCall>> context_calls_;  // reports may come as long as the library lives
};

}  // namespace quarry::record
