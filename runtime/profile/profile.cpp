// SPDX-License-Identifier: Apache-2.0
#include "runtime/profile/profile.h"

#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <tuple>

#include "base/json_writer.h"
#include "base/os/tracing.h"
#include "base/small_sort.h"
#include "loader/host.h"
#include "runtime/core/plugin_text.h"
#include "runtime/core/runtime.h"

namespace quarry {
namespace {

constexpr const char *kEvents = "the events of a profile";

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
  if (word == "linting") return ProfileLevel::Linting;
  return word == "optrace" ? ProfileLevel::Trace : ProfileLevel::Off;
}

// ---- keeping ------------------------------------------------------------------------------------

void EventLog::add(std::uint64_t call, const qr_plugin_event &event, std::uint64_t part_of) noexcept {
  if (os::is_traced(5, os::TraceKeyword::Profile))
    os::trace("Profile", 5, os::TraceKeyword::Profile,
              {{"Name", text_of(event.name)},
               {"Kind", text_of(event.kind)},
               {"Op", text_of(event.op)},
               {"Begin", event.begin},
               {"End", event.end},
               {"Call", call}});
  const ProcessLock lock(mutex_);
  if (!lock.held()) return lose(1);
  const std::size_t counters = counters_.size(), attributes = attributes_.size();
  if (events_.size() >= kMostEvents || text_bytes_ >= kMostText ||
      counters + attributes + event.counter_count + event.attribute_count > kMostDetails)
    return lose(1);
  try {
    const auto keep = [&](const qr_plugin_string &text) {
      const auto [at, added] = texts_.emplace(text_of(text));
      if (added) text_bytes_ += at->size();
      return &*at;
    };
    Event made{};
    made.name = keep(event.name), made.kind = keep(event.kind), made.op = keep(event.op);
    made.id = call << 32 | event.id;
    made.parent = event.id == 0 ? part_of << 32 : call << 32 | event.parent;
    made.level = event.level, made.clock = event.clock, made.thread = event.thread;
    made.begin = event.begin, made.end = std::max(event.begin, event.end);
    made.node = event.node;
    made.first_counter = counters, made.counter_count = event.counter_count;
    for (std::uint64_t i = 0; i < event.counter_count; ++i) {
      const qr_plugin_counter &counter = event.counters[i];
      counters_.push_back({to_c(keep(counter.name)), to_c(keep(counter.unit)), counter.value});
    }
    made.first_attribute = attributes, made.attribute_count = event.attribute_count;
    for (std::uint64_t i = 0; i < event.attribute_count; ++i)
      attributes_.push_back({to_c(keep(event.attributes[i].key)), to_c(keep(event.attributes[i].value))});
    events_.push_back(made);
    order_.clear();
  } catch (const std::bad_alloc &) {
    counters_.resize(counters), attributes_.resize(attributes);
    lose(1);
  }
}

void EventLog::clear() noexcept {
  const ProcessLock lock(mutex_);
  if (!lock.held()) return;
  events_.clear(), order_.clear(), counters_.clear(), attributes_.clear(), texts_.clear();
  text_bytes_ = 0;
  lost_.store(0, std::memory_order_relaxed);
}

std::uint64_t EventLog::count() const noexcept {
  const ProcessLock lock(mutex_);
  return lock.held() ? events_.size() : 0;
}

// ---- telling ------------------------------------------------------------------------------------

// Each event behind the one that it is a part of, siblings by their begins. An event whose parent never came is a part
// of its call.
void EventLog::arrange() const {
  if (order_.size() == events_.size()) return;
  const std::size_t count = events_.size();
  Vector<std::pair<std::uint64_t, std::uint32_t>> by_id(count);
  for (std::uint32_t i = 0; i < count; ++i) by_id[i] = {events_[i].id, i};
  small_sort(by_id);
  const auto find = [&](std::uint64_t id) -> std::int64_t {
    const auto at = std::lower_bound(by_id.begin(), by_id.end(), std::pair<std::uint64_t, std::uint32_t>{id, 0});
    return at != by_id.end() && at->first == id ? at->second : -1;
  };
  struct Link {
    std::int64_t parent;
    std::uint64_t begin;
    std::uint32_t event;
  };
  Vector<Link> links(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    const Event &event = events_[i];
    std::int64_t parent = event.parent ? find(event.parent) : -1;
    if (parent < 0 && event.parent) parent = find(event.id >> 32 << 32);
    if (parent == i) parent = -1;
    links[i] = {parent, event.begin, i};
  }
  small_sort(links, [](const Link &a, const Link &b) {
    return std::tie(a.parent, a.begin, a.event) < std::tie(b.parent, b.begin, b.event);
  });
  const auto children = [&](std::int64_t parent) {
    return std::lower_bound(links.begin(), links.end(), parent,
                            [](const Link &link, std::int64_t wanted) { return link.parent < wanted; }) -
           links.begin();
  };
  Vector<std::uint32_t> order;
  order.reserve(count);
  Vector<std::uint8_t> told(count);
  Vector<std::ptrdiff_t> open{children(-1)};  // the next link of each level
  while (!open.empty()) {
    const auto next = index_of(open.back());
    const std::int64_t parent =
        open.size() == 1 ? -1 : static_cast<std::int64_t>(links[index_of(open[open.size() - 2] - 1)].event);
    if (next >= count || links[next].parent != parent) {
      open.pop_back();
      continue;
    }
    ++open.back();
    order.push_back(links[next].event);
    told[links[next].event] = 1;
    open.push_back(children(links[next].event));
  }
  for (std::uint32_t i = 0; i < count; ++i)  // events that are parts of each other: the backend's mistake
    if (!told[i]) order.push_back(i);
  order_ = std::move(order);
}

qr_profile_event EventLog::told(const Event &event) const noexcept {
  qr_profile_event out = QR_PROFILE_EVENT_INIT;
  out.level = event.level;
  out.id = event.id;
  out.parent = event.parent;
  out.clock = event.clock;
  out.thread = event.thread;
  out.begin = event.begin;
  out.end = event.end;
  out.node = event.node;
  out.name = to_c(event.name);
  out.kind = to_c(event.kind);
  out.op = to_c(event.op);
  out.counters = counters_.data() + event.first_counter;
  out.counter_count = event.counter_count;
  out.attributes = attributes_.data() + event.first_attribute;
  out.attribute_count = event.attribute_count;
  return out;
}

Result<bool> EventLog::at(std::uint64_t index, qr_profile_event &out) const {
  const ProcessLock lock(mutex_);
  QR_RETURN_IF_ERROR(lock.status(kEvents));
  if (index >= events_.size()) return false;
  arrange();
  out = told(events_[order_[index]]);
  return true;
}

Result<String> EventLog::text(std::string_view format) const {
  const ProcessLock lock(mutex_);
  QR_RETURN_IF_ERROR(lock.status(kEvents));
  arrange();
  return format == "csv" ? csv() : chrome();
}

namespace {

constexpr const char *kClocks[] = {"host", "device_ns", "device_cycles", "none"};
const char *clock_name(std::uint32_t clock) noexcept { return clock < std::size(kClocks) ? kClocks[clock] : "unknown"; }

}  // namespace

// The trace event format: complete events ("X"), times in microseconds. Each clock is a process of its own, from its
// first event on; cycles stand as if they were nanoseconds. What has no times is an argument of its parent's row.
String EventLog::chrome() const {
  std::uint64_t origin[std::size(kClocks)];
  std::fill(std::begin(origin), std::end(origin), UINT64_MAX);
  for (const Event &event : events_)
    if (event.clock < std::size(kClocks)) origin[event.clock] = std::min(origin[event.clock], event.begin);
  JsonWriter json;
  json.begin_object().field("displayTimeUnit", "ns").key("otherData").begin_object();
  json.field("lost_events", lost()).end_object().key("traceEvents").begin_array();
  for (std::uint32_t clock = 0; clock < std::size(kClocks); ++clock) {
    if (origin[clock] == UINT64_MAX) continue;
    json.begin_object().field("name", "process_name").field("ph", "M").field("pid", clock + 1).key("args");
    json.begin_object().field("name", clock_name(clock)).end_object().end_object();
  }
  for (const std::uint32_t index : order_) {
    const Event &event = events_[index];
    const bool timed = event.clock < QR_CLOCK_NONE;
    json.begin_object().field("name", *event.name).field("cat", *event.kind).field("ph", timed ? "X" : "i");
    json.field("ts", timed ? static_cast<double>(event.begin - origin[event.clock]) / 1e3 : 0.0);
    if (timed) json.field("dur", static_cast<double>(event.end - event.begin) / 1e3);
    json.field("pid", event.clock + 1).field("tid", event.thread).key("args").begin_object();
    if (!event.op->empty()) json.field("op", *event.op);
    if (event.node >= 0) json.field("node", event.node);
    for (std::size_t i = 0; i < event.counter_count; ++i) {
      const qr_profile_counter &counter = counters_[event.first_counter + i];
      String key(text_of(counter.name));
      if (counter.unit.size) key.append(" (").append(text_of(counter.unit)).append(")");
      json.field(key, counter.value);
    }
    for (std::size_t i = 0; i < event.attribute_count; ++i) {
      const qr_profile_attribute &attribute = attributes_[event.first_attribute + i];
      json.field(text_of(attribute.key), text_of(attribute.value));
    }
    json.end_object().end_object();
  }
  return json.end_array().end_object().take();
}

String EventLog::csv() const {
  String out = "id,parent,level,name,kind,op,node,thread,clock,begin,end,duration,counters,attributes\n";
  for (const std::uint32_t index : order_) {
    const Event &event = events_[index];
    out += format("%" PRIu64 ",%" PRIu64 ",%u,", event.id, event.parent, event.level);
    for (const String *text : {event.name, event.kind, event.op}) {
      append_field(out, *text);
      out += ',';
    }
    if (event.node >= 0) out += format("%" PRId64, event.node);
    out += format(",%u,%s,", event.thread, clock_name(event.clock));
    if (event.clock < QR_CLOCK_NONE)
      out += format("%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",", event.begin, event.end, event.end - event.begin);
    else out += ",,,";
    String field;
    for (std::size_t i = 0; i < event.counter_count; ++i) {
      const qr_profile_counter &counter = counters_[event.first_counter + i];
      field.append(field.empty() ? "" : "; ").append(text_of(counter.name)).append(format("=%" PRIu64, counter.value));
      if (counter.unit.size) field.append(" ").append(text_of(counter.unit));
    }
    append_field(out, field);
    out += ',';
    field.clear();
    for (std::size_t i = 0; i < event.attribute_count; ++i) {
      const qr_profile_attribute &attribute = attributes_[event.first_attribute + i];
      field.append(field.empty() ? "" : "; ")
          .append(text_of(attribute.key))
          .append("=")
          .append(text_of(attribute.value));
    }
    append_field(out, field);
    out += '\n';
  }
  if (lost()) out += format("# %" PRIu64 " events were lost\n", lost());
  return out;
}

// ---- taking from plugins ------------------------------------------------------------------------

void EventSink::attach(EventLog *log, ProfileLevel level) noexcept {
  if (log && level != ProfileLevel::Off) targets_[count_++] = {log, level, log->begin_call(), 0};
}

void EventSink::attach_part_of(const EventSink &whole) noexcept {
  count_ = whole.count_;
  for (int i = 0; i < count_; ++i) {
    const Target &target = whole.targets_[i];
    targets_[i] = {target.log, target.level, target.log->begin_call(), target.call};
  }
}

void EventSink::add(const qr_plugin_event &event) noexcept {
  for (int i = 0; i < count_; ++i)
    if (event.level <= static_cast<std::uint32_t>(targets_[i].level))
      targets_[i].log->add(targets_[i].call, event, targets_[i].part_of);
}

void EventSink::add_call(std::string_view name, std::string_view kind, std::uint64_t begin_ns, std::uint64_t end_ns,
                         std::string_view graph) noexcept {
  qr_plugin_event event = {};
  event.struct_size = sizeof event;
  event.level = QR_PLUGIN_PROFILE_BASIC;
  event.clock = QR_PLUGIN_CLOCK_HOST;
  event.begin = begin_ns;
  event.end = end_ns;
  event.node = -1;
  event.name = plugin_string(name);
  event.kind = plugin_string(kind);
  const qr_plugin_attribute about{plugin_string("graph"), plugin_string(graph)};
  event.attributes = &about;
  event.attribute_count = graph.empty() ? 0 : 1;
  add(event);
}

void EventSink::take(const qr_plugin_event *from) noexcept {
  // What an older plugin does not have is zero; an id that is none of the plugin's, or counters without data, are its
  // mistake: such an event is lost.
  qr_plugin_event event = {};
  if (from && from->struct_size >= QR_PLUGIN_EVENT_FIRST_SIZE)
    std::memcpy(&event, from, std::min<std::size_t>(from->struct_size, sizeof event));
  constexpr std::uint64_t kMost = 1024;  // of counters or attributes
  const bool sound = event.id > 0 && event.id <= UINT32_MAX && event.parent <= UINT32_MAX &&
                     event.counter_count <= kMost && event.attribute_count <= kMost &&
                     (event.counters || !event.counter_count) && (event.attributes || !event.attribute_count);
  if (sound) add(event);
  else lose(1);
}

void EventSink::lose(std::uint64_t count) noexcept {
  for (int i = 0; i < count_; ++i) targets_[i].log->lose(count);
}

const qr_profile_sink *EventSink::plugin_sink() noexcept {
  if (count_ == 0) return nullptr;
  std::uint32_t level = 0;
  for (int i = 0; i < count_; ++i) level = std::max(level, static_cast<std::uint32_t>(targets_[i].level));
  sink_ = {sizeof(qr_profile_sink), level, this,
           [](void *self, const qr_plugin_event *from) { static_cast<EventSink *>(self)->take(from); },
           [](void *self, std::uint64_t count) { static_cast<EventSink *>(self)->lose(count); }};
  return &sink_;
}

// ---- calls that compile or load -----------------------------------------------------------------

void CallEvents::begin() noexcept {
  if (!log_) return;
  sink_.emplace().attach(log_, ProfileLevel::Trace);
  begin_ns_ = loader::monotonic_ns();
}

void CallEvents::end() noexcept {
  if (sink_) sink_->add_call(name_, name_, begin_ns_, loader::monotonic_ns());
}

void CallEvents::next(const char *name) noexcept {
  end();
  name_ = name;
  begin();
}

CallEvents::Phase::Phase(const CallEvents &call, const char *name, std::string_view graph) noexcept
    : name_(name), graph_(graph) {
  if (!call.sink_) return;
  sink_.attach_part_of(*call.sink_);
  begin_ns_ = loader::monotonic_ns();
}

CallEvents::Phase::~Phase() {
  if (sink_.wanted()) sink_.add_call(name_, "phase", begin_ns_, loader::monotonic_ns(), graph_);
}

Profile::Profile(Ref<Runtime> runtime) : runtime_(std::move(runtime)), log_(runtime_->process()) {}
Profile::~Profile() = default;

}  // namespace quarry
