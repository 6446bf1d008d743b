// SPDX-License-Identifier: Apache-2.0
#include "loader/plugin_note.h"

#include <cstring>

#include "base/checked.h"
#include "base/os/file.h"

namespace quarry::loader {
namespace {

// A char[32] of the note: NUL-padded printable ASCII. False when it is not.
bool fixed_text(const char (&field)[32], String *out) {
  const std::size_t length = strnlen(field, sizeof field);
  if (length == sizeof field) return false;
  for (std::size_t i = 0; i < sizeof field; ++i)
    if (i < length ? field[i] < 0x21 || field[i] > 0x7e : field[i] != 0) return false;
  out->assign(field, length);
  return true;
}

}  // namespace

Status note_error(ErrorId id, std::string_view name, const String &what) {
  return Status::errorf(id, "%s: %s", printable(name, 1024), what);
}

Status no_note(std::string_view name) {
  return note_error(ErrorId::plugin_no_note, name,
                    "found no note of owner \"Quarry\", expected one: this is no Quarry plugin");
}

Status parse_note(const unsigned char *bytes, std::uint64_t size, std::string_view name, PluginNote *out) {
  qr_plugin_note note;
  if (size < sizeof note)
    return note_error(ErrorId::plugin_bad_note, name,
                      format("plugin note: found %llu bytes, expected at least %zu", size, sizeof note));
  std::memcpy(&note, bytes, sizeof note);
  if (note.magic != QR_PLUGIN_NOTE_MAGIC)
    return note_error(ErrorId::plugin_bad_note, name,
                      format("plugin note: found magic 0x%08x, expected 0x%08x", note.magic, QR_PLUGIN_NOTE_MAGIC));
  if (note.size < sizeof note || note.size > size)
    return note_error(ErrorId::plugin_bad_note, name,
                      format("plugin note: found size field %u, expected %zu to %llu", note.size, sizeof note, size));
  const struct {
    const char *field;
    const char (&text)[32];
    String *out;
  } texts[] = {
      {"id", note.id, &out->id}, {"version", note.version, &out->version}, {"target", note.target, &out->target}};
  for (const auto &[field, text, to] : texts)
    if (!fixed_text(text, to))
      return note_error(ErrorId::plugin_bad_note, name,
                        format("plugin note: found %s \"%s\", expected NUL-padded printable ASCII", field,
                               printable({text, strnlen(text, sizeof text)})));
  out->abi_major = note.abi_major;
  out->abi_minor = note.abi_minor;
  out->abi_minor_min = note.abi_minor_min;
  out->blob_version = note.blob_version;
  out->flavour = note.flavour;
  out->present = true;
  return {};
}

Status parse_note_section(std::span<const unsigned char> bytes, std::string_view name, PluginNote *out) {
  constexpr std::uint64_t kBefore = offsetof(qr_plugin_note_section, note);
  if (bytes.size() < kBefore) return {};
  qr_plugin_note_section head = {};
  std::memcpy(&head, bytes.data(), kBefore);
  if (head.namesz != sizeof QR_PLUGIN_NOTE_NAME || head.type != QR_PLUGIN_NOTE_TYPE ||
      std::memcmp(head.name, QR_PLUGIN_NOTE_NAME, sizeof QR_PLUGIN_NOTE_NAME) != 0)
    return {};
  if (!range_fits(kBefore, head.descsz, bytes.size()))
    return note_error(ErrorId::plugin_bad_note, name,
                      format("plugin note: found %u bytes at offset %llu of a section of %zu bytes, expected them "
                             "inside it",
                             head.descsz, kBefore, bytes.size()));
  return parse_note(bytes.data() + kBefore, head.descsz, name, out);
}

bool MemorySource::read(std::uint64_t offset, void *out, std::size_t size) const noexcept {
  if (!range_fits(offset, size, size_)) return false;
  if (size) std::memcpy(out, data_ + offset, size);
  return true;
}

bool FileSource::read(std::uint64_t offset, void *out, std::size_t size) const noexcept {
  return range_fits(offset, size, size_) && os::read_at(fd_, out, size, offset) == 0;
}

}  // namespace quarry::loader
