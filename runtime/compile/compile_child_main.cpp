// SPDX-License-Identifier: Apache-2.0
// The program quarry-compiler: one qr_model_compile or qr_model_check for another process, which
// runtime/compile/compile_child.cpp starts and listens to. It uses the public ABI, and base/os for what it asks of the
// system.
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/os/child_process.h"
#include "base/os/file.h"
#include "base/os/process.h"
#include "base/os/thread.h"
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
  quarry::os::send(quarry::child::kStream, &head, sizeof head);
  quarry::os::send(quarry::child::kStream, texts.data(), texts.size());
}

std::string_view view(qr_string text) { return {text.data, text.size}; }
qr_string string(const std::string &text) { return {text.data(), text.size()}; }

// Ends the process: what a backend's library does when it is unloaded is of no use to anybody.
[[noreturn]] void end(Kind kind, const std::string &texts) {
  send(kind, texts);
  quarry::os::end_process(kind == Kind::Done ? 0 : 1);
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
  quarry::os::await_end(quarry::child::kStream);
  qr_signal_abort(static_cast<qr_signal *>(signal));
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  quarry::os::end_process(1);
}

// A part of an inherited file, for where the library takes no descriptors.
struct FilePart {
  int fd;
  std::uint64_t offset;
};

qr_model_source part_of(int fd, std::uint64_t offset, std::uint64_t size) {
  static std::deque<FilePart> parts;  // the source refers to them
  parts.push_back({fd, offset});
  const auto read = [](void *self, std::uint64_t at, void *to, std::uint64_t count) -> std::int32_t {
    const FilePart &part = *static_cast<FilePart *>(self);
    const int failed = quarry::os::read_at(part.fd, to, count, part.offset + at);
    return failed == quarry::os::kFileEnded ? EIO : failed;
  };
  return QR_MODEL_BY_READER(&parts.back(), read, size);
}

// Of "DESCRIPTOR:OFFSET:SIZE:NAME".
qr_model_source source_of(const std::string &file, std::string *name) {
  char *rest = nullptr;
  const long fd = std::strtol(file.c_str(), &rest, 10);
  const std::uint64_t offset = *rest ? std::strtoull(rest + 1, &rest, 10) : 0;
  const std::uint64_t size = *rest ? std::strtoull(rest + 1, &rest, 10) : 0;
  if (name && *rest) *name = rest + 1;
  if (size == 0) return QR_MODEL_IN_MEMORY("", 0);
  if constexpr (quarry::os::kDescriptorsAreShared) return QR_MODEL_IN_FILE(static_cast<std::int32_t>(fd), offset, size);
  else return part_of(static_cast<int>(fd), offset, size);
}

// What the other process says in words.
struct Order {
  std::string verb, out = "model.qrm", backends, prepare;
  qr_model_source source = QR_MODEL_SOURCE_INIT;
  bool has_folder = false;
  std::vector<std::string> options, external;
  int log_level = QR_LOG_WARN;
};

const Order *g_order = nullptr;  // a source by a reader has its `self` for that

std::int32_t find_external(void *, qr_string wanted, qr_model_source *out) {
  const Order &order = *g_order;
  for (const std::string &file : order.external) {
    std::string name;
    const qr_model_source source = source_of(file, &name);
    if (view(wanted) != name) continue;
    *out = source;
    return 0;
  }
  if (quarry::os::kDescriptorsAreShared || !order.has_folder) return ENOENT;
  const std::string name(view(wanted));
  const int fd = quarry::os::open_file(name.c_str(), quarry::child::kFolder).release();
  quarry::os::FileInfo info;
  if (fd < 0 || !quarry::os::get_info(fd, &info)) return errno;
  *out = part_of(fd, 0, info.size);
  return 0;
}

int usage() {
  std::fputs("quarry-compiler: a part of Quarry, which the library starts where the option compile.process is child\n",
             stderr);
  return 2;
}

bool read_order(const quarry::Vector<quarry::String> &words, Order *out) {
  out->verb.assign(words[1]);
  for (std::size_t i = 2; i + 1 < words.size(); i += 2) {
    const std::string name(words[i]), value(words[i + 1]);
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
  if constexpr (quarry::os::kDescriptorsAreShared)
    if (order.has_folder) order.source.folder_fd = quarry::child::kFolder;
  g_order = &order;
  if (!order.external.empty() || (!quarry::os::kDescriptorsAreShared && order.has_folder))
    order.source.external = find_external;
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

int main(int count, char **given) {
  const auto words = quarry::os::program_words(count, given);
  if (words.size() < 2 || !quarry::os::begin_as_child(quarry::child::kStream)) return usage();
  Order order;
  if (!read_order(words, &order)) return usage();
  std::string hello;
  add_text(hello, qr_version());
  send(Kind::Hello, hello);

  qr_runtime *const runtime = make_runtime(order);
  qr_signal *signal = nullptr;
  must(qr_signal_create(runtime, &signal));
  quarry::os::Thread thread;
  if (!quarry::os::start_thread(&thread, "quarry-watch", watch, signal)) return 1;
  qr_options *const options = make_options(runtime, order);
  if (!options) return usage();
  obey(order, runtime, options, signal);
}
