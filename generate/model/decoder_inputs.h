// SPDX-License-Identifier: Apache-2.0
// The inputs of a decoder: what each is, checked once, and their values for a run (roles.inc).
#pragma once

#include <span>

#include "base/status.h"
#include "generate/model/names.h"
#include "quarry/quarry.hpp"

namespace quarry::generate {

class DecoderInputs {
 public:
  // Every input of the session must be one that is known; the first that is not is named.
  Status read(const qr::Session &session, const Names &names);
  // Whether seqlens_k says what of a cache counts.
  bool counts_cache() const noexcept { return counts_cache_; }
  // Tokens of a run: 1, where the session takes no more at once; 0: any number.
  std::size_t most() const noexcept { return most_; }

  // The values of a run of these tokens behind `before` others, of which the state has dropped so many; they live until
  // the next fill.
  const std::vector<qr::Tensor> &fill(std::span<const std::int64_t> tokens, std::uint64_t before,
                                      std::uint64_t dropped);

 private:
  enum class Value : std::uint8_t { Token, Ones, Position, Last, Total, One };
  struct Input {
    Value value;
    qr_dtype dtype;
    std::size_t rank;
    Vector<std::int64_t> wide;
    Vector<std::int32_t> narrow;
  };
  Status add(const qr_tensor_info &info, std::string_view name, const Names &names);
  Status check_dims(const qr_tensor_info &info, std::string_view name, Value value);
  static std::size_t count_of(Value value, std::size_t fresh, std::uint64_t past) noexcept;

  Vector<Input> inputs_;
  std::vector<qr::Tensor> tensors_;
  std::size_t most_ = 0;
  bool counts_cache_ = false;
};

// An error of a session that is none that a generator knows.
Status not_a_decoder(const String &what, const char *hint = "");

}  // namespace quarry::generate
