// SPDX-License-Identifier: Apache-2.0
// The reader of macOS' plugins, over files that are made here, one for each thing that may be wrong with one: it reads
// bytes, so that it is tested on every system. Files of real linkers: tools/test_macos.sh (read_macho.cpp).
#include <cstring>
#include <string>
#include <vector>

#include "loader/macho_note.h"
#include "tests/support/check.h"

namespace quarry::loader {
namespace {

template <class T>
void put(std::string &bytes, std::size_t at, T value) {
  for (std::size_t i = 0; i < sizeof value; ++i)
    bytes.at(at + i) = static_cast<char>(static_cast<std::uint64_t>(value) >> 8 * i);
}
template <class T>
void put_big(std::string &bytes, std::size_t at, T value) {
  for (std::size_t i = 0; i < sizeof value; ++i)
    bytes.at(at + i) = static_cast<char>(static_cast<std::uint64_t>(value) >> 8 * (sizeof value - 1 - i));
}

// A bundle for arm64: the load commands of another kind (LC_UUID), of __TEXT with the sections __text and __qrnote, and
// of __LINKEDIT; at fixed places, so that a test can damage each field.
struct Macho {
  static constexpr std::size_t kUuid = 32, kText = kUuid + 24, kTextSize = 72 + 2 * 80, kSections = kText + 72,
                               kLinkedit = kText + kTextSize, kCommandsEnd = kLinkedit + 72, kNote = 0x200,
                               kSize = 0x400;
  std::string bytes = std::string(kSize, '\0');
  explicit Macho(std::uint32_t machine = kMachArm64) {
    put<std::uint32_t>(bytes, 0, 0xfeedfacf);
    put(bytes, 4, machine);
    put<std::uint32_t>(bytes, 12, 8);
    put<std::uint32_t>(bytes, 16, 3);
    put<std::uint32_t>(bytes, 20, kCommandsEnd - 32);
    put<std::uint32_t>(bytes, kUuid, 0x1b);
    put<std::uint32_t>(bytes, kUuid + 4, 24);
    segment(kText, "__TEXT", kTextSize, 0, 0x300, 2);
    segment(kLinkedit, "__LINKEDIT", 72, 0x300, 0x100, 0);
    section(0, "__text", 0x280, 0x80);
    section(1, "__qrnote", kNote, sizeof(qr_plugin_note_section));
    qr_plugin_note_section note = {7, sizeof(qr_plugin_note), QR_PLUGIN_NOTE_TYPE, QR_PLUGIN_NOTE_NAME, {}};
    note.note = {QR_PLUGIN_NOTE_MAGIC,     sizeof(qr_plugin_note), 0, 2, 1, 3, 0, 0, "zoo-macho", "1.2",
                 "aarch64-macos-libSystem"};
    std::memcpy(&bytes[kNote], &note, sizeof note);
  }
  void segment(std::size_t at, const char *name, std::size_t size, std::size_t offset, std::size_t length,
               std::uint32_t sections) {
    put<std::uint32_t>(bytes, at, 0x19);
    put(bytes, at + 4, static_cast<std::uint32_t>(size));
    bytes.replace(at + 8, std::strlen(name), name);
    put<std::uint64_t>(bytes, at + 40, offset);
    put<std::uint64_t>(bytes, at + 48, length);
    put(bytes, at + 64, sections);
  }
  void section(std::size_t index, const char *name, std::size_t offset, std::size_t size) {
    const std::size_t at = kSections + index * 80;
    bytes.replace(at, std::strlen(name), name);
    bytes.replace(at + 16, 6, "__TEXT");
    put<std::uint64_t>(bytes, at + 40, size);
    put(bytes, at + 48, static_cast<std::uint32_t>(offset));
  }
};

// A file for two machines, each part at its own 4 kB; `wide`: with offsets of 64 bits.
std::string fat(const std::string &first, std::uint32_t first_machine, const std::string &second,
                std::uint32_t second_machine, bool wide = false) {
  std::string bytes(0x3000, '\0');
  put_big<std::uint32_t>(bytes, 0, wide ? 0xcafebabf : 0xcafebabe);
  put_big<std::uint32_t>(bytes, 4, 2);
  const std::string *const parts[] = {&first, &second};
  const std::uint32_t machines[] = {first_machine, second_machine};
  for (std::size_t i = 0; i < 2; ++i) {
    const std::size_t at = 8 + i * (wide ? 32 : 20), begin = 0x1000 * (i + 1);
    put_big(bytes, at, machines[i]);
    if (wide) {
      put_big<std::uint64_t>(bytes, at + 8, begin);
      put_big<std::uint64_t>(bytes, at + 16, parts[i]->size());
    } else {
      put_big(bytes, at + 8, static_cast<std::uint32_t>(begin));
      put_big(bytes, at + 12, static_cast<std::uint32_t>(parts[i]->size()));
    }
    bytes.replace(begin, parts[i]->size(), *parts[i]);
  }
  return bytes;
}

std::string refusal(const std::string &bytes, std::uint32_t machine = kMachArm64) {
  auto note = read_macho_note(MemorySource(bytes.data(), bytes.size()), "x.dylib", machine);
  return note.ok() ? "ok" : std::string(note.status().id()) + " " + std::string(note.status().message());
}
// Of the file whose number at `at` is `value`.
template <class T>
std::string damaged(std::size_t at, T value) {
  Macho file;
  put(file.bytes, at, value);
  return refusal(file.bytes);
}

TEST_CASE("the note of a file of macOS") {
  const Macho file;
  auto note = read_macho_note(MemorySource(file.bytes.data(), file.bytes.size()), "x.dylib", kMachArm64);
  REQUIRE_OK(note);
  CHECK((note->present && note->abi_minor == 2 && note->blob_version == 3));
  CHECK_EQ(note->id, "zoo-macho");
  CHECK_EQ(note->version, "1.2");
  CHECK_EQ(note->target, "aarch64-macos-libSystem");
  CHECK_EQ(damaged<std::uint32_t>(12, 6), "ok");  // a library, as cmake makes of a module too
}

TEST_CASE("a file for several machines") {
  const std::string arm = Macho().bytes, x64 = Macho(kMachX64).bytes;
  for (const bool wide : {false, true}) {
    const std::string both = fat(x64, kMachX64, arm, kMachArm64, wide);
    CHECK_EQ(refusal(both), "ok");
    CHECK_EQ(refusal(both, kMachX64), "ok");
  }
  CHECK_EQ(refusal(fat(x64, kMachX64, x64, 7)), "QR-L0103 x.dylib: machine found x86_64, i386, expected arm64");
  // What the table calls arm64 is none.
  CHECK_EQ(refusal(fat(x64, kMachArm64, arm, kMachX64)), "QR-L0103 x.dylib: machine found x86_64, expected arm64");
  // The part is cut off.
  std::string both = fat(x64, kMachX64, arm, kMachArm64);
  both.resize(0x2100);
  CHECK_EQ(refusal(both),
           "QR-L0102 x.dylib: part for this machine: found 8448 bytes of a library, expected 1024 bytes at offset 8192 "
           "inside it");
  CHECK_EQ(refusal(both, kMachX64), "ok");
  both.resize(30);
  CHECK_EQ(
      refusal(both),
      "QR-L0102 x.dylib: table of machines: found 30 bytes of a library, expected 20 bytes at offset 28 inside it");
  // A class of Java begins so too.
  put_big<std::uint32_t>(both, 4, 61);
  CHECK_EQ(refusal(both), "QR-L0101 x.dylib: found a file for 61 machines, expected a library of macOS for 1 to 32");
}

TEST_CASE("a file that is no library of macOS, or is cut") {
  CHECK_EQ(refusal(""), "QR-L0101 x.dylib: found a file of 0 bytes, expected a library of macOS");
  CHECK_EQ(refusal("\x7f"
                   "ELF and more"),
           "QR-L0101 x.dylib: found a file that starts with 7f 45 4c 46, expected a library of macOS (cf fa ed fe)");
  CHECK_EQ(refusal("MZ, and more"),
           "QR-L0101 x.dylib: found a file that starts with 4d 5a 2c 20, expected a library of macOS (cf fa ed fe)");
  CHECK_EQ(refusal(Macho().bytes.substr(0, 20)),
           "QR-L0102 x.dylib: Mach-O header: found 20 bytes of a library, expected 32 bytes at offset 0 inside it");
  CHECK_EQ(refusal(Macho().bytes.substr(0, 100)),
           "QR-L0102 x.dylib: load commands: found 100 bytes of a library, expected 328 bytes at offset 32 inside it");
  CHECK_EQ(refusal(Macho().bytes.substr(0, 0x3ff)),
           "QR-L0102 x.dylib: segment __LINKEDIT: found 1023 bytes of a library, expected 256 bytes at offset 768 "
           "inside it");
  CHECK_EQ(damaged<std::uint32_t>(12, 2), "QR-L0101 x.dylib: Mach-O header: found a program, expected a library");
  CHECK_EQ(damaged<std::uint32_t>(12, 1),
           "QR-L0101 x.dylib: Mach-O header: found file type 1, expected 6 (library) or 8 (bundle)");
  CHECK_EQ(
      damaged<std::uint32_t>(16, 0),
      "QR-L0102 x.dylib: Mach-O header: found 0 load commands of 328 bytes, expected 1 to 4096 of at most 1048576");
  CHECK_EQ(damaged<std::uint32_t>(16, 4),
           "QR-L0102 x.dylib: load command 3: found 0 bytes where 0 are left, expected it inside them");
  CHECK_EQ(damaged<std::uint32_t>(Macho::kUuid + 4, 4),
           "QR-L0102 x.dylib: load command 0: found 4 bytes where 328 are left, expected it inside them");
  CHECK_EQ(damaged<std::uint32_t>(Macho::kText + 4, 0x1000),
           "QR-L0102 x.dylib: load command 1: found 4096 bytes where 304 are left, expected it inside them");
  CHECK_EQ(damaged<std::uint32_t>(Macho::kUuid, 0x19),
           "QR-L0102 x.dylib: load command of a segment: found 24 bytes, expected at least 72");
  CHECK_EQ(
      damaged<std::uint32_t>(Macho::kText + 64, 3),
      "QR-L0102 x.dylib: segment __TEXT: found 3 sections in a load command of 232 bytes, expected them inside it");
  CHECK_EQ(damaged<std::uint64_t>(Macho::kText + 40, UINT64_MAX),
           "QR-L0102 x.dylib: segment __TEXT: found 1024 bytes of a library, expected 768 bytes at offset "
           "18446744073709551615 inside it");
}

TEST_CASE("a file of macOS for another machine") {
  CHECK_EQ(refusal(Macho(kMachX64).bytes), "QR-L0103 x.dylib: machine found x86_64, expected arm64");
  CHECK_EQ(refusal(Macho().bytes, kMachX64), "QR-L0103 x.dylib: machine found arm64, expected x86_64");
  // For processes whose pointers are signed, which ours are not.
  CHECK_EQ(damaged<std::uint32_t>(8, 0x80000002), "QR-L0103 x.dylib: machine found arm64e, expected arm64");
  CHECK_EQ(damaged<std::uint32_t>(4, 0x0200000c), "QR-L0103 x.dylib: machine found arm64_32, expected arm64");
  CHECK_EQ(damaged<std::uint32_t>(4, 99), "QR-L0103 x.dylib: machine found machine 0x00000063, expected arm64");
  CHECK_EQ(damaged<std::uint32_t>(0, 0xcffaedfe),
           "QR-L0103 x.dylib: byte order found big-endian, expected little-endian");
  Macho narrow(7);
  put<std::uint32_t>(narrow.bytes, 0, 0xfeedface);
  CHECK_EQ(refusal(narrow.bytes, kMachX64),
           "QR-L0104 x.dylib: bitness found 32, expected 64; machine found i386, expected x86_64");
}

TEST_CASE("a file of macOS without a note, and notes that break their own rules") {
  const std::string none =
      "QR-L0105 x.dylib: found no note of owner \"Quarry\", expected one: this is no Quarry plugin";
  const std::size_t row = Macho::kSections + 80;
  CHECK_EQ(damaged(row + 2, 'z'), none);
  CHECK_EQ(damaged(row + 18, 'X'), none);                // of another segment
  CHECK_EQ(damaged(Macho::kNote + 12, 'G'), none);       // the owner
  CHECK_EQ(damaged<std::uint64_t>(row + 40, 10), none);  // too short for a note's head
  CHECK_EQ(damaged<std::uint32_t>(Macho::kText + 64, 1), none);
  CHECK_EQ(damaged<std::uint64_t>(row + 40, 1 << 21),
           "QR-L0106 x.dylib: section __qrnote: found 2097152 bytes, expected at most 1048576");
  CHECK_EQ(damaged<std::uint32_t>(row + 48, 0x3f0),
           "QR-L0102 x.dylib: section __qrnote: found 1024 bytes of a library, expected 148 bytes at offset 1008 "
           "inside it");
  CHECK_EQ(damaged<std::uint32_t>(Macho::kNote + 4, 129),
           "QR-L0106 x.dylib: plugin note: found 129 bytes at offset 20 of a section of 148 bytes, expected them "
           "inside it");
  CHECK_EQ(damaged<std::uint32_t>(Macho::kNote + 20, 0x21212121),
           "QR-L0106 x.dylib: plugin note: found magic 0x21212121, expected 0x45544f4e");
}

TEST_CASE("the reader of macOS' files survives truncation and flips") {
  const std::string whole[] = {Macho().bytes, fat(Macho(kMachX64).bytes, kMachX64, Macho().bytes, kMachArm64),
                               fat(Macho(kMachX64).bytes, kMachX64, Macho().bytes, kMachArm64, true)};
  std::uint64_t state = 1;
  const auto random = [&] { return state = state * 6364136223846793005u + 1442695040888963407u, state >> 33; };
  for (const std::string &file : whole) {
    const std::size_t needed = file.size() == Macho::kSize ? file.size() : 0x2000 + Macho::kSize;
    for (std::size_t size = 0; size < needed; size += size < 0x400 ? 1 : 61) {
      const std::vector<char> exact(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size));
      const MemorySource cut(exact.data(), exact.size());  // asan sees a read past the end
      CHECK_FALSE(read_macho_note(cut, "cut", kMachArm64).ok());
    }
    std::vector<char> bytes(file.begin(), file.end());
    const std::size_t places[] = {0, Macho::kNote, 0x2000, 0x2000 + Macho::kNote};
    for (int round = 0; round < 20000; ++round) {
      std::size_t at[4];
      const std::size_t flips = 1 + random() % 4;
      for (std::size_t i = 0; i < flips; ++i) {
        at[i] = (places[random() % 4] + random() % 0x170) % bytes.size();
        bytes[at[i]] = static_cast<char>(random());
      }
      auto note = read_macho_note(MemorySource(bytes.data(), bytes.size()), "flipped", kMachArm64);
      if (!note.ok()) CHECK_FALSE(note.status().message().empty());
      for (std::size_t i = 0; i < flips; ++i) bytes[at[i]] = file[at[i]];
    }
  }
}

}  // namespace
}  // namespace quarry::loader
