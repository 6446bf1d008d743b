// SPDX-License-Identifier: Apache-2.0
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/clock.h"
#include "base/os/event.h"
#include "base/os/library.h"
#include "base/os/file.h"
#include "base/os/mapping.h"
#include "base/os/path.h"
#include "base/os/process.h"
#include "base/os/shared_memory.h"
#include "base/os/thread.h"
#include "base/os/wait.h"
#include "tests/support/check.h"

namespace quarry::os {
namespace {

TEST_CASE("the file that an address lies in, as an absolute path") {
  static const int here = 0;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  CHECK_EQ(file_of(&here), self.string());
  int nowhere = 0;  // on the stack, which is of no file
  CHECK_EQ(file_of(&nowhere), "");
  CHECK_EQ(file_of(nullptr), "");
  if (std::getenv("QR_STARTED_BY_RELATIVE_NAME")) return;
  // The dynamic linker calls it "./name" then.
  const std::string again = "cd " + self.parent_path().string() + " && QR_STARTED_BY_RELATIVE_NAME=1 ./" +
                            self.filename().string() + " --test-case='the file that an address*' > /dev/null";
  CHECK_EQ(std::system(again.c_str()), 0);
}

TEST_CASE("libraries are opened by name or path, and what they export is found") {
  void *const library = open_library("libm.so.6");
  REQUIRE(library);
  double (*cosine)(double) = nullptr;
  find_symbol(library, "cos", cosine);
  REQUIRE((cosine != nullptr));
  CHECK_EQ(cosine(0.5), std::cos(0.5));
  CHECK_FALSE(find_symbol(library, "qr_no_such_function"));
  const String file = file_of(reinterpret_cast<const void *>(cosine));
  CHECK_EQ(file[0], '/');
  CHECK(open_library(file.c_str()));

  bool is_listed = false;
  std::pair<const String &, bool &> looked_for(file, is_listed);
  for_each_library(
      [](void *self, std::string_view one) {
        const auto &[wanted, found] = *static_cast<decltype(looked_for) *>(self);
        found |= std::filesystem::equivalent(one.starts_with('/') ? one : "/", wanted.c_str());
      },
      &looked_for);
  CHECK(is_listed);

  CHECK_FALSE(open_library("/nowhere/libnothing.so"));
  CHECK_NE(library_error().find("/nowhere/libnothing.so"), String::npos);
}

TEST_CASE("what Android's linker refuses for want of a line in the manifest has that line") {
  const auto line_of = [](std::string_view why) {
    const String told = with_manifest_line(why);
    CHECK(told.starts_with(why));
    const std::size_t at = told.find("android:name=\"");
    return at == String::npos ? String() : told.substr(at + 14, told.find('"', at + 14) - at - 14);
  };
  CHECK_EQ(line_of("dlopen failed: library \"libcdsprpc.so\" not found"), "libcdsprpc.so");
  CHECK_EQ(line_of("dlopen failed: library \"/vendor/lib64/libOpenCL.so\" needed or dlopened by "
                   "\"/data/app/x/lib/arm64/libquarry-backend-gpu.so\" is not accessible for the namespace "
                   "\"classloader-namespace\""),
           "libOpenCL.so");
  // What the app is to bring, and what is another trouble.
  for (const char *const why :
       {"dlopen failed: library \"libquarry.so\" not found: needed by /data/app/x/lib/arm64/libquarry-jni.so",
        "dlopen failed: library \"libQnnHtpV75Stub.so\" not found", "dlopen failed: \"/x/libOpenCL.so\" is too small",
        "dlopen failed: cannot locate symbol \"x\" referenced by \"/x/libOpenCL.so\"...", ""})
    CHECK_EQ(line_of(why), "");
}

TEST_CASE("files are known from each other, read to their end, and folders listed") {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / ("qr-os-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder / "inner");
  std::ofstream(folder / "a") << "0123456789";
  std::ofstream(folder / ".hidden") << "";
  const OpenFd opened = open_folder(folder.c_str());
  REQUIRE(opened.get() >= 0);
  const OpenFd file = open_file("a", opened.get());
  FileInfo here, there;
  CHECK(get_info(file.get(), &here));
  CHECK(get_info("a", &there, opened.get()));
  CHECK(here.kind == FileKind::Regular);
  CHECK_EQ(here.size, 10);
  CHECK((here.device == there.device && here.number == there.number));
  CHECK(get_info("inner", &there, opened.get()));
  CHECK(there.kind == FileKind::Folder);
  CHECK(there.number != here.number);
  CHECK_FALSE(get_info("nothing", &there, opened.get()));
  CHECK_EQ(errno, ENOENT);

  char text[11] = "";
  CHECK_EQ(read_at(file.get(), text, 4, 6), 0);
  CHECK_EQ(std::string(text), "6789");
  CHECK_EQ(read_at(file.get(), text, 5, 6), kFileEnded);
  CHECK_EQ(read_at(opened.get(), text, 1, 0), EBADF);
  CHECK_EQ(duplicate(-1).get(), -1);

  std::string names;
  CHECK_EQ(for_each_name(folder.c_str(), [&](const char *name) { names += std::string(name).substr(0, 1); }), 0);
  CHECK((names == "ai" || names == "ia"));
  CHECK_EQ(for_each_name((folder / "nothing").c_str(), [](const char *) {}), ENOENT);
  CHECK(allows((folder / "a").c_str(), Access::ReadAndWrite));
  remove_file((folder / "a").c_str());
  CHECK_FALSE(allows((folder / "a").c_str(), Access::Exists));
  std::filesystem::remove_all(folder);
}

TEST_CASE("shared memory has its size, and both mappings the same bytes; a child of fork() finds its page zeroed") {
  const OpenFd memory = make_shared_memory("qr-test", 3 * page_size());
  std::uint64_t size = 0;
  CHECK(get_size(memory.get(), &size));
  CHECK_EQ(size, 3 * page_size());
  auto *const to = static_cast<char *>(map_file(memory.get(), 0, size, MappedFor::Writing));
  auto *const from =
      static_cast<const char *>(map_file(memory.get(), page_size(), 2 * page_size(), MappedFor::Reading));
  REQUIRE(to);
  REQUIRE(from);
  to[page_size()] = 'q';
  CHECK_EQ(from[0], 'q');
  CHECK_FALSE(map_file(memory.get(), 1, 1, MappedFor::Reading));
  int ends[2];
  REQUIRE_EQ(pipe(ends), 0);
  CHECK_FALSE(get_size(ends[0], &size));

  auto *const mark = static_cast<int *>(make_page_zeroed_by_fork());
  if (mark) *mark = 7;
  const std::uint32_t own = process_id();
  const pid_t child = fork();
  if (child == 0) _exit((!mark || *mark == 0) && to[page_size()] == 'q' && process_id() != own ? 0 : 1);
  int status = -1;
  CHECK_EQ(waitpid(child, &status, 0), child);
  CHECK_EQ(status, 0);
  if (mark) CHECK_EQ(*mark, 7);
  if (mark) free_page_zeroed_by_fork(mark);
  unmap(to, 3 * page_size());
  unmap(const_cast<char *>(from), 2 * page_size());
  close_descriptor(ends[0]), close_descriptor(ends[1]);
}

bool is_raised(EventHandle event) {
  pollfd one{event, POLLIN, 0};
  return poll(&one, 1, 0) == 1;
}

TEST_CASE("an event is raised, lowered, and a child of fork() has one of its own") {
  const EventHandle event = make_event(false), raised = make_event(true);
  REQUIRE_NE(event, kNoEvent);
  CHECK(is_raised(raised));
  CHECK_FALSE(is_raised(event));
  raise_event(event), raise_event(event);
  CHECK(is_raised(event));
  lower_event(event), lower_event(event);
  CHECK_FALSE(is_raised(event));

  const pid_t child = fork();
  if (child == 0) {
    const bool lowered = renew_event(raised) && !is_raised(raised);
    raise_event(raised);
    lower_event(raised);
    _exit(lowered && !is_raised(raised) ? 0 : 1);
  }
  int status = -1;
  CHECK_EQ(waitpid(child, &status, 0), child);
  CHECK_EQ(status, 0);
  CHECK(is_raised(raised));
  close_event(event), close_event(raised);
}

struct Seen {
  std::atomic<std::uint32_t> word{0};
  std::uint32_t thread = 0;
  sigset_t blocked{};
  char name[16] = "";
  std::size_t stack_bytes = 0;
};

TEST_CASE("a thread has a name and no signals, sleeps on a word, and may be pinned") {
  Seen seen;
  Thread thread;
  REQUIRE(start_thread(
      &thread, "qr-test",
      [](void *self) -> void * {
        Seen &out = *static_cast<Seen *>(self);
        while (out.word.load() == 0) wait_on(out.word, 0, 0);
        out.thread = current_thread_id();
        pthread_sigmask(SIG_SETMASK, nullptr, &out.blocked);
        pthread_getname_np(pthread_self(), out.name, sizeof out.name);
        pthread_attr_t attributes;
        if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
          pthread_attr_getstacksize(&attributes, &out.stack_bytes);
          pthread_attr_destroy(&attributes);
        }
        return nullptr;
      },
      &seen));
  const ProcessorSet usable = usable_processor_set();
  CHECK_EQ(usable_processors(), usable.any() ? usable.count() : usable_processors());
  pin_thread(thread, usable);
  seen.word.store(1);
  wake_all(seen.word);
  join_thread(thread);
  CHECK_GE(seen.stack_bytes, std::size_t{1} << 20);  // musl's own default is 128 kB
  CHECK_EQ(std::string(seen.name), "qr-test");
  CHECK_NE(seen.thread, current_thread_id());
  CHECK_EQ(sigismember(&seen.blocked, SIGINT), 1);
}

TEST_CASE("a sleep ends at its deadline, and does not begin where the word has changed") {
  const std::atomic<std::uint32_t> word{3};
  const std::uint64_t begun = now_ns();
  wait_on(word, 2, 0);
  while (now_ns() < begun + 20'000'000) wait_on(word, 3, begun + 20'000'000);
  CHECK(now_ns() < begun + 5'000'000'000);
}

}  // namespace
}  // namespace quarry::os
