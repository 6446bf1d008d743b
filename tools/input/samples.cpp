// SPDX-License-Identifier: Apache-2.0
#include "tools/input/samples.h"

#include <algorithm>
#include <cerrno>

#include "base/os/path.h"
#include "tools/console/failure.h"
#include "tools/console/read_file.h"
#include "tools/input/saved_files.h"

namespace tools {
namespace {

namespace os = quarry::os;

bool is_data(const std::string &path) { return is_image_path(path) || path.ends_with(".npy") || path.ends_with(".pb"); }

std::vector<std::string> files_in(const std::string &folder, const std::string &subject) {
  std::vector<std::string> out;
  const std::string before = os::last_separator(folder) + 1 == folder.size() ? folder : folder + "/";
  const int error = os::for_each_name(folder.c_str(), [&](const char *name) { out.push_back(before + name); });
  if (error) throw UsageError(subject + ": cannot read the folder '" + folder + "': " + os_text(error));
  std::sort(out.begin(), out.end());
  return out;
}

SampleFiles of_folder(const std::string &folder, const std::vector<qr::TensorInfo> &inputs,
                      const std::string &subject) {
  SampleFiles out;
  out.name = folder;
  const std::vector<std::string> files = files_in(folder, subject);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto found = std::find_if(files.begin(), files.end(), [&](const std::string &file) {
      const std::string name = base_name(file), stem = name.substr(0, name.rfind('.'));
      return is_data(file) && (stem == file_stem(inputs[i].name) || stem == "input_" + std::to_string(i));
    });
    if (found == files.end())
      throw UsageError(
          subject + ": '" + out.name + "': found no file for input '" + inputs[i].name + "'",
          "name it " + file_stem(inputs[i].name) + ".npy, .pb or .png, or input_" + std::to_string(i) + ".pb");
    out.files[inputs[i].name] = *found;
  }
  return out;
}

}  // namespace

std::vector<SampleFiles> find_samples(const std::string &path, const std::vector<qr::TensorInfo> &inputs,
                                      const char *told) {
  const std::string subject = told;
  std::vector<SampleFiles> out;
  const auto single = [&](const std::string &file) {
    if (inputs.size() != 1)
      throw UsageError(subject + ": found the file '" + file + "' for a model of " + std::to_string(inputs.size()) +
                           " inputs, expected a folder for each sample",
                       "a folder has NAME.npy, NAME.pb or NAME.png for each input, or input_0.pb, input_1.pb, ...");
    out.push_back({file, {{inputs[0].name, file}}});
  };
  if (!is_folder(path)) {
    if (!os::allows(path.c_str(), os::Access::Exists))
      throw UsageError(subject + ": found no file or folder '" + path + "'");
    single(path);
    return out;
  }
  for (const std::string &entry : files_in(path, subject)) {
    if (is_folder(entry)) {
      const std::vector<std::string> inside = files_in(entry, subject);
      if (std::any_of(inside.begin(), inside.end(), is_data)) out.push_back(of_folder(entry, inputs, subject));
    } else if (is_data(entry) && !base_name(entry).starts_with("output_")) {
      single(entry);
    }
  }
  if (out.empty())
    throw UsageError(subject + ": '" + path + "': found no sample",
                     "a sample is a picture, .npy or .pb, or a folder with one for each input");
  return out;
}

}  // namespace tools
