// SPDX-License-Identifier: Apache-2.0
// The option table, values, sets of options and what they mean.
#include "quarry/quarry.h"
#include "runtime/core/runtime.h"
#include "runtime/core/settings.h"
#include "tests/support/check.h"

using namespace quarry;

namespace {

Ref<Runtime> make_runtime() {
  return Ref<Runtime>::make(Runtime::Config{&malloc_allocator(), nullptr, Log(), QR_THREAD_POOL_INIT, {}, {}, true});
}

std::string message(const Status &status) { return std::string(status.message()); }

}  // namespace

TEST_CASE("table is well formed") {
  for (std::size_t i = 0; i < option_row_count(); ++i) {
    const OptionRow row = option_row(i);
    CHECK(!row.help.empty());
    CHECK(!row.scope.empty());
    // The default is one of the values; "" stands for "not set" where no word fits.
    if (!row.default_value.empty()) CHECK_OK(check_option_value(row.key, row.values, row.default_value));
    for (std::size_t j = 0; j < i; ++j) CHECK((option_row(j).key != row.key || option_row(j).scope != row.scope));
  }
  CHECK(find_option_row("vtcm_mb").has_value());
  CHECK_FALSE(find_option_row("vtcm").has_value());
  CHECK(find_option_row("metadata.author").has_value());
  CHECK_FALSE(find_option_row("metadata.").has_value());
}

TEST_CASE("words") {
  CHECK_OK(check_option_value("k", "a|bc|d", "bc"));
  CHECK_OK(check_option_value("k", "one", "one"));
  const Status status = check_option_value("htp_performance_mode", "burst|balanced", "brust");
  CHECK_EQ(status.id(), "QR-C0102");
  CHECK_EQ(message(status), "option htp_performance_mode: found \"brust\", expected one of burst|balanced");
  CHECK_EQ(status.hint(), "did you mean \"burst\"?");
  CHECK(!check_option_value("k", "a|b", "").ok());
  CHECK(!check_option_value("k", "a|b", "a|b").ok());
}

TEST_CASE("integers") {
  for (const char *good : {"0", "7", "1024"}) CHECK_OK(check_option_value("threads", "integer 0..1024", good));
  for (const char *bad : {"", "-1", "1025", "4x", " 4", "+4", "0x4", "4.0", "99999999999999999999"}) {
    const Status status = check_option_value("threads", "integer 0..1024", bad);
    CHECK_EQ(status.id(), "QR-C0102");
    CHECK_EQ(message(status), "option threads: found \"" + std::string(bad) + "\", expected an integer from 0 to 1024");
  }
  CHECK_OK(check_option_value("k", "integer -5..5", "-5"));
  CHECK_EQ(check_option_value("k", "integer five", "5").id(), "QR-C0010");
}

TEST_CASE("lists have no item that is empty") {
  for (const char *good : {"", "a", "a,b", "a b, c"}) CHECK_OK(check_option_value("graph.head", "list", good));
  for (const char *bad : {",", "a,", ",a", "a,,b", ",,,"})
    CHECK_EQ(message(check_option_value("graph.head", "list", bad)),
             "option graph.head: found \"" + std::string(bad) + "\", expected items with one comma between");
}

TEST_CASE("texts are utf8") {
  CHECK_OK(check_option_value("metadata.x", "text", "Grüße"));
  CHECK_OK(check_option_value("k", "path", ""));
  CHECK_OK(check_option_value("k", "path", "\xff"));  // Linux asks for no UTF-8 in names of files
  CHECK_EQ(message(check_option_value("k", "path", std::string_view("a\0b", 3))),
           "option k: the value is not a path without NUL bytes: \"a\\x00b\"");
  CHECK_EQ(check_option_value("k", "text", "\xff").id(), "QR-C0009");
  CHECK_EQ(check_option_value("k", "text", std::string_view("a\0b", 3)).id(), "QR-C0009");
}

TEST_CASE("nearest word") {
  CHECK_EQ(edit_distance("kitten", "sitting"), 3);
  CHECK_EQ(edit_distance("", "abc"), 3);
  CHECK_EQ(edit_distance("ab", "ba"), 1);  // a swap is one step
  CHECK_EQ(edit_distance(std::string(200, 'x'), std::string(200, 'x')), 0);
  NearestWord near("vtcm_bm");
  for (const char *word : {"threads", "vtcm_mb", "verify"}) near.offer(word);
  CHECK_EQ(near.word(), "vtcm_mb");
  NearestWord far("entirely_different_thing");
  far.offer("threads");
  CHECK(far.word().empty());
}

TEST_CASE("sets") {
  const Ref<Runtime> runtime = make_runtime();
  OptionSet options(runtime);
  CHECK_OK(options.set("threads", "3"));
  CHECK_OK(options.set("threads", "4"));  // the last one holds
  CHECK_EQ(options.get("threads").value(), "4");
  CHECK_EQ(options.get("vtcm_mb").value(), "0");  // the default
  const Status unknown = options.set("vtcm_bm", "4");
  CHECK_EQ(unknown.id(), "QR-C0101");
  CHECK_EQ(message(unknown), "option vtcm_bm: there is no option of that name, the nearest is vtcm_mb");
  CHECK_EQ(options.get("nothing_like_it").status().id(), "QR-C0101");
  CHECK_EQ(options.set("threads", "many").id(), "QR-C0102");
  CHECK_EQ(options.get("threads").value(), "4");  // a refused value changes nothing
  CHECK_OK(options.set("shape", "a=1x2"));
  CHECK_OK(options.set("shape", "a=1x3;a=1x4"));
  CHECK_EQ(options.get("shape").value(), "a=1x2;a=1x3;a=1x4");  // adds up
  CHECK_OK(options.set("shape", ""));
  CHECK_EQ(options.get("shape").value(), "");
}

TEST_CASE("backends by qnn names") {
  CHECK_EQ(backend_of_path("libQnnHtp.so"), "htp");
  CHECK_EQ(backend_of_path("QnnHtp.dll"), "htp");
  CHECK_EQ(backend_of_path("/data/local/tmp/libQnnCpu.so"), "cpu");
  CHECK_EQ(backend_of_path("C:\\qnn\\QnnGpu.dll"), "gpu");
  CHECK_EQ(backend_of_path("libQnnSaver.so"), "saver");
  CHECK_EQ(backend_of_path("cpu-reference"), "cpu-reference");
  CHECK_EQ(backend_of_path("./quarry-backend-x.so"), "./quarry-backend-x.so");
  CHECK(is_plugin_path("./x"));
  CHECK(is_plugin_path("quarry-backend-x.so"));
  CHECK(!is_plugin_path("cpu-reference"));
}

TEST_CASE("settings") {
  const Ref<Runtime> runtime = make_runtime();
  {
    const Result<Settings> defaults = resolve_settings(nullptr);
    CHECK_EQ(defaults.value().backend, "cpu");
    CHECK(defaults.value().keep_graph);
  }
  {
    OptionSet options(runtime);
    CHECK_OK(options.set("backend_path", "libQnnHtp.so"));
    CHECK_OK(options.set("backend_type", "htp"));  // the same backend twice is no conflict
    CHECK_OK(options.set("shape", "x=1;x=2"));
    CHECK_OK(options.set("metadata.author", "me"));
    CHECK_OK(options.set("vtcm_mb", "8"));
    CHECK_OK(options.set("container.keep_graph", "0"));
    CHECK_OK(options.set("profiling_level", "detailed"));
    const Result<Settings> settings = resolve_settings(&options);
    CHECK_EQ(settings.value().backend, "htp");
    CHECK_EQ(settings.value().shapes.size(), 2);
    CHECK_EQ(settings.value().shapes[1], "x=2");
    CHECK_EQ(settings.value().metadata[0].key, "author");
    CHECK_EQ(settings.value().backend_keys.size(), 1);
    CHECK_EQ(settings.value().backend_keys[0].key, "vtcm_mb");
    CHECK(!settings.value().keep_graph);
    CHECK(settings.value().profiling == ProfileLevel::Detailed);
  }
  {
    OptionSet options(runtime);
    CHECK_OK(options.set("backend", "cpu"));
    CHECK_OK(options.set("backend_path", "libQnnHtp.so"));
    Status conflict = resolve_settings(&options).take_status();
    CHECK_EQ(conflict.id(), "QR-C0103");
    CHECK_EQ(message(conflict),
             "options backend and backend_path: they name two backends, \"cpu\" and \"htp\", expected one");
  }
  {
    OptionSet options(runtime);
    CHECK_OK(options.set("session.disable_cpu_ep_fallback", "0"));
    CHECK_EQ(resolve_settings(&options).status().id(), "QR-C0102");
  }
}
