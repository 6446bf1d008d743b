// SPDX-License-Identifier: Apache-2.0
// The C++ side of a plugin's edge: host services as our own types, and one wrapper for slots that lets no exception
// out.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <thread>

#include "base/alloc.h"
#include "base/file_sink.h"
#include "base/status.h"
#include "base/stop.h"
#include "graph/graph.h"
#include "quarry/backend.h"

namespace quarry::plugin {

inline qr_plugin_string text(std::string_view view) noexcept { return {view.data(), view.size()}; }
std::string_view view(qr_plugin_string string) noexcept;

// A struct of the host's, of whatever minor, as ours: what an older host does not have is zero.
template <class T>
T incoming(const T &from) noexcept {
  T out{};
  std::memcpy(&out, &from, std::min<std::size_t>(from.struct_size, sizeof out));
  out.struct_size = sizeof out;
  return out;
}
// Fills in a struct of the host's as far as that reaches.
template <class T>
void give(const T &made, T *out) noexcept {
  const std::uint32_t size = out->struct_size;
  std::memcpy(out, &made, std::min<std::size_t>(size, sizeof made));
  out->struct_size = size;
}

// Memory from qr_host. Part of the backend object: `struct qr_backend : ... { HostAllocator allocator; ... }`, which
// itself is made with make_unique inside a scope over a HostAllocator on the stack (see create_object).
class HostAllocator final : public Allocator {
 public:
  explicit HostAllocator(const qr_host *host) noexcept
      : host_(host), pools_(host->get_extension && host->get_extension(host->self, kPools)) {}
  void *allocate(std::size_t size, std::size_t align) noexcept override {
    return host_->alloc(host_->self, size, align);
  }
  void deallocate(void *ptr, std::size_t size, std::size_t align) noexcept override {
    host_->free(host_->self, ptr, size, align);
  }
  // Where the host says that its memory is malloc's, and no caller's that is to see each block.
  bool pools() const noexcept override { return pools_; }
  const qr_host &host() const noexcept { return *host_; }

  static constexpr char kPools[] = "qr.malloc/1";

 private:
  const qr_host *host_;
  const bool pools_;
};

// Makes the object that holds the plugin's HostAllocator. It lies in raw host memory, because blocks of base/alloc.h
// remember their allocator and this one must end last. T has a constructor (const qr_host *) and a member `allocator`.
template <class T>
T *create_object(const qr_host *host) {
  void *place = host->alloc(host->self, sizeof(T), alignof(T) < 16 ? 16 : alignof(T));
  if (!place) throw std::bad_alloc();
  try {
    return ::new (place) T(host);
  } catch (...) {
    host->free(host->self, place, sizeof(T), alignof(T) < 16 ? 16 : alignof(T));
    throw;
  }
}
template <class T>
void destroy_object(T *object) noexcept {
  if (!object) return;
  const qr_host &host = object->allocator.host();
  object->~T();
  host.free(host.self, object, sizeof(T), alignof(T) < 16 ? 16 : alignof(T));
}

// Reports a failure to a sink, details included, and returns its code; for success 0, and nothing is reported.
qr_plugin_code report(const qr_error_sink *errors, const Status &status) noexcept;

// The body of every slot: guard(allocator, errors, [&]() -> Status { ... }).
template <class Body>
qr_plugin_code guard(Allocator &allocator, const qr_error_sink *errors, Body &&body) noexcept {
  AllocatorScope scope(allocator);
  try {
    return report(errors, body());
  } catch (const std::bad_alloc &) {
    return report(errors, Status::out_of_memory());
  } catch (...) {
    return report(errors, Status::error(ErrorId::internal, "an exception reached the edge of the plugin"));
  }
}

// The whole of a qr_plugin_query: hands out the table. For a host with which it shares no minor it says both ranges.
qr_plugin_code answer_query(const qr_host *host, const qr_plugin &table, const qr_plugin **out_plugin,
                            const qr_error_sink *errors) noexcept;

// The slots `create` and `destroy` of a backend whose constructor does everything; Backend is the plugin's own
// qr_backend.
template <class Backend>
qr_plugin_code create_backend(const qr_host *host, Backend **out_backend, const qr_error_sink *errors) {
  HostAllocator allocator(host);
  return guard(allocator, errors, [&]() -> Status {
    *out_backend = create_object<Backend>(host);
    return {};
  });
}
template <class Backend>
void destroy_backend(Backend *backend) {
  destroy_object(backend);
}

// Abort and deadline of one call. Cheap enough for every node and every few milliseconds inside one. Who was asked to
// stop left work half done: an abort that is taken back does not mend that, so that the answer stays.
class StopToken final : public StopSource {
 public:
  StopToken(const qr_plugin_signal *signal, const qr_host &host) noexcept : signal_(signal), host_(&host) {}
  bool stopped() const noexcept override {
    if (seen_.load(std::memory_order_relaxed) == Seen::Nothing) {
      if (aborted()) seen_.store(Seen::Abort, std::memory_order_relaxed);
      else if (late()) seen_.store(Seen::Deadline, std::memory_order_relaxed);
      else return false;
    }
    return true;
  }
  // QR-C0011 or QR-C0012 when stopped, ok otherwise. `what` names the work: "run".
  Status status(std::string_view what) const noexcept override;

 private:
  enum class Seen : std::uint8_t { Nothing, Abort, Deadline };
  bool aborted() const noexcept {
    return signal_ && signal_->aborted && __atomic_load_n(signal_->aborted, __ATOMIC_ACQUIRE) != 0;
  }
  bool late() const noexcept {
    return signal_ && signal_->deadline_ns != 0 && host_->clock_ns(host_->self) >= signal_->deadline_ns;
  }
  const qr_plugin_signal *signal_;
  const qr_host *host_;
  mutable std::atomic<Seen> seen_{Seen::Nothing};
};

// Takes a lock (std::unique_lock and its like, deferred) that others may hold for long: the one way of a plugin to wait
// for one. Who is to stop (base/stop.h) does not get it.
template <class Lock>
Status lock_or_stop(Lock &lock, std::string_view what) {
  while (!lock.try_lock()) {
    QR_RETURN_IF_ERROR(stop_status(what));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return {};
}

// A graph of a request; its constants point into the request's segments.
Result<qir::Graph> read_graph(const qr_plugin_graph &graph);
// That of a request for one graph.
inline Result<qir::Graph> read_request(const qr_compile_request &request) { return read_graph(*request.graphs[0]); }

// Reports the verdict on a node: a refusal where `refused` holds an error, else by what it runs.
void report_verdict(const qr_verdict_sink &verdicts, std::uint32_t node, const Status &refused,
                    std::uint32_t path = QR_PLUGIN_PATH_UNKNOWN, std::string_view kernel = {}) noexcept;

// Files that the host takes.
class HostFiles final : public FileSink {
 public:
  explicit HostFiles(const qr_files_sink &sink) noexcept : sink_(sink) {}
  Status begin(std::string_view name, std::uint64_t size, std::uint64_t more) override {
    return told(sink_.begin(sink_.self, text(name), size, more));
  }
  Status write(const void *data, std::uint64_t size) override { return told(sink_.write(sink_.self, data, size)); }

 private:
  static Status told(qr_plugin_code code) {
    return code == 0 ? Status() : Status::error(ErrorId::target_refused, "the host took no more of the file");
  }
  const qr_files_sink &sink_;
};

// The value of an option of a request, or `fallback`.
std::string_view option(const qr_plugin_option *options, std::uint64_t count, std::string_view key,
                        std::string_view fallback) noexcept;

inline void log(const qr_host &host, qr_log_level level, std::string_view topic, std::string_view message) noexcept {
  host.log(host.self, level, text(topic), text(message));
}

}  // namespace quarry::plugin
