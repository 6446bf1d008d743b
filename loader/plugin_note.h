// SPDX-License-Identifier: Apache-2.0
// What a plugin's file declares of itself, read without running any of it: each form of files has its own reader
// (elf_note.h, pe_note.h, macho_note.h).
#pragma once

#include <cstdint>
#include <span>
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

struct PluginNote {
  bool present = false;  // false: the fields below are empty
  std::uint32_t abi_major = 0, abi_minor = 0, abi_minor_min = 0, blob_version = 0, flavour = 0;
  String id, version, target;
};

// An error of the file `name`.
Status note_error(ErrorId id, std::string_view name, const String &what);
// A note that another file's form has led to; QR-L0106 where it breaks its own rules.
Status parse_note(const unsigned char *bytes, std::uint64_t size, std::string_view name, PluginNote *out);
// The same of a section that has the whole of it: header, name, note. `out` stays as it is where it is another's.
Status parse_note_section(std::span<const unsigned char> bytes, std::string_view name, PluginNote *out);
// QR-L0105.
Status no_note(std::string_view name);

}  // namespace quarry::loader
