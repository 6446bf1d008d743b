// SPDX-License-Identifier: Apache-2.0
// The JSON writer and the texts of profiles.
#include <cmath>
#include <limits>

#include "base/json_writer.h"
#include "base/text.h"
#include "runtime/core/plugin_text.h"
#include "runtime/profile/profile.h"
#include "tests/support/check.h"

using namespace quarry;

TEST_CASE("nesting") {
  JsonWriter json;
  json.begin_object().field("a", 1).key("b").begin_array().value(true).null().value("x").end_array();
  json.key("empty").begin_object().end_object().key("none").begin_array().end_array().end_object();
  CHECK_EQ(json.take(),
           "{\n  \"a\": 1,\n  \"b\": [\n    true,\n    null,\n    \"x\"\n  ],\n  \"empty\": {},\n  \"none\": []\n}\n");
}

TEST_CASE("numbers") {
  JsonWriter json;
  json.begin_array().value(std::numeric_limits<std::int64_t>::min()).value(std::numeric_limits<std::uint64_t>::max());
  json.value(0.1).value(1e300).value(std::nan("")).value(-INFINITY).end_array();
  CHECK_EQ(json.take(), "[\n  -9223372036854775808,\n  18446744073709551615,\n  0.1,\n  1e+300,\n  null,\n  null\n]\n");
}

TEST_CASE("escapes") {
  JsonWriter json;
  json.value(std::string_view("q\" b\\ n\n t\t \x01 \x7f gr\xc3\xbc\xc3\x9f bad\xff\xc3("));
  CHECK_EQ(json.take(), "\"q\\\" b\\\\ n\\n t\\t \\u0001 \\u007f gr\xc3\xbc\xc3\x9f bad\xef\xbf\xbd\xef\xbf\xbd(\"\n");
}

TEST_CASE("shapes and raw") {
  const std::int64_t dims[] = {1, -1, 224};
  JsonWriter json;
  json.begin_object()
      .key("dims")
      .shape(dims, 3)
      .key("scalar")
      .shape(dims, 0)
      .key("raw")
      .raw("{\"x\": 1}\n")
      .end_object();
  CHECK_EQ(json.take(), "{\n  \"dims\": [1, null, 224],\n  \"scalar\": [],\n  \"raw\": {\"x\": 1}\n}\n");
}

TEST_CASE("utf8") {
  CHECK(is_utf8(""));
  CHECK(is_utf8("\xf0\x9f\x98\x80 \xe2\x82\xac"));
  for (const char *bad :
       {"\x80", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xe2\x82", "\xc3"})
    CHECK(!is_utf8(bad));
}

namespace {

qr_plugin_event event(std::uint64_t id, std::uint64_t parent, const char *name, std::uint32_t level,
                      std::uint64_t begin, std::uint64_t end) {
  qr_plugin_event made = {};
  made.struct_size = sizeof made;
  made.id = id;
  made.parent = parent;
  made.level = level;
  made.name = plugin_string(name);
  made.kind = plugin_string(id ? "node" : "run");
  made.node = -1;
  made.begin = begin;
  made.end = end;
  return made;
}

}  // namespace

TEST_CASE("events") {
  Process process;
  EventLog log(process);
  const std::uint64_t call = log.begin_call();
  CHECK_EQ(call, 1);
  log.add(call, event(2, 1, "inner", 2, 6, 8));            // a part before the whole
  qr_plugin_event late = event(3, 99, "late", 2, 10, 40);  // of a parent that never comes: a part of the call
  const qr_plugin_counter counter{plugin_string("bytes"), plugin_string("B"), 77};
  const qr_plugin_attribute attribute{plugin_string("kernel"), plugin_string("gemm")};
  late.counters = &counter, late.counter_count = 1;
  late.attributes = &attribute, late.attribute_count = 1;
  log.add(call, late);
  log.add(call, event(1, 0, "early, \"quoted\"", 2, 5, 20));
  log.add(call, event(0, 0, "run", 1, 4, 50));
  const char *const order[] = {"run", "early, \"quoted\"", "inner", "late"};
  qr_profile_event out;
  for (std::uint64_t i = 0; i < 4; ++i) {
    CHECK(log.at(i, out).value());
    CHECK_EQ(text_of(out.name), order[i]);
  }
  CHECK_EQ(out.counter_count, 1);
  CHECK_EQ(out.counters[0].value, 77);
  CHECK_EQ(text_of(out.attributes[0].value), "gemm");
  CHECK(!log.at(4, out).value());
  CHECK_EQ(log.text("csv").value(),
           "id,parent,level,name,kind,op,node,thread,clock,begin,end,duration,counters,attributes\n"
           "4294967296,0,1,run,run,,,0,host,4,50,46,,\n"
           "4294967297,4294967296,2,\"early, \"\"quoted\"\"\",node,,,0,host,5,20,15,,\n"
           "4294967298,4294967297,2,inner,node,,,0,host,6,8,2,,\n"
           "4294967299,4294967395,2,late,node,,,0,host,10,40,30,bytes=77 B,kernel=gemm\n");
  CHECK(log.text("chrome").value().find("\"ts\": 0.001") != String::npos);  // from the first event on
  CHECK(log.text("chrome").value().find("\"dur\": 0.015") != String::npos);
  log.lose(3);
  CHECK(log.text("csv").value().ends_with("# 3 events were lost\n"));
  CHECK(log.text("chrome").value().find("\"lost_events\": 3") != String::npos);
  log.clear();
  CHECK_EQ(log.count(), 0);
  CHECK_EQ(log.lost(), 0);
}

TEST_CASE("events of plugins that cannot be are lost, and counted") {
  Process process;
  EventLog log(process);
  EventSink sink;
  sink.attach(&log, ProfileLevel::Trace);
  const qr_profile_sink *to = sink.plugin_sink();
  const auto tell = [&](const qr_plugin_event &made) { to->event(to->self, &made); };
  qr_plugin_event small = event(1, 0, "small", 1, 0, 1), no_id = event(0, 0, "no id", 1, 0, 1),
                  no_data = event(1, 0, "no data", 1, 0, 1);
  small.struct_size = 16;
  no_data.counter_count = 2;
  for (const qr_plugin_event &bad : {small, no_id, no_data}) tell(bad);
  to->lost(to->self, 5);
  CHECK_EQ(log.count(), 0);
  CHECK_EQ(log.lost(), 8);
  tell(event(1, 0, "good", 1, 0, 1));
  CHECK_EQ(log.count(), 1);
}

TEST_CASE("a profile that nobody reads does not grow for ever") {
  Process process;
  EventLog log(process);
  const auto fill = [&](const qr_plugin_event &made, std::size_t most) {
    for (std::size_t i = 0; i < most + 5; ++i) log.add(1, made);
    CHECK_EQ(log.count(), most);
    CHECK_EQ(log.lost(), 5);
    log.clear();
    CHECK_EQ(log.lost(), 0);
  };
  fill(event(1, 0, "small", 1, 0, 1), EventLog::kMostEvents);
  const Vector<qr_plugin_counter> counters(1024, {plugin_string("bytes"), plugin_string("B"), 1});
  qr_plugin_event detailed = event(1, 0, "detailed", 1, 0, 1);
  detailed.counters = counters.data(), detailed.counter_count = counters.size();
  fill(detailed, EventLog::kMostDetails / 1024);
  std::string text(std::size_t{1} << 20, 'a');
  const std::size_t most = EventLog::kMostText / text.size();
  for (std::size_t i = 0; i < most + 5; ++i) {
    std::memcpy(text.data(), &i, sizeof i);
    qr_plugin_event named = event(1, 0, "", 1, 0, 1);
    named.name = plugin_string(text);
    log.add(1, named);
  }
  CHECK_GT(log.lost(), 3);
  CHECK_LE(log.count(), most);
}

TEST_CASE("profile levels") {
  Process process;
  EventLog basic(process), detailed(process), linting(process), trace(process);
  const std::pair<EventLog *, ProfileLevel> targets[] = {{&basic, ProfileLevel::Basic},
                                                         {&detailed, ProfileLevel::Detailed},
                                                         {&linting, ProfileLevel::Linting},
                                                         {&trace, ProfileLevel::Trace}};
  for (const auto &[log, level] : targets) {
    EventSink sink;
    sink.attach(log, level);
    const qr_profile_sink *to = sink.plugin_sink();
    CHECK_EQ(to->level, static_cast<std::uint32_t>(level));
    for (std::uint32_t of = 1; of <= 4; ++of) {
      const qr_plugin_event made = event(of, 0, "e", of, 1, 2);
      to->event(to->self, &made);
    }
    CHECK_EQ(log->count(), static_cast<std::uint64_t>(level));
  }
  EventSink none;
  none.attach(nullptr, ProfileLevel::Trace);
  CHECK(!none.wanted());
}
