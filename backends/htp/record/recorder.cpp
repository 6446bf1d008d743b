// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/record/recorder.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "backends/htp/record/parts.h"
#include "backends/htp/record/seam.h"
#include "base/clock.h"
#include "base/os/mapping.h"
#include "base/os/thread.h"
#include "base/os_error.h"
#include "base/paths.h"

namespace quarry::record {

constinit Recorder *Recorder::g_recorder = nullptr;

namespace {

std::mutex &beginning() {
  static std::mutex made;
  return made;
}

// Gives something back: done even where nothing can be written any more.
constexpr bool gives_back(std::uint32_t function) {
  for (const std::uint32_t one : {8u, 14u, 27u, 34u, 36u, 38u, 43u, 47u, 102u})
    if (one == function) return true;
  return false;
}

template <std::uint32_t kFunction, class Table, auto kSlot, class Parts, class Signature>
struct Recorded;
template <std::uint32_t kFunction, class Table, auto kSlot, class Parts, class... A>
struct Recorded<kFunction, Table, kSlot, Parts, qnn::Error (*)(A...)> {
  static qnn::Error call(A... given) {
    Recorder &recorder = Recorder::get();
    std::tuple<A...> arguments(given...);
    const std::uint64_t number = recorder.before(kFunction, [&](Pen &pen) {
      Parts::each([&]<class P, std::size_t I>() { P::template in<I>(pen, arguments); });
    });
    if (number == 0 && !gives_back(kFunction)) return recorder.refuse();
    Parts::each([&]<class P, std::size_t I>() { P::template wrap<I>(recorder, arguments, number, kFunction); });
    const qnn::Error error = std::apply(recorder.real<Table>().*kSlot, arguments);
    if (number > 0)
      recorder.after(kFunction, number, error, [&](Pen &pen) {
        if (error == qnn::kOk)
          Parts::each([&]<class P, std::size_t I>() { P::template out<I>(recorder, pen, arguments); });
      });
    return error;
  }
};

}  // namespace

Result<const qnn::Api *> Recorder::begin(const Wish &wish) {
  const std::lock_guard lock(beginning());
  const String path = absolute_path(wish.file);
  if (g_recorder) {
    if (g_recorder->file_.path() != path || g_recorder->keeps_weights_ != wish.keeps_weights)
      return Status::error(
          ErrorId::option_conflict,
          format("option htp.record: found '%s' with htp.record_weights=%d beside a record that this process writes "
                 "already, '%s' with %d, expected one for a process",
                 printable(path, 1000), wish.keeps_weights, printable(g_recorder->file_.path(), 1000),
                 g_recorder->keeps_weights_),
          "name the same file with the same htp.record_weights, or have a process for each");
    return &g_recorder->api_;
  }
  auto made = quarry::make_unique<Recorder>();
  Head head{};
  std::memcpy(head.magic, kMagic, sizeof head.magic);
  head.version = kVersion;
  head.flags = wish.keeps_weights ? kKeepsWeights : 0;
  const qnn::ApiVersion &version = wish.provider->version;
  std::memcpy(head.core, &version.core, sizeof head.core);
  std::memcpy(head.backend, &version.backend, sizeof head.backend);
  std::snprintf(head.build, sizeof head.build, "%s", wish.build);
  std::snprintf(head.quarry, sizeof head.quarry, "%s", wish.quarry);
  head.begun_s =
      static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch() / std::chrono::seconds(1));
  head.sum = hash64(&head, offsetof(Head, sum));
  QR_RETURN_IF_ERROR(made->file_.open(path, head));
  made->keeps_weights_ = wish.keeps_weights;
  made->is_wide_ = version.backend.minor >= 47;
  made->begun_ns_ = now_ns();
  // Those of a version that the backend does not know it does not call.
  std::memcpy(&made->real_, &wish.provider->api,
              version.core.minor >= 32 ? sizeof(qnn::Api) : (version.core.minor >= 28 ? 69 : 62) * sizeof(void *));
#define QR_QNN_CALL(number, slot, ...) \
  if (made->real_.slot)                \
    made->api_.slot =                  \
        Recorded<number, qnn::Api, &qnn::Api::slot, parts::List<__VA_ARGS__>, decltype(qnn::Api::slot)>::call;
#define QR_HTP_CALL(number, slot, ...)                                                                \
  made->infra_.slot = Recorded<number, qnn::HtpInfra, &qnn::HtpInfra::slot, parts::List<__VA_ARGS__>, \
                               decltype(qnn::HtpInfra::slot)>::call;
  using namespace parts;
#include "backends/htp/record/calls.inc"
#undef QR_QNN_CALL
#undef QR_HTP_CALL
  g_recorder = made.release();
  return &g_recorder->api_;
}

std::uint64_t Recorder::put(EntryKind kind, std::uint32_t function, std::uint64_t call, qnn::Error error,
                            std::uint32_t level, const Pen &pen) {
  const CallHead head{
      call, now_ns() - begun_ns_, os::current_thread_id(), function, pen.is_whole() ? 0 : kPartly, level, error};
  file_.add(kind, head, pen.content().data(), pen.content().size());
  return file_.error() ? 0 : call;
}

namespace {

void tell(qnn::LogFn to, const char *pattern, ...) {
  va_list arguments;
  va_start(arguments, pattern);
  to(pattern, static_cast<std::uint32_t>(qnn::LogLevel::Errors), 0, arguments);
  va_end(arguments);
}

}  // namespace

qnn::Error Recorder::refuse() noexcept {
  const int number = file_.error() ? file_.error() : error_;
  if (const qnn::LogFn to = hears_.load())
    tell(to, "htp.record: the file cannot be written any more (error %d): no further call is made", number);
  return static_cast<qnn::Error>(qnn::Code::System);
}

// ---- what the library says

qnn::LogFn Recorder::hear(qnn::LogFn fn) noexcept {
  hears_ = fn;
  return take_line;
}

void Recorder::take_line(const char *pattern, std::uint32_t level, std::uint64_t time, va_list arguments) {
  Recorder &self = get();
  char line[2048];
  va_list copy;
  va_copy(copy, arguments);
  const int size = std::vsnprintf(line, sizeof line, pattern, copy);
  va_end(copy);
  if (size > 0) {
    std::size_t end = std::min<std::size_t>(static_cast<std::size_t>(size), sizeof line - 1);
    while (end > 0 && (line[end - 1] == '\n' || line[end - 1] == ' ')) line[--end] = '\0';
    const std::lock_guard lock(self.mutex_);
    try {
      Pen pen(self.file_, self.registered_, self.is_wide_);
      pen.text(line);
      (void)self.put(EntryKind::Line, 0, self.calls_, 0, level, pen);
    } catch (const std::bad_alloc &) {
      self.error_ = kNoMemory;
    }
  }
  if (const qnn::LogFn fn = self.hears_.load()) fn(pattern, level, time, arguments);
}

// ---- calls that go on behind their return

struct Recorder::Notice : HeapObject {
  qnn::NotifyFn fn;
  void *arg;
  const qnn::Tensor *out;
  std::uint32_t count;
  std::uint64_t call;
  std::uint32_t function;
};

void *Recorder::expect_notice(qnn::NotifyFn fn, void *arg, const qnn::Tensor *out, std::uint32_t count,
                              std::uint64_t call, std::uint32_t function) {
  // It ends with its notice; where the library refuses the call, it stays: it is small.
  auto *const made = new Notice;
  made->fn = fn, made->arg = arg, made->out = out, made->count = count, made->call = call, made->function = function;
  return made;
}

void Recorder::take_notice(void *self, qnn::NotifyStatus status) {
  const Unique<Notice> notice(static_cast<Notice *>(self));
  (void)get().locked(EntryKind::Notice, notice->function, notice->call, status.error, [&](Pen &pen) {
    if (status.error == qnn::kOk)
      for (std::uint32_t i = 0; i < notice->count; ++i) pen.written(notice->out[i]);
  });
  if (notice->fn) notice->fn(notice->arg, status);
}

struct Recorder::ListedContext {
  qnn::InitNotifyFn fn;
  void *arg;
  std::uint64_t call;
  std::uint32_t function, place;
};
struct Recorder::ContextCall : HeapObject {
  Vector<ListedContext> contexts;
  Vector<qnn::CtxParams> params;
  Vector<const qnn::CtxParams *> list;
};

const qnn::CtxParams **Recorder::expect_contexts(const qnn::CtxParams **list, std::uint64_t call,
                                                 std::uint32_t function) {
  auto made = quarry::make_unique<ContextCall>();
  for (; list && *list; ++list) made->params.push_back(**list);
  made->contexts.resize(made->params.size());
  for (std::size_t i = 0; i < made->params.size(); ++i) {
    qnn::CtxParams &one = made->params[i];
    if (one.version == 1) {
      made->contexts[i] = {one.v1.fn, one.v1.arg, call, function, static_cast<std::uint32_t>(i)};
      one.v1.fn = take_context, one.v1.arg = &made->contexts[i];
    }
    made->list.push_back(&one);
  }
  made->list.push_back(nullptr);
  const qnn::CtxParams **const given = made->list.data();
  const std::lock_guard lock(mutex_);
  context_calls_.push_back(std::move(made));
  return given;
}

void Recorder::take_context(qnn::Handle context, qnn::Handle graph, const char *name, std::uint32_t what, void *self,
                            qnn::Error status) {
  const ListedContext &listed = *static_cast<const ListedContext *>(self);
  (void)get().locked(EntryKind::Notice, listed.function, listed.call, status, [&](Pen &pen) {
    pen.number(listed.place), pen.number(what), pen.handle(Kind::Context, context), pen.handle(Kind::Graph, graph),
        pen.text(name);
  });
  if (listed.fn) listed.fn(context, graph, name, what, listed.arg, status);
}

// ---- votes, and memory that is shared

void *Recorder::infra_before(void *real) noexcept {
  const auto *const given = static_cast<const qnn::HtpInfra *>(real);
  if (!given) return real;
  real_infra_ = *given;
  infra_.kind = given->kind;
  infra_.setMemoryConfig = nullptr;  // the backend does not call it
  return &infra_;
}

void Recorder::map_memory(qnn::Handle handle, const qnn::MemDesc &desc) {
  std::uint64_t bytes = 1, offset = 0;
  int fd = desc.ion_fd;
  if (desc.kind == qnn::MemKind::Custom) {
    const auto &shared = *static_cast<const qnn::HtpMemDesc *>(desc.custom);
    fd = shared.shared.fd, offset = shared.shared.offset, bytes = shared.size;
  } else {
    // The low two digits of a type's number are its bits.
    for (std::uint32_t i = 0; i < desc.shape.rank; ++i)
      if (!checked_mul<std::uint64_t>(bytes, desc.shape.dims[i], &bytes)) return;
    const std::uint32_t digits = static_cast<std::uint32_t>(desc.dtype) & 0xff;
    bytes = bytes * ((digits >> 4) * 10 + (digits & 15)) / 8;
  }
  const std::uint64_t begin = offset / os::page_size() * os::page_size();
  Mapped made;
  made.mapped = offset - begin + bytes;
  made.base = os::map_file(fd, begin, static_cast<std::size_t>(made.mapped), os::MappedFor::Writing);
  if (!made.base) return;  // its tensors are not in the record then, and it says so
  made.data = static_cast<char *>(made.base) + (offset - begin);
  made.bytes = bytes;
  registered_[handle] = made;
}

void Recorder::forget_memory(qnn::Handle handle) {
  const auto found = registered_.find(handle);
  if (found == registered_.end()) return;
  os::unmap(found->second.base, static_cast<std::size_t>(found->second.mapped));
  registered_.erase(found);
}

}  // namespace quarry::record

extern "C" __attribute__((visibility("default"))) const void *quarry_record_begin(const quarry_record_wish *wish) {
  using namespace quarry;
  try {
    auto begun =
        record::Recorder::begin({wish->file, wish->keeps_weights != 0,
                                 static_cast<const qnn::Provider *>(wish->provider), wish->build, wish->quarry});
    if (begun.ok()) return *begun;
    const Status &status = begun.status();
    std::snprintf(wish->why, wish->why_size, "%.*s", static_cast<int>(status.message().size()),
                  status.message().data());
    std::snprintf(wish->hint, wish->hint_size, "%.*s", static_cast<int>(status.hint().size()), status.hint().data());
    *wish->code = status.code();
  } catch (const std::bad_alloc &) {
    *wish->code = QR_RESOURCE_EXHAUSTED;
  }
  return nullptr;
}
