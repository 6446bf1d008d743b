// SPDX-License-Identifier: Apache-2.0
// A calibration as a file, so that it can be taken up again after a stop: what is known of each tensor, and the samples
// that are kept. A sum over all of it finds damage; reading believes none of it.
#pragma once

#include "base/target_writer.h"
#include "quantize/ranges/observer.h"

namespace quarry::quantize {

struct State {
  std::uint64_t model = 0;  // a sum over the model file and the constants as they were prepared
  String settings;          // the options that were given, a line each
  String note;              // the caller's
  std::uint64_t samples = 0;
  bool graph_chosen = false;
  // Samples: the inputs one behind the other. Held back ones were not calibrated with.
  Vector<Vector<Vector<std::uint8_t>>> kept, held;
  struct Known {
    String tensor;
    Vector<std::uint8_t> bytes;  // of Observer::save
  };
  Vector<Known> tensors;
};

Status write_state(const State &state, TargetWriter &out);
// `name` is for messages.
Result<State> read_state(qir::Bytes bytes, std::string_view name);

}  // namespace quarry::quantize
