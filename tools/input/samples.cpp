// SPDX-License-Identifier: Apache-2.0
#include "tools/input/samples.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "tools/console/failure.h"
#include "tools/input/saved_files.h"

namespace tools {
namespace {

namespace fs = std::filesystem;

bool is_data(const fs::path &path) {
  const std::string text = path.string();
  return is_image_path(text) || path.extension() == ".npy" || path.extension() == ".pb";
}

std::vector<fs::path> files_in(const std::string &folder, const std::string &subject) {
  std::error_code error;
  std::vector<fs::path> out;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (at->path().filename().string()[0] != '.') out.push_back(at->path());
  if (error) throw UsageError(subject + ": cannot read the folder '" + folder + "': " + os_text(error.value()));
  std::sort(out.begin(), out.end());
  return out;
}

SampleFiles of_folder(const fs::path &folder, const std::vector<qr::TensorInfo> &inputs, const std::string &subject) {
  SampleFiles out;
  out.name = folder.string();
  const std::vector<fs::path> files = files_in(out.name, subject);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto found = std::find_if(files.begin(), files.end(), [&](const fs::path &file) {
      const std::string stem = file.stem().string();
      return is_data(file) && (stem == file_stem(inputs[i].name) || stem == "input_" + std::to_string(i));
    });
    if (found == files.end())
      throw UsageError(
          subject + ": '" + out.name + "': found no file for input '" + inputs[i].name + "'",
          "name it " + file_stem(inputs[i].name) + ".npy, .pb or .png, or input_" + std::to_string(i) + ".pb");
    out.files[inputs[i].name] = found->string();
  }
  return out;
}

}  // namespace

std::vector<SampleFiles> find_samples(const std::string &path, const std::vector<qr::TensorInfo> &inputs,
                                      const char *told) {
  const std::string subject = told;
  std::error_code error;
  std::vector<SampleFiles> out;
  const auto single = [&](const std::string &file) {
    if (inputs.size() != 1)
      throw UsageError(subject + ": found the file '" + file + "' for a model of " + std::to_string(inputs.size()) +
                           " inputs, expected a folder for each sample",
                       "a folder has NAME.npy, NAME.pb or NAME.png for each input, or input_0.pb, input_1.pb, ...");
    out.push_back({file, {{inputs[0].name, file}}});
  };
  if (!fs::is_directory(path, error)) {
    if (!fs::exists(path, error)) throw UsageError(subject + ": found no file or folder '" + path + "'");
    single(path);
    return out;
  }
  for (const fs::path &entry : files_in(path, subject)) {
    if (fs::is_directory(entry, error)) {
      const std::vector<fs::path> inside = files_in(entry.string(), subject);
      if (std::any_of(inside.begin(), inside.end(), is_data)) out.push_back(of_folder(entry, inputs, subject));
    } else if (is_data(entry) && entry.filename().string().rfind("output_", 0) != 0) {
      single(entry.string());
    }
  }
  if (out.empty())
    throw UsageError(subject + ": '" + path + "': found no sample",
                     "a sample is a picture, .npy or .pb, or a folder with one for each input");
  return out;
}

}  // namespace tools
