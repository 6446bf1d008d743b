// SPDX-License-Identifier: Apache-2.0
// What the loader reads of macOS' plugins before it opens them: read_macho x86_64|arm64 FILE...
// A line for each: its note. Then, of the file whole: it is cut at every place of its headers and flipped, and the
// reader must refuse it or give a note. Runs on every system, on files for any machine.
#include <cstdio>
#include <string_view>
#include <vector>

#include "base/open_fd.h"
#include "base/os/file.h"
#include "loader/macho_note.h"

namespace {

using namespace quarry;

// Whether each cut is refused, and nothing else happens to one that is damaged.
bool survives(const std::vector<char> &whole, std::uint32_t machine) {
  for (std::size_t size = 0; size < whole.size(); size += size < 4096 ? 1 : 4093) {
    const std::vector<char> exact(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    if (loader::read_macho_note(loader::MemorySource(exact.data(), exact.size()), "cut", machine).ok())
      return std::printf("found a note in the first %zu bytes of %zu, expected a refusal\n", size, whole.size()), false;
  }
  std::uint64_t state = 1;
  const auto random = [&] { return state = state * 6364136223846793005u + 1442695040888963407u, state >> 33; };
  std::vector<char> bytes = whole;
  for (int round = 0; round < 20000; ++round) {
    const std::size_t at = random() % 4096;
    bytes[at] = static_cast<char>(random());
    auto note = loader::read_macho_note(loader::MemorySource(bytes.data(), bytes.size()), "flipped", machine);
    if (!note.ok() && note.status().message().empty()) return std::printf("a refusal without a reason\n"), false;
    bytes[at] = whole[at];
  }
  return true;
}

bool read(const char *path, std::uint32_t machine) {
  const OpenFd file = os::open_file(path);
  os::FileInfo info;
  if (file.get() < 0 || !os::get_info(file.get(), &info)) return std::printf("%s: cannot be opened\n", path), false;
  const loader::FileSource source(file.get(), info.size);
  auto note = loader::read_macho_note(source, path, machine);
  if (!note.ok()) return std::printf("%s\n", String(note.status().message()).c_str()), false;
  std::printf("%s %s, %s, plugin ABI %u.%u\n", note->id.c_str(), note->version.c_str(), note->target.c_str(),
              note->abi_major, note->abi_minor);
  std::vector<char> whole(info.size);
  return source.read(0, whole.data(), whole.size()) && survives(whole, machine);
}

}  // namespace

int main(int argc, char **argv) {
  const std::string_view machine = argc > 2 ? argv[1] : "";
  if (machine != "x86_64" && machine != "arm64")
    return std::fputs("usage: read_macho x86_64|arm64 FILE...\n", stderr), 2;
  bool all = true;
  for (int i = 2; i < argc; ++i) all &= read(argv[i], machine == "arm64" ? loader::kMachArm64 : loader::kMachX64);
  return all ? 0 : 1;
}
