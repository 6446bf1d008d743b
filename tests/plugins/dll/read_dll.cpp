// SPDX-License-Identifier: Apache-2.0
// What the loader reads of DLLs before it opens them: read_dll x64|arm64 FILE...
// A line for each: its note, and the libraries that it imports. Runs on every system, on files for any machine.
#include <cstdio>
#include <string_view>

#include "base/open_fd.h"
#include "base/os/file.h"
#include "loader/pe_note.h"

namespace {

using namespace quarry;

bool read(const char *path, std::uint16_t machine) {
  const OpenFd file = os::open_file(path);
  os::FileInfo info;
  if (file.get() < 0 || !os::get_info(file.get(), &info)) return std::printf("%s: cannot be opened\n", path), false;
  const loader::FileSource source(file.get(), info.size);
  auto note = loader::read_pe_note(source, path, machine);
  auto imports = loader::read_pe_imports(source, path);
  for (const Status *status : {&note.status(), &imports.status()})
    if (!status->ok()) return std::printf("%s\n", String(status->message()).c_str()), false;
  std::printf("%s %s, %s, plugin ABI %u.%u; imports", note->id.c_str(), note->version.c_str(), note->target.c_str(),
              note->abi_major, note->abi_minor);
  for (const String &name : *imports) std::printf(" %s", name.c_str());
  std::printf("\n");
  return !imports->empty();
}

}  // namespace

int main(int argc, char **argv) {
  const std::string_view machine = argc > 2 ? argv[1] : "";
  if (machine != "x64" && machine != "arm64") return std::fputs("usage: read_dll x64|arm64 FILE...\n", stderr), 2;
  bool all = true;
  for (int i = 2; i < argc; ++i) all &= read(argv[i], machine == "x64" ? loader::kPeX64 : loader::kPeArm64);
  return all ? 0 : 1;
}
