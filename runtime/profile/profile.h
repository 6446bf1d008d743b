// SPDX-License-Identifier: Apache-2.0
// Profiles: events of calls as a tree, and their export.
#pragma once

#include <atomic>
#include <optional>

#include "quarry/backend.h"
#include "quarry/profile.h"
#include "runtime/core/object.h"
#include "runtime/core/process.h"

namespace quarry {

class Runtime;

// What is worth recording; the numbers of QR_PROFILE_*.
enum class ProfileLevel : std::uint8_t { Off, Basic, Detailed, Linting, Trace };
// The words of the option "profiling_level".
ProfileLevel profile_level(std::string_view word) noexcept;

// Events may arrive from several threads at once, a child before its parent. In a process that was forked while a
// thread of its parent was adding one, the log has no events, and all that come are lost.
class EventLog {
 public:
  explicit EventLog(Process &process) noexcept : mutex_(process) {}
  // A call whose events follow; its number goes into their ids.
  std::uint64_t begin_call() noexcept { return calls_.fetch_add(1, std::memory_order_relaxed) + 1; }
  // What is kept until clear(): a program that never reads its profile goes on as it did.
  static constexpr std::size_t kMostEvents = std::size_t{1} << 20, kMostDetails = std::size_t{1} << 22,
                               kMostText = std::size_t{64} << 20;
  // Adds an event of a call. Its id 0 is the call itself, which is a part of the call `part_of` (0: of none). Without
  // memory, or room, the event is lost and counted.
  void add(std::uint64_t call, const qr_plugin_event &event, std::uint64_t part_of = 0) noexcept;
  void lose(std::uint64_t count) noexcept { lost_.fetch_add(count, std::memory_order_relaxed); }
  void clear() noexcept;
  std::uint64_t count() const noexcept;
  std::uint64_t lost() const noexcept { return lost_.load(std::memory_order_relaxed); }
  // False where there are not so many. In the order of qr_profile_event_at.
  Result<bool> at(std::uint64_t index, qr_profile_event &out) const;

  static bool knows_format(std::string_view format) noexcept { return format == "chrome" || format == "csv"; }
  Result<String> text(std::string_view format) const;

 private:
  struct Event {
    const String *name, *kind, *op;  // in texts_, whose elements stay where they are
    std::uint64_t id, parent;
    std::uint32_t level, clock, thread;
    std::uint64_t begin, end;
    std::int64_t node;
    std::size_t first_counter, counter_count, first_attribute, attribute_count;
  };
  void arrange() const;
  qr_profile_event told(const Event &event) const noexcept;
  String chrome() const;
  String csv() const;

  mutable ProcessMutex mutex_;
  std::atomic<std::uint64_t> calls_{0};
  StringSet texts_;
  std::size_t text_bytes_ = 0;  // of texts_
  Vector<Event> events_;
  Vector<qr_profile_counter> counters_;
  Vector<qr_profile_attribute> attributes_;
  std::atomic<std::uint64_t> lost_{0};
  mutable Vector<std::uint32_t> order_;  // of events_, as they are read out; made when somebody asks
};

// The events of one call, for one or two logs at their levels. Lives as long as the call.
class EventSink {
 public:
  EventSink() noexcept = default;
  EventSink(const EventSink &) = delete;
  EventSink &operator=(const EventSink &) = delete;
  void attach(EventLog *log, ProfileLevel level) noexcept;
  // For a part of a call, which may be a call of a plugin: each numbers its events from 1.
  void attach_part_of(const EventSink &whole) noexcept;
  bool wanted() const noexcept { return count_ > 0; }
  // The call itself, or the part: from begin to end on the host's clock. `graph` names the graphs that it is about; it
  // may be empty.
  void add_call(std::string_view name, std::string_view kind, std::uint64_t begin_ns, std::uint64_t end_ns,
                std::string_view graph = {}) noexcept;
  const qr_profile_sink *plugin_sink() noexcept;  // nullptr where nothing is wanted of the plugin

 private:
  void add(const qr_plugin_event &event) noexcept;
  // From the plugin, which may be older or newer than this.
  void take(const qr_plugin_event *from) noexcept;
  void lose(std::uint64_t count) noexcept;
  struct Target {
    EventLog *log;
    ProfileLevel level;
    std::uint64_t call, part_of;
  };
  Target targets_[2];  // `count_` of them; a run that nobody profiles writes none
  int count_ = 0;
  qr_profile_sink sink_;
};

// The events of a call that compiles or loads: the call itself, and its phases one after the other. Does nothing where
// there is no log.
class CallEvents {
 public:
  // Names are static texts.
  CallEvents(EventLog *log, const char *name) noexcept : log_(log), name_(name) { begin(); }
  ~CallEvents() { end(); }
  CallEvents(const CallEvents &) = delete;
  CallEvents &operator=(const CallEvents &) = delete;
  void rename(const char *name) noexcept { name_ = name; }  // a load that turns out to compile
  // Ends the call here; what follows is another.
  void next(const char *name) noexcept;

  // From here to the end of the scope.
  class Phase {
   public:
    // `graph` is borrowed; it may be empty.
    Phase(const CallEvents &call, const char *name, std::string_view graph = {}) noexcept;
    ~Phase();
    Phase(const Phase &) = delete;
    Phase &operator=(const Phase &) = delete;
    const qr_profile_sink *plugin_sink() noexcept { return sink_.plugin_sink(); }

   private:
    EventSink sink_;
    const char *name_;
    std::string_view graph_;
    std::uint64_t begin_ns_ = 0;
  };

 private:
  void begin() noexcept;
  void end() noexcept;

  EventLog *log_;
  const char *name_;
  std::optional<EventSink> sink_;
  std::uint64_t begin_ns_ = 0;
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
