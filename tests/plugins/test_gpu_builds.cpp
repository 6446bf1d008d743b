// SPDX-License-Identifier: Apache-2.0
// Several processes that build programs with PoCL, whose folder they share: what is in the way, and what it may give.
#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <filesystem>

#include "tests/plugins/gpu_fixture.h"

using namespace quarry::test;

namespace {

// PoCL's folder, which meson.build names; "": another driver's device.
std::string folder_of_pocl() {
  const Layer layer;
  qr::Runtime runtime;
  const char *const folder = std::getenv("POCL_CACHE_DIR");
  if (folder && says(device_of(runtime).details, {"Portable Computing Language"})) return folder;
  MESSAGE("no PoCL, or no POCL_CACHE_DIR: not tested");
  return {};
}

// Another process that builds whatever there is.
class Builder {
 public:
  explicit Builder(const std::string &folder) {
    std::filesystem::create_directories(folder);
    for (int i = 0; i < 64; ++i) {
      char name[32];
      std::snprintf(name, sizeof name, "/quarry-%02d.lock", i);
      files_.push_back(open((folder + name).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
      REQUIRE_GE(files_.back(), 0);
      REQUIRE_EQ(flock(files_.back(), LOCK_EX), 0);
    }
  }
  ~Builder() { end(); }
  void end() {
    for (const int file : files_) close(file);
    files_.clear();
  }

 private:
  std::vector<int> files_;
};

std::string container() { return "/tmp/quarry-gpu-builds-" + std::to_string(getpid()) + ".qrm"; }

}  // namespace

// The first case of this program: no driver is open yet that the child would share.
TEST_CASE("without /sys PoCL is not asked for its device, which would end the process") {
  constexpr int kNotAllowed = 77;
  const pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) _exit(kNotAllowed);
    if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("none", "/sys", "tmpfs", 0, nullptr) != 0)
      _exit(kNotAllowed);
    const Layer layer;
    qr::Runtime runtime;
    const Found found = device_of(runtime);
    const bool is_pocl = says(found.name + found.details, {"Portable Computing Language"});
    _exit(!is_pocl                                                                          ? kNotAllowed
          : !found.usable && says(found.why_not, {"/sys/devices/system/cpu", "mount /sys"}) ? 0
                                                                                            : 1);
  }
  int status = -1;
  REQUIRE_EQ(waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNotAllowed) {
    MESSAGE("no PoCL here, or no right to hide /sys: not tested");
    return;
  }
  CHECK_EQ(status, 0);
}

TEST_CASE("a program is built when no other process builds the same") {
  if (!has_device()) return;
  const std::string folder = folder_of_pocl(), path = container();
  if (folder.empty()) return;
  const Layer layer;
  qr::Runtime runtime;
  const auto waits = [&](auto &&work) {
    Builder other(folder);
    std::atomic<bool> done = false;
    std::thread thread([&] {
      work();
      done = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    CHECK_FALSE(done);
    CHECK_EQ(layer.count("BuildProgram"), 0);
    other.end();
    thread.join();
    CHECK_GE(layer.count("BuildProgram"), 1);
  };
  waits([&] { compile(runtime, path); });
  layer.tell("");
  waits([&] {
    qr::Session made = open_container(runtime, path);
    CHECK(run(made, 1));
  });
  unlink(path.c_str());
}

TEST_CASE("waiting for another process ends with the deadline") {
  if (!has_device()) return;
  const std::string folder = folder_of_pocl(), path = container();
  if (folder.empty()) return;
  const Layer layer;
  qr::Runtime runtime;
  const Builder other(folder);
  qr::Options options(runtime);
  options.set("backend", "gpu");
  const std::string model = small_model();
  qr::Signal signal(runtime);
  signal.set_timeout(std::chrono::milliseconds(200));
  CHECK(says(failure([&] { qr::Model(runtime, model.data(), model.size()).compile(path, &options, &signal); },
                     QR_DEADLINE_EXCEEDED),
             {"QR-C0012"}));
  CHECK_EQ(layer.count("BuildProgram"), 0);
}

TEST_CASE("a binary with an empty file is taken again, and never kept") {
  if (!has_device() || folder_of_pocl().empty()) return;
  const std::string path = container();
  for (const auto &[script, sources] : {std::pair{"empty=1", 0}, std::pair{"empty=99", 1}}) {
    CAPTURE(std::string(script));
    {
      const Layer layer(script);
      qr::Runtime runtime;
      compile(runtime, path);
    }
    const Layer layer;
    qr::Runtime runtime;
    qr::Session made = open_container(runtime, path);
    CHECK(run(made, 2));
    CHECK_EQ(layer.count("sources"), sources);
  }
  unlink(path.c_str());
}
