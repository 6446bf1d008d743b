// SPDX-License-Identifier: Apache-2.0
// Reads what a shared object declares of itself, without running any of it: ELF header, program headers, the note. Pure
// functions over bytes; every offset and size is checked against the file.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "quarry/backend.h"

namespace quarry::loader {

// Bytes with a size. Reads are whole or fail.
class ByteSource {
 public:
  virtual std::uint64_t size() const noexcept = 0;
  virtual bool read(std::uint64_t offset, void *out, std::size_t size) const noexcept = 0;

 protected:
  ~ByteSource() = default;
};

class MemorySource final : public ByteSource {
 public:
  MemorySource(const void *data, std::uint64_t size) noexcept
      : data_(static_cast<const unsigned char *>(data)), size_(size) {}
  std::uint64_t size() const noexcept override { return size_; }
  bool read(std::uint64_t offset, void *out, std::size_t size) const noexcept override;

 private:
  const unsigned char *data_;
  std::uint64_t size_;
};

// An open regular file, read with pread: a file that shrinks under us fails a read, it cannot fault.
class FileSource final : public ByteSource {
 public:
  FileSource(int fd, std::uint64_t size) noexcept : fd_(fd), size_(size) {}
  std::uint64_t size() const noexcept override { return size_; }
  bool read(std::uint64_t offset, void *out, std::size_t size) const noexcept override;

 private:
  int fd_;
  std::uint64_t size_;
};

// The ELF header's word on the machine.
struct ElfIdentity {
  std::uint32_t bits = 0;  // 32 or 64
  bool little_endian = false;
  std::uint16_t machine = 0;  // EM_*
};

struct PluginNote {
  bool present = false;  // false: the fields below are empty
  ElfIdentity elf;
  std::uint32_t abi_major = 0, abi_minor = 0, abi_minor_min = 0, blob_version = 0, flavour = 0;
  String id, version, target;
};

// Reads the note of the file `name` (for messages). Fails with QR-L0101 (no ELF shared object), L0102 (truncated),
// L0103 and L0104 (another machine or bitness: found before the note is looked for), L0105 (no note) or L0106 (a note
// that breaks its own rules).
Result<PluginNote> read_plugin_note(const ByteSource &source, std::string_view name);

const char *machine_name(std::uint16_t machine) noexcept;  // "x86_64"; nullptr: not one we know

}  // namespace quarry::loader
