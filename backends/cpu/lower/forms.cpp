// SPDX-License-Identifier: Apache-2.0
// Values of the plan, and the forms in which tensors are there.
#include <algorithm>

#include "backends/common/node_event.h"
#include "backends/cpu/lower/lowering.h"

namespace quarry::cpu {

using kernels::Kernel;
using qir::Op;

// ---- the graph ----------------------------------------------------------------------------------

std::optional<Vector<std::int64_t>> Lowering::integers(std::int32_t id) const {
  if (!constant(id)) return std::nullopt;
  const qir::Tensor &t = tensor(id);
  Vector<std::int64_t> values(static_cast<std::size_t>(count_of(t.shape)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (t.dtype == DType::I64) values[i] = static_cast<const std::int64_t *>(t.data.data)[i];
    else if (t.dtype == DType::I32) values[i] = static_cast<const std::int32_t *>(t.data.data)[i];
    else return std::nullopt;
  }
  return values;
}

std::optional<float> Lowering::scalar(std::int32_t id) const {
  const float *values = qir::constant_floats(graph_, id);
  if (!values || tensor(id).data.size != sizeof(float)) return std::nullopt;
  return *values;
}

std::uint64_t Lowering::width(std::int32_t id) const { return dtype_bits(tensor(id).dtype) / 8; }

// ---- to match by ---------------------------------------------------------------------------------

View Lowering::peek(std::int32_t id) const {
  if (!forms(id).empty()) return forms(id).front();
  const qir::Tensor &t = tensor(id);
  return View{kNoValue, 0, t.shape, cpu::row_major(t.shape)};
}

View Lowering::dense_layout(std::int32_t id) const {
  for (const View &form : forms(id))
    if (is_dense(form)) return form;
  const View first = peek(id);
  return View{kNoValue, 0, first.dims, dense_strides(first.dims, memory_order(first))};
}

bool Lowering::is_planar(std::int32_t id) const {
  return std::ranges::all_of(forms(id), [](const View &form) { return is_row_major(form); });
}

Vector<std::size_t> Lowering::elementwise_order(const Dims &dims, std::span<const std::int32_t> operands) const {
  const View *lead = nullptr;
  for (const std::int32_t id : operands) {
    if (constant(id) || tensor(id).shape != dims || forms(id).empty()) continue;
    const View &form = forms(id).front();
    if (is_dense(form) && (!lead || !is_row_major(form))) lead = &form;
  }
  return lead ? memory_order(*lead) : memory_order({kNoValue, 0, dims, cpu::row_major(dims)});
}

View Lowering::elementwise_layout(const Dims &dims, std::span<const std::int32_t> operands) const {
  return View{kNoValue, 0, dims, dense_strides(dims, elementwise_order(dims, operands))};
}

View Lowering::layout_beside(std::int32_t id, const View &like) const {
  if (tensor(id).shape != like.dims) return broadcast(peek(id), like.dims);
  const Vector<std::size_t> order = memory_order(like);
  if (forms(id).empty() && memory_order(peek(id)) == order) return peek(id);
  for (const View &form : forms(id))
    if (memory_order(form) == order) return form;
  return View{kNoValue, 0, like.dims, dense_strides(like.dims, order)};
}

std::optional<Nest> Lowering::match_nest(const Dims &dims, std::span<const std::int32_t> operands) const {
  Vector<View> views{elementwise_layout(dims, operands)};
  for (const std::int32_t id : operands) views.push_back(layout_beside(id, views[0]));
  Vector<const View *> pointers;
  for (const View &view : views) pointers.push_back(&view);
  Nest nest;
  if (!make_nest(pointers, kernels::kLoopRank, nest)) return std::nullopt;
  return nest;
}

bool Lowering::takes(Kernel kernel, const void *params, kernels::Needs *needs) const {
  kernels::Needs own;
  return kernels::kernel_row(kernel).check(params, isa(), needs ? *needs : own).ok();
}

// ---- values --------------------------------------------------------------------------------------

std::uint32_t Lowering::new_value(std::uint64_t bytes) {
  plan_.values.push_back({StorageKind::Arena, 0, 0, bytes});
  return static_cast<std::uint32_t>(plan_.values.size() - 1);
}

std::uint32_t Lowering::borrow_constant(qir::Bytes contents) {
  if (options_.shared)  // (as a whole, where a tensor of the graph is it)
    if (SharedBytes block = options_.shared->computed_at(contents.data); block && block->bytes().data == contents.data)
      return shared_constant(std::move(block));
  // A small one becomes a part of what is packed (compile.cpp), but for the graph's own, of which plans share a copy.
  if (const String key = weights_key(" as it lies", contents, {}); contents.size <= kSmallConstant && is_of_graph(key))
    return packed_weights(key, contents.size, [&](void *to) { std::memcpy(to, contents.data, contents.size); });
  const std::uint32_t value = new_value(contents.size);
  plan_.values[value].storage = StorageKind::Constant;
  constants_.entries.push_back({value, contents, 64});
  return value;
}

String Lowering::weights_key(const char *kind, qir::Bytes constants, const Vector<std::int64_t> &form) const {
  if (!options_.shared || options_.dry_run || constants.size == 0) return {};
  String key = options_.shared->name_of(constants);
  key += kind;
  for (const std::int64_t number : form) append_number(&key, ' ', number);
  return key;
}

std::uint32_t Lowering::shared_constant(SharedBytes block) {
  const std::uint32_t value = new_value(block->bytes().size);
  plan_.values[value].storage = StorageKind::Constant;
  const qir::Bytes contents = block->bytes();
  constants_.entries.push_back({value, contents, kAlign, std::move(block)});
  return value;
}

std::uint32_t Lowering::own_constant(Vector<std::uint8_t> contents, qir::Bytes *out) {
  const std::uint32_t value = new_value(contents.size());
  plan_.values[value].storage = StorageKind::Constant;
  constants_.owned.push_back(std::move(contents));
  const qir::Bytes lies{constants_.owned.back().data(), constants_.owned.back().size()};
  constants_.entries.push_back({value, lies, kAlign});
  if (out) *out = lies;
  return value;
}

View Lowering::constant_floats(const Vector<float> &values, Dims dims) {
  Vector<std::uint8_t> bytes(values.size() * sizeof(float));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  Dims strides = cpu::row_major(dims);
  return View{static_cast<std::int32_t>(own_constant(std::move(bytes))), 0, std::move(dims), std::move(strides)};
}

View Lowering::new_dense(const Dims &dims, std::span<const std::size_t> order, std::uint64_t each) {
  const std::uint32_t value = new_value(static_cast<std::uint64_t>(count_of(dims)) * each);
  return View{static_cast<std::int32_t>(value), 0, dims, dense_strides(dims, order)};
}

View Lowering::new_row_major(const Dims &dims, std::uint64_t each) {
  const std::uint32_t value = new_value(static_cast<std::uint64_t>(count_of(dims)) * each);
  return View{static_cast<std::int32_t>(value), 0, dims, cpu::row_major(dims)};
}

View Lowering::new_like(const View &like, std::uint64_t each) { return new_dense(like.dims, memory_order(like), each); }

const View &Lowering::any(std::int32_t id) {
  const Vector<View> &known = forms(id);
  if (const Narrow *const kept = narrow(id)) {
    widen(id, *kept);
  } else if (known.empty()) {  // a constant that is met for the first time
    const qir::Tensor &t = tensor(id);
    define(id, View{static_cast<std::int32_t>(borrow_constant(t.data)), 0, t.shape, cpu::row_major(t.shape)});
  }
  return known.front();
}

View Lowering::elementwise_output(const Dims &dims, std::span<const std::int32_t> operands, std::uint64_t each) {
  return new_dense(dims, elementwise_order(dims, operands), each);
}

View Lowering::beside(std::int32_t id, const View &like) {
  any(id);
  const View there = layout_beside(id, like);
  if (there.value != kNoValue) return there;
  const View made = new_like(like, width(id));
  copy(any(id), made, width(id), id);
  define(id, made);
  return made;
}

void Lowering::define(std::int32_t id, View view) {
  forms_[index_of(id)].push_back(std::move(view));
  defined_.push_back(id);
}

View Lowering::row_major(std::int32_t id) {
  const View first = any(id);
  for (const View &form : forms(id))
    if (is_row_major(form)) return form;
  View made = new_row_major(first.dims, width(id));
  copy(first, made, width(id), id);
  define(id, made);
  return made;
}

View Lowering::dense(std::int32_t id) {
  const View first = any(id), there = dense_layout(id);
  if (there.value != kNoValue) return there;
  const View made = new_like(first, width(id));
  copy(first, made, width(id), id);
  define(id, made);
  return made;
}

View Lowering::channels_last(std::int32_t id, bool dense_pixels) {
  const View first = any(id);
  std::int64_t pixel;
  for (const View &form : forms(id))
    if (is_channels_last(form, &pixel) && (!dense_pixels || pixel == form.dims[1])) return form;
  View made = new_dense(first.dims, channels_last_order(first.rank()), width(id));
  copy(first, made, width(id), id);
  define(id, made);
  return made;
}

View Lowering::image_output(std::int32_t id) {
  const Slot &slot = slots_[index_of(id)];
  if (slot.concat == qir::kAbsent) {
    View made = new_dense(tensor(id).shape, channels_last_order(tensor(id).shape.size()), width(id));
    define(id, made);
    return made;
  }
  const Vector<View> &whole = forms(slot.concat);
  if (whole.empty())
    define(slot.concat,
           new_dense(tensor(slot.concat).shape, channels_last_order(tensor(slot.concat).shape.size()), width(id)));
  View made = sliced(whole.front(), 1, slot.channel, tensor(id).shape[1]);
  define(id, made);
  return made;
}

// Results that only one Concat along the channels joins are written where they will stand.
void Lowering::find_slots() {
  for (const qir::Node &node : graph_.nodes) {
    if (node.op != Op::Concat) continue;
    const qir::Tensor &whole = tensor(node.outputs[0]);
    const std::int64_t rank = static_cast<std::int64_t>(whole.shape.size()), axis = node.get_int("axis", 0);
    if (rank < 3 || rank > 4 || (axis < 0 ? axis + rank : axis) != 1 || width(node.outputs[0]) == 0) continue;
    std::int64_t channel = 0;
    HashMap<std::int32_t, std::size_t> times;
    for (const std::int32_t id : node.inputs) ++times[id];
    for (const std::int32_t id : node.inputs) {
      const qir::Tensor &part = tensor(id);
      const std::int32_t maker = uses_.maker(id);
      const bool once = times[id] == 1 && !uses_.is_output(id);
      if (maker >= 0 && once && part.dtype == whole.dtype && part.quant == whole.quant &&
          slots_[index_of(id)].concat == qir::kAbsent) {
        const Op op = graph_.nodes[index_of(fusion_.group_of(index_of(maker)).root)].op;
        if (op == Op::Conv || op == Op::ConvTranspose || op == Op::MaxPool || op == Op::AveragePool)
          slots_[index_of(id)] = {node.outputs[0], channel};
      }
      channel += part.shape[1];
    }
  }
}

void Lowering::copy(const View &from, const View &to, std::uint64_t each, std::int32_t of) {
  Nest nest;
  const View *const views[] = {&to, &from};
  make_nest(views, kernels::kCopyRank, nest);  // ranks are at most kMaxRank
  kernels::Copy params;
  params.width = static_cast<std::uint32_t>(each);
  params.rank = static_cast<std::uint32_t>(nest.dims.size());
  std::copy(nest.dims.begin(), nest.dims.end(), params.dims);
  std::copy(nest.strides[0].begin(), nest.strides[0].end(), params.to);
  std::copy(nest.strides[1].begin(), nest.strides[1].end(), params.from);
  // Copies are always possible, so a refusal is a mistake of the lowering: lower() reports it.
  Status status = emit_step(Kernel::Copy, params, {arg(from, each), arg(to, each)});
  if (!status.ok()) {
    if (failed_.ok()) failed_ = std::move(status);
    return;
  }
  const qir::Tensor &copied = tensor(of);
  plugin::ShapesText shapes;
  shapes.input(copied.dtype, copied.shape.data(), copied.shape.size());
  shapes.output(copied.dtype, copied.shape.data(), copied.shape.size());
  plan_.notes.back().shapes = name_of(shapes.view());
}

}  // namespace quarry::cpu
