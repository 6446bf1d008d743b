// SPDX-License-Identifier: Apache-2.0
#include "backends/gpu/opencl/pocl.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/checked.h"
#include "base/os/console.h"
#include "base/os/file_lock.h"
#include "base/os/library.h"
#include "base/os/path.h"

namespace quarry::opencl {

namespace {

// Programs of so many kinds are built beside each other.
constexpr std::uint64_t kLocks = 64;

// PoCL's folder, or the one above it where that is not named.
String folder() {
  const auto named = [](const char *variable) {
    const char *const value = std::getenv(variable);
    return std::string_view(value ? value : "");
  };
  if (const auto path = named("POCL_CACHE_DIR"); !path.empty()) return String(path);
  if (const auto path = named("XDG_CACHE_HOME"); !path.empty()) return String(path) + "/pocl";
  if (const auto path = named("HOME"); !path.empty()) return String(path) + "/.cache/pocl";
  return "/tmp/pocl";
}

// Whether a file of OpenCL's loader, which holds a library's name, names PoCL.
bool names_pocl(const String &path) {
  std::FILE *const file = os::open_stream(path.c_str());
  if (!file) return false;
  char line[1024] = {};
  const bool found = std::fgets(line, sizeof line, file) && std::strstr(line, "pocl");
  std::fclose(file);
  return found;
}

// ---- binaries -----------------------------------------------------------------------------------

// From 1.8 (format 9) to 6 (format 11): "poclbin", a header, entries of the program (program.bc), and for each kernel
// what it is and the files of its folder. An entry is a path and contents, each with its length before it.
constexpr char kMagic[8] = "poclbin";
constexpr std::uint32_t kFirstFormat = 9, kLastFormat = 11;
constexpr std::uint64_t kHasVariables = 2;  // of the flags
constexpr std::size_t kHashBytes = 41;

class BinaryReader {
 public:
  explicit BinaryReader(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}
  template <class T>
  bool number(T &out) {
    if (!range_fits(at_, sizeof(T), bytes_.size())) return false;
    std::memcpy(&out, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return true;
  }
  bool take(std::uint64_t size, std::span<const std::uint8_t> &out) {
    if (!range_fits(at_, size, bytes_.size())) return false;
    out = bytes_.subspan(at_, size);
    at_ += size;
    return true;
  }
  bool sized(std::span<const std::uint8_t> &out) {
    std::uint32_t size = 0;
    return number(size) && take(size, out);
  }
  bool skip(std::uint64_t size) {
    std::span<const std::uint8_t> unused;
    return take(size, unused);
  }
  bool at_end() const noexcept { return at_ == bytes_.size(); }

 private:
  std::span<const std::uint8_t> bytes_;
  std::size_t at_ = 0;
};

// Bits of LLVM's bitcode, from the lowest of a byte on.
class Bits {
 public:
  explicit Bits(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}
  std::uint64_t left() const noexcept { return bytes_.size() * 8 - at_; }
  std::uint32_t take(unsigned count) noexcept {
    std::uint32_t value = 0;
    for (unsigned i = 0; i < count; ++i, ++at_)
      if (at_ < bytes_.size() * 8) value |= static_cast<std::uint32_t>(bytes_[at_ / 8] >> at_ % 8 & 1) << i;
    return value;
  }
  // In chunks whose highest bit says that there is another.
  std::uint32_t chunks(unsigned width) noexcept {
    std::uint32_t value = 0;
    for (unsigned shift = 0; shift < 32; shift += width - 1) {
      const std::uint32_t chunk = take(width), more = 1u << (width - 1);
      value |= (chunk & (more - 1)) << shift;
      if ((chunk & more) == 0) break;
    }
    return value;
  }
  void align() noexcept { at_ = (at_ + 31) / 32 * 32; }
  bool skip(std::uint64_t bits) noexcept {
    if (bits > left()) return false;
    at_ += bits;
    return true;
  }

 private:
  std::span<const std::uint8_t> bytes_;
  std::uint64_t at_ = 0;
};

// Blocks that fill it, the module and its names among them.
bool is_whole_bitcode(std::span<const std::uint8_t> bytes) {
  constexpr std::uint8_t kStart[4] = {'B', 'C', 0xC0, 0xDE};
  constexpr std::uint32_t kEnterBlock = 1, kModule = 8, kNames = 23;
  if (bytes.size() < sizeof kStart || std::memcmp(bytes.data(), kStart, sizeof kStart) != 0) return false;
  Bits bits(bytes.subspan(sizeof kStart));
  bool has_module = false, has_names = false;
  while (bits.left() > 0) {
    if (bits.take(2) != kEnterBlock) return false;
    const std::uint32_t block = bits.chunks(8);
    (void)bits.chunks(4);  // width of numbers in it
    bits.align();
    if (bits.left() < 32 || !bits.skip(std::uint64_t{bits.take(32)} * 32)) return false;
    has_module = has_module || block == kModule, has_names = has_names || block == kNames;
  }
  return has_module && has_names;
}

// The table of sections is the last part of what a linker writes.
bool is_whole_elf(std::span<const std::uint8_t> bytes) {
  if (bytes.size() < 64 || std::memcmp(bytes.data(), "\177ELF", 4) != 0) return false;
  const bool is_wide = bytes[4] == 2;
  std::uint64_t table = 0;
  std::uint16_t size = 0, count = 0;
  std::memcpy(&table, bytes.data() + (is_wide ? 0x28 : 0x20), is_wide ? 8 : 4);
  std::memcpy(&size, bytes.data() + (is_wide ? 0x3A : 0x2E), sizeof size);
  std::memcpy(&count, bytes.data() + (is_wide ? 0x3C : 0x30), sizeof count);
  return count > 0 && range_fits(table, std::uint64_t{size} * count, bytes.size());
}

const char *flaw_of(std::string_view path, std::span<const std::uint8_t> contents) {
  if (path.empty()) return "an entry without a name";
  if (path.ends_with(".temp")) return "a file that another process was writing";
  if (contents.empty()) return "an empty file";
  if (path.ends_with(".bc") && !is_whole_bitcode(contents)) return "a part of a file";
  if (path.ends_with(".so") && !is_whole_elf(contents)) return "a part of a file";
  return nullptr;
}

String flaw_of_entries(std::span<const std::uint8_t> bytes) {
  if (bytes.empty()) return "no file of the program";
  BinaryReader reader(bytes);
  while (!reader.at_end()) {
    std::span<const std::uint8_t> name, contents;
    if (!reader.sized(name) || !reader.sized(contents)) return "entries that reach behind its end";
    const std::string_view path(reinterpret_cast<const char *>(name.data()), name.size());
    if (const char *const flaw = flaw_of(path, contents)) return format("%s (%s)", flaw, printable(path, 200));
  }
  return {};
}

}  // namespace

// hwloc, its library, looks in /sys, but for other folders that the environment names; elsewhere than on Linux it asks
// the system.
const char *why_pocl_would_abort() noexcept {
  if constexpr (os::kLibraryForm != os::LibraryForm::Elf) return nullptr;
  for (const char *const elsewhere : {"HWLOC_XMLFILE", "HWLOC_SYNTHETIC", "HWLOC_FSROOT", "HWLOC_COMPONENTS"})
    if (std::getenv(elsewhere)) return nullptr;
  for (const char *const place : {"/sys/devices/system/cpu/cpu0/topology", "/sys/bus/cpu/devices/cpu0/topology"})
    if (os::allows(place, os::Access::Enter)) return nullptr;
  return "found no /sys/devices/system/cpu/cpu0/topology, expected the processors there, without which PoCL ends the "
         "process that asks for drivers of OpenCL: mount /sys, or take PoCL's file out of /etc/OpenCL/vendors";
}

// The two variables are ocl-icd's and Khronos' own; either names a folder or, the first, one file.
bool pocl_is_installed() {
  const char *place = std::getenv("OCL_ICD_VENDORS");
  if (!place) place = std::getenv("OCL_ICD_FILENAMES");
  if (!place) place = std::getenv("OPENCL_VENDOR_PATH");
  if (!place) place = "/etc/OpenCL/vendors";
  if (std::strstr(place, "pocl")) return true;
  bool is_there = false;
  const int error = os::for_each_name(place, [&](const char *name) {
    is_there |= std::strstr(name, ".icd") && names_pocl(String(place) + "/" + name);
  });
  return error == 0 ? is_there : names_pocl(place);
}

String flaw_of_binary(std::span<const std::uint8_t> binary) {
  if (binary.size() < sizeof kMagic || std::memcmp(binary.data(), kMagic, sizeof kMagic) != 0) return {};
  constexpr char kShort[] = "less than it says";
  BinaryReader reader(binary.subspan(sizeof kMagic));
  std::uint64_t device = 0, flags = 0, variables = 0;
  std::uint32_t version = 0, kernels = 0, entries = 0;
  if (!reader.number(device) || !reader.number(version)) return kShort;
  if (version < kFirstFormat || version > kLastFormat) return {};
  if (!reader.number(kernels) || !reader.number(flags) || !reader.number(entries) || !reader.skip(kHashBytes) ||
      (version > kFirstFormat && (flags & kHasVariables) && !reader.number(variables)))
    return kShort;
  if (kernels == 0 || entries == 0) return "no kernel or no program";
  for (std::uint32_t i = 0; i < entries; ++i) {
    std::uint64_t size = 0;
    std::span<const std::uint8_t> files;
    if (!reader.number(size) || !reader.take(size, files)) return kShort;
    if (String flaw = flaw_of_entries(files); !flaw.empty()) return flaw;
  }
  for (std::uint32_t i = 0; i < kernels; ++i) {
    constexpr std::uint64_t kSizes = 2 * sizeof(std::uint64_t);
    std::uint64_t size = 0, files_size = 0;
    std::span<const std::uint8_t> files;
    if (!reader.number(size) || !reader.number(files_size) || size < kSizes || files_size > size - kSizes ||
        !reader.skip(size - kSizes - files_size) || !reader.take(files_size, files))
      return kShort;
    // A kernel without files is compiled when it is launched.
    if (files_size == 0) continue;
    if (String flaw = flaw_of_entries(files); !flaw.empty()) return flaw;
  }
  return reader.at_end() ? String() : String("more than it says");
}

// ---- the lock -----------------------------------------------------------------------------------

BuildLock BuildLock::of(const Device &device, std::uint64_t hash) {
  if (device.platform_name != kPocl) return {};
  const String path = folder() + format("/quarry-%02llu.lock", hash % kLocks);
  return BuildLock(os::open_lock(path.c_str()));
}

bool BuildLock::hold() noexcept {
  if (file_.get() < 0 || held_) return true;
  const os::LockTaken taken = os::try_lock(file_.get());
  held_ = taken == os::LockTaken::Yes;
  if (taken == os::LockTaken::Impossible) release();
  return taken != os::LockTaken::Busy;
}

void BuildLock::release() noexcept {
  if (held_) os::unlock(file_.get());
  file_ = OpenFd(), held_ = false;
}

}  // namespace quarry::opencl
