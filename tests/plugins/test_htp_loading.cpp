// SPDX-License-Identifier: Apache-2.0
// What of a context is loaded, whether the library finds it fit, and what a device puts into it afterwards: on the
// stand-in, as the emulator refuses most of it.
#include <filesystem>
#include <fstream>

#include "tests/plugins/standin_fixture.h"

using namespace quarry::test;

namespace {

struct Folder {
  std::string path = "/tmp/quarry-htp-loading-" + std::to_string(getpid());
  Folder() { std::filesystem::create_directory(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder &) = delete;
  Folder &operator=(const Folder &) = delete;
  std::string file(const std::string &name, const std::string &text) const {
    std::ofstream(path + "/" + name, std::ios::binary) << text;
    return path + "/" + name;
  }
};

}  // namespace

TEST_CASE("a session of one network of several loads its graphs alone, and again so after a loss of the device") {
  const Standin standin;
  const Folder folder;
  qr::Runtime runtime;
  const std::string texts[] = {relu_model(8, "one"), relu_model(8, "two"), relu_model(8, "three")},
                    path = folder.path + "/all.qrm";
  const qr::Options given = options(runtime);
  std::vector<qr::Model> models;
  for (const std::string &text : texts) models.emplace_back(runtime, text.data(), text.size());
  qr::compile_networks({{&models[0], "a"}, {&models[1], "b"}, {&models[2], "c"}}, qr::Target(path), &given);
  const auto session_of = [&](Pairs pairs) {
    standin.begin_log();
    const qr::Options chosen = options(runtime, pairs);
    const qr::Model opened(runtime, path, &chosen);
    return qr::Session(opened, &chosen);
  };
  {
    qr::Session made = session_of({{"model", "b"}});
    CHECK(run(made));
    CHECK_EQ(standin.lines("  context 5="), std::vector<std::string>({"  context 5=two"}));
    standin.tell("fail=graphExecute:1011:1:1");
    failure([&] { run(made); }, QR_DEVICE_LOST);
    standin.tell("");
    standin.begin_log();
    made.recover();
    CHECK_EQ(standin.lines("  context 5="), std::vector<std::string>({"  context 5=two"}));
    CHECK(run(made));
  }
  // A context that sessions of other networks may use has all of them.
  qr::Session shared = session_of({{"model", "b"}, {"ep.share_ep_contexts", "1"}});
  qr::Session other = session_of({{"model", "c"}, {"ep.share_ep_contexts", "1"}});
  CHECK_EQ(standin.count("contextCreateFromBinary"), 0u);  // the other's is used
  CHECK((run(shared) && run(other)));
}

TEST_CASE("a process has one kind of domain, signed or not, at a time") {
  const Standin standin;
  qr::Runtime runtime;
  {
    qr::Session made = session(runtime);
    CHECK(says(failure(
                   [&] {
                     session(runtime, {{"htp.signed_pd", "1"}});
                   },
                   QR_INVALID_ARGUMENT),
               {"htp.signed_pd: found 1 while sessions with 0 are there"}));
    CHECK(run(made));
  }
  qr::Session made = session(runtime, {{"htp.signed_pd", "1"}});
  CHECK(standin.has("  device.signed_pd=1"));
  CHECK(says(failure(
                 [&] {
                   session(runtime, {{"soc_model", "SM8750"}});
                 },
                 QR_INVALID_ARGUMENT),
             {"htp.signed_pd: found 0 while sessions with 1"}));
  CHECK(run(made));
}

TEST_CASE("the log says in which session of the processor contexts lie") {
  const Standin standin;
  std::vector<std::string> lines;
  qr_log_sink log{sizeof log, QR_LOG_INFO, &lines, nullptr};
  log.write = [](void *self, qr_log_level, std::uint32_t, qr_string, qr_string message) {
    static_cast<std::vector<std::string> *>(self)->emplace_back(message.data, message.size);
  };
  qr_runtime_options how = QR_RUNTIME_OPTIONS_INIT;
  how.log = &log;
  qr::Runtime runtime(how);
  qr::Session made = session(runtime);
  CHECK(std::any_of(lines.begin(), lines.end(), [](const std::string &line) {
    return line.find("by first fit in session 0 of the processor") != line.npos && line.find("of 3840 MB") != line.npos;
  }));
}

TEST_CASE("strict: the library is asked whether a binary fits this very device") {
  const Standin standin;
  qr::Runtime runtime;
  qr::Session made = session(runtime, {{"htp.compatibility", "strict"}});
  CHECK_EQ(standin.count("contextValidateBinary"), 1u);
  CHECK(standin.has("  context 8=1"));
  standin.begin_log();
  session(runtime, {});
  CHECK_EQ(standin.count("contextValidateBinary"), 0u);
  standin.tell("fail=contextValidateBinary:5011");
  CHECK(says(failure(
                 [&] {
                   session(runtime, {{"htp.compatibility", "strict"}});
                 },
                 QR_INCOMPATIBLE),
             {"contextValidateBinary with htp.compatibility=strict", "5011"}));
  standin.tell("fail=contextValidateBinary:1000");  // as the emulator: it has no answer
  CHECK(run(made));
  qr::Session again = session(runtime, {{"htp.compatibility", "strict"}});
  CHECK(run(again));
}

TEST_CASE("binary sections are applied when a context was loaded, when the option changes, and after a loss") {
  const Standin standin;
  const Folder folder;
  qr::Runtime runtime;
  const std::string first = folder.file("first.bin", "weights of the first"),
                    second = folder.file("second.bin", "weights of the second"),
                    list = folder.file("list.txt", "test;" + first + "\r\n\n"),
                    other = folder.file("other.txt", "test;" + second + "\n");
  const auto applied = [](const char *text) {
    return std::string("contextApplyBinarySection test section=1 version=1 memory=0 '") + text + "'";
  };
  qr::Session made = session(runtime, {{"htp.lora_sections", list}, {"htp.skip_section_validation", "1"}});
  CHECK(standin.has("  context.custom 9=1,0"));
  CHECK_EQ(standin.lines("contextApply"), std::vector<std::string>({applied("weights of the first")}));
  CHECK(run(made));
  standin.begin_log();
  made.set_option("htp.lora_sections", other);
  CHECK_EQ(standin.lines("contextApply"), std::vector<std::string>({applied("weights of the second")}));
  standin.tell("fail=graphExecute:1011:1:1");
  failure([&] { run(made); }, QR_DEVICE_LOST);
  standin.tell("");
  standin.begin_log();
  made.recover();
  CHECK_EQ(standin.lines("contextApply"), std::vector<std::string>({applied("weights of the second")}));
  CHECK(run(made));

  // What is refused before the library gets it, and what the library refuses.
  standin.begin_log();
  const auto refused = [&](const std::string &text, std::initializer_list<const char *> words) {
    CAPTURE(text);
    const std::string path = folder.file("bad.txt", text);
    CHECK(says(failure([&] { session(runtime, {{"htp.lora_sections", path}}); }, QR_INVALID_ARGUMENT), words));
  };
  using std::string_literals::operator""s;
  refused("", {"found no line", "lines GRAPH;PATH"});
  refused("test", {"found 'test'"});
  refused(";x", {"found ';x'"});
  refused("test;", {"found 'test;'"});
  refused("another;" + first, {"found graph 'another'", "those that are loaded: test"});
  refused("test;" + folder.file("empty", ""), {"an empty file"});
  refused("test;" + folder.file("context", "\0\0\0\2\0\0\0\3 and the rest of it"s), {"a context binary"});
  refused("test;" + folder.file("safe", "\x40\0\0\0\0\0\0\0{\"a\":1}"s), {"safetensors", "qnn.lora_config"});
  refused("test;" + folder.path, {"no regular file"});
  CHECK_EQ(standin.count("contextApply"), 0u);
  CHECK(says(failure(
                 [&] {
                   session(runtime, {{"htp.lora_sections", folder.path + "/none"}});
                 },
                 QR_INVALID_ARGUMENT),
             {"/none", "No such file"}));
  standin.tell("fail=contextApplyBinarySection:1009");
  CHECK(says(failure([&] { made.set_option("htp.lora_sections", list); }, QR_UNAVAILABLE),
             {"first.bin to graph test", "1009"}));
  standin.tell("null=contextApplyBinarySection");
  CHECK(run(made));
}
