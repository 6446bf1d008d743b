// SPDX-License-Identifier: Apache-2.0
// The checked calls of the compiler table, and of the context table as far as they work on blobs.
#include <cstring>

#include "loader/checks.h"
#include "loader/plugin.h"
#include "loader/plugin_files.h"

namespace quarry::loader {

Block Block::copy(const void *data, std::uint64_t size, std::uint64_t align) {
  Block block;
  block.data_ = allocate_block(size ? size : 1, align);
  block.size_ = size;
  if (size) std::memcpy(block.data_, data, size);
  return block;
}

bool Plugin::has_compiler() const noexcept { return table_->compiler != nullptr; }
bool Plugin::compiles_groups() const noexcept { return QR_HAS_SLOT(table_->compiler, compile_group) != nullptr; }

namespace {

Status no_compiler(std::string_view id) {
  return Status::errorf(ErrorId::backend_cannot_compile,
                        "backend %.*s: found no compiler, expected one: it runs what was compiled elsewhere", id);
}

// Shared by the two sinks below: what the plugin did wrong inside a callback, kept until the slot has returned.
class SinkState {
 public:
  explicit SinkState(HostEnvironment &environment) noexcept : environment_(environment) {}

  // Runs the body of a callback. False: refused, for want of memory or because `body` called fault().
  template <class Body>
  bool call(Body &&body) noexcept {
    AllocatorScope scope(environment_.allocator());
    const std::lock_guard lock(mutex_);
    if (out_of_memory_ || !fault_.empty()) return false;
    try {
      body();
    } catch (const std::bad_alloc &) {
      out_of_memory_ = true;
    }
    return !out_of_memory_ && fault_.empty();
  }
  template <class Body>
  qr_plugin_code code(Body &&body) noexcept {
    if (call(body)) return QR_OK;
    return out_of_memory_ ? QR_RESOURCE_EXHAUSTED : QR_INVALID_ARGUMENT;
  }
  void fault(std::string_view what) { fault_ = what; }

  // Comes before the slot's own word: a plugin that passes our refusal on is not the one that failed.
  Status finish(Plugin &plugin, const char *slot) noexcept {
    if (out_of_memory_) return Status::out_of_memory();
    if (!fault_.empty()) return plugin.misbehaved(slot, fault_);
    return {};
  }

 private:
  HostEnvironment &environment_;
  std::mutex mutex_;
  bool out_of_memory_ = false;
  String fault_;
};

struct VerdictCollector {
  SinkState state;
  Vector<Verdict> &verdicts;
  Vector<std::uint8_t> given;

  static void take(void *self, const qr_plugin_verdict *from) {
    VerdictCollector &to = *static_cast<VerdictCollector *>(self);
    to.state.call([&] {
      const auto told = taken(from, QR_PLUGIN_VERDICT_FIRST_SIZE);
      if (!told)
        return to.state.fault(format("gave a verdict with struct_size %u, expected at least %u",
                                     from ? from->struct_size : 0, QR_PLUGIN_VERDICT_FIRST_SIZE));
      const std::uint32_t node = told->node;
      const auto id = checked_text(told->id), reason = checked_text(told->reason), hint = checked_text(told->hint),
                 kernel = checked_text(told->kernel);
      if (node >= to.verdicts.size())
        return to.state.fault(format("gave a verdict on node %u of %zu", node, to.verdicts.size()));
      if (to.given[node]) return to.state.fault(format("gave two verdicts on node %u", node));
      if (!id || !reason || !hint || !kernel)
        return to.state.fault(format("gave a verdict on node %u with a text without data or over 64 KiB", node));
      if (!told->supported && reason->empty())
        return to.state.fault(format("refused node %u and gave no reason", node));
      to.given[node] = 1;
      Verdict &verdict = to.verdicts[node];
      verdict.supported = told->supported != 0;
      if (verdict.supported) {
        verdict.path = told->path <= QR_PLUGIN_PATH_NONE ? told->path : QR_PLUGIN_PATH_UNKNOWN;  // of a later minor
        verdict.kernel = printable(*kernel, 256);
        return;
      }
      verdict.id = id->empty() ? String(error_row(ErrorId::backend_op).id) : printable(*id, 64);
      verdict.reason = printable(*reason, 4096);
      verdict.hint = printable(*hint, 4096);
    });
  }
};

struct BlobCollector {
  SinkState state;
  CompiledBlob &out;
  const qr_compile_request &request;
  bool has_blob = false, has_compatibility = false;

  static BlobCollector &of(void *self) noexcept { return *static_cast<BlobCollector *>(self); }

  static qr_plugin_code keep_segment(void *self, std::uint64_t graph, std::uint64_t segment,
                                     std::uint32_t *out_segment) {
    BlobCollector &to = of(self);
    return to.state.code([&] {
      if (graph >= to.request.graph_count)
        return to.state.fault(format("kept a segment of graph %llu of %llu", graph, to.request.graph_count));
      const std::uint64_t count = to.request.graphs[graph]->segment_count;
      if (segment >= count) return to.state.fault(format("kept segment %llu of %llu", segment, count));
      CompiledSegment kept;
      kept.kept = true;
      kept.request_graph = graph;
      kept.request_segment = segment;
      to.append(std::move(kept), out_segment);
    });
  }
  static qr_plugin_code add_segment(void *self, const void *data, std::uint64_t size, std::uint64_t align,
                                    std::uint32_t *out_segment) {
    BlobCollector &to = of(self);
    return to.state.code([&] {
      if (!data && size) return to.state.fault(format("added a segment of %llu bytes without data", size));
      if (align == 0 || (align & (align - 1)) || align > 16384)
        return to.state.fault(format("added a segment aligned to %llu, expected a power of two up to 16384", align));
      CompiledSegment added;
      added.align = align;
      added.bytes = Block::copy(data, size, align < 64 ? 64 : align);
      to.append(std::move(added), out_segment);
    });
  }
  static qr_plugin_code blob(void *self, const void *data, std::uint64_t size) {
    BlobCollector &to = of(self);
    return to.state.code([&] {
      if (to.has_blob) return to.state.fault("gave two blobs");
      if (!data || !size) return to.state.fault("gave an empty blob");
      to.out.blob = Block::copy(data, size, 64);
      to.has_blob = true;
    });
  }
  static qr_plugin_code compatibility(void *self, qr_plugin_string target, qr_plugin_string key) {
    BlobCollector &to = of(self);
    return to.state.code([&] {
      const auto target_text = checked_text(target), key_text = checked_text(key);
      if (!target_text || !key_text || target_text->empty()) return to.state.fault("gave an empty target");
      to.out.target = *target_text;
      to.out.key = *key_text;
      to.has_compatibility = true;
    });
  }
  static qr_plugin_code plan(void *self, const qr_plugin_plan *plan) {
    BlobCollector &to = of(self);
    return to.state.code([&] {
      const auto told = taken(plan, QR_PLUGIN_PLAN_FIRST_SIZE);
      if (!told)
        return to.state.fault(format("gave a plan with struct_size %u, expected at least %u",
                                     plan ? plan->struct_size : 0, QR_PLUGIN_PLAN_FIRST_SIZE));
      to.out.plan = *told;
      to.out.has_plan = true;
    });
  }

 private:
  void append(CompiledSegment segment, std::uint32_t *out_segment) {
    if (out.segments.size() >= UINT32_MAX) return state.fault("gave too many segments");
    if (out_segment) *out_segment = static_cast<std::uint32_t>(out.segments.size());
    out.segments.push_back(std::move(segment));
  }
};

}  // namespace

Status Plugin::check(const qr_compile_request &request, std::uint32_t node_count, Vector<Verdict> &out) {
  if (!has_compiler()) return no_compiler(id_);
  out.clear();
  out.resize(node_count);
  VerdictCollector collector{SinkState(environment_), out, Vector<std::uint8_t>(node_count)};
  const qr_verdict_sink sink{sizeof sink, 0, &collector, VerdictCollector::take};
  ErrorCollector errors(*this);
  const qr_plugin_code code = table_->compiler->check(backend_, &request, &sink, errors.sink());
  QR_RETURN_IF_ERROR(collector.state.finish(*this, "compiler.check"));
  QR_RETURN_IF_ERROR(errors.finish("compiler.check", code));
  for (std::uint32_t node = 0; node < node_count; ++node) {
    if (collector.given[node]) continue;
    Status missing = misbehaved("compiler.check", format("returned 0 and gave no verdict on node %u", node));
    out[node] = {false, QR_PLUGIN_PATH_UNKNOWN, String(missing.id()), String(missing.message()), String(missing.hint()),
                 {}};
  }
  return {};
}

Result<CompiledBlob> Plugin::compile(const qr_compile_request &request) {
  if (!has_compiler()) return no_compiler(id_);
  const bool several = request.graph_count > 1;
  const char *const slot = several ? "compiler.compile_group" : "compiler.compile";
  if (several && !compiles_groups()) return no_slot(ErrorId::backend_cannot_compile, "compile several graphs into one");
  CompiledBlob compiled;
  BlobCollector collector{SinkState(environment_), compiled, request};
  const qr_blob_sink sink{sizeof sink,
                          0,
                          &collector,
                          BlobCollector::keep_segment,
                          BlobCollector::add_segment,
                          BlobCollector::blob,
                          BlobCollector::compatibility,
                          BlobCollector::plan};
  ErrorCollector errors(*this);
  const auto compile = several ? table_->compiler->compile_group : table_->compiler->compile;
  const qr_plugin_code code = compile(backend_, &request, &sink, errors.sink());
  QR_RETURN_IF_ERROR(collector.state.finish(*this, slot));
  QR_RETURN_IF_ERROR(errors.finish(slot, code));
  if (!collector.has_blob) return misbehaved(slot, "returned 0 and gave no blob");
  if (!collector.has_compatibility) return misbehaved(slot, "returned 0 and gave no target");
  return compiled;
}

std::int32_t Plugin::supports(std::string_view domain, std::string_view name, std::uint32_t version, String *out_types,
                              String *out_note) {
  if (!has_compiler() || !QR_HAS_SLOT(table_->compiler, supports)) return -1;
  qr_plugin_string types{}, note{};
  const std::int32_t supported =
      table_->compiler->supports(backend_, plugin_text(domain), plugin_text(name), version, &types, &note);
  const auto types_text = checked_text(types), note_text = checked_text(note);
  if (out_types) *out_types = types_text ? printable(*types_text, 1024) : String();
  if (out_note) *out_note = note_text ? printable(*note_text, 1024) : String();
  return supported < 0 ? -1 : supported != 0;
}

// ---- blobs --------------------------------------------------------------------------------------

Result<Grade> Plugin::grade(const qr_load_request &request) {
  std::int32_t grade = 0;
  ErrorCollector reason(*this);
  QR_RETURN_IF_ERROR(reason.finish("context.grade", table_->context->grade(backend_, &request, &grade, reason.sink())));
  if (grade < QR_PLUGIN_GRADE_OPTIMAL || grade > QR_PLUGIN_GRADE_INCOMPATIBLE)
    return misbehaved("context.grade", format("returned 0 and grade %d, expected 1 to 4", grade));
  if (grade != QR_PLUGIN_GRADE_OPTIMAL && reason.message().empty())
    return misbehaved("context.grade", format("returned grade %d and gave no reason", grade));
  return Grade{grade, String(reason.message())};
}

Status Plugin::plan(const qr_load_request &request, qr_plugin_plan *out_plan, bool *out_known) {
  *out_known = false;
  if (!QR_HAS_SLOT(table_->context, plan)) return {};
  qr_plugin_plan plan{};
  plan.struct_size = sizeof plan;
  ErrorCollector errors(*this);
  QR_RETURN_IF_ERROR(errors.finish("context.plan", table_->context->plan(backend_, &request, &plan, errors.sink())));
  *out_plan = plan;
  *out_known = true;
  return {};
}

namespace {

struct BytesCollector {
  static constexpr std::uint64_t kMost = std::uint64_t{1} << 40;
  SinkState state;
  Vector<std::uint8_t> bytes;

  explicit BytesCollector(HostEnvironment &environment) : state(environment) {}
  qr_bytes_sink sink() noexcept { return {sizeof(qr_bytes_sink), 0, this, write}; }
  static qr_plugin_code write(void *self, const void *data, std::uint64_t size) {
    BytesCollector &to = *static_cast<BytesCollector *>(self);
    return to.state.code([&] {
      if ((!data && size > 0) || size > kMost - to.bytes.size())
        return to.state.fault(format("wrote %llu bytes, without data or too many", size));
      const auto *const from = static_cast<const std::uint8_t *>(data);
      if (size > 0) to.bytes.insert(to.bytes.end(), from, from + size);
    });
  }
};

}  // namespace

Result<String> Plugin::describe(const qr_load_request &request) {
  if (!QR_HAS_SLOT(table_->context, describe)) return String();
  BytesCollector collector(environment_);
  const qr_bytes_sink sink = collector.sink();
  ErrorCollector errors(*this);
  const qr_plugin_code code = table_->context->describe(backend_, &request, &sink, errors.sink());
  QR_RETURN_IF_ERROR(collector.state.finish(*this, "context.describe"));
  QR_RETURN_IF_ERROR(errors.finish("context.describe", code));
  return String(collector.bytes.begin(), collector.bytes.end());
}

Status Plugin::export_onnx(const qr_load_request &request, std::string_view name, bool is_embedded, FileSink &files) {
  if (!QR_HAS_SLOT(table_->context, export_onnx))
    return no_slot(ErrorId::backend_cannot_compile, "write contexts as ONNX models");
  PluginFiles taken(files);
  ErrorCollector errors(*this);
  const qr_plugin_code code =
      table_->context->export_onnx(backend_, &request, plugin_text(name), is_embedded, taken.sink(), errors.sink());
  Status said = errors.finish("context.export_onnx", code), ours = taken.finish(said.ok());
  if (ours.ok()) return said;
  // What it reported of its files was wrong, or they cannot be written.
  return ours.code() == QR_INTERNAL ? misbehaved("context.export_onnx", ours.message()) : std::move(ours);
}

Result<Plugin::ImportedBinary> Plugin::import_binary(const qr_plugin_bytes &binary, std::string_view binary_name,
                                                     const Vector<qr_plugin_option> &options) {
  if (!QR_HAS_SLOT(table_->context, import_binary)) return ImportedBinary();
  constexpr const char *kSlot = "context.import_binary";
  BytesCollector model(environment_), about(environment_);
  const qr_bytes_sink to_model = model.sink(), to_about = about.sink();
  ErrorCollector errors(*this);
  const qr_plugin_code code = table_->context->import_binary(backend_, binary, plugin_text(binary_name), options.data(),
                                                             options.size(), &to_model, &to_about, errors.sink());
  QR_RETURN_IF_ERROR(model.state.finish(*this, kSlot));
  QR_RETURN_IF_ERROR(about.state.finish(*this, kSlot));
  QR_RETURN_IF_ERROR(errors.finish(kSlot, code));
  return ImportedBinary{std::move(model.bytes), std::move(about.bytes)};
}

Result<std::shared_ptr<Context>> Plugin::load(const qr_load_request &request) {
  qr_context *handle = nullptr;
  ErrorCollector errors(*this);
  QR_RETURN_IF_ERROR(errors.finish("context.load", table_->context->load(backend_, &request, &handle, errors.sink())));
  if (!handle) return misbehaved("context.load", "returned 0 and left its context NULL");
  std::shared_ptr<Context> context;
  try {
    context = quarry::make_shared<Context>(shared_from_this(), handle);
  } catch (...) {
    table_->context->destroy(handle);
    throw;
  }
  QR_RETURN_IF_ERROR(context->read_tensors(request.blob->graph_count));
  return context;
}

Status Context::nodes(std::uint32_t graph, std::uint32_t node_count, Vector<Verdict> &out) {
  out.clear();
  const qr_plugin_context_api *const api = plugin_->table_->context;
  if (!QR_HAS_SLOT(api, nodes)) return {};
  out.resize(node_count);
  VerdictCollector collector{SinkState(plugin_->environment_), out, Vector<std::uint8_t>(node_count)};
  const qr_verdict_sink sink{sizeof sink, 0, &collector, VerdictCollector::take};
  ErrorCollector errors(*plugin_);
  const qr_plugin_code code = api->nodes(handle_, graph, &sink, errors.sink());
  QR_RETURN_IF_ERROR(collector.state.finish(*plugin_, "context.nodes"));
  return errors.finish("context.nodes", code);
}

}  // namespace quarry::loader
