// SPDX-License-Identifier: Apache-2.0
#include "tools/console/help.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/os/console.h"
#include "tools/console/output.h"

namespace tools {
namespace {

constexpr size_t kNarrowest = 40, kWidest = 120;  // longer lines are hard to read

struct Example {
  std::string_view command, line;
};
constexpr Example kExamples[] = {
    {"run", "quarry run model.onnx picture.jpg --labels labels.txt"},
    {"run", "quarry run model.onnx pictures --top 1"},
    {"run", "quarry run model.qrm --zeros --json"},
    {"run", "cat picture.jpg | quarry run model.onnx -"},
    {"compile", "quarry compile model.onnx"},
    {"compile", "quarry compile model.onnx -o small.qrm -O container.keep_graph=0"},
    {"compile", "quarry compile model.onnx --backend cpu -O cpu.weights=f16 -o half.qrm"},
    {"check", "quarry check model.onnx --backend cpu"},
    {"check", "quarry check model.onnx --json"},
    {"cut", "quarry cut model.onnx --at TENSOR"},
    {"export", "quarry export model.onnx -o prepared.onnx"},
    {"export", "quarry export model.onnx -o graph.json"},
    {"view", "quarry view model.onnx"},
    {"view", "quarry view model.onnx --profile events.csv -o model.html"},
    {"inspect", "quarry inspect model.qrm"},
    {"inspect", "quarry inspect model.onnx --json"},
    {"verify", "quarry verify model.qrm"},
    {"conform", "quarry conform cases"},
    {"diff", "quarry diff model.onnx --random --backend cpu --backend-b cpu-reference"},
    {"quantize", "quarry quantize model.onnx --calibration pictures -o model.qdq.onnx"},
    {"quantize", "quarry quantize model.onnx -c pictures -o model.qdq.onnx --activations u16 --report report.html"},
    {"replay", "quarry replay calls.qrec --library ./onnxruntime_qnn"},
    {"chat", "quarry chat decoder.onnx --ids 3,1,4 --max-tokens 8 --stats"},
    {"chat",
     "echo 'Once upon a time' | quarry chat decoder.onnx --tokenizer tokenizer.json --temperature 0.7 --top-p 0.9"},
    {"bench", "quarry bench model.qrm"},
    {"bench", "quarry bench model.onnx --threads 1 --iterations 100 --profile"},
    {"doctor", "quarry doctor"},
    {"options", "quarry options threads"},
    {"ops", "quarry ops --backend cpu"},
    {"explain", "quarry explain QR-O0008"},
    {"completion", "quarry completion bash > ~/.local/share/bash-completion/completions/quarry"},
};

// What CLI11 says of an option, in columns.
class Help : public CLI::Formatter {
 public:
  explicit Help(size_t width) : width_(width) { column_width(width < 70 ? 4 : 30); }
  std::string make_option(const CLI::Option *option, bool is_positional) const override {
    return row(make_option_name(option, is_positional) + make_option_opts(option), make_option_desc(option));
  }
  std::string make_subcommand(const CLI::App *command) const override {
    return row(command->get_display_name(true), command->get_description());
  }
  std::string make_description(const CLI::App *command) const override {
    return wrapped(CLI::Formatter::make_description(command), width_, 0) + "\n";
  }
  std::string make_footer(const CLI::App *command) const override {
    std::string out;
    for (const std::string &line : examples_of(command->get_name())) out += "  " + line + "\n";
    if (!out.empty()) out = "Examples:\n" + out;
    const std::string footer = command->get_footer();
    if (!footer.empty()) out += (out.empty() ? "" : "\n") + wrapped(footer, width_, 0) + "\n";
    return out;
  }

 private:
  std::string row(const std::string &name, const std::string &description) const {
    const size_t column = get_column_width();
    std::string out = "  " + name;
    if (description.empty()) return out + "\n";
    out += out.size() < column ? std::string(column - out.size(), ' ') : "\n" + std::string(column, ' ');
    return out + wrapped(description, width_ - column, column) + "\n";
  }

  const size_t width_;
};

}  // namespace

size_t terminal_width() {
  size_t columns = 80;
  if (const char *const given = std::getenv("COLUMNS"); given && *given) {
    size_t found = 0;
    if (std::from_chars(given, given + std::strlen(given), found).ec == std::errc()) columns = found;
  } else if (const uint32_t said = quarry::os::terminal_columns(fileno(standard_output())); said > 0) {
    columns = said;
  }
  return std::clamp(columns, kNarrowest, kWidest);
}

std::string wrapped(std::string_view text, size_t width, size_t indent) {
  std::string out;
  size_t used = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = text.find_first_not_of(" \n", at);
    if (begin == std::string_view::npos) break;
    const size_t end = std::min(text.find_first_of(" \n", begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    if (used > 0 && used + 1 + word.size() > width) {
      out += "\n" + std::string(indent, ' ');
      used = 0;
    }
    if (used > 0) out += ' ', ++used;
    out += word, used += word.size();
    at = end;
  }
  return out;
}

std::vector<std::string> examples_of(std::string_view command) {
  std::vector<std::string> lines;
  for (const Example &example : kExamples)
    if (example.command == command) lines.emplace_back(example.line);
  return lines;
}

void lay_out_help(CLI::App &app) {
  const auto help = std::make_shared<Help>(terminal_width());
  app.formatter(help);
  for (CLI::App *command : app.get_subcommands([](const CLI::App *) { return true; })) command->formatter(help);
}

}  // namespace tools
