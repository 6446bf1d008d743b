// SPDX-License-Identifier: Apache-2.0
#include "runtime/compile/compile_child.h"

#ifndef QR_NO_DLOPEN
#include <cerrno>
#include <cinttypes>
#include <cstring>

#include "base/new_file.h"
#include "base/os/child_process.h"
#include "base/os/file.h"
#include "base/os/path.h"
#include "base/os/shared_memory.h"
#include "base/os_error.h"
#include "runtime/compile/child_frames.h"
#include "runtime/core/file.h"
#include "runtime/core/runtime.h"
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
// A child that is asked to stop gets this long to do so by itself; what it makes is written by this process.
constexpr std::uint64_t kGraceNs = 40'000'000;

Status failure(const char *what, int error) {
  return Status::errorf(os_error_id(error, ErrorId::compile_process), "the process that compiles: %s: %s", what,
                        os_error_text(error));
}

Status unreadable() {
  return Status::error(ErrorId::compile_process, "the process that compiles: it sent what cannot be read");
}

// Installed in libquarry's own folder of plugins; beside libquarry in a build tree.
Result<String> find_program(const Runtime &runtime) {
  String tried;
  String file = find_own_file(runtime.library_folder(), "/quarry/quarry-compiler" QR_PROGRAM_SUFFIX,
                              "/quarry-compiler" QR_PROGRAM_SUFFIX, tried);
  if (!file.empty()) return file;
  return Status::hinted(ErrorId::compile_process, "install it with Quarry's libraries, or set the option to own",
                        "option compile.process: found child, but no program %s (looked at %s)", kProgram,
                        tried.c_str());
}

// The bytes of a model that lie in memory alone, as a file.
Result<OpenFd> file_of(qrm::Bytes bytes) {
  OpenFd file = os::make_shared_memory("quarry-model", 0);
  if (file.get() < 0) return failure("a file for the model", errno);
  NewFile content("the process that compiles");
  QR_RETURN_IF_ERROR(content.open_descriptor(file.get()));
  QR_RETURN_IF_ERROR(content.write(bytes.data, bytes.size));
  return file;
}

// A copy of the descriptor; without one the bytes, which lie in memory alone.
Status keep_file(int fd, qrm::Bytes bytes, OpenFd &out) {
  OpenFd made;
  if (fd < 0) {
    QR_ASSIGN_OR_RETURN(made, file_of(bytes));
  }
  out = os::duplicate(fd < 0 ? made.get() : fd, child::kAboveOurs);
  return out.get() < 0 ? failure("the model's descriptor", errno) : Status();
}

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
  Status receive(bool *ended);
  Status take(child::Kind kind, std::string_view frame);
  Status died();

  const Model &model_;
  const CallWatch &watch_;
  const CallSignal signal_;
  TargetWriter *const out_;
  os::ChildProcess process_;
  String backend_, step_, received_, report_;
  bool done_ = false;  // it said so, and `failed_` or `report_` is there
  Status failed_;
};

// The model's files for the child: the model, its external data, and the folder where they lie.
struct Child::Files {
  Vector<OpenFd> all;
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
  for (const loader::Folder &one : runtime.search_path()) {
    if (!folders.empty()) folders += os::kListSeparator;
    folders += one.path;
  }
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
  Vector<os::Inherited> inherited(files.all.size());
  for (std::size_t i = 0; i < inherited.size(); ++i) {
    const int fd = files.all[i].get();
    inherited[i] = {fd, i == 0 ? child::kModel : i > files.external ? child::kFolder : fd};
  }
  const int error = process_.start(words(program, verb, options, files), model_.runtime().library_folder(), inherited,
                                   child::kStream);
  return error ? failure(program.c_str(), error) : Status();
}

// Everything that is there to be read.
Status Child::receive(bool *ended) {
  char block[65536];
  const std::ptrdiff_t count = process_.receive(block, sizeof block);
  if (count < 0) return {};
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
  for (bool ended = false; !ended;) {
    const std::uint64_t now = loader::monotonic_ns();
    if (give_up == 0) {
      stopped = signal_.check("compile");
      if (!stopped.ok()) {
        process_.hang_up();  // which the child reads as its end
        give_up = now + kGraceNs;
      }
    }
    if (give_up && now >= give_up) break;
    const std::uint64_t until = give_up ? give_up : signal_.deadline_ns();
    // Without a descriptor for the signal it is looked at now and then.
    std::uint64_t pause_ms = signal_.signal() && aborted < 0 ? 20 : 60'000;
    if (until) pause_ms = std::min(pause_ms, (until > now ? until - now : 0) / 1'000'000 + 1);
    if (process_.wait(give_up ? os::kNoEvent : aborted, pause_ms)) QR_RETURN_IF_ERROR(receive(&ended));
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
  return Status::errorf(ErrorId::compile_process_died, "the process that compiles%s %s before it was done%s", of,
                        process_.how_it_ended(500), step);
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
