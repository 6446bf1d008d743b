// SPDX-License-Identifier: Apache-2.0
#include "tools/input/saved_files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/os/path.h"
#include "base/os/file.h"
#include "tools/console/failure.h"
#include "tools/console/output.h"

namespace tools {
namespace {

// File systems allow 255 bytes; the number and ".npy" need some.
constexpr size_t kMaxName = 200;

// Cut where it is too long, never inside a UTF-8 sequence.
std::string cut(std::string name) {
  if (name.size() <= kMaxName) return name;
  size_t end = kMaxName;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xc0) == 0x80) --end;
  return name.substr(0, end);
}

}  // namespace

SavedFiles::SavedFiles(std::string folder, const std::vector<std::string> &inputs) : folder_(std::move(folder)) {
  if (is_standard_output(folder_))
    throw UsageError("--save: found '-', expected a folder: each output is a file of its own",
                     "--json prints results to standard output");
  if (const int error = quarry::os::make_folder(folder_.c_str()); error != 0 && error != EEXIST)
    throw UsageError("--save: cannot make the folder '" + folder_ + "': " + os_text(error));
  quarry::os::FileInfo info;
  if (quarry::os::get_info(folder_.c_str(), &info) && info.kind != quarry::os::FileKind::Folder)
    throw UsageError("--save: found that '" + folder_ + "' is no folder, expected one or a name that is free");
  for (const std::string &input : inputs)
    if (quarry::os::get_info(input.c_str(), &info)) inputs_.emplace_back(info.device, info.number);
}

bool SavedFiles::is_input(const std::string &path) const {
  quarry::os::FileInfo info;
  return quarry::os::get_info(path.c_str(), &info) &&
         std::find(inputs_.begin(), inputs_.end(), std::pair<uint64_t, uint64_t>(info.device, info.number)) !=
             inputs_.end();
}

std::string SavedFiles::path(const std::string &input, const std::string &output) {
  const std::string before = input.empty() ? "" : file_stem(base_name(input)) + ".";
  const std::string stem = cut(before + (output.empty() ? "output" : file_stem(output)));
  for (unsigned long long number = 1;; ++number) {
    const std::string name = number == 1 ? stem : stem + "-" + std::to_string(number);
    std::string path = folder_ + "/" + name + ".npy";
    if (std::find(taken_.begin(), taken_.end(), name) != taken_.end() || is_input(path)) continue;
    taken_.push_back(name);
    return path;
  }
}

std::string file_stem(std::string name) {
  for (char &c : name)
    if (!quarry::os::fits_name(c) || static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '_';
  return name;
}

std::string base_name(const std::string &path) {
  const size_t slash = quarry::os::last_separator(path);
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

}  // namespace tools
