// SPDX-License-Identifier: Apache-2.0
// Profiles with the events that the real library gives, by their types, names and units.
#include <deque>

#include "tests/plugins/qnn/objects.h"
#include "tests/plugins/qnn/script.h"

namespace standin {
namespace {

std::mutex g_mutex;
std::deque<Event> g_events;  // ids are places from 1

std::uint64_t add(std::uint32_t type, std::uint32_t unit, std::uint64_t value, const std::string &name) {
  const std::lock_guard lock(g_mutex);
  Event &event = g_events.emplace_back();
  event.ident = name;
  event.data = {type, unit, value, nullptr};
  event.data.ident = event.ident.c_str();
  return g_events.size();
}
Event &at(std::uint64_t id) { return g_events[id - 1]; }

Error create(qnn::Handle, std::uint32_t level, qnn::Handle *out) {
  record("profileCreate level=%u", level);
  if (const Error error = meet("profileCreate")) return error;
  Profile *const made = new Profile;
  made->level = level;
  *out = made;
  return 0;
}
Error set_config(qnn::Handle handle, const qnn::ProfileConfig **list) {
  for (; list && *list; ++list) {
    record("profileSetConfig %u=%llu", (*list)->option, static_cast<unsigned long long>((*list)->max_events));
    if ((*list)->option == 2) static_cast<Profile *>(handle)->optrace = (*list)->optrace != 0;
  }
  return meet("profileSetConfig");
}
Error get_events(qnn::Handle handle, const std::uint64_t **ids, std::uint32_t *count) {
  Profile &profile = *static_cast<Profile *>(handle);
  *ids = profile.roots.data(), *count = static_cast<std::uint32_t>(profile.roots.size());
  return 0;
}
Error get_sub_events(std::uint64_t id, const std::uint64_t **ids, std::uint32_t *count) {
  const std::lock_guard lock(g_mutex);
  *ids = at(id).parts.data(), *count = static_cast<std::uint32_t>(at(id).parts.size());
  return 0;
}
Error get_data(std::uint64_t id, qnn::EventData *out) {
  const std::lock_guard lock(g_mutex);
  *out = at(id).data;
  return 0;
}
Error get_extended(std::uint64_t id, qnn::ExtEventData *out) {
  record("profileGetExtendedEventData version=%u", out->version);
  if (const Error error = meet("profileGetExtendedEventData")) return error;
  static char trace[] = "a trace";
  const std::lock_guard lock(g_mutex);
  out->type = at(id).data.type, out->unit = at(id).data.unit, out->ident = at(id).data.ident;
  out->opaque = {trace, sizeof trace - 1, nullptr};
  return 0;
}
Error free_profile(qnn::Handle handle) {
  delete static_cast<Profile *>(handle);
  return 0;
}

}  // namespace

void fill_events(Profile &profile, const Graph &graph) {
  profile.roots.clear();
  profile.roots.push_back(add(8001, 4, 4, "Number of HVX threads used"));
  if (profile.level != 1) {
    profile.roots.push_back(add(3009, 4, 0, "Num times yield occured"));
    profile.roots.push_back(add(3010, 1, 11, "Time for initial VTCM acquire"));
    profile.roots.push_back(add(3011, 1, 12, "Time for HVX + HMX power on and acquire"));
    const bool lints = profile.level == 7001;
    const std::uint64_t whole =
        add(lints ? 6001 : 3003, 3, 1000,
            lints ? "Accelerator (critical path execute) time (cycles)" : "Accelerator (execute) time (cycles)");
    std::uint64_t cycles = 100;
    for (const std::string &node : graph.nodes) {
      const std::uint64_t part = add(404, 3, cycles++, node + ":OpId_7 (cycles)");
      at(whole).parts.push_back(part);
      if (lints) {
        const std::uint64_t waits = add(5001, 3, 5, "Wait (Scheduler) time");
        const std::uint64_t overlaps = add(5002, 3, 6, "Overlap time");
        const std::uint64_t resources = add(5004, 0, 6, "Resources");
        at(part).parts = {waits, overlaps, resources};
        at(overlaps).parts = {add(5005, 3, 0, "another:OpId_8"), add(5005, 3, 0, "Output OpId_3")};
      }
    }
    profile.roots.push_back(whole);
  }
  if (profile.optrace) profile.roots.push_back(add(5500, 5, 0, "Trace"));  // as a device
  profile.roots.push_back(add(3004, 1, 20, "Accelerator (execute) time"));
  profile.roots.push_back(add(400, 1, 30, "QNN (execute) time"));
}

void fill_tables(qnn::Api &api) {
  api.profileCreate = create, api.profileSetConfig = set_config, api.profileGetEvents = get_events;
  api.profileGetSubEvents = get_sub_events, api.profileGetEventData = get_data, api.profileFree = free_profile;
  api.profileGetExtendedEventData = get_extended;
}

}  // namespace standin
