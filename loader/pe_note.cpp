// SPDX-License-Identifier: Apache-2.0
#include "loader/pe_note.h"

#include <cstring>

#include "base/checked.h"

namespace quarry::loader {
namespace {

// Numbers are little-endian in every such file.
constexpr std::uint64_t kDosSize = 64, kSignatureAt = 60, kCoffSize = 4 + 20, kSectionSize = 40, kImportSize = 20;
constexpr std::uint16_t kPlus = 0x20b, kPlain = 0x10b;  // the optional header's forms: 64 and 32 bits
constexpr std::uint16_t kIsDll = 0x2000;
constexpr std::uint64_t kDirectoriesAt = 112;  // in the optional header of 64 bits
constexpr std::uint32_t kImports = 1, kLoadConfig = 10;
constexpr std::uint64_t kHybridAt = 200;  // CHPEMetadataPointer in the load configuration of 64 bits
constexpr std::uint16_t kMaxSections = 96, kMaxOptional = 4096;
constexpr std::size_t kMaxImports = 1024, kMaxImportName = 256;
constexpr std::string_view kNoteSection = ".qrnote";
constexpr std::uint64_t kMaxNoteSection = 1u << 20;

template <class T>
T number_at(const unsigned char *bytes) noexcept {
  T out = 0;
  for (std::size_t i = sizeof(T); i-- > 0;) out = static_cast<T>(out << 4 << 4 | bytes[i]);
  return out;
}

struct PeSection {
  std::string_view name() const noexcept { return {text, strnlen(text, sizeof text)}; }
  char text[8];
  std::uint32_t virtual_size, address, file_size, offset;
};

struct PeDirectory {
  std::uint32_t address = 0, size = 0;
};

class PeFile {
 public:
  PeFile(const ByteSource &source, std::string_view name) noexcept : source_(source), name_(name) {}

  // Machine and kind, then the sections. `machine` 0: any.
  Status open(std::uint16_t machine);
  const Vector<PeSection> &sections() const noexcept { return sections_; }
  PeDirectory directory(std::uint32_t index) const noexcept;
  // Where what is at `address` once the file is loaded stands in it, and how many bytes of it follow there.
  bool find(std::uint32_t address, std::uint64_t *offset, std::uint64_t *left) const noexcept;

 private:
  Status truncated(const char *what, std::uint64_t size, std::uint64_t offset) const;
  Status check_machine(std::uint16_t found, std::uint16_t form, std::uint16_t expected) const;
  Status read_sections(std::uint64_t at, std::uint16_t count);
  bool is_hybrid() const noexcept;

  const ByteSource &source_;
  const std::string_view name_;
  Vector<unsigned char> optional_;
  Vector<PeSection> sections_;
};

String pe_machine_text(std::uint16_t machine) {
  switch (machine) {
    case kPeX86: return "x86";
    case kPeX64: return "x64";
    case kPeArm64: return "Arm64";
    case 0x1c0:
    case 0x1c4: return "Arm";
    case 0xa641: return "Arm64EC";
    case 0xa64e: return "Arm64X";
    default: return format("machine 0x%04x", machine);
  }
}

Status PeFile::truncated(const char *what, std::uint64_t size, std::uint64_t offset) const {
  return note_error(ErrorId::plugin_truncated, name_,
                    format("%s: found a file of %llu bytes, expected %llu bytes at offset %llu inside it", what,
                           source_.size(), size, offset));
}

PeDirectory PeFile::directory(std::uint32_t index) const noexcept {
  if (optional_.size() < kDirectoriesAt || number_at<std::uint32_t>(&optional_[kDirectoriesAt - 4]) <= index) return {};
  const std::uint64_t at = kDirectoriesAt + 8u * index;
  if (!range_fits(at, 8, optional_.size())) return {};
  return {number_at<std::uint32_t>(&optional_[at]), number_at<std::uint32_t>(&optional_[at + 4])};
}

bool PeFile::find(std::uint32_t address, std::uint64_t *offset, std::uint64_t *left) const noexcept {
  for (const PeSection &section : sections_) {
    if (address < section.address || address - section.address >= section.file_size) continue;
    *offset = std::uint64_t{section.offset} + (address - section.address);
    *left = section.file_size - (address - section.address);
    return true;
  }
  return false;
}

// Arm64EC: code of Arm64 in a file that says x64, which only a process of Arm64's Windows can load.
bool PeFile::is_hybrid() const noexcept {
  const PeDirectory config = directory(kLoadConfig);
  std::uint64_t offset = 0, left = 0;
  unsigned char size[4], pointer[8];
  return config.address && find(config.address, &offset, &left) && left >= kHybridAt + sizeof pointer &&
         source_.read(offset, size, sizeof size) && number_at<std::uint32_t>(size) >= kHybridAt + sizeof pointer &&
         source_.read(offset + kHybridAt, pointer, sizeof pointer) && number_at<std::uint64_t>(pointer) != 0;
}

Status PeFile::check_machine(std::uint16_t found, std::uint16_t form, std::uint16_t expected) const {
  if (found == expected && form == kPlus) return {};
  String differs;
  if (form == kPlain) differs = "bitness found 32, expected 64";
  if (found != expected)
    differs += format("%smachine found %s, expected %s", differs.empty() ? "" : "; ", pe_machine_text(found),
                      pe_machine_text(expected));
  return note_error(form == kPlain ? ErrorId::plugin_wrong_bitness : ErrorId::plugin_wrong_machine, name_, differs);
}

// The loader of Windows maps every section and would refuse, or end the process later, where the file ends too early.
Status PeFile::read_sections(std::uint64_t at, std::uint16_t count) {
  if (count == 0 || count > kMaxSections)
    return note_error(ErrorId::plugin_truncated, name_,
                      format("PE header: found %u sections, expected 1 to %u", count, kMaxSections));
  Vector<unsigned char> bytes(count * kSectionSize);
  if (!source_.read(at, bytes.data(), bytes.size())) return truncated("table of sections", bytes.size(), at);
  sections_.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    const unsigned char *const row = &bytes[i * kSectionSize];
    PeSection &section = sections_[i];
    std::memcpy(section.text, row, sizeof section.text);
    section.virtual_size = number_at<std::uint32_t>(row + 8);
    section.address = number_at<std::uint32_t>(row + 12);
    section.file_size = number_at<std::uint32_t>(row + 16);
    section.offset = number_at<std::uint32_t>(row + 20);
    if (section.file_size && !range_fits(section.offset, section.file_size, source_.size()))
      return truncated(format("section %s", printable(section.name())).c_str(), section.file_size, section.offset);
  }
  return {};
}

Status PeFile::open(std::uint16_t machine) {
  unsigned char dos[kDosSize], coff[kCoffSize];
  if (!source_.read(0, dos, 2))
    return note_error(ErrorId::plugin_not_elf, name_,
                      format("found a file of %llu bytes, expected a DLL", source_.size()));
  if (dos[0] != 'M' || dos[1] != 'Z')
    return note_error(ErrorId::plugin_not_elf, name_,
                      format("found a file that starts with %02x %02x, expected a DLL (4d 5a)", dos[0], dos[1]));
  if (!source_.read(0, dos, sizeof dos)) return truncated("DOS header", kDosSize, 0);
  const std::uint64_t at = number_at<std::uint32_t>(dos + kSignatureAt);
  if (!source_.read(at, coff, sizeof coff)) return truncated("PE header", kCoffSize, at);
  if (std::memcmp(coff, "PE\0\0", 4) != 0)
    return note_error(ErrorId::plugin_not_elf, name_,
                      "found a program of DOS or another system, expected a DLL of Windows (PE)");
  const auto found = number_at<std::uint16_t>(coff + 4), sections = number_at<std::uint16_t>(coff + 6),
             size = number_at<std::uint16_t>(coff + 20), traits = number_at<std::uint16_t>(coff + 22);
  if (size < 2 || size > kMaxOptional)
    return note_error(ErrorId::plugin_truncated, name_,
                      format("PE header: found an optional header of %u bytes, expected 2 to %u", size, kMaxOptional));
  optional_.resize(size);
  if (!source_.read(at + kCoffSize, optional_.data(), size)) return truncated("optional header", size, at + kCoffSize);
  const auto form = number_at<std::uint16_t>(optional_.data());
  if (form != kPlus && form != kPlain)
    return note_error(ErrorId::plugin_not_elf, name_,
                      format("optional header: found form 0x%x, expected 0x20b (64-bit)", form));
  // The machine first: a file for another one is whole all the same.
  if (machine) QR_RETURN_IF_ERROR(check_machine(found, form, machine));
  QR_RETURN_IF_ERROR(read_sections(at + kCoffSize + size, sections));
  if (machine == kPeX64 && is_hybrid())
    return note_error(ErrorId::plugin_wrong_machine, name_, "machine found Arm64EC, expected x64");
  if (traits & kIsDll) return {};
  return note_error(ErrorId::plugin_not_elf, name_, "PE header: found a program, expected a DLL");
}

}  // namespace

Result<PluginNote> read_pe_note(const ByteSource &source, std::string_view name, std::uint16_t machine) {
  PeFile file(source, name);
  QR_RETURN_IF_ERROR(file.open(machine));
  for (const PeSection &section : file.sections()) {
    if (section.name() != kNoteSection) continue;
    // In the file it is filled up; in memory it may be longer than what the file has of it.
    const std::uint64_t size =
        section.virtual_size && section.virtual_size < section.file_size ? section.virtual_size : section.file_size;
    if (size > kMaxNoteSection)
      return note_error(ErrorId::plugin_bad_note, name,
                        format("section .qrnote: found %llu bytes, expected at most %llu", size, kMaxNoteSection));
    Vector<unsigned char> bytes(size);
    if (!source.read(section.offset, bytes.data(), bytes.size()))
      return note_error(ErrorId::plugin_truncated, name, "section .qrnote: cannot be read");
    PluginNote note;
    QR_RETURN_IF_ERROR(parse_note_section(bytes, name, &note));
    if (!note.present) break;
    return note;
  }
  return no_note(name);
}

Result<Vector<String>> read_pe_imports(const ByteSource &source, std::string_view name) {
  PeFile file(source, name);
  QR_RETURN_IF_ERROR(file.open(0));
  Vector<String> names;
  const PeDirectory table = file.directory(kImports);
  if (table.address == 0) return names;
  const auto outside = [&](std::uint32_t address) {
    return note_error(
        ErrorId::plugin_truncated, name,
        format("table of imports: found address 0x%x in no section, expected all of it in the file", address));
  };
  std::uint64_t at = 0, left = 0;
  if (!file.find(table.address, &at, &left)) return outside(table.address);
  for (; names.size() < kMaxImports; at += kImportSize, left -= kImportSize) {
    unsigned char row[kImportSize];
    if (left < kImportSize || !source.read(at, row, sizeof row)) return outside(table.address);
    const auto text = number_at<std::uint32_t>(row + 12);
    if (text == 0) return names;  // the table's end
    std::uint64_t offset = 0, size = 0;
    char room[kMaxImportName];
    if (!file.find(text, &offset, &size)) return outside(text);
    if (size > sizeof room) size = sizeof room;
    if (!source.read(offset, room, size)) return outside(text);
    const std::size_t length = strnlen(room, size);
    if (length == size) return outside(text);
    names.emplace_back(room, length);
  }
  return note_error(ErrorId::plugin_truncated, name,
                    format("table of imports: found more than %zu libraries, expected an end of it", kMaxImports));
}

}  // namespace quarry::loader
