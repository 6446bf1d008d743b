// SPDX-License-Identifier: Apache-2.0
// A session as a decoder: tokens in, logits of the next one out, with what the session keeps of those before.
#pragma once

#include "generate/model/decoder_inputs.h"

namespace quarry::generate {

class Decoder : public HeapObject {
 public:
  // On a clone of the session. `chunk`: tokens of one run.
  static Result<Unique<Decoder>> open(qr_session *session, const Names &names, std::size_t chunk,
                                      const qr_call_options *call);

  // Runs what of the sequence is not run yet: all behind length(). What was run before a failure stays.
  Status feed(std::span<const std::int64_t> sequence, const qr_run_options &run);
  // Of the token behind the last feed, until the next one.
  std::span<const float> logits() const noexcept { return logits_; }

  // Tokens that the state has.
  std::uint64_t length() const noexcept { return length_; }
  std::uint64_t capacity() const noexcept { return capacity_; }  // 0: no end is known
  bool has_room(std::uint64_t count) const noexcept { return capacity_ == 0 || count - dropped_ <= capacity_; }
  std::uint64_t vocabulary() const noexcept { return vocabulary_; }
  // Whether tokens need not be run again.
  bool keeps() const noexcept { return keeps_ != Keeps::Nothing; }
  Status rewind(std::uint64_t length);
  // The state is another one, of so many tokens.
  Status restored(std::uint64_t length);
  Result<qr_state *> share_state();

 private:
  enum class Keeps : std::uint8_t {
    Nothing,
    Growing,  // the state knows its length
    Counted,  // a cache of constant size, of which an input says what counts
    Folded,   // a recurrent state: it cannot be rewound
  };
  Status read_state();
  Status find_logits(const Names &names);
  Status check_logits(const qr_tensor_info &info);
  Status check_names(const Names &names) const;
  Status run_once(std::span<const std::int64_t> tokens, bool wants_logits, const qr_run_options &run);
  Status take_logits(const qr::Tensor &tensor);

  qr::Session session_;
  qr::State state_;
  DecoderInputs inputs_;
  Keeps keeps_ = Keeps::Nothing;
  std::size_t chunk_ = 0;
  std::uint64_t length_ = 0, dropped_ = 0, capacity_ = 0, vocabulary_ = 0, output_ = 0;
  Vector<float> logits_;
};

}  // namespace quarry::generate
