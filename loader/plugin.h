// SPDX-License-Identifier: Apache-2.0
// A plugin that was checked, opened and negotiated with, and what it makes: contexts and executions. Every slot of
// backend.h is called through the one method of it here, which checks that the table covers the slot, and afterwards
// that the plugin kept its side: nothing that a plugin says is used unchecked. A broken promise is the status QR-L0115
// and a log line with the flag QR_LOG_PLUGIN_MISBEHAVES.
//
// Lifetime: Execution -> Context -> Plugin -> HostEnvironment, each holding the next; Registration -> Plugin. A shared
// object is never unloaded. All of it expects the caller to have opened an AllocatorScope.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/alloc.h"
#include "base/file_sink.h"
#include "base/status.h"
#include "loader/plugin_note.h"
#include "loader/host.h"
#include "quarry/backend.h"

namespace quarry::loader {

struct DeviceInfo {
  bool usable = false;
  std::uint64_t memory_bytes = 0;
  std::uint64_t features = 0;  // QR_DEVICE_*
  String name, target, why_not;
  String details;  // lines
};

struct OptionRow {
  bool changes_at_run_time = false;
  std::uint32_t applies = 0;  // QR_PLUGIN_OPTION_*; 0: not stated
  String key, values, default_value, help;

  // It lists machines, each of which is compiled for: a context for each.
  bool names_machines() const noexcept { return (applies & QR_PLUGIN_OPTION_TARGET) && values == "list"; }
  // It has one value, or one for each of those machines.
  bool is_for_each_machine() const noexcept { return values.starts_with("each "); }
};

struct Verdict {
  bool supported = false;
  std::uint32_t path = QR_PLUGIN_PATH_UNKNOWN;  // of a supported node
  String id, reason, hint;                      // id and reason are never empty where refused
  String kernel;                                // of a supported node; may be empty
};

// Owned bytes of a stated alignment.
class Block {
 public:
  Block() noexcept = default;
  static Block copy(const void *data, std::uint64_t size, std::uint64_t align);
  Block(Block &&other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Block &operator=(Block &&other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Block() { free_block(data_); }
  const void *data() const noexcept { return data_; }
  std::uint64_t size() const noexcept { return size_; }

 private:
  void *data_ = nullptr;
  std::uint64_t size_ = 0;
};

struct CompiledSegment {
  bool kept = false;  // a segment of a graph of the request as it is; otherwise `bytes`
  std::uint64_t request_graph = 0;
  std::uint64_t request_segment = 0;
  std::uint64_t align = 64;
  Block bytes;
};

// The result of a compilation, in the plugin's own numbering of segments.
struct CompiledBlob {
  Block blob;  // 64-byte aligned
  Vector<CompiledSegment> segments;
  String target, key;
  bool has_plan = false;
  qr_plugin_plan plan{};
};

struct Grade {
  std::int32_t grade = QR_PLUGIN_GRADE_INCOMPATIBLE;  // QR_PLUGIN_GRADE_*, the same numbers as qr_compatibility
  String reason;                                      // one line; may be empty where optimal
};

struct TensorInfo {
  std::int32_t dtype = 0;
  std::uint32_t rank = 0;
  std::int64_t dims[QR_PLUGIN_MAX_RANK] = {};  // -1: known after the run
  bool is_static = true;                       // no dimension is -1
  std::uint64_t bytes = 0;                     // where static
  String name;
};

class Plugin;
class Context;
class Execution;
class ErrorCollector;  // loader/checks.h

// Memory that the plugin knows. Released with the object.
class Registration : public HeapObject {
 public:
  Registration() = default;
  ~Registration();
  Registration(const Registration &) = delete;
  Registration &operator=(const Registration &) = delete;
  qr_registration *handle() const noexcept { return handle_; }
  void *data() const noexcept { return data_; }  // nullptr: the host has no view
  std::uint64_t size() const noexcept { return size_; }
  bool coherent() const noexcept { return coherent_; }

  Result<void *> map(std::uint32_t access);  // QR-R0010 where the plugin has no such slot
  Status unmap();
  // Nothing to do where the memory is coherent or the plugin has no such slot.
  Status begin_access(std::uint32_t access);
  Status end_access(std::uint32_t access);
  struct File {
    std::int32_t fd = -1;  // the caller's to close
    std::uint64_t offset = 0;
  };
  Result<File> export_fd();  // QR-R0010 where the plugin has no such slot

 private:
  friend class Plugin;
  std::shared_ptr<Plugin> plugin_;
  qr_registration *handle_ = nullptr;
  void *data_ = nullptr;
  std::uint64_t size_ = 0;
  bool coherent_ = true;
};

// What one graph of a context takes and gives.
struct GraphTensors {
  Vector<TensorInfo> inputs, outputs;
  bool outputs_are_static = true;
};

// A loaded context: weights and programs of one or several graphs, shared by its executions. Thread-safe.
class Context : public HeapObject, public std::enable_shared_from_this<Context> {
 public:
  Context(std::shared_ptr<Plugin> plugin, qr_context *handle) noexcept;
  ~Context();
  Context(const Context &) = delete;
  Context &operator=(const Context &) = delete;

  const std::shared_ptr<Plugin> &plugin() const noexcept { return plugin_; }
  const Vector<GraphTensors> &graphs() const noexcept { return graphs_; }

  // `queue_depth`: so many runs will be submitted at a time; 0: none.
  Result<Unique<Execution>> create_execution(std::uint32_t graph, const qr_plugin_option *options,
                                             std::uint64_t option_count, std::uint64_t queue_depth,
                                             std::span<qr_plugin_appended> appended = {});
  // By what the nodes of a graph run, by index; a node that the plugin says nothing of is unsupported here. Empty: the
  // plugin has no such slot.
  Status nodes(std::uint32_t graph, std::uint32_t node_count, Vector<Verdict> &out);

 private:
  friend class Plugin;
  friend class Execution;
  Status read_tensors(std::uint64_t graph_count);
  Status read_side(std::uint64_t graph, bool is_output, std::uint64_t count, Vector<TensorInfo> &out);
  std::shared_ptr<Plugin> plugin_;
  qr_context *handle_;
  Vector<GraphTensors> graphs_;
};

// One execution state of one graph; one caller at a time, but for wait(), which may overlap submit().
class Execution : public HeapObject {
 public:
  Execution(std::shared_ptr<Context> context, std::uint32_t graph, std::uint64_t queue_depth, qr_execution *handle);
  ~Execution();
  Execution(const Execution &) = delete;
  Execution &operator=(const Execution &) = delete;

  // Runs once. Outputs' rank and used_bytes are overwritten before the call, so that what the plugin left out shows. On
  // success every wanted output has data, a rank, dims that fit the graph's, and used_bytes that fit dims and room.
  // Allocates on failure only. DEVICE_LOST always has the id QR-R0009.
  Status run(const qr_run_request &request);
  // The two parts of run(); only where submits(). The request stays as it is until wait() has returned for it; up to
  // queue_depth at a time, waited for in the order of their submission.
  bool submits() const noexcept;
  Result<std::uint64_t> submit(const qr_run_request &request);
  Status wait(std::uint64_t ticket, const qr_run_request &request);

  Status set_option(std::string_view key, std::string_view value);  // QR-C0104 where the plugin has no such slot
  // Of a range; `most` is 0 where it is none.
  void plans(qr_plugin_plans *out) const noexcept;
  const std::shared_ptr<Context> &context() const noexcept { return context_; }

 private:
  // The host's own word on each output, kept because the plugin may write to all of our structs.
  struct Given {
    void *data = nullptr;
    std::uint64_t room = 0;
    bool is_memory = false;  // registered: the host may have no view of it
  };
  const GraphTensors &tensors() const noexcept { return context_->graphs_[graph_]; }
  Status prepare(const qr_run_request &request, Given *given);
  Status validate_outputs(const char *slot, Status status, const qr_run_request &request, const Given *given);

  std::shared_ptr<Context> context_;
  std::uint32_t graph_;
  std::uint64_t places_;         // of runs under way: one more than queue_depth, for run()
  Vector<Given> given_;          // of each slot, and each output
  std::uint64_t submitted_ = 0;  // so many
  std::uint64_t waited_ = 0;     // so many; touched by wait() alone
  qr_execution *handle_;         // last: nothing throws once it is ours
};

class Plugin : public HeapObject, public std::enable_shared_from_this<Plugin> {
 public:
  // Checks, opens and negotiates; makes the backend object; reads its devices and options. `path` is UTF-8 and names a
  // file quarry-backend-<id>.so. Where an error is returned after the note was read, `out_note` (may be NULL) holds it.
  static Result<std::shared_ptr<Plugin>> open_file(HostEnvironment &environment, std::string_view path,
                                                   PluginNote *out_note = nullptr);
  static Result<std::shared_ptr<Plugin>> open_static(HostEnvironment &environment, std::string_view id,
                                                     qr_plugin_query_fn query);

  explicit Plugin(HostEnvironment &environment) noexcept;  // open_file and open_static are the way in
  ~Plugin();
  Plugin(const Plugin &) = delete;
  Plugin &operator=(const Plugin &) = delete;

  HostEnvironment &environment() const noexcept { return environment_; }
  const String &id() const noexcept { return id_; }
  std::string_view path() const noexcept { return path_; }  // empty: static
  bool is_static() const noexcept { return path_.empty(); }
  std::string_view version() const noexcept { return version_; }
  std::string_view description() const noexcept { return description_; }
  std::uint32_t blob_version() const noexcept { return table_->blob_version; }

  const Vector<DeviceInfo> &devices() const noexcept { return devices_; }
  const DeviceInfo *first_usable_device(std::uint32_t *out_index) const noexcept;  // nullptr: none
  const Vector<OptionRow> &options() const noexcept { return options_; }
  const OptionRow *find_option(std::string_view key) const noexcept;

  bool has_compiler() const noexcept;     // false: check and compile give QR-B0007
  bool compiles_groups() const noexcept;  // whether compile takes several graphs
  // One verdict per node of the one graph, by index.
  Status check(const qr_compile_request &request, std::uint32_t node_count, Vector<Verdict> &out);
  Result<CompiledBlob> compile(const qr_compile_request &request);
  // 1 or 0; -1: the plugin does not say.
  std::int32_t supports(std::string_view domain, std::string_view name, std::uint32_t version, String *out_types,
                        String *out_note);

  Result<Grade> grade(const qr_load_request &request);
  // `out_known` false: the plugin has no such slot, use the plan of the container.
  Status plan(const qr_load_request &request, qr_plugin_plan *out_plan, bool *out_known);
  Result<std::shared_ptr<Context>> load(const qr_load_request &request);
  // Empty: the plugin has nothing to say of the blob.
  Result<String> describe(const qr_load_request &request);
  // Writes it as ONNX models of EPContext nodes; `name`: of the first file.
  Status export_onnx(const qr_load_request &request, std::string_view name, bool is_embedded, FileSink &files);
  // What a context in the device's own form is as an ONNX model (empty: the plugin does not know it), and as JSON.
  struct ImportedBinary {
    Vector<std::uint8_t> model, about;
  };
  Result<ImportedBinary> import_binary(const qr_plugin_bytes &binary, std::string_view binary_name,
                                       const Vector<qr_plugin_option> &options);

  // What the plugin has of qr_plugin_memory_api. A null Registration with an ok status: the slot is not there, use
  // plain memory (allocate, register_pointer). import_fd without a slot is QR-R0010.
  Result<Unique<Registration>> allocate(const qr_plugin_memory_request &request);
  Result<Unique<Registration>> import_fd(const qr_plugin_memory_request &request);
  Result<Unique<Registration>> register_pointer(const qr_plugin_memory_request &request);

  // Whether this process may use the device: a forked child may not where the device says so (QR-R0016).
  Status check_process(std::uint32_t device) const;

  bool recovers() const noexcept;
  // QR-R0008 where the plugin has no such slot.
  Status recover(std::uint32_t device, const qr_plugin_signal *signal);
  const void *extension(const char *id);

  // "backend cpu: execution.run <what>" as status QR-L0115, also logged.
  Status misbehaved(const char *slot, std::string_view what) noexcept;

 private:
  friend class Context;
  friend class Execution;
  friend class Registration;
  Status negotiate(qr_plugin_query_fn query, const PluginNote *note);
  Status bad_table(const String &what);
  Status check_identity(const qr_plugin *table, const PluginNote *note);
  Status check_tables(const qr_plugin *table, const PluginNote *note);
  Result<Unique<Registration>> finish_registration(const char *slot, qr_plugin_code code, ErrorCollector &errors,
                                                   const qr_plugin_memory_info &info, qr_registration *handle,
                                                   const qr_plugin_memory_request &request);
  Status no_slot(ErrorId id, const char *what) const;
  template <class Info, class Table, class Take>
  Status read_rows(const char *name, const Table &table, std::uint64_t most, Take &&take);
  Status read_devices();
  Status read_options();

  HostEnvironment &environment_;
  qr_host host_;
  const std::uint32_t process_;  // that the backend was created in
  const qr_plugin *table_ = nullptr;
  qr_backend *backend_ = nullptr;
  String id_, path_, version_, description_;
  Vector<DeviceInfo> devices_;
  Vector<OptionRow> options_;
};

}  // namespace quarry::loader
