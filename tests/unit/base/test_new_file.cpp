// SPDX-License-Identifier: Apache-2.0
// The one writer of files: what is there afterwards, whatever was at the place and whatever goes wrong.
#include "base/new_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <functional>
#include <thread>

#include "tests/support/check.h"
#include "tests/unit/qrm/folder.h"

namespace quarry {
namespace {

namespace fs = std::filesystem;
using test::Folder;
using Naming = NewFile::Naming;
using Outlasts = NewFile::Outlasts;

std::string contents(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(in)), {});
}
void save(const std::string &path, const std::string &text) { std::ofstream(path, std::ios::binary) << text; }

struct stat status_of(const std::string &path) {
  struct stat info {};
  REQUIRE_EQ(::lstat(path.c_str(), &info), 0);
  return info;
}
unsigned mode_of(const std::string &path) { return status_of(path).st_mode & 07777; }

Status write(const std::string &path, const std::string &text, Naming naming = Naming::Late) {
  NewFile file({}, naming);
  QR_RETURN_IF_ERROR(file.open(path));
  QR_RETURN_IF_ERROR(file.write(text.data(), text.size()));
  QR_RETURN_IF_ERROR(file.close(Outlasts::Disk));
  return file.put_in_place();
}

// In another process, whose mask, user and limits may change: what `body` answers.
int in_child(const std::function<int()> &body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  REQUIRE_EQ(::waitpid(child, &status, 0), child);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

TEST_CASE("a file without a name until it is whole") {
  const Folder folder;
  const std::string path = folder.file("new");
  for (const Naming naming : {Naming::Late, Naming::Early})
    for (const bool replaces : {false, true}) {
      fs::remove(path);
      if (replaces) save(path, "old");
      for (const bool closes : {false, true}) {
        {
          NewFile given_up({}, naming);
          CHECK_OK(given_up.open(path));
          CHECK_OK(given_up.write("half", 4));
          if (closes) CHECK_OK(given_up.close(Outlasts::Process));
          if (naming == given_up.naming())
            CHECK_EQ(folder.count(), std::size_t{replaces} + std::size_t{naming == Naming::Early});
          else std::printf("no nameless files in %s: not tested\n", path.c_str());
        }
        CHECK_EQ(folder.count(), std::size_t{replaces});
      }
      NewFile file({}, naming);
      CHECK_OK(file.open(path));
      CHECK_OK(file.write("all ", 4));
      CHECK_OK(file.zeros(2));
      CHECK_OK(file.write("of it", 5));
      CHECK_OK(file.close(Outlasts::Disk));
      CHECK_EQ(contents(path), replaces ? "old" : "");
      CHECK_OK(file.put_in_place());
      CHECK_EQ(contents(path), std::string("all \0\0of it", 11));
      CHECK_EQ(folder.count(), 1u);
    }
}

TEST_CASE("long runs of zeros are holes, and read as zeros") {
  const Folder folder;
  std::string text(1 << 20, '\0');
  text[0] = 'a', text[700000] = 'b';
  CHECK_OK(write(folder.file("holes"), text));
  CHECK_EQ(contents(folder.file("holes")), text);
  CHECK_OK(write(folder.file("zeros"), std::string(1 << 20, '\0')));
  CHECK_EQ(fs::file_size(folder.file("zeros")), 1u << 20);
}

TEST_CASE("nobody can guess the name that it has meanwhile") {
  const Folder folder;
  std::string names[2];
  for (std::string &name : names) {
    NewFile file({}, Naming::Early);
    CHECK_OK(file.open(folder.file("x")));
    for (const auto &entry : fs::directory_iterator(folder.file(""))) name = entry.path().filename().string();
    CHECK_EQ(name.size(), std::string(".quarry-.tmp").size() + 16);
    CHECK_EQ(name.find(std::to_string(::getpid())), std::string::npos);
    CHECK((status_of(folder.file(name)).st_mode & S_IFMT) == S_IFREG);
  }
  CHECK_NE(names[0], names[1]);
}

TEST_CASE("the mode of the file that was there is kept") {
  const Folder folder;
  const std::string path = folder.file("file");
  for (const Naming naming : {Naming::Late, Naming::Early}) {
    for (const unsigned mode : {0600u, 0640u, 0666u, 0777u, 02755u}) {
      save(path, "old");
      REQUIRE_EQ(::chmod(path.c_str(), mode), 0);
      {
        // Meanwhile nobody reads what the old file kept to itself.
        NewFile file({}, Naming::Early);
        CHECK_OK(file.open(path));
        for (const auto &entry : fs::directory_iterator(folder.file("")))
          if (entry.path() != path) CHECK_EQ(mode_of(entry.path()), 0600u);
      }
      CHECK_OK(write(path, "new", naming));
      CHECK_EQ(contents(path), "new");
      CHECK_EQ(mode_of(path), mode);
    }
    fs::remove(path);
    for (const unsigned mask : {0u, 022u, 077u}) {
      CHECK_EQ(in_child([&] {
                 ::umask(mask);
                 return write(path, "new", naming).ok() ? 0 : 1;
               }),
               0);
      CHECK_EQ(mode_of(path), 0666 & ~mask);
      fs::remove(path);
    }
  }
}

TEST_CASE("the owner of the file that was there is kept by who can, and a file that may not be written stays") {
  if (::geteuid() != 0) {
    std::printf("not the administrator: not tested\n");
    return;
  }
  const Folder folder;
  const std::string path = folder.file("file");
  save(path, "old");
  REQUIRE_EQ(::chown(path.c_str(), 4321, 1234), 0);
  REQUIRE_EQ(::chmod(path.c_str(), 0640), 0);
  CHECK_OK(write(path, "new"));
  CHECK_EQ(status_of(path).st_uid, 4321u);
  CHECK_EQ(status_of(path).st_gid, 1234u);
  CHECK_EQ(mode_of(path), 0640u);
  REQUIRE_EQ(::chmod(folder.file("").c_str(), 0777), 0);
  const auto as_another = [&](const std::string &to) {
    return in_child([&] {
      if (::setgid(99) != 0 || ::setuid(99) != 0) return 9;
      const Status status = write(to, "theirs");
      return status.ok() ? 0 : status.id() == "QR-F0003" ? 1 : 2;
    });
  };
  CHECK_EQ(as_another(path), 1);
  CHECK_EQ(contents(path), "new");
  CHECK_EQ(as_another(folder.file("own")), 0);
  // A link that somebody put where anybody may is not followed, as the kernel would not.
  REQUIRE_EQ(::chmod(folder.file("").c_str(), 01777), 0);
  save(folder.file("victim"), "precious");
  fs::create_symlink("victim", folder.file("planted"));
  REQUIRE_EQ(::lchown(folder.file("planted").c_str(), 99, 99), 0);
  CHECK_EQ(write(folder.file("planted"), "new").id(), "QR-F0003");
  CHECK_EQ(contents(folder.file("victim")), "precious");
  CHECK_EQ(folder.count(), 4u);
}

TEST_CASE("what a link points to is replaced, and the link stays") {
  const Folder folder;
  fs::create_directory(folder.file("real"));
  fs::create_symlink("real/file", folder.file("link"));
  fs::create_symlink("../link", folder.file("real/back"));
  fs::create_symlink(folder.file("real/back"), folder.file("absolute"));
  for (const Naming naming : {Naming::Late, Naming::Early})
    for (const char *const name : {"link", "real/back", "absolute"}) {
      fs::remove(folder.file("real/file"));
      CHECK_OK(write(folder.file(name), "first", naming));  // of a link to nothing
      REQUIRE_EQ(::chmod(folder.file("real/file").c_str(), 0600), 0);
      const ino_t before = status_of(folder.file("real/file")).st_ino;
      std::ifstream reader(folder.file("real/file"));
      CHECK_OK(write(folder.file(name), "second", naming));
      CHECK_EQ(contents(folder.file("real/file")), "second");
      CHECK_EQ(mode_of(folder.file("real/file")), 0600u);
      CHECK_NE(status_of(folder.file("real/file")).st_ino, before);
      CHECK(fs::is_symlink(folder.file(name)));
      std::string old;
      CHECK((reader >> old && old == "first"));
    }
  CHECK_EQ(folder.count(), 3u);
  fs::create_symlink("loop", folder.file("loop"));
  CHECK_EQ(write(folder.file("loop"), "x").id(), "QR-F0005");
  fs::create_symlink("real", folder.file("folder"));
  CHECK_EQ(write(folder.file("folder"), "x").id(), "QR-F0005");
  fs::create_symlink("none/file", folder.file("nowhere"));
  CHECK_EQ(write(folder.file("nowhere"), "x").id(), "QR-F0003");
}

TEST_CASE("places where nothing can be written") {
  const Folder folder;
  for (const auto &[path, id] : {std::pair<std::string, const char *>{"", "QR-F0003"},
                                 {folder.file(""), "QR-F0005"},
                                 {folder.file("."), "QR-F0005"},
                                 {folder.file(".."), "QR-F0005"},
                                 {folder.file("none/x"), "QR-F0003"},
                                 {std::string("a\0b", 3), "QR-F0003"}}) {
    const Status status = write(path, "x");
    CHECK_EQ(status.id(), id);
    CHECK(status.message().find("cannot be written") != std::string_view::npos);
  }
  NewFile file("option x");
  CHECK_EQ(file.open(folder.file("none/x")).message(),
           "option x: file '" + folder.file("none/x") +
               "' cannot be written: creating it failed: No such file or directory");
  CHECK_EQ(folder.count(), 0u);
}

TEST_CASE("the working folder and names of folders may change meanwhile") {
  const Folder folder;
  const fs::path before = fs::current_path();
  for (const Naming naming : {Naming::Late, Naming::Early}) {
    fs::create_directory(folder.file("one"));
    fs::create_directory(folder.file("two"));
    fs::current_path(folder.file("one"));
    {
      NewFile file({}, naming), given_up({}, naming);
      CHECK_OK(file.open("x"));
      CHECK_OK(given_up.open("../one/y"));
      CHECK_OK(file.write("text", 4));
      fs::current_path(folder.file("two"));
      fs::rename(folder.file("one"), folder.file("three"));
      CHECK_OK(file.close(Outlasts::Disk));
      CHECK_OK(file.put_in_place());
    }
    CHECK_EQ(contents(folder.file("three/x")), "text");
    CHECK_EQ(fs::remove_all(folder.file("three")), 2u);
    CHECK_EQ(fs::remove_all(folder.file("two")), 1u);
    fs::current_path(before);
  }
  CHECK_EQ(folder.count(), 0u);
}

TEST_CASE("devices and pipes are written where they are") {
  const Folder folder;
  CHECK_OK(write("/dev/null", "text"));
  CHECK((status_of("/dev/null").st_mode & S_IFMT) == S_IFCHR);
  CHECK_EQ(write("/dev/full", "text").id(), "QR-F0007");

  REQUIRE_EQ(::mkfifo(folder.file("pipe").c_str(), 0600), 0);
  fs::create_symlink("pipe", folder.file("link"));
  const std::string text(300000, 'x');
  for (const char *const name : {"pipe", "link"}) {
    std::string got;
    std::thread reader([&] {
      ::usleep(100000);  // the writer comes first, and waits
      got = contents(folder.file("pipe"));
    });
    CHECK_OK(write(folder.file(name), text));
    reader.join();
    CHECK_EQ(got, text);
  }
  CHECK((status_of(folder.file("pipe")).st_mode & S_IFMT) == S_IFIFO);
  CHECK_EQ(folder.count(), 2u);
}

std::string own(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

TEST_CASE("a descriptor of this process is written on from where it is") {
  const Folder folder;
  const int fd = ::open(folder.file("out").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  CHECK_EQ(::write(fd, "head, ", 6), 6);
  CHECK_OK(write(own(fd), "text"));
  CHECK_OK(write("/dev/fd/" + std::to_string(fd), ", more"));
  fs::create_symlink(own(fd), folder.file("link"));
  CHECK_OK(write(folder.file("link"), ", and more"));
  CHECK_EQ(::write(fd, ", last", 6), 6);
  CHECK_EQ(contents(folder.file("out")), "head, text, more, and more, last");
  ::close(fd);
  CHECK_FALSE(write(own(fd), "text").ok());

  // One whose reader is gone is an error, and no signal. (The default action would end this program.)
  int ends[2];
  REQUIRE_EQ(::pipe2(ends, O_CLOEXEC), 0);
  ::close(ends[0]);
  const Status status = write(own(ends[1]), "text");
  CHECK(status.message().find("Broken pipe") != std::string_view::npos);
  sigset_t pending;
  sigpending(&pending);
  CHECK_EQ(sigismember(&pending, SIGPIPE), 0);
  ::close(ends[1]);
  // One that does not wait by itself is waited for.
  REQUIRE_EQ(::pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
  std::atomic<std::size_t> got{0};
  std::thread reader([&] {
    char part[4096];
    for (;;) {
      const ssize_t count = ::read(ends[0], part, sizeof part);
      if (count > 0) got += static_cast<std::size_t>(count);
      else if (count == 0) return;
      else ::usleep(100);
    }
  });
  CHECK_OK(write(own(ends[1]), std::string(1 << 20, 'x')));
  ::close(ends[1]);
  reader.join();
  CHECK_EQ(got.load(), std::size_t{1} << 20);
  ::close(ends[0]);
}

TEST_CASE("threads that write one path: whoever looks sees a whole file") {
  const Folder folder;
  const std::string path = folder.file("both");
  const std::string texts[2] = {std::string(200000, 'a'), std::string(300001, 'b')};
  std::atomic<int> failed{0}, left{2};
  CHECK_OK(write(path, texts[0]));
  std::thread writers[2];
  for (int w = 0; w < 2; ++w)
    writers[w] = std::thread([&, w] {
      for (int round = 0; round < 200; ++round)
        failed += !write(path, texts[w], round % 2 ? Naming::Late : Naming::Early).ok();
      --left;
    });
  int looked = 0;
  while (left > 0 || looked == 0) {
    const std::string seen = contents(path);
    failed += seen != texts[0] && seen != texts[1];
    ++looked;
  }
  for (std::thread &one : writers) one.join();
  CHECK_EQ(failed.load(), 0);
  CHECK_EQ(folder.count(), 1u);
}

Status write_pair(const Folder &folder, const std::string &text) {
  NewFiles files("option y");
  QR_ASSIGN_OR_RETURN(NewFile *const data, files.add(folder.file("data")));
  QR_ASSIGN_OR_RETURN(NewFile *const model, files.add(folder.file("model")));
  QR_RETURN_IF_ERROR(model->write(text.data(), text.size()));
  QR_RETURN_IF_ERROR(data->write(text.data(), text.size()));
  return files.put_in_place(Outlasts::Process);
}

TEST_CASE("files that belong together are of one writer") {
  const Folder folder;
  int mixed = 0;
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> failed{0};
    std::thread other([&] { failed += !write_pair(folder, "another").ok(); });
    failed += !write_pair(folder, "one").ok();
    other.join();
    CHECK_EQ(failed.load(), 0);
    mixed += contents(folder.file("data")) != contents(folder.file("model"));
  }
  CHECK_EQ(mixed, 0);
  CHECK_EQ(folder.count(), 2u);
}

TEST_CASE("files that belong together: all or none") {
  const Folder folder;
  for (const bool is_there : {false, true}) {
    if (is_there) save(folder.file("data"), "old");
    NewFiles files;
    auto data = files.add(folder.file("data")), model = files.add(folder.file("model"));
    REQUIRE_OK(data);
    REQUIRE_OK(model);
    CHECK_OK((*data)->write("new", 3));
    CHECK_OK((*model)->write("new", 3));
    fs::create_directory(folder.file("model"));  // comes at the worst moment
    CHECK_EQ(files.put_in_place(Outlasts::Process).id(), "QR-F0005");
    fs::remove(folder.file("model"));
    CHECK_EQ(contents(folder.file("data")), is_there ? "old" : "");
    CHECK_EQ(fs::exists(folder.file("data")), is_there);
  }
  CHECK_EQ(folder.count(), 1u);
}

TEST_CASE("a disk that is full") {
  const Folder folder;
  save(folder.file("file"), "old");
  for (const Naming naming : {Naming::Late, Naming::Early})
    for (const char *const name : {"file", "none"})
      CHECK_EQ(in_child([&] {
                 const rlimit limit{4096, 4096};
                 ::signal(SIGXFSZ, SIG_IGN);
                 ::setrlimit(RLIMIT_FSIZE, &limit);
                 return write(folder.file(name), std::string(100000, 'x'), naming).id() == "QR-F0007" ? 0 : 1;
               }),
               0);
  CHECK_EQ(contents(folder.file("file")), "old");
  CHECK_EQ(folder.count(), 1u);
}

}  // namespace
}  // namespace quarry
