// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/compile/foreign.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "backends/common/ep_context.h"
#include "backends/htp/program/binary_hash.h"
#include "backends/htp/program/grade.h"
#include "backends/htp/program/metadata.h"
#include "base/checked.h"
#include "graph/ops/quantization.h"
#include "passes/passes.h"

namespace quarry::htp {

namespace {

using qir::Op;

constexpr char kCut[] = "cut the model before and behind this node, and run the parts one behind the other";
constexpr char kOther[] = "the model and the binary are not of one compilation: export both anew";

// What the session has in place of a tensor that an EPContext node takes or gives.
struct Replaced {
  std::int32_t session = qir::kAbsent;
  float scale = 0;  // of QuantizeLinear or DequantizeLinear; 0: the same values (a Cast between 64 and 32 bits)
  std::int32_t zero_point = 0;
};

// A binary, and the nodes of all graphs that it is for.
struct Binary {
  std::span<const std::uint8_t> bytes;
  Unique<Metadata> metadata;
  Blob blob;  // its graphs are added as nodes want them
};

Status bad(const qir::Node &node, const String &what, std::string_view hint = kOther) {
  return Status::error(ErrorId::backend_bad_blob, format("EPContext %s: %s", printable(node.name), what), hint);
}

bool is_qnn(std::string_view source) {
  String lower(source);
  for (char &c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return lower == "qnn" || lower == "qnnexecutionprovider";
}

// "outer=name;outer=name;": ONNX Runtime's own names of the binary's tensors.
std::string_view device_name(const qir::Node &node, std::string_view outer) {
  std::string_view left = node.get_string("io_name_overrides", "");
  while (!left.empty()) {
    const std::size_t end = std::min(left.find(';'), left.size());
    const std::string_view item = left.substr(0, end);
    left.remove_prefix(std::min(end + 1, left.size()));
    const std::size_t equals = item.rfind('=');
    if (equals != item.npos && item.substr(0, equals) == outer) return item.substr(equals + 1);
  }
  return outer;
}

String names_of(const qnn::Tensor *tensors, std::uint32_t count) {
  String text;
  for (std::uint32_t i = 0; i < count; ++i)
    text += (i ? ", " : "") + printable(tensors[i].v1.name ? tensors[i].v1.name : "");
  return text.empty() ? String("none") : text;
}

class Reader {
 public:
  Reader(const qnn::Library &library, const Settings &settings, std::size_t *failed)
      : library_(library), settings_(settings), failed_(failed) {}

  Result<ForeignContexts> run(Vector<qir::Graph> &graphs) {
    for (qir::Graph &graph : graphs) {
      qir::number_sources(graph);
      BlobGraph &made = out_.blob.graphs.emplace_back();
      made.name = graph.name;
      for (const qir::Node &node : graph.nodes)
        made.nodes.push_back({QR_PLUGIN_PATH_NONE, "no work: a view", node.name});
      passes::remove_no_ops(graph);
    }
    for (const qir::Graph &graph : graphs) QR_RETURN_IF_ERROR(collect(graph));
    for (std::size_t g = 0; g < graphs.size(); ++g) QR_RETURN_IF_ERROR(take(graphs[g], out_.blob.graphs[g]));
    return finish();
  }

 private:
  Status collect(const qir::Graph &graph);
  Result<std::size_t> binary_of(const qir::Node &node);
  Status check_node(const qir::Node &node, Blob &blob);
  Status replace(const qir::Graph &graph, BlobGraph &made);
  Status take(const qir::Graph &graph, BlobGraph &made);
  Status describe(const qir::Graph &graph, const qir::Node &node, const qnn::GraphInfo &info, bool gives,
                  Vector<BlobTensor> &out) const;
  Status match(const qir::Graph &graph, const qir::Node &node, std::int32_t id, const qnn::Tensor &device,
               BlobTensor &out) const;
  Result<ForeignContexts> finish();
  const Replaced *replaced(std::int32_t id) const {
    const auto found = replaced_.find(id);
    return found == replaced_.end() ? nullptr : &found->second;
  }
  // The tensor of the session, or between two nodes.
  std::int32_t outer(std::int32_t id) const { return replaced(id) ? replaced(id)->session : id; }
  // What an output always is: an initializer, by itself or behind the Identity that the importer puts there. Null: it
  // is none.
  const qir::Tensor *constant_of(const qir::Graph &graph, std::int32_t output) const {
    const qir::Tensor &tensor = qir::at(graph, output);
    if (tensor.is_constant) return &tensor;
    for (const auto &[inner, to] : replaced_) {
      const qir::Tensor &from = qir::at(graph, inner);
      if (to.session == output && to.scale == 0 && from.is_constant && from.dtype == tensor.dtype) return &from;
    }
    return nullptr;
  }
  void at(const qir::Node &node) {
    if (failed_ && node.source >= 0) *failed_ = index_of(node.source);
  }

  const qnn::Library &library_;
  const Settings &settings_;
  std::size_t *const failed_;
  ForeignContexts out_;
  Vector<Binary> binaries_;
  using ReplacedMap = std::map<std::int32_t, Replaced, std::less<>, Alloc<std::pair<const std::int32_t, Replaced>>>;
  ReplacedMap replaced_;  // of the graph at hand
};

Status Reader::check_node(const qir::Node &node, Blob &blob) {
  const std::string_view wanted = settings_.text("soc_model");
  if (blob.soc == 0) {  // binaries before metadata of version 3 do not say
    if (wanted == "0" && settings_.text("htp_arch") == "0")
      return bad(node,
                 format("found a binary of %s that does not say for which SoC it is, expected option soc_model",
                        printable(blob.build_id)),
                 "set soc_model to the SoC that it was made for");
    QR_ASSIGN_OR_RETURN(const Target target, choose_target(wanted, settings_.text("htp_arch")));
    blob.soc = target.soc->number, blob.arch = target.soc->arch;
  }
  const Soc *const soc = find_soc(blob.soc);
  if (!soc || (blob.arch != 0 && soc->arch != blob.arch))
    return bad(node, format("found a binary for SoC %u, v%u, expected one of docs/htp.md's list", blob.soc, blob.arch),
               "compile the model it was made from for a SoC that has this processor");
  blob.arch = soc->arch;
  const BlobGrade grade =
      grade_blob(blob, grade_place(library_),
                 {wanted, settings_.text("htp.compatibility") == "strict", settings_.flag("skip_qnn_version_check")});
  if (grade.grade == QR_PLUGIN_GRADE_OPTIMAL) return {};
  if (grade.grade != QR_PLUGIN_GRADE_USABLE)
    return bad(node, grade.reason,
               "compile the model that it was made from again, or get libraries as new as its maker");
  if (out_.notice.empty()) out_.notice = grade.reason;
  return {};
}

Status Reader::collect(const qir::Graph &graph) {
  for (const qir::Node &node : graph.nodes) {
    if (!is_ep_context(node)) continue;
    at(node);
    if (settings_.text("htp.foreign_context") != "trust")
      return refuse_ep_context(node, "its binary has no hash, so nobody can know whether it is whole",
                               "compile the model that it was made from, or take it on your word by option "
                               "htp.foreign_context=trust: a damaged binary may crash the process or compute nonsense");
    if (!is_qnn(node.get_string("source", "")))
      return refuse_ep_context(node, "it is no context of QNN", "compile the model that it was made from");
    if (node.get_int("is_multi_soc_ep_context", 0) != 0)
      return refuse_ep_context(node, "it holds binaries for several SoCs", "export it for one SoC");
    const qir::Attribute *const cache = node.find("ep_cache_context");
    if (!cache || cache->tensors.empty()) continue;
    const qir::Bytes &data = cache->tensors[0].data;
    const std::span<const std::uint8_t> bytes{static_cast<const std::uint8_t *>(data.data), data.size};
    const bool known = std::any_of(binaries_.begin(), binaries_.end(), [&](const Binary &one) {
      return one.bytes.size() == bytes.size() && std::memcmp(one.bytes.data(), bytes.data(), bytes.size()) == 0;
    });
    if (known) continue;
    auto metadata = Metadata::read(library_, bytes);
    if (!metadata.ok())
      return bad(node, format("found %zu bytes that the library cannot read as a context: %s", bytes.size(),
                              String(metadata.status().message())));
    Binary &made = binaries_.emplace_back();
    made.bytes = bytes, made.metadata = std::move(*metadata);
    made.metadata->maker(made.blob);
    made.blob.binary_bytes = bytes.size(), made.blob.binary_hash = binary_hash(bytes);
    QR_RETURN_IF_ERROR(check_node(node, made.blob));
    if (made.blob.soc != binaries_[0].blob.soc)
      return bad(node, format("found a binary for SoC %u beside one for %u, expected one SoC", made.blob.soc,
                              binaries_[0].blob.soc));
    made.blob.origin = format("EPContext of %s, %s", printable(node.get_string("source", "")),
                              printable(node.get_string("ep_sdk_version", "SDK unknown")));
  }
  return {};
}

// Whose graph the node names: its own binary's, or where it has none (main_context 0) that of any other node.
Result<std::size_t> Reader::binary_of(const qir::Node &node) {
  const std::string_view name = node.get_string("partition_name", node.name);
  const qir::Attribute *const cache = node.find("ep_cache_context");
  String there;
  for (std::size_t i = 0; i < binaries_.size(); ++i) {
    if (cache && !cache->tensors.empty()) {
      const qir::Bytes &data = cache->tensors[0].data;
      if (data.size != binaries_[i].bytes.size() || std::memcmp(data.data, binaries_[i].bytes.data(), data.size) != 0)
        continue;
    }
    if (binaries_[i].metadata->find(name)) return i;
    for (const qnn::GraphInfo &graph : binaries_[i].metadata->graphs())
      there += (there.empty() ? "" : ", ") + printable(graph.name ? graph.name : "");
  }
  if (binaries_.empty())
    return bad(node, "found main_context 0 and no node with main_context 1, expected one that has the binary",
               "merge it with the model that has the binary, or let the node name it and set main_context to 1");
  return bad(node, format("found partition_name %s, expected one of the binary's graphs: %s", printable(name),
                          there.empty() ? "none" : there.c_str()));
}

// Finds what stands at the borders in front of and behind EPContext nodes; nothing else may.
Status Reader::replace(const qir::Graph &graph, BlobGraph &made) {
  replaced_.clear();
  const qir::Uses uses(graph);
  for (const qir::Node &node : graph.nodes) {
    if (is_ep_context(node)) continue;
    at(node);
    const auto refuse = [&](const char *expected) {
      return Status::error(ErrorId::backend_op,
                           format("operator %s beside EPContext nodes: expected %s", qir::op_text(node), expected),
                           kCut);
    };
    if (node.op != Op::QuantizeLinear && node.op != Op::DequantizeLinear && node.op != Op::Cast &&
        node.op != Op::Identity)
      return refuse("QuantizeLinear, DequantizeLinear and Cast at the model's inputs and outputs alone");
    const std::int32_t from = node.inputs[0], to = node.outputs[0];
    const bool enters = uses.is_input(from) && uses.used_once(from) && !uses.is_output(to),
               leaves = uses.is_output(to) && uses.used_once(from) && uses.users(to).empty();
    if (!enters && !leaves) return refuse("it between an input or output of the model and one such node");
    const std::int32_t inner = enters ? to : from, session = enters ? from : to;
    if (std::count(graph.outputs.begin(), graph.outputs.end(), session) > 1) return refuse("an output once");
    Replaced found{session, 0, 0};
    const DType wide = qir::at(graph, session).dtype, narrow = qir::at(graph, inner).dtype;
    if (node.op == Op::Identity) {
    } else if (node.op == Op::Cast) {
      if (!(wide == DType::I64 && narrow == DType::I32) && !(wide == DType::U64 && narrow == DType::U32) &&
          !((wide == DType::F64 || wide == DType::BF16) && narrow == DType::F32))
        return refuse(
            "Cast between 64 bits outside and 32 bits of the same integers inside, or of f64 or bf16 and f32");
    } else {
      const std::optional<qir::Quantization> quant = qir::read_quantization(graph, node);
      if ((node.op == Op::QuantizeLinear) != enters || wide != DType::F32 || !quant || !quant->per_tensor())
        return refuse("f32 outside, and one constant scale");
      found.scale = quant->scales[0], found.zero_point = quant->zero_points[0];
    }
    replaced_[inner] = found;
    if (node.source >= 0) made.nodes[index_of(node.source)].text = "on the host, at an input or output of the model";
  }
  return {};
}

Status Reader::match(const qir::Graph &graph, const qir::Node &node, std::int32_t id, const qnn::Tensor &device,
                     BlobTensor &out) const {
  const qir::Tensor &inner = qir::at(graph, id);
  const Replaced *const border = replaced(id);
  const qir::Tensor &session = qir::at(graph, border ? border->session : id);
  const String who = format("tensor %s", printable(inner.name));
  out.name = session.name, out.dtype = session.dtype, out.shape = session.shape;
  out.id = device.v1.id, out.device_dtype = device.v1.dtype, out.device_name = device.v1.name;
  if (element_bytes(device.v1.dtype) == 0 || device.v1.rank > qir::kMaxRank || (device.v1.rank > 0 && !device.v1.dims))
    return bad(node, who +
                         ": found a type or rank in the binary that is not taken, expected integers and floats of up "
                         "to 8 axes");
  out.device_dims.assign(device.v1.dims, device.v1.dims + device.v1.rank);
  qir::Shape there;
  for (const std::uint32_t extent : out.device_dims) there.push_back(extent);
  if (out.device_dims.empty()) out.device_dims.push_back(1);
  // More axes than operations have are fewer on the device (lower/fewer_axes.h).
  const bool is_joined = there.size() < inner.shape.size() && element_count(there.data(), there.size()) ==
                                                                  element_count(inner.shape.data(), inner.shape.size());
  if (there != inner.shape && !(inner.shape.empty() && there == qir::Shape{1}) && !is_joined)
    return bad(node,
               format("%s: found shape %s, the binary has %s", who, shape_text(inner.shape.data(), inner.shape.size()),
                      shape_text(there.data(), there.size())));
  const qnn::Quant &q = device.v1.q;
  const bool is_scaled = q.defined == qnn::Defined::Yes && q.enc == qnn::QuantEnc::ScaleOffset;
  if (is_scaled) out.device_scale = q.so.scale, out.device_zero_point = -q.so.offset;
  // The node's own type is the stored one; f32 in the model alone means that the host quantises.
  if (inner.dtype == DType::F32 && is_stored_border(device.v1.dtype)) {
    if (!is_scaled || !(q.so.scale > 0) || !std::isfinite(q.so.scale))
      return bad(node, who + ": found f32, the binary has integers without one scale");
    out.scale = q.so.scale, out.zero_point = -q.so.offset;
    return {};
  }
  const bool is_narrowed = (inner.dtype == DType::I64 && device.v1.dtype == qnn::DataType::I32) ||
                           (inner.dtype == DType::U64 && device.v1.dtype == qnn::DataType::U32);
  if (plain_type(device.v1.dtype) != inner.dtype && !is_narrowed)
    return bad(node,
               format("%s: found %s, the binary has %s", who, dtype_name(inner.dtype), type_name(device.v1.dtype)));
  if (!border || border->scale == 0) return {};
  out.scale = border->scale, out.zero_point = border->zero_point;
  const bool agrees = !is_scaled || (std::fabs(q.so.scale - border->scale) <= 1e-5f * border->scale &&
                                     -q.so.offset == border->zero_point);
  if (!agrees)
    return bad(node, format("%s: found scale %g and zero point %d, the binary has %g and %d", who,
                            static_cast<double>(border->scale), border->zero_point, static_cast<double>(q.so.scale),
                            -q.so.offset));
  return {};
}

Status Reader::describe(const qir::Graph &graph, const qir::Node &node, const qnn::GraphInfo &info, bool gives,
                        Vector<BlobTensor> &out) const {
  const auto &list = gives ? node.outputs : node.inputs;
  const char *const what = gives ? "output" : "input";
  const qnn::Tensor *const tensors = gives ? info.out : info.in;
  const std::uint32_t count = tensors ? (gives ? info.n_out : info.n_in) : 0;
  for (const std::int32_t id : list) {
    if (id == qir::kAbsent) return bad(node, format("found an %s that is left out, expected all of them", what));
    const qir::Tensor &tensor = qir::at(graph, id);
    const std::string_view wanted = device_name(node, tensor.name);
    const qnn::Tensor *const found = std::find_if(
        tensors, tensors + count, [&](const qnn::Tensor &one) { return one.v1.name && wanted == one.v1.name; });
    if (found == tensors + count)
      return bad(node, format("found %s %s, the binary's %ss are %s", what, printable(wanted), what,
                              names_of(tensors, count)));
    BlobTensor made;
    QR_RETURN_IF_ERROR(match(graph, node, id, *found, made));
    if (std::any_of(out.begin(), out.end(), [&](const BlobTensor &one) { return one.id == made.id; }))
      return bad(node, format("found %s %s twice", what, printable(tensor.name)));
    out.push_back(std::move(made));
  }
  if (out.size() != count)
    return bad(node, format("found %zu %ss, the binary has %u: %s", out.size(), what, count, names_of(tensors, count)));
  return {};
}

Status Reader::take(const qir::Graph &graph, BlobGraph &made) {
  QR_RETURN_IF_ERROR(replace(graph, made));
  std::map<std::int32_t, std::uint32_t, std::less<>, Alloc<std::pair<const std::int32_t, std::uint32_t>>> values;
  std::uint32_t count = 0;
  const auto border = [&](std::int32_t id, Vector<BlobTensor> &list) {
    const qir::Tensor &tensor = qir::at(graph, id);
    values[id] = count++;
    list.push_back({tensor.name, tensor.dtype, tensor.shape, BlobStorage::Staged, {}, 0, qnn::DataType::Undef, {}});
  };
  for (const std::int32_t id : graph.inputs) border(id, made.inputs);
  for (const std::int32_t id : graph.outputs) {
    const qir::Tensor &tensor = qir::at(graph, id);
    if (std::ranges::find(graph.inputs, id) != graph.inputs.end())
      return Status::error(ErrorId::backend_limit,
                           format("graph %s: found output %s, which is an input too, expected one that a node makes",
                                  printable(graph.name), printable(tensor.name)),
                           "read it from the input, and leave the output out");
    border(id, made.outputs);
    const qir::Tensor *const constant = constant_of(graph, id);
    if (!constant) continue;
    const auto *const bytes = static_cast<const std::uint8_t *>(constant->data.data);
    made.outputs.back().storage = BlobStorage::Constant;
    made.outputs.back().constant.assign(bytes, bytes + constant->data.size);
  }
  for (const qir::Node &node : graph.nodes) {
    if (!is_ep_context(node)) continue;
    at(node);
    QR_ASSIGN_OR_RETURN(const std::size_t index, binary_of(node));
    Binary &binary = binaries_[index];
    const qnn::GraphInfo &info = *binary.metadata->find(node.get_string("partition_name", node.name));
    BlobStage &stage = made.stages.emplace_back();
    stage.part = static_cast<std::uint32_t>(index);
    stage.graph = static_cast<std::uint32_t>(binary.blob.graphs.size());
    BlobGraph step;
    step.name = info.name;
    QR_RETURN_IF_ERROR(describe(graph, node, info, false, step.inputs));
    QR_RETURN_IF_ERROR(describe(graph, node, info, true, step.outputs));
    binary.metadata->figures(step.name, step);
    out_.spill_bytes = std::max(out_.spill_bytes, step.spill_bytes);
    for (const std::int32_t id : node.inputs) {
      const auto found = values.find(outer(id));
      if (found == values.end())
        return bad(node, "found an input that is a constant of the model, expected none", kCut);
      stage.inputs.push_back(found->second);
    }
    for (const std::int32_t id : node.outputs) {
      const auto [found, is_new] = values.emplace(outer(id), count);
      if (is_new) ++count;
      stage.outputs.push_back(found->second);
    }
    BlobNode &told = made.nodes[index_of(std::max(node.source, 0))];
    told.path = QR_PLUGIN_PATH_NATIVE;
    told.text = "graph " + printable(info.name) + " of a context of others";
    step.nodes.push_back({QR_PLUGIN_PATH_NATIVE, "a graph of others", node.name});
    binary.blob.graphs.push_back(std::move(step));
  }
  return {};
}

// Nothing else would be written into it.
Status every_output_is_made(const BlobGraph &graph) {
  for (const BlobTensor &tensor : graph.outputs)
    if (tensor.storage == BlobStorage::Unused || (tensor.storage == BlobStorage::Constant && !graph.on_device))
      return Status::error(ErrorId::backend_limit,
                           format("graph %s: found output %s, which no EPContext node makes, expected one for each",
                                  printable(graph.name), printable(tensor.name)),
                           "leave the output out");
  return {};
}

// The device's tensors in the place of the session's values; what no value names is unused.
void settle(Vector<BlobTensor> &session, Vector<BlobTensor> &device, const Vector<std::uint32_t> &values,
            std::size_t first) {
  for (BlobTensor &tensor : session)
    if (tensor.storage != BlobStorage::Constant) tensor.storage = BlobStorage::Unused;
  for (std::size_t i = 0; i < values.size(); ++i) session[values[i] - first] = std::move(device[i]);
}

// The session's graph is the binary's, whose only node it is.
Status take_over(BlobGraph &graph, BlobGraph &step) {
  const BlobStage stage = std::move(graph.stages[0]);
  settle(graph.inputs, step.inputs, stage.inputs, 0);
  // An output of the node that the model does not give out has a value behind them.
  for (const std::uint32_t value : stage.outputs)
    if (value >= graph.inputs.size() + graph.outputs.size())
      return Status::error(ErrorId::backend_limit,
                           format("graph %s: found an output of the context that is none of the model, expected all of "
                                  "them",
                                  printable(graph.name)),
                           "give the model every output of its EPContext node");
  settle(graph.outputs, step.outputs, stage.outputs, graph.inputs.size());
  QR_RETURN_IF_ERROR(every_output_is_made(graph));
  graph.name = step.name, graph.stages.clear();
  graph.spill_bytes = step.spill_bytes, graph.vtcm_bytes = step.vtcm_bytes, graph.hvx_threads = step.hvx_threads;
  graph.optimization = step.optimization;
  return {};
}

Result<ForeignContexts> Reader::finish() {
  Blob &blob = out_.blob;
  for (const BlobGraph &graph : blob.graphs)
    if (graph.stages.empty())
      return Status::error(ErrorId::backend_limit,
                           "found a graph without EPContext beside one with it, expected it in all");
  for (const Binary &binary : binaries_) out_.binaries.push_back(binary.bytes);
  blob.soc = binaries_[0].blob.soc, blob.arch = binaries_[0].blob.arch, blob.version = binaries_[0].blob.version;
  blob.build_id = binaries_[0].blob.build_id, blob.origin = binaries_[0].blob.origin;
  // One node in each graph, all of one binary: the binary's graphs are the session's.
  const bool direct = binaries_.size() == 1 && std::all_of(blob.graphs.begin(), blob.graphs.end(),
                                                           [](const BlobGraph &g) { return g.stages.size() == 1; });
  if (direct) {
    blob.binary_bytes = binaries_[0].blob.binary_bytes, blob.binary_hash = binaries_[0].blob.binary_hash;
    for (BlobGraph &graph : blob.graphs)
      QR_RETURN_IF_ERROR(take_over(graph, binaries_[0].blob.graphs[graph.stages[0].graph]));
  } else {
    blob.binary_hash = binary_hash({});
    for (BlobGraph &graph : blob.graphs) {
      graph.on_device = false;
      QR_RETURN_IF_ERROR(every_output_is_made(graph));
    }
    for (Binary &binary : binaries_) blob.parts.push_back(std::move(binary.blob));
  }
  // What is written must be what a container is read by.
  QR_RETURN_IF_ERROR(read_blob(write_blob(blob)).take_status());
  return std::move(out_);
}

}  // namespace

bool has_foreign_context(const qir::Graph &graph) noexcept {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), is_ep_context);
}

Result<ForeignContexts> take_foreign_contexts(const qnn::Library &library, Vector<qir::Graph> &graphs,
                                              const Settings &settings, std::size_t *failed) {
  return Reader(library, settings, failed).run(graphs);
}

}  // namespace quarry::htp
