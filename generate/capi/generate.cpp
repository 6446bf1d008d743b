// SPDX-License-Identifier: Apache-2.0
// The edge of libquarry-generate: generate.h in terms of sampler.h and generator.h.
#include "quarry/generate.h"

#include "base/side_edge.h"
#include "generate/generator.h"

using namespace quarry;
using namespace quarry::generate;
using namespace quarry::side;

struct qr_sampler {
  explicit qr_sampler(const qr_sampler_options &options) noexcept : object(options) {}
  Sampler object;
  Vector<std::int64_t> before;
  std::atomic<bool> in_use{false};
};

struct qr_generator {
  Unique<Generator> object;
  std::atomic<bool> in_use{false};
};

namespace {

Status read_sampler_options(const char *function, const qr_sampler_options *from, qr_sampler_options *out) {
  *out = QR_SAMPLER_OPTIONS_INIT;
  if (!from) return {};
  QR_RETURN_IF_ERROR(read_struct(function, "qr_sampler_options", from, QR_SAMPLER_OPTIONS_FIRST_SIZE, out));
  return check_sampler_options(function, *out);
}

Status check_list(const char *function, const char *argument, const std::int64_t *tokens, std::uint64_t count) {
  if (!tokens && count) return null_argument(function, argument);
  if (count <= SIZE_MAX / 16) return {};
  return Status::error(ErrorId::bad_argument,
                       format("%s: found %llu tokens, expected as many as memory has room for", function, count));
}

// The options of a call that makes several runs: its signal is of all of them together.
class Runs {
 public:
  Status read(const char *function, const qr_run_options *from) {
    if (!from) return {};
    QR_RETURN_IF_ERROR(read_struct(function, "qr_run_options", from, QR_RUN_OPTIONS_FIRST_SIZE, &options_));
    options_.struct_size = sizeof options_;
    if (!options_.signal) return {};
    qr_signal *own = nullptr;
    QR_RETURN_IF_ERROR(from_library(qr_signal_derive(options_.signal, &own)));
    own_ = qr::Signal(own);
    options_.signal = own;
    return {};
  }
  const qr_run_options &options() const noexcept { return options_; }

 private:
  qr_run_options options_ = QR_RUN_OPTIONS_INIT;
  qr::Signal own_;
};

// One call at a time on a generator.
template <class Body>
qr_status *with(qr_generator *generator, Body &&body, const char *function = __builtin_FUNCTION()) noexcept {
  return side::with(
      generator, "generator", [&](qr_generator &held) { return body(*held.object); }, function);
}

// The same, of a call that runs the session.
template <class Body>
qr_status *run_with(qr_generator *generator, const qr_run_options *options, Body &&body,
                    const char *function = __builtin_FUNCTION()) noexcept {
  return with(
      generator,
      [&](Generator &object) -> Status {
        Runs runs;
        QR_RETURN_IF_ERROR(runs.read(function, options));
        return body(object, runs.options());
      },
      function);
}

Status read_settings(const char *function, const qr_generator_options &from, Generator::Settings *out) {
  QR_RETURN_IF_ERROR(check_list(function, "qr_generator_options.stop_tokens", from.stop_tokens, from.stop_token_count));
  out->stop_tokens.assign(from.stop_tokens, from.stop_tokens + from.stop_token_count);
  out->most_new = from.max_new_tokens;
  return {};
}

}  // namespace

extern "C" {

qr_status *qr_sampler_create(const qr_sampler_options *options, qr_sampler **out_sampler) {
  const char *function = __func__;
  return guard([&]() -> Status {
    if (!out_sampler) return null_argument(function, "out_sampler");
    qr_sampler_options read;
    QR_RETURN_IF_ERROR(read_sampler_options(function, options, &read));
    *out_sampler = make_unique<qr_sampler>(read).release();
    return {};
  });
}

qr_status *qr_sampler_pick(qr_sampler *sampler, const float *logits, uint64_t count, int64_t *out_token) {
  const char *function = __func__;
  return side::with(sampler, "sampler", [&](qr_sampler &held) -> Status {
    if (!logits && count) return null_argument(function, "logits");
    if (!out_token) return null_argument(function, "out_token");
    QR_ASSIGN_OR_RETURN(*out_token, held.object.pick({logits, static_cast<std::size_t>(count)}, held.before));
    return {};
  });
}

qr_status *qr_sampler_accept(qr_sampler *sampler, const int64_t *tokens, uint64_t count) {
  const char *function = __func__;
  return side::with(sampler, "sampler", [&](qr_sampler &held) -> Status {
    QR_RETURN_IF_ERROR(check_list(function, "tokens", tokens, count));
    held.before.insert(held.before.end(), tokens, tokens + count);
    return {};
  });
}

qr_status *qr_sampler_reset(qr_sampler *sampler) {
  return side::with(sampler, "sampler", [&](qr_sampler &held) -> Status {
    held.before.clear();
    held.object.reset();
    return {};
  });
}

void qr_sampler_destroy(qr_sampler *sampler) {
  if (sampler) Unique<qr_sampler>(sampler).reset();
}

qr_status *qr_generator_create(qr_session *session, const qr_generator_options *options, const qr_call_options *call,
                               qr_generator **out_generator) {
  const char *function = __func__;
  return guard([&]() -> Status {
    if (!session) return null_argument(function, "session");
    if (!out_generator) return null_argument(function, "out_generator");
    qr_generator_options read = QR_GENERATOR_OPTIONS_INIT;
    if (options)
      QR_RETURN_IF_ERROR(
          read_struct(function, "qr_generator_options", options, QR_GENERATOR_OPTIONS_FIRST_SIZE, &read));
    qr_sampler_options sampler;
    QR_RETURN_IF_ERROR(read_sampler_options(function, read.sampler, &sampler));
    Generator::Settings settings;
    QR_RETURN_IF_ERROR(read_settings(function, read, &settings));
    std::string_view text;
    QR_RETURN_IF_ERROR(read_text(function, "qr_generator_options.names", read.names, &text));
    Names names;
    QR_RETURN_IF_ERROR(names.read(function, text));
    constexpr std::uint64_t kChunk = 256;
    const std::uint64_t chunk = read.prompt_chunk ? read.prompt_chunk : kChunk;
    QR_ASSIGN_OR_RETURN(auto decoder, Decoder::open(session, names, static_cast<std::size_t>(chunk), call));
    auto made = make_unique<qr_generator>();
    made->object = quarry::make_unique<Generator>(std::move(decoder), sampler, std::move(settings));
    *out_generator = made.release();
    return {};
  });
}

qr_status *qr_generator_prompt(qr_generator *generator, const int64_t *tokens, uint64_t count,
                               const qr_run_options *options) {
  const char *function = __func__;
  return run_with(generator, options, [&](Generator &object, const qr_run_options &run) -> Status {
    QR_RETURN_IF_ERROR(check_list(function, "tokens", tokens, count));
    return object.prompt({tokens, static_cast<std::size_t>(count)}, run);
  });
}

qr_status *qr_generator_step(qr_generator *generator, const qr_run_options *options, int64_t *out_token,
                             qr_end_reason *out_end) {
  const char *function = __func__;
  return run_with(generator, options, [&](Generator &object, const qr_run_options &run) -> Status {
    if (!out_token) return null_argument(function, "out_token");
    if (!out_end) return null_argument(function, "out_end");
    QR_ASSIGN_OR_RETURN(const Generator::Step made, object.step(run));
    *out_token = made.token, *out_end = made.end;
    return {};
  });
}

qr_status *qr_generator_run(qr_generator *generator, const qr_run_options *options, const qr_token_sink *sink,
                            uint64_t *out_count, qr_end_reason *out_end) {
  const char *function = __func__;
  return run_with(generator, options, [&](Generator &object, const qr_run_options &run) -> Status {
    if (!out_end) return null_argument(function, "out_end");
    qr_token_sink to = QR_TOKEN_SINK_INIT;
    if (sink) QR_RETURN_IF_ERROR(read_struct(function, "qr_token_sink", sink, QR_TOKEN_SINK_FIRST_SIZE, &to));
    QR_ASSIGN_OR_RETURN(const Generator::Outcome made, object.run(run, to));
    if (out_count) *out_count = made.count;
    *out_end = made.end;
    return {};
  });
}

qr_status *qr_generator_logits(qr_generator *generator, const qr_run_options *options, const float **out_logits,
                               uint64_t *out_count) {
  const char *function = __func__;
  return run_with(generator, options, [&](Generator &object, const qr_run_options &run) -> Status {
    if (!out_logits) return null_argument(function, "out_logits");
    if (!out_count) return null_argument(function, "out_count");
    QR_ASSIGN_OR_RETURN(const auto logits, object.logits(run));
    *out_logits = logits.data(), *out_count = logits.size();
    return {};
  });
}

qr_status *qr_generator_accept(qr_generator *generator, int64_t token) {
  return with(generator, [&](Generator &object) { return object.accept(token); });
}

qr_status *qr_generator_rewind(qr_generator *generator, uint64_t length) {
  return with(generator, [&](Generator &object) { return object.rewind(length); });
}

qr_status *qr_generator_sequence(qr_generator *generator, qr_sequence_info *out_info) {
  const char *function = __func__;
  return with(generator, [&](Generator &object) -> Status {
    QR_RETURN_IF_ERROR(
        check_struct(function, "qr_sequence_info", out_info, QR_SEQUENCE_INFO_FIRST_SIZE, sizeof(qr_sequence_info)));
    write_struct(object.sequence(), out_info);
    return {};
  });
}

qr_status *qr_generator_state(qr_generator *generator, qr_state **out_state) {
  const char *function = __func__;
  return with(generator, [&](Generator &object) -> Status {
    if (!out_state) return null_argument(function, "out_state");
    QR_ASSIGN_OR_RETURN(*out_state, object.state());
    return {};
  });
}

qr_status *qr_generator_restore(qr_generator *generator, const int64_t *tokens, uint64_t count) {
  const char *function = __func__;
  return with(generator, [&](Generator &object) -> Status {
    QR_RETURN_IF_ERROR(check_list(function, "tokens", tokens, count));
    return object.restore({tokens, static_cast<std::size_t>(count)});
  });
}

void qr_generator_destroy(qr_generator *generator) {
  if (generator) Unique<qr_generator>(generator).reset();
}

}  // extern "C"
