// SPDX-License-Identifier: Apache-2.0
// The JSON writer and the texts of profiles.
#include <cmath>
#include <limits>

#include "base/json_writer.h"
#include "base/text.h"
#include "runtime/plugin_text.h"
#include "runtime/profile.h"
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

qr_plugin_event event(const char *name, const char *kind, std::uint64_t begin, std::uint64_t end) {
  qr_plugin_event made = {};
  made.name = plugin_string(name);
  made.kind = plugin_string(kind);
  made.begin_ns = begin;
  made.end_ns = end;
  return made;
}

}  // namespace

TEST_CASE("events") {
  EventLog log;
  log.add(event("late", "node", 10, 40));
  log.add(event("early, \"quoted\"", "node", 5, 20));
  qr_profile_event out;
  CHECK(log.at(0, out));
  CHECK_EQ(text_of(out.name), "early, \"quoted\"");  // in the order of their ends
  CHECK(!log.at(2, out));
  CHECK_EQ(log.text("csv"),
           "name,kind,op,thread,begin_ns,end_ns,duration_ns,value,unit\n\"early, "
           "\"\"quoted\"\"\",node,,0,5,20,15,,\nlate,node,,0,10,40,30,,\n");
  CHECK(log.text("chrome").find("\"ts\": 5") == String::npos);  // from the first event on
  CHECK(log.text("chrome").find("\"dur\": 0.015") != String::npos);
  log.clear();
  CHECK_EQ(log.count(), 0);
}

TEST_CASE("profile levels") {
  EventLog basic, detailed, all;
  const std::pair<EventLog *, ProfileLevel> targets[] = {
      {&basic, ProfileLevel::Basic}, {&detailed, ProfileLevel::Detailed}, {&all, ProfileLevel::All}};
  for (const auto &[log, level] : targets) {
    EventSink sink;
    sink.attach(log, level);
    CHECK((sink.plugin_sink() == nullptr) == (level == ProfileLevel::Basic));
    for (const char *kind : {"run", "node", "copy", "counter"}) sink.add(event("e", kind, 1, 2));
  }
  CHECK_EQ(basic.count(), 1);
  CHECK_EQ(detailed.count(), 3);
  CHECK_EQ(all.count(), 4);
  EventSink none;
  none.attach(nullptr, ProfileLevel::All);
  CHECK(!none.wanted());
}
