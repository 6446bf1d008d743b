// SPDX-License-Identifier: Apache-2.0
#include "tests/plugins/scripted/compiler.h"

#include <unistd.h>

#include <csignal>
#include <cstring>

#include "base/checked.h"
#include "base/dtype.h"
#include "tests/plugins/scripted/objects.h"

namespace quarry::scripted {

using plugin::guard;
using plugin::text;
using plugin::view;

bool is_tabled(const qir::CustomOp &op) {
  return op.domain == "test.scripted" && op.type == "Tabled" && op.version == 1;
}

// Why a custom operator is refused; empty: it is in the package.
String custom_refusal(const qir::Graph &graph, const qir::Node &node) {
  if (!is_tabled(*node.custom))
    return format("custom operator %s version %lld: the package has test.scripted::Tabled version 1",
                  qir::op_text(node).c_str(), static_cast<long long>(node.custom->version));
  const qir::Attribute *table = node.find("table");
  if (!table || table->kind != qir::Attribute::Kind::Tensor || table->tensors[0].dtype != DType::F32 ||
      table->tensors[0].shape.size() != 1 || table->tensors[0].shape[0] == 0)
    return "found test.scripted::Tabled without a table, expected one: f32[n]";
  if (node.inputs.size() != 1 || node.outputs.size() != 1 || node.inputs[0] == qir::kAbsent ||
      node.outputs[0] == qir::kAbsent)
    return "found test.scripted::Tabled of other operands, expected one input and one output";
  const qir::Tensor &x = graph.tensors[static_cast<std::size_t>(node.inputs[0])],
                    &y = graph.tensors[static_cast<std::size_t>(node.outputs[0])];
  return y.dtype == DType::F32 && !y.quant && x.shape == y.shape
             ? String()
             : String("found test.scripted::Tabled with results of another type, expected that of its input");
}

// Why a node is refused; empty: it is not.
String refusal(const qir::Graph &graph, const qir::Node &node) {
  const auto &tensor = [&](std::int32_t index) -> const qir::Tensor & {
    return graph.tensors[static_cast<std::size_t>(index)];
  };
  if (node.op == qir::Op::Custom) {
    if (String reason = custom_refusal(graph, node); !reason.empty()) return reason;
  } else if (node.op != qir::Op::Identity && node.op != qir::Op::Relu && node.op != qir::Op::Add &&
             node.op != qir::Op::NonZero)
    return format("found %s, expected Identity, Relu, Add or NonZero", qir::op_name(node.op));
  for (const std::int32_t index : node.inputs) {
    if (index == qir::kAbsent) return "found an input that is absent, expected all";
    if (tensor(index).dtype != DType::F32 || tensor(index).quant)
      return format("found %s %s, expected plain f32", tensor(index).name.c_str(), dtype_name(tensor(index).dtype));
    for (const std::int64_t extent : tensor(index).shape)
      if (extent < 0) return format("found %s of unknown shape, expected a known one", tensor(index).name.c_str());
    if (node.op == qir::Op::Add && tensor(index).shape != tensor(node.outputs[0]).shape)
      return "found Add that broadcasts, expected equal shapes";
  }
  return {};
}

const char *kernel_of(const qir::Node &node) noexcept {
  return node.op == qir::Op::Custom ? "scripted_package" : "scripted_elementwise";
}

qr_plugin_code compiler_check(qr_backend *backend, const qr_compile_request *request, const qr_verdict_sink *verdicts,
                              const qr_error_sink *errors) {
  return guard(backend->allocator, errors, [&]() -> Status {
    QR_ASSIGN_OR_RETURN(const Script script, script_of(request->options, request->option_count));
    QR_RETURN_IF_ERROR(take_time(script.slow_check, request->signal, backend->allocator.host(), "check"));
    QR_ASSIGN_OR_RETURN(const qir::Graph graph, plugin::read_request(*request));
    for (std::uint32_t i = 0; i < graph.nodes.size(); ++i) {
      const String reason = refusal(graph, graph.nodes[i]);
      plugin::report_verdict(
          *verdicts, i,
          reason.empty() ? Status() : Status::error(ErrorId::backend_op, reason, "choose another backend"),
          QR_PLUGIN_PATH_NATIVE, kernel_of(graph.nodes[i]));
    }
    return {};
  });
}

qr_plugin_plan plan_of(const qir::Graph &graph) {
  qr_plugin_plan plan{sizeof(qr_plugin_plan), 0, 0, 0, 0, 1000, 2000, 300};
  for (const qir::Tensor &tensor : graph.tensors)
    (tensor.is_constant ? plan.weights_bytes : plan.arena_bytes) += tensor.is_constant ? tensor.data.size : 64;
  for (const auto *side : {&graph.inputs, &graph.outputs})
    for (const std::int32_t index : *side)
      if (const qir::Tensor &tensor = graph.tensors[static_cast<std::size_t>(index)]; tensor.dtype == DType::F32)
        plan.io_bytes += 4 * elements(tensor);
  return plan;
}

// What stands at the beginning of a blob: how many graphs follow, and of each how long it is and how many segments it
// has. The graphs' QIR follows, each at a multiple of 64; after their segments comes one that is added, to show that it
// can be.
struct BlobHeader {
  char magic[8];
  std::uint64_t count;
};
struct BlobGraph {
  std::uint64_t offset, size, segments;
};
constexpr char kBlobMagic[8] = {'s', 'c', 'r', 'i', 'p', 't', '0', '4'};

qr_plugin_code compiler_compile(qr_backend *backend, const qr_compile_request *request, const qr_blob_sink *result,
                                const qr_error_sink *errors) {
  return guard(backend->allocator, errors, [&]() -> Status {
    QR_ASSIGN_OR_RETURN(const Script script, script_of(request->options, request->option_count));
    const qr_compile_request known = plugin::incoming(*request);
    // In four parts, so that there is progress to report.
    for (std::uint64_t part = 0; part < 4; ++part) {
      if (known.progress) known.progress->report(known.progress->self, part, 4, text("pretends"));
      QR_RETURN_IF_ERROR(
          take_time((script.slow_compile + 3) / 4, request->signal, backend->allocator.host(), "compile"));
    }
    if (script.orphan_compile && fork() == 0) {
      usleep(static_cast<useconds_t>(1000 * script.orphan_compile));
      _exit(0);
    }
    if (script.stuck_compile) usleep(static_cast<useconds_t>(1000 * script.stuck_compile));
    if (script.die_compile) raise(static_cast<int>(script.die_compile));
    report_count(known.profile, 1, "graphs compiled", "compile", request->graph_count);
    if (script.fail_compile == 2) return Status::error(ErrorId::backend_op, "option script: fail_compile=2, as asked");
    if (script.fail_compile) return Status::error(ErrorId::internal, "option script: fail_compile is set, as asked");
    const auto told = [](qr_plugin_code code) {
      return code == QR_OK ? Status()
             : code == QR_RESOURCE_EXHAUSTED
                 ? Status::out_of_memory()
                 : Status::error(ErrorId::internal, "the host refused a part of the result");
    };
    BlobHeader header{{}, request->graph_count};
    std::memcpy(header.magic, kBlobMagic, sizeof kBlobMagic);
    Vector<char> blob(sizeof header + request->graph_count * sizeof(BlobGraph));
    std::memcpy(blob.data(), &header, sizeof header);
    std::uint32_t segment;
    qr_plugin_plan plan{};
    for (std::uint64_t g = 0; g < request->graph_count; ++g) {
      const qr_plugin_graph &given = *request->graphs[g];
      QR_ASSIGN_OR_RETURN(const qir::Graph graph, plugin::read_graph(given));
      plan = plan_of(graph);
      for (std::uint64_t i = 0; i < given.segment_count; ++i)
        QR_RETURN_IF_ERROR(told(result->keep_segment(result->self, g, i, &segment)));
      blob.resize((blob.size() + 63) / 64 * 64);
      const BlobGraph row{blob.size(), given.qir.size, given.segment_count};
      std::memcpy(blob.data() + sizeof header + g * sizeof row, &row, sizeof row);
      const char *bytes = static_cast<const char *>(given.qir.data);
      blob.insert(blob.end(), bytes, bytes + given.qir.size);
    }
    constexpr char kPacked[] = "packed by the scripted backend";
    QR_RETURN_IF_ERROR(told(result->add_segment(result->self, kPacked, sizeof kPacked, 4096, &segment)));
    QR_RETURN_IF_ERROR(told(result->blob(result->self, blob.data(), blob.size())));
    const String key = format("grade=%llu", static_cast<unsigned long long>(script.grade));
    QR_RETURN_IF_ERROR(told(result->compatibility(result->self, text("scripted-v1"), text(key))));
    return told(result->plan(result->self, &plan));
  });
}

std::int32_t compiler_supports(qr_backend *, qr_plugin_string domain, qr_plugin_string name, std::uint32_t version,
                               qr_plugin_string *out_types, qr_plugin_string *out_note) {
  const std::string_view which = view(name);
  const bool supported = (view(domain).empty() && version >= 7 &&
                          (which == "Identity" || which == "Relu" || which == "Add" || which == "NonZero")) ||
                         (view(domain) == "quarry" && which == "Custom");
  *out_types = text(supported ? "f32" : "");
  *out_note = text(which == "Add" ? "equal shapes only" : which == "Custom" ? "test.scripted::Tabled version 1" : "");
  return which == "Xor" ? -1 : supported;  // of a release that did not have that one
}

const qr_plugin_compiler_api kCompiler = {
    sizeof(qr_plugin_compiler_api), 0, compiler_check, compiler_compile, compiler_supports, compiler_compile};

Result<Vector<qir::Graph>> read_blob(const qr_blob &blob) {
  const auto bad = [](const char *what) { return Status::error(ErrorId::backend_bad_blob, what); };
  const char *const bytes = static_cast<const char *>(blob.bytes.data);
  BlobHeader header;
  if (blob.bytes.size < sizeof header) return bad("blob: found no header, expected one");
  std::memcpy(&header, bytes, sizeof header);
  if (std::memcmp(header.magic, kBlobMagic, sizeof kBlobMagic) != 0 || header.count != blob.graph_count ||
      header.count > (blob.bytes.size - sizeof header) / sizeof(BlobGraph))
    return bad("blob: found another beginning or count of graphs, expected those that compile writes");
  Vector<qir::Graph> graphs;
  std::uint64_t first = 0;
  for (std::uint64_t g = 0; g < header.count; ++g) {
    BlobGraph row;
    std::memcpy(&row, bytes + sizeof header + g * sizeof row, sizeof row);
    if (!range_fits(row.offset, row.size, blob.bytes.size) || row.offset % 8 ||
        !range_fits(first, row.segments, blob.segment_count))
      return bad("blob: found a graph or segment outside, expected them inside");
    Vector<qir::Bytes> segments;
    for (std::uint64_t i = first; i < first + row.segments; ++i)
      segments.push_back({blob.segments[i].data, blob.segments[i].size});
    first += row.segments;
    QR_ASSIGN_OR_RETURN(qir::Graph graph,
                        qir::read_graph({bytes + row.offset, row.size}, segments.data(), segments.size()));
    graphs.push_back(std::move(graph));
  }
  if (first + 1 != blob.segment_count) return bad("blob: found other segments, expected the packed one last");
  return graphs;
}

}  // namespace quarry::scripted
