// SPDX-License-Identifier: Apache-2.0
// The votes of the htp backend's performance profiles, as the stand-in wrote them down, against the document's table.
#include "tests/plugins/standin_fixture.h"

using namespace quarry::test;

namespace {

// A column of the document's table, in the library's numbers.
struct Column {
  const char *name;
  int sleep_latency, dcvs, polling;
  const char *corners;  // min, target, max of bus and of core
  const char *between;  // what it is lowered to
  bool timed;           // not at once
};
constexpr Column kTable[] = {
    {"burst", 40, 0, 9999, "a0,a0,a0", "relaxed", true},
    {"sustained_high_performance", 100, 0, 9999, "80,80,80", "relaxed", true},
    {"high_performance", 100, 0, 9999, "80,80,80", "relaxed", false},
    {"balanced", 1000, 0, 0, "70,70,70", "relaxed", false},
    {"low_balanced", 1000, 0, 0, "60,60,60", "relaxed", false},
    {"high_power_saver", 1000, 0, 0, "50,50,50", "released", false},
    {"power_saver", 1000, 0, 0, "40,40,40", "released", false},
    {"low_power_saver", 1000, 0, 0, "30,30,30", "released", false},
    {"extreme_power_saver", 1000, 0, 0, "10,10,10", "released", false},
    {"relaxed", 2000, 1, 0, "30,40,40", "", false},
    {"released", 65535, 1, 0, "20,20,20", "", false},
};

const Column &column(const std::string &name) {
  return *std::find_if(std::begin(kTable), std::end(kTable), [&](const Column &c) { return c.name == name; });
}
std::vector<std::string> votes_of(const Column &c) {
  const std::string corners = c.corners;
  return {"vote dcvs=1/" + std::to_string(c.dcvs) + " mode=" + (c.dcvs ? "1" : "10") + " sleep_latency=1/" +
              std::to_string(c.sleep_latency) + " sleep_disable=0/0 bus=1/" + corners + " core=1/" + corners,
          "vote option=3 value=" + std::to_string(c.polling)};
}
std::vector<std::string> votes_of(std::initializer_list<const char *> names) {
  std::vector<std::string> all;
  for (const char *name : names)
    for (const std::string &vote : votes_of(column(name))) all.push_back(vote);
  return all;
}

}  // namespace

TEST_CASE("each profile votes what the table says: while loading, in each run, and lower between") {
  for (const Column &c : kTable) {
    if (!*c.between) continue;
    CAPTURE(c.name);
    const Standin standin;
    {
      qr::Runtime runtime;
      qr::Session made = session(runtime, {{"htp_performance_mode", c.name}});
      CHECK_EQ(standin.count("createPowerConfigId device=0 core=0"), 1u);
      CHECK_EQ(standin.lines("vote"), c.timed ? votes_of({c.name}) : votes_of({c.name, c.between}));
      standin.begin_log();
      CHECK(run(made));
      // The votes of a timed profile are still there.
      CHECK_EQ(standin.lines("vote"), c.timed ? votes_of({}) : votes_of({c.name, c.between}));
      if (c.timed) {
        usleep(600 * 1000);
        CHECK_EQ(standin.lines("vote"), votes_of({c.between}));
        CHECK(run(made));
        CHECK_EQ(standin.lines("vote"), votes_of({c.between, c.name}));
      }
      standin.begin_log();
    }
    if (!c.timed) CHECK_EQ(standin.lines("vote"), votes_of({c.name}));
    CHECK_EQ(standin.count("destroyPowerConfigId"), 1u);
  }
}

TEST_CASE("without a profile nobody votes") {
  const Standin standin;
  qr::Runtime runtime;
  qr::Session made = session(runtime);
  CHECK(run(made));
  CHECK_EQ(standin.count("vote") + standin.count("createPowerConfigId"), 0u);
}

TEST_CASE("profiles and latencies change at run time") {
  const Standin standin;
  qr::Runtime runtime;
  qr::Session made =
      session(runtime, {{"qnn.htp_perf_mode", "balanced"}, {"qnn.htp_perf_mode_post_run", "power_saver"}});
  CHECK(run(made));
  CHECK_EQ(standin.lines("vote"), votes_of({"balanced", "power_saver"}));
  made.set_option("qnn.htp_perf_mode", "high_performance");
  made.set_option("qnn.rpc_control_latency", "150");
  standin.begin_log();
  CHECK(run(made));
  auto expected = votes_of({"high_performance", "power_saver"});
  expected.insert(expected.begin(), "vote option=2 value=150");
  CHECK_EQ(standin.lines("vote"), expected);
  made.set_option("qnn.htp_perf_mode", "default");
  made.set_option("qnn.htp_perf_mode_post_run", "default");
  made.set_option("ep.dynamic.qnn_htp_performance_mode", "low_balanced");
  standin.begin_log();
  CHECK(run(made));
  CHECK_EQ(standin.lines("vote"), votes_of({"low_balanced", "relaxed"}));
}

TEST_CASE("no vote reaches a device that was freed, while it is opened again") {
  const Standin standin;
  qr::Runtime runtime;
  qr::Session made = session(runtime, {{"htp_performance_mode", "burst"}});
  CHECK(run(made));  // the votes of a timed profile are lowered some time after it
  standin.tell("fail=graphExecute:1011:1:1");
  failure([&] { run(made); }, QR_DEVICE_LOST);
  standin.tell("slow=deviceCreate:600000");
  standin.begin_log();
  made.recover();
  const auto lines = standin.lines();
  const auto begins = [&](const char *word) {
    return std::find_if(lines.begin(), lines.end(), [&](const std::string &line) { return line.rfind(word, 0) == 0; });
  };
  CHECK_LT(begins("deviceFree") - lines.begin(), begins("createPowerConfigId") - lines.begin());
  CHECK_LT(begins("createPowerConfigId") - lines.begin(), begins("vote") - lines.begin());
  CHECK(run(made));
}

TEST_CASE("after a run that failed the votes are lowered too") {
  const Standin standin;
  qr::Runtime runtime;
  qr::Session made = session(runtime, {{"htp_performance_mode", "balanced"}});
  standin.begin_log();
  standin.tell("fail=graphExecute:1003:1:1");
  CHECK(says(failure([&] { run(made); }, QR_INTERNAL), {"graphExecute", "1003 System"}));
  CHECK_EQ(standin.lines("vote"), votes_of({"balanced", "relaxed"}));
  CHECK(run(made));
}

TEST_CASE("the way to the device: latency, polling, the matrix unit") {
  const Standin standin;
  qr::Runtime runtime;
  qr::Session made = session(runtime, {{"rpc_control_latency", "100"},
                                       {"htp.rpc_polling_time", "500"},
                                       {"htp.adaptive_polling_time", "700"},
                                       {"htp.hmx_timeout_us", "300000"},
                                       {"htp.core_id", "1"}});
  CHECK_EQ(standin.count("createPowerConfigId device=0 core=1"), 1u);
  for (const char *vote :
       {"vote option=2 value=100", "vote option=3 value=500", "vote option=4 value=300000", "vote option=6 value=700"})
    CHECK_EQ(standin.count(vote), 1u);
}

TEST_CASE("votes for the matrix unit go with those for the vector unit, and with them again when they are lowered") {
  const Standin standin;
  qr::Runtime runtime;
  const std::pair<const char *, const char *> corners[] = {
      {"turbo", "280,280,280"}, {"low_svs_d2", "134,134,134"}, {"disable", "0,0,0"}, {"max", "ffff,ffff,ffff"}};
  for (const auto &[name, numbers] : corners) {
    CAPTURE(name);
    standin.begin_log();
    qr::Session made = session(runtime, {{"htp_performance_mode", "balanced"},
                                         {"htp.hmx_corner", name},
                                         {"htp.hmx_clock", "low"},
                                         {"soc_model", "SM8650"}});
    const std::string hmx = std::string("vote hmx pick_default=0 corners=") + numbers + " clock=1",
                      as_ever = "vote hmx pick_default=1 corners=0,0,0 clock=0";
    std::vector<std::string> expected = votes_of({"balanced"});
    expected.push_back(hmx);
    for (const std::string &vote : votes_of({"relaxed"})) expected.push_back(vote);
    expected.push_back(as_ever);
    CHECK_EQ(standin.lines("vote"), expected);
  }
  const auto refused = [&](Pairs options, const char *words) {
    CHECK(says(failure([&] { session(runtime, options); }, QR_INVALID_ARGUMENT), {words}));
  };
  refused({{"htp.hmx_corner", "turbo"}}, "without htp_performance_mode");
  refused({{"htp.sleep_disable", "1"}}, "without htp_performance_mode");
  refused({{"htp.hmx_clock", "low"}, {"htp_performance_mode", "burst"}}, "nothing reads without htp.hmx_corner");
  refused({{"htp.hmx_corner", "turbo"}, {"htp_performance_mode", "burst"}, {"soc_model", "SM8550"}},
          "for SM8550 (43, v73), expected auto");
}

TEST_CASE("sleep is kept away in runs, and not between them") {
  const Standin standin;
  qr::Runtime runtime;
  qr::Session made = session(runtime, {{"htp_performance_mode", "balanced"}, {"htp.sleep_disable", "1"}});
  standin.begin_log();
  CHECK(run(made));
  const std::vector<std::string> votes = standin.lines("vote dcvs");
  REQUIRE_EQ(votes.size(), 2u);
  CHECK(votes[0].find("sleep_disable=1/1") != std::string::npos);
  CHECK(votes[1].find("sleep_disable=1/0") != std::string::npos);
}

TEST_CASE("the folder of the processor's own libraries is put into its environment") {
  const Standin standin;
  qr::Runtime runtime;
  ::unsetenv("ADSP_LIBRARY_PATH");
  session(runtime, {});
  CHECK(::getenv("ADSP_LIBRARY_PATH") == nullptr);
  session(runtime, {{"htp.skel_path", "/data/app/ours/lib/arm64"}});
  CHECK_EQ(std::string_view(::getenv("ADSP_LIBRARY_PATH")), "/data/app/ours/lib/arm64");
  ::unsetenv("ADSP_LIBRARY_PATH");
}

TEST_CASE("a vote that is refused is reported") {
  const Standin standin("fail=setPowerConfig:13002");
  qr::Runtime runtime;
  CHECK(says(failure(
                 [&] {
                   session(runtime, {{"htp_performance_mode", "burst"}});
                 },
                 QR_INTERNAL),
             {"setPowerConfig of profile burst", "13002 PowerConfig", "id: QR-B0009"}));
  const Standin without("null=deviceGetInfrastructure");
  qr::Runtime other;
  CHECK(says(failure(
                 [&] {
                   session(other, {{"htp_performance_mode", "burst"}});
                 },
                 QR_UNAVAILABLE),
             {"deviceGetInfrastructure", "leave htp_performance_mode"}));
}
