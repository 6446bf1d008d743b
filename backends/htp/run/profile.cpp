// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/run/profile.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "backends/common/plugin_support.h"
#include "base/clock.h"
#include "base/new_file.h"

namespace quarry::htp {

using plugin::text;

namespace {

// Levels and options of the library.
constexpr std::uint32_t kBasic = 1, kDetailed = 2, kLinting = 7001, kOptrace = 2;
// Of these the parts are nodes; an event of a node.
constexpr std::uint32_t kNode = 404, kMicroseconds = 1, kCycles = 3, kObject = 5;
// Facts of a node at the level of linting: how long the main thread waited before it, and by what it ran, in bits.
constexpr std::uint32_t kWait = 5001, kResources = 5004;

const char *unit_name(std::uint32_t unit) {
  static constexpr const char *kUnits[] = {"", "us", "bytes", "cycles", "count", "object", ""};
  return unit < std::size(kUnits) ? kUnits[unit] : "";
}

String resources_of(std::uint64_t bits) {
  String named;
  for (const auto &[bit, name] : {std::pair{1u, "HVX"}, {2u, "HMX"}, {4u, "DMA"}})
    if (bits & bit) named += String(named.empty() ? "" : ", ") + name;
  return named.empty() ? String("none") : named;
}

// "conv_1:OpId_21 (cycles)" is node "conv_1", "Input OpId_2 (cycles)" none of the model's.
struct PartName {
  explicit PartName(std::string_view ident) : name(ident) {
    if (const std::size_t at = name.rfind(" (cycles)"); at != name.npos) name = name.substr(0, at);
    if (const std::size_t at = name.rfind(":OpId_"); at != name.npos) {
      op_id = name.substr(at + 1);
      name = name.substr(0, at);
    }
  }
  std::string_view name, op_id;
};

}  // namespace

ProfiledCall::ProfiledCall(const Engine &engine, const qr_profile_sink *sink, bool traces, std::string_view folder)
    : engine_(engine), sink_(sink), folder_(folder) {
  if (!sink) return;
  const qnn::Api &api = engine.api();
  if (!api.profileCreate || !api.profileFree || !api.profileGetEvents || !api.profileGetEventData) return;
  const std::uint32_t level = traces                                      ? kDetailed
                              : sink->level >= QR_PLUGIN_PROFILE_LINTING  ? kLinting
                              : sink->level == QR_PLUGIN_PROFILE_DETAILED ? kDetailed
                                                                          : kBasic;
  error_ = api.profileCreate(engine.backend(), level, &handle_);
  if (error_) {
    handle_ = nullptr;
    return;
  }
  if (traces && api.profileSetConfig) {
    qnn::ProfileConfig config{};
    config.option = kOptrace, config.optrace = 1;
    const qnn::ProfileConfig *list[] = {&config, nullptr};
    error_ = api.profileSetConfig(handle_, list);
  }
  begin_ns_ = now_ns();
}

ProfiledCall::~ProfiledCall() {
  if (handle_) (void)engine_.api().profileFree(handle_);
}

Vector<std::uint64_t> ProfiledCall::parts_of(std::uint64_t id) const {
  const std::uint64_t *ids = nullptr;
  std::uint32_t count = 0;
  const qnn::Api &api = engine_.api();
  if (!api.profileGetSubEvents || api.profileGetSubEvents(id, &ids, &count) != qnn::kOk) return {};
  return Vector<std::uint64_t>(ids, ids + count);
}

// Operations that ran meanwhile, by name.
String ProfiledCall::names_of(const Vector<std::uint64_t> &events) const {
  String names;
  for (const std::uint64_t id : events) {
    qnn::EventData data{};
    if (engine_.api().profileGetEventData(id, &data) != qnn::kOk || !data.ident) continue;
    names += (names.empty() ? "" : ", ") + printable(data.ident);
  }
  return names;
}

// Parts have durations and no begins: they are laid one after the other, from `at` on.
void ProfiledCall::report_part(std::uint64_t id, std::uint64_t parent, const Vector<BlobNode> *nodes,
                               std::uint64_t &at) {
  qnn::EventData data{};
  if (engine_.api().profileGetEventData(id, &data) != qnn::kOk) return;
  const PartName part(data.ident ? data.ident : "");
  const bool is_node = data.type == kNode;
  Vector<qr_plugin_counter> counters;
  Vector<qr_plugin_attribute> attributes;
  if (!part.op_id.empty()) attributes.push_back({text("op_id"), text(part.op_id)});
  Vector<std::pair<String, String>> facts;  // what attributes point to
  std::uint64_t wait = 0;
  for (const std::uint64_t fact : parts_of(id)) {
    qnn::EventData more{};
    if (engine_.api().profileGetEventData(fact, &more) != qnn::kOk || !more.ident) continue;
    if (more.type == kResources) {
      facts.emplace_back("resources", resources_of(more.value));
      continue;
    }
    if (more.type == kWait) wait = more.value;
    counters.push_back({text(more.ident), text(unit_name(more.unit)), more.value});
    if (String names = names_of(parts_of(fact)); !names.empty())
      facts.emplace_back(String(more.ident) + " with", std::move(names));
  }
  for (const auto &[key, value] : facts) attributes.push_back({text(key), text(value)});
  // The main thread's line: it waits, then it works.
  if (data.unit == kCycles) at += wait;
  qr_plugin_event event{};
  event.struct_size = sizeof event;
  event.level = QR_PLUGIN_PROFILE_DETAILED;
  event.id = ++last_id_, event.parent = parent;
  event.clock = data.unit == kCycles         ? QR_PLUGIN_CLOCK_DEVICE_CYCLES
                : data.unit == kMicroseconds ? QR_PLUGIN_CLOCK_DEVICE_NS
                                             : QR_PLUGIN_CLOCK_NONE;
  event.begin = at;
  at = event.end = at + data.value * (data.unit == kMicroseconds ? 1000 : 1);
  event.node = -1;
  event.name = text(part.name), event.kind = text(is_node ? "node" : "phase");
  if (is_node && nodes) {
    const auto found =
        std::find_if(nodes->begin(), nodes->end(), [&](const BlobNode &n) { return n.name == part.name; });
    if (found != nodes->end()) {
      event.node = found - nodes->begin();
      event.op = text(found->text);
    }
  }
  event.counters = counters.data(), event.counter_count = counters.size();
  event.attributes = attributes.data(), event.attribute_count = attributes.size();
  sink_->event(sink_->self, &event);
}

// What a device traces is bytes for readers of Qualcomm's, not a number. Says where they are, or why not.
String ProfiledCall::keep_object(std::uint64_t id, std::string_view call) const {
  static std::atomic<std::uint32_t> count{0};
  const qnn::Api &api = engine_.api();
  qnn::ExtEventData data{};
  data.version = 1;
  if (!api.profileGetExtendedEventData) return "the library has no profileGetExtendedEventData";
  if (const qnn::Error error = api.profileGetExtendedEventData(id, &data)) return qnn::error_text(error);
  if (!data.opaque.data) return "no bytes";
  if (folder_.empty()) return format("%llu bytes; htp.optrace_dir keeps them", data.opaque.len);
  const String path = format("%s/%s-%u.bin", folder_, String(call), ++count);
  const Status written =
      write_file(path, {static_cast<const char *>(data.opaque.data), static_cast<std::size_t>(data.opaque.len)},
                 "htp.optrace_dir");
  return written.ok() ? path : String(written.message());
}

void ProfiledCall::tell(std::string_view call, const Vector<BlobNode> *nodes, std::string_view trace) {
  if (!handle_) return;
  const qnn::Api &api = engine_.api();
  const std::uint64_t end_ns = now_ns();
  const std::uint64_t *ids = nullptr;
  std::uint32_t count = 0;
  if (api.profileGetEvents(handle_, &ids, &count) != qnn::kOk) return;
  const Vector<std::uint64_t> events(ids, ids + count);
  const std::uint64_t whole = ++last_id_;
  Vector<qr_plugin_counter> counters;
  Vector<std::pair<String, String>> objects;
  std::uint64_t at = 0;
  for (const std::uint64_t id : events) {
    qnn::EventData data{};
    if (api.profileGetEventData(id, &data) != qnn::kOk || !data.ident) continue;
    if (data.unit == kObject) {
      objects.emplace_back(data.ident, keep_object(id, call));
      continue;
    }
    counters.push_back({text(data.ident), text(unit_name(data.unit)), data.value});
    if (sink_->level < QR_PLUGIN_PROFILE_DETAILED) continue;
    for (const std::uint64_t part : parts_of(id)) report_part(part, whole, nodes, at);
  }
  qr_plugin_event event{};
  event.struct_size = sizeof event;
  event.level = QR_PLUGIN_PROFILE_BASIC;
  event.id = whole;
  event.clock = QR_PLUGIN_CLOCK_HOST;
  event.begin = begin_ns_, event.end = end_ns;
  event.node = -1;
  event.name = text(call), event.kind = text("phase");
  event.counters = counters.data(), event.counter_count = counters.size();
  Vector<qr_plugin_attribute> attributes;
  if (!trace.empty()) attributes.push_back({text("optrace"), text(trace)});
  for (const auto &[name, where] : objects) attributes.push_back({text(name), text(where)});
  event.attributes = attributes.data(), event.attribute_count = attributes.size();
  sink_->event(sink_->self, &event);
}

}  // namespace quarry::htp
