// SPDX-License-Identifier: Apache-2.0
// quarry cut: a model as two or more containers, each with the part of the graph between two cuts, which give what
// the whole gives when each gets the results of those before it.
#include <nlohmann/json.hpp>

#include "tools/console/command.h"
#include "tools/console/interrupt.h"
#include "tools/console/progress.h"

namespace tools {
namespace {

struct CutFlags {
  SessionFlags session;
  std::string model;
  std::vector<std::string> at, out;
};

std::vector<std::string> split_list(const std::string &text) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::string default_name(const std::string &model, size_t part, size_t count) {
  if (part == 0) return name_beside(model, ".head.qrm");
  if (part + 1 == count) return name_beside(model, ".tail.qrm");
  return name_beside(model, ".part" + std::to_string(part + 1) + ".qrm");
}

void print_names(const char *title, const std::vector<qr::TensorInfo> &tensors) {
  print("  %s", title);
  for (const qr::TensorInfo &tensor : tensors)
    print(" %s %s%s", tensor.name, qr_dtype_name(tensor.dtype), shape_text(tensor.dims));
  print("\n");
}

int cut(const CutFlags &flags) {
  const size_t count = flags.at.size() + 1;
  if (!flags.out.empty() && flags.out.size() != count)
    throw UsageError("-o: found " + std::to_string(flags.out.size()) + " files for " + std::to_string(count) +
                     " parts, expected one for each part");
  // One backend for all parts, or one for each.
  const std::vector<std::string> backends = split_list(flags.session.backend);
  if (backends.size() > 1 && backends.size() != count)
    throw UsageError("--backend: found " + std::to_string(backends.size()) + " backends for " + std::to_string(count) +
                         " parts, expected one, or one for each part",
                     "--backend cpu,htp");
  std::vector<std::string> names;
  for (size_t part = 0; part < count; ++part) {
    names.push_back(flags.out.empty() ? default_name(flags.model, part, count) : flags.out[part]);
    if (is_standard_output(names.back()))
      throw UsageError("-o: found '-', expected a file: each part is one of its own");
    if (names.back() == flags.model)
      throw UsageError("cutting '" + flags.model + "' would overwrite it", "name the results: -o FIRST SECOND");
  }
  for (size_t part = 0; part < count; ++part) {
    SessionFlags session = flags.session;
    if (!backends.empty()) session.backend = backends[backends.size() == 1 ? 0 : part];
    const qr::Runtime runtime = session.runtime();
    qr::Options options = session.make_options(runtime);
    if (part > 0) options.set("graph.tail", flags.at[part - 1]);
    if (part + 1 < count) options.set("graph.head", flags.at[part]);
    const qr::Model model(runtime, model_source(flags.model), &options);
    ProgressLine progress;
    {
      qr::Signal signal(runtime);
      const Interruptible interruptible([&signal] { signal.abort(); });
      model.compile(qr::Target(names[part]), &options, &signal,
                    [&](uint64_t done, uint64_t total, std::string_view what) { progress.show(done, total, what); });
    }
    progress.clear();
    const qr::Model made(runtime, model_source(names[part]));
    const nlohmann::json info = nlohmann::json::parse(made.inspect());
    print("%s: %s, backend %s\n", names[part], bytes_text(info.value("file_bytes", uint64_t{0})),
          info["contexts"].at(0).value("backend", "?"));
    print_names("takes", made.inputs());
    print_names("gives", made.outputs());
  }
  return 0;
}

}  // namespace

void register_cut(CLI::App &app, Action &action) {
  auto flags = std::make_shared<CutFlags>();
  CLI::App *command = app.add_subcommand(
      "cut", "Cut a model into containers: what is in front of some tensors, and what is behind them");
  command->add_option("model", flags->model, "Model: .onnx, or a .qrm that kept its graph; - is standard input")
      ->required()
      ->type_name("MODEL");
  command
      ->add_option("--at", flags->at,
                   "Where to cut, as `quarry check` says: tensors with commas between. Twice makes three parts, front "
                   "to back")
      ->required()
      ->type_name("TENSOR,...")
      ->allow_extra_args(false);
  command
      ->add_option("--output,-o", flags->out,
                   "The containers to write, front to back (default: the model's name with .head.qrm and .tail.qrm)")
      ->type_name("FILE");
  flags->session.add_to(*command, false);
  command->callback([&action, flags] { action = [flags] { return cut(*flags); }; });
}

}  // namespace tools
