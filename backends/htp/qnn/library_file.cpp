// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/qnn/library_file.h"

#include <cerrno>
#include <cstring>

#include "base/checked.h"
#include "base/os/file.h"
#include "base/os_error.h"

namespace quarry::qnn {

namespace {

// What a file is a library for: ELF's and PE's numbers of machines differ.
enum class Machine : unsigned char { Other, X64, Aarch64, Hexagon };
enum class Form : unsigned char { Neither, Elf, Pe, MachO };
struct Head {
  Form form = Form::Neither;
  Machine machine = Machine::Other;
};

#if defined(__x86_64__)
constexpr Machine kMachine = Machine::X64;
#elif defined(__aarch64__)
constexpr Machine kMachine = Machine::Aarch64;
#else
constexpr Machine kMachine = Machine::Other;
#endif
constexpr Form kForm = os::kLibraryForm == os::LibraryForm::Pe      ? Form::Pe
                       : os::kLibraryForm == os::LibraryForm::MachO ? Form::MachO
                                                                    : Form::Elf;

const char *machine_name(Machine machine) {
  switch (machine) {
    case Machine::X64: return "x86-64";
    case Machine::Aarch64: return "aarch64";
    case Machine::Hexagon: return "Hexagon";
    case Machine::Other: break;
  }
  return "another machine";
}

unsigned number_at(const unsigned char *bytes) { return bytes[0] | unsigned{bytes[1]} << 8; }

// Of 64 bits, as all that we open are; a file of 32 bits is for another machine.
Head read_elf(const unsigned char *bytes) {
  constexpr unsigned kIs64Bit = 2, kX64 = 62, kAarch64 = 183, kHexagon = 164;
  const unsigned machine = number_at(bytes + 18);
  if (machine == kHexagon) return {Form::Elf, Machine::Hexagon};
  if (bytes[4] != kIs64Bit) return {Form::Elf, Machine::Other};
  return {Form::Elf, machine == kX64 ? Machine::X64 : machine == kAarch64 ? Machine::Aarch64 : Machine::Other};
}

Head read_pe(int fd, const unsigned char *bytes) {
  constexpr unsigned kX64 = 0x8664, kArm64 = 0xaa64;
  unsigned char head[6] = {};
  if (os::read_at(fd, head, sizeof head, number_at(bytes + 60) | number_at(bytes + 62) << 16) != 0 ||
      std::memcmp(head, "PE\0\0", 4) != 0)
    return {};
  const unsigned machine = number_at(head + 4);
  return {Form::Pe, machine == kX64 ? Machine::X64 : machine == kArm64 ? Machine::Aarch64 : Machine::Other};
}

Head read_macho(const unsigned char *bytes) {
  constexpr unsigned kIs64Bit = 0x100, kX64 = 7, kArm64 = 12;
  const unsigned machine = number_at(bytes + 4), width = number_at(bytes + 6);
  if (width != kIs64Bit) return {Form::MachO, Machine::Other};
  return {Form::MachO, machine == kX64 ? Machine::X64 : machine == kArm64 ? Machine::Aarch64 : Machine::Other};
}

Head read_head(int fd) {
  unsigned char bytes[64] = {};
  if (os::read_at(fd, bytes, sizeof bytes, 0) != 0) return {};
  if (std::memcmp(bytes, "\177ELF", 4) == 0) return read_elf(bytes);
  if (std::memcmp(bytes, "\317\372\355\376", 4) == 0) return read_macho(bytes);
  return bytes[0] == 'M' && bytes[1] == 'Z' ? read_pe(fd, bytes) : Head();
}

std::uint64_t wide_at(const unsigned char *bytes) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes, sizeof value);  // of this machine's order, as the file was found to be for it
  return value;
}

// Whether an ELF file of 64 bits is cut off: the loader maps what its headers say, and the process ends where a page is
// not there.
bool ends_early(int fd) {
  constexpr unsigned kLoad = 1, kSegmentBytes = 56;
  unsigned char head[64] = {}, segment[kSegmentBytes] = {};
  os::FileInfo info;
  if (!os::get_info(fd, &info) || os::read_at(fd, head, sizeof head, 0) != 0) return true;
  const std::uint64_t first = wide_at(head + 32);
  for (std::uint64_t i = 0; i < number_at(head + 56); ++i) {
    std::uint64_t at = 0;
    if (!checked_add<std::uint64_t>(first, i * kSegmentBytes, &at) || !range_fits(at, kSegmentBytes, info.size) ||
        os::read_at(fd, segment, sizeof segment, at) != 0)
      return true;
    if (number_at(segment) == kLoad && !range_fits(wide_at(segment + 8), wide_at(segment + 32), info.size)) return true;
  }
  return false;
}

// The dynamic loader says little about a file of another kind; a look at its head says it in words.
Status check_file(const String &path) {
  const OpenFd file = os::open_file(path.c_str());
  if (file.get() < 0) {
    const int number = errno;
    return Status::error(
        os_error_id(number, ErrorId::backend_library),
        format("%s: %s; expected " QR_QNN_FILE("QnnHtp") " or another library of QNN, or the folder that has it",
               printable(path, 1000), os_error_text(number)),
        kHowToGet);
  }
  const Head head = read_head(file.get());
  const String expected = format("a shared library for %s", machine_name(kMachine));
  if (head.form == Form::Neither)
    return unfit(path,
                 kForm == Form::Pe      ? "no DLL"
                 : kForm == Form::MachO ? "no Mach-O file"
                                        : "no ELF file",
                 expected);
  if (head.form != kForm)
    return unfit(path,
                 head.form == Form::Elf  ? "an ELF file, as Linux has them"
                 : head.form == Form::Pe ? "a DLL of Windows"
                                         : "a library of macOS",
                 expected);
  if (head.machine == kMachine && head.form == Form::Elf && ends_early(file.get()))
    return unfit(path, "a file that ends before its segments do", expected, "copy the library again");
  if (head.machine == kMachine) return {};
  return unfit(path, format("a file for %s", machine_name(head.machine)), expected,
               "each machine has libraries of its own; take those for this one");
}

}  // namespace

const char *const kHowToGet =
    kForm == Form::MachO
        ? "Qualcomm has no QNN libraries for macOS: compile for htp and check it on Linux or Windows, where its "
          "emulator runs; cpu and gpu run here"
    : os::kMusl
        ? "Qualcomm's libraries are linked with glibc, and this Quarry is built for musl: take a build for glibc "
          "(the manylinux wheel), on a system that has it, for htp; cpu runs here"
        : "tools/get_qnn.sh fetches the libraries; name their folder by the option htp.library_path or the "
          "environment variable QUARRY_QNN_PATH";

bool is_folder(const String &path) {
  os::FileInfo info;
  return os::get_info(path.c_str(), &info) && info.kind == os::FileKind::Folder;
}

bool is_file(const String &path) {
  os::FileInfo info;
  return os::get_info(path.c_str(), &info) && info.kind == os::FileKind::Regular;
}

String folder_of(const String &file) {
  const std::size_t separator = os::last_separator(file);
  return separator == String::npos ? String() : file.substr(0, separator);
}

Status unfit(const String &path, const String &found, const String &expected, std::string_view hint) {
  return Status::error(ErrorId::backend_library,
                       format("%s: found %s, expected %s", printable(path, 1000), found, expected), hint);
}

Result<void *> open_file(const String &path) {
  if (os::last_separator(path) != String::npos) QR_RETURN_IF_ERROR(check_file(path));
  if (void *const handle = os::open_library(path.c_str())) return handle;
  return Status::error(ErrorId::backend_library,
                       format("%s: the loader says: %s", printable(path, 1000), printable(os::library_error(), 1000)),
                       kHowToGet);
}

}  // namespace quarry::qnn
