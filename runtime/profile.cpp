// SPDX-License-Identifier: Apache-2.0
#include "runtime/profile.h"

#include <algorithm>
#include <cinttypes>

#include "base/json_writer.h"
#include "runtime/plugin_text.h"
#include "runtime/runtime.h"

namespace quarry {
namespace {

qr_string to_c(const String *text) noexcept { return {text->data(), text->size()}; }

// A field of a CSV line, quoted where it must be.
void append_field(String &line, std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) {
    line.append(text);
    return;
  }
  line += '"';
  for (const char c : text) {
    if (c == '"') line += '"';
    line += c;
  }
  line += '"';
}

}  // namespace

ProfileLevel profile_level(std::string_view word) noexcept {
  if (word == "basic") return ProfileLevel::Basic;
  if (word == "detailed") return ProfileLevel::Detailed;
  return word == "optrace" ? ProfileLevel::All : ProfileLevel::Off;
}

void EventLog::add(const qr_plugin_event &event) noexcept {
  std::lock_guard lock(mutex_);
  try {
    const auto keep = [&](const qr_plugin_string &text) { return &*texts_.emplace(text_of(text)).first; };
    const Event made{keep(event.name), keep(event.kind), keep(event.op), keep(event.unit),
                     event.begin_ns,   event.end_ns,     event.value,    event.thread};
    // Kept in the order of their ends: workers report out of step by little.
    auto place = events_.end();
    while (place != events_.begin() && std::prev(place)->end_ns > made.end_ns) --place;
    events_.insert(place, made);
  } catch (const std::bad_alloc &) {
    ++lost_;
  }
}

void EventLog::clear() noexcept {
  std::lock_guard lock(mutex_);
  events_.clear();
  texts_.clear();
  lost_ = 0;
}

std::uint64_t EventLog::count() const noexcept {
  std::lock_guard lock(mutex_);
  return events_.size();
}

std::uint64_t EventLog::lost() const noexcept {
  std::lock_guard lock(mutex_);
  return lost_;
}

bool EventLog::at(std::uint64_t index, qr_profile_event &out) const noexcept {
  std::lock_guard lock(mutex_);
  if (index >= events_.size()) return false;
  const Event &event = events_[index];
  out = {to_c(event.name), to_c(event.kind), to_c(event.op), to_c(event.unit),
         event.begin_ns,   event.end_ns,     event.value,    event.thread};
  return true;
}

String EventLog::text(std::string_view format) const {
  std::lock_guard lock(mutex_);
  return format == "csv" ? csv() : chrome();
}

// The trace event format: complete events ("X"), times in microseconds from the first event on.
String EventLog::chrome() const {
  std::uint64_t origin = UINT64_MAX;
  for (const Event &event : events_) origin = std::min(origin, event.begin_ns);
  JsonWriter json;
  json.begin_object().field("displayTimeUnit", "ns").key("traceEvents").begin_array();
  for (const Event &event : events_) {
    json.begin_object().field("name", *event.name).field("cat", *event.kind).field("ph", "X");
    json.field("ts", static_cast<double>(event.begin_ns - origin) / 1e3);
    json.field("dur", static_cast<double>(event.end_ns - event.begin_ns) / 1e3);
    json.field("pid", 1).field("tid", event.thread).key("args").begin_object();
    if (!event.op->empty()) json.field("op", *event.op);
    if (!event.unit->empty()) json.field(*event.unit, event.value);
    json.end_object().end_object();
  }
  return json.end_array().end_object().take();
}

String EventLog::csv() const {
  String out = "name,kind,op,thread,begin_ns,end_ns,duration_ns,value,unit\n";
  for (const Event &event : events_) {
    append_field(out, *event.name);
    out += ',';
    append_field(out, *event.kind);
    out += ',';
    append_field(out, *event.op);
    out += format(",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",", event.thread, event.begin_ns, event.end_ns,
                  event.end_ns - event.begin_ns);
    if (!event.unit->empty()) out += format("%" PRIu64, event.value);
    out += ',';
    append_field(out, *event.unit);
    out += '\n';
  }
  return out;
}

void EventSink::attach(EventLog *log, ProfileLevel level) noexcept {
  if (log && level != ProfileLevel::Off) targets_[count_++] = {log, level};
}

void EventSink::add(const qr_plugin_event &event) noexcept {
  const std::string_view kind = text_of(event.kind);
  const ProfileLevel needed = kind == "run" || kind == "load"                      ? ProfileLevel::Basic
                              : kind == "node" || kind == "copy" || kind == "wait" ? ProfileLevel::Detailed
                                                                                   : ProfileLevel::All;
  qr_plugin_event sane = event;
  sane.end_ns = std::max(sane.end_ns, sane.begin_ns);
  for (int i = 0; i < count_; ++i)
    if (targets_[i].level >= needed) targets_[i].log->add(sane);
}

const qr_profile_sink *EventSink::plugin_sink() noexcept {
  const bool more =
      std::any_of(targets_, targets_ + count_, [](const Target &target) { return target.level > ProfileLevel::Basic; });
  if (!more) return nullptr;
  sink_ = {sizeof(qr_profile_sink), 0, this, [](void *self, const qr_plugin_event *event) {
             if (event) static_cast<EventSink *>(self)->add(*event);
           }};
  return &sink_;
}

Profile::Profile(Ref<Runtime> runtime) : runtime_(std::move(runtime)) {}
Profile::~Profile() = default;

}  // namespace quarry
