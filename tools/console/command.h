// SPDX-License-Identifier: Apache-2.0
// What the subcommands share: how each is registered, the options that most of them take, and how errors are reported.
#pragma once

#include <CLI/CLI.hpp>
#include <quarry/quarry.hpp>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tools/console/failure.h"
#include "tools/console/model_file.h"
#include "tools/console/output.h"

namespace tools {

// A subcommand adds itself to the application; its action runs after parsing and returns the exit status:
// 0 done, 1 the answer is no (a case failed, nothing usable was found), 2 wrong use, 3 an error. The program then ends
// by the signal that interrupted the action, if one did.
using Action = std::function<int()>;
void register_run(CLI::App &app, Action &action);
void register_compile(CLI::App &app, Action &action);
void register_check(CLI::App &app, Action &action);
void register_cut(CLI::App &app, Action &action);
void register_diff(CLI::App &app, Action &action);
void register_export(CLI::App &app, Action &action);
void register_view(CLI::App &app, Action &action);
void register_inspect(CLI::App &app, Action &action);
void register_verify(CLI::App &app, Action &action);
void register_conform(CLI::App &app, Action &action);
void register_quantize(CLI::App &app, Action &action, bool with_options);  // which libquarry-quantize lists
void register_chat(CLI::App &app, Action &action);
void register_bench(CLI::App &app, Action &action);
void register_replay(CLI::App &app, Action &action);
void register_doctor(CLI::App &app, Action &action);
void register_options(CLI::App &app, Action &action);
void register_ops(CLI::App &app, Action &action);
void register_explain(CLI::App &app, Action &action);
void register_completion(CLI::App &app, Action &action);  // the last: it lists all before it

// --backend, --option, --shape, --threads, --backend-path: what a session is made with.
struct SessionFlags {
  std::string backend;
  std::vector<std::string> options;  // key=value
  std::vector<std::string> shapes;   // one bucket each
  std::string backend_path;
  int threads = 0;
  bool verbose = false;

  void add_to(CLI::App &command, bool with_threads = true);
  qr::Runtime runtime() const;  // log lines go to stderr: warnings, or more with --verbose
  enum class Shapes { Given, None };
  qr::Options make_options(const qr::Runtime &runtime, Shapes with = Shapes::Given) const;
};

// An adapter that runs compute with (qr_adapter).
struct AdapterFlags {
  std::string file;
  float alpha = 0, strength = 1;

  void add_to(CLI::App &command);
  void apply(qr::Session &session) const;  // nothing, where no file was named
};

// What the backend says of every node, printed; 1 when it refuses one.
int report_check(const qr::Model &model, const qr::Options &options, bool json);

// "name.part.qrm" for "name.onnx".
std::string name_beside(const std::string &model, const std::string &ending);

// As in std::to_string, but short and readable.
std::string shape_text(const std::vector<int64_t> &dims);
std::string bytes_text(uint64_t bytes);
std::pair<std::string, std::string> split_pair(const std::string &text, const char *what);  // "key=value"

}  // namespace tools
