// SPDX-License-Identifier: Apache-2.0
// The option state: which inputs and outputs of a model are what one run leaves to the next.
#pragma once

#include "base/status.h"
#include "formats/qrm/qrm.h"

namespace quarry {

class JsonWriter;

struct StatePair {
  std::uint32_t input = 0, output = 0;  // numbers in the model's lists
  std::int32_t axis = -1;               // along which the output is longer than the input; -1: they are alike
  bool stays = false;                   // runs append to it: an entry never moves (qr_plugin_appended)
  bool is_fixed = false;                // the program takes all of the capacity; what counts of it, an input says
  std::int64_t kept = 0;                // of a fixed one: entries in front of the new ones in what a run gives
  // Dimensions that the run says: those of the same name of an input that is no state.
  struct Source {
    std::uint32_t axis = 0, input = 0, input_axis = 0;
  };
  Vector<Source> sources;
};

// `wanted`: "auto", or "input:output" with commas between. In the order of the inputs. Of "auto": what goes by its name
// and has the type, rank and known dimensions in common; none is no error here.
Result<Vector<StatePair>> find_state(std::string_view wanted, const Vector<qrm::TensorInfo> &inputs,
                                     const Vector<qrm::TensorInfo> &outputs);

// An axis of an input that is no state, as long as past and new entries together: a mask's.
struct EntryAxis {
  std::uint32_t input = 0, axis = 0;
};
// Of programs whose shapes are numbers (one list of shapes for each): which pairs grow there, from `capacity` entries
// on, which the program has of them. Without such a pair nothing is changed; without a mask they are refused, and where
// no input says the positions of new entries. `padded`: the option shape.pad, which names the mask where positions come
// of it.
Result<Vector<EntryAxis>> fix_state(Vector<StatePair> &pairs, const Vector<qrm::TensorInfo> &inputs,
                                    const Vector<qrm::TensorInfo> &outputs,
                                    const Vector<Vector<qir::Shape>> &input_dims,
                                    const Vector<Vector<qir::Shape>> &output_dims, std::string_view padded,
                                    std::uint64_t *capacity);

// What the option shape has to say beside `shapes`, its text, so that what grows begins empty:
// ",past_sequence_length=0..2048", or, where the backend takes no ranges, so many; with a capacity of 0 it has no end.
// Empty where all is said.
String state_ranges(const Vector<StatePair> &pairs, const Vector<qrm::TensorInfo> &inputs, std::string_view shapes,
                    std::uint64_t capacity, bool takes_ranges);

// Of memory: each value, and beside it, where `appends` does not have it stay, the next one. What grows has its whole
// capacity; dimensions that only a run says count as 1.
std::uint64_t state_bytes(const Vector<StatePair> &pairs, const Vector<qrm::TensorInfo> &inputs, std::uint64_t capacity,
                          bool appends) noexcept;

// As a JSON array, for reports.
void write_pairs(JsonWriter &json, const Vector<StatePair> &pairs, const Vector<qrm::TensorInfo> &inputs,
                 const Vector<qrm::TensorInfo> &outputs);

}  // namespace quarry
