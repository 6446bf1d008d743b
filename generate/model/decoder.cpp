// SPDX-License-Identifier: Apache-2.0
#include "generate/model/decoder.h"

#include <algorithm>
#include <cstring>

#include "base/float16.h"
#include "base/side_edge.h"

namespace quarry::generate {

using side::from_library;

namespace {

std::string_view view(const qr_string &text) noexcept { return {text.data, static_cast<std::size_t>(text.size)}; }

}  // namespace

Result<Unique<Decoder>> Decoder::open(qr_session *session, const Names &names, std::size_t chunk,
                                      const qr_call_options *call) {
  auto made = make_unique<Decoder>();
  qr_session *clone = nullptr;
  QR_RETURN_IF_ERROR(from_library(qr_session_clone(session, call, &clone)));
  made->session_ = qr::Session(clone);
  made->chunk_ = chunk;
  QR_RETURN_IF_ERROR(made->check_names(names));
  QR_RETURN_IF_ERROR(made->inputs_.read(made->session_, names));
  QR_RETURN_IF_ERROR(made->find_logits(names));
  QR_RETURN_IF_ERROR(made->read_state());
  return made;
}

Status Decoder::check_names(const Names &names) const {
  const auto is_there = [this](std::string_view name) {
    qr_tensor_info info = QR_TENSOR_INFO_INIT;
    for (std::uint64_t i = 0; i < qr_session_input_count(session_.get()); ++i)
      if (qr::Status(qr_session_input(session_.get(), i, &info)).ok() && view(info.name) == name) return true;
    for (std::uint64_t i = 0; i < qr_session_output_count(session_.get()); ++i)
      if (qr::Status(qr_session_output(session_.get(), i, &info)).ok() && view(info.name) == name) return true;
    return false;
  };
  const std::string_view missing = names.missing(is_there);
  if (missing.empty()) return {};
  return not_a_decoder(
      format("found no input and no output '%s', which qr_generator_options.names has", printable(missing)),
      "give the session's own names: quarry inspect lists them");
}

Status Decoder::check_logits(const qr_tensor_info &info) {
  const bool is_real = info.dtype == QR_DTYPE_F32 || info.dtype == QR_DTYPE_F16 || info.dtype == QR_DTYPE_BF16;
  if (!is_real || info.rank < 2 || info.rank > 3)
    return not_a_decoder(format("output '%s': found %s of rank %u, expected logits: f32, f16 or bf16, "
                                "[1, n, vocabulary] or [1, vocabulary]",
                                printable(view(info.name)), qr_dtype_name(info.dtype), info.rank),
                         "say which output it is: logits=NAME in qr_generator_options.names");
  const std::int64_t last = info.dims[info.rank - 1];
  vocabulary_ = last > 0 ? static_cast<std::uint64_t>(last) : 0;
  return {};
}

Status Decoder::find_logits(const Names &names) {
  const std::uint64_t count = qr_session_output_count(session_.get());
  const std::string_view given = names.given("logits"), wanted = given.empty() ? "logits" : given;
  for (output_ = 0; output_ < count; ++output_) {
    qr_tensor_info info = QR_TENSOR_INFO_INIT;
    QR_RETURN_IF_ERROR(from_library(qr_session_output(session_.get(), output_, &info)));
    if (view(info.name) == wanted || (count == 1 && given.empty())) return check_logits(info);
  }
  return not_a_decoder(format("found no output '%s' among the %llu, expected one", printable(wanted), count),
                       "say what it is called: logits=NAME in qr_generator_options.names");
}

Status Decoder::read_state() {
  qr_state *state = nullptr;
  const qr::Status found(qr_session_state(session_.get(), &state));
  if (!found.ok()) {
    if (std::string_view(found.id()) == error_row(ErrorId::no_state).id) return {};
    return from_library(found);
  }
  state_ = qr::State(state);
  bool grows = false;
  std::uint64_t room = UINT64_MAX;  // of a cache that an input counts
  for (std::uint64_t i = 0; i < qr_state_count(state); ++i) {
    qr_state_info info = QR_STATE_INFO_INIT;
    QR_RETURN_IF_ERROR(from_library(qr_state_tensor(state, i, &info)));
    if (info.axis >= 0) {
      capacity_ = grows ? std::min(capacity_, info.capacity) : info.capacity;
      grows = true;
    } else {
      const bool is_cache = info.rank == 4 && info.dims[2] > 0;  // [batch, heads, length, size]
      room = is_cache ? std::min(room, static_cast<std::uint64_t>(info.dims[2])) : 0;
    }
  }
  if (grows) keeps_ = Keeps::Growing;
  else if (inputs_.counts_cache() && room > 0 && room != UINT64_MAX) keeps_ = Keeps::Counted, capacity_ = room;
  else keeps_ = Keeps::Folded;
  return {};
}

Status Decoder::take_logits(const qr::Tensor &tensor) {
  const std::size_t bits = qr_dtype_bits(tensor.dtype), rank = tensor.rank;
  const auto width = rank > 0 ? static_cast<std::size_t>(tensor.dims[rank - 1]) : 0;
  const std::size_t bytes = width * bits / 8;
  if (width == 0 || tensor.size_bytes < bytes)
    return Status::error(ErrorId::bad_logits,
                         format("logits: found %llu bytes of width %zu, expected a row of the last "
                                "token",
                                tensor.size_bytes, width));
  const char *const row = static_cast<const char *>(tensor.bytes()) + (tensor.size_bytes - bytes);
  vocabulary_ = width;
  logits_.resize(width);
  if (tensor.dtype == QR_DTYPE_F32) {
    std::memcpy(logits_.data(), row, bytes);
    return {};
  }
  for (std::size_t i = 0; i < width; ++i) {
    std::uint16_t half;
    std::memcpy(&half, row + i * sizeof half, sizeof half);
    logits_[i] = tensor.dtype == QR_DTYPE_F16 ? f16_to_f32(half) : bf16_to_f32(half);
  }
  return {};
}

Status Decoder::run_once(std::span<const std::int64_t> tokens, bool wants_logits, const qr_run_options &run) {
  const std::vector<qr::Tensor> &filled = inputs_.fill(tokens, keeps() ? length_ : 0, dropped_);
  Vector<const qr_tensor *> inputs;
  for (const qr::Tensor &tensor : filled) inputs.push_back(&tensor);
  qr::Tensor logits;  // in the session's memory
  Vector<qr_tensor *> outputs(qr_session_output_count(session_.get()), nullptr);
  if (wants_logits) outputs[output_] = &logits;
  if (wants_logits) logits_.resize(vocabulary_);  // their room, where it is known: behind the run nothing is to fail
  QR_RETURN_IF_ERROR(
      from_library(qr_session_run(session_.get(), &run, inputs.data(), inputs.size(), outputs.data(), outputs.size())));
  // From here on the state has these tokens, whatever becomes of the logits.
  length_ = (keeps() ? length_ : 0) + tokens.size();
  if (keeps_ == Keeps::Growing) QR_RETURN_IF_ERROR(from_library(qr_state_dropped(state_.get(), &dropped_)));
  return wants_logits ? take_logits(logits) : Status();
}

Status Decoder::feed(std::span<const std::int64_t> sequence, const qr_run_options &run) {
  if (!keeps()) return run_once(sequence, true, run);
  const std::size_t most = inputs_.most() ? inputs_.most() : chunk_;
  while (length_ < sequence.size()) {
    const auto fresh = sequence.subspan(static_cast<std::size_t>(length_));
    const auto now = fresh.first(std::min(most, fresh.size()));
    QR_RETURN_IF_ERROR(run_once(now, now.size() == fresh.size(), run));
  }
  return {};
}

Status Decoder::rewind(std::uint64_t length) {
  if (length == length_) return {};
  if (dropped_ > 0 && length > 0)
    return Status::error(
        ErrorId::state_keeps_size,
        format("qr_generator_rewind: found a state that has dropped %llu tokens, expected to go back to "
               "0 alone, not to %llu",
               dropped_, length),
        "rewind to 0 and give the prompt again");
  if (keeps_ == Keeps::Growing || (keeps_ == Keeps::Folded && length == 0)) {
    QR_RETURN_IF_ERROR(from_library(length ? qr_state_rewind(state_.get(), length) : qr_state_reset(state_.get())));
  } else if (keeps_ == Keeps::Folded) {
    return Status::error(ErrorId::state_keeps_size,
                         format("qr_generator_rewind: found a state that keeps its size, expected to go back to 0 "
                                "alone, not to %llu",
                                length),
                         "rewind to 0 and give the prompt again");
  }
  length_ = length;
  dropped_ = 0;
  return {};
}

Status Decoder::restored(std::uint64_t length) {
  if (!keeps())
    return Status::error(ErrorId::no_state, "qr_generator_restore: found a session that keeps no state, expected one");
  if (keeps_ == Keeps::Growing) {
    std::uint64_t found = 0;
    QR_RETURN_IF_ERROR(from_library(qr_state_length(state_.get(), &found)));
    QR_RETURN_IF_ERROR(from_library(qr_state_dropped(state_.get(), &dropped_)));
    found += dropped_;
    if (found != length)
      return Status::error(
          ErrorId::bad_argument,
          format("qr_generator_restore: found %llu tokens, expected %llu, the state's length", length, found));
  }
  length_ = length;
  return {};
}

Result<qr_state *> Decoder::share_state() {
  qr_state *state = nullptr;
  QR_RETURN_IF_ERROR(from_library(qr_session_state(session_.get(), &state)));
  return state;
}

}  // namespace quarry::generate
