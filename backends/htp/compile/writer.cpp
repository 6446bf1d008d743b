// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/compile/writer.h"

#include <algorithm>

#include "backends/htp/run/profile.h"
#include "backends/htp/run/trace_folder.h"
#include "base/os/path.h"

namespace quarry::htp {

using qnn::DataType;

namespace {

String describe(const DraftTensor &tensor) {
  String text = type_name(tensor.dtype);
  text += '[';
  for (std::size_t i = 0; i < tensor.dims.size(); ++i) text += format("%s%u", i ? "," : "", tensor.dims[i]);
  return text + ']';
}

// "Conv2d(u8[1,8,8,3], i8[3,3,3,8]) -> u8[1,8,8,8]".
String describe(const DraftNode &node, const Draft &draft) {
  const auto at = [&](std::int32_t id) { return describe(draft.tensors[index_of(id)]); };
  String text = String(node.type) + "(";
  for (std::size_t i = 0; i < node.inputs.size(); ++i) text += (i ? ", " : "") + at(node.inputs[i]);
  text += ") -> ";
  for (std::size_t i = 0; i < node.outputs.size(); ++i) text += (i ? ", " : "") + at(node.outputs[i]);
  return text;
}

}  // namespace

Writer::Writer(const Engine &engine, Draft &draft)
    : engine_(engine),
      draft_(draft),
      scales_(draft.tensors.size()),
      offsets_(draft.tensors.size()),
      float_scales_(draft.tensors.size()),
      expansions_(draft.tensors.size()) {
  tensors_.reserve(draft.tensors.size());
  for (std::size_t i = 0; i < draft.tensors.size(); ++i) {
    DraftTensor &from = draft.tensors[i];
    qnn::Tensor made{};
    made.version = 1;
    made.v1.name = from.name.c_str();
    made.v1.type = from.type;
    made.v1.dtype = from.dtype;
    made.v1.rank = static_cast<std::uint32_t>(from.dims.size());
    made.v1.dims = from.dims.data();
    made.v1.mem = qnn::TensorMem::Raw;
    if (from.data.data) made.v1.buf = {const_cast<void *>(from.data.data), static_cast<std::uint32_t>(from.data.size)};
    made.v1.q = quant_of(i, from.encoding);
    tensors_.push_back(made);
  }
}

qnn::Quant Writer::quant_of(std::size_t i, Encoding &e) {
  qnn::Quant q{};
  q.defined = qnn::Defined::Undef, q.enc = qnn::QuantEnc::Undef;
  if (e.scales.empty()) return q;
  q.defined = qnn::Defined::Yes;
  const auto count = static_cast<std::uint32_t>(e.scales.size());
  for (std::size_t k = 0; k < e.scales.size(); ++k) {
    scales_[i].push_back({e.scales[k], -e.zero_points[k]});
    offsets_[i].push_back(-e.zero_points[k]);
  }
  if (!e.block.empty()) {
    for (std::size_t k = 0; k < e.scales.size(); ++k)
      float_scales_[i].push_back({e.scales[k], static_cast<float>(-e.zero_points[k])});
    q.enc = qnn::QuantEnc::BwFloatBlock, q.bw_fblock = {e.bits, e.block.data(), float_scales_[i].data()};
  } else if (!e.multipliers.empty()) {
    qnn::BlockExpansion &expansion = expansions_[i];
    expansion.axis = e.axis, expansion.so = scales_[i].data();
    expansion.blocks_per_axis = static_cast<std::uint32_t>(e.multipliers.size() / e.scales.size());
    expansion.scale_bits = 4, expansion.storage = 0, expansion.scale8 = e.multipliers.data();
    q.enc = qnn::QuantEnc::BlockExpansion, q.expansion = &expansion;
  } else if (count == 1 && e.bits == 0) {
    q.enc = qnn::QuantEnc::ScaleOffset, q.so = scales_[i][0];
  } else if (count == 1) {
    q.enc = qnn::QuantEnc::Bw, q.bw = {e.bits, e.scales[0], -e.zero_points[0]};
  } else if (e.bits == 0) {
    q.enc = qnn::QuantEnc::Axis, q.axis = {e.axis, count, scales_[i].data()};
  } else {
    q.enc = qnn::QuantEnc::BwAxis;
    q.bw_axis = {e.bits, e.axis, count, e.scales.data(), offsets_[i].data()};
  }
  return q;
}

qnn::Op Writer::op_of(const DraftNode &node, Vector<qnn::Param> &params, Vector<qnn::Tensor> &inputs,
                      Vector<qnn::Tensor> &outputs) {
  params.clear(), inputs.clear(), outputs.clear();
  for (const DraftParam &from : node.params) {
    qnn::Param made{};
    made.name = from.name;
    if (const auto *ref = std::get_if<DraftParam::Ref>(&from.value)) {
      made.kind = qnn::ParamKind::Tensor;
      made.tensor = tensors_[index_of(ref->tensor)];
    } else {
      made.kind = qnn::ParamKind::Scalar;
      if (const auto *u32 = std::get_if<std::uint32_t>(&from.value))
        made.scalar.dtype = DataType::U32, made.scalar.u32 = *u32;
      else if (const auto *i32 = std::get_if<std::int32_t>(&from.value))
        made.scalar.dtype = DataType::I32, made.scalar.i32 = *i32;
      else if (const auto *f32 = std::get_if<float>(&from.value))
        made.scalar.dtype = DataType::F32, made.scalar.f32 = *f32;
      else if (const auto *text = std::get_if<DraftParam::Text>(&from.value))
        made.scalar.dtype = DataType::String, made.scalar.str = text->text;
      else made.scalar.dtype = DataType::Bool8, made.scalar.b8 = std::get<bool>(from.value) ? 1 : 0;
    }
    params.push_back(made);
  }
  for (const std::int32_t id : node.inputs) inputs.push_back(tensors_[index_of(id)]);
  for (const std::int32_t id : node.outputs) outputs.push_back(tensors_[index_of(id)]);
  return {1,
          node.name.c_str(),
          node.package(),
          node.type,
          static_cast<std::uint32_t>(params.size()),
          params.data(),
          static_cast<std::uint32_t>(inputs.size()),
          inputs.data(),
          static_cast<std::uint32_t>(outputs.size()),
          outputs.data()};
}

namespace {

// What the library's words mean, and what can be done about it.
struct Refusal {
  std::string_view words;
  const char *found;
  std::string_view hint;
};
constexpr Refusal kRefusals[] = {
    {"support FP16", "found floating point, which this SoC has not, expected quantised tensors",
     "quantise the model: quarry quantize (docs/quantize.md); docs/htp.md says which SoCs have floating point"},
    {"incorrect Rank", "found as many axes as it has not the operation for, expected at most 4 or 5",
     "write it on tensors of fewer axes, by a Reshape before and behind it"},
    {"mismatching data", "found operands of types that differ, expected one type", "cast one of them before the node"},
    {"datatypes", "found types that it has not the operation for, expected those of docs/operators.md",
     "cast before the node to a type that docs/operators.md has for it, and back behind it"},
    {"incorrect Value", "found a dimension or a parameter that it does not take",
     "give the operands other shapes, by a Reshape before and behind it"},
    {"", "found a form that it has not the operation for", "cut the model before the node and behind it (quarry cut)"},
};
const Refusal &refusal_of(std::string_view said) {
  return *std::ranges::find_if(kRefusals,
                               [&](const Refusal &one) { return said.find(one.words) != std::string_view::npos; });
}

}  // namespace

void Writer::validate(Vector<Status> &refused) {
  Vector<qnn::Param> params;
  Vector<qnn::Tensor> inputs, outputs;
  for (const DraftNode &node : draft_.nodes) {
    if (stop_asked()) return;  // the caller asks too
    const auto source = index_of(node.source);
    if (node.source >= 0 && (source >= refused.size() || !refused[source].ok())) continue;
    qnn::LogLines lines;
    const qnn::Error error =
        engine_.api().backendValidateOpConfig(engine_.backend(), op_of(node, params, inputs, outputs));
    if (error == qnn::kOk || node.source < 0) continue;
    const String said = lines.text(6);
    const Refusal told = refusal_of(said);
    refused[source] = Status::error(ErrorId::backend_limit,
                                    format("%s: %s; the library refuses it: %s", describe(node, draft_), told.found,
                                           said.empty() ? qnn::error_text(error).c_str() : said.c_str()),
                                    told.hint);
  }
}

// Finishing takes 54 to 77 % of the time: twice as long as the rest.
std::size_t Writer::work() const noexcept { return 3 * (tensors_.size() + draft_.nodes.size()); }

Status Writer::add(const qnn::Api &api, qnn::Handle graph, const Step &step) {
  qnn::LogLines lines;
  const std::size_t total = work();
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (draft_.tensors[i].type == qnn::TensorType::Null) continue;
    QR_RETURN_IF_ERROR(stop_status("compile"));
    lines.clear();
    if (const qnn::Error error = api.tensorCreateGraphTensor(graph, &tensors_[i]))
      return qnn::call_failed(
          format("tensorCreateGraphTensor %s %s", printable(draft_.tensors[i].name), describe(draft_.tensors[i])),
          error, &lines);
  }
  Vector<qnn::Param> params;
  Vector<qnn::Tensor> inputs, outputs;
  for (std::size_t i = 0; i < draft_.nodes.size(); ++i) {
    if (i % 64 == 0) QR_RETURN_IF_ERROR(step(tensors_.size() + i, total, "add nodes"));
    const DraftNode &node = draft_.nodes[i];
    lines.clear();
    if (const qnn::Error error = api.graphAddNode(graph, op_of(node, params, inputs, outputs)))
      return qnn::call_failed(format("graphAddNode '%s' %s", printable(node.name), describe(node, draft_)), error,
                              &lines);
  }
  return {};
}

Result<qnn::Handle> Writer::write(qnn::Handle context, GraphConfigs &configs, const Step &step,
                                  const CompileCall &call) {
  const qnn::Api &api = engine_.api();
  qnn::LogLines lines;
  qnn::Handle graph = nullptr;
  if (const qnn::Error error = api.graphCreate(context, draft_.name.c_str(), configs.list(), &graph))
    return qnn::call_failed("graphCreate " + printable(draft_.name) + " with " + configs.text(), error, &lines,
                            "leave out the option whose configuration the library does not take");
  for (const String &key : configs.finalize_keys())
    if (lines.contains("Option " + key + " not found"))
      return Status::error(ErrorId::bad_option_value,
                           format("option htp.finalize_config: found key %s, which this library's compiler does not "
                                  "know (%s)",
                                  printable(key), engine_.library().describe()),
                           "leave the key out");
  lines.clear();
  QR_RETURN_IF_ERROR(add(api, graph, step));
  QR_RETURN_IF_ERROR(step(work() / 3, work(), "finalize"));
  lines.clear();
  ProfiledCall profiled(engine_, call.profile, call.traces);
  QR_RETURN_IF_ERROR(profiled.status());
  Status finalized;
  const auto finalize = [&] {
    const qnn::LogLines heard;  // of the thread that this is called on
    const Interrupter::Call interrupted(engine_.interrupter(), call.stop, call.may_stop);
    if (const qnn::Error error = api.graphFinalize(graph, profiled.handle(), interrupted.signal()))
      finalized = qnn::call_failed(
          format("graphFinalize %s (%zu nodes, %zu tensors, %llu bytes of weights) with %s", printable(draft_.name),
                 draft_.nodes.size(), tensors_.size(), weight_bytes(draft_), configs.text()),
          error, &heard,
          "the library accepted every node by itself and not the whole: compile for another SoC, leave out options, "
          "or cut the model");
  };
  String schematic;
  if (call.traces && call.profile) {
    QR_RETURN_IF_ERROR(in_folder(call.trace_folder, finalize));
    schematic = String(call.trace_folder) + "/" + draft_.name + "_schematic.bin";
    if (!os::allows(schematic.c_str(), os::Access::Exists)) schematic = {};
  } else {
    finalize();
  }
  if (call.stop.stopped()) return call.stop.status("compile");
  QR_RETURN_IF_ERROR(std::move(finalized));
  profiled.tell("graphFinalize", nullptr, schematic);
  return graph;
}

}  // namespace quarry::htp
