// SPDX-License-Identifier: Apache-2.0
// What may happen to files: cut and written over while a model of them is in use, replaced under it, and writers that
// fail or are killed.
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "base/new_file.h"
#include "folder.h"
#include "sample_container.h"
#include "tests/support/check.h"

namespace quarry {
namespace {

namespace fs = std::filesystem;
using qrm::FileUse;
using qrm::RawFile;
using qrm::ValidatedModel;
using test::Folder;
using test::SampleContainer;

std::string contents(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(in)), {});
}
void save(const std::string &path, const std::string &text) { std::ofstream(path, std::ios::binary) << text; }

TEST_CASE("what was read does not change with the file") {
  const Folder folder;
  const Vector<std::uint8_t> bytes = SampleContainer().bytes();
  const std::string whole(bytes.begin(), bytes.end()), path = folder.file("m.qrm");
  for (const std::uint64_t offset : {0u, 64u, 8192u, 12345u}) {
    save(path, std::string(offset, 'x') + whole);
    const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    Result<RawFile> file =
        offset ? RawFile::open_fd(fd, offset, bytes.size(), FileUse::Read) : RawFile::open_path(path, FileUse::Read);
    REQUIRE_OK(file);
    CHECK_EQ(reinterpret_cast<std::uintptr_t>(file->bytes().data) % static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)),
             0u);  // as if it were mapped
    CHECK_EQ(file->fd(), -1);
    Result<ValidatedModel> model = ValidatedModel::open(std::move(*file));
    const std::string garbage(offset + whole.size(), '!');
    CHECK_EQ(::pwrite(fd, garbage.data(), garbage.size(), 0), static_cast<ssize_t>(garbage.size()));
    REQUIRE_OK(model);
    CHECK_OK(model->verify());
    CHECK_EQ(::ftruncate(fd, 0), 0);
    CHECK_OK(model->verify());
    CHECK_EQ(model->segment_file(0).fd, -1);
    CHECK_EQ(model->segment_file(0).offset, 0u);
    ::close(fd);
  }
  CHECK_EQ(RawFile::open_path(folder.file("missing"), FileUse::Read).status().id(), "QR-F0001");
  CHECK_EQ(RawFile::open_path(folder.file("."), FileUse::Read).status().id(), "QR-F0005");
}

// Has little, and says so.
class SmallMemory final : public Allocator {
 public:
  void *allocate(std::size_t size, std::size_t align) noexcept override {
    return size > (1u << 20) ? nullptr : malloc_allocator().allocate(size, align);
  }
  void deallocate(void *ptr, std::size_t size, std::size_t align) noexcept override {
    malloc_allocator().deallocate(ptr, size, align);
  }
};

TEST_CASE("a file that does not fit into memory") {
  const Folder folder;
  const std::string path = folder.file("large");
  save(path, "x");
  fs::resize_file(path, 4u << 20);
  SmallMemory small;
  const AllocatorScope scope(small);
  const Result<RawFile> file = RawFile::open_path(path, FileUse::Read);
  CHECK_EQ(file.status().id(), "QR-C0001");
  CHECK(file.status().message().find("large': found no memory for its 4194304 bytes") != std::string_view::npos);
}

// No file may be larger than this; what writing more does to the process is `action`'s: SIG_IGN makes it an error.
class SmallDisk {
 public:
  explicit SmallDisk(void (*action)(int)) : action_(::signal(SIGXFSZ, action)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = 4096;
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~SmallDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, action_);
  }

 private:
  void (*action_)(int);
  rlimit before_{};
};

TEST_CASE("a full disk leaves the old file") {
  const Folder folder;
  const SampleContainer sample;
  const std::string path = folder.file("m.qrm");
  save(path, "old");
  Status written;
  {
    const SmallDisk limit(SIG_IGN);
    written = sample.writer.write_file(path, sample.metadata);
  }
  CHECK_EQ(written.id(), "QR-F0007");
  CHECK(written.message().find("m.qrm' cannot be written: writing failed: File too large") != std::string_view::npos);
  CHECK_EQ(contents(path), "old");
  CHECK_EQ(folder.count(), 1u);
}

TEST_CASE("a killed writer leaves the old file and nothing else") {
  const Folder folder;
  const SampleContainer sample;
  const std::string path = folder.file("m.qrm");
  save(path, "old");
  const bool nameless = [&] {
    NewFile file;
    return file.open(path).ok() && file.naming() == NewFile::Naming::Late;
  }();
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    const SmallDisk limit(SIG_DFL);  // the signal comes in the middle of writing
    (void)sample.writer.write_file(path, sample.metadata);
    ::_exit(0);
  }
  int status = 0;
  REQUIRE_EQ(::waitpid(child, &status, 0), child);
  CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ));
  CHECK_EQ(contents(path), "old");
  if (nameless) CHECK_EQ(folder.count(), 1u);
  else std::printf("no nameless files in %s: not tested\n", path.c_str());
}

// A sandbox without /proc has no way to give a nameless file its name: the file is written once more, with one.
TEST_CASE("a sandbox without proc") {
  const Folder folder;
  const SampleContainer sample;
  const pid_t child = ::fork();
  if (child == 0) {
    if (::chroot(folder.file("").c_str()) != 0 &&
        (::unshare(CLONE_NEWUSER) != 0 || ::chroot(folder.file("").c_str()) != 0))
      ::_exit(77);
    ::_exit(sample.writer.write_file("/m.qrm", sample.metadata).ok() ? 0 : 1);
  }
  int status = 0;
  REQUIRE_EQ(::waitpid(child, &status, 0), child);
  REQUIRE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) {
    std::printf("chroot is not allowed: not tested\n");
    return;
  }
  CHECK_EQ(WEXITSTATUS(status), 0);
  const Vector<std::uint8_t> bytes = sample.bytes();
  CHECK_EQ(contents(folder.file("m.qrm")), std::string(bytes.begin(), bytes.end()));
  CHECK_EQ(folder.count(), 1u);
}

TEST_CASE("a replaced file lives on where it is mapped") {
  const Folder folder;
  SampleContainer sample;
  const std::string path = folder.file("m.qrm");
  CHECK_OK(sample.writer.write_file(path, sample.metadata));
  Result<RawFile> file = RawFile::open_path(path);
  REQUIRE_OK(file);
  Result<ValidatedModel> old = ValidatedModel::open(std::move(*file));
  sample.metadata.producer = "another";
  CHECK_OK(sample.writer.write_file(path, sample.metadata));
  REQUIRE_OK(old);
  CHECK_OK(old->verify());
  CHECK_EQ(old->metadata().producer, "quarry test");
  Result<RawFile> next = RawFile::open_path(path);
  REQUIRE_OK(next);
  Result<ValidatedModel> now = ValidatedModel::open(std::move(*next));
  REQUIRE_OK(now);
  CHECK_EQ(now->metadata().producer, "another");
}

}  // namespace
}  // namespace quarry
