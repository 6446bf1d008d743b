// SPDX-License-Identifier: Apache-2.0
#include "tools/console/command.h"

#include <cstdio>

#include "base/os/path.h"
#include "tools/console/model_file.h"
#include "tools/console/usage.h"

namespace tools {
namespace {

void log_to_stderr(void *, qr_log_level level, std::uint32_t flags, qr_string topic, qr_string message) {
  const char *word = flags & QR_LOG_CALLER_MISBEHAVES   ? "caller misbehaving"
                     : flags & QR_LOG_PLUGIN_MISBEHAVES ? "plugin misbehaving"
                     : level == QR_LOG_ERROR            ? "error"
                     : level == QR_LOG_WARN             ? "warning"
                     : level == QR_LOG_INFO             ? "info"
                     : level == QR_LOG_DEBUG            ? "debug"
                                                        : "trace";
  std::fprintf(stderr, "quarry: %s: %.*s: %.*s\n", word, static_cast<int>(topic.size), topic.data,
               static_cast<int>(message.size), message.data);
}

}  // namespace

void SessionFlags::add_to(CLI::App &command, bool with_threads) {
  command
      .add_option("--backend,-b", backend,
                  "Backend to run on (`quarry doctor` lists them; default: the option \"backend\")")
      ->type_name("ID");
  command
      .add_option("--option,-O", options,
                  "Option of the runtime or the backend, key=value; may be given several times (`quarry options`)")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command
      .add_option(
          "--shape", shapes,
          "Binds symbolic dimensions: input=1x3x224x224 or dimension=1, or leaves a range to the runs, dimension=1..8, "
          "with commas between; rate=[16000] makes a constant of an input; each --shape is a shape bucket")
      ->type_name("TEXT")
      ->allow_extra_args(false);
  command.add_option("--backend-path", backend_path, "Folders to look for backend plugins in first, ':' between")
      ->type_name("DIRS");
  if (with_threads)
    command.add_option("--threads", threads, "Threads of the session; 0: one per processor")
        ->type_name("N")
        ->check(whole_number(0, 1024))
        ->capture_default_str();
  command.add_flag("--verbose,-v", verbose, "Show log lines down to debug");
}

void AdapterFlags::add_to(CLI::App &command) {
  command
      .add_option("--adapter", file,
                  "Low-rank updates of weights (LoRA): .safetensors or .onnx; the model has room for them by "
                  "-O adapter.targets, given here or when it was compiled")
      ->type_name("FILE");
  command.add_option("--adapter-alpha", alpha, "lora_alpha; 0: as adapter_config.json or the file say")
      ->type_name("NUMBER")
      ->capture_default_str();
  command.add_option("--adapter-strength", strength, "Scales the adapter")->type_name("NUMBER")->capture_default_str();
}

void AdapterFlags::apply(qr::Session &session) const {
  if (file.empty()) return;
  qr_adapter_options how = QR_ADAPTER_OPTIONS_INIT;
  how.alpha = alpha, how.strength = strength;
  session.set_adapter(session.open_adapter(model_source(file), &how));
}

qr::Runtime SessionFlags::runtime() const {
  qr_log_sink log = QR_LOG_SINK_INIT;
  log.level = verbose ? QR_LOG_DEBUG : QR_LOG_WARN;
  log.write = log_to_stderr;
  qr_runtime_options options = QR_RUNTIME_OPTIONS_INIT;
  options.log = &log;
  options.backend_path = qr::to_c(backend_path);
  return qr::Runtime(options);
}

qr::Options SessionFlags::make_options(const qr::Runtime &runtime, Shapes with) const {
  qr::Options made(runtime);
  if (!backend.empty()) made.set("backend", backend);
  if (threads) made.set("threads", std::to_string(threads));
  if (with == Shapes::Given)
    for (const std::string &shape : shapes) made.set("shape", shape);
  for (const std::string &option : options) {
    const auto [key, value] = split_pair(option, "--option");
    made.set(key, value);
  }
  return made;
}

std::string name_beside(const std::string &model, const std::string &ending) {
  if (model == "-")
    throw UsageError("standard input: the model has no name, and its result is to have one like it",
                     "name the result: -o FILE");
  const size_t dot = model.rfind('.'), slash = quarry::os::last_separator(model);
  const bool has_ending = dot != std::string::npos && (slash == std::string::npos || dot > slash);
  return (has_ending ? model.substr(0, dot) : model) + ending;
}

std::string shape_text(const std::vector<int64_t> &dims) {
  std::string out = "[";
  for (size_t i = 0; i < dims.size(); ++i)
    out += (i ? "," : "") + (dims[i] < 0 ? std::string("?") : std::to_string(dims[i]));
  return out + "]";
}

std::string bytes_text(uint64_t bytes) {
  static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1000 && unit < 4) value /= 1000, ++unit;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
  return text;
}

std::pair<std::string, std::string> split_pair(const std::string &text, const char *what) {
  const size_t at = text.find('=');
  if (at == std::string::npos || at == 0)
    throw UsageError(std::string(what) + ": found '" + text + "', expected KEY=VALUE");
  return {text.substr(0, at), text.substr(at + 1)};
}

}  // namespace tools
