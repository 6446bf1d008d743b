// SPDX-License-Identifier: Apache-2.0
// Profiles: collected events, and their export.
#pragma once

#include <mutex>

#include "quarry/backend.h"
#include "quarry/profile.h"
#include "runtime/object.h"

namespace quarry {

class Runtime;

// What is worth recording; the words of the option "profiling_level".
enum class ProfileLevel : std::uint8_t { Off, Basic, Detailed, All };
ProfileLevel profile_level(std::string_view word) noexcept;

// Events may arrive from several threads at once.
class EventLog {
 public:
  void add(const qr_plugin_event &event) noexcept;  // without memory the event is lost and counted
  void clear() noexcept;
  std::uint64_t count() const noexcept;
  std::uint64_t lost() const noexcept;
  bool at(std::uint64_t index, qr_profile_event &out) const noexcept;

  static bool knows_format(std::string_view format) noexcept { return format == "chrome" || format == "csv"; }
  String text(std::string_view format) const;

 private:
  struct Event {
    const String *name, *kind, *op, *unit;  // in texts_, whose elements stay where they are
    std::uint64_t begin_ns, end_ns, value, thread;
  };
  String chrome() const;
  String csv() const;

  mutable std::mutex mutex_;
  StringSet texts_;
  Vector<Event> events_;
  std::uint64_t lost_ = 0;
};

// A sink that adds to one or two logs, at their levels. Lives on the stack of a run.
class EventSink {
 public:
  void attach(EventLog *log, ProfileLevel level) noexcept;
  bool wanted() const noexcept { return count_ > 0; }
  void add(const qr_plugin_event &event) noexcept;
  const qr_profile_sink *plugin_sink() noexcept;  // nullptr where nothing is wanted of the plugin

 private:
  struct Target {
    EventLog *log;
    ProfileLevel level;
  };
  Target targets_[2] = {};
  int count_ = 0;
  qr_profile_sink sink_ = {};
};

// qr_profile.
class Profile : public Counted<Profile> {
 public:
  explicit Profile(Ref<Runtime> runtime);
  ~Profile();
  EventLog &log() const noexcept { return log_; }
  Runtime &runtime() const noexcept { return *runtime_; }
  ExclusiveUse &use() const noexcept { return use_; }

 private:
  Ref<Runtime> runtime_;
  mutable EventLog log_;
  mutable ExclusiveUse use_;
};

}  // namespace quarry
