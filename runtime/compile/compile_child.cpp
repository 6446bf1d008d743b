// SPDX-License-Identifier: Apache-2.0
#include "runtime/compile/compile_child.h"

#ifndef QR_NO_DLOPEN
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "base/os_error.h"
#include "runtime/compile/child_frames.h"
#include "runtime/core/file.h"
#include "runtime/core/runtime.h"

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

Status compile_in_child(const Model &, const OptionSet &, TargetWriter &, const CallWatch &) { return no_child(); }
Result<String> check_in_child(const Model &, const OptionSet &, const CallWatch &) { return no_child(); }

#else

namespace {

constexpr const char *kProgram = "quarry-compiler";
// A child that is asked to stop gets this long to do so by itself, which also removes what it was writing.
constexpr std::uint64_t kGraceNs = 500'000'000;

Status failure(const char *what, int error) {
  return Status::errorf(os_error_id(error, ErrorId::compile_process), "the process that compiles: %s: %s", what,
                        os_error_text(error));
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
  // Of one that stays open.
  static Descriptor copy_of(int fd) noexcept {
    Descriptor out;
    out.fd_ = fcntl(fd, F_DUPFD_CLOEXEC, 16);
    return out;
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
Result<String> find_program(const Runtime &runtime) {
  String tried;
  String file = find_own_file(runtime.library_folder(), "/quarry/quarry-compiler", "/quarry-compiler", tried);
  if (!file.empty()) return file;
  return Status::hinted(ErrorId::compile_process, "install it with Quarry's libraries, or set the option to own",
                        "option compile.process: found child, but no program %s (looked at %s)", kProgram,
                        tried.c_str());
}

// The bytes of a model that lie in memory alone, as a file.
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

// A copy of the descriptor; without one the bytes, which lie in memory alone.
Status keep_file(int fd, qrm::Bytes bytes, Descriptor &out) {
  if (fd < 0) {
    QR_ASSIGN_OR_RETURN(out, file_of(bytes));
    return {};
  }
  out = Descriptor::copy_of(fd);
  return out.get() < 0 ? failure("the model's descriptor", errno) : Status();
}

// The environment for the child. Relative folders of LD_LIBRARY_PATH named something when this program began: the
// linker would look for the child's libraries below the working folder of now. Our own are where this library is.
class Environment {
 public:
  explicit Environment(const String &library_folder) {
    constexpr std::string_view kName = "LD_LIBRARY_PATH=";
    for (char **one = environ; *one; ++one) {
      char *said = *one;
      if (paths_.empty() && std::string_view(said).starts_with(kName)) {
        (paths_ = kName) += library_folder;
        if (add_absolute(said + kName.size())) said = paths_.data();
      }
      pointers_.push_back(said);
    }
    char *const end = nullptr;
    pointers_.push_back(end);
  }
  char *const *get() const noexcept { return pointers_.data(); }

 private:
  // Whether there were others.
  bool add_absolute(std::string_view folders) {
    bool others = false;
    std::size_t end;
    do {
      end = folders.find_first_of(":;");
      const std::string_view folder = folders.substr(0, end);
      if (folder.starts_with('/') || folder.starts_with('$')) (paths_ += ':') += folder;
      else others = true;
      folders.remove_prefix(end == folders.npos ? folders.size() : end + 1);
    } while (end != folders.npos);
    return others;
  }
  String paths_;
  Vector<char *> pointers_;
};

// A child process, known by a descriptor: its number may be another process's by now where the application reaps every
// child. Kernels before 5.4 have none; there the number serves.
class ChildProcess {
 public:
  ChildProcess() noexcept = default;
  ChildProcess(const ChildProcess &) = delete;
  ChildProcess &operator=(const ChildProcess &) = delete;
  ~ChildProcess() {
    if (pid_ < 0) return;
    const bool told =
        fd_.get() >= 0 && (syscall(SYS_pidfd_send_signal, fd_.get(), SIGKILL, nullptr, 0) == 0 || errno == ESRCH);
    if (!told) kill(pid_, SIGKILL);
    siginfo_t how;
    while (!reap(&how, 0)) {
    }
  }
  void watch(pid_t pid) noexcept {
    pid_ = pid;
    const auto fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
    if (fd < 0 && errno == ESRCH) pid_ = -1;  // it ended, and was reaped by somebody
    fd_ = Descriptor(fd);
  }
  int fd() const noexcept { return fd_.get(); }  // readable when it ended; -1: there is none
  // Whether it ended; how->si_pid is 0 where nobody knows how.
  bool reap(siginfo_t *how, int flags) noexcept {
    *how = {};
    if (pid_ < 0) return true;
    constexpr auto kByDescriptor = static_cast<idtype_t>(3);  // P_PIDFD, newer than some headers
    const bool has_fd = fd_.get() >= 0;
    const int result =
        waitid(has_fd ? kByDescriptor : P_PID, static_cast<id_t>(has_fd ? fd_.get() : pid_), how, WEXITED | flags);
    if (result != 0 && errno == EINTR) return false;
    if (result == 0 && how->si_pid == 0) return false;
    pid_ = -1;
    return true;
  }

 private:
  pid_t pid_ = -1;
  Descriptor fd_;
};

class Child {
 public:
  // `out`: where what it compiles goes.
  Child(const Model &model, const CallWatch &watch, TargetWriter *out) noexcept
      : model_(model), watch_(watch), signal_(watch.signal), out_(out) {}
  Child(const Child &) = delete;
  Child &operator=(const Child &) = delete;

  Status start(const char *verb, const OptionSet &options);
  // Until it says what became of it; the report, if there is one.
  Result<String> wait();

 private:
  struct Files;
  Status keep_files(Files &out) const;
  Vector<String> words(const String &program, const char *verb, const OptionSet &options, const Files &files) const;
  Status spawn(Vector<String> words, const Files &files, const Descriptor &theirs);
  Status receive(bool *ended);
  Status take(child::Kind kind, std::string_view frame);
  Status died();

  const Model &model_;
  const CallWatch &watch_;
  const CallSignal signal_;
  TargetWriter *const out_;
  ChildProcess process_;
  Descriptor socket_;
  String backend_, step_, received_, report_;
  bool done_ = false;  // it said so, and `failed_` or `report_` is there
  Status failed_;
};

// The model's files for the child: the model, its external data, and the folder where they lie.
struct Child::Files {
  Vector<Descriptor> all;
  std::size_t external = 0;
  bool has_folder = false;
};

// The file as it was opened: its name may be another's by now. External data keep their numbers, which are above those
// that the child gets.
Status Child::keep_files(Files &out) const {
  QR_ASSIGN_OR_RETURN(const int folder, model_.external_folder(signal_));
  out.external = model_.external().size();
  out.has_folder = folder >= 0;
  out.all.resize(1 + out.external + out.has_folder);
  for (std::size_t i = 0; i < out.all.size(); ++i) {
    const qrm::RawFile *const file = i > 0 && i <= out.external ? &model_.external()[i - 1].file : nullptr;
    QR_RETURN_IF_ERROR(keep_file(i == 0 ? model_.fd()
                                 : file ? file->fd()
                                        : folder,
                                 file ? file->bytes() : model_.bytes(), out.all[i]));
  }
  return {};
}

// The command line of the child.
Vector<String> Child::words(const String &program, const char *verb, const OptionSet &options,
                            const Files &files) const {
  const Runtime &runtime = model_.runtime();
  Vector<String> words = {program, verb};
  const auto add = [&](const char *name, std::string_view value) {
    words.emplace_back(name);
    words.emplace_back(value);
  };
  const auto add_file = [&](const char *name, int fd, std::uint64_t offset, std::uint64_t size, const String &called) {
    add(name, format("%d:%" PRIu64 ":%" PRIu64 ":%s", fd, offset, size, called));
  };
  add_file("model", child::kModel, model_.offset(), model_.bytes().size, {});
  for (std::size_t i = 0; i < files.external; ++i) {
    const Model::External &one = model_.external()[i];
    add_file("external", files.all[i + 1].get(), one.file.offset(), one.file.bytes().size, one.name);
  }
  if (files.has_folder) add("folder", "1");
  if (out_) add("name", out_->name());
  String folders;
  for (const loader::Folder &one : runtime.search_path()) folders += (folders.empty() ? "" : ":") + one.path;
  add("backends", folders);
  add("prepare", runtime.prepare_path());
  add("log", format("%d", static_cast<int>(runtime.log().level())));
  bool has_shape = false;
  for (const auto &[key, value] : options.values()) {
    if (key == "compile.process" || key == "model.folder") continue;
    has_shape |= key == "shape";
    add("option", key + "=" + value);
  }
  if (!has_shape && !model_.shapes().empty()) add("option", "shape=" + String(model_.shapes()));
  return words;
}

Status Child::start(const char *verb, const OptionSet &options) {
  backend_ = printable(options.given("backend"));
  QR_ASSIGN_OR_RETURN(const String program, find_program(model_.runtime()));
  Files files;
  QR_RETURN_IF_ERROR(keep_files(files));
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return failure("a socket", errno);
  socket_ = Descriptor(ends[0]);
  const Descriptor theirs(ends[1]);
  if (socket_.get() < 0 || theirs.get() < 0) return failure("a socket", EMFILE);
  return spawn(words(program, verb, options, files), files, theirs);
}

Status Child::spawn(Vector<String> words, const Files &files, const Descriptor &theirs) {
  Vector<char *> arguments;
  for (String &word : words) {
    char *const text = word.data();
    arguments.push_back(text);
  }
  char *const end = nullptr;
  arguments.push_back(end);
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&actions, theirs.get(), child::kSocket);
  for (std::size_t i = 0; i < files.all.size(); ++i)
    posix_spawn_file_actions_adddup2(&actions, files.all[i].get(),
                                     i == 0               ? child::kModel
                                     : i > files.external ? child::kFolder
                                                          : files.all[i].get());
  // Nothing of how this process or this thread takes signals is the child's; nor do the terminal's reach it, which are
  // for whoever watches over it.
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  const Environment environment(model_.runtime().library_folder());
  pid_t pid = -1;
  const int error = posix_spawn(&pid, words[0].c_str(), &actions, &attributes, arguments.data(), environment.get());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return failure(words[0].c_str(), error);
  process_.watch(pid);
  return {};
}

// Everything that is there to be read.
Status Child::receive(bool *ended) {
  char block[65536];
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
    QR_RETURN_IF_ERROR(take(static_cast<child::Kind>(head.kind), {received_.data() + at, head.size}));
    at += head.size;
  }
  received_.erase(0, at);
  *ended |= done_;
  return {};
}

Status Child::take(child::Kind kind, std::string_view frame) {
  child::Texts texts(frame);
  switch (kind) {
    case child::Kind::File: {
      if (!out_) return unreadable();
      const std::string_view name = texts.text();
      const std::uint64_t size = texts.number();
      return out_->begin(name, size, texts.number());
    }
    case child::Kind::Bytes: return out_ ? out_->write(frame.data(), frame.size()) : unreadable();
    case child::Kind::Hello: {
      const std::string_view version = texts.text();
      if (version == qr_version()) return {};
      return Status::hinted(ErrorId::compile_process, "install the program and the library of one release",
                            "the process that compiles: found %s of Quarry %s, expected %s", kProgram,
                            printable(version).c_str(), qr_version());
    }
    case child::Kind::Progress: {
      const std::uint64_t so_far = texts.number(), total = texts.number();
      step_.assign(texts.text());
      watch_.progress.tell(so_far, total, step_);
      return {};
    }
    case child::Kind::Log: {
      const auto level = static_cast<qr_log_level>(texts.number());
      const auto flags = static_cast<std::uint32_t>(texts.number());
      const std::string_view topic = texts.text();
      model_.runtime().log().write(level, topic, texts.text(), flags);
      return {};
    }
    case child::Kind::Failure: {
      const auto code = static_cast<qr_code>(texts.number());
      const std::string_view id = texts.text(), message = texts.text(), hint = texts.text();
      failed_ = Status::foreign(code, id, message, hint);
      bool has_file = model_.path().empty();
      while (!texts.empty()) {
        const std::string_view key = texts.text();
        has_file |= key == "file";
        failed_.with(key, texts.text());
      }
      if (!has_file) failed_.with("file", model_.path());  // it knows no path
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
  for (bool ended = false, gone = false; !ended;) {
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
    // Negative descriptors are passed over. The child's end is looked for by itself: what it started may have its end
    // of the socket too.
    pollfd waits[] = {
        {socket_.get(), POLLIN, 0}, {give_up ? -1 : aborted, POLLIN, 0}, {gone ? -1 : process_.fd(), POLLIN, 0}};
    poll(waits, 3, static_cast<int>(pause_ms));
    if (waits[2].revents) {
      gone = true;
      shutdown(socket_.get(), SHUT_RD);  // what it sent is read, then comes the end
    }
    if (waits[0].revents || gone) QR_RETURN_IF_ERROR(receive(&ended));
  }
  if (watch_.progress.stopped()) return watch_.progress.status();
  if (done_ && failed_.ok()) return std::move(report_);
  if (!stopped.ok()) return stopped;
  return done_ ? std::move(failed_) : died();
}

// It closed its end and said nothing.
Status Child::died() {
  const String of = backend_.empty() ? String() : " for backend " + backend_;
  const String step = step_.empty() ? String() : format(" (its step: %s)", printable(step_, 200));
  siginfo_t how;
  for (int round = 0; round < 500 && !process_.reap(&how, WNOHANG); ++round) poll(nullptr, 0, 1);
  String end = "ended";  // where the application lets the system reap its children, nothing more is known
  if (how.si_pid != 0 && how.si_code == CLD_EXITED) end = format("ended with exit status %d", how.si_status);
  else if (how.si_pid != 0) end = format("ended by signal %d (%s)", how.si_status, strsignal(how.si_status));
  return Status::errorf(ErrorId::compile_process_died, "the process that compiles%s %s before it was done%s", of, end,
                        step);
}

Result<String> run(const char *verb, const Model &model, const OptionSet &options, TargetWriter *out,
                   const CallWatch &watch) {
  const CallEvents events(watch.profile ? &watch.profile->log() : nullptr, verb);
  const CallEvents::Phase phase(events, "process");
  Child child(model, watch, out);
  QR_RETURN_IF_ERROR(child.start(verb, options));
  return child.wait();
}

}  // namespace

Status compile_in_child(const Model &model, const OptionSet &options, TargetWriter &out, const CallWatch &watch) {
  return run("compile", model, options, &out, watch).take_status();
}

Result<String> check_in_child(const Model &model, const OptionSet &options, const CallWatch &watch) {
  return run("check", model, options, nullptr, watch);
}

#endif

}  // namespace quarry
