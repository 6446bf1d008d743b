// SPDX-License-Identifier: Apache-2.0
// Runs the whole zoo through the loader: zoo_table.inc is what opening must give, lie_table.inc what calls must give.
#include <elf.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "loader/compatibility.h"
#include "loader/elf_note.h"
#include "loader/loader.h"
#include "tests/support/check.h"

namespace fs = std::filesystem;
using namespace quarry;
using namespace quarry::loader;

namespace {

class TestEnvironment final : public HostEnvironment {
 public:
  Allocator &allocator() noexcept override { return malloc_allocator(); }
  void log(qr_log_level, std::uint32_t flags, std::string_view, std::string_view message) noexcept override {
    logged.push_back({flags, std::string(message)});
  }
  std::vector<std::pair<std::uint32_t, std::string>> logged;
};

// A folder of this process, gone afterwards.
struct Scratch {
  fs::path path;
  Scratch() {
    std::string name = (fs::temp_directory_path() / "quarry-zoo-XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~Scratch() { fs::remove_all(path); }
};

std::string read_file(const fs::path &path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void write_file(const fs::path &path, const std::string &bytes) { std::ofstream(path, std::ios::binary) << bytes; }

const fs::path kZoo = QR_ZOO_FOLDER;
fs::path built(const std::string &name) { return kZoo / ("quarry-backend-zoo-" + name + ".so"); }

template <class T>
T get(const std::string &bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}
template <class T>
void put(std::string &bytes, std::size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

// Where the note of the good plugin stands, found here by other means than the loader's: a search for its bytes.
std::size_t note_at(const std::string &bytes) {
  const std::string header = std::string("\x07\0\0\0\x80\0\0\0\x01\0\0\0Quarry\0\0", 20);
  return bytes.find(header);
}
Elf64_Phdr note_segment(const std::string &bytes) {
  const auto header = get<Elf64_Ehdr>(bytes, 0);
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    const auto segment = get<Elf64_Phdr>(bytes, header.e_phoff + i * sizeof(Elf64_Phdr));
    if (segment.p_type == PT_NOTE && segment.p_offset <= note_at(bytes) &&
        note_at(bytes) < segment.p_offset + segment.p_filesz)
      return segment;
  }
  return {};
}

std::string flavour_word(unsigned flavour) {
  std::string out;
  for (const auto &[bit, word] :
       {std::pair(QR_PLUGIN_FLAVOUR_ASAN, "address"), std::pair(QR_PLUGIN_FLAVOUR_TSAN, "thread"),
        std::pair(QR_PLUGIN_FLAVOUR_MSAN, "memory")})
    if (flavour & bit) out += (out.empty() ? "" : "+") + std::string(word);
  return out.empty() ? "none" : out;
}

using Words = std::map<std::string, std::string>;
std::string expand(std::string text, const Words &words) {
  for (const auto &[key, value] : words)
    for (std::size_t at; (at = text.find("{" + key + "}")) != text.npos;) text.replace(at, key.size() + 2, value);
  return text;
}

struct Row {
  const char *name;
  bool is_built;
  const char *error_id;
  bool ran;
  const char *message;
};
constexpr bool is_built(std::string_view how) { return how == "built"; }
const Row kRows[] = {
#define ZOO(name, how, rule, error_id, ran, message) {#name, is_built(#how), error_id, ran, message},
#include "zoo_table.inc"
#undef ZOO
};

// Makes the file of a row that is not built. False: it cannot be made here (root reads everything).
bool make(const std::string &name, const fs::path &path, Words &words) {
  const std::string good = read_file(built("good"));
  std::string bytes = good;
  const auto header = get<Elf64_Ehdr>(bytes, 0);
  if (name == "missing") return true;
  if (name == "folder") return fs::create_directory(path);
  if (name == "fifo") return mkfifo(path.c_str(), 0600) == 0;
  if (name == "socket") {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool made = bind(fd, reinterpret_cast<sockaddr *>(&address), sizeof address) == 0;
    close(fd);
    return made;
  }
  if (name == "unreadable") {
    write_file(path, bytes);
    fs::permissions(path, fs::perms::none);
    return geteuid() != 0;
  }
  if (name == "empty") bytes.clear();
  else if (name == "text") bytes = "#!/bin/sh\nexit 0\n";
  else if (name == "executable") put<std::uint16_t>(bytes, offsetof(Elf64_Ehdr, e_type), ET_EXEC);
  else if (name == "class") bytes[EI_CLASS] = 7;
  else if (name == "byte_order_unknown") bytes[EI_DATA] = 9;
  else if (name == "cut_magic") bytes.resize(10);
  else if (name == "cut_header") bytes.resize(40);
  else if (name == "cut_segment") {  // one byte short of the last loaded segment
    for (unsigned i = 0; i < header.e_phnum; ++i) {
      const auto segment = get<Elf64_Phdr>(bytes, header.e_phoff + i * sizeof(Elf64_Phdr));
      if (segment.p_type != PT_LOAD) continue;
      words["segment"] = std::to_string(i);
      words["segment_bytes"] = std::to_string(segment.p_filesz);
      words["segment_offset"] = std::to_string(segment.p_offset);
      bytes = good.substr(0, segment.p_offset + segment.p_filesz - 1);
    }
  } else if (name == "headers_outside") put<std::uint64_t>(bytes, offsetof(Elf64_Ehdr, e_phoff), UINT64_MAX - 15);
  else if (name == "no_headers") put<std::uint16_t>(bytes, offsetof(Elf64_Ehdr, e_phnum), 0);
  else if (name == "machine") put<std::uint16_t>(bytes, offsetof(Elf64_Ehdr, e_machine), 164);
  else if (name == "machine_unknown") put<std::uint16_t>(bytes, offsetof(Elf64_Ehdr, e_machine), 4242);
  else if (name == "byte_order") bytes[EI_DATA] = ELFDATA2MSB;
  else if (name == "bitness") bytes[EI_CLASS] = ELFCLASS32;
  else if (name == "bitness_and_machine")
    bytes[EI_CLASS] = ELFCLASS32, put<std::uint16_t>(bytes, offsetof(Elf64_Ehdr, e_machine), EM_ARM);
  else if (name == "note_owner") bytes[note_at(good) + 12] = 'q';
  else if (name == "note_short") put<std::uint32_t>(bytes, note_at(good) + 4, 64);
  else if (name == "note_outside") put<std::uint32_t>(bytes, note_at(good) + 4, 0xfffffff0u);
  else if (name != "file_name") return false;
  words["size"] = std::to_string(bytes.size());
  write_file(path, bytes);
  return true;
}

std::string trace_of(const fs::path &trace) { return fs::exists(trace) ? read_file(trace) : ""; }

}  // namespace

TEST_CASE("good plugin opens") {
  TestEnvironment environment;
  auto plugin = Plugin::open_file(environment, built("good").string());
  REQUIRE_OK(plugin);
  CHECK_EQ((*plugin)->id(), "zoo-good");
  CHECK_EQ((*plugin)->devices().size(), 1u);
  CHECK_EQ((*plugin)->options().size(), 2u);
  CHECK_EQ(environment.logged.size(), 0u);
}

TEST_CASE("every bad plugin gets its message") {
  const Scratch scratch;
  const std::string good = read_file(built("good"));
  REQUIRE(note_at(good) != good.npos);
  const auto segment = note_segment(good);
  Words common = {{"target", QR_PLUGIN_BUILD_TARGET},
                  {"system", QR_PLUGIN_BUILD_ARCH "-" QR_PLUGIN_BUILD_OS},
                  {"machine", machine_name(get<Elf64_Ehdr>(good, 0).e_machine)},
                  {"headers", std::to_string(get<Elf64_Ehdr>(good, 0).e_phnum)},
                  {"flavour", flavour_word(QR_PLUGIN_BUILD_FLAVOUR)},
                  {"other", flavour_word(QR_PLUGIN_BUILD_FLAVOUR ^ QR_PLUGIN_FLAVOUR_MSAN)},
                  {"note_offset", std::to_string(note_at(good) + 20 - segment.p_offset)},
                  {"note_bytes", std::to_string(segment.p_filesz)}};
  const std::uint16_t machine = get<Elf64_Ehdr>(good, 0).e_machine;
  common["swapped_machine"] = "machine " + std::to_string(static_cast<std::uint16_t>(machine >> 8 | machine << 8));
  int skipped = 0;
  for (const Row &row : kRows) {
    TestEnvironment environment;
    Words words = common;
    std::string dashed = row.name;
    for (char &c : dashed) c = c == '_' ? '-' : c;
    // An own folder and, for what is made, a name beyond ASCII: the path must come back whole.
    const fs::path folder = scratch.path / ("Zoö-" + dashed);
    fs::create_directory(folder);
    fs::path path = row.is_built
                        ? built(dashed)
                        : folder / (row.name == std::string("file_name") ? "libzoo.so" : "quarry-backend-zoo-good.so");
    if (!row.is_built && !make(row.name, path, words)) {
      ++skipped;
      continue;
    }
    words["path"] = path.string();
    words["id"] = row.is_built ? "zoo-" + dashed : "zoo-good";
    const fs::path trace = folder / "trace";
    setenv("QUARRY_ZOO_TRACE", trace.c_str(), 1);
    auto plugin = Plugin::open_file(environment, path.string());
    unsetenv("QUARRY_ZOO_TRACE");
    if (plugin.ok()) {
      FAIL_CHECK(row.name, " was opened");
      continue;
    }
    const Status status = plugin.take_status();
    const std::string expected = expand(row.message, words);
    if (status.id() != row.error_id || status.message() != expected)
      FAIL_CHECK(row.name, ":\n  found    ", status.id(), " ", status.message(), "\n  expected ", row.error_id, " ",
                 expected);
    if (const bool ran = !trace_of(trace).empty(); ran != row.ran)
      FAIL_CHECK(row.name, (ran ? ": its code ran" : ": its code did not run"));
    CHECK(status.message().find('\n') == std::string_view::npos);
    const bool misbehaved = status.id() == "QR-L0114" || status.id() == "QR-L0115";
    CHECK_EQ(environment.logged.size(), misbehaved ? 1u : 0u);
    if (misbehaved && !environment.logged.empty()) CHECK_EQ(environment.logged[0].first, QR_LOG_PLUGIN_MISBEHAVES);
  }
  CHECK(skipped <= (geteuid() == 0 ? 1 : 0));
}

namespace {

struct Lie {
  std::string call, lie, error_id, message;
};
const Lie kLies[] = {
#define LIE(call, lie, rule, error_id, message) {#call, lie, error_id, message},
#include "lie_table.inc"
#undef LIE
};

struct Bench {
  std::shared_ptr<Plugin> plugin;
  qr_plugin_option option{};
  qr_plugin_bytes segment{"0123456789", 10};
  qr_plugin_graph graph{};
  const qr_plugin_graph *graphs[1] = {&graph};
  qr_plugin_memory_request memory{};
  qr_compile_request compile{};
  qr_load_request load{};
  qr_blob blob{};

  Bench(std::shared_ptr<Plugin> opened, const std::string &lie) : plugin(std::move(opened)) {
    option = {{"zoo-liar.lie", 12}, {lie.data(), lie.size()}};
    compile.struct_size = sizeof compile;
    graph.struct_size = sizeof graph;
    graph.segments = &segment;
    graph.segment_count = 1;
    compile.graphs = graphs;
    compile.graph_count = 1;
    memory.struct_size = sizeof memory;
    memory.size_bytes = lie == "registration NULL" ? 1 : lie == "memory NULL" ? 2 : 64;
    compile.options = &option;
    compile.option_count = 1;
    blob.struct_size = sizeof blob;
    blob.graph_count = 1;
    blob.version = static_cast<std::uint32_t>(std::atoi(lie.c_str()));
    load.struct_size = sizeof load;
    load.blob = &blob;
    load.options = &option;
    load.option_count = 1;
  }

  Status run(std::uint64_t room, bool with_data) {
    QR_ASSIGN_OR_RETURN(auto context, plugin->load(load));
    QR_ASSIGN_OR_RETURN(auto execution, context->create_execution(0, &option, 1, 0));
    const float x[4] = {1, 2, 3, 4};
    float y[4] = {};
    qr_io_buffer in{}, out{};
    in.data = const_cast<float *>(x);
    in.size_bytes = sizeof x;
    out.data = with_data ? y : nullptr;
    out.size_bytes = room;
    out.wanted = 1;
    qr_run_request request{};
    request.struct_size = sizeof request;
    request.inputs = &in;
    request.input_count = 1;
    request.outputs = &out;
    request.output_count = 1;
    QR_RETURN_IF_ERROR(execution->run(request));
    return std::memcmp(out.data, x, sizeof x) == 0 ? Status() : Status::error(ErrorId::internal, "wrong result");
  }

  Status call(const std::string &name) {
    if (name == "check") {
      Vector<Verdict> verdicts;
      QR_RETURN_IF_ERROR(plugin->check(compile, 1, verdicts));
      return verdicts[0].supported ? Status()
                                   : Status::foreign(QR_INTERNAL, verdicts[0].id, verdicts[0].reason, verdicts[0].hint);
    }
    if (name == "compile") return plugin->compile(compile).take_status();
    if (name == "grade") return plugin->grade(load).take_status();
    if (name == "load") return plugin->load(load).take_status();
    if (name == "run") return run(16, true);
    if (name == "run_no_room") return run(0, false);
    if (name == "run_little_room") return run(8, true);
    QR_ASSIGN_OR_RETURN(auto context, plugin->load(load));
    if (name == "allocate") return plugin->allocate(memory).take_status();
    return context->create_execution(0, &option, 1, 0).take_status();
  }
};

}  // namespace

TEST_CASE("every lie gets its message") {
  TestEnvironment environment;
  auto plugin = Plugin::open_file(environment, built("liar").string());
  REQUIRE_OK(plugin);
  for (const Lie &lie : kLies) {
    environment.logged.clear();
    const Status status = Bench(*plugin, lie.lie).call(lie.call);
    const std::string expected = (lie.error_id == "QR-L0115" ? "backend zoo-liar: " : "") + lie.message;
    if (status.id() != lie.error_id || status.message() != expected)
      FAIL_CHECK(lie.lie, ":\n  found    ", status.id(), " ", status.message(), "\n  expected ", lie.error_id, " ",
                 expected);
    CHECK_EQ(environment.logged.size(), lie.error_id == "QR-L0115" ? 1u : 0u);
  }
  // And without a lie everything passes.
  for (const char *call : {"check", "compile", "grade", "load", "run", "run_no_room", "allocate", "create"})
    CHECK_OK(Bench(*plugin, "").call(call));
}

// What a plugin may leave out, and what a call that needs it then gets.
TEST_CASE("slots that are not there") {
  TestEnvironment environment;
  auto plugin = Plugin::open_file(environment, built("loads-only").string());
  REQUIRE_OK(plugin);
  CHECK(!(*plugin)->has_compiler());
  Bench bench(*plugin, "");
  for (const char *call : {"check", "compile"}) {
    const Status status = bench.call(call);
    CHECK_EQ(status.id(), "QR-B0007");
    CHECK_EQ(status.message(),
             "backend zoo-loads-only: found no compiler, expected one: it runs what was compiled elsewhere");
  }
  for (const char *call : {"grade", "load", "run"}) CHECK_OK(bench.call(call));
  auto context = (*plugin)->load(bench.load);
  REQUIRE_OK(context);
  auto execution = (*context)->create_execution(0, nullptr, 0, 0);
  REQUIRE_OK(execution);
  const Status status = (*plugin)->recover(0, nullptr);
  CHECK_EQ(status.id(), "QR-R0008");
  CHECK_EQ(status.message(), "backend zoo-loads-only: found no way to bring a device back, expected one");
  CHECK_EQ(environment.logged.size(), 0u);  // leaving them out is no misbehaviour
}

TEST_CASE("zoo and tables agree") {
  // Every plugin of the folder is a row or is good; a fixture that nobody expects anything of proves nothing.
  for (const auto &entry : fs::directory_iterator(kZoo)) {
    const std::string id(id_of_file(entry.path().string()));
    if (id.empty() || id == "zoo-good" || id == "zoo-loads-only" || id == "zoo-liar" || id == "zoo-device-unusable")
      continue;
    bool found = false;
    for (const Row &row : kRows) {
      std::string dashed = row.name;
      for (char &c : dashed) c = c == '_' ? '-' : c;
      found = found || (row.is_built && "zoo-" + dashed == id);
    }
    if (!found) FAIL_CHECK(id, " has no row in zoo_table.inc");
  }
}

// ---- the loader over folders --------------------------------------------------------------------

TEST_CASE("scan lists every candidate") {
  TestEnvironment environment;
  const Scratch scratch;
  const fs::path first = scratch.path / "prvá zložka", second = scratch.path / "二";
  fs::create_directory(first), fs::create_directory(second);
  fs::copy(built("good"), first / "quarry-backend-zoo-good.so");
  fs::copy(built("good"), second / "quarry-backend-zoo-good.so");
  fs::copy(built("abi-major"), second / "quarry-backend-zoo-abi-major.so");
  fs::copy(built("device-unusable"), second / "quarry-backend-zoo-device-unusable.so");
  write_file(second / "README", "no candidate");
  write_file(second / "quarry-backend-.so", "no candidate either");
  const std::string path = first.string() + ":/nowhere:" + second.string();
  Loader loader(environment, {path, true});
  CHECK_EQ(loader.search_path().size(), 3u);
  CHECK_EQ(std::string_view(loader.search_path()[0].origin), "option");
  const Vector<Candidate> found = loader.scan();
  std::vector<std::string> lines;
  for (const Candidate &candidate : found)
    if (!candidate.path.empty())
      lines.push_back(std::string(candidate.id) + "|" + std::string(candidate.error_id) + "|" +
                      std::string(candidate.version) + "|" + std::string(candidate.verdict));
  const std::vector<std::string> expected = {
      "zoo-good||1.0|usable, 1 device: copies four floats",
      "zoo-abi-major|QR-L0107|1.0|" + second.string() +
          "/quarry-backend-zoo-abi-major.so: plugin ABI major found 2, expected 0",
      "zoo-device-unusable|QR-B0006|1.0|no device can be used: zoo device: found no /dev/zoo, expected one",
      "zoo-good|QR-L0118||" + second.string() + "/quarry-backend-zoo-good.so: shadowed by " + first.string() +
          "/quarry-backend-zoo-good.so, which comes first",
  };
  CHECK_EQ(lines.size(), expected.size());
  for (std::size_t i = 0; i < lines.size() && i < expected.size(); ++i) CHECK_EQ(lines[i], expected[i]);

  auto opened = loader.open("zoo-good");
  REQUIRE_OK(opened);
  CHECK_EQ((*opened)->path(), (first / "quarry-backend-zoo-good.so").string());
  auto again = loader.open("zoo-good");
  REQUIRE_OK(again);
  CHECK(again->get() == opened->get());
  CHECK_EQ(loader.open("zoo-abi-major").status().id(), "QR-L0107");
  const Status missing = loader.open("zoo-nobody").take_status();
  CHECK_EQ(missing.id(), "QR-L0001");
  CHECK(missing.message().find("zoo-abi-major, zoo-device-unusable, zoo-good in " + first.string()) !=
        std::string_view::npos);
  for (const char *bad : {"", "../zoo-good", "Zoo", "-zoo", "a-very-long-name-of-thirty-two-by"})
    CHECK_EQ(loader.open(bad).status().id(), "QR-L0001");
}

TEST_CASE("environment path") {
  TestEnvironment environment;
  setenv("QUARRY_BACKEND_PATH", kZoo.c_str(), 1);
  Loader with(environment, {"", false});
  Loader without(environment, {"", true});
  unsetenv("QUARRY_BACKEND_PATH");
  REQUIRE_EQ(with.search_path().size(), 2u);
  CHECK_EQ(with.search_path()[0].path, kZoo.string());
  CHECK_EQ(std::string_view(with.search_path()[0].origin), "environment");
  CHECK_EQ(std::string_view(with.search_path()[1].origin), "built in");
  CHECK_EQ(without.search_path().size(), 0u);
  CHECK_OK(with.open("zoo-good"));
}

TEST_CASE("folders of the library") {
  TestEnvironment environment;
  const Scratch scratch;
  const fs::path library = scratch.path / "lib", tree = scratch.path / "build" / "runtime";
  fs::create_directories(library / "quarry" / "backends"), fs::create_directories(scratch.path / "backends" / "good");
  fs::create_directories(tree), fs::create_directories(tree / ".." / "backends" / "empty"),
      fs::create_directories(tree / ".." / "backends" / "good");
  fs::copy(built("good"), library / "quarry" / "backends" / "quarry-backend-zoo-good.so");
  // Above an installed library nothing is looked at, whatever is there.
  fs::copy(built("device-unusable"), scratch.path / "backends" / "good" / "quarry-backend-zoo-device-unusable.so");
  fs::copy(built("good"), scratch.path / "build" / "backends" / "good" / "quarry-backend-zoo-good.so");
  write_file(tree / "quarry-build-tree.txt", "");
  const auto searched = [&](const LoaderOptions &options) {
    std::string text;
    const Loader loader(environment, options);
    for (const Folder &folder : loader.search_path()) {
      const fs::path relative = fs::path(std::string(folder.path)).lexically_relative(scratch.path);
      text += std::string(folder.origin) +
              (std::string_view(folder.origin) == "built in" ? "" : " " + relative.string()) + "; ";
    }
    return text;
  };
  const std::string installed = library.string(), building = tree.string(),
                    given = (library / "quarry" / "backends").string();
  CHECK_EQ(searched({"", false, installed}), "beside libquarry lib/quarry/backends; built in; ");
  CHECK_EQ(searched({"", false, building}), "build tree build/backends/good; built in; ");
  CHECK_EQ(searched({given, false, installed}), "option lib/quarry/backends; built in; ");  // once, at its first place
  CHECK_EQ(searched({"", true, building}), "");
  CHECK_EQ(searched({"", false, "lib"}), "built in; ");  // a relative name means another folder after chdir
  Loader loader(environment, {"", false, building});
  CHECK_OK(loader.open("zoo-good"));
}

TEST_CASE("open by file") {
  TestEnvironment environment;
  Loader loader(environment, {"", true});
  CHECK_OK(loader.open_file(built("good").string()));
  CHECK_EQ(loader.open_file("").status().id(), "QR-C0007");
  CHECK_EQ(loader.open_file(std::string_view("a\0b", 3)).status().id(), "QR-C0007");
  // A bare name is a file of this folder, never one of the library path.
  const Status bare = loader.open_file("quarry-backend-zoo-none.so").take_status();
  CHECK_EQ(bare.message(), (fs::current_path() / "quarry-backend-zoo-none.so").string() +
                               ": cannot be opened: No such file or directory");
}

// ---- the note reader on damaged bytes -----------------------------------------------------------

TEST_CASE("note reader survives truncation") {
  const std::string good = read_file(built("good"));
  const PluginNote whole = read_elf_note(MemorySource(good.data(), good.size()), "good").value();
  CHECK_EQ(whole.id, "zoo-good");
  for (std::size_t size = 0; size < good.size(); size += size < 8192 ? 1 : 61) {
    const std::vector<char> exact(good.begin(),
                                  good.begin() + static_cast<std::ptrdiff_t>(size));  // asan sees a read past the end
    auto note = read_elf_note(MemorySource(exact.data(), exact.size()), "cut");
    if (note.ok()) CHECK_EQ(note->id, "zoo-good");  // what was cut off is no segment: section headers, symbols
  }
}

TEST_CASE("note reader survives flips") {
  const std::string good = read_file(built("good"));
  const auto segment = note_segment(good);
  const std::size_t headers = sizeof(Elf64_Ehdr) + get<Elf64_Ehdr>(good, 0).e_phnum * sizeof(Elf64_Phdr);
  std::uint64_t state = 1;
  const auto random = [&] { return state = state * 6364136223846793005u + 1442695040888963407u, state >> 33; };
  std::vector<char> bytes(good.begin(), good.end());
  for (int round = 0; round < 20000; ++round) {
    const int flips = 1 + static_cast<int>(random() % 4);
    std::size_t at[4];
    for (int i = 0; i < flips; ++i) {
      at[i] = random() % 2 ? random() % headers : segment.p_offset + random() % segment.p_filesz;
      bytes[at[i]] = static_cast<char>(random());
    }
    auto note = read_elf_note(MemorySource(bytes.data(), bytes.size()), "flipped");
    if (!note.ok()) CHECK(!note.status().message().empty());
    for (int i = 0; i < flips; ++i) bytes[at[i]] = good[at[i]];
  }
}

TEST_CASE("check_compatibility lists every pair") {
  PluginNote note;
  note.abi_major = 1;
  note.abi_minor = 3;
  note.abi_minor_min = 2;
  note.id = "x";
  note.target = "aarch64-linux";
  note.flavour = QR_PLUGIN_FLAVOUR_ASAN | QR_PLUGIN_FLAVOUR_TSAN | 64;
  const Status status = check_compatibility(note, "/p/quarry-backend-y.so", {1, 5, 6, 0, "x86_64-linux"});
  CHECK_EQ(status.id(), "QR-L0117");
  CHECK_EQ(status.message(),
           "/p/quarry-backend-y.so: target found aarch64-linux, expected x86_64-linux; plugin ABI minor found 3, "
           "expected at least 5; "
           "sanitizers found address+thread+0x40, expected none; id found \"x\", expected \"y\" as in the file's name");
  note.id = "y";
  note.target = "x86_64-linux";
  note.flavour = 0;
  // Built against a newer minor, but content with an older one.
  CHECK_OK(check_compatibility(note, "quarry-backend-y.so", {1, 1, 2, 0, "x86_64-linux"}));
  CHECK_OK(check_compatibility(note, "quarry-backend-y.so", {1, 3, 3, 0, "x86_64-linux"}));
  CHECK_EQ(check_compatibility(note, "quarry-backend-y.so", {1, 0, 1, 0, "x86_64-linux"}).id(), "QR-L0108");
}

TEST_CASE("a plugin for another C library") {
  CHECK_EQ(HostFacts().target.substr(HostFacts().target.rfind('-') + 1), QR_PLUGIN_BUILD_LIBC);
#if defined(__GLIBC__)
  CHECK_EQ(std::string_view(QR_PLUGIN_BUILD_LIBC), "glibc");
#endif
  PluginNote note;
  note.abi_major = note.abi_minor = note.abi_minor_min = 1;
  note.id = "y", note.flavour = 0;
  const auto judged = [&](const char *found, const char *host) {
    note.target = found;
    return check_compatibility(note, "quarry-backend-y.so", {1, 1, 2, 0, host});
  };
  const Status musl = judged("x86_64-linux-musl", "x86_64-linux-glibc");
  CHECK_EQ(musl.id(), "QR-L0117");
  CHECK_EQ(musl.message(), "quarry-backend-y.so: target found x86_64-linux-musl, expected x86_64-linux-glibc");
  CHECK_EQ(musl.hint(),
           "build the plugin with the C library of this system (x86_64-linux-glibc), or install one that was");
  CHECK_EQ(judged("aarch64-android-bionic", "aarch64-linux-glibc").hint(), "install the plugin built for this system");
  CHECK_EQ(judged("x86_64-linux", "x86_64-linux-glibc").id(), "QR-L0117");  // of before the C library was stated
  CHECK_OK(judged("x86_64-windows-msvc", "x86_64-windows-msvc"));
}
