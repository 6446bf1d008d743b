// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/run/sections.h"

#include "backends/htp/program/metadata.h"
#include "backends/htp/qnn/log.h"
#include "backends/htp/settings/file_bytes.h"

namespace quarry::htp {

namespace {

constexpr char kOption[] = "htp.lora_sections";
// A section holds weights of one context, whose device has 32-bit addresses.
constexpr std::size_t kMostBytes = std::size_t{3} << 30;

// What a file is that is no section; nullptr: nothing says that it is none.
const char *other_kind(std::span<const std::uint8_t> bytes) {
  if (bytes.empty()) return "an empty file";
  if (is_raw_binary(bytes)) return "a context binary";
  // The header of safetensors: its length, and JSON.
  if (bytes.size() > 9 && bytes[7] == 0 && bytes[8] == '{') return "an adapter as safetensors";
  return nullptr;
}

}  // namespace

Result<Vector<Section>> read_section_list(std::string_view path) {
  constexpr std::size_t kMost = 64 << 10;
  QR_ASSIGN_OR_RETURN(const Vector<std::uint8_t> bytes,
                      read_file_bytes(kOption, path, "a text file of lines GRAPH;PATH", kMost));
  std::string_view text(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  Vector<Section> sections;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    while (line.ends_with('\r') || line.ends_with(' ')) line.remove_suffix(1);
    if (line.empty()) continue;
    const std::size_t middle = line.find(';');
    if (middle == line.npos || middle == 0 || middle + 1 == line.size() || line.find('\0') != line.npos)
      return Status::error(ErrorId::bad_option_value, format("option %s, %s: found '%s', expected lines GRAPH;PATH",
                                                             kOption, printable(path, 1000), printable(line)));
    sections.push_back({String(line.substr(0, middle)), String(line.substr(middle + 1))});
  }
  if (sections.empty())
    return Status::error(ErrorId::bad_option_value, format("option %s, %s: found no line, expected lines GRAPH;PATH",
                                                           kOption, printable(path, 1000)));
  return sections;
}

Status apply_section(const Engine &engine, qnn::Handle context, qnn::Handle graph, const Section &section) {
  QR_ASSIGN_OR_RETURN(Vector<std::uint8_t> bytes,
                      read_file_bytes(kOption, section.path, "a binary section of this context", kMostBytes));
  if (const char *const other = other_kind(bytes))
    return Status::error(ErrorId::bad_option_value,
                         format("option %s: found %s, %s, expected a binary section of this context, as Qualcomm's "
                                "tools write it",
                                kOption, printable(section.path, 1000), other),
                         "adapters as safetensors or ONNX go by qnn.lora_config");
  const qnn::Api &api = engine.api();
  if (!api.contextApplyBinarySection) return qnn::slot_missing(engine.library(), "contextApplyBinarySection", kOption);
  qnn::CtxBuffer buffer{};
  buffer.version = 1;
  buffer.raw = {bytes.data(), bytes.size()};
  qnn::LogLines lines;
  if (const qnn::Error error = api.contextApplyBinarySection(
          context, graph, static_cast<std::uint32_t>(qnn::Section::Updatable), &buffer, nullptr, nullptr))
    return qnn::call_failed(
        format("contextApplyBinarySection of %s to graph %s", printable(section.path, 1000), printable(section.graph)),
        error, &lines,
        "apply sections that were made for this very context, on a device: the "
        "emulator applies none");
  return {};
}

}  // namespace quarry::htp
