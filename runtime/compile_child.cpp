// SPDX-License-Identifier: Apache-2.0
#include "runtime/compile_child.h"

#ifndef QR_NO_DLOPEN
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/os_error.h"
#include "runtime/child_frames.h"
#include "runtime/file.h"
#include "runtime/runtime.h"

extern "C" char **environ;
#endif

namespace quarry {

bool wants_child(const OptionSet *options) noexcept { return options && options->given("compile.process") == "child"; }

#ifdef QR_NO_DLOPEN

namespace {
Status no_child() {
  return Status::error(ErrorId::compile_process,
                       "option compile.process: found child, but this program was linked statically: there is no other "
                       "program that has its backends",
                       "set it to own");
}
}  // namespace

Status compile_in_child(const Model &, const OptionSet &, std::string_view, const CallWatch &) { return no_child(); }
Result<String> check_in_child(const Model &, const OptionSet &, const CallWatch &) { return no_child(); }

#else

namespace {

constexpr const char *kProgram = "quarry-compiler";
// A child that is told to stop gets this long to do so by itself, which also removes what it was writing.
constexpr std::uint64_t kGraceNs = 500'000'000;

Status failure(const char *what, int error) {
  return Status::error(os_error_id(error, ErrorId::compile_process),
                       format("the process that compiles: %s: %s", what, os_error_text(error).c_str()));
}

Status unreadable() {
  return Status::error(ErrorId::compile_process, "the process that compiles: it sent what cannot be read");
}

class Descriptor {
 public:
  Descriptor() noexcept = default;
  // Moved out of the way of the numbers that the child gets.
  explicit Descriptor(int fd) noexcept {
    if (fd < 0) return;
    fd_ = fcntl(fd, F_DUPFD_CLOEXEC, 16);
    ::close(fd);
  }
  Descriptor(Descriptor &&other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor &operator=(Descriptor &&other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() { close(); }
  void close() noexcept {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  int get() const noexcept { return fd_; }

 private:
  int fd_ = -1;
};

// Installed in libquarry's own folder of plugins; beside libquarry in a build tree.
Result<String> find_program() {
  String tried;
  String file = find_own_file("/quarry/quarry-compiler", "/quarry-compiler", tried);
  if (!file.empty()) return file;
  return Status::error(
      ErrorId::compile_process,
      format("option compile.process: found child, but no program %s (looked at %s)", kProgram, tried.c_str()),
      "install it with Quarry's libraries, or set the option to own");
}

// The bytes of a model that has no path, as a file.
Result<Descriptor> file_of(qrm::Bytes bytes) {
  Descriptor file(memfd_create("quarry-model", MFD_CLOEXEC));
  if (file.get() < 0) return failure("a file for the model", errno);
  for (std::uint64_t at = 0; at < bytes.size;) {
    const ssize_t written = ::write(file.get(), static_cast<const char *>(bytes.data) + at, bytes.size - at);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return failure("a file for the model", errno);
    at += static_cast<std::uint64_t>(written);
  }
  return file;
}

class Child {
 public:
  Child(const Model &model, const CallWatch &watch) noexcept : model_(model), watch_(watch), signal_(watch.signal) {}
  ~Child() {
    if (pid_ < 0) return;
    kill(pid_, SIGKILL);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  Child(const Child &) = delete;
  Child &operator=(const Child &) = delete;

  Status start(const char *verb, const OptionSet &options, std::string_view out);
  // Until it says what became of it; the report, if there is one.
  Result<String> wait();

 private:
  Status receive(bool *ended);
  Status take(child::Kind kind, child::Texts texts);
  Status died();

  const Model &model_;
  const CallWatch &watch_;
  const CallSignal signal_;
  pid_t pid_ = -1;
  Descriptor socket_;
  String backend_, step_, received_, report_;
  bool done_ = false;  // it said so, and `failed_` or `report_` is there
  Status failed_;
};

Status Child::start(const char *verb, const OptionSet &options, std::string_view out) {
  backend_ = printable(options.given("backend"));
  QR_ASSIGN_OR_RETURN(const String program, find_program());
  Descriptor file;
  if (model_.path().empty()) {
    QR_ASSIGN_OR_RETURN(file, file_of(model_.bytes()));
  }
  const Runtime &runtime = model_.runtime();
  Vector<String> words = {program, verb};
  const auto add = [&](const char *name, std::string_view value) {
    words.emplace_back(name);
    words.emplace_back(value);
  };
  if (!model_.path().empty()) add("model", model_.path());
  if (!out.empty()) add("out", out);
  String folders;
  for (const loader::Folder &folder : runtime.search_path()) folders += (folders.empty() ? "" : ":") + folder.path;
  add("backends", folders);
  add("prepare", runtime.prepare_path());
  add("log", format("%d", static_cast<int>(runtime.log().level())));
  bool has_shape = false;
  for (const auto &[key, value] : options.values()) {
    if (key == "compile.process") continue;
    has_shape |= key == "shape";
    add("option", key + "=" + value);
  }
  if (!has_shape && !model_.shapes().empty()) add("option", "shape=" + String(model_.shapes()));
  Vector<char *> arguments;
  for (String &word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);

  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return failure("a socket", errno);
  socket_ = Descriptor(ends[0]);
  const Descriptor theirs(ends[1]);
  if (socket_.get() < 0 || theirs.get() < 0) return failure("a socket", EMFILE);

  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&actions, theirs.get(), child::kSocket);
  if (file.get() >= 0) posix_spawn_file_actions_adddup2(&actions, file.get(), child::kModel);
  // Nothing of how this process or this thread takes signals is the child's; nor do the terminal's reach it, which are
  // for whoever watches over it.
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  const int error = posix_spawn(&pid_, program.c_str(), &actions, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error == 0) return {};
  pid_ = -1;
  return failure(program.c_str(), error);
}

// Everything that is there to be read.
Status Child::receive(bool *ended) {
  char block[16384];
  const ssize_t count = recv(socket_.get(), block, sizeof block, MSG_DONTWAIT);
  if (count < 0) {
    *ended = errno != EINTR && errno != EAGAIN;
    return {};
  }
  *ended = count == 0;
  received_.append(block, static_cast<std::size_t>(count));
  std::size_t at = 0;
  while (!done_ && received_.size() - at >= sizeof(child::Head)) {
    child::Head head;
    std::memcpy(&head, received_.data() + at, sizeof head);
    if (head.size > child::kMaxSize) return unreadable();
    if (received_.size() - at - sizeof head < head.size) break;
    at += sizeof head;
    QR_RETURN_IF_ERROR(take(static_cast<child::Kind>(head.kind), child::Texts({received_.data() + at, head.size})));
    at += head.size;
  }
  received_.erase(0, at);
  *ended |= done_;
  return {};
}

Status Child::take(child::Kind kind, child::Texts texts) {
  switch (kind) {
    case child::Kind::Hello: {
      const std::string_view version = texts.text();
      if (version == qr_version()) return {};
      return Status::error(ErrorId::compile_process,
                           format("the process that compiles: found %s of Quarry %s, expected %s", kProgram,
                                  printable(version).c_str(), qr_version()),
                           "install the program and the library of one release");
    }
    case child::Kind::Progress: {
      const std::uint64_t so_far = texts.number(), total = texts.number();
      step_.assign(texts.text());
      watch_.progress.report(so_far, total, step_);
      return {};
    }
    case child::Kind::Log: {
      const auto level = static_cast<qr_log_level>(texts.number());
      const std::string_view topic = texts.text();
      model_.runtime().log().write(level, topic, texts.text());
      return {};
    }
    case child::Kind::Failure: {
      const auto code = static_cast<qr_code>(texts.number());
      const std::string_view id = texts.text(), message = texts.text(), hint = texts.text();
      failed_ = Status::foreign(code, id, message, hint);
      while (!texts.empty()) {
        const std::string_view key = texts.text();
        failed_.with(key, texts.text());
      }
      done_ = true;
      return {};
    }
    case child::Kind::Done:
      report_.assign(texts.text());
      done_ = true;
      return {};
  }
  return unreadable();
}

Result<String> Child::wait() {
  const int aborted = signal_.signal() ? signal_.signal()->fd() : -1;
  std::uint64_t give_up = 0;
  Status stopped;
  for (bool ended = false; !ended;) {
    const std::uint64_t now = loader::monotonic_ns();
    if (give_up == 0) {
      stopped = signal_.check("compile");
      if (!stopped.ok()) {
        shutdown(socket_.get(), SHUT_WR);  // which the child reads as its end
        give_up = now + kGraceNs;
      }
    }
    if (give_up && now >= give_up) break;
    const std::uint64_t until = give_up ? give_up : signal_.deadline_ns();
    // Without a descriptor for the signal it is looked at now and then.
    std::uint64_t pause_ms = signal_.signal() && aborted < 0 ? 20 : 60'000;
    if (until) pause_ms = std::min(pause_ms, (until > now ? until - now : 0) / 1'000'000 + 1);
    pollfd waits[] = {{socket_.get(), POLLIN, 0}, {aborted, POLLIN, 0}};
    poll(waits, aborted >= 0 && !give_up ? 2 : 1, static_cast<int>(pause_ms));
    if (waits[0].revents) QR_RETURN_IF_ERROR(receive(&ended));
  }
  if (done_ && failed_.ok()) return std::move(report_);
  if (!stopped.ok()) return stopped;
  return done_ ? std::move(failed_) : died();
}

// It closed its end and said nothing.
Status Child::died() {
  const String of = backend_.empty() ? String() : " for backend " + backend_;
  const String step = step_.empty() ? String() : format(" (its step: %s)", printable(step_, 200).c_str());
  int how = 0;
  pid_t reaped = 0;
  for (int round = 0; round < 500 && reaped == 0; ++round) {
    reaped = waitpid(pid_, &how, WNOHANG);
    if (reaped == 0) poll(nullptr, 0, 1);
  }
  if (reaped != 0) pid_ = -1;  // where the application lets the system reap its children, nothing is known of it
  String end = "ended";
  if (reaped > 0 && WIFSIGNALED(how)) end = format("ended by signal %d (%s)", WTERMSIG(how), strsignal(WTERMSIG(how)));
  else if (reaped > 0) end = format("ended with exit status %d", WEXITSTATUS(how));
  return Status::error(ErrorId::compile_process_died, format("the process that compiles%s %s before it was done%s",
                                                             of.c_str(), end.c_str(), step.c_str()));
}

Result<String> run(const char *verb, const Model &model, const OptionSet &options, std::string_view out,
                   const CallWatch &watch) {
  const CallEvents events(watch.profile ? &watch.profile->log() : nullptr, verb);
  const CallEvents::Phase phase(events, "process");
  Child child(model, watch);
  QR_RETURN_IF_ERROR(child.start(verb, options, out));
  return child.wait();
}

}  // namespace

Status compile_in_child(const Model &model, const OptionSet &options, std::string_view path, const CallWatch &watch) {
  return run("compile", model, options, path, watch).status();
}

Result<String> check_in_child(const Model &model, const OptionSet &options, const CallWatch &watch) {
  return run("check", model, options, {}, watch);
}

#endif

}  // namespace quarry
