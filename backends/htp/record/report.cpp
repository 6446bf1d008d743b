// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/record/report.h"

#include <cstring>

#include "base/json_writer.h"

namespace quarry::record {

namespace {

void write_findings(JsonWriter &json, const char *key, const Vector<Finding> &list) {
  json.key(key).begin_array();
  for (const Finding &one : list) {
    json.begin_object();
    json.field("call", one.call).field("function", Replay::function_name(one.function)).field("what", one.what);
    json.end_object();
  }
  json.end_array();
}

// What the library said, from a Line's content: a size with its NUL, and the text.
String line_of(const Reader::Entry &entry) {
  std::uint64_t size = 0;
  if (entry.content.size < sizeof size) return {};
  std::memcpy(&size, entry.content.data, sizeof size);
  if (size == 0 || size - 1 > entry.content.size - sizeof size) return {};
  return printable(
      {reinterpret_cast<const char *>(entry.content.data) + sizeof size, static_cast<std::size_t>(size - 1)}, 1000);
}

void write_calls(JsonWriter &json, const Reader &reader) {
  HashMap<std::uint64_t, const Reader::Entry *> returns;
  for (const Reader::Entry &entry : reader.entries())
    if (entry.kind == EntryKind::Return) returns[entry.head.call] = &entry;
  json.key("list").begin_array();
  for (const Reader::Entry &entry : reader.entries()) {
    if (entry.kind == EntryKind::Return) continue;
    json.begin_object();
    json.field("call", entry.head.call).field("thread", entry.head.thread).field("at_ns", entry.head.time_ns);
    if (entry.kind == EntryKind::Line) {
      json.field("level", entry.head.level).field("line", line_of(entry));
    } else {
      json.field("function", Replay::function_name(entry.head.function));
      const auto found = returns.find(entry.head.call);
      if (entry.kind == EntryKind::Notice) json.field("reported", entry.head.code);
      else if (found == returns.end()) json.key("returned").null();
      else {
        json.field("returned", found->second->head.code);
        const std::uint64_t begun = entry.head.time_ns, ended = found->second->head.time_ns;
        json.field("took_ns", ended > begun ? ended - begun : 0);
      }
    }
    json.end_object();
  }
  json.end_array();
}

}  // namespace

String report_json(std::string_view path, const Reader &reader, const Outcome &outcome, const qnn::Library *library,
                   bool lists) {
  std::uint64_t calls = 0;
  HashSet<std::uint32_t> threads;
  for (const Reader::Entry &entry : reader.entries())
    if (entry.kind == EntryKind::Call) ++calls, threads.insert(entry.head.thread);
  const Head &head = reader.head();
  JsonWriter json;
  json.begin_object();
  json.field("record", path);
  json.key("recorded").begin_object();
  json.field("quarry", printable(head.quarry)).field("build", printable(head.build));
  json.field("core", format("%u.%u.%u", head.core[0], head.core[1], head.core[2]));
  json.field("htp", format("%u.%u.%u", head.backend[0], head.backend[1], head.backend[2]));
  json.field("begun_s", head.begun_s).field("weights", reader.keeps_weights());
  json.field("left_out_bytes", reader.left_out()).field("calls", calls).field("threads", threads.size());
  json.field("lines", outcome.line_count).field("cut_at", reader.cut_at());
  json.key("unfinished");
  if (outcome.unfinished == 0) json.null();
  else json.value(outcome.unfinished);
  json.end_object();
  json.key("replayed");
  if (!library) {
    json.null();
  } else {
    json.begin_object();
    json.field("library", library->describe()).field("path", printable(library->path(), 1000));
    json.field("calls", outcome.made).field("failed_alike", outcome.refused).field("runs", outcome.runs);
    json.field("outputs", outcome.outputs).field("output_bytes", outcome.output_bytes);
    json.field("binaries", outcome.binaries).field("other_binaries", outcome.other_binaries);
    json.end_object();
  }
  json.field("differing", outcome.differing);
  write_findings(json, "differences", outcome.differences);
  write_findings(json, "failed_alike", outcome.errors);
  json.field("left_out", outcome.left_out);
  write_findings(json, "skipped", outcome.skipped);
  if (lists) write_calls(json, reader);
  json.end_object();
  return json.take();
}

}  // namespace quarry::record
