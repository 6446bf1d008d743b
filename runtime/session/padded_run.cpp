// SPDX-License-Identifier: Apache-2.0
// The part of a run that is smaller than its bucket: into the shapes of the program, and back.
#include <algorithm>

#include "base/json_writer.h"
#include "runtime/core/runtime.h"
#include "runtime/session/session.h"

namespace quarry {

// Into the bucket's shapes: inputs with what is padded, outputs to where `cut` finds them.
Status Session::pad(RunFrame &frame) {
  const Padding &padding = *core_->padding();
  const loader::GraphTensors &given = frame.fit.tensors, &rooms = *frame.fit.program;
  const auto of_device = [](const char *what, const String &name) {
    return Status::hinted(ErrorId::run_bad_memory,
                          "give it in memory of the host (data), or in a size that was compiled",
                          "%s %s: found memory of a device, expected memory of the host for a run that is padded", what,
                          printable(name).c_str())
        .with("tensor", name);
  };
  for (std::size_t i = 0; i < frame.inputs.size(); ++i) {
    qr_io_buffer &input = frame.inputs[i];
    const loader::TensorInfo &room = rooms.inputs[i];
    if (std::equal(room.dims, room.dims + room.rank, given.inputs[i].dims)) continue;
    if (input.memory) return of_device("input", core_->inputs()[i].name);
    void *const to = frame.aligned_room(i, room.bytes);
    padding.lay(i, to, input.data, frame.fit);
    input.data = to, input.size_bytes = room.bytes;
    std::copy_n(room.dims, room.rank, input.dims);
  }
  for (std::size_t o = 0; o < frame.outputs.size(); ++o) {
    qr_io_buffer &output = frame.outputs[o];
    const loader::TensorInfo &room = rooms.outputs[o];
    if (!output.wanted || std::equal(room.dims, room.dims + room.rank, given.outputs[o].dims)) continue;
    if (output.memory) return of_device("output", core_->outputs()[o].name);
    frame.fit.targets[o] = output.data;
    output.data = frame.aligned_room(frame.inputs.size() + o, room.bytes);
    output.size_bytes = room.bytes;
  }
  return {};
}

// Of a run that ended well.
void Session::cut(RunFrame &frame) const {
  for (std::size_t o = 0; o < frame.outputs.size(); ++o) {
    if (!frame.fit.targets[o]) continue;
    qr_io_buffer &output = frame.outputs[o];
    const loader::TensorInfo &given = frame.fit.tensors.outputs[o];
    core_->padding()->cut(o, frame.fit.targets[o], output.data, frame.fit);
    output.data = frame.fit.targets[o];
    output.used_bytes = given.bytes;
    std::copy_n(given.dims, given.rank, output.dims);
  }
}

void Session::note_padding(RunFrame &frame, std::size_t bucket) {
  const Fit &fit = frame.fit;
  const bool is_new = padded_.runs == 0 || padded_.bucket != bucket || padded_.sizes != fit.sizes;
  padded_.runs += 1, padded_.bucket = bucket, padded_.sizes = fit.sizes, padded_.rooms = fit.rooms;
  if (const Log &log = core_->runtime().log(); is_new && log.wants(QR_LOG_INFO))
    log.write(QR_LOG_INFO, "padding",
              format("%s, in bucket \"%s\"", core_->padding()->describe(fit.sizes, fit.rooms),
                     printable(loaded_->buckets[bucket].name)));
}

void Session::write_padding(JsonWriter &json) const {
  json.key("padding").begin_object().field("runs", padded_.runs);
  if (padded_.runs > 0) {
    json.field("bucket", loaded_->buckets[padded_.bucket].name);
    core_->padding()->write(json, padded_.sizes, padded_.rooms);
  }
  json.end_object();
}

}  // namespace quarry
