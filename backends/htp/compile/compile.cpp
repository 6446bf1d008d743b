// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/compile/compile.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu-reference/folder.h"
#include "backends/htp/compile/dlc.h"
#include "backends/htp/compile/dump.h"
#include "backends/htp/compile/saver.h"
#include "backends/htp/compile/shared_check.h"
#include "backends/htp/engine/emulated_vtcm.h"
#include "backends/htp/lower/bool_forms.h"
#include "backends/htp/lower/divisors.h"
#include "backends/htp/lower/doubles.h"
#include "backends/htp/lower/fewer_axes.h"
#include "backends/htp/lower/float16_forms.h"
#include "backends/htp/lower/lowering.h"
#include "backends/htp/lower/masked_softmax.h"
#include "backends/htp/lower/overflow.h"
#include "backends/htp/lower/quantized.h"
#include "backends/htp/lower/small_weights.h"
#include "backends/htp/lower/stretched.h"
#include "backends/htp/lower/unsigned.h"
#include "backends/htp/program/metadata.h"
#include "backends/htp/run/dynamic_region.h"
#include "base/hash.h"
#include "base/stop.h"
#include "passes/passes.h"
#include "passes/shapes/cut.h"

namespace quarry::htp {

namespace {

constexpr std::uint32_t kNative = QR_PLUGIN_PATH_NATIVE, kNone = QR_PLUGIN_PATH_NONE;

// The composites that the device has operations for, or the lowering a better form.
constexpr passes::Composites kComposites = {passes::Composite::Gelu,
                                            passes::Composite::GeluTanh,
                                            passes::Composite::Swish,
                                            passes::Composite::HardSwish,
                                            passes::Composite::HardSigmoid,
                                            passes::Composite::LayerNormalization,
                                            passes::Composite::RMSNormalization};

// A recurrent operator is unrolled, and the library's time to compile grows faster than the steps.
constexpr std::int64_t kMostSteps = 512;
// A Loop or Scan is unrolled: its body for each time.
constexpr std::int64_t kMostTimes = 128;

// What stands behind the words on a node whose results may leave the 32 bits that 64-bit integers have on the device.
constexpr std::string_view kNarrowed =
    "; of its 64-bit integers the device has 32 bits, and the nearest of those for what is further out";

Status describe(const Vector<IoBinding> &borders, const Draft &draft, const qnn::Tensor *given, std::uint32_t count,
                Vector<BlobTensor> &out) {
  for (const IoBinding &border : borders) {
    if (border.tensor < 0) {
      BlobTensor &tensor = out.emplace_back();
      tensor.name = border.name, tensor.dtype = border.dtype, tensor.shape = border.shape;
      const auto *const bytes = static_cast<const std::uint8_t *>(border.constant.data);
      tensor.storage = bytes ? BlobStorage::Constant : BlobStorage::Unused;
      if (bytes) tensor.constant.assign(bytes, bytes + border.constant.size);
      continue;
    }
    const DraftTensor &from = draft.tensors[index_of(border.tensor)];
    const qnn::Tensor *const end = given + count;
    const qnn::Tensor *const found =
        std::find_if(given, end, [&](const qnn::Tensor &t) { return t.v1.name && from.name == t.v1.name; });
    if (found == end)
      return Status::error(
          ErrorId::backend_library_call,
          format("the binary says nothing of tensor %s, which is one of its inputs or outputs", printable(from.name)));
    BlobTensor &tensor = out.emplace_back();
    tensor.name = border.name, tensor.dtype = border.dtype, tensor.shape = border.shape;
    tensor.device_name = found->v1.name;
    if (const qnn::Quant &q = found->v1.q; q.defined == qnn::Defined::Yes && q.enc == qnn::QuantEnc::ScaleOffset)
      tensor.device_scale = q.so.scale, tensor.device_zero_point = -q.so.offset;
    tensor.id = found->v1.id, tensor.device_dtype = from.dtype, tensor.device_dims = from.dims;
    tensor.scale = border.scale, tensor.zero_point = border.zero_point, tensor.may_saturate = border.may_saturate;
  }
  return {};
}

Result<Vector<std::uint8_t>> binary_of(const qnn::Api &api, qnn::Handle context) {
  qnn::LogLines lines;
  qnn::BinSize size = 0, written = 0;
  if (const qnn::Error error = api.contextGetBinarySize(context, &size))
    return qnn::call_failed("contextGetBinarySize", error, &lines);
  Vector<std::uint8_t> binary(size);
  if (const qnn::Error error = api.contextGetBinary(context, binary.data(), size, &written))
    return qnn::call_failed("contextGetBinary", error, &lines);
  binary.resize(std::min<std::uint64_t>(size, written));
  return binary;
}

// Whether the results of 64-bit integers may need more than 32 bits where the operands do not.
bool computes_wide(const qir::Graph &graph, const qir::Node &node) {
  using qir::Op;
  const DType dtype = node.outputs[0] == qir::kAbsent ? DType::Unknown : qir::at(graph, node.outputs[0]).dtype;
  if (dtype != DType::I64 && dtype != DType::U64) return false;
  switch (node.op) {
    case Op::Abs:
    case Op::Add:
    case Op::CumSum:
    case Op::Einsum:
    case Op::Mul:
    case Op::Neg:
    case Op::Pow:
    case Op::ReduceL1:
    case Op::ReduceProd:
    case Op::ReduceSum:
    case Op::ReduceSumSquare:
    case Op::Sub: return true;
    case Op::BitShift: return node.get_string("direction", "") == "LEFT";
    case Op::BitwiseNot: return dtype == DType::U64;
    case Op::Cast: return is_float(qir::at(graph, node.inputs[0]).dtype);
    case Op::ScatterElements:
    case Op::ScatterND: {
      const std::string_view how = node.get_string("reduction", "none");
      return how == "add" || how == "mul";
    }
    default: return false;
  }
}

// Control flow as its bodies, with the shapes that follow behind it.
Status unfold(qir::Graph &graph, qir::Store &store) {
  const auto left = std::ranges::count_if(graph.nodes, passes::is_control_flow);
  if (left == 0) return {};
  reference::ReferenceFolder folder;
  passes::unfold_control_flow(graph, store, kMostTimes, &folder);
  if (std::ranges::count_if(graph.nodes, passes::is_control_flow) == left) return {};
  const auto is_open = [](const qir::Tensor &tensor) { return !passes::known(tensor.shape); };
  Vector<qir::Shape> inputs;
  for (const std::int32_t id : graph.inputs) inputs.push_back(qir::at(graph, id).shape);
  const bool bound = std::ranges::all_of(inputs, passes::known);
  if (!bound || std::ranges::none_of(graph.tensors, is_open) || stop_asked()) return {};
  return passes::bind_dimensions(graph, inputs, folder, store);
}

// Nodes whose operands are all constant: the library has no graph of such alone, and the reference kernels are exact.
// Random numbers are those that every other run gives.
void compute_constants(qir::Graph &graph, qir::Store &store) {
  passes::dequantize_nodes(graph, store, [](const qir::Graph &g, const qir::Node &node) {
    return std::ranges::any_of(node.inputs,
                               [&](std::int32_t id) { return id != qir::kAbsent && !qir::at(g, id).is_constant; });
  });
  reference::ReferenceFolder folder;
  passes::fold_constants(graph, store, folder, {.may_grow = graph.inputs.empty(), .outputs = true, .random = true});
}

// Rewrites what the library has an operation for less for, or a wrong one, and refuses what it would not take.
void give_forms(Draft &draft, qir::Store &store, const CompileOptions &options, Vector<Status> &refused) {
  bound_operands(draft);
  if (options.soc->arch > 68 || options.half_precision) scale_divisions(draft, store);
  give_bool_forms(draft, store);
  give_fewer_axes(draft, store, refused);
  keep_stretched_apart(draft, *options.soc, store);
  give_float16_forms(draft, *options.soc, options.half_precision, store);
  if (options.settings.flag("htp_bf16_enable")) give_brain_forms(draft, store);
  if (options.settings.flag("enable_htp_fp16_clamp_overflow")) clamp_overflow(draft);
  if (!options.settings.flag("extended_udma")) refuse_what_is_too_large(draft, refused);
  refuse_without_inputs(draft, refused);
}

}  // namespace

Result<Unique<Prepared>> Prepared::make(qir::Graph graph, const CompileOptions &options) {
  auto made = quarry::make_unique<Prepared>(std::move(graph));
  qir::Graph &g = made->graph_;
  made->number_nodes();
  QR_ASSIGN_OR_RETURN(made->batches_, take_batches(g, made->store_));
  QR_RETURN_IF_ERROR(unfold(g, made->store_));
  for (const qir::Node &node : g.nodes)
    if (node.source >= 0 && computes_wide(g, node)) made->narrow_[index_of(node.source)] = true;
  compute_constants(g, made->store_);
  QR_RETURN_IF_ERROR(stop_status("compile"));
  if (options.settings.text("htp.tail") == "host") QR_RETURN_IF_ERROR(made->take_region());
  made->take_types(options);
  forget_axis_quantization(g);
  if (options.host_quantization) made->host_ = take_border_quantization(g, made->reals_);
  make_small_weights_signed(g, made->store_);
  make_unsigned(g, made->store_, made->host_);
  // What a pass that was stopped leaves is for no other to read.
  const auto stopped = [] { return stop_status("compile"); };
  passes::scale_integer_products(g, made->store_);
  QR_RETURN_IF_ERROR(stopped());
  passes::dequantize_nodes(g, made->store_, computes_quantized);
  QR_RETURN_IF_ERROR(stopped());
  BlockSources blocks;
  ConstantDequantizer folder(blocks);
  passes::fold_constants(g, made->store_, folder,
                         {.wanted = [](qir::Op op) { return op == qir::Op::DequantizeLinear; }, .may_grow = true});
  QR_RETURN_IF_ERROR(stopped());
  passes::join_signed_shifts(g, made->store_);
  passes::decompose_unsupported(g, made->store_, is_decomposed);
  QR_RETURN_IF_ERROR(stopped());
  compute_constants(g, made->store_);
  QR_RETURN_IF_ERROR(stopped());
  passes::fold_batch_normalization(g, made->store_);
  passes::steady_variances(g, made->store_);
  QR_RETURN_IF_ERROR(stopped());
  passes::compose(g, made->store_, kComposites, &made->composed_);
  QR_RETURN_IF_ERROR(stopped());
  passes::decompose_matmul(g, made->store_,
                           [](const qir::Graph &, const qir::Node &node) { return node.op != qir::Op::Einsum; });
  QR_RETURN_IF_ERROR(passes::einsum_to_matmul(g, made->store_));
  passes::simplify_movements(g, made->store_);
  QR_RETURN_IF_ERROR(stopped());
  passes::unroll_recurrent(g, made->store_, kMostSteps, options.soc->arch == 68 ? nullptr : is_library_gru);
  QR_RETURN_IF_ERROR(stopped());
  passes::remove_no_ops(g);
  adapt_quantized(g);
  compose_masked_softmax(g, made->store_, options.settings.flag("htp.masked_softmax"));
  passes::remove_unused(g);
  Lowering lowering(g, *options.soc, made->store_, made->draft_);
  lowering.take_custom(options.packages);
  lowering.take_block_sources(blocks);
  QR_RETURN_IF_ERROR(lowering.run(made->refused_));
  give_forms(made->draft_, made->store_, options, made->refused_);
  // Lowering stops at a refused node whose shapes are unknown: the draft then has no outputs, and is for the verdicts
  // alone.
  if (made->draft_.outputs.size() == g.outputs.size()) made->give_borders();
  return made;
}

// Cuts the graph before the first data-dependent shapes.
Status Prepared::take_region() {
  const auto is_open = [&](std::int32_t id) { return !passes::known(qir::at(graph_, id).shape); };
  Vector<bool> in_first = passes::plannable(graph_, passes::is_control_flow);
  // The caller binds inputs of unknown shape.
  if (std::ranges::find(in_first, false) == in_first.end() || std::ranges::any_of(graph_.inputs, is_open)) return {};
  passes::Parts parts = passes::cut(graph_, in_first);
  if (parts.first.inputs.empty()) {  // the library takes no graph without inputs
    in_first.assign(in_first.size(), false);
    parts = passes::cut(graph_, in_first);
  }
  QR_ASSIGN_OR_RETURN(region_, write_region(graph_, parts));
  const auto tell = [&](const Vector<std::int32_t> &ids, Vector<BlobTensor> &list) {
    for (const std::int32_t id : ids) {
      BlobTensor &tensor = list.emplace_back();
      tensor.name = qir::at(graph_, id).name, tensor.dtype = qir::at(graph_, id).dtype,
      tensor.shape = qir::at(graph_, id).shape, tensor.storage = BlobStorage::Staged;
    }
  };
  tell(graph_.inputs, whole_inputs_), tell(graph_.outputs, whole_outputs_);
  in_region_.resize(names_.size());
  for (const qir::Node &node : parts.second.graph.nodes)
    if (node.source >= 0) in_region_[index_of(node.source)] = true;
  graph_ = std::move(parts.first.graph);
  return {};
}

void Prepared::number_nodes() {
  qir::number_sources(graph_);
  for (const qir::Node &node : graph_.nodes) names_.push_back(node.name);
  refused_.resize(graph_.nodes.size());
  narrow_.resize(graph_.nodes.size());
}

// The device's types for those that it has not.
void Prepared::take_types(const CompileOptions &options) {
  find_saturating();
  if (!options.settings.flag("htp.narrow_moved_integers")) integers_ = take_moved_integers_as_pairs(graph_, store_);
  reals_ = take_reals_as_floats(graph_, store_, *options.soc);
}

// Which outputs depend on 64-bit integers that are computed with.
void Prepared::find_saturating() {
  Vector<bool> tensors(graph_.tensors.size());
  const auto is_marked = [&](std::int32_t id) { return id != qir::kAbsent && tensors[index_of(id)]; };
  for (const qir::Node &node : graph_.nodes) {
    const bool is_narrow = node.source >= 0 && narrow_[index_of(node.source)];
    if (!is_narrow && std::ranges::none_of(node.inputs, is_marked)) continue;
    for (const std::int32_t id : node.outputs)
      if (id != qir::kAbsent) tensors[index_of(id)] = true;
  }
  for (const std::int32_t id : graph_.outputs) saturates_.push_back(is_marked(id));
}

// The session has f32 where the host quantises, and the reals that the model has.
void Prepared::give_borders() {
  for (std::size_t i = 0; i < draft_.outputs.size(); ++i) draft_.outputs[i].may_saturate = saturates_[i];
  const auto give = [&](const Vector<HostIoBinding> &host, Vector<IoBinding> &borders) {
    for (std::size_t i = 0; i < host.size(); ++i) {
      if (host[i].name.empty()) continue;
      if (borders[i].constant.data) {  // nothing is left to convert at run time
        const Result<qnn::DataType> stored =
            Lowering::type_of({{}, borders[i].dtype, {}, qir::Quantization{}, false, {}});
        const std::uint64_t count =
            stored.ok() ? borders[i].constant.size / std::max<std::size_t>(1, element_bytes(stored.value())) : 0;
        void *const reals = store_.allocate(count * sizeof(float));
        if (stored.ok())
          dequantize_border(stored.value(), host[i].scale, host[i].zero_point, borders[i].constant.data, reals, count);
        borders[i].constant = {reals, count * sizeof(float)};
      }
      borders[i].name = host[i].name, borders[i].dtype = DType::F32;
      borders[i].scale = host[i].scale, borders[i].zero_point = host[i].zero_point;
    }
  };
  give(host_.inputs, draft_.inputs);
  give(host_.outputs, draft_.outputs);
  const auto give_reals = [&](const Vector<DType> &types, Vector<IoBinding> &borders) {
    for (std::size_t i = 0; i < types.size(); ++i) {
      if (types[i] == DType::Unknown) continue;
      borders[i].dtype = types[i];
      if (!borders[i].constant.data) continue;
      const std::uint64_t count = borders[i].constant.size / sizeof(float), bytes = count * dtype_bits(types[i]) / 8;
      void *const reals = store_.allocate(bytes);
      floats_to_reals(types[i], borders[i].constant.data, reals, count);
      borders[i].constant = {reals, bytes};
    }
  };
  give_reals(reals_.inputs, draft_.inputs);
  give_reals(reals_.outputs, draft_.outputs);
  const auto give_integers = [](const Vector<DType> &types, Vector<IoBinding> &borders) {
    for (std::size_t i = 0; i < types.size(); ++i)
      if (types[i] != DType::Unknown) borders[i].dtype = types[i], borders[i].shape.pop_back();
  };
  give_integers(integers_.inputs, draft_.inputs);
  give_integers(integers_.outputs, draft_.outputs);
}

Vector<BlobNode> Prepared::nodes() const {
  Vector<BlobNode> out(names_.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    BlobNode &node = out[i];
    node.name = names_[i];
    node.path = kNone;
    node.text = "no work: a view, or folded into another node";
  }
  for (const passes::Composed &one : composed_)
    for (const std::int32_t piece : one.pieces)
      if (one.node >= 0) out[index_of(piece)].text = "fused into " + names_[index_of(one.node)];
  for (const std::int32_t source : host_.sources)
    if (source >= 0) out[index_of(source)].text = "on the host, at an input or output of the model";
  for (std::size_t i = 0; i < in_region_.size(); ++i)
    if (in_region_[i])
      out[i].path = QR_PLUGIN_PATH_REFERENCE, out[i].text = "on the host, behind data-dependent shapes";
  for (const DraftNode &node : draft_.nodes) {
    if (node.source < 0) continue;
    BlobNode &at = out[index_of(node.source)];
    if (at.path != kNative) {
      at.path = kNative;
      at.text.clear();
    }
    if (!at.text.empty()) at.text += ", ";
    at.text += node.type;
  }
  for (std::size_t i = 0; i < out.size(); ++i)
    if (narrow_[i] && out[i].path == kNative) out[i].text += kNarrowed;
  return out;
}

namespace {

// The context becomes a part, whose graphs are run before dynamic regions, or alone.
void put_regions_behind(Vector<Unique<Prepared>> &prepared, Blob &blob) {
  Blob whole;
  whole.soc = blob.soc, whole.arch = blob.arch, whole.version = blob.version, whole.build_id = blob.build_id;
  whole.binary_hash = hash64(nullptr, 0);
  for (std::uint32_t i = 0; i < prepared.size(); ++i) {
    const BlobGraph &first = blob.graphs[i];
    BlobGraph &graph = whole.graphs.emplace_back();
    graph.name = first.name, graph.on_device = false, graph.nodes = first.nodes;
    graph.layout_copies = first.layout_copies;
    if (prepared[i]->has_region()) {
      graph.inputs = prepared[i]->whole_inputs(), graph.outputs = prepared[i]->whole_outputs();
      graph.region = std::move(prepared[i]->region());
      graph.region.part = 0, graph.region.graph = i;
      continue;
    }
    BlobStage stage;
    stage.graph = i;
    std::uint32_t place = 0;
    const auto stand_for = [&](const Vector<BlobTensor> &from, Vector<BlobTensor> &to, Vector<std::uint32_t> &places) {
      for (const BlobTensor &tensor : from) {
        BlobTensor &made = to.emplace_back();
        made.name = tensor.name, made.dtype = tensor.dtype, made.shape = tensor.shape,
        made.storage = BlobStorage::Staged;
        places.push_back(place++);
      }
    };
    stand_for(first.inputs, graph.inputs, stage.inputs), stand_for(first.outputs, graph.outputs, stage.outputs);
    graph.stages.push_back(std::move(stage));
  }
  whole.parts.push_back(std::move(blob));
  blob = std::move(whole);
}

// What the blob says of one graph. info: of the binary, nullptr where the graph has no nodes.
Status describe_graph(Prepared &prepared, const qnn::GraphInfo *info, BlobGraph &graph) {
  const Draft &draft = prepared.draft();
  graph.name = draft.name, graph.nodes = prepared.nodes(), graph.layout_copies = draft.layout_copies;
  if (!info && !draft.nodes.empty())
    return Status::error(ErrorId::backend_library_call,
                         format("the binary says nothing of graph %s", printable(draft.name)));
  graph.on_device = info != nullptr;
  graph.rows = static_cast<std::uint64_t>(prepared.batches().rows);
  graph.most = static_cast<std::uint64_t>(prepared.batches().most);
  QR_RETURN_IF_ERROR(describe(draft.inputs, draft, info ? info->in : nullptr, info ? info->n_in : 0, graph.inputs));
  return describe(draft.outputs, draft, info ? info->out : nullptr, info ? info->n_out : 0, graph.outputs);
}

// The library takes more threads than the SoC has vector units, and gives those.
Status check_threads(const BlobGraph &graph, const CompileOptions &options) {
  const std::uint64_t asked = options.settings.number("htp.hvx_threads", graph.name);
  if (graph.hvx_threads == 0 || asked <= graph.hvx_threads) return {};
  return Status::error(ErrorId::bad_option_value,
                       format("option htp.hvx_threads: found %llu for %s, expected at most %llu, the vector units that "
                              "the library has for it",
                              static_cast<unsigned long long>(asked), soc_text(*options.soc),
                              static_cast<unsigned long long>(graph.hvx_threads)));
}

std::uint64_t io_bytes_of(const Draft &draft) {
  std::uint64_t bytes = 0;
  for (const auto *list : {&draft.inputs, &draft.outputs})
    for (const IoBinding &border : *list)
      if (border.tensor >= 0) bytes += tensor_bytes(draft.tensors[index_of(border.tensor)]);
  return bytes;
}

// One more graph of the binary that `metadata` is of; nullptr: there is none.
Status add_graph(Prepared &prepared, const Metadata *metadata, const CompileOptions &options, CompiledContext &out) {
  const Draft &draft = prepared.draft();
  BlobGraph &graph = out.blob.graphs.emplace_back();
  const qnn::GraphInfo *const info = draft.nodes.empty() ? nullptr : metadata->find(draft.name);
  QR_RETURN_IF_ERROR(describe_graph(prepared, info, graph));
  if (info) metadata->figures(draft.name, graph);
  QR_RETURN_IF_ERROR(check_threads(graph, options));
  out.spill_bytes = std::max(out.spill_bytes, graph.spill_bytes);
  out.io_bytes = std::max(out.io_bytes, io_bytes_of(draft));
  return {};
}

}  // namespace

Result<CompiledContext> compile(const std::shared_ptr<const qnn::Library> &library, Vector<qir::Graph> graphs,
                                const CompileOptions &options, const Writer::Step &step, const CompileCall &call) {
  QR_ASSIGN_OR_RETURN(const std::shared_ptr<Engine> engine,
                      Engine::make(library, *options.soc, options.signed_domain, options.packages));
  QR_ASSIGN_OR_RETURN(const EmulatedVtcm vtcm, EmulatedVtcm::hold(*options.soc, EmulatedVtcm::For::Compile));
  const qnn::Api &api = engine->api();
  ScopedContext context{api};
  qnn::LogLines lines;
  ContextConfigs context_configs(options.settings, ContextConfigs::For::Compile);
  if (const qnn::Error error =
          api.contextCreate(engine->backend(), engine->device(), context_configs.list(), &context.handle))
    return qnn::call_failed(
        "contextCreate" + (context_configs.text().empty() ? String() : " with " + context_configs.text()), error,
        &lines);
  CompiledContext out;
  Vector<Unique<Prepared>> prepared;
  StringMap<bool> names;
  Vector<Unique<Writer>> writers;
  Vector<FreshGraph> fresh;  // a model may give constants alone
  for (std::size_t i = 0; i < graphs.size(); ++i) {
    QR_ASSIGN_OR_RETURN(Unique<Prepared> one, Prepared::make(std::move(graphs[i]), options));
    for (Status &status : one->refused())
      if (!status.ok()) return std::move(status);
    String &name = one->draft().name;                            // names of graphs must differ in a context
    if (call.traces && call.profile) name = file_name_of(name);  // by which the library names the file of its trace
    if (!names.emplace(name, true).second) name += format("#%zu", i);
    QR_RETURN_IF_ERROR(dump_draft(one->draft(), one->source_names(), options));
    QR_RETURN_IF_ERROR(dump_dlc(*engine, one->draft(), options, step));
    QR_RETURN_IF_ERROR(save_calls(*engine, one->draft(), options, step));
    if (!one->draft().nodes.empty()) {
      GraphConfigs configs(options, name);
      writers.push_back(quarry::make_unique<Writer>(*engine, one->draft()));
      QR_ASSIGN_OR_RETURN(const qnn::Handle made, writers.back()->write(context.handle, configs, step, call));
      fresh.push_back({made, &one->draft(), writers.back().get()});
    }
    prepared.push_back(std::move(one));
  }
  Vector<std::string_view> graph_names;
  for (const Unique<Prepared> &one : prepared) graph_names.push_back(one->draft().name);
  QR_RETURN_IF_ERROR(options.settings.check_names(graph_names));
  Unique<Metadata> metadata;
  const bool shares = fresh.size() > 1 && options.settings.flag("enable_htp_weight_sharing");
  // What is prepared alone cannot be run.
  if (shares && qnn::Library::emulates() && !options.settings.flag("enable_htp_prepare_only")) {
    QR_ASSIGN_OR_RETURN(out.blob.alone_bytes, check_shared_graphs(*engine, fresh, options, step, call));
  }
  if (!fresh.empty()) {
    QR_ASSIGN_OR_RETURN(out.binary, binary_of(api, context.handle));
    QR_ASSIGN_OR_RETURN(metadata, Metadata::read(*library, out.binary));
  }
  Blob &blob = out.blob;
  blob.soc = options.soc->number, blob.arch = options.soc->arch;
  blob.version = library->version(), blob.build_id = library->build_id();
  if (shares && metadata) blob.shared_bytes = metadata->shared_weights();
  blob.binary_bytes = out.binary.size(), blob.binary_hash = hash64(out.binary.data(), out.binary.size());
  for (const Unique<Prepared> &one : prepared) QR_RETURN_IF_ERROR(add_graph(*one, metadata.get(), options, out));
  if (std::ranges::any_of(prepared, [](const Unique<Prepared> &one) { return one->has_region(); }))
    put_regions_behind(prepared, out.blob);
  return out;
}

}  // namespace quarry::htp
