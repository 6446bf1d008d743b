// SPDX-License-Identifier: Apache-2.0
// The program quarry-compiler: one qr_model_compile or qr_model_check for another process, which
// runtime/compile/compile_child.cpp starts and listens to. It uses the public ABI alone.
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

#include "quarry/quarry.h"
#include "runtime/compile/child_frames.h"

namespace {

using quarry::child::add_number;
using quarry::child::add_text;
using quarry::child::Kind;

std::mutex sending;

// The other side may be gone: then nobody wants to know.
void send(Kind kind, std::string_view texts) noexcept {
  const std::lock_guard lock(sending);
  const quarry::child::Head head{static_cast<std::uint32_t>(kind), static_cast<std::uint32_t>(texts.size())};
  const auto all = [](const void *data, std::size_t size) {
    for (const char *at = static_cast<const char *>(data); size;) {
      const ssize_t sent = ::send(quarry::child::kSocket, at, size, MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0) return;
      at += sent;
      size -= static_cast<std::size_t>(sent);
    }
  };
  all(&head, sizeof head);
  all(texts.data(), texts.size());
}

std::string_view view(qr_string text) { return {text.data, text.size}; }
qr_string string(const std::string &text) { return {text.data(), text.size()}; }

// Ends the process: what a backend's library does when it is unloaded is of no use to anybody.
[[noreturn]] void end(Kind kind, const std::string &texts) {
  send(kind, texts);
  _exit(kind == Kind::Done ? 0 : 1);
}

void must(qr_status *status) {
  if (!status) return;
  std::string texts;
  add_number(texts, static_cast<std::uint64_t>(qr_status_code(status)));
  add_text(texts, qr_status_id(status));
  add_text(texts, qr_status_message(status));
  add_text(texts, qr_status_hint(status));
  for (std::uint64_t i = 0; i < qr_status_detail_count(status); ++i) {
    const char *key, *value;
    qr_status_detail(status, i, &key, &value);
    add_text(texts, key);
    add_text(texts, value);
  }
  end(Kind::Failure, texts);
}

void on_log(void *, qr_log_level level, std::uint32_t flags, qr_string topic, qr_string message) {
  std::string texts;
  add_number(texts, static_cast<std::uint64_t>(level));
  add_number(texts, flags);
  add_text(texts, view(topic));
  add_text(texts, view(message));
  send(Kind::Log, texts);
}

// The process that started this one writes the files: it knows where, and removes them when this one falls.
std::int32_t on_file(void *, qr_string name, std::uint64_t size, std::uint64_t more) {
  std::string texts;
  add_text(texts, view(name));
  add_number(texts, size);
  add_number(texts, more);
  send(Kind::File, texts);
  return 0;
}

std::int32_t on_bytes(void *, const void *data, std::uint64_t size) {
  constexpr std::uint64_t kPiece = 1 << 20;
  for (const char *at = static_cast<const char *>(data); size > 0;) {
    const std::uint64_t part = size < kPiece ? size : kPiece;
    send(Kind::Bytes, {at, part});
    at += part;
    size -= part;
  }
  return 0;
}

// The other process ends this one where its caller says stop.
std::int32_t on_progress(void *, std::uint64_t done, std::uint64_t total, qr_string what) {
  std::string texts;
  add_number(texts, done);
  add_number(texts, total);
  add_text(texts, view(what));
  send(Kind::Progress, texts);
  return QR_GO_ON;
}

// Waits until nobody listens any longer. The library then gets a moment to remove what it was writing.
void *watch(void *signal) {
  char byte;
  ssize_t count;
  do count = recv(quarry::child::kSocket, &byte, 1, 0);
  while (count > 0 || (count < 0 && errno == EINTR));
  qr_signal_abort(static_cast<qr_signal *>(signal));
  poll(nullptr, 0, 400);
  _exit(1);
}

// Of "DESCRIPTOR:OFFSET:SIZE:NAME".
qr_model_source source_of(const std::string &file, std::string *name) {
  char *rest = nullptr;
  const long fd = std::strtol(file.c_str(), &rest, 10);
  const std::uint64_t offset = *rest ? std::strtoull(rest + 1, &rest, 10) : 0;
  const std::uint64_t size = *rest ? std::strtoull(rest + 1, &rest, 10) : 0;
  if (name && *rest) *name = rest + 1;
  if (size == 0) return QR_MODEL_IN_MEMORY("", 0);
  return QR_MODEL_IN_FILE(static_cast<std::int32_t>(fd), offset, size);
}

std::int32_t find_external(void *self, qr_string wanted, qr_model_source *out) {
  for (const std::string &file : *static_cast<std::vector<std::string> *>(self)) {
    std::string name;
    const qr_model_source source = source_of(file, &name);
    if (view(wanted) != name) continue;
    *out = source;
    return 0;
  }
  return ENOENT;
}

int usage() {
  std::fputs("quarry-compiler: a part of Quarry, which the library starts where the option compile.process is child\n",
             stderr);
  return 2;
}

// What the other process says in words.
struct Order {
  std::string verb, out = "model.qrm", backends, prepare;
  qr_model_source source = QR_MODEL_SOURCE_INIT;
  bool has_folder = false;
  std::vector<std::string> options, external;
  int log_level = QR_LOG_WARN;
};

bool read_order(int count, char **words, Order *out) {
  out->verb = words[1];
  for (int i = 2; i + 1 < count; i += 2) {
    const std::string name = words[i], value = words[i + 1];
    if (name == "model") out->source = source_of(value, nullptr);
    else if (name == "folder") out->has_folder = value == "1";
    else if (name == "name") out->out = value;
    else if (name == "external") out->external.push_back(value);
    else if (name == "backends") out->backends = value;
    else if (name == "prepare") out->prepare = value;
    else if (name == "log") out->log_level = std::atoi(value.c_str());
    else if (name == "option") out->options.push_back(value);
    else return false;
  }
  return true;
}

qr_runtime *make_runtime(const Order &order) {
  qr_log_sink log = QR_LOG_SINK_INIT;
  log.level = static_cast<qr_log_level>(order.log_level);
  log.write = on_log;
  qr_runtime_options how = QR_RUNTIME_OPTIONS_INIT;
  how.flags = QR_RUNTIME_ONLY_GIVEN_PATHS;
  how.log = &log;
  how.backend_path = string(order.backends);
  how.prepare_path = string(order.prepare);
  qr_runtime *runtime = nullptr;
  must(qr_runtime_create(&how, &runtime));
  return runtime;
}

// nullptr: an option is not written as one.
qr_options *make_options(qr_runtime *runtime, const Order &order) {
  qr_options *options = nullptr;
  must(qr_options_create(runtime, &options));
  for (const std::string &pair : order.options) {
    const std::size_t equals = pair.find('=');
    if (equals == std::string::npos) return nullptr;
    must(qr_options_set(options, string(pair.substr(0, equals)), string(pair.substr(equals + 1))));
  }
  return options;
}

// Ends this process.
[[noreturn]] void obey(Order &order, qr_runtime *runtime, qr_options *options, qr_signal *signal) {
  qr_model *model = nullptr;
  if (order.has_folder) order.source.folder_fd = quarry::child::kFolder;
  if (!order.external.empty()) order.source.self = &order.external, order.source.external = find_external;
  must(qr_model_open(runtime, &order.source, options, nullptr, &model));
  qr_call_options call = QR_CALL_OPTIONS_INIT;
  qr_progress progress = QR_PROGRESS_INIT;
  progress.report = on_progress;
  call.signal = signal;
  call.progress = &progress;
  std::string report;
  if (order.verb == "check") {
    char *json = nullptr;
    must(qr_model_check(model, options, &call, &json));
    add_text(report, json);
  } else {
    qr_target target = QR_TARGET_BY_WRITER(NULL, on_file, on_bytes, NULL);
    target.path = string(order.out);
    must(qr_model_compile(model, options, &target, &call));
    add_text(report, {});
  }
  end(Kind::Done, report);
}

}  // namespace

int main(int count, char **words) {
  int type = 0;
  socklen_t size = sizeof type;
  if (count < 2 || getsockopt(quarry::child::kSocket, SOL_SOCKET, SO_TYPE, &type, &size) != 0) return usage();
  Order order;
  if (!read_order(count, words, &order)) return usage();
  std::signal(SIGPIPE, SIG_IGN);
  dup2(2, 1);  // what libraries print does not go where the other process may write data
  std::string hello;
  add_text(hello, qr_version());
  send(Kind::Hello, hello);

  qr_runtime *const runtime = make_runtime(order);
  qr_signal *signal = nullptr;
  must(qr_signal_create(runtime, &signal));
  pthread_t thread;
  if (pthread_create(&thread, nullptr, watch, signal) != 0) return 1;
  qr_options *const options = make_options(runtime, order);
  if (!options) return usage();
  obey(order, runtime, options, signal);
}
