// SPDX-License-Identifier: Apache-2.0
#include "loader/elf_note.h"

#include <elf.h>

#include <cstring>

#include "base/checked.h"

namespace quarry::loader {
namespace {

constexpr std::uint16_t kMaxProgramHeaders = 1024;
constexpr std::uint64_t kMaxNoteBytes = 1u << 20;  // all notes of one segment

#if defined(__x86_64__)
constexpr std::uint16_t kHostMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr std::uint16_t kHostMachine = EM_AARCH64;
#else
#error "name this machine's EM_ number"
#endif

// The ELF header's word on the machine.
struct ElfIdentity {
  std::uint32_t bits = 0;  // 32 or 64
  bool little_endian = false;
  std::uint16_t machine = 0;  // EM_*
};

String machine_text(std::uint16_t machine) {
  const char *known = machine_name(machine);
  return known ? String(known) : format("machine %u", machine);
}

// Walks the notes of one PT_NOTE segment; sets out->present when the plugin's was among them.
Status walk_notes(const ByteSource &source, const Elf64_Phdr &segment, std::string_view name, PluginNote *out) {
  if (segment.p_filesz > kMaxNoteBytes)
    return note_error(ErrorId::plugin_bad_note, name,
                      format("note segment: found %llu bytes, expected at most %llu", segment.p_filesz, kMaxNoteBytes));
  Vector<unsigned char> bytes(segment.p_filesz);
  if (!source.read(segment.p_offset, bytes.data(), bytes.size()))
    return note_error(ErrorId::plugin_truncated, name, "note segment: cannot be read");
  const std::uint64_t align = segment.p_align == 8 ? 8 : 4;  // ELF's two ways of padding notes
  std::uint64_t at = 0;
  while (bytes.size() - at >= sizeof(Elf64_Nhdr)) {
    Elf64_Nhdr header;
    std::memcpy(&header, bytes.data() + at, sizeof header);
    std::uint64_t desc = 0, next = 0;
    if (!checked_align_up(at + sizeof header + header.n_namesz, align, &desc) ||
        !checked_align_up(desc + header.n_descsz, align, &next))
      break;
    const bool whole_name = range_fits(at + sizeof header, header.n_namesz, bytes.size());
    const bool ours =
        whole_name && header.n_type == QR_PLUGIN_NOTE_TYPE && header.n_namesz == sizeof QR_PLUGIN_NOTE_NAME &&
        std::memcmp(bytes.data() + at + sizeof header, QR_PLUGIN_NOTE_NAME, sizeof QR_PLUGIN_NOTE_NAME) == 0;
    if (ours) {
      if (!range_fits(desc, header.n_descsz, bytes.size()))
        return note_error(
            ErrorId::plugin_bad_note, name,
            format("plugin note: found %u bytes at offset %llu of a note segment of %zu bytes, expected them inside it",
                   header.n_descsz, desc, bytes.size()));
      return parse_note(bytes.data() + desc, header.n_descsz, name, out);
    }
    if (next >= bytes.size()) break;
    at = next;
  }
  return {};
}

}  // namespace

const char *machine_name(std::uint16_t machine) noexcept {
  switch (machine) {
    case EM_386: return "i386";
    case EM_ARM: return "arm";
    case EM_X86_64: return "x86_64";
    case EM_AARCH64: return "aarch64";
    case EM_RISCV: return "riscv";
    case EM_PPC64: return "ppc64";
    case EM_S390: return "s390";
    case 164: return "hexagon";
    case 258: return "loongarch";
    default: return nullptr;
  }
}

namespace {

Status no_header(const ByteSource &source, std::string_view name) {
  return note_error(ErrorId::plugin_truncated, name,
                    format("ELF header: found a file of %llu bytes, expected at least 64", source.size()));
}

// The bytes that an ELF file begins with, whatever its machine.
Status read_ident(const ByteSource &source, std::string_view name, unsigned char (&ident)[EI_NIDENT]) {
  if (!source.read(0, ident, sizeof ident)) {
    char start[SELFMAG] = {};
    if (source.size() >= SELFMAG && source.read(0, start, SELFMAG) && std::memcmp(start, ELFMAG, SELFMAG) == 0)
      return no_header(source, name);
    return note_error(ErrorId::plugin_not_elf, name,
                      format("found a file of %llu bytes, expected an ELF shared object", source.size()));
  }
  if (std::memcmp(ident, ELFMAG, SELFMAG) != 0)
    return note_error(
        ErrorId::plugin_not_elf, name,
        format("found a file that starts with %02x %02x %02x %02x, expected an ELF shared object (7f 45 4c 46)",
               ident[0], ident[1], ident[2], ident[3]));
  if (ident[EI_CLASS] != ELFCLASS32 && ident[EI_CLASS] != ELFCLASS64)
    return note_error(ErrorId::plugin_not_elf, name,
                      format("ELF header: found class %u, expected 2 (64-bit)", ident[EI_CLASS]));
  if (ident[EI_DATA] != ELFDATA2LSB && ident[EI_DATA] != ELFDATA2MSB)
    return note_error(ErrorId::plugin_not_elf, name,
                      format("ELF header: found byte order %u, expected 1 (little-endian)", ident[EI_DATA]));
  return {};
}

Status check_machine(const ElfIdentity &elf, std::string_view name) {
  if (elf.bits == 64 && elf.machine == kHostMachine && elf.little_endian) return {};
  String differs;
  const auto pair = [&](const String &text) { differs += differs.empty() ? text : "; " + text; };
  if (elf.bits != 64) pair("bitness found 32, expected 64");
  if (elf.machine != kHostMachine)
    pair(format("machine found %s, expected %s", machine_text(elf.machine), machine_text(kHostMachine)));
  if (!elf.little_endian) pair("byte order found big-endian, expected little-endian");
  return note_error(elf.bits != 64 ? ErrorId::plugin_wrong_bitness : ErrorId::plugin_wrong_machine, name, differs);
}

// Every segment must lie in the file: the dynamic linker maps them and would fault where the file ends too early.
Status read_segments(const ByteSource &source, std::string_view name, std::uint16_t type,
                     Vector<Elf64_Phdr> &segments) {
  Elf64_Ehdr header;
  if (!source.read(0, &header, sizeof header)) return no_header(source, name);
  if (type != ET_DYN)
    return note_error(ErrorId::plugin_not_elf, name,
                      format("ELF header: found file type %u, expected 3 (shared object)", type));
  if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum == 0 || header.e_phnum > kMaxProgramHeaders)
    return note_error(ErrorId::plugin_truncated, name,
                      format("ELF header: found %u program headers of %u bytes, expected 1 to %u of %zu",
                             header.e_phnum, header.e_phentsize, kMaxProgramHeaders, sizeof(Elf64_Phdr)));
  if (!range_fits(header.e_phoff, std::uint64_t{header.e_phnum} * sizeof(Elf64_Phdr), source.size()))
    return note_error(
        ErrorId::plugin_truncated, name,
        format("program headers: found a file of %llu bytes, expected %u headers at offset %llu inside it",
               source.size(), header.e_phnum, header.e_phoff));

  segments.resize(header.e_phnum);
  if (!source.read(header.e_phoff, segments.data(), segments.size() * sizeof(Elf64_Phdr)))
    return note_error(ErrorId::plugin_truncated, name, "program headers: cannot be read");
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const Elf64_Phdr &segment = segments[i];
    if ((segment.p_type == PT_LOAD || segment.p_type == PT_NOTE || segment.p_type == PT_DYNAMIC) &&
        !range_fits(segment.p_offset, segment.p_filesz, source.size()))
      return note_error(ErrorId::plugin_truncated, name,
                        format("segment %zu: found a file of %llu bytes, expected %llu bytes at offset %llu inside it",
                               i, source.size(), segment.p_filesz, segment.p_offset));
  }
  return {};
}

}  // namespace

Result<PluginNote> read_elf_note(const ByteSource &source, std::string_view name) {
  unsigned char ident[EI_NIDENT] = {};
  QR_RETURN_IF_ERROR(read_ident(source, name, ident));
  ElfIdentity elf;
  elf.bits = ident[EI_CLASS] == ELFCLASS64 ? 64 : 32;
  elf.little_endian = ident[EI_DATA] == ELFDATA2LSB;
  unsigned char half[4];  // e_type and e_machine lie at the same place for both bitnesses
  if (!source.read(EI_NIDENT, half, sizeof half)) return no_header(source, name);
  const auto read16 = [&](const unsigned char *at) {
    return static_cast<std::uint16_t>(elf.little_endian ? at[0] | at[1] << 8 : at[0] << 8 | at[1]);
  };
  const std::uint16_t type = read16(half);
  elf.machine = read16(half + 2);

  // The machine first: nothing after these fields means the same elsewhere.
  QR_RETURN_IF_ERROR(check_machine(elf, name));
  Vector<Elf64_Phdr> segments;
  QR_RETURN_IF_ERROR(read_segments(source, name, type, segments));
  PluginNote note;
  for (const Elf64_Phdr &segment : segments) {
    if (segment.p_type != PT_NOTE) continue;
    QR_RETURN_IF_ERROR(walk_notes(source, segment, name, &note));
    if (note.present) return note;
  }
  return no_note(name);
}

}  // namespace quarry::loader
