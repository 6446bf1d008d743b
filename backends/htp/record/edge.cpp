// SPDX-License-Identifier: Apache-2.0
// The edge of libquarry-replay: replay.h in terms of reader.h and replay.h.
#include "quarry/replay.h"

#include "backends/htp/record/report.h"
#include "base/side_edge.h"
#include "base/stop.h"

using namespace quarry;
using namespace quarry::side;

namespace {

constexpr char kStopped[] = "replay: stopped by its signal or its timeout";

// A call's signal, as the C ABI has it; NULL never stops.
class SignalSource final : public StopSource {
 public:
  explicit SignalSource(qr_signal *signal) noexcept : signal_(signal) {}
  bool stopped() const noexcept override { return signal_ && !qr::Status(qr_signal_check(signal_)).ok(); }
  Status status(std::string_view) const noexcept override {
    const qr::Status found(qr_signal_check(signal_));
    if (found.ok()) return {};
    return Status::error(found.code() == QR_DEADLINE_EXCEEDED ? ErrorId::deadline_exceeded : ErrorId::cancelled,
                         kStopped);
  }

 private:
  qr_signal *signal_;
};

Status read_options(const char *function, const qr_replay_options *from, qr_replay_options *out) {
  *out = QR_REPLAY_OPTIONS_INIT;
  if (!from) return {};
  QR_RETURN_IF_ERROR(read_struct(function, "qr_replay_options", from, QR_REPLAY_OPTIONS_FIRST_SIZE, out));
  if (out->flags & ~(QR_REPLAY_LIST | QR_REPLAY_UNFINISHED))
    return Status::error(ErrorId::unknown_flag,
                         format("%s: qr_replay_options.flags: found 0x%x, expected QR_REPLAY_*", function, out->flags));
  return {};
}

Status read_call(const char *function, const qr_call_options *from, qr_signal **out) {
  *out = nullptr;
  if (!from) return {};
  qr_call_options call;
  QR_RETURN_IF_ERROR(read_struct(function, "qr_call_options", from, QR_CALL_OPTIONS_FIRST_SIZE, &call));
  if (call.flags)
    return Status::error(ErrorId::unknown_flag, format("%s: qr_call_options: found flags, expected 0", function));
  *out = call.signal;
  return {};
}

Status replay(const char *function, const qr_string &record, const qr_replay_options &options, String *out_report,
              std::uint64_t *out_differences) {
  std::string_view path, library_path;
  QR_RETURN_IF_ERROR(read_text(function, "record", record, &path, Bytes::Any));
  QR_RETURN_IF_ERROR(read_text(function, "qr_replay_options.library", options.library, &library_path, Bytes::Any));
  QR_ASSIGN_OR_RETURN(const Unique<record::Reader> reader, record::Reader::open(path));
  const bool lists = options.flags & QR_REPLAY_LIST;
  std::shared_ptr<const qnn::Library> library;
  if (!lists && reader->keeps_weights()) {
    QR_ASSIGN_OR_RETURN(library, qnn::Library::open(qnn::library_places(library_path)));
  }
  if (!lists && !library)
    return Status::error(ErrorId::backend_limit,
                         format("%s: found a record that %llu bytes of weights were left out of, expected all of them",
                                printable(path, 1000), reader->left_out()),
                         "record again with htp.record_weights=1; without weights its calls can only be listed");
  record::Replay replayed(
      *reader, library,
      options.flags & QR_REPLAY_UNFINISHED ? record::Replay::Unfinished::Make : record::Replay::Unfinished::LeaveOut);
  if (Status run = replayed.run(); !run.ok()) return std::move(run.with("file", path));
  *out_report = record::report_json(path, *reader, replayed.outcome(), library.get(), lists);
  *out_differences = replayed.outcome().differing;
  return {};
}

}  // namespace

extern "C" {

qr_status *qr_replay(qr_string record, const qr_replay_options *options, const qr_call_options *call, char **out_report,
                     uint64_t *out_differences) {
  const char *function = __func__;
  return guard([&]() -> Status {
    if (!out_report) return null_argument(function, "out_report");
    qr_replay_options read;
    QR_RETURN_IF_ERROR(read_options(function, options, &read));
    qr_signal *signal = nullptr;
    QR_RETURN_IF_ERROR(read_call(function, call, &signal));
    const SignalSource source(signal);
    const StopScope scope(source);
    String report;
    std::uint64_t differences = 0;
    QR_RETURN_IF_ERROR(replay(function, record, read, &report, &differences));
    *out_report = copy_of(report);
    if (out_differences) *out_differences = differences;
    return {};
  });
}

}  // extern "C"
