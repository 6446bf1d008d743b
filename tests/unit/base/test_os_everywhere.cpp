// SPDX-License-Identifier: Apache-2.0
// What base/os promises on every system. Names have letters of several scripts: a system whose own names are in another
// code than UTF-8 must take them.
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/clock.h"
#include "base/new_file.h"
#include "base/os/child_process.h"
#include "base/os/console.h"
#include "base/os/file.h"
#include "base/os/file_lock.h"
#include "base/os/interrupt.h"
#include "base/os/library.h"
#include "base/os/mapping.h"
#include "base/os/path.h"
#include "base/os/process.h"
#include "base/os/processor.h"
#include "base/os/shared_memory.h"
#include "base/os/thread.h"
#include "base/os/trace_encoding.h"
#include "base/os/wait.h"
#include "base/os_error.h"
#include "base/paths.h"
#include "tests/support/check.h"

namespace fs = std::filesystem;

namespace quarry::os {
namespace {

constexpr const char *kName = "Größe-тест-模型";

fs::path system_path(const String &path) {
  return fs::path(std::u8string(reinterpret_cast<const char8_t *>(path.data()), path.size()));
}

// A folder of the test's own, gone afterwards.
struct Scratch {
  String path;
  Scratch() {
    const auto text = (fs::temp_directory_path() / ("quarry-os-" + std::to_string(process_id()))).generic_u8string();
    path = String(reinterpret_cast<const char *>(text.data()), text.size());
    fs::create_directories(system_path(path));
  }
  ~Scratch() {
    std::error_code ignored;
    fs::remove_all(system_path(path), ignored);
  }
  String operator/(std::string_view name) const { return path + "/" + String(name); }
};

std::string content_of(const String &path) {
  const OpenFd file = open_file(path.c_str());
  FileInfo info;
  if (file.get() < 0 || !get_info(file.get(), &info)) return "not there";
  std::string out(info.size, ' ');
  return read_at(file.get(), out.data(), out.size(), 0) == 0 ? out : "not read";
}

TEST_CASE("files and folders by names in UTF-8") {
  const Scratch scratch;
  const String file = scratch / kName;
  CHECK_OK(write_file(file, "0123456789"));
  CHECK(fs::exists(system_path(file)));  // under this name, not under its bytes in another code
  CHECK_EQ(content_of(file), "0123456789");

  FileInfo info, folder;
  REQUIRE(get_info(file.c_str(), &info));
  CHECK((info.kind == FileKind::Regular));
  CHECK_EQ(info.size, 10);
  REQUIRE(get_info(scratch.path.c_str(), &folder));
  CHECK((folder.kind == FileKind::Folder));

  const OpenFd opened = open_folder(scratch.path.c_str());
  REQUIRE(opened.get() >= 0);
  FileInfo again;
  REQUIRE(get_info(open_file(kName, opened.get()).get(), &again));
  CHECK((again.device == info.device && again.number == info.number));
  CHECK((get_info(kName, &again, opened.get()) && again.number == info.number));

  std::string names;
  CHECK_EQ(for_each_name(scratch.path.c_str(), [&](const char *name) { names += std::string(name) + "|"; }), 0);
  CHECK_EQ(names, std::string(kName) + "|");
  remove_file(file.c_str());
  CHECK_EQ(open_file(file.c_str()).get(), -1);
  CHECK_EQ(errno, ENOENT);
  CHECK((os_error_id(errno, ErrorId::io_error) == ErrorId::file_not_found));
  CHECK_FALSE(os_error_text(errno).empty());
}

TEST_CASE("a path that is longer than 260 letters") {
  const Scratch scratch;
  String folder = scratch.path;
  for (int i = 0; i < 8; ++i) folder += "/a folder whose name is forty letters long";
#if defined(_WIN32)
  fs::create_directories(system_path("//?/" + folder).make_preferred());
#else
  fs::create_directories(system_path(folder));
#endif
  const String file = folder + "/" + kName;
  REQUIRE(file.size() > 350);
  CHECK_OK(write_file(file, "far away"));
  CHECK_EQ(content_of(file), "far away");
  CHECK((allows(file.c_str(), Access::ReadAndWrite) && allows(folder.c_str(), Access::Enter)));
  std::string names;
  CHECK_EQ(for_each_name(folder.c_str(), [&](const char *name) { names += name; }), 0);
  CHECK_EQ(names, kName);
  remove_file(file.c_str());
  CHECK_FALSE(allows(file.c_str(), Access::Exists));
#if defined(_WIN32)
  for (; folder != scratch.path; folder.resize(folder.rfind('/')))
    fs::remove(system_path("//?/" + folder).make_preferred());
#endif
}

TEST_CASE("a file is read at an offset, to its end and no further") {
  const Scratch scratch;
  const String file = scratch / "numbers";
  CHECK_OK(write_file(file, "0123456789"));
  const OpenFd opened = open_file(file.c_str()), copy = duplicate(opened.get(), 20);
  CHECK(copy.get() >= 20);
  char room[8] = {};
  CHECK_EQ(read_at(copy.get(), room, 3, 4), 0);
  CHECK_EQ(std::string(room), "456");
  CHECK_EQ(read_at(copy.get(), room, 3, 8), kFileEnded);
  CHECK_EQ(read_at(copy.get(), room, 0, 10), 0);
  CHECK_EQ(duplicate(-1).get(), -1);
}

TEST_CASE("a new file takes the place of the old one as a whole, or leaves it") {
  const Scratch scratch;
  const String path = scratch / kName;
  CHECK_OK(write_file(path, "old"));
  {
    NewFile left;
    REQUIRE_OK(left.open(path));
    REQUIRE_OK(left.write("half of", 7));
  }
  CHECK_EQ(content_of(path), "old");
  NewFile file;
  REQUIRE_OK(file.open(path));
  const std::string tail(100'000, '\0');
  REQUIRE_OK(file.write("new", 3));
  REQUIRE_OK(file.write(tail.data(), tail.size()));
  REQUIRE_OK(file.zeros(5));
  CHECK_EQ(content_of(path), "old");
  REQUIRE_OK(file.close(NewFile::Outlasts::Disk));
  REQUIRE_OK(file.put_in_place());
  CHECK_EQ(content_of(path), "new" + tail + std::string(5, '\0'));

  std::string names;
  for (const auto &entry : fs::directory_iterator(system_path(scratch.path)))
    names += entry.path().extension().string() + "|";
  CHECK_EQ(names, "|");  // nothing beside it
  CHECK_FALSE(NewFile().open(scratch / "no such folder/x").ok());
  CHECK_FALSE(NewFile().open(scratch.path).ok());
}

TEST_CASE("files that belong together are there together") {
  const Scratch scratch;
  CHECK_OK(write_file(scratch / "a", "old a"));
  NewFiles files;
  for (const char *const name : {"a", "b"}) {
    auto added = files.add(scratch / name);
    REQUIRE_OK(added);
    REQUIRE_OK((*added)->write(name, 1));
  }
  CHECK_OK(files.put_in_place(NewFile::Outlasts::Process));
  CHECK_EQ(content_of(scratch / "a") + content_of(scratch / "b"), "ab");
}

TEST_CASE("a part of a file, and memory that is shared, are mapped") {
  const Scratch scratch;
  const std::size_t page = page_size();
  const std::string content = std::string(page, 'a') + std::string(100, 'b');
  CHECK_OK(write_file(scratch / "two", content));
  const OpenFd file = open_file((scratch / "two").c_str());
  void *const part = map_file(file.get(), page, 100, MappedFor::Reading);
  REQUIRE(part);
  CHECK_EQ(std::string(static_cast<const char *>(part), 100), std::string(100, 'b'));
  unmap(part, 100);

  const OpenFd memory = make_shared_memory("a test", 3 * page);
  REQUIRE(memory.get() >= 0);
  std::uint64_t size = 0;
  CHECK((get_size(memory.get(), &size) && size == 3 * page));
  auto *const one = static_cast<char *>(map_file(memory.get(), 0, 3 * page, MappedFor::Writing));
  auto *const other = static_cast<char *>(map_file(memory.get(), page, page, MappedFor::Writing));
  REQUIRE((one && other));
  CHECK_EQ(one[page], '\0');
  one[page] = 'x';
  CHECK_EQ(other[0], 'x');
  unmap(one, 3 * page);
  unmap(other, page);
}

TEST_CASE("a lock is one descriptor's at a time") {
  const Scratch scratch;
  const String path = scratch / "lock";
  const OpenFd one = open_lock(path.c_str()), other = open_lock(path.c_str());
  CHECK((try_lock(one.get()) == LockTaken::Yes));
  CHECK((try_lock(other.get()) == LockTaken::Busy));
  unlock(one.get());
  CHECK((try_lock(other.get()) == LockTaken::Yes));
}

TEST_CASE("names of paths, and absolute ones") {
  CHECK_EQ(last_separator("a/b/c"), 3);
  CHECK((last_separator("abc") == std::string_view::npos));
  CHECK((leads_up("..") && !leads_up(".") && !leads_up("..a") && !leads_up("")));
  CHECK((is_separator('/') && !fits_name('/') && fits_name('a') && fits_name(' ')));
  const String here = working_folder();
  CHECK(is_absolute(here));
  CHECK_EQ(absolute_path("./x"), here + (here.ends_with('/') ? "x" : "/x"));
  CHECK_EQ(absolute_path(here), here);
#if defined(_WIN32)
  CHECK_EQ(last_separator("a\\b/c\\d"), 5);
  CHECK_EQ(last_separator("C:x"), 1);
  CHECK((is_absolute("C:\\x") && is_absolute("//server/share") && is_absolute("\\\\server\\share")));
  CHECK_FALSE((is_absolute("C:x") || is_absolute("/x") || is_absolute("x")));
  // Dots and spaces at a name's end are none of it for Windows.
  CHECK((leads_up(".. ") && leads_up("...") && !leads_up(". ") && !leads_up("..a.")));
  CHECK((is_separator('\\') && !fits_name('\\') && !fits_name(':') && !fits_name('\n')));
#else
  CHECK((!leads_up(".. ") && !is_separator('\\') && fits_name('\\') && fits_name(':') && fits_name('\n')));
#endif
}

TEST_CASE("the file that an address lies in, and a library that is not there") {
  static const int here = 0;
  const String self = file_of(&here);
  CHECK(is_absolute(self));
  CHECK((self.find("test-os-everywhere") != String::npos));
  int nowhere = 0;  // on the stack
  CHECK_EQ(file_of(&nowhere), "");
  CHECK_FALSE(open_library("./no such library"));
  CHECK_FALSE(library_error().empty());
}

TEST_CASE("a variable of the environment is set for this process") {
  String room;
  CHECK(set_variable("QUARRY_TEST_VARIABLE", "Größe"));
  CHECK_EQ(std::string_view(variable("QUARRY_TEST_VARIABLE", room)), "Größe");
  CHECK(set_variable("QUARRY_TEST_VARIABLE", "2"));
  CHECK_EQ(std::string_view(variable("QUARRY_TEST_VARIABLE", room)), "2");
}

TEST_CASE("threads run, are pinned, and sleep until a word changes") {
  CHECK((usable_processors() >= 1 && usable_processor_set().count() >= 1));
  CHECK(memory_bytes() > 1u << 20);
  char room[4096];
  CHECK_FALSE((processor_model(room).empty() && processor_kind(room).empty()));
  struct Shared {
    std::atomic<std::uint32_t> word{0};
    std::uint32_t thread = 0;
  } shared;
  Thread thread;
  const auto body = [](void *given) -> void * {
    auto *const to = static_cast<Shared *>(given);
    to->thread = current_thread_id();
    to->word.store(1, std::memory_order_release);
    wake_all(to->word);
    return nullptr;
  };
  REQUIRE(start_thread(&thread, "quarry-test", body, &shared));
  pin_thread(thread, usable_processor_set());
  while (shared.word.load(std::memory_order_acquire) == 0) wait_on(shared.word, 0, now_ns() + 1'000'000'000);
  join_thread(thread);
  CHECK((shared.thread != 0 && shared.thread != current_thread_id()));

  const std::uint64_t before = now_ns();
  wait_on(shared.word, 1, before + 30'000'000);  // it may return early, but not wait for ever
  CHECK(now_ns() - before < 10'000'000'000);
  wait_on(shared.word, 0, 0);  // it is another one already
}

// Everything that it sends until its end.
std::string all_of(ChildProcess &child) {
  std::string out;
  char room[4096];
  const std::uint64_t give_up = now_ns() + 30'000'000'000;
  while (now_ns() < give_up) {
    if (!child.wait(kNoEvent, 100)) continue;
    const std::ptrdiff_t count = child.receive(room, sizeof room);
    if (count == 0) return out;
    if (count > 0) out.append(room, static_cast<std::size_t>(count));
  }
  return out + " (no end)";
}

TEST_CASE("a child process: its words, descriptors, stream and end") {
  const Scratch scratch;
  CHECK_OK(write_file(scratch / "for the child", "content"));
  const OpenFd file = open_file((scratch / "for the child").c_str()), high = duplicate(file.get(), 16);
  const String program = QR_CHILD;
  const Inherited inherited[] = {{high.get(), 4}};
  const auto words = [&](const char *order) {
    return Vector<String>{program, order, "with space", kName, "quote\" and \\\\\"back\\", ""};
  };
  const std::string told = std::string("with space|") + kName + "|quote\" and \\\\\"back\\||content";
  {
    ChildProcess child;
    REQUIRE_EQ(child.start(words("end"), scratch.path, inherited, 3), 0);
    CHECK_EQ(all_of(child), told);
    CHECK_EQ(child.how_it_ended(5000), "ended with exit status 7");
  }
  {
    ChildProcess child;
    REQUIRE_EQ(child.start(words("much"), scratch.path, inherited, 3), 0);
    CHECK_EQ(all_of(child).size(), told.size() + (1 << 20));
  }
  {
    ChildProcess child;
    REQUIRE_EQ(child.start(words("wait"), scratch.path, {}, 3), 0);
    char room[256];
    while (!child.wait(kNoEvent, 100) || child.receive(room, sizeof room) < 0) {
    }
    child.hang_up();
    CHECK_EQ(all_of(child), "");
    CHECK_EQ(child.how_it_ended(5000), "ended with exit status 7");
  }
  {
    const std::uint64_t before = now_ns();
    {
      ChildProcess child;  // ended with the object
      REQUIRE_EQ(child.start(words("stay"), scratch.path, {}, 3), 0);
    }
    CHECK(now_ns() - before < 20'000'000'000);
  }
  ChildProcess none;
  const String nothing[] = {program + "-that-is-not-there"};
  CHECK_EQ(none.start(nothing, scratch.path, {}, 3), ENOENT);
  CHECK_FALSE(begin_as_child(250));  // no stream
}

TEST_CASE("a program: its scratch folder, its memory, its machine, its streams") {
  String place;
  const String folder = make_scratch_folder(&place);
  REQUIRE(!folder.empty());
  CHECK(folder.starts_with(place));
  CHECK(make_scratch_folder(&place) != folder);
  const String inside = folder + "/" + kName;
  CHECK_EQ(make_folder(inside.c_str()), 0);
  CHECK_EQ(make_folder(inside.c_str()), EEXIST);
  CHECK_EQ(make_folder((folder + "/not there/inside").c_str()), ENOENT);
  FileInfo info;
  REQUIRE(get_info(inside.c_str(), &info));
  CHECK(info.kind == FileKind::Folder);

  const String file = inside + "/bytes";
  CHECK_OK(write_file(file,
                      "a\r\nb\x1a"
                      "c"));
  std::FILE *const stream = open_stream(file.c_str());
  REQUIRE(stream != nullptr);
  char bytes[16];
  CHECK_EQ(std::string_view(bytes, std::fread(bytes, 1, sizeof bytes, stream)),
           "a\r\nb\x1a"
           "c");
  CHECK_FALSE(is_terminal(fileno(stream)));
  CHECK_EQ(terminal_columns(fileno(stream)), 0);
  std::fclose(stream);
  CHECK(open_stream((file + " not there").c_str()) == nullptr);
  fs::remove_all(fs::path(std::u8string(folder.begin(), folder.end())));

  const PeakMemory before = peak_memory();
  CHECK(before.bytes > 1 << 20);
  {
    const Vector<char> much(64 << 20, 1);
    CHECK_EQ(much[much.size() / 2], 1);
  }
  CHECK(peak_memory().bytes >= before.bytes + (48 << 20));
  CHECK(std::string_view(before.source) != "none");
  CHECK(processor_count() >= usable_processors());
  char room[256];
  CHECK(system_name(room).size() > 5);
  CHECK(!processor_kind(room).empty());
}

// By the layout that readers of such events know; only a listener of Windows' could read them back.
TEST_CASE("events of tracing describe themselves, and without a listener nothing is written") {
  const auto is = [](const TraceDescription &made, std::string_view expected) {
    return std::string_view(made.data(), made.size()) == expected;
  };
  using namespace std::string_view_literals;
  CHECK(is(TraceDescription("Quarry"), "\x09\0Quarry\0"sv));
  CHECK(is(TraceDescription("Log", {}), "\x07\0\0Log\0"sv));
  CHECK(is(TraceDescription("Log", {{"Topic", "session"}, {"N", std::uint64_t{5}}}),
           "\x12\0\0Log\0Topic\0\x97\x23N\0\x0a"sv));
  CHECK_EQ(TraceDescription(std::string(253, 'x').c_str(), {}).size(), 0u);
  CHECK_EQ(TraceDescription(std::string(252, 'x').c_str(), {}).size(), 256u);
  CHECK(!is_traced(2, TraceKeyword::Log));
  trace("Log", 2, TraceKeyword::Log, {{"Topic", std::string(70000, 'x')}, {"Message", ""}, {"N", std::uint64_t{1}}});
}

TEST_CASE("Ctrl-C: who waits for it can be let go, and its number has a name") {
  begin_noting_interrupts();
  release_interrupt_waiter();
  await_interrupt();
  end_noting_interrupts();
  CHECK_EQ(noted_interrupt(), 0);
  CHECK(std::string_view(interrupt_name(0)).starts_with("no "));
}

}  // namespace
}  // namespace quarry::os
