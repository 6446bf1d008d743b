// SPDX-License-Identifier: Apache-2.0
// A thin C++17 wrapper of generate.h, in the way of quarry.hpp. Programs that include it link libquarry-generate.
//
//   qr::Session session(model, &options);   // with the option "state"
//   qr::Generator generator(session, settings);
//   generator.prompt(tokens);
//   generator.run([&](std::int64_t token) { return print(token), true; });
#ifndef QUARRY_GENERATE_HPP
#define QUARRY_GENERATE_HPP

#include <quarry/macros_off.hpp>
#include <quarry/generate.h>
#include <quarry/quarry.hpp>

namespace qr {

class Sampler : public Handle<qr_sampler, qr_sampler_destroy> {
 public:
  using Handle::Handle;
  Sampler() noexcept = default;  // empty, to be assigned to
  static Result<Sampler> try_create(const qr_sampler_options &options = QR_SAMPLER_OPTIONS_INIT) noexcept {
    return detail::make<Sampler>(qr_sampler_create, &options);
  }
  Result<std::int64_t> try_pick(const float *logits, std::size_t count) noexcept {
    return detail::ask(std::int64_t{}, qr_sampler_pick, get(), logits, std::uint64_t{count});
  }
  Status try_accept(const std::int64_t *tokens, std::size_t count) noexcept {
    return Status(qr_sampler_accept(get(), tokens, count));
  }
  Status try_reset() noexcept { return Status(qr_sampler_reset(get())); }
#if QR_HAS_EXCEPTIONS
  explicit Sampler(const qr_sampler_options &options) : Sampler(try_create(options).value()) {}
  std::int64_t pick(const float *logits, std::size_t count) { return try_pick(logits, count).value(); }
  void accept(std::int64_t token) { check(try_accept(&token, 1)); }
  void reset() { check(try_reset()); }
#endif
};

class Generator : public Handle<qr_generator, qr_generator_destroy> {
 public:
  // Gets each token; false ends the run.
  using Sink = std::function<bool(std::int64_t token)>;
  struct Step {
    std::int64_t token = -1;
    qr_end_reason end = QR_END_NONE;
  };
  struct Outcome {
    std::uint64_t count = 0;
    qr_end_reason end = QR_END_NONE;
  };
  using Handle::Handle;
  Generator() noexcept = default;  // empty, to be assigned to
  static Result<Generator> try_create(const Session &session,
                                      const qr_generator_options &options = QR_GENERATOR_OPTIONS_INIT,
                                      Signal *signal = nullptr) noexcept {
    const qr_call_options call = detail::call(signal);
    return detail::make<Generator>(qr_generator_create, session.get(), &options, &call);
  }
  Status try_prompt(const std::int64_t *tokens, std::size_t count, Signal *signal = nullptr,
                    Profile *profile = nullptr) noexcept {
    const qr_run_options run = options(signal, profile);
    return Status(qr_generator_prompt(get(), tokens, count, &run));
  }
  Result<Step> try_step(Signal *signal = nullptr, Profile *profile = nullptr) noexcept {
    const qr_run_options run = options(signal, profile);
    Step made;
    Status status(qr_generator_step(get(), &run, &made.token, &made.end));
    return status.ok() ? Result<Step>(made) : Result<Step>(std::move(status));
  }
  // What `sink` throws ends the run and comes out of here.
  Result<Outcome> try_run(const Sink &sink = {}, Signal *signal = nullptr, Profile *profile = nullptr) {
    const qr_run_options run = options(signal, profile);
    SinkCall call(sink);
    Outcome made;
    Status status(qr_generator_run(get(), &run, sink ? call.c() : nullptr, &made.count, &made.end));
    call.rethrow();
    return status.ok() ? Result<Outcome>(made) : Result<Outcome>(std::move(status));
  }
  // Both live until the next call on the generator.
  Result<std::pair<const float *, std::size_t>> try_logits(Signal *signal = nullptr) noexcept {
    using Logits = std::pair<const float *, std::size_t>;
    const qr_run_options run = options(signal, nullptr);
    const float *logits = nullptr;
    std::uint64_t count = 0;
    Status status(qr_generator_logits(get(), &run, &logits, &count));
    return status.ok() ? Result<Logits>(Logits(logits, count)) : Result<Logits>(std::move(status));
  }
  Status try_accept(std::int64_t token) noexcept { return Status(qr_generator_accept(get(), token)); }
  Status try_rewind(std::uint64_t length) noexcept { return Status(qr_generator_rewind(get(), length)); }
  Result<qr_sequence_info> try_sequence() noexcept {
    return detail::ask(qr_sequence_info QR_SEQUENCE_INFO_INIT, qr_generator_sequence, get());
  }
  Result<State> try_state() noexcept { return detail::make<State>(qr_generator_state, get()); }
  Status try_restore(const std::int64_t *tokens, std::size_t count) noexcept {
    return Status(qr_generator_restore(get(), tokens, count));
  }
#if QR_HAS_EXCEPTIONS
  explicit Generator(const Session &session, const qr_generator_options &options = QR_GENERATOR_OPTIONS_INIT,
                     Signal *signal = nullptr)
      : Generator(try_create(session, options, signal).value()) {}
  void prompt(const std::vector<std::int64_t> &tokens, Signal *signal = nullptr, Profile *profile = nullptr) {
    check(try_prompt(tokens.data(), tokens.size(), signal, profile));
  }
  Step step(Signal *signal = nullptr, Profile *profile = nullptr) { return try_step(signal, profile).value(); }
  Outcome run(const Sink &sink = {}, Signal *signal = nullptr, Profile *profile = nullptr) {
    return try_run(sink, signal, profile).value();
  }
  std::pair<const float *, std::size_t> logits(Signal *signal = nullptr) { return try_logits(signal).value(); }
  void accept(std::int64_t token) { check(try_accept(token)); }
  void rewind(std::uint64_t length) { check(try_rewind(length)); }
  qr_sequence_info sequence() { return try_sequence().value(); }
  State state() { return try_state().value(); }
  void restore(const std::vector<std::int64_t> &tokens) { check(try_restore(tokens.data(), tokens.size())); }
#endif

 private:
  static qr_run_options options(Signal *signal, Profile *profile) noexcept {
    qr_run_options run = QR_RUN_OPTIONS_INIT;
    run.signal = detail::get(signal);
    run.profile = detail::get(profile);
    return run;
  }
  // A Sink as the C ABI takes it. An exception of its does not pass through the library: it ends the run and waits for
  // rethrow().
  class SinkCall {
   public:
    explicit SinkCall(const Sink &sink) noexcept : sink_(sink) {
      c_.self = this;
      c_.token = token;
    }
    SinkCall(const SinkCall &) = delete;
    SinkCall &operator=(const SinkCall &) = delete;
    const qr_token_sink *c() const noexcept { return &c_; }
    void rethrow() const {
#if QR_HAS_EXCEPTIONS
      if (thrown_) std::rethrow_exception(thrown_);
#endif
    }

   private:
    static std::int32_t token(void *self, std::int64_t token) noexcept {
      auto *call = static_cast<SinkCall *>(self);
#if QR_HAS_EXCEPTIONS
      try {
        return call->sink_(token) ? QR_GO_ON : QR_STOP;
      } catch (...) {
        call->thrown_ = std::current_exception();
        return QR_STOP;
      }
#else
      return call->sink_(token) ? QR_GO_ON : QR_STOP;
#endif
    }
    const Sink &sink_;
    qr_token_sink c_ = QR_TOKEN_SINK_INIT;
    std::exception_ptr thrown_;
  };
};

}  // namespace qr

#include <quarry/macros_on.hpp>
#endif
