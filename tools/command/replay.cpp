// SPDX-License-Identifier: Apache-2.0
// quarry replay: the calls of a record of option htp.record, made again of any of Qualcomm's libraries.
#include <quarry/replay.h>

#include <nlohmann/json.hpp>

#include "tools/console/command.h"
#include "tools/console/interrupt.h"
#include "tools/console/side_library.h"

namespace tools {
namespace {

using Json = nlohmann::json;

struct ReplayFlags {
  std::string file, library;
  bool list = false, unfinished = false, json = false;
};

std::string text_of(const ReplayFlags &flags, uint64_t &differences) {
  const SideLibrary library(QR_REPLAY_FILE, "quarry replay",
                            "install libquarry-replay beside libquarry (in a build folder: `ninja`)");
  const auto call = reinterpret_cast<decltype(&qr_replay)>(library.function("qr_replay"));
  const qr::Runtime runtime;
  qr::Signal signal(runtime);
  const Interruptible interruptible([&signal] { signal.abort(); });
  qr_replay_options options = QR_REPLAY_OPTIONS_INIT;
  options.flags = (flags.list ? QR_REPLAY_LIST : 0u) | (flags.unfinished ? QR_REPLAY_UNFINISHED : 0u);
  options.library = {flags.library.data(), flags.library.size()};
  qr_call_options how = QR_CALL_OPTIONS_INIT;
  how.signal = signal.get();
  char *report = nullptr;
  qr::check(call({flags.file.data(), flags.file.size()}, &options, &how, &report, &differences));
  const qr::Text text(report);
  return text.get();
}

void print_record(const Json &report) {
  const Json &from = report["recorded"];
  print("%s: %s calls on %s threads of QNN %s (core %s, HTP %s), recorded by Quarry %s, %s\n",
        report.value("record", ""), from["calls"].dump(), from["threads"].dump(), from.value("build", ""),
        from.value("core", ""), from.value("htp", ""), from.value("quarry", ""),
        from["weights"].get<bool>()
            ? "with weights"
            : "without weights (" + bytes_text(from["left_out_bytes"].get<uint64_t>()) + " left out)");
  if (!from["unfinished"].is_null())
    print("  call %s had not returned when the record ended: the process ended in it\n", from["unfinished"].dump());
  if (const uint64_t at = from["cut_at"].get<uint64_t>())
    print("  the file ends in the midst of an entry, at byte %llu: what is before it is read\n", at);
}

void print_findings(const Json &list, const char *title) {
  for (const Json &one : list)
    print("  %scall %s %s: %s\n", title, one["call"].dump(), one.value("function", ""), one.value("what", ""));
}

void print_list(const Json &list) {
  for (const Json &one : list) {
    const double ms = one["at_ns"].get<double>() / 1e6;
    if (one.contains("line")) {
      print("%12.3f ms  %8s            the library says: %s\n", ms, "", one.value("line", ""));
      continue;
    }
    const std::string took =
        one.contains("took_ns") ? std::to_string(one["took_ns"].get<uint64_t>() / 1000) : std::string();
    const std::string code = one.contains("reported")      ? "reported " + one["reported"].dump()
                             : one["returned"].is_null()   ? "did not return"
                             : one["returned"] == Json(0u) ? ""
                                                           : "returned " + one["returned"].dump();
    print("%12.3f ms  %8s  %9s us  %s %s\n", ms, one["call"].dump(), took, one.value("function", ""), code);
  }
}

void print_replay(const Json &report) {
  const Json &here = report["replayed"];
  print("  made again of %s, %s\n", here.value("library", ""), here.value("path", ""));
  print("  %s calls made, %s failed in the record and here alike; %s runs with %s outputs (%s)\n", here["calls"].dump(),
        here["failed_alike"].dump(), here["runs"].dump(), here["outputs"].dump(),
        bytes_text(here["output_bytes"].get<uint64_t>()));
  if (const uint64_t others = here["other_binaries"].get<uint64_t>())
    print("  %llu of %s context binaries have other bytes than the record's, as those of another library do\n", others,
          here["binaries"].dump());
  print_findings(report["failed_alike"], "as recorded: ");
  if (const uint64_t left_out = report["left_out"].get<uint64_t>()) print("  %llu calls were left out\n", left_out);
  print_findings(report["skipped"], "left out: ");
  if (report["differing"] == Json(0u)) {
    print("  nothing differs\n");
    return;
  }
  print("  %s calls differ; the first:\n", report["differing"].dump());
  print_findings(report["differences"], "differs: ");
}

int replay(const ReplayFlags &flags) {
  uint64_t differences = 0;
  const std::string text = text_of(flags, differences);
  const Json report = Json::parse(text);
  const bool is_cut = report["recorded"]["cut_at"] != Json(0u);
  if (flags.json) {
    print_text(text);
  } else {
    print_record(report);
    if (flags.list) print_list(report["list"]);
    else print_replay(report);
  }
  return differences > 0 || is_cut ? 1 : 0;
}

}  // namespace

void register_replay(CLI::App &app, Action &action) {
  auto flags = std::make_shared<ReplayFlags>();
  CLI::App *command = app.add_subcommand(
      "replay", "Make the calls of a record (-O htp.record=FILE) again, and say whether a library answers alike");
  command->add_option("record", flags->file, "The record")->required()->type_name("FILE");
  command->add_option("--library", flags->library, "libQnnHtp.so, or its folder (QUARRY_QNN_PATH where not given)")
      ->type_name("FILE");
  command->add_flag("--list", flags->list, "List the calls and make none: no library is needed");
  command->add_flag("--unfinished", flags->unfinished,
                    "Make the call, too, that ended the process which recorded it; it may end this one");
  command->add_flag("--json", flags->json, "Print JSON (docs/formats/record.md)");
  command->footer("Exit status 1: a call returned another code or an output has other bytes, or the file is cut off.");
  command->callback([&action, flags] { action = [flags] { return replay(*flags); }; });
}

}  // namespace tools
