// SPDX-License-Identifier: Apache-2.0
// The edge of libquarry-quantize: quantize.h in terms of quantizer.h.
#include "quarry/quantize.h"

#include "base/side_edge.h"
#include "quantize/search/quantizer.h"
#include "quantize/stop.h"

using namespace quarry;
using namespace quarry::quantize;
using namespace quarry::side;

struct qr_quantizer {
  Unique<Quantizer> object;
  std::atomic<bool> in_use{false};
};

namespace {

Status read_source_of(const char *function, const qr_model_source *from, qr_model_source *out) {
  QR_RETURN_IF_ERROR(read_struct(function, "qr_model_source", from, QR_MODEL_SOURCE_FIRST_SIZE, out));
  return check_source(function, *out);
}

// How a call is stopped and followed. All that the call makes others do goes by a signal of its own: its timeout counts
// over all of that, and what the progress function stops is this call alone.
class Call {
 public:
  Call() = default;
  Call(const Call &) = delete;
  Call &operator=(const Call &) = delete;
  Status read(const char *function, qr_runtime *runtime, const qr_call_options *from) {
    if (!from) return {};
    QR_RETURN_IF_ERROR(
        check_struct(function, "qr_call_options", from, QR_CALL_OPTIONS_FIRST_SIZE, sizeof(qr_call_options)));
    if (from->flags)
      return Status::error(ErrorId::unknown_flag, format("%s: qr_call_options: found flags, expected 0", function));
    if (from->progress) {
      QR_RETURN_IF_ERROR(
          check_struct(function, "qr_progress", from->progress, QR_PROGRESS_FIRST_SIZE, sizeof(qr_progress)));
      told_.self = from->progress->self;
      told_.report = from->progress->report;
    }
    if (!from->signal && !told_.report) return {};
    qr_signal *own = nullptr;
    QR_RETURN_IF_ERROR(side::from_library(
        qr::Status(from->signal ? qr_signal_derive(from->signal, &own) : qr_signal_create(runtime, &own))));
    own_ = qr::Signal(own);
    progress_.self = this;
    progress_.report = [](void *self, uint64_t done, uint64_t total, qr_string what) -> int32_t {
      Call &call = *static_cast<Call *>(self);
      if (call.told_.report && !call.stopped_ && call.told_.report(call.told_.self, done, total, what) != QR_GO_ON) {
        call.stopped_ = true;
        call.own_.abort();
      }
      return QR_GO_ON;
    };
    return {};
  }
  qr_signal *signal() const noexcept { return own_.get(); }
  const qr_progress *progress() const noexcept { return &progress_; }
  // What a stop by the progress function leads to is named by it.
  Status outcome(const char *function, Status status) const {
    if (!stopped_ || status.code() != QR_CANCELLED) return status;
    return Status::error(ErrorId::stopped_by_progress, format("%s: stopped, its progress function said so", function));
  }

 private:
  qr::Signal own_;
  qr_progress told_ = QR_PROGRESS_INIT, progress_ = QR_PROGRESS_INIT;
  bool stopped_ = false;
};

// One call at a time on a quantizer.
template <class Body>
qr_status *with(qr_quantizer *quantizer, Body &&body, const char *function = __builtin_FUNCTION()) noexcept {
  return side::with(
      quantizer, "quantizer", [&](qr_quantizer &held) { return body(*held.object); }, function);
}

// A call that writes: `body` gets where to.
template <class Body>
qr_status *write_with(qr_quantizer *quantizer, const qr_target *target, const char *name, const qr_call_options *call,
                      Body &&body, const char *function = __builtin_FUNCTION()) noexcept {
  return with(
      quantizer,
      [&](Quantizer &object) -> Status {
        qr_target to = QR_TARGET_INIT;
        QR_RETURN_IF_ERROR(read_struct(function, "qr_target", target, QR_TARGET_FIRST_SIZE, &to));
        QR_RETURN_IF_ERROR(TargetWriter::check(function, to));
        Call watch;
        QR_RETURN_IF_ERROR(watch.read(function, object.runtime(), call));
        const SignalSource source(watch.signal());
        const StopScope scope(source);
        TargetWriter out(function, to, name);
        return watch.outcome(function, body(object, out, watch));
      },
      function);
}

}  // namespace

extern "C" {

uint64_t qr_quantize_option_count(void) { return option_texts().size(); }

qr_status *qr_quantize_option_at(uint64_t index, qr_quantize_option *out_option) {
  const char *function = __func__;
  return guard([&]() -> Status {
    if (index >= option_texts().size()) return out_of_range(function, index, option_texts().size());
    QR_RETURN_IF_ERROR(check_struct(function, "qr_quantize_option", out_option, QR_QUANTIZE_OPTION_FIRST_SIZE,
                                    sizeof(qr_quantize_option)));
    const OptionText &row = option_texts()[index];
    qr_quantize_option out = QR_QUANTIZE_OPTION_INIT;
    out.key = to_c(row.key), out.values = to_c(row.values), out.default_value = to_c(row.fallback);
    out.help = to_c(row.help);
    write_struct(out, out_option);
    return {};
  });
}

qr_status *qr_quantizer_open(qr_runtime *runtime, const qr_model_source *source, const qr_call_options *call,
                             qr_quantizer **out_quantizer) {
  const char *function = __func__;
  return guard([&]() -> Status {
    if (!runtime) return null_argument(function, "runtime");
    if (!out_quantizer) return null_argument(function, "out_quantizer");
    qr_model_source from = QR_MODEL_SOURCE_INIT;
    QR_RETURN_IF_ERROR(read_source_of(function, source, &from));
    Call watch;
    QR_RETURN_IF_ERROR(watch.read(function, runtime, call));
    const SignalSource stop(watch.signal());
    const StopScope scope(stop);
    auto made = make_unique<qr_quantizer>();
    auto opened = Quantizer::open(runtime, from, watch.signal());
    if (!opened.ok()) return watch.outcome(function, opened.take_status());
    made->object = std::move(*opened);
    *out_quantizer = made.release();
    return {};
  });
}

qr_status *qr_quantizer_set(qr_quantizer *quantizer, qr_string key, qr_string value) {
  const char *function = __func__;
  return with(quantizer, [&](Quantizer &object) -> Status {
    std::string_view name, word;
    QR_RETURN_IF_ERROR(read_text(function, "key", key, &name));
    QR_RETURN_IF_ERROR(read_text(function, "value", value, &word, Bytes::Any));
    return object.set(name, word);
  });
}

qr_status *qr_quantizer_input_count(qr_quantizer *quantizer, const qr_call_options *call, uint64_t *out_count) {
  const char *function = __func__;
  return with(quantizer, [&](Quantizer &object) -> Status {
    if (!out_count) return null_argument(function, "out_count");
    Call watch;
    QR_RETURN_IF_ERROR(watch.read(function, object.runtime(), call));
    const SignalSource stop(watch.signal());
    const StopScope scope(stop);
    auto inputs = object.inputs(watch.signal());
    if (!inputs.ok()) return watch.outcome(function, inputs.take_status());
    *out_count = inputs->size();
    return {};
  });
}

qr_status *qr_quantizer_input(qr_quantizer *quantizer, uint64_t index, qr_tensor_info *out_info) {
  const char *function = __func__;
  return with(quantizer, [&](Quantizer &object) -> Status {
    QR_RETURN_IF_ERROR(
        check_struct(function, "qr_tensor_info", out_info, QR_TENSOR_INFO_FIRST_SIZE, sizeof(qr_tensor_info)));
    QR_ASSIGN_OR_RETURN(const auto inputs, object.inputs(nullptr));
    if (index >= inputs.size()) return out_of_range(function, index, inputs.size());
    write_struct(inputs[index], out_info);
    return {};
  });
}

qr_status *qr_quantizer_add_sample(qr_quantizer *quantizer, const qr_tensor *const *inputs, uint64_t input_count,
                                   const qr_call_options *call) {
  const char *function = __func__;
  return with(quantizer, [&](Quantizer &object) -> Status {
    if (!inputs && input_count) return null_argument(function, "inputs");
    for (std::uint64_t i = 0; i < input_count; ++i)
      if (inputs[i])
        QR_RETURN_IF_ERROR(check_struct(function, "qr_tensor", inputs[i], QR_TENSOR_FIRST_SIZE, sizeof(qr_tensor)));
    Call watch;
    QR_RETURN_IF_ERROR(watch.read(function, object.runtime(), call));
    const SignalSource source(watch.signal());
    const StopScope scope(source);
    return watch.outcome(function, object.add_sample(inputs, input_count, watch.signal(), watch.progress()));
  });
}

qr_status *qr_quantizer_sample_count(qr_quantizer *quantizer, uint64_t *out_count) {
  const char *function = __func__;
  return with(quantizer, [&](Quantizer &object) -> Status {
    if (!out_count) return null_argument(function, "out_count");
    *out_count = object.samples();
    return {};
  });
}

qr_status *qr_quantizer_save(qr_quantizer *quantizer, const qr_target *target, qr_string note,
                             const qr_call_options *call) {
  const char *function = __func__;
  return write_with(quantizer, target, "calibration", call,
                    [&](Quantizer &object, TargetWriter &out, Call &watch) -> Status {
                      std::string_view words;
                      QR_RETURN_IF_ERROR(read_text(function, "note", note, &words));
                      return out.finish(object.save(out, words, watch.signal()));
                    });
}

qr_status *qr_quantizer_restore(qr_quantizer *quantizer, const qr_model_source *source, const qr_call_options *call,
                                char **out_note) {
  const char *function = __func__;
  return with(quantizer, [&](Quantizer &object) -> Status {
    qr_model_source from = QR_MODEL_SOURCE_INIT;
    QR_RETURN_IF_ERROR(read_source_of(function, source, &from));
    Call watch;
    QR_RETURN_IF_ERROR(watch.read(function, object.runtime(), call));
    const SignalSource stop(watch.signal());
    const StopScope scope(stop);
    String note;
    QR_RETURN_IF_ERROR(watch.outcome(function, object.restore(from, watch.signal(), watch.progress(), &note)));
    if (out_note) *out_note = copy_of(note);
    return {};
  });
}

qr_status *qr_quantizer_write(qr_quantizer *quantizer, const qr_target *target, const qr_call_options *call) {
  return write_with(quantizer, target, "model.onnx", call, [&](Quantizer &object, TargetWriter &out, Call &watch) {
    return object.write(out, watch.signal(), watch.progress());
  });
}

qr_status *qr_quantizer_report(qr_quantizer *quantizer, qr_string format_name, const qr_target *target,
                               const qr_call_options *call) {
  const char *function = __func__;
  return write_with(quantizer, target, "report", call, [&](Quantizer &object, TargetWriter &out, Call &) -> Status {
    std::string_view name;
    QR_RETURN_IF_ERROR(read_text(function, "format", format_name, &name));
    if (name != "json" && name != "html")
      return Status::error(ErrorId::bad_argument,
                           format("%s: format: found \"%s\", expected json or html", function, printable(name)));
    if (!object.has_report())
      return Status::error(
          ErrorId::option_not_at_run_time,
          format("%s: found that nothing was written yet, expected qr_quantizer_write before", function),
          "call qr_quantizer_write");
    const String made = name == "json" ? report_json(object.report()) : report_html(object.report());
    QR_RETURN_IF_ERROR(out.begin(out.name(), made.size(), 0));
    return out.finish(out.write(made.data(), made.size()));
  });
}

void qr_quantizer_destroy(qr_quantizer *quantizer) {
  if (quantizer) Unique<qr_quantizer>(quantizer).reset();
}

}  // extern "C"
