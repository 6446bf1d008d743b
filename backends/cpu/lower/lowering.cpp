// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/lower/lowering.h"

#include <algorithm>
#include <utility>

#include "backends/common/node_event.h"
#include "base/checked.h"
#include "base/stop.h"

namespace quarry::cpu {

using kernels::Kernel;
using qir::Op;

namespace {

// Those that lie in memory: a repeated one counts once.
std::uint64_t elements_of(const View &view) {
  std::uint64_t count = 1;
  for (std::size_t d = 0; d < view.rank(); ++d)
    if (view.strides[d] != 0) count *= static_cast<std::uint64_t>(view.dims[d]);
  return count;
}

}  // namespace

Lowering::Lowering(const qir::Graph &graph, Plan &plan, Constants &constants, qir::ConstantPool &pool,
                   NodePathTable &paths, const CompileOptions &options)
    : graph_(graph),
      plan_(plan),
      constants_(constants),
      uses_(graph),
      fusion_(graph, uses_),
      slots_(graph.tensors.size()),
      forms_(graph.tensors.size()),
      met_(graph.tensors.size()),
      pool_(pool),
      paths_(paths),
      winograd_(options.winograd),
      look_only_(options.dry_run),
      weights_(options.weights),
      f32_products_(options.f32_products) {}

Status Lowering::run() {
  QR_RETURN_IF_ERROR(stop_status("compile"));  // the constructor asks and has no Status
  for (std::size_t i = 0; i < graph_.inputs.size(); ++i) {
    const std::int32_t id = graph_.inputs[i];
    const qir::Tensor &t = tensor(id);
    const auto bytes = packed_size(t.dtype, count_of(t.shape));
    if (!bytes)
      return Status::error(ErrorId::run_shape,
                           format("input '%s' is larger than memory can be", printable(t.name).c_str()));
    const std::uint32_t value = new_value(*bytes);
    plan_.values[value] = {StorageKind::Input, static_cast<std::uint32_t>(i), 0, *bytes};
    define(id, View{static_cast<std::int32_t>(value), 0, t.shape, quarry::cpu::row_major(t.shape)});
  }
  find_slots();
  for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
    QR_RETURN_IF_ERROR(stop_status("compile"));
    QR_RETURN_IF_ERROR(lower(n));
  }
  for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
    const std::int32_t id = graph_.outputs[i];
    current_ = nullptr;
    const View from = row_major(id);
    Value &made = plan_.values[static_cast<std::size_t>(from.value)];
    const std::uint64_t bytes = *packed_size(tensor(id).dtype, count_of(tensor(id).shape));
    if (made.storage == StorageKind::Arena && from.offset == 0 && made.bytes == bytes) {
      made.storage = StorageKind::Output;  // its maker writes where the caller wants it
      made.index = static_cast<std::uint32_t>(i);
      continue;
    }
    const std::uint32_t value = new_value(bytes);
    plan_.values[value].storage = StorageKind::Output;
    plan_.values[value].index = static_cast<std::uint32_t>(i);
    // As bytes: elements under 8 bits are dense too.
    const std::uint64_t each = width(id);
    View source = from;
    source.dims = {static_cast<std::int64_t>(bytes)}, source.strides = {1},
    source.offset *= static_cast<std::int64_t>(each ? each : 1);
    copy(source, View{static_cast<std::int32_t>(value), 0, source.dims, source.strides}, 1, id);
  }
  return {};
}

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

// ---- values and views ---------------------------------------------------------------------------

std::uint32_t Lowering::new_value(std::uint64_t bytes) {
  plan_.values.push_back({StorageKind::Arena, 0, 0, bytes});
  return static_cast<std::uint32_t>(plan_.values.size() - 1);
}

std::uint32_t Lowering::borrow_constant(qir::Bytes contents) {
  const std::uint32_t value = new_value(contents.size);
  plan_.values[value].storage = StorageKind::Constant;
  constants_.entries.push_back({value, contents, 64});
  return value;
}

std::uint32_t Lowering::own_constant(Vector<std::uint8_t> contents, std::uint64_t align) {
  const std::uint32_t value = new_value(contents.size());
  plan_.values[value].storage = StorageKind::Constant;
  constants_.owned.push_back(std::move(contents));
  constants_.entries.push_back({value, {constants_.owned.back().data(), constants_.owned.back().size()}, align});
  return value;
}

View Lowering::constant_floats(const Vector<float> &values, Dims dims) {
  Vector<std::uint8_t> bytes(values.size() * sizeof(float));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  Dims strides = quarry::cpu::row_major(dims);
  return View{static_cast<std::int32_t>(own_constant(std::move(bytes))), 0, std::move(dims), std::move(strides)};
}

View Lowering::new_dense(const Dims &dims, std::span<const std::size_t> order, std::uint64_t each) {
  const std::uint32_t value = new_value(static_cast<std::uint64_t>(count_of(dims)) * each);
  return View{static_cast<std::int32_t>(value), 0, dims, dense_strides(dims, order)};
}

View Lowering::new_row_major(const Dims &dims, std::uint64_t each) {
  const std::uint32_t value = new_value(static_cast<std::uint64_t>(count_of(dims)) * each);
  return View{static_cast<std::int32_t>(value), 0, dims, quarry::cpu::row_major(dims)};
}

View Lowering::new_like(const View &like, std::uint64_t each) { return new_dense(like.dims, memory_order(like), each); }

const View &Lowering::any(std::int32_t id) {
  const Vector<View> &forms = forms_[static_cast<std::size_t>(id)];
  if (forms.empty()) {  // a constant that is met for the first time
    const qir::Tensor &t = tensor(id);
    define(id, View{static_cast<std::int32_t>(borrow_constant(t.data)), 0, t.shape, quarry::cpu::row_major(t.shape)});
  }
  return forms.front();
}

void Lowering::define(std::int32_t id, View view) {
  forms_[static_cast<std::size_t>(id)].push_back(std::move(view));
  defined_.push_back(id);
}

View Lowering::row_major(std::int32_t id) {
  const View first = any(id);
  for (const View &form : forms_[static_cast<std::size_t>(id)])
    if (is_row_major(form)) return form;
  View made = new_row_major(first.dims, width(id));
  copy(first, made, width(id), id);
  define(id, made);
  return made;
}

View Lowering::dense(std::int32_t id) {
  const View first = any(id);
  for (const View &form : forms_[static_cast<std::size_t>(id)])
    if (is_dense(form)) return form;
  View made = new_like(first, width(id));
  copy(first, made, width(id), id);
  define(id, made);
  return made;
}

View Lowering::channels_last(std::int32_t id, bool dense_pixels) {
  const View first = any(id);
  std::int64_t pixel;
  for (const View &form : forms_[static_cast<std::size_t>(id)])
    if (is_channels_last(form, &pixel) && (!dense_pixels || pixel == form.dims[1])) return form;
  View made = new_dense(first.dims, channels_last_order(first.rank()), width(id));
  copy(first, made, width(id), id);
  define(id, made);
  return made;
}

View Lowering::image_output(std::int32_t id) {
  const Slot &slot = slots_[static_cast<std::size_t>(id)];
  if (slot.concat == qir::kAbsent) {
    View made = new_dense(tensor(id).shape, channels_last_order(tensor(id).shape.size()), width(id));
    define(id, made);
    return made;
  }
  const Vector<View> &whole = forms_[static_cast<std::size_t>(slot.concat)];
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
          slots_[static_cast<std::size_t>(id)].concat == qir::kAbsent) {
        const Op op = graph_.nodes[static_cast<std::size_t>(fusion_.group_of(static_cast<std::size_t>(maker)).root)].op;
        if (op == Op::Conv || op == Op::ConvTranspose || op == Op::MaxPool || op == Op::AveragePool)
          slots_[static_cast<std::size_t>(id)] = {node.outputs[0], channel};
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

// ---- steps --------------------------------------------------------------------------------------

std::uint32_t Lowering::name_of(std::string_view text) {
  const std::size_t hash = StringHash{}(text);
  const std::uint32_t known = names_.find(hash, [&](std::uint32_t at) {
    const std::size_t end = at + text.size();
    return end < plan_.names.size() && plan_.names[end] == '\0' &&
           std::equal(text.begin(), text.end(), plan_.names.begin() + at);
  });
  if (known != HashIndex::kNone) return known;
  const std::uint32_t offset = static_cast<std::uint32_t>(plan_.names.size());
  plan_.names.insert(plan_.names.end(), text.begin(), text.end());
  plan_.names.push_back('\0');
  names_.put(hash, offset);
  return offset;
}

Status Lowering::check(Kernel kernel, const void *params, kernels::Needs *needs) const {
  Status status = kernels::kernel_row(kernel).check(params, *plan_.isa, *needs);
  refused_ |= !status.ok();
  return status;
}

Status Lowering::emit(Kernel kernel, const void *params, std::span<const Arg> args) {
  const kernels::KernelRow &row = kernels::kernel_row(kernel);
  kernels::Needs needs;
  QR_RETURN_IF_ERROR(check(kernel, params, &needs));
  if (needs.operand_count != args.size())
    return Status::error(ErrorId::internal, format("plan: %s: found %zu operands, expected %zu", row.name, args.size(),
                                                   needs.operand_count));
  Step step;
  step.kernel = static_cast<std::uint32_t>(kernel);
  plan_.params.resize((plan_.params.size() + 7) / 8 * 8);
  step.params = static_cast<std::uint32_t>(plan_.params.size());
  plan_.params.insert(plan_.params.end(), static_cast<const std::uint8_t *>(params),
                      static_cast<const std::uint8_t *>(params) + row.params_bytes);
  step.first_operand = static_cast<std::uint32_t>(plan_.operands.size());
  step.operand_count = static_cast<std::uint32_t>(args.size());
  step.name = name_of(current_ ? std::string_view(current_->name) : "output");
  step.op = name_of(current_ ? qir::op_name(current_->op) : "Copy");
  step.source = current_ ? current_->source : qir::kNoSource;
  StepNote note;
  note.shapes = note.fused = name_of("");
  std::uint64_t gathered = UINT64_MAX;  // from a table, of which only some rows are read
  for (std::size_t i = 0; i < args.size(); ++i) {
    Operand operand;
    operand.value = args[i].view ? static_cast<std::uint32_t>(args[i].view->value) : args[i].value;
    operand.offset = args[i].view ? static_cast<std::uint64_t>(args[i].view->offset) * args[i].width : 0;
    const Value &value = plan_.values[operand.value];
    if (!range_fits(operand.offset, needs.operand_bytes[i], value.bytes))
      return Status::error(ErrorId::internal,
                           format("plan: %s of node '%s': operand %zu: found %llu bytes, expected %llu", row.name,
                                  current_ ? printable(current_->name).c_str() : "", i,
                                  static_cast<unsigned long long>(value.bytes - operand.offset),
                                  static_cast<unsigned long long>(needs.operand_bytes[i])));
    plan_.operands.push_back(operand);
    // A view may leave elements out between its first and its last.
    const std::uint64_t used =
        std::min(needs.operand_bytes[i], args[i].view ? elements_of(*args[i].view) * args[i].width : value.bytes);
    if (needs.written[i]) note.bytes_written += used;
    else if (kernel == Kernel::Gather && i == 0) gathered = used;
    else note.bytes_read += used;
  }
  if (kernel == Kernel::Gather) note.bytes_read += std::min(gathered, note.bytes_written);
  plan_.scratch_bytes = std::max(plan_.scratch_bytes, needs.scratch_bytes);
  plan_.shared_bytes = std::max(plan_.shared_bytes, needs.shared_bytes);
  plan_.steps.push_back(step);
  plan_.notes.push_back(note);
  return {};
}

// ---- nodes --------------------------------------------------------------------------------------

Status Lowering::try_lower(Status (Lowering::*lower)(const Group &, bool *), const Group &group, bool *done) {
  const std::size_t values = plan_.values.size(), params = plan_.params.size(), operands = plan_.operands.size(),
                    steps = plan_.steps.size(), entries = constants_.entries.size(), owned = constants_.owned.size(),
                    defined = defined_.size();
  refused_ = false;
  Status status = (this->*lower)(group, done);
  if (status.ok() || !refused_) return status;
  for (; defined_.size() > defined; defined_.pop_back()) forms_[static_cast<std::size_t>(defined_.back())].pop_back();
  plan_.values.resize(values), plan_.params.resize(params), plan_.operands.resize(operands);
  plan_.steps.resize(steps), plan_.notes.resize(steps);
  constants_.entries.resize(entries), constants_.owned.resize(owned);
  *done = false;
  return {};
}

Status Lowering::lower(std::size_t n) {
  const Group &group = fusion_.group_of(n);
  if (group.last != static_cast<std::int32_t>(n) || group.part_of_block) return {};
  if (group.expand >= 0) {
    bool done = false;
    current_ = &graph_.nodes[static_cast<std::size_t>(group.root)];
    const std::size_t before = plan_.steps.size();
    QR_RETURN_IF_ERROR(try_lower(&Lowering::lower_block, group, &done));
    if (done) {
      Group block = group;
      for (const std::int32_t part : {group.depthwise, group.expand}) {
        const Vector<std::int32_t> &members = fusion_.group(part).members;
        block.members.insert(block.members.begin(), members.begin(), members.end());
      }
      tell(block, before);
      return std::move(failed_);
    }
    QR_RETURN_IF_ERROR(lower_members(fusion_.group(group.expand)));
    QR_RETURN_IF_ERROR(lower_members(fusion_.group(group.depthwise)));
  }
  return lower_members(group);
}

// A group as one step, or each node of it by itself.
Status Lowering::lower_members(const Group &group) {
  current_ = &graph_.nodes[static_cast<std::size_t>(group.root)];
  bool done = false;
  std::size_t before = plan_.steps.size();
  QR_RETURN_IF_ERROR(try_lower(&Lowering::lower_group, group, &done));
  if (done) tell(group, before);
  if (!done) {
    for (const std::int32_t member : group.members) {
      Group single;
      single.root = single.last = member;
      single.members = {member};
      current_ = &graph_.nodes[static_cast<std::size_t>(member)];
      single.output = current_->outputs[0];
      done = false;
      before = plan_.steps.size();
      if (group.members.size() > 1) QR_RETURN_IF_ERROR(try_lower(&Lowering::lower_group, single, &done));
      if (done) tell(single, before);
      else QR_RETURN_IF_ERROR(lower_reference(*current_));
    }
  }
  return std::move(failed_);
}

void Lowering::tell(const Group &group, std::size_t before) {
  const std::int32_t root = graph_.nodes[static_cast<std::size_t>(group.root)].source;
  paths_.steps(root, std::span(plan_.steps).subspan(before));
  for (const std::int32_t member : group.members)
    paths_.fused(graph_.nodes[static_cast<std::size_t>(member)].source, root);
  const std::uint32_t shapes = shapes_of(group);
  for (std::size_t s = before; s < plan_.steps.size(); ++s)  // copies have said what they copy
    if (plan_.steps[s].kernel != static_cast<std::uint32_t>(Kernel::Copy)) plan_.notes[s].shapes = shapes;
}

// What the group takes from outside, and what it makes. Of the nodes behind its first, single constants (the bounds of
// a Clip) are left out.
std::uint32_t Lowering::shapes_of(const Group &group) {
  plugin::ShapesText shapes;
  ++asked_;
  const auto met = [&](std::int32_t id) {  // or made inside
    return std::exchange(met_[static_cast<std::size_t>(id)], asked_) == asked_;
  };
  for (const std::int32_t member : group.members)
    for (const std::int32_t id : graph_.nodes[static_cast<std::size_t>(member)].outputs)
      if (id != qir::kAbsent) met(id);
  for (const std::int32_t member : group.members) {
    for (const std::int32_t id : graph_.nodes[static_cast<std::size_t>(member)].inputs) {
      if (id == qir::kAbsent) continue;
      const qir::Tensor &t = tensor(id);
      if ((member != group.root && t.is_constant && count_of(t.shape) == 1) || met(id)) continue;
      shapes.input(t.dtype, t.shape.data(), t.shape.size());
    }
  }
  for (const std::int32_t id : graph_.nodes[static_cast<std::size_t>(group.last)].outputs)
    if (id != qir::kAbsent) shapes.output(tensor(id).dtype, tensor(id).shape.data(), tensor(id).shape.size());
  return name_of(shapes.view());
}

Status Lowering::lower_group(const Group &group, bool *done) {
  const qir::Node &node = graph_.nodes[static_cast<std::size_t>(group.root)];
  bool quantized = false;
  for (const auto *list : {&node.inputs, &node.outputs}) {
    for (const std::int32_t id : *list) {
      if (id == qir::kAbsent) continue;
      quantized |= tensor(id).quant.has_value();
      if (count_of(tensor(id).shape) == 0) return {};  // nothing to compute: cpu-reference knows what an empty sum is
    }
  }
  if (group.attention) return lower_attention(group, done);
  switch (node.op) {  // the same of numbers that stand for others
    case Op::TopK: return lower_top_k(node, done);
    case Op::GatherElements: return lower_gather_elements(node, done);
    case Op::ScatterND: return lower_scatter_rows(node, done);
    case Op::ScatterElements: return lower_scatter_elements(node, done);
    case Op::ArgMax:
    case Op::ArgMin: return lower_arg_extreme(node, done);
    default: break;
  }
  if (quantized || node.op == Op::QuantizeLinear || node.op == Op::DequantizeLinear) {
    QR_RETURN_IF_ERROR(lower_int(group, done));
    return *done ? Status() : lower_movement(node, done);
  }
  switch (node.op) {
    case Op::Conv: return lower_conv(group, done);
    case Op::ConvTranspose: return lower_conv_transpose(group, done);
    case Op::Gemm: return lower_gemm(group, done);
    case Op::MatMul:
      QR_RETURN_IF_ERROR(lower_gemm(group, done));
      if (!*done) QR_RETURN_IF_ERROR(lower_batched_matmul(group, done));
      return *done ? Status() : lower_matmul_wide(group, done);
    case Op::Add:
    case Op::Sub:
    case Op::Mul:
    case Op::Div:
    case Op::Min:
    case Op::Max:
    case Op::Pow:
    case Op::PRelu:
      QR_RETURN_IF_ERROR(lower_binary(group, done));
      if (*done || group.members.size() > 1) return {};
      if (node.op == Op::Min || node.op == Op::Max) return lower_variadic(node, done);
      return lower_elements(node, done);
    case Op::Einsum: return lower_einsum(node, done);
    case Op::MatMulInteger:
      QR_RETURN_IF_ERROR(lower_integer_sums(node, done));
      return *done ? Status() : lower_matmul_int(node, done);
    case Op::ConvInteger: return lower_integer_sums(node, done);
    case Op::LSTM:
    case Op::GRU:
    case Op::RNN: return lower_recurrent(node, done);
    case Op::CumSum:
    case Op::CumProd: return lower_cumulate(node, done);
    case Op::RotaryEmbedding: return lower_rotary(node, done);
    case Op::LinearAttention: return lower_linear_attention(node, done);
    case Op::InstanceNormalization:
    case Op::GroupNormalization: return lower_group_norm(node, done);
    case Op::MeanVarianceNormalization: return lower_mean_variance_norm(node, done);
    case Op::LpNormalization: return lower_lp_norm(node, done);
    case Op::MatMulNBits: return lower_matmul_blocks(node, done);
    case Op::DynamicQuantizeLinear: return lower_dynamic_quantize(node, done);
    case Op::Sum:
    case Op::Mean: return lower_variadic(node, done);
    case Op::LayerNormalization:
    case Op::RMSNormalization: return lower_layer_norm(group, done);
    case Op::BatchNormalization: return lower_batch_norm(node, done);
    case Op::Softmax:
    case Op::LogSoftmax:
    case Op::Hardmax: return lower_softmax(node, done);
    case Op::ReduceMean:
    case Op::ReduceSum:
    case Op::ReduceMax:
    case Op::ReduceMin:
    case Op::ReduceProd:
    case Op::ReduceL1:
    case Op::ReduceL2:
    case Op::ReduceSumSquare:
    case Op::ReduceLogSum:
    case Op::ReduceLogSumExp:
    case Op::GlobalAveragePool:
    case Op::GlobalMaxPool: return lower_reduce(group, done);
    case Op::MaxPool:
    case Op::AveragePool: return lower_pool(node, done);
    case Op::Resize: return lower_resize(node, done);
    case Op::RandomNormal:
    case Op::RandomNormalLike:
    case Op::RandomUniform:
    case Op::RandomUniformLike: return lower_random(node, done);
    case Op::Col2Im: return lower_col2im(node, done);
    case Op::RoiAlign: return lower_roi_align(node, done);
    case Op::GridSample: return lower_grid_sample(node, done);
    default:
      if (activation_of(graph_, node)) return lower_unary(group, done);
      QR_RETURN_IF_ERROR(lower_unary_f64(node, done));
      if (*done) return {};
      if (node.op == Op::Clip || node.op == Op::Relu) return lower_clip(node, done);
      QR_RETURN_IF_ERROR(lower_elements(node, done));
      return *done ? Status() : lower_movement(node, done);
  }
}

// One node as a graph of its own.
Status Lowering::lower_reference(const qir::Node &node) {
  StepNote note;
  plugin::ShapesText shapes;
  qir::Graph subgraph;
  subgraph.name = "subgraph";
  qir::Node copy_of = node;
  Vector<Operand> reads, writes;
  HashMap<std::int32_t, std::int32_t> place;
  const auto import = [&](std::int32_t id) -> std::int32_t {
    const auto found = place.find(id);
    if (found != place.end()) return found->second;
    subgraph.tensors.push_back(tensor(id));
    const std::int32_t number = static_cast<std::int32_t>(subgraph.tensors.size() - 1);
    place.emplace(id, number);
    return number;
  };
  for (std::int32_t &id : copy_of.inputs) {
    if (id == qir::kAbsent) continue;
    const qir::Tensor &read = tensor(id);
    shapes.input(read.dtype, read.shape.data(), read.shape.size());
    note.bytes_read += packed_size(read.dtype, count_of(read.shape)).value_or(0);
    const bool known = place.contains(id);
    if (!known && !constant(id)) {
      const View view = row_major(id);
      reads.push_back({static_cast<std::uint32_t>(view.value), 0, static_cast<std::uint64_t>(view.offset) * width(id)});
    }
    const std::int32_t local = import(id);
    if (!known && !constant(id)) subgraph.inputs.push_back(local);
    id = local;
  }
  for (std::int32_t &id : copy_of.outputs) {
    if (id == qir::kAbsent) continue;
    const auto bytes = packed_size(tensor(id).dtype, count_of(tensor(id).shape));
    if (!bytes)
      return Status::error(ErrorId::run_shape,
                           format("tensor '%s' is larger than memory can be", printable(tensor(id).name).c_str()));
    shapes.output(tensor(id).dtype, tensor(id).shape.data(), tensor(id).shape.size());
    note.bytes_written += *bytes;
    View made{static_cast<std::int32_t>(new_value(*bytes)), 0, tensor(id).shape,
              quarry::cpu::row_major(tensor(id).shape)};
    writes.push_back({static_cast<std::uint32_t>(made.value), 0, 0});
    define(id, std::move(made));
    id = import(id);
    subgraph.outputs.push_back(id);
  }
  subgraph.nodes.push_back(std::move(copy_of));
  paths_.reference(node.source, node.op);
  Vector<std::uint8_t> bytes;
  if (!look_only_) {
    QR_ASSIGN_OR_RETURN(bytes, qir::write_graph(subgraph, pool_));
  }
  Step step;
  step.kernel = kReferenceStep;
  step.params = static_cast<std::uint32_t>(plan_.subgraphs.size());
  step.first_operand = static_cast<std::uint32_t>(plan_.operands.size());
  step.operand_count = static_cast<std::uint32_t>(reads.size() + writes.size());
  step.name = name_of(node.name);
  step.op = name_of(qir::op_name(node.op));
  step.source = node.source;
  note.shapes = name_of(shapes.view());
  note.fused = name_of("");
  plan_.operands.insert(plan_.operands.end(), reads.begin(), reads.end());
  plan_.operands.insert(plan_.operands.end(), writes.begin(), writes.end());
  plan_.subgraphs.push_back(
      {std::move(bytes), static_cast<std::uint32_t>(reads.size()), static_cast<std::uint32_t>(writes.size())});
  plan_.steps.push_back(step);
  plan_.notes.push_back(note);
  return {};
}

}  // namespace quarry::cpu
