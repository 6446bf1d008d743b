// SPDX-License-Identifier: Apache-2.0
// quarry quantize: a float model and samples of its inputs to a model with QuantizeLinear and DequantizeLinear.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <quarry/quantize.hpp>
#include <sstream>

#include "base/os/path.h"
#include "tools/command/quantize_library.h"
#include "tools/console/command.h"
#include "tools/console/interrupt.h"
#include "tools/console/progress.h"
#include "tools/console/read_file.h"
#include "tools/console/usage.h"
#include "tools/input/samples.h"
#include "tools/input/shapes.h"

namespace tools {
namespace {

struct QuantizeFlags {
  std::string model, out, report, backend_path, backend, resume;
  std::vector<std::string> compile_options;  // key=value, of the backend
  std::vector<std::string> calibration;
  std::vector<std::pair<std::string, std::string>> options;  // of the quantisation: key, what was given
  ImageFlags image;
  int limit = 0;
};

std::string string_of(qr_string text) { return std::string(text.data, static_cast<size_t>(text.size)); }

// "--per-channel" for per_channel.
std::string flag_of(std::string key) {
  std::replace(key.begin(), key.end(), '_', '-');
  return "--" + key;
}

std::string kind_of(const std::string &values) {
  if (values.find('|') != std::string::npos) return values;
  if (values.rfind("integer", 0) == 0) return "N";
  if (values.rfind("number", 0) == 0) return "NUMBER";
  return values == "list" ? "ITEM,..." : "TEXT";
}

// Dimensions that the model leaves open, as the first sample has them; empty where there are none.
std::string open_extents(const qr::Runtime &runtime, const QuantizeFlags &flags) {
  const qr::Model model(runtime, model_source(flags.model));
  const std::vector<qr::TensorInfo> inputs = model.inputs();
  if (std::all_of(inputs.begin(), inputs.end(), [](const qr::TensorInfo &one) { return is_known(one.dims); }))
    return {};
  const std::vector<SampleFiles> samples = find_samples(flags.calibration[0], inputs, "--calibration");
  std::vector<std::vector<int64_t>> shapes;
  for (const qr::TensorInfo &info : inputs) {
    const std::string &file = samples[0].files.at(info.name);
    shapes.push_back(is_known(info.dims)   ? info.dims
                     : is_image_path(file) ? image_shape(file, info, flags.image)
                                           : load_input(file, info, flags.image).dims);
  }
  return binding_text(inputs, shapes);
}

// What a sample is made of, so that another start knows it again: its files, their sizes and times.
std::string identity(const SampleFiles &sample) {
  // In one line, as text: a name may be of any bytes, each of which counts.
  std::string line;
  for (const unsigned char byte : sample.name) {
    char escaped[5];
    std::snprintf(escaped, sizeof escaped, byte < 0x20 || byte >= 0x7f || byte == '\\' ? "\\x%02x" : "%c", byte);
    line += escaped;
  }
  for (const auto &[input, path] : sample.files) {
    std::error_code error;
    const std::filesystem::path file = system_path(path);
    const uintmax_t size = std::filesystem::file_size(file, error);
    const auto time = std::filesystem::last_write_time(file, error);
    if (error) continue;  // reading it will fail
    const auto since = std::chrono::nanoseconds(std::chrono::file_clock::to_sys(time).time_since_epoch()).count();
    line += ", " + input + ": " + std::to_string(size) + " bytes of " + std::to_string(since / 1'000'000'000) + "." +
            std::to_string(since % 1'000'000'000);
  }
  return line;
}

std::string preparation(const ImageFlags &image) {
  const nlohmann::json said = {image.resize,  image.crop,  image.letterbox, image.fill, image.mean,
                               image.std_dev, image.scale, image.layout,    image.color};
  return said.dump();
}

// A calibration that is kept in a file (--resume) while samples are taken.
class KeptCalibration {
 public:
  KeptCalibration(qr::Quantizer &quantizer, const QuantizeFlags &flags, const std::vector<SampleFiles> &samples)
      : quantizer_(quantizer), path_(flags.resume), samples_(samples), preparation_(preparation(flags.image)) {}

  // How many samples the file knows.
  size_t take_up(qr::Signal &signal) {
    if (path_.empty() || !quarry::os::allows(path_.c_str(), quarry::os::Access::Exists)) return 0;
    std::istringstream lines(quantizer_.restore(path_, &signal));
    const auto count = static_cast<size_t>(quantizer_.sample_count());
    if (count > samples_.size())
      refuse("found " + std::to_string(count) + " samples, expected at most the " + std::to_string(samples_.size()) +
             " that there are now");
    std::string line;
    std::getline(lines, line);
    if (line != preparation_) refuse("found pictures prepared as " + line + ", expected " + preparation_);
    for (size_t s = 0; s < count; ++s) {
      line.clear();
      std::getline(lines, line);
      if (const std::string now = identity(samples_[s]); line != now)
        refuse("sample " + std::to_string(s + 1) + ": found '" + line + "', expected '" + now + "'");
    }
    known_ = written_ = count;
    return count;
  }
  // A sample more is known. Written the first time at once, then now and then.
  void know(size_t count) {
    known_ = count;
    if (written_ == 0 || std::chrono::steady_clock::now() - when_ >= std::chrono::seconds(20)) write();
  }
  void write() {
    if (path_.empty() || known_ == written_) return;
    std::string note = preparation_ + "\n";
    for (size_t s = 0; s < known_; ++s) note += identity(samples_[s]) + "\n";
    quantizer_.save(path_, note);
    written_ = known_, when_ = std::chrono::steady_clock::now();
  }
  void tell() const {
    if (written_ > 0)
      std::fprintf(stderr, "quarry: %zu of %zu samples are kept in '%s': the same command goes on from there\n",
                   written_, samples_.size(), path_.c_str());
  }

 private:
  [[noreturn]] void refuse(const std::string &what) const {
    throw Failure("--resume: '" + path_ + "': " + what,
                  "give the samples that it began with, or delete the file to begin anew");
  }

  qr::Quantizer &quantizer_;
  const std::string &path_;
  const std::vector<SampleFiles> &samples_;
  const std::string preparation_;
  size_t known_ = 0, written_ = 0;  // samples that were taken; of them, those in the file
  std::chrono::steady_clock::time_point when_ = std::chrono::steady_clock::now();  // it was written last
};

void calibrate(qr::Quantizer &quantizer, const QuantizeFlags &flags, qr::Signal &signal, ProgressLine &progress) {
  const std::vector<qr::TensorInfo> inputs = quantizer.inputs(&signal);
  std::vector<SampleFiles> samples;
  for (const std::string &path : flags.calibration)
    for (SampleFiles &one : find_samples(path, inputs, "--calibration")) samples.push_back(std::move(one));
  if (flags.limit > 0 && samples.size() > static_cast<size_t>(flags.limit))
    samples.resize(static_cast<size_t>(flags.limit));
  KeptCalibration kept(quantizer, flags, samples);
  size_t s = kept.take_up(signal);
  try {
    for (; s < samples.size(); ++s) {
      progress.show(s, samples.size(), samples[s].name);
      std::vector<TensorData> data;
      std::vector<qr::Tensor> tensors;
      for (const qr::TensorInfo &info : inputs)
        data.push_back(load_input(samples[s].files.at(info.name), info, flags.image));
      for (TensorData &one : data) tensors.push_back(one.tensor());
      const qr::Status status = quantizer.try_add_sample(tensors.data(), tensors.size(), &signal);
      if (status.code() == QR_INVALID_ARGUMENT)
        throw Failure("the sample '" + samples[s].name + "': " + status.message(), status.hint());
      qr::check(status);
      kept.know(s + 1);
    }
    kept.write();
  } catch (...) {  // what stops it loses no sample
    progress.clear();
    try {
      kept.write();
    } catch (...) {  // what stopped it is what is reported; the file is as it was
    }
    kept.tell();
    throw;
  }
}

// Whether it is near enough; where it is poor, what to try.
void print_verdict(const nlohmann::json &verdict) {
  print("  %s: %s\n", verdict.value("word", ""), verdict.value("why", ""));
  for (const nlohmann::json &next : verdict["next"]) {
    const std::string option = next.value("option", "");
    if (option.empty()) print("    %s\n", next.value("why", ""));
    else print("    try %s %s: %s\n", flag_of(option), next.value("value", ""), next.value("why", ""));
  }
}

void print_summary(const QuantizeFlags &flags, const nlohmann::json &report) {
  print("%s: %s, from %s of float, %llu samples\n", flags.out, bytes_text(report.value("quantized_bytes", uint64_t{0})),
        bytes_text(report.value("float_bytes", uint64_t{0})), report.value("samples", uint64_t{0}));
  const nlohmann::json &operations = report["operations"];
  print("  operations: %llu in 8 bits or fewer, %llu in 16 bits, %llu in float\n",
        operations.value("of_8_bits", uint64_t{0}), operations.value("of_16_bits", uint64_t{0}),
        operations.value("of_float", uint64_t{0}));
  if (const uint64_t held = report.value("held_back", uint64_t{0}); held > 0)
    print("  compared on %llu samples that were held back from calibration\n", held);
  else if (report.value("evaluated", uint64_t{0}) > 0)
    print("  compared on %llu samples that it was calibrated with%s\n", report.value("evaluated", uint64_t{0}),
          report.value("samples", uint64_t{0}) < 16 ? ": give 16 or more, and some are held back" : "");
  for (const nlohmann::json &output : report["outputs"]) {
    print("  output %s: SQNR %.1f dB, cosine %.6f", output.value("name", ""), output.value("sqnr", 0.0),
          output.value("cosine", 0.0));
    if (output.contains("top1")) print(", same best class %.1f%%", 100 * output.value("top1", 0.0));
    print("\n");
  }
  std::vector<const nlohmann::json *> worst;
  for (const nlohmann::json &layer : report["layers"])
    if (layer.contains("sqnr")) worst.push_back(&layer);
  std::stable_sort(worst.begin(), worst.end(), [](const nlohmann::json *a, const nlohmann::json *b) {
    return a->value("sqnr", 0.0) < b->value("sqnr", 0.0);
  });
  if (!worst.empty()) print("  the worst layers:\n");
  for (size_t i = 0; i < std::min<size_t>(worst.size(), 3); ++i)
    print("    %s (%s): SQNR %.1f dB\n", worst[i]->value("node", ""), worst[i]->value("op", ""),
          worst[i]->value("sqnr", 0.0));
  print_verdict(report["verdict"]);
}

// The quantised model as a container for a backend.
void compile(const qr::Runtime &runtime, const QuantizeFlags &flags, const std::string &model, const qr::Target &out,
             ProgressLine &progress) {
  SessionFlags session;
  session.backend = flags.backend;
  session.options = flags.compile_options;
  const qr::Options options = session.make_options(runtime);
  const qr::Model made(runtime, model, &options);
  qr::Signal signal(runtime);
  const Interruptible interruptible([&signal] { signal.abort(); });
  made.compile(out, &options, &signal,
               [&](uint64_t done, uint64_t total, std::string_view what) { progress.show(done, total, what); });
}

int quantize(const QuantizeFlags &flags) {
  const bool piped = is_standard_output(flags.out);
  const bool contained = piped ? !flags.backend.empty() : flags.out.size() > 4 && flags.out.ends_with(".qrm");
  if (contained != !flags.backend.empty())
    throw UsageError(contained ? "-o: found '" + flags.out + "' without --backend, expected the backend that it is for"
                               : "--backend: found the output '" + flags.out + "', expected a name that ends in .qrm",
                     "--backend ID -o FILE.qrm compiles the quantised model; -o FILE.onnx writes it");
  if (piped) print_beside_result();
  const qr::Target out = piped ? qr::Target::in_file(standard_output_for("a model")) : qr::Target(flags.out);
  std::optional<ScratchFolder> scratch;
  if (contained) scratch.emplace();
  const std::string quantized = contained ? scratch->path() + "/quantized.onnx" : "";
  SessionFlags session;
  session.backend_path = flags.backend_path;
  const qr::Runtime runtime = session.runtime();
  qr::Quantizer quantizer(runtime, model_source(flags.model));
  bool shaped = false;
  for (const auto &[key, value] : flags.options) {
    if (value.empty()) continue;
    quantizer.set(key, value);
    shaped |= key == "shape";
  }
  if (!shaped)
    if (const std::string shape = open_extents(runtime, flags); !shape.empty()) quantizer.set("shape", shape);
  ProgressLine progress;
  {
    qr::Signal signal(runtime);
    const Interruptible interruptible([&signal] { signal.abort(); });
    calibrate(quantizer, flags, signal, progress);
    quantizer.write(contained ? qr::Target(quantized) : out, &signal,
                    [&](uint64_t done, uint64_t total, std::string_view what) { progress.show(done, total, what); });
  }
  if (contained) compile(runtime, flags, quantized, out, progress);
  if (!flags.resume.empty()) std::remove(flags.resume.c_str());  // its work is done
  progress.clear();
  const std::string report = quantizer.report();
  const bool as_page = flags.report.size() > 5 && flags.report.rfind(".html") == flags.report.size() - 5;
  if (!flags.report.empty()) write_text(flags.report, as_page ? quantizer.report("html") : report);
  if (!is_standard_output(flags.report)) print_summary(flags, nlohmann::json::parse(report));
  return 0;
}

}  // namespace

void register_quantize(CLI::App &app, Action &action, bool with_options) {
  auto flags = std::make_shared<QuantizeFlags>();
  CLI::App *command =
      app.add_subcommand("quantize", "Quantise a float model: integers where NPUs want them, and what that costs");
  command->add_option("model", flags->model, "Model: .onnx, float; - is standard input")
      ->required()
      ->type_name("MODEL");
  command
      ->add_option("--calibration,-c", flags->calibration,
                   "Samples of inputs: pictures, .npy or .pb in a folder, or a folder for each with a file for each "
                   "input; may be given several times")
      ->required()
      ->type_name("DIR|FILE")
      ->allow_extra_args(false);
  command
      ->add_option("--output,-o", flags->out,
                   "The model to write: .onnx, or with --backend a .qrm container; - is standard output")
      ->required()
      ->type_name("FILE|-");
  command
      ->add_option("--report", flags->report,
                   "File for what was found: a page where its name ends in .html, JSON elsewhere; - is standard output")
      ->type_name("FILE|-");
  command
      ->add_option("--resume", flags->resume,
                   "File that keeps what the samples gave, every 20 seconds and when something stops it; where it "
                   "is there, it goes on from it. Removed when the model is written")
      ->type_name("FILE");
  command->add_option("--limit", flags->limit, "Take the first so many samples; 0: all")
      ->type_name("N")
      ->check(whole_number(0));
  command->add_option("--backend,-b", flags->backend, "Compile the quantised model for this backend, into a .qrm")
      ->type_name("ID");
  command->add_option("--option,-O", flags->compile_options, "Option of that backend; may be given several times")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  std::vector<qr_quantize_option> options;
  if (with_options) {
#if !defined(QR_STATIC_QUANTIZE)
    open_quantize_library();
#endif
    options = qr::Quantizer::options();
  }
  for (const qr_quantize_option &option : options) flags->options.emplace_back(string_of(option.key), "");
  for (size_t i = 0; i < options.size(); ++i) {
    std::string help = string_of(options[i].help);
    if (options[i].default_value.size) help += " (default: " + string_of(options[i].default_value) + ")";
    command->add_option(flag_of(flags->options[i].first), flags->options[i].second, help)
        ->type_name(kind_of(string_of(options[i].values)));
  }
  flags->image.add_to(*command);
  command
      ->add_option("--backend-path", flags->backend_path,
                   "Folders in which backends are looked for, with colons between")
      ->type_name("DIR:...");
  command->callback([&action, flags] { action = [flags] { return quantize(*flags); }; });
}

}  // namespace tools
