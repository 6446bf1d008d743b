// SPDX-License-Identifier: Apache-2.0
// The `quarry` program: one subcommand a file, all of them on the public C ABI alone.
#include <algorithm>
#include <cstdio>
#include <sstream>
#include <string_view>

#include "base/os/console.h"
#include "base/os/process.h"
#include "tools/console/command.h"
#include "tools/console/help.h"
#include "tools/console/interrupt.h"
#include "tools/console/usage.h"

namespace tools {
namespace {

// Whether the words can lead to `quarry quantize`, or to a text that lists all commands.
bool tells_of_quantize(int argc, char **argv) {
  return std::any_of(argv + std::min(argc, 1), argv + argc, [](const char *given) {
    const std::string_view word(given);
    return word == "quantize" || word == "completion" || word == "manual";
  });
}

int run_program(int argc, char **argv) {
  CLI::App app{"Quarry runs neural networks: one model file, the backend chosen when it is deployed.", "quarry"};
  app.set_version_flag("--version", std::string("quarry ") + qr_version());
  app.allow_windows_style_options(false);  // a path may begin with a slash
  app.require_subcommand(1);
  app.footer(
      "`quarry COMMAND --help` describes a command. Exit status: 0 done, 1 the answer is no, 2 wrong use, 3 an error.");
  Action action;
  register_run(app, action);
  register_compile(app, action);
  register_check(app, action);
  register_cut(app, action);
  register_export(app, action);
  register_view(app, action);
  register_inspect(app, action);
  register_verify(app, action);
#ifdef QR_WITH_ONNX
  register_conform(app, action);  // its cases are in ONNX's files
#endif
  register_diff(app, action);
  register_quantize(app, action, tells_of_quantize(argc, argv));
  register_chat(app, action);
  register_bench(app, action);
#ifdef QR_REPLAY_FILE
  register_replay(app, action);  // a static program has no library to open
#endif
  register_doctor(app, action);
  register_options(app, action);
  register_ops(app, action);
  register_explain(app, action);
  register_completion(app, action);
  lay_out_help(app);
  std::vector<std::string> words = command_words(app, argc, argv);
  if (words.empty()) {
    std::fputs(first_steps().c_str(), stderr);
    return 2;
  }
  std::reverse(words.begin(), words.end());  // as the parser takes them
  try {
    app.parse(words);
  } catch (const CLI::Success &asked) {  // --help, --version
    std::ostringstream out, none;
    app.exit(asked, out, none);
    print_text(out.str());
    return 0;
  } catch (const CLI::ParseError &error) {
    throw usage_error(app, error);
  }
  check_parsed(app);
  return action();
}

// The exit status of `body`, or of what it throws.
template <class Body>
int status_of(Body body) {
  try {
    return body();
  } catch (const qr::Error &error) {
    if (error.code() == QR_CANCELLED && interrupted()) return 3;  // reported below
    return report_failure();
  } catch (...) {
    return report_failure();
  }
}

}  // namespace
}  // namespace tools

int main(int argc, char **argv) {
  quarry::os::begin_program();
  tools::keep_standard_output();
  int status = tools::status_of([&] {
    // On Windows argv is in its code page.
    quarry::Vector<quarry::String> words = quarry::os::program_words(argc, argv);
    std::vector<char *> texts;
    for (quarry::String &word : words) texts.push_back(word.data());
    texts.push_back(nullptr);
    return tools::run_program(static_cast<int>(words.size()), texts.data());
  });
  if (status <= 1)  // otherwise the reader has read already that this is not the whole
    status = tools::status_of([&] {
      tools::finish_output();
      return status;
    });
  tools::end_by_interrupt();
  return status;
}
