// SPDX-License-Identifier: Apache-2.0
#include "loader/macho_note.h"

#include <cstring>

#include "base/checked.h"

namespace quarry::loader {
namespace {

constexpr std::uint32_t kMach64 = 0xfeedfacf, kMach32 = 0xfeedface, kFat = 0xcafebabe, kFat64 = 0xcafebabf;
constexpr std::uint64_t kMachHeader = 32, kFatHeader = 8, kFatRow = 20, kFat64Row = 32;
constexpr std::uint32_t kMostSlices = 32;  // a class of Java begins as a file for 45 machines or more
constexpr std::uint32_t kProgramType = 2, kDylibType = 6, kBundleType = 8;
constexpr std::uint32_t kSegmentCommand = 0x19;
constexpr std::uint64_t kCommandHead = 8, kSegmentHead = 72, kSectionRow = 80;
constexpr std::uint32_t kMostCommands = 4096, kMostCommandBytes = 1u << 20;
constexpr std::uint64_t kMostNoteBytes = 1u << 20;
constexpr std::uint32_t kSubtypeMask = 0xffffff, kArm64e = 2;
constexpr std::string_view kNoteSegmentName = "__TEXT", kNoteSectionName = "__qrnote";

std::uint32_t word_at(const unsigned char *bytes) noexcept {
  return bytes[0] | std::uint32_t{bytes[1]} << 8 | std::uint32_t{bytes[2]} << 16 | std::uint32_t{bytes[3]} << 24;
}
std::uint64_t long_at(const unsigned char *bytes) noexcept {
  return word_at(bytes) | std::uint64_t{word_at(bytes + 4)} << 32;
}
// What stands before the parts of a file for several machines is big-endian.
std::uint32_t big_word_at(const unsigned char *bytes) noexcept { return __builtin_bswap32(word_at(bytes)); }

std::string_view name_at(const unsigned char *bytes) noexcept {
  const char *const text = reinterpret_cast<const char *>(bytes);
  return {text, strnlen(text, 16)};
}

String mach_machine_text(std::uint32_t machine, std::uint32_t subtype) {
  switch (machine) {
    case 7: return "i386";
    case 12: return "arm";
    case 18: return "ppc";
    case 0x01000012: return "ppc64";
    case 0x0200000c: return "arm64_32";
    case kMachX64: return "x86_64";
    case kMachArm64: return (subtype & kSubtypeMask) == kArm64e ? "arm64e" : "arm64";
    default: return format("machine 0x%08x", machine);
  }
}

bool is_machine(std::uint32_t machine, std::uint32_t subtype, std::uint32_t expected) noexcept {
  return machine == expected && (machine != kMachArm64 || (subtype & kSubtypeMask) != kArm64e);
}

// A file, or its part for one machine: offsets inside it begin at `begin`.
struct MachSlice {
  const ByteSource &source;
  std::string_view name;
  std::uint64_t begin, size;

  bool read(std::uint64_t offset, void *out, std::uint64_t bytes) const noexcept {
    return range_fits(offset, bytes, size) && source.read(begin + offset, out, bytes);
  }
  Status truncated(const char *what, std::uint64_t bytes, std::uint64_t offset) const {
    return note_error(ErrorId::plugin_truncated, name,
                      format("%s: found %llu bytes of a library, expected %llu bytes at offset %llu inside it", what,
                             size, bytes, offset));
  }
};

Status wrong_machine(std::string_view name, const String &found, std::uint32_t expected) {
  return note_error(ErrorId::plugin_wrong_machine, name,
                    format("machine found %s, expected %s", found, mach_machine_text(expected, 0)));
}

// The part for `machine` of a file for several.
Status choose_slice(MachSlice &slice, std::uint32_t magic, std::uint32_t machine) {
  unsigned char head[kFatHeader];
  if (!slice.read(0, head, sizeof head)) return slice.truncated("header", kFatHeader, 0);
  const std::uint32_t count = big_word_at(head + 4);
  if (count == 0 || count > kMostSlices)
    return note_error(
        ErrorId::plugin_not_elf, slice.name,
        format("found a file for %u machines, expected a library of macOS for 1 to %u", count, kMostSlices));
  const std::uint64_t row_bytes = magic == kFat64 ? kFat64Row : kFatRow;
  String others;
  for (std::uint32_t i = 0; i < count; ++i) {
    unsigned char row[kFat64Row];
    const std::uint64_t at = kFatHeader + i * row_bytes;
    if (!slice.read(at, row, row_bytes)) return slice.truncated("table of machines", row_bytes, at);
    const std::uint32_t found = big_word_at(row), subtype = big_word_at(row + 4);
    if (!is_machine(found, subtype, machine)) {
      others += (others.empty() ? "" : ", ") + mach_machine_text(found, subtype);
      continue;
    }
    const auto wide = [&](std::size_t offset) {
      return std::uint64_t{big_word_at(row + offset)} << 32 | big_word_at(row + offset + 4);
    };
    const std::uint64_t begin = magic == kFat64 ? wide(8) : big_word_at(row + 8),
                        size = magic == kFat64 ? wide(16) : big_word_at(row + 12);
    if (!range_fits(begin, size, slice.size)) return slice.truncated("part for this machine", size, begin);
    slice.begin = begin, slice.size = size;
    return {};
  }
  return wrong_machine(slice.name, others, machine);
}

Status check_mach_header(const MachSlice &slice, const unsigned char *header, std::uint32_t machine) {
  const std::uint32_t magic = word_at(header), found = word_at(header + 4), subtype = word_at(header + 8);
  if (magic == kMach32)
    return note_error(ErrorId::plugin_wrong_bitness, slice.name,
                      format("bitness found 32, expected 64; machine found %s, expected %s",
                             mach_machine_text(found, subtype), mach_machine_text(machine, 0)));
  if (magic == __builtin_bswap32(kMach64) || magic == __builtin_bswap32(kMach32))
    return note_error(ErrorId::plugin_wrong_machine, slice.name, "byte order found big-endian, expected little-endian");
  if (magic != kMach64)
    return note_error(ErrorId::plugin_not_elf, slice.name,
                      format("found a file that starts with %02x %02x %02x %02x, expected a library of macOS (cf fa ed "
                             "fe)",
                             header[0], header[1], header[2], header[3]));
  if (!is_machine(found, subtype, machine))
    return wrong_machine(slice.name, mach_machine_text(found, subtype), machine);
  const std::uint32_t type = word_at(header + 12);
  if (type == kDylibType || type == kBundleType) return {};
  return note_error(ErrorId::plugin_not_elf, slice.name,
                    type == kProgramType ? String("Mach-O header: found a program, expected a library")
                                         : format("Mach-O header: found file type %u, expected 6 (library) or 8 "
                                                  "(bundle)",
                                                  type));
}

Status read_note_section(const MachSlice &slice, const unsigned char *section, PluginNote *out) {
  const std::uint64_t size = long_at(section + 40), offset = word_at(section + 48);
  if (size > kMostNoteBytes)
    return note_error(ErrorId::plugin_bad_note, slice.name,
                      format("section __qrnote: found %llu bytes, expected at most %llu", size, kMostNoteBytes));
  Vector<unsigned char> bytes(size);
  if (!slice.read(offset, bytes.data(), size)) return slice.truncated("section __qrnote", size, offset);
  return parse_note_section(bytes, slice.name, out);
}

// A segment's command: all of it must lie in the file, as the loader of macOS would end the process later. Reads the
// note where it is in one of its sections.
Status walk_segment(const MachSlice &slice, const unsigned char *command, std::uint64_t size, PluginNote *out) {
  if (size < kSegmentHead)
    return note_error(
        ErrorId::plugin_truncated, slice.name,
        format("load command of a segment: found %llu bytes, expected at least %llu", size, kSegmentHead));
  const std::uint64_t offset = long_at(command + 40), bytes = long_at(command + 48);
  const std::string_view segment = name_at(command + 8);
  if (!range_fits(offset, bytes, slice.size))
    return slice.truncated(format("segment %s", printable(segment)).c_str(), bytes, offset);
  const std::uint64_t count = word_at(command + 64);
  if (count > (size - kSegmentHead) / kSectionRow)
    return note_error(ErrorId::plugin_truncated, slice.name,
                      format("segment %s: found %llu sections in a load command of %llu bytes, expected them inside it",
                             printable(segment), count, size));
  for (std::uint64_t i = 0; i < count && !out->present; ++i) {
    const unsigned char *const section = command + kSegmentHead + i * kSectionRow;
    if (name_at(section) == kNoteSectionName && name_at(section + 16) == kNoteSegmentName)
      QR_RETURN_IF_ERROR(read_note_section(slice, section, out));
  }
  return {};
}

}  // namespace

Result<PluginNote> read_macho_note(const ByteSource &source, std::string_view name, std::uint32_t machine) {
  MachSlice slice{source, name, 0, source.size()};
  unsigned char header[kMachHeader] = {};
  if (!slice.read(0, header, 4))
    return note_error(ErrorId::plugin_not_elf, name,
                      format("found a file of %llu bytes, expected a library of macOS", source.size()));
  const std::uint32_t magic = big_word_at(header);
  if (magic == kFat || magic == kFat64) QR_RETURN_IF_ERROR(choose_slice(slice, magic, machine));
  const bool whole = slice.read(0, header, sizeof header);
  if (!whole && word_at(header) == kMach64) return slice.truncated("Mach-O header", kMachHeader, 0);
  QR_RETURN_IF_ERROR(check_mach_header(slice, header, machine));

  const std::uint32_t count = word_at(header + 16), bytes = word_at(header + 20);
  if (count == 0 || count > kMostCommands || bytes > kMostCommandBytes)
    return note_error(ErrorId::plugin_truncated, name,
                      format("Mach-O header: found %u load commands of %u bytes, expected 1 to %u of at most %u", count,
                             bytes, kMostCommands, kMostCommandBytes));
  Vector<unsigned char> commands(bytes);
  if (!slice.read(kMachHeader, commands.data(), bytes)) return slice.truncated("load commands", bytes, kMachHeader);
  PluginNote note;
  std::uint64_t at = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint64_t left = commands.size() - at;
    const std::uint64_t size = left < kCommandHead ? 0 : word_at(&commands[at + 4]);
    if (size < kCommandHead || size > left)
      return note_error(
          ErrorId::plugin_truncated, name,
          format("load command %u: found %llu bytes where %llu are left, expected it inside them", i, size, left));
    if (word_at(&commands[at]) == kSegmentCommand) QR_RETURN_IF_ERROR(walk_segment(slice, &commands[at], size, &note));
    at += size;
  }
  if (note.present) return note;
  return no_note(name);
}

}  // namespace quarry::loader
