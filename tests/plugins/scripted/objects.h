// SPDX-License-Identifier: Apache-2.0
// The objects of the scripted backend, and what its files share.
#pragma once

#include <atomic>
#include <mutex>

#include "backends/common/plugin_support.h"
#include "tests/plugins/scripted/queue.h"
#include "tests/plugins/scripted/script.h"

struct qr_backend {
  explicit qr_backend(const qr_host *host) noexcept : allocator(host) {
    quarry::plugin::log(*host, QR_LOG_INFO, "scripted", "created");
  }
  quarry::plugin::HostAllocator allocator;
  std::atomic<std::uint64_t> registrations{0};
  std::mutex groups_mutex;
  quarry::Vector<qr_context *> grouped;  // those with a group
  std::atomic<bool> no_memory{false};    // of the script of the last load
  std::atomic<bool> lost{false};
  std::atomic<std::uint64_t> stay_lost{0};  // so many recoveries are still to fail
};

struct qr_context {
  qr_backend *backend;
  quarry::String group;
  quarry::Vector<quarry::qir::Graph> graphs;
  quarry::scripted::Script script;
};

struct qr_execution {
  qr_context *context;
  const quarry::qir::Graph *graph;
  quarry::scripted::Script script;
  quarry::String priority;
  std::uint64_t runs = 0;
  quarry::Vector<quarry::Vector<float>> buffers;  // of tensors that are neither inputs, outputs nor constants
  // Of NonZero outputs, by tensor: memory of the plugin's own. One for each run that may be under way, and one more.
  quarry::Vector<quarry::Vector<quarry::Vector<std::int64_t>>> found;
  quarry::Vector<const float *> read;  // where each tensor lies in this run
  quarry::Vector<float *> write;
  quarry::Unique<quarry::scripted::RunQueue> queue;  // last, so that its thread ends first
};

namespace quarry::scripted {

// Takes its time in small steps and stops when the signal says so.
Status take_time(std::uint64_t milliseconds, const qr_plugin_signal *signal, const qr_host &host, const char *what);

// Reports an event with one counter, where somebody listens.
void report_count(const qr_profile_sink *profile, std::uint64_t id, std::string_view name, std::string_view kind,
                  std::uint64_t value);

Result<Script> script_of(const qr_plugin_option *options, std::uint64_t count);

std::uint64_t elements(const qir::Tensor &tensor) noexcept;

}  // namespace quarry::scripted
