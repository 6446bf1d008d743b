// SPDX-License-Identifier: Apache-2.0
// The edge of libquarry-prepare: prepare_api.h in terms of lower.h. No exception and no C++ type gets out.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <optional>

#include "backends/common/plugin_support.h"
#include "base/os/file.h"
#include "base/os_error.h"
#include "graph/edit/graph_part.h"
#include "graph/io/write.h"
#include "prepare/adapter.h"
#include "prepare/export.h"
#include "prepare/low_rank.h"
#include "prepare/state_type.h"
#include "prepare/lower.h"
#include "prepare/prepare_api.h"
#include "prepare/shapes.h"

using namespace quarry;
using plugin::text;
using plugin::view;

struct qr_prepared_model {
  explicit qr_prepared_model(const qr_host *host) : allocator(host) {}
  plugin::HostAllocator allocator;
  // Says once that dimensions are left to the runs.
  void tell_open(const qir::Graph &graph) {
    if (graph.dimensions.empty() || std::exchange(told, true)) return;
    String names;
    for (const qir::Dimension &dimension : graph.dimensions)
      names += format("%s%s", names.empty() ? "" : ", ", printable(dimension.name));
    plugin::log(allocator.host(), QR_LOG_INFO, "compile",
                format("dimensions %s are bound by none: each run may give others; the option shape bounds them, as in "
                       "%s=1..512, and a number is compiled for that alone",
                       names, printable(graph.dimensions[0].name)));
  }
  Unique<onnx_import::Model> model;
  String json;
  bool told = false;
};

struct qr_lowered {
  explicit qr_lowered(const qr_host *host) : allocator(host) {}
  ~qr_lowered() { free_block(pool); }
  struct Entry {
    String name;
    Vector<std::uint8_t> qir;
  };
  plugin::HostAllocator allocator;
  Vector<Entry> graphs;
  void *pool = nullptr;
  std::uint64_t pool_size = 0;
};

namespace {

template <class T>
void destroy(T *object) {
  plugin::destroy_object(object);
}

template <class T>
struct Destroyer {
  void operator()(T *object) const { destroy(object); }
};
template <class T>
using Owned = std::unique_ptr<T, Destroyer<T>>;

// The host's.
class HostExternal final : public onnx_import::ExternalSource {
 public:
  explicit HostExternal(const qr_prepare_external &host) : host_(host) {}
  Result<std::optional<qir::Bytes>> find(std::string_view location) override {
    qr_plugin_bytes bytes = {};
    int32_t is_there = 0;
    // Out of memory is reported at once, whatever else is wrong with the model.
    if (host_.find(host_.self, text(location), &bytes, &is_there) != 0)
      return Status::error(ErrorId::out_of_memory, "the host has no such file of external data");
    if (!is_there) return std::optional<qir::Bytes>();
    return std::optional<qir::Bytes>(qir::Bytes{bytes.data, bytes.size});
  }

 private:
  const qr_prepare_external &host_;
};

qr_plugin_code open_model(const qr_host *host, qr_plugin_bytes data, int32_t folder, int32_t read_external,
                          const qr_prepare_external *external, const qr_plugin_signal *signal,
                          qr_prepared_model **out_model, const qr_error_sink *errors) {
  plugin::HostAllocator allocator(host);
  Owned<qr_prepared_model> model;
  const qr_plugin_code made = plugin::guard(allocator, errors, [&]() -> Status {
    model.reset(plugin::create_object<qr_prepared_model>(host));
    return {};
  });
  if (made != 0) return made;
  // From here on blocks are the model's, a failure's text too: the model ends after that has been reported.
  return plugin::guard(model->allocator, errors, [&]() -> Status {
    const plugin::StopToken stop(signal, model->allocator.host());
    const StopScope scope(stop);
    const auto use = read_external ? onnx_import::ExternalUse::Read : onnx_import::ExternalUse::Map;
    OpenFd own = folder < 0 ? OpenFd() : os::duplicate(folder);
    if (folder >= 0 && own.get() < 0)
      return Status::error(os_error_id(errno, ErrorId::io_error),
                           format("the model's folder: %s", os_error_text(errno)));
    std::optional<HostExternal> source;
    if (external) source.emplace(*external);
    QR_ASSIGN_OR_RETURN(model->model, onnx_import::Model::open({data.data, data.size}, std::move(own), use,
                                                               source ? &*source : nullptr));
    *out_model = model.release();
    return {};
  });
}

void fill_io(const onnx_import::Declared &from, qr_prepare_io *out) {
  *out = {};
  out->name = text(from.name);
  out->dtype = static_cast<std::int32_t>(from.dtype);
  out->rank = static_cast<std::uint32_t>(from.shape.size());
  for (std::size_t i = 0; i < from.shape.size(); ++i) {
    out->dims[i] = from.shape[i];
    out->dim_names[i] = text(from.dim_names[i]);
  }
}

uint64_t input_count(qr_prepared_model *model) { return model->model->inputs().size(); }
uint64_t output_count(qr_prepared_model *model) { return model->model->outputs().size(); }
void input(qr_prepared_model *model, uint64_t index, qr_prepare_io *out) {
  fill_io(model->model->inputs()[index], out);
}
void output(qr_prepared_model *model, uint64_t index, qr_prepare_io *out) {
  fill_io(model->model->outputs()[index], out);
}

qr_plugin_string producer(qr_prepared_model *model) { return text(model->model->producer()); }
uint64_t property_count(qr_prepared_model *model) {
  return static_cast<uint64_t>(model->model->proto().metadata_props_size());
}
void property(qr_prepared_model *model, uint64_t index, qr_plugin_string *out_key, qr_plugin_string *out_value) {
  const auto &entry = model->model->proto().metadata_props(static_cast<int>(index));
  *out_key = text(entry.key());
  *out_value = text(entry.value());
}

qr_plugin_code external_folder(qr_prepared_model *model, int32_t *out_folder, const qr_error_sink *errors) {
  return plugin::guard(model->allocator, errors, [&]() -> Status {
    QR_ASSIGN_OR_RETURN(*out_folder, model->model->external().folder());
    return {};
  });
}

qr_plugin_code inspect(qr_prepared_model *model, qr_plugin_string *out_json, const qr_error_sink *errors) {
  return plugin::guard(model->allocator, errors, [&]() -> Status {
    if (model->json.empty()) model->json = model->model->inspect();
    *out_json = text(model->json);
    return {};
  });
}

qr_plugin_code verify(qr_prepared_model *model, const qr_plugin_signal *signal, const qr_error_sink *errors) {
  return plugin::guard(model->allocator, errors, [&]() -> Status {
    const plugin::StopToken stop(signal, model->allocator.host());
    const StopScope scope(stop);
    const PoolScope blocks;
    return model->model->verify();
  });
}

// Polls the signal and passes progress on; a bucket is a whole number of steps.
class LowerWatcher final : public onnx_import::Watcher {
 public:
  LowerWatcher(const plugin::StopToken &stop, const qr_prepare_progress *progress, std::uint64_t buckets)
      : stop_(stop), progress_(progress), buckets_(buckets) {}
  std::uint64_t bucket = 0;

  Status node_done(std::uint64_t done, std::uint64_t total) override {
    if (stop_.stopped()) return stop_.status("importing the model");
    if (progress_ && progress_->report && (done % 64 == 0 || done == total))
      progress_->report(progress_->self, bucket * total + done, buckets_ * total, text("importing nodes"));
    return {};
  }

 private:
  const plugin::StopToken &stop_;
  const qr_prepare_progress *progress_;
  std::uint64_t buckets_;
};

// The pool as one block. Of weights in mapped files not all gigabytes are in memory twice.
void write_pool(const qir::ConstantPool &pool, char *out, const onnx_import::ExternalData *external) {
  if (!external) return pool.write_to(out);
  constexpr std::uint64_t kPiece = std::uint64_t{16} << 20;
  std::uint64_t at = 0;
  for (const qir::ConstantPool::Part &part : pool.parts()) {
    std::memset(out + at, 0, part.offset - at);
    for (at = part.offset; at < part.offset + part.contents.size;) {
      const std::uint64_t from = at - part.offset, size = std::min(kPiece, part.contents.size - from);
      const qir::Bytes piece{static_cast<const char *>(part.contents.data) + from, size};
      std::memcpy(out + at, piece.data, piece.size);
      external->forget(piece);
      at += size;
    }
  }
}

// What is handed out outlives what it was made of, so it is made with an allocator of its own.
qr_lowered *give(const qr_host &host, const Vector<std::string_view> &names, const Vector<Vector<std::uint8_t>> &graphs,
                 const qir::ConstantPool &pool, const onnx_import::ExternalData *external = nullptr) {
  Owned<qr_lowered> lowered(plugin::create_object<qr_lowered>(&host));
  AllocatorScope scope(lowered->allocator);
  for (std::size_t i = 0; i < graphs.size(); ++i)
    lowered->graphs.push_back({String(names[i]), Vector<std::uint8_t>(graphs[i].begin(), graphs[i].end())});
  lowered->pool_size = pool.size();
  lowered->pool = allocate_block(pool.size() ? pool.size() : 1, 64);
  write_pool(pool, static_cast<char *>(lowered->pool), external);
  return lowered.release();
}

qr_plugin_code lower(qr_prepared_model *model, const qr_plugin_string *shapes, uint64_t shape_count,
                     int32_t takes_ranges, const qr_plugin_signal *signal, const qr_prepare_progress *progress,
                     qr_lowered **out_lowered, const qr_error_sink *errors) {
  return plugin::guard(model->allocator, errors, [&]() -> Status {
    const plugin::StopToken stop(signal, model->allocator.host());
    const std::uint64_t buckets = shape_count ? shape_count : 1;
    const StopScope scope(stop);
    const PoolScope blocks;
    LowerWatcher watcher(stop, progress, buckets);
    onnx_import::Store store;
    qir::ConstantPool pool;
    Vector<Vector<std::uint8_t>> graphs;
    for (std::uint64_t i = 0; i < buckets; ++i) {
      const auto taken = takes_ranges && buckets == 1 ? prepare::Ranges::Taken : prepare::Ranges::Refused;
      QR_ASSIGN_OR_RETURN(
          prepare::BoundShapes bound,
          prepare::bind_shapes(*model->model, shape_count ? view(shapes[i]) : std::string_view(), taken));
      watcher.bucket = i;
      QR_ASSIGN_OR_RETURN(qir::Graph graph, prepare::lower_graph(*model->model, bound.inputs, store, &watcher));
      graph.dimensions = std::move(bound.dimensions);
      if (!bound.has_ranges) model->tell_open(graph);
      QR_RETURN_IF_ERROR(stop.status("importing the model"));
      QR_ASSIGN_OR_RETURN(Vector<std::uint8_t> bytes, qir::write_valid_graph(graph, pool));  // lower_graph asked
      graphs.push_back(std::move(bytes));
      model->model->external().forget_all();  // the pool has looked at all of them
    }
    Vector<std::string_view> names(buckets);
    for (std::uint64_t i = 0; i < shape_count; ++i) names[i] = view(shapes[i]);
    *out_lowered = give(model->allocator.host(), names, graphs, pool, &model->model->external());
    return {};
  });
}

Vector<std::string_view> views(const qr_prepare_names &names) {
  Vector<std::string_view> out;
  for (std::uint64_t i = 0; i < names.count; ++i) out.push_back(view(names.names[i]));
  return out;
}

qr_plugin_code cut(const qr_host *host, const qr_plugin_graph *const *graphs, uint64_t graph_count,
                   const qr_prepare_part *part, qr_lowered **out_lowered, const qr_error_sink *errors) {
  plugin::HostAllocator allocator(host);
  return plugin::guard(allocator, errors, [&]() -> Status {
    const qir::Part wanted{views(part->tail), views(part->head), views(part->watch), {}, 0, {}, DType::Unknown};
    const prepare::LowRank low_rank{views(part->adapters), part->adapter_rank};
    const prepare::StateType state{views(part->state), static_cast<DType>(part->state_type)};
    qir::Store store;
    qir::ConstantPool pool;
    Vector<std::string_view> names;
    Vector<Vector<std::uint8_t>> made;
    Vector<qir::Graph> kept;
    for (std::uint64_t i = 0; i < graph_count; ++i) {
      QR_ASSIGN_OR_RETURN(qir::Graph graph, plugin::read_graph(*graphs[i]));  // with its dimensions
      QR_RETURN_IF_ERROR(qir::take_part(graph, wanted));
      if (!low_rank.patterns.empty()) QR_RETURN_IF_ERROR(prepare::add_low_rank(graph, store, low_rank));
      if (!state.pairs.empty()) QR_RETURN_IF_ERROR(prepare::set_state_type(graph, store, state));
      QR_ASSIGN_OR_RETURN(Vector<std::uint8_t> bytes, qir::write_graph(graph, pool));
      made.push_back(std::move(bytes));
      names.push_back(view(graphs[i]->name));
      kept.push_back(std::move(graph));
    }
    if (part->files) {
      plugin::HostFiles files(*part->files);
      QR_RETURN_IF_ERROR(prepare::export_graphs(kept, names, view(part->name), files));
    }
    *out_lowered = give(*host, names, made, pool);
    return {};
  });
}

uint64_t find_cuts(const qr_host *host, const qr_plugin_graph *from, const uint8_t *refused, uint64_t node_count,
                   void *self, void (*tell)(void *self, int32_t behind, uint32_t tensor)) {
  plugin::HostAllocator allocator(host);
  std::uint64_t kept = 0;
  (void)plugin::guard(allocator, nullptr, [&]() -> Status {
    QR_ASSIGN_OR_RETURN(const qir::Graph graph, plugin::read_graph(*from));
    if (graph.nodes.size() != node_count) return {};
    const qir::CutPoints cuts = qir::find_cuts(graph, Vector<bool>(refused, refused + node_count));
    for (const std::int32_t id : cuts.front) tell(self, 0, static_cast<std::uint32_t>(id));
    for (const std::int32_t id : cuts.back) tell(self, 1, static_cast<std::uint32_t>(id));
    kept = cuts.kept;
    return {};
  });
  return kept;
}

uint64_t graph_count(qr_lowered *lowered) { return lowered->graphs.size(); }
void graph(qr_lowered *lowered, uint64_t index, qr_lowered_graph *out) {
  const qr_lowered::Entry &entry = lowered->graphs[index];
  *out = {text(entry.name), {entry.qir.data(), entry.qir.size()}};
}
qr_plugin_bytes pool(qr_lowered *lowered) { return {lowered->pool, lowered->pool_size}; }

uint64_t operator_count() { return qir::op_count(); }
void operator_at(uint64_t index, qr_prepare_operator *out) {
  const qir::OpRow &row = qir::op_row(static_cast<qir::Op>(index));
  *out = {row.name,       row.domain,     row.types,       row.attributes,
          row.min_inputs, row.max_inputs, row.min_outputs, row.max_outputs};
}

qr_plugin_code read_adapter(const qr_host *host, const qr_prepare_adapter *from, uint64_t *out_weights,
                            const qr_error_sink *errors) {
  plugin::HostAllocator allocator(host);
  return plugin::guard(allocator, errors, [&]() -> Status {
    QR_ASSIGN_OR_RETURN(*out_weights, prepare::read_adapter(*from));
    return {};
  });
}

constexpr qr_prepare_api kApi = {
    sizeof(qr_prepare_api),
    QR_PREPARE_VERSION,
    open_model,
    destroy<qr_prepared_model>,
    input_count,
    output_count,
    input,
    output,
    producer,
    property_count,
    property,
    external_folder,
    inspect,
    verify,
    lower,
    destroy<qr_lowered>,
    graph_count,
    graph,
    pool,
    cut,
    find_cuts,
    operator_count,
    operator_at,
    read_adapter,
};

}  // namespace

extern "C" QR_PLUGIN_EXPORT const qr_prepare_api *qr_prepare_query(uint32_t version) {
  return version == QR_PREPARE_VERSION ? &kApi : nullptr;
}
