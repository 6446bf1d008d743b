// SPDX-License-Identifier: Apache-2.0
// The reader of Windows' DLLs, over files that are made here, one for each thing that may be wrong with one: it reads
// bytes, so that it is tested on every system.
#include <cstring>
#include <string>
#include <vector>

#include "loader/pe_note.h"
#include "tests/support/check.h"

namespace quarry::loader {
namespace {

template <class T>
void put(std::string &bytes, std::size_t at, T value) {
  for (std::size_t i = 0; i < sizeof value; ++i)
    bytes.at(at + i) = static_cast<char>(static_cast<std::uint64_t>(value) >> 8 * i);
}

// A DLL for x64 with three sections: .text, .qrnote, .idata; at fixed places, so that a test can damage each field.
struct Dll {
  static constexpr std::size_t kPe = 0x80, kCoff = kPe + 4, kOptional = kCoff + 20, kOptionalSize = 240,
                               kDirectories = kOptional + 112, kSections = kOptional + kOptionalSize, kText = 0x400,
                               kNote = 0x600, kImports = 0x800, kSize = 0xa00;
  static constexpr std::size_t section(int index) { return kSections + static_cast<std::size_t>(index) * 40; }

  std::string bytes = std::string(kSize, '\0');
  Dll() {
    bytes.replace(0, 2, "MZ");
    put<std::uint32_t>(bytes, 60, kPe);
    bytes.replace(kPe, 2, "PE");
    put<std::uint16_t>(bytes, kCoff, kPeX64);
    put<std::uint16_t>(bytes, kCoff + 2, 3);
    put<std::uint16_t>(bytes, kCoff + 16, kOptionalSize);
    put<std::uint16_t>(bytes, kCoff + 18, 0x2022);
    put<std::uint16_t>(bytes, kOptional, 0x20b);
    put<std::uint32_t>(bytes, kDirectories - 4, 16);
    const struct {
      const char *name;
      std::uint32_t virtual_size, address, offset;
    } rows[] = {{".text", 0x100, 0x1000, kText}, {".qrnote", 148, 0x2000, kNote}, {".idata", 0x200, 0x3000, kImports}};
    for (int i = 0; i < 3; ++i) {
      std::memcpy(&bytes[section(i)], rows[i].name, std::strlen(rows[i].name));
      put(bytes, section(i) + 8, rows[i].virtual_size);
      put(bytes, section(i) + 12, rows[i].address);
      put<std::uint32_t>(bytes, section(i) + 16, 0x200);
      put(bytes, section(i) + 20, rows[i].offset);
    }
    qr_plugin_note_section note = {7, sizeof(qr_plugin_note), QR_PLUGIN_NOTE_TYPE, QR_PLUGIN_NOTE_NAME, {}};
    note.note = {QR_PLUGIN_NOTE_MAGIC, sizeof(qr_plugin_note), 0, 2, 1, 3, 0, 0, "zoo-pe", "1.2", "x86_64-windows-any"};
    std::memcpy(&bytes[kNote], &note, sizeof note);
    imports({"KERNEL32.dll", "QnnHtp.dll"});
  }
  void imports(const std::vector<std::string> &names) {
    put<std::uint32_t>(bytes, kDirectories + 8, 0x3000);
    put<std::uint32_t>(bytes, kDirectories + 12, 20 * (static_cast<std::uint32_t>(names.size()) + 1));
    std::uint32_t text = 0x100;
    for (std::size_t i = 0; i < names.size(); ++i) {
      put<std::uint32_t>(bytes, kImports + 20 * i + 12, 0x3000 + text);
      bytes.replace(kImports + text, names[i].size(), names[i]);
      text += static_cast<std::uint32_t>(names[i].size()) + 1;
    }
  }
  MemorySource source() const { return {bytes.data(), bytes.size()}; }
};

std::string refusal(const Dll &dll, std::uint16_t machine = kPeX64) {
  auto note = read_pe_note(dll.source(), "x.dll", machine);
  return note.ok() ? "ok" : std::string(note.status().id()) + " " + std::string(note.status().message());
}

TEST_CASE("the note of a DLL, and what it imports") {
  const Dll dll;
  auto note = read_pe_note(dll.source(), "x.dll", kPeX64);
  REQUIRE_OK(note);
  CHECK((note->present && note->abi_minor == 2 && note->blob_version == 3));
  CHECK_EQ(note->id, "zoo-pe");
  CHECK_EQ(note->version, "1.2");
  CHECK_EQ(note->target, "x86_64-windows-any");
  auto imports = read_pe_imports(dll.source(), "x.dll");
  REQUIRE_OK(imports);
  REQUIRE_EQ(imports->size(), 2);
  CHECK_EQ((*imports)[0], "KERNEL32.dll");
  CHECK_EQ((*imports)[1], "QnnHtp.dll");
}

TEST_CASE("a file that is no DLL, or is cut") {
  Dll dll;
  dll.bytes = "";
  CHECK_EQ(refusal(dll), "QR-L0101 x.dll: found a file of 0 bytes, expected a DLL");
  dll.bytes =
      "\x7f"
      "ELF";
  CHECK_EQ(refusal(dll), "QR-L0101 x.dll: found a file that starts with 7f 45, expected a DLL (4d 5a)");
  dll.bytes = "MZ and no more";
  CHECK_EQ(refusal(dll),
           "QR-L0102 x.dll: DOS header: found a file of 14 bytes, expected 64 bytes at offset 0 inside it");
  dll = {};
  put<std::uint32_t>(dll.bytes, 60, 0xfffffff0);
  CHECK_EQ(refusal(dll),
           "QR-L0102 x.dll: PE header: found a file of 2560 bytes, expected 24 bytes at offset 4294967280 inside it");
  dll = {};
  dll.bytes[Dll::kPe] = 'N';
  CHECK_EQ(refusal(dll), "QR-L0101 x.dll: found a program of DOS or another system, expected a DLL of Windows (PE)");
  dll = {};
  put<std::uint16_t>(dll.bytes, Dll::kCoff + 18, 0x22);
  CHECK_EQ(refusal(dll), "QR-L0101 x.dll: PE header: found a program, expected a DLL");
  dll = {};
  put<std::uint16_t>(dll.bytes, Dll::kCoff + 16, 0);
  CHECK_EQ(refusal(dll), "QR-L0102 x.dll: PE header: found an optional header of 0 bytes, expected 2 to 4096");
  dll = {};
  put<std::uint16_t>(dll.bytes, Dll::kOptional, 0x107);
  CHECK_EQ(refusal(dll), "QR-L0101 x.dll: optional header: found form 0x107, expected 0x20b (64-bit)");
  dll = {};
  put<std::uint16_t>(dll.bytes, Dll::kCoff + 2, 97);
  CHECK_EQ(refusal(dll), "QR-L0102 x.dll: PE header: found 97 sections, expected 1 to 96");
  dll = {};
  put<std::uint32_t>(dll.bytes, Dll::section(0) + 16, 0x10000);
  CHECK_EQ(refusal(dll),
           "QR-L0102 x.dll: section .text: found a file of 2560 bytes, expected 65536 bytes at offset 1024 inside it");
}

TEST_CASE("a DLL for another machine") {
  Dll dll;
  put<std::uint16_t>(dll.bytes, Dll::kCoff, kPeArm64);
  CHECK_EQ(refusal(dll), "QR-L0103 x.dll: machine found Arm64, expected x64");
  CHECK_EQ(refusal(dll, kPeArm64), "ok");
  CHECK_EQ(refusal(Dll(), kPeArm64), "QR-L0103 x.dll: machine found x64, expected Arm64");
  put<std::uint16_t>(dll.bytes, Dll::kCoff, 0x4242);
  CHECK_EQ(refusal(dll), "QR-L0103 x.dll: machine found machine 0x4242, expected x64");
  put<std::uint16_t>(dll.bytes, Dll::kCoff, kPeX86);
  put<std::uint16_t>(dll.bytes, Dll::kOptional, 0x10b);
  CHECK_EQ(refusal(dll), "QR-L0104 x.dll: bitness found 32, expected 64; machine found x86, expected x64");
  // Arm64EC says x64, and has what a hybrid needs in its load configuration.
  Dll hybrid;
  put<std::uint32_t>(hybrid.bytes, Dll::kDirectories + 8 * 10, 0x1000);
  put<std::uint32_t>(hybrid.bytes, Dll::kText, 0x140);
  CHECK_EQ(refusal(hybrid), "ok");  // the pointer is NULL
  put<std::uint64_t>(hybrid.bytes, Dll::kText + 200, 0x180001000);
  CHECK_EQ(refusal(hybrid), "QR-L0103 x.dll: machine found Arm64EC, expected x64");
}

TEST_CASE("a DLL without a note, and notes that break their own rules") {
  const std::string none = "QR-L0105 x.dll: found no note of owner \"Quarry\", expected one: this is no Quarry plugin";
  Dll dll;
  dll.bytes[Dll::section(1) + 1] = 'z';
  CHECK_EQ(refusal(dll), none);
  dll = {};
  dll.bytes[Dll::kNote + 12] = 'G';  // the owner
  CHECK_EQ(refusal(dll), none);
  dll = {};
  put<std::uint32_t>(dll.bytes, Dll::section(1) + 8, 10);  // too short for a note's head
  CHECK_EQ(refusal(dll), none);
  dll = {};
  put<std::uint32_t>(dll.bytes, Dll::section(1) + 16, 0);  // nothing of it in the file
  CHECK_EQ(refusal(dll), none);
  dll = {};
  put<std::uint32_t>(dll.bytes, Dll::kNote + 4, 129);
  CHECK_EQ(refusal(dll),
           "QR-L0106 x.dll: plugin note: found 129 bytes at offset 20 of a section of 148 bytes, expected "
           "them inside it");
  dll = {};
  put<std::uint32_t>(dll.bytes, Dll::kNote + 4, 64);
  CHECK_EQ(refusal(dll), "QR-L0106 x.dll: plugin note: found 64 bytes, expected at least 128");
  dll = {};
  put<std::uint32_t>(dll.bytes, Dll::kNote + 20, 0x21212121);
  CHECK_EQ(refusal(dll), "QR-L0106 x.dll: plugin note: found magic 0x21212121, expected 0x45544f4e");
}

TEST_CASE("a table of imports that does not lie in the file") {
  Dll dll;
  put<std::uint32_t>(dll.bytes, Dll::kImports + 12, 0x3000 + 0x1ff);
  dll.bytes[Dll::kSize - 1] = 'x';  // a name without an end
  CHECK_EQ(read_pe_imports(dll.source(), "x.dll").status().id(), "QR-L0102");
  put<std::uint32_t>(dll.bytes, Dll::kImports + 12, 0x9000);
  CHECK_EQ(read_pe_imports(dll.source(), "x.dll").status().message(),
           "x.dll: table of imports: found address 0x9000 in no section, expected all of it in the file");
  put<std::uint32_t>(dll.bytes, Dll::kDirectories + 8, 0x31f0);  // a row that is cut
  CHECK_EQ(read_pe_imports(dll.source(), "x.dll").status().id(), "QR-L0102");
  put<std::uint32_t>(dll.bytes, Dll::kDirectories + 8, 0);
  CHECK_EQ(read_pe_imports(dll.source(), "x.dll")->size(), 0);
}

TEST_CASE("the reader of DLLs survives truncation and flips") {
  const Dll dll;
  for (std::size_t size = 0; size < dll.bytes.size(); ++size) {
    const std::vector<char> exact(dll.bytes.begin(), dll.bytes.begin() + static_cast<std::ptrdiff_t>(size));
    const MemorySource cut(exact.data(), exact.size());  // asan sees a read past the end
    CHECK_FALSE(read_pe_note(cut, "cut", kPeX64).ok());
    (void)read_pe_imports(cut, "cut");
  }
  std::uint64_t state = 1;
  const auto random = [&] { return state = state * 6364136223846793005u + 1442695040888963407u, state >> 33; };
  std::vector<char> bytes(dll.bytes.begin(), dll.bytes.end());
  const std::size_t places[] = {0, Dll::kPe, Dll::kNote, Dll::kImports};
  for (int round = 0; round < 40000; ++round) {
    std::size_t at[4];
    const std::size_t flips = 1 + random() % 4;
    for (std::size_t i = 0; i < flips; ++i) {
      at[i] = places[random() % 4] + random() % 0x170;
      bytes[at[i]] = static_cast<char>(random());
    }
    const MemorySource source(bytes.data(), bytes.size());
    auto note = read_pe_note(source, "flipped", kPeX64);
    if (!note.ok()) CHECK_FALSE(note.status().message().empty());
    auto imports = read_pe_imports(source, "flipped");
    if (!imports.ok()) CHECK_FALSE(imports.status().message().empty());
    for (std::size_t i = 0; i < flips; ++i) bytes[at[i]] = dll.bytes[at[i]];
  }
}

}  // namespace
}  // namespace quarry::loader
