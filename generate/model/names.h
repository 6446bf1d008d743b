// SPDX-License-Identifier: Apache-2.0
// qr_generator_options.names: what a model calls its inputs and its output, where that is not as usual.
#pragma once

#include <string_view>

#include "base/status.h"

namespace quarry::generate {

class Names {
 public:
  // "input_ids=tokens,logits=scores"
  Status read(const char *function, std::string_view text);
  // What a tensor of this name is: "input_ids". Its own name, where nothing else is said.
  std::string_view role_of(std::string_view name) const noexcept;
  // The tensor's name that was given for a role; empty: none.
  std::string_view given(std::string_view role) const noexcept;
  // All that were given must be there.
  template <class IsThere>
  std::string_view missing(IsThere is_there) const {
    for (const Pair &pair : pairs_)
      if (!is_there(pair.name)) return pair.name;
    return {};
  }

 private:
  struct Pair {
    String role, name;
  };
  Vector<Pair> pairs_;
};

}  // namespace quarry::generate
