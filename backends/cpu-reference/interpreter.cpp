// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu-reference/interpreter.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "base/stop.h"
#include "graph/ops/quantization.h"
#include "kernels/reference/convert.h"
#include "kernels/reference/scratch.h"

namespace quarry::reference {

// A tensor as it stands during a run.
struct TensorState {
  void *data = nullptr;
  bool sized = false;  // dims and count are those of this run
  std::uint32_t rank = 0;
  std::int64_t dims[qir::kMaxRank] = {};
  std::int64_t count = 0;
  std::uint64_t bytes = 0;  // stored
  Block own;

  qir::Shape shape() const { return qir::Shape(dims, dims + rank); }
};

namespace {

bool is_aligned(const void *data, DType dtype) noexcept {
  const std::uintptr_t width = std::max<std::uint32_t>(dtype_bits(dtype) / 8, 1);
  return reinterpret_cast<std::uintptr_t>(data) % width == 0;
}

Status too_large(const qir::Tensor &tensor, const std::int64_t *dims, std::size_t rank) {
  return Status::error(ErrorId::run_shape, format("tensor '%s' with shape %s is larger than memory can be",
                                                  printable(tensor.name), shape_text(dims, rank)));
}

Status set_dims(TensorState &state, const qir::Tensor &tensor, const std::int64_t *dims, std::size_t rank) {
  bool fits = rank == tensor.shape.size() && rank <= qir::kMaxRank;
  for (std::size_t d = 0; fits && d < rank; ++d)
    fits = dims[d] >= 0 && (tensor.shape[d] < 0 || tensor.shape[d] == dims[d]);
  if (!fits) {
    return Status::error(ErrorId::run_shape,
                         format("tensor '%s': found shape %s, expected %s", printable(tensor.name),
                                shape_text(dims, rank), shape_text(tensor.shape.data(), tensor.shape.size())));
  }
  const auto count = element_count(dims, rank);
  const auto bytes = count ? packed_size(tensor.dtype, *count) : std::nullopt;
  if (!bytes || *count > INT64_MAX / 64) return too_large(tensor, dims, rank);
  std::copy(dims, dims + rank, state.dims);
  state.rank = static_cast<std::uint32_t>(rank);
  state.count = *count;
  state.bytes = *bytes;
  state.sized = true;
  return {};
}

// The signal may have been taken back between the two questions; an unfinished run is no success for that.
Status stop(Environment &environment) {
  Status reason = environment.stop_reason();
  return reason.ok() ? Status::error(ErrorId::cancelled, "run: found the signal aborted") : std::move(reason);
}

}  // namespace

struct Execution::State {
  const Program *program = nullptr;
  Block arena;
  Vector<TensorState> tensors;
  Vector<Vector<Unique<Execution>>> bodies;  // per node, per subgraph
  struct {                                   // of a body: what passes between its node and it
    Vector<IoBuffer> inputs, outputs;
    Vector<Block> packed, unpacked;  // elements under 8 bits
    Vector<View> results;
  } call;
  Scratch scratch;
  Vector<View> input_views, output_views;  // of the node that runs
  Vector<const View *> input_pointers;
  Vector<View *> output_pointers;
  Vector<RanTensor> ran;  // of the node that ran, for a profile

  const qir::Graph &graph() const noexcept { return program->graph(); }
  const qir::Tensor &tensor(std::int32_t index) const noexcept { return at(graph(), index); }
  TensorState &state(std::int32_t index) noexcept { return tensors[index_of(index)]; }

  void tell(std::size_t node_index, std::uint64_t begin_ns, Environment &environment) {
    const std::uint64_t end_ns = environment.clock_ns();
    const qir::Node &node = graph().nodes[node_index];
    ran.clear();
    std::size_t inputs = 0;
    for (const auto *list : {&node.inputs, &node.outputs}) {
      for (const std::int32_t t : *list) {
        if (t == qir::kAbsent) continue;
        const TensorState &there = state(t);
        ran.push_back({tensor(t).dtype, there.rank, there.dims, there.bytes});
      }
      if (list == &node.inputs) inputs = ran.size();
    }
    const std::span<const RanTensor> all(ran);
    environment.node_ran({node, all.first(inputs), all.subspan(inputs), begin_ns, end_ns});
  }

  // What the caller gave and wants, for one run.
  Status bind_inputs(std::span<const IoBuffer> inputs);
  void bind_outputs(std::span<const IoBuffer> outputs);
  Status hand_out(std::span<IoBuffer> outputs);
};

// The Context of one node of one execution.
class NodeContext final : public Context {
 public:
  NodeContext(Execution::State &state, std::size_t node, Environment &environment)
      : state_(state),
        index_(node),
        node_(state.graph().nodes[node]),
        plan_(state.program->node(node)),
        environment_(environment) {}

  const qir::Node &node() const noexcept override { return node_; }
  std::uint32_t input_count() const noexcept override { return static_cast<std::uint32_t>(node_.inputs.size()); }
  std::uint32_t output_count() const noexcept override { return static_cast<std::uint32_t>(node_.outputs.size()); }
  const View *input(std::uint32_t index) const noexcept override {
    return index < node_.inputs.size() ? state_.input_pointers[index] : nullptr;
  }
  View *output(std::uint32_t index) noexcept override {
    return index < node_.outputs.size() ? state_.output_pointers[index] : nullptr;
  }
  bool stopped() const noexcept override { return environment_.stopped(); }

  void *scratch(std::uint64_t size_bytes) override {
    void *place = state_.scratch.take(size_bytes);
    std::memset(place, 0, size_bytes);
    return place;
  }
  void *unfilled_scratch(std::uint64_t size_bytes) override { return state_.scratch.take(size_bytes); }

  void parallel_for(std::uint64_t count, void (*body)(void *, std::uint64_t, std::uint64_t), void *context) override {
    environment_.parallel_for(count, body, context);
  }

  Status resize_output(std::uint32_t index, const std::int64_t *dims, std::uint32_t rank) override {
    const std::int32_t t = node_.outputs[index];
    if (Status status = set_dims(state_.state(t), state_.tensor(t), dims, rank); !status.ok())
      return std::move(status).with("node", node_.name);
    give_output(index);
    return {};
  }

  Status run_subgraph(std::uint32_t index, const View *const *inputs, std::uint32_t input_count,
                      const View **outputs) override;

  Status run() {
    state_.scratch.reset();
    QR_RETURN_IF_ERROR(size_outputs());
    view_inputs();
    state_.output_views.assign(node_.outputs.size(), View());
    state_.output_pointers.assign(node_.outputs.size(), nullptr);
    for (std::uint32_t i = 0; i < node_.outputs.size(); ++i)
      if (node_.outputs[i] != qir::kAbsent) give_output(i);
    QR_RETURN_IF_ERROR(plan_.row->kernel(*this));
    for (std::uint32_t i = 0; i < node_.outputs.size(); ++i)
      if (node_.outputs[i] != qir::kAbsent) QR_RETURN_IF_ERROR(take_output(i));
    return {};
  }

 private:
  Form form(const qir::Tensor &tensor, bool stored) const noexcept {
    return form_of(tensor.dtype, tensor.quant.has_value() && !stored, plan_.handling);
  }

  // Shapes of the outputs, where the graph does not say them.
  Status size_outputs() {
    if (!plan_.infers) return {};
    Vector<qir::InferValue> inputs;
    inputs.reserve(node_.inputs.size());
    for (const std::int32_t t : node_.inputs) {
      qir::InferValue &value = inputs.emplace_back();
      if (t == qir::kAbsent) continue;
      const TensorState &state = state_.state(t);
      value = {true, state_.tensor(t).dtype, state.shape(), &state_.tensor(t).quant, {state.data, state.bytes}};
    }
    Vector<qir::InferType> types;
    QR_RETURN_IF_ERROR(qir::infer_node(node_, inputs, types));
    types.resize(node_.outputs.size());
    for (std::size_t i = 0; i < node_.outputs.size(); ++i) {
      const std::int32_t t = node_.outputs[i];
      if (t == qir::kAbsent) continue;
      TensorState &state = state_.state(t);
      const qir::Shape &shape = types[i].shape;
      state.sized = false;  // the kernel will say, by resize_output
      if (std::none_of(shape.begin(), shape.end(), [](std::int64_t extent) { return extent < 0; })) {
        if (Status status = set_dims(state, state_.tensor(t), shape.data(), shape.size()); !status.ok())
          return std::move(status).with("node", node_.name);
      }
    }
    return {};
  }

  void view_inputs() {
    state_.input_views.assign(node_.inputs.size(), View());
    state_.input_pointers.assign(node_.inputs.size(), nullptr);
    for (std::size_t i = 0; i < node_.inputs.size(); ++i) {
      const std::int32_t t = node_.inputs[i];
      if (t == qir::kAbsent) continue;
      View &view = state_.input_views[i];
      state_.input_pointers[i] = &view;
      const qir::Tensor &tensor = state_.tensor(t);
      const TensorState &state = state_.state(t);
      const bool bias = qir::is_counted_bias(state_.graph(), node_, i);
      const Form wanted = bias ? Form::Real : form(tensor, reads_stored(node_, i));
      describe(view, tensor, state, wanted);
      view.data = wanted == Form::Stored ? state.data
                                         : state_.scratch.take(static_cast<std::uint64_t>(state.count) * view.width);
      if (bias) {
        read_bias(state, static_cast<float *>(view.data));
      } else {
        to_form(wanted, tensor, state, view.data);
      }
    }
  }

  static void describe(View &view, const qir::Tensor &tensor, const TensorState &state, Form form) noexcept {
    view.dtype = form == Form::Real || form == Form::Widened ? DType::F32 : tensor.dtype;
    view.width = form_width(tensor.dtype, form);
    view.rank = state.rank;
    view.count = state.count;
    std::copy(state.dims, state.dims + qir::kMaxRank, view.dims);
  }

  // Elements under 8 bits, unpacked into scratch where they are not yet.
  const void *elements(const qir::Tensor &tensor, const TensorState &state, bool raw) {
    if (dtype_bits(tensor.dtype) >= 8) return state.data;
    auto *bytes = static_cast<std::uint8_t *>(state_.scratch.take(static_cast<std::uint64_t>(state.count)));
    unpack(tensor.dtype, raw, state.data, state.count, bytes);
    return bytes;
  }

  // Tensors may be long: between parts of them it is asked whether to stop.
  static constexpr std::int64_t kPart = 1 << 16;
  void widen_in_parts(DType dtype, const void *from, std::int64_t count, float *out) {
    const std::int64_t width = (dtype_bits(dtype) + 7) / 8;
    for (std::int64_t at = 0; at < count && (at == 0 || !stopped()); at += kPart)
      widen(dtype, static_cast<const std::uint8_t *>(from) + at * width, std::min(kPart, count - at), out + at);
  }
  void narrow_in_parts(DType dtype, const float *from, std::int64_t count, void *out) {
    const std::int64_t width = (dtype_bits(dtype) + 7) / 8;
    for (std::int64_t at = 0; at < count && (at == 0 || !stopped()); at += kPart)
      narrow(dtype, from + at, std::min(kPart, count - at), static_cast<std::uint8_t *>(out) + at * width);
  }
  // convert(entries of a part, its first element)
  template <class Convert>
  void quantized_in_parts(const EntryMap &map, Convert &&convert) {
    if (map.block != 0) return convert(map, 0);
    const std::int64_t each = map.axis * map.inner,
                       step = std::max<std::int64_t>(1, kPart / std::max<std::int64_t>(each, 1));
    const bool one = map.axis == 1;
    const std::int64_t count = one ? map.outer * map.inner : map.outer, by = one ? kPart : step;
    for (std::int64_t at = 0; at < count && (at == 0 || !stopped()); at += by) {
      const std::int64_t here = std::min(by, count - at);
      convert(one ? EntryMap::per_tensor(here) : EntryMap{here, map.axis, map.inner, 0}, one ? at : at * each);
    }
  }

  void to_form(Form form, const qir::Tensor &tensor, const TensorState &state, void *out) {
    switch (form) {
      case Form::Stored: break;
      case Form::Unpacked:
        unpack(tensor.dtype, false, state.data, state.count, static_cast<std::uint8_t *>(out));
        break;
      case Form::RawUnpacked:
        unpack(tensor.dtype, true, state.data, state.count, static_cast<std::uint8_t *>(out));
        break;
      case Form::Widened:
        widen_in_parts(tensor.dtype, elements(tensor, state, true), state.count, static_cast<float *>(out));
        break;
      case Form::Real: {
        const qir::Quantization &quant = *tensor.quant;
        const auto *const from = static_cast<const std::uint8_t *>(elements(tensor, state, false));
        const std::int64_t width = (dtype_bits(tensor.dtype) + 7) / 8;
        quantized_in_parts(entry_map(quant, state.dims, state.rank), [&](const EntryMap &map, std::int64_t at) {
          dequantize(tensor.dtype, map, quant.scales.data(), quant.zero_points.data(), from + at * width,
                     static_cast<float *>(out) + at);
        });
        break;
      }
    }
  }

  // check_node has seen that its unit has a meaning.
  void read_bias(const TensorState &bias, float *out) {
    const auto unit = qir::BiasUnit::of(node_, state_.tensor(node_.inputs[0]), state_.tensor(node_.inputs[1]),
                                        state_.tensor(node_.inputs[2]));
    const auto *stored = static_cast<const std::int32_t *>(bias.data);
    for (std::int64_t i = 0; i < bias.count; ++i) out[i] = static_cast<float>(stored[i]) * unit->unit(index_of(i));
  }

  // Makes room for an output whose shape is known.
  void give_output(std::uint32_t index) {
    const std::int32_t t = node_.outputs[index];
    const qir::Tensor &tensor = state_.tensor(t);
    TensorState &state = state_.state(t);
    View &view = state_.output_views[index];
    state_.output_pointers[index] = &view;
    const Form wanted = form(tensor, writes_stored(node_, index));
    describe(view, tensor, state, wanted);
    view.data = nullptr;
    if (!state.sized) return;
    if (state_.program->tensor(index_of(t)).storage == StorageKind::Dynamic)
      state.data = state.own.reserve(state.bytes);
    view.data =
        wanted == Form::Stored ? state.data : state_.scratch.take(static_cast<std::uint64_t>(state.count) * view.width);
  }

  // Brings a result into its stored form.
  Status take_output(std::uint32_t index) {
    const std::int32_t t = node_.outputs[index];
    const qir::Tensor &tensor = state_.tensor(t);
    const TensorState &state = state_.state(t);
    const View &view = state_.output_views[index];
    if (!state.sized || !view.data) {
      return Status::error(ErrorId::internal, format("%s '%s': the kernel left output %u without a shape",
                                                     qir::op_name(node_.op), printable(node_.name), index));
    }
    const bool small = dtype_bits(tensor.dtype) < 8;
    void *target = state.data;
    const Form wanted = form(tensor, writes_stored(node_, index));
    if (wanted == Form::Widened || wanted == Form::Real) {
      if (small) target = state_.scratch.take(static_cast<std::uint64_t>(state.count));
      if (wanted == Form::Widened) {
        narrow_in_parts(tensor.dtype, view.as<float>(), state.count, target);
      } else {
        const qir::Quantization &quant = *tensor.quant;
        const std::int64_t width = (dtype_bits(tensor.dtype) + 7) / 8;
        quantized_in_parts(entry_map(quant, state.dims, state.rank), [&](const EntryMap &map, std::int64_t at) {
          quantize(tensor.dtype, map, quant.scales.data(), quant.zero_points.data(), view.as<float>() + at,
                   static_cast<std::uint8_t *>(target) + at * width);
        });
      }
      if (small) pack(tensor.dtype, static_cast<const std::uint8_t *>(target), state.count, state.data);
    } else if (wanted != Form::Stored) {
      pack(tensor.dtype, view.as<std::uint8_t>(), state.count, state.data);
    }
    return {};
  }

  Execution::State &state_;
  std::size_t index_;
  const qir::Node &node_;
  const NodePlan &plan_;
  Environment &environment_;
};

Status NodeContext::run_subgraph(std::uint32_t index, const View *const *inputs, std::uint32_t input_count,
                                 const View **outputs) {
  auto &bodies = state_.bodies[index_];
  if (bodies.empty()) bodies.resize(node_.subgraphs.size());
  if (!bodies[index]) bodies[index] = make_unique<Execution>(state_.program->subprogram(index_, index));
  Execution &body = *bodies[index];
  const qir::Graph &graph = node_.subgraphs[index];
  auto &call = body.state_->call;
  call.inputs.assign(graph.inputs.size(), IoBuffer());
  call.outputs.assign(graph.outputs.size(), IoBuffer());
  call.packed.resize(graph.inputs.size());
  call.unpacked.resize(graph.outputs.size());
  call.results.assign(graph.outputs.size(), View());
  for (std::uint32_t i = 0; i < input_count && i < graph.inputs.size(); ++i) {
    const View &view = *inputs[i];
    const DType dtype = at(graph, graph.inputs[i]).dtype;
    IoBuffer &io = call.inputs[i];
    io.data = view.data;
    io.size_bytes = packed_size(dtype, view.count).value_or(0);
    if (dtype_bits(dtype) < 8) {
      io.data = call.packed[i].reserve(io.size_bytes);
      pack(dtype, view.as<std::uint8_t>(), view.count, io.data);
    }
    io.rank = view.rank;
    std::copy(view.dims, view.dims + qir::kMaxRank, io.dims);
  }
  if (Status status =
          body.run(call.inputs.data(), call.inputs.size(), call.outputs.data(), call.outputs.size(), environment_);
      !status.ok())
    return std::move(status).with("subgraph of", node_.name);

  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    const IoBuffer &io = call.outputs[i];
    View &view = call.results[i];
    view.dtype = at(graph, graph.outputs[i]).dtype;
    view.width = form_width(view.dtype, Form::Unpacked);
    view.rank = io.rank;
    std::copy(io.dims, io.dims + qir::kMaxRank, view.dims);
    view.count = element_count(view.dims, view.rank).value_or(0);
    view.data = io.data;
    if (dtype_bits(view.dtype) < 8) {
      view.data = call.unpacked[i].reserve(static_cast<std::uint64_t>(view.count));
      unpack(view.dtype, false, io.data, view.count, view.as<std::uint8_t>());
    }
  }
  *outputs = call.results.data();
  return {};
}

Execution::Execution(const Program &program) : state_(make_unique<State>()) {
  State &state = *state_;
  const qir::Graph &graph = program.graph();
  state.program = &program;
  state.tensors.resize(graph.tensors.size());
  state.bodies.resize(graph.nodes.size());
  std::size_t most_operands = 0;
  for (const qir::Node &node : graph.nodes)
    most_operands = std::max(most_operands, node.inputs.size() + node.outputs.size());
  state.ran.reserve(most_operands);
  char *arena = static_cast<char *>(state.arena.reserve(program.arena_bytes()));
  for (std::size_t t = 0; t < graph.tensors.size(); ++t) {
    const qir::Tensor &tensor = graph.tensors[t];
    const TensorPlan &plan = program.tensor(t);
    TensorState &tensor_state = state.tensors[t];
    if (plan.storage == StorageKind::Dynamic || plan.storage == StorageKind::None || plan.storage == StorageKind::Input)
      continue;
    if (!set_dims(tensor_state, tensor, tensor.shape.data(), tensor.shape.size()).ok())
      continue;  // build() has seen to it
    if (plan.storage == StorageKind::Arena) {
      tensor_state.data = arena + plan.offset;
    } else if (plan.storage == StorageKind::Constant) {
      tensor_state.data = const_cast<void *>(tensor.data.data);
      if (!is_aligned(tensor_state.data, tensor.dtype) || !tensor_state.data) {
        tensor_state.data = tensor_state.own.reserve(plan.bytes);
        if (plan.bytes != 0) std::memcpy(tensor_state.data, tensor.data.data, plan.bytes);
      }
    }
  }
}

Execution::~Execution() = default;

Status Execution::State::bind_inputs(std::span<const IoBuffer> inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const qir::Tensor &wanted = tensor(graph().inputs[i]);
    TensorState &bound = state(graph().inputs[i]);
    QR_RETURN_IF_ERROR(set_dims(bound, wanted, inputs[i].dims, inputs[i].rank));
    if (inputs[i].size_bytes < bound.bytes || (!inputs[i].data && bound.bytes != 0)) {
      return Status::error(ErrorId::run_no_data,
                           format("input '%s': found %llu bytes, expected %llu", printable(wanted.name),
                                  inputs[i].data ? inputs[i].size_bytes : 0, bound.bytes));
    }
    bound.data = inputs[i].data;
    if (!bound.data || !is_aligned(bound.data, wanted.dtype)) {
      bound.data = bound.own.reserve(bound.bytes);
      if (bound.bytes != 0) std::memcpy(bound.data, inputs[i].data, bound.bytes);
    }
  }
  return {};
}

void Execution::State::bind_outputs(std::span<const IoBuffer> outputs) {
  // Results go straight to the caller where they can.
  for (const std::int32_t t : graph().outputs)
    if (program->tensor(index_of(t)).storage == StorageKind::Output) state(t).data = nullptr;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::int32_t t = graph().outputs[i];
    TensorState &bound = state(t);
    if (program->tensor(index_of(t)).storage != StorageKind::Output || bound.data) continue;
    const IoBuffer &io = outputs[i];
    if (io.wanted && io.data && io.size_bytes >= bound.bytes && is_aligned(io.data, tensor(t).dtype))
      bound.data = io.data;
  }
  for (const std::int32_t t : graph().outputs) {
    TensorState &bound = state(t);
    if (program->tensor(index_of(t)).storage == StorageKind::Output && !bound.data)
      bound.data = bound.own.reserve(bound.bytes);
  }
}

Status Execution::State::hand_out(std::span<IoBuffer> outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::int32_t t = graph().outputs[i];
    const TensorState &result = state(t);
    IoBuffer &io = outputs[i];
    io.rank = result.rank;
    std::copy(result.dims, result.dims + qir::kMaxRank, io.dims);
    io.used_bytes = result.bytes;
    if (!io.wanted || io.data == result.data) continue;
    if (!io.data) {
      io.data = result.data;
    } else if (io.size_bytes < result.bytes) {
      return Status::error(ErrorId::run_room, format("output '%s': found room for %llu bytes, expected %llu",
                                                     printable(tensor(t).name), io.size_bytes, result.bytes));
    } else if (result.bytes != 0) {
      std::memcpy(io.data, result.data, result.bytes);
    }
  }
  return {};
}

Status Execution::run(IoBuffer *inputs, std::size_t input_count, IoBuffer *outputs, std::size_t output_count,
                      Environment &environment) {
  State &state = *state_;
  const qir::Graph &graph = state.graph();
  if (input_count != graph.inputs.size() || output_count != graph.outputs.size()) {
    return Status::error(
        input_count != graph.inputs.size() ? ErrorId::run_input_count : ErrorId::run_output_count,
        format("graph '%s': found %zu inputs and %zu outputs, expected %zu and %zu", printable(graph.name), input_count,
               output_count, graph.inputs.size(), graph.outputs.size()));
  }
  QR_RETURN_IF_ERROR(state.bind_inputs({inputs, input_count}));
  state.bind_outputs({outputs, output_count});

  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    if (environment.stopped()) return stop(environment);
    const std::uint64_t begin = environment.profiled() ? environment.clock_ns() : 0;
    Status status = NodeContext(state, n, environment).run();
    if (environment.stopped()) return stop(environment);
    QR_RETURN_IF_ERROR(std::move(status));
    if (environment.profiled()) state.tell(n, begin, environment);
  }

  return state.hand_out({outputs, output_count});
}

namespace {

// Constants of a graph that has one node, and what its types are inferred from.
Status add_constants(const Vector<ConstView> &inputs, qir::Graph &graph, Vector<qir::InferValue> &values) {
  qir::Node &node = graph.nodes[0];
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const ConstView &input = inputs[i];
    qir::InferValue &value = values.emplace_back();
    node.inputs.set(i, qir::kAbsent);
    if (!input.present) continue;
    const auto count = element_count(input.shape.data(), input.shape.size());
    const auto bytes = count ? packed_size(input.dtype, *count) : std::nullopt;
    if (!bytes)
      return Status::error(ErrorId::qir_shape,
                           format("node '%s': input %zu has no known size", printable(node.name), i));
    node.inputs.set(i, static_cast<std::int32_t>(graph.tensors.size()));
    qir::Tensor &tensor = graph.tensors.emplace_back();
    tensor.name = format("input%zu", i);
    tensor.dtype = input.dtype;
    tensor.shape = input.shape;
    if (input.quant) tensor.quant = *input.quant;
    tensor.is_constant = true;
    tensor.data = {input.data, *bytes};
    value = {true, input.dtype, input.shape, input.quant, tensor.data};
  }
  return {};
}

void add_results(const Vector<qir::InferType> &types, const Vector<OutputType> *output_types, qir::Graph &graph) {
  qir::Node &node = graph.nodes[0];
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] == qir::kAbsent) continue;
    node.outputs.set(i, static_cast<std::int32_t>(graph.tensors.size()));
    graph.outputs.push_back(node.outputs[i]);
    qir::Tensor &tensor = graph.tensors.emplace_back();
    tensor.name = format("output%zu", i);
    tensor.dtype = types[i].dtype;
    tensor.shape = types[i].shape;
    if (output_types) {
      tensor.dtype = (*output_types)[i].dtype;
      tensor.quant = (*output_types)[i].quant;
    }
  }
}

}  // namespace

Status run_node(const qir::Node &node, const Vector<ConstView> &inputs, Vector<OwnedTensor> &outputs,
                const Vector<OutputType> *output_types) {
  // A graph of this node alone, its inputs constant. The node is copied: its operands get other numbers.
  qir::Graph graph;
  graph.name = node.name;
  graph.nodes.push_back(node);
  Vector<qir::InferValue> values;
  QR_RETURN_IF_ERROR(add_constants(inputs, graph, values));
  Vector<qir::InferType> types;
  QR_RETURN_IF_ERROR(qir::infer_node(node, values, types));
  types.resize(node.outputs.size());
  add_results(types, output_types, graph);
  QR_ASSIGN_OR_RETURN(Unique<Program> program, Program::build(graph));
  Execution execution(*program);
  Vector<IoBuffer> results(graph.outputs.size());
  struct Alone final : Environment {
    bool stopped() const noexcept override { return stop_asked(); }
    Status stop_reason() override { return stop_status("folding"); }
  } alone;
  QR_RETURN_IF_ERROR(execution.run(nullptr, 0, results.data(), results.size(), alone));
  outputs.clear();
  outputs.resize(node.outputs.size());
  for (std::size_t i = 0, at = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] == qir::kAbsent) continue;
    const IoBuffer &result = results[at++];
    const auto *bytes = static_cast<const std::uint8_t *>(result.data);
    outputs[i].dtype = qir::at(graph, graph.nodes[0].outputs[i]).dtype;
    outputs[i].shape.assign(result.dims, result.dims + result.rank);
    outputs[i].data.assign(bytes, bytes + result.used_bytes);
  }
  return {};
}

}  // namespace quarry::reference
