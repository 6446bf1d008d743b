// SPDX-License-Identifier: Apache-2.0
// If, Loop and Scan. Their operands come as stored (elements under 8 bits one to a byte); graph.h says how they are
// ordered.
#include <algorithm>
#include <cstring>

#include "kernels/reference/kernels.h"
#include "kernels/reference/tensors.h"

namespace quarry::reference {
namespace {

std::uint64_t size_of(const View &view) noexcept { return static_cast<std::uint64_t>(view.count) * view.width; }

template <class T>
T *scratch_array(Context &context, std::size_t count) {
  return static_cast<T *>(context.scratch(count * sizeof(T)));
}

Status give(Context &context, std::uint32_t output, const View &value) {
  View *out = nullptr;
  QR_RETURN_IF_ERROR(make_output(context, output, value.dims, value.rank, &out));
  if (out && value.count != 0) std::memcpy(out->data, value.data, size_of(value));
  return {};
}

// A value that passes from one iteration to the next. The results of an iteration may lie in the memory of its own
// inputs, so they are taken into the other of two buffers.
struct Carried {
  View view;
  void *buffers[2];
  std::uint64_t room[2];

  void take(Context &context, const View &value, unsigned turn) {
    const std::uint64_t size = size_of(value);
    if (!buffers[turn] || size > room[turn]) {
      room[turn] = std::max(size, 2 * room[turn]);
      buffers[turn] = context.scratch(room[turn]);
    }
    if (size != 0) std::memcpy(buffers[turn], value.data, size);
    view = value;
    view.data = buffers[turn];
  }
};

// Slices of all iterations, one after another.
struct Collected {
  View slice;  // shape of one
  std::uint64_t used, room;
  char *data;

  Status add(Context &context, const View &value, std::uint32_t output) {
    if (used == 0 && !data) slice = value;
    if (value.rank != slice.rank || !std::equal(value.dims, value.dims + value.rank, slice.dims)) {
      return qir::node_error(context.node(), ErrorId::run_value, "output %u: found a slice %s after slices %s", output,
                             shape_text(value.dims, value.rank), shape_text(slice.dims, slice.rank));
    }
    const std::uint64_t size = size_of(value);
    if (!data || used + size > room) {
      room = std::max({used + size, 2 * room, std::uint64_t{1}});
      char *larger = static_cast<char *>(context.scratch(room));
      if (used != 0) std::memcpy(larger, data, used);
      data = larger;
    }
    if (size != 0) std::memcpy(data + used, value.data, size);
    used += size;
    return {};
  }
  // With no iterations nothing is known but what the body declares.
  void declare(const qir::Tensor &tensor) noexcept {
    slice = View();
    slice.dtype = tensor.dtype;
    slice.rank = static_cast<std::uint32_t>(tensor.shape.size());
    for (std::uint32_t d = 0; d < slice.rank; ++d) slice.dims[d] = std::max<std::int64_t>(tensor.shape[d], 0);
  }
  // Puts `count` slices along `axis` of the output, in reverse order where asked to.
  Status finish(Context &context, std::uint32_t output, std::int64_t count, std::int64_t axis, bool reverse) const {
    std::int64_t dims[qir::kMaxRank] = {};
    const std::uint32_t rank = slice.rank + 1;
    if (axis < 0) axis += rank;
    if (rank > qir::kMaxRank || axis < 0 || axis >= rank)
      return qir::node_error(context.node(), ErrorId::run_value,
                             "output %u: slices of rank %u do not go along axis %lld", output, slice.rank, axis);
    std::copy(slice.dims, slice.dims + axis, dims);
    dims[axis] = count;
    std::copy(slice.dims + axis, slice.dims + slice.rank, dims + axis + 1);
    View *out = nullptr;
    QR_RETURN_IF_ERROR(make_output(context, output, dims, rank, &out));
    if (!out || out->count == 0) return {};
    const std::int64_t outer = product(dims, 0, index_of(axis)), inner = product(dims, index_of(axis) + 1, rank);
    const std::size_t row = static_cast<std::size_t>(inner) * out->width;
    for (std::int64_t t = 0; t < count; ++t)
      for (std::int64_t o = 0; o < outer; ++o)
        std::memcpy(out->as<char>() + static_cast<std::size_t>(o * count + (reverse ? count - 1 - t : t)) * row,
                    data + index_of(t * outer + o) * row, row);
    return {};
  }
};

const qir::Tensor &body_output(const Context &context, std::size_t index) {
  const qir::Graph &body = context.node().subgraphs[0];
  return at(body, body.outputs[index]);
}

View scalar_view(DType dtype, std::uint32_t width, void *data) noexcept {
  View view;
  view.dtype = dtype;
  view.count = 1;
  view.width = width;
  view.data = data;
  return view;
}

// An entry of a list attribute; absent: 0.
std::int64_t entry(const qir::Node &node, std::string_view attribute, std::size_t index) {
  const Vector<std::int64_t> *list = node.get_ints(attribute);
  return list && index < list->size() ? (*list)[index] : 0;
}

}  // namespace

Status kernel_if(Context &context) {
  const std::uint32_t branch = *context.input(0)->as<const std::uint8_t>() != 0 ? 0 : 1;
  const std::uint32_t captures = context.input_count() - 1;
  const View **inputs = scratch_array<const View *>(context, captures);
  for (std::uint32_t i = 0; i < captures; ++i) inputs[i] = context.input(i + 1);
  const View *results = nullptr;
  QR_RETURN_IF_ERROR(context.run_subgraph(branch, inputs, captures, &results));
  for (std::uint32_t i = 0; i < context.output_count(); ++i)
    if (context.output(i)) QR_RETURN_IF_ERROR(give(context, i, results[i]));
  return {};
}

Status kernel_loop(Context &context) {
  const qir::Node &node = context.node();
  const std::uint32_t carried_count = static_cast<std::uint32_t>(node.get_int("carried", 0));
  const std::uint32_t body_inputs = static_cast<std::uint32_t>(node.subgraphs[0].inputs.size());
  const std::uint32_t scanned_count = static_cast<std::uint32_t>(node.subgraphs[0].outputs.size()) - 1 - carried_count;
  const std::int64_t trips = context.input(0) ? *context.input(0)->as<const std::int64_t>() : INT64_MAX;
  std::uint8_t condition = context.input(1) ? *context.input(1)->as<const std::uint8_t>() != 0 : 1;
  std::int64_t iteration = 0;

  const View iteration_view = scalar_view(DType::I64, 8, &iteration),
             condition_view = scalar_view(DType::Bool, 1, &condition);
  Carried *carried = scratch_array<Carried>(context, carried_count);
  Collected *scanned = scratch_array<Collected>(context, scanned_count);
  const View **inputs = scratch_array<const View *>(context, body_inputs);
  inputs[0] = &iteration_view;
  inputs[1] = &condition_view;
  for (std::uint32_t i = 2; i < body_inputs; ++i) {
    if (i - 2 < carried_count) {
      carried[i - 2].view = *context.input(i);
      inputs[i] = &carried[i - 2].view;
    } else {
      inputs[i] = context.input(i);
    }
  }
  for (std::uint32_t i = 0; i < scanned_count; ++i) scanned[i].declare(body_output(context, 1 + carried_count + i));

  for (; iteration < trips && condition != 0 && !context.stopped(); ++iteration) {
    const View *results = nullptr;
    QR_RETURN_IF_ERROR(context.run_subgraph(0, inputs, body_inputs, &results));
    condition = *results[0].as<const std::uint8_t>();
    for (std::uint32_t i = 0; i < carried_count; ++i) carried[i].take(context, results[1 + i], iteration & 1);
    for (std::uint32_t i = 0; i < scanned_count; ++i)
      QR_RETURN_IF_ERROR(scanned[i].add(context, results[1 + carried_count + i], carried_count + i));
  }
  for (std::uint32_t i = 0; i < context.output_count(); ++i) {
    if (!context.output(i)) continue;
    if (i < carried_count) QR_RETURN_IF_ERROR(give(context, i, carried[i].view));
    else QR_RETURN_IF_ERROR(scanned[i - carried_count].finish(context, i, iteration, 0, false));
  }
  return {};
}

Status kernel_scan(Context &context) {
  const qir::Node &node = context.node();
  const std::uint32_t scan_inputs = static_cast<std::uint32_t>(node.get_int("num_scan_inputs", 0));
  const std::uint32_t state_count = static_cast<std::uint32_t>(node.get_int("states", 0));
  const std::uint32_t body_inputs = static_cast<std::uint32_t>(node.subgraphs[0].inputs.size());
  const std::uint32_t scan_outputs = static_cast<std::uint32_t>(node.subgraphs[0].outputs.size()) - state_count;

  // A slice of each scanned input: the axis taken out.
  struct Slice {
    View view;
    std::int64_t outer, inner, extent;
  };
  Carried *states = scratch_array<Carried>(context, state_count);
  Slice *slices = scratch_array<Slice>(context, scan_inputs);
  Collected *collected = scratch_array<Collected>(context, scan_outputs);
  const View **inputs = scratch_array<const View *>(context, body_inputs);
  std::int64_t length = 0;
  for (std::uint32_t i = 0; i < scan_inputs; ++i) {
    const View &whole = *context.input(state_count + i);
    std::int64_t axis = entry(node, "scan_input_axes", i);
    if (axis < 0) axis += whole.rank;
    if (axis < 0 || axis >= whole.rank)
      return qir::node_error(node, ErrorId::run_value, "scan input %u: found axis %lld, expected one under its rank %u",
                             i, axis, whole.rank);
    Slice &slice = slices[i];
    slice = {whole, product(whole.dims, 0, index_of(axis)), product(whole.dims, index_of(axis) + 1, whole.rank),
             whole.dims[axis]};
    if (i != 0 && slice.extent != length)
      return qir::node_error(node, ErrorId::run_value, "scan input %u: found %lld slices, expected %lld", i,
                             slice.extent, length);
    length = slice.extent;
    std::copy(whole.dims + axis + 1, whole.dims + whole.rank, slice.view.dims + axis);
    slice.view.rank = whole.rank - 1;
    slice.view.count = slice.outer * slice.inner;
    slice.view.data = context.scratch(size_of(slice.view));
  }
  for (std::uint32_t i = 0; i < body_inputs; ++i) {
    if (i < state_count) {
      states[i].view = *context.input(i);
      inputs[i] = &states[i].view;
    } else {
      inputs[i] = i < state_count + scan_inputs ? &slices[i - state_count].view : context.input(i);
    }
  }
  for (std::uint32_t i = 0; i < scan_outputs; ++i) collected[i].declare(body_output(context, state_count + i));

  for (std::int64_t t = 0; t < length && !context.stopped(); ++t) {
    for (std::uint32_t i = 0; i < scan_inputs; ++i) {
      const Slice &slice = slices[i];
      const char *whole = context.input(state_count + i)->as<const char>();
      const std::int64_t at = entry(node, "scan_input_directions", i) != 0 ? length - 1 - t : t;
      const std::size_t row = static_cast<std::size_t>(slice.inner) * slice.view.width;
      for (std::int64_t o = 0; o < slice.outer && row != 0; ++o)
        std::memcpy(slice.view.as<char>() + index_of(o) * row, whole + index_of(o * length + at) * row, row);
    }
    const View *results = nullptr;
    QR_RETURN_IF_ERROR(context.run_subgraph(0, inputs, body_inputs, &results));
    for (std::uint32_t i = 0; i < state_count; ++i) states[i].take(context, results[i], t & 1);
    for (std::uint32_t i = 0; i < scan_outputs; ++i)
      QR_RETURN_IF_ERROR(collected[i].add(context, results[state_count + i], state_count + i));
  }
  for (std::uint32_t i = 0; i < context.output_count(); ++i) {
    if (!context.output(i)) continue;
    if (i < state_count) {
      QR_RETURN_IF_ERROR(give(context, i, states[i].view));
    } else {
      const std::uint32_t k = i - state_count;
      QR_RETURN_IF_ERROR(collected[k].finish(context, i, length, entry(node, "scan_output_axes", k),
                                             entry(node, "scan_output_directions", k) != 0));
    }
  }
  return {};
}

}  // namespace quarry::reference
