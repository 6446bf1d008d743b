// SPDX-License-Identifier: Apache-2.0
// A stand-in for libQnnHtp.so. It prepares and runs every graph alike: an output is its first input's bytes, over and
// over. What it is for: what Qualcomm's emulator refuses, and devices and libraries in trouble (script.h).
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <set>
#include <thread>

#include "tests/plugins/qnn/live.h"
#include "tests/plugins/qnn/objects.h"
#include "tests/plugins/qnn/script.h"

namespace standin {

void record_configs(const qnn::ContextConfig **list) {
  for (; list && *list; ++list) {
    if ((*list)->option == qnn::ContextOpt::EnableGraphs || (*list)->option == qnn::ContextOpt::RetentionOrder) {
      std::string names;
      for (const char *const *name = (*list)->graphs; *name; ++name)
        names += (names.empty() ? "" : ",") + std::string(*name);
      record("  context %u=%s", static_cast<unsigned>((*list)->option), names.c_str());
    } else if ((*list)->option == qnn::ContextOpt::PersistentBinary) {
      record("  context 7=%u", (*list)->flag);
    } else if ((*list)->option == qnn::ContextOpt::Custom) {
      const auto &custom = *static_cast<const qnn::HtpContextConfig *>((*list)->custom);
      record("  context.custom %u=%llu,%llu", custom.option, static_cast<unsigned long long>(custom.mb & 0xffffffff),
             static_cast<unsigned long long>(custom.option == 2 || custom.option == 12 ? custom.group.max_spill : 0));
    } else {
      record("  context %u=%u", static_cast<unsigned>((*list)->option), (*list)->compat);
    }
  }
}
void record_configs(const qnn::GraphConfig **list) {
  for (; list && *list; ++list) {
    if ((*list)->option == qnn::GraphOpt::Custom) {
      const auto &custom = *static_cast<const qnn::HtpGraphConfig *>((*list)->custom);
      if (custom.option == 1)
        record("  graph.optimization %u=%g", custom.opt.type, static_cast<double>(custom.opt.value));
      else if (custom.option == 7) record("  graph.finalize %s", custom.finalize.key);
      else record("  graph.custom %u=%llu", custom.option, static_cast<unsigned long long>(custom.u64 & 0xffffffff));
    } else {
      record("  graph %u=%u", static_cast<unsigned>((*list)->option), (*list)->u32);
    }
  }
}

namespace {

constinit std::atomic<qnn::LogFn> g_log = nullptr;  // of any thread that opens an engine
void say(const char *pattern, ...) {
  va_list arguments;
  va_start(arguments, pattern);
  if (const qnn::LogFn log = g_log.load()) log(pattern, 1, 0, arguments);
  va_end(arguments);
}

Error log_create(qnn::LogFn fn, std::uint32_t, qnn::Handle *out) {
  g_log = fn;
  *out = &g_log;
  return 0;
}
Error free_nothing(qnn::Handle) { return 0; }
Error get_build_id(const char **out) {
  static const std::string build = setting("build", "v9.9.9");
  *out = build.c_str();
  return 0;
}
Error backend_create(qnn::Handle, const qnn::BackendConfig **, qnn::Handle *out) {
  record("backendCreate");
  if (const Error error = meet("backendCreate")) return error;
  *out = new Backend;
  born(*out, "backend");
  return 0;
}
Error backend_free(qnn::Handle handle) {
  record("backendFree");
  dies(handle, "backendFree");
  delete static_cast<Backend *>(handle);
  return 0;
}
Error register_package(qnn::Handle, const char *path, const char *symbol, const char *target) {
  record("backendRegisterOpPackage %s %s %s", path, symbol, target ? target : "-");
  return meet("backendRegisterOpPackage");
}
Error validate(qnn::Handle backend, qnn::Op op) {
  must_live(backend, "backendValidateOpConfig");
  if (!is_listed("refuse", op.type)) return meet("backendValidateOpConfig");
  say("%s: %s", setting("words", "refused by the script").c_str(), op.type);
  return 3110;
}
Error device_create(qnn::Handle, const qnn::DeviceConfig **list, qnn::Handle *out) {
  record("deviceCreate");
  if (const Error error = meet("deviceCreate")) return error;
  auto made = std::make_unique<Device>();
  const bool wide = version("htp", "5.51.0").minor >= 47;
  for (; list && *list; ++list) {
    const void *const custom = (*list)->custom;
    const std::uint32_t option = *static_cast<const std::uint32_t *>(custom);
    const auto *const narrow = static_cast<const qnn::HtpDeviceConfigOld *>(custom);
    const auto *const large = static_cast<const qnn::HtpDeviceConfig *>(custom);
    if (option == 0) made->soc = wide ? large->soc : narrow->soc;
    if (option == 2) record("  device.signed_pd=%d", wide ? large->pd.on : narrow->pd.on);
  }
  record("  device.soc=%u", made->soc);
  if (made->soc == 0) return 14001;
  *out = made.release();
  born(*out, "device");
  return 0;
}
Error device_free(qnn::Handle handle) {
  record("deviceFree");
  dies(handle, "deviceFree");
  delete static_cast<Device *>(handle);
  return 0;
}

// ---- contexts and graphs

// A context is in its backend, and in its device where it has one; what is in it ends with it.
void be_born(Context &context, qnn::Handle backend, qnn::Handle device) {
  if (device) must_live(backend, "contextCreate");
  born(&context, "context", device ? device : backend);
  for (const auto &graph : context.graphs) born(graph.get(), "graph");
}
// The first of a group of contexts must live when another one joins.
void check_group(const qnn::ContextConfig **list) {
  for (; list && *list; ++list) {
    if ((*list)->option != qnn::ContextOpt::Custom) continue;
    const auto &custom = *static_cast<const qnn::HtpContextConfig *>((*list)->custom);
    if ((custom.option == 2 || custom.option == 12) && custom.group.first)
      must_live(custom.group.first, "contextCreateFromBinary, first of the group");
  }
}

Error context_create(qnn::Handle backend, qnn::Handle device, const qnn::ContextConfig **list, qnn::Handle *out) {
  record("contextCreate");
  record_configs(list);
  if (const Error error = meet("contextCreate")) return error;
  Context *const made = new Context;
  made->backend = static_cast<Backend *>(backend);
  if (device) made->soc = static_cast<Device *>(device)->soc;
  *out = made;
  be_born(*made, backend, device);
  return 0;
}
Error context_set_config(qnn::Handle handle, const qnn::ContextConfig **list) {
  must_live(handle, "contextSetConfig");
  record("contextSetConfig");
  record_configs(list);
  return meet("contextSetConfig");
}
Error context_free(qnn::Handle handle, qnn::Handle) {
  record("contextFree");
  must_live(handle, "contextFree");
  for (const auto &graph : static_cast<Context *>(handle)->graphs) dies(graph.get(), "contextFree");
  dies(handle, "contextFree");
  if (static_cast<Context *>(handle)->release) static_cast<Context *>(handle)->release();
  delete static_cast<Context *>(handle);
  return 0;
}
void serialise(Context &context) {
  std::vector<HeldGraph *> graphs;
  for (const auto &graph : context.graphs) graphs.push_back(graph.get());
  if (context.binary.empty()) context.binary = write_binary(context.soc, graphs);
}
Error get_binary_size(qnn::Handle handle, qnn::BinSize *out) {
  Context &context = *static_cast<Context *>(handle);
  serialise(context);
  *out = context.binary.size();
  return meet("contextGetBinarySize");
}
Error get_binary(qnn::Handle handle, void *to, qnn::BinSize bytes, qnn::BinSize *written) {
  Context &context = *static_cast<Context *>(handle);
  serialise(context);
  if (bytes < context.binary.size()) return 5007;
  std::memcpy(to, context.binary.data(), context.binary.size());
  *written = context.binary.size();
  return meet("contextGetBinary");
}
Error from_binary(qnn::Handle backend, qnn::Handle device, const qnn::ContextConfig **list, const void *data,
                  qnn::BinSize bytes, qnn::Handle *out, qnn::Handle) {
  record("contextCreateFromBinary %llu bytes", static_cast<unsigned long long>(bytes));
  record_configs(list);
  check_group(list);
  if (const Error error = meet("contextCreateFromBinary")) return error;
  std::uint32_t soc = 0;
  std::vector<HeldGraph> graphs;
  if (!read_binary(data, bytes, soc, graphs)) return 30010;
  auto made = std::make_unique<Context>();
  made->backend = static_cast<Backend *>(backend);
  made->soc = device ? static_cast<Device *>(device)->soc : soc;
  for (HeldGraph &held : graphs) {
    auto &graph = made->graphs.emplace_back(std::make_unique<Graph>());
    static_cast<HeldGraph &>(*graph) = std::move(held);
    graph->finalized = true, graph->context = made.get();
  }
  be_born(*made, backend, device);
  *out = made.release();
  return 0;
}
Error wait_while_hanging(const char *call, qnn::Handle signal);
Error from_binary_signal(qnn::Handle backend, qnn::Handle device, const qnn::ContextConfig **list, const void *data,
                         qnn::BinSize bytes, qnn::Handle *out, qnn::Handle profile, qnn::Handle signal) {
  record("contextCreateFromBinaryWithSignal");
  must_live(signal, "contextCreateFromBinaryWithSignal");
  if (const Error error = wait_while_hanging("contextCreateFromBinary", signal)) return error;
  return from_binary(backend, device, list, data, bytes, out, profile);
}
Error validate_binary(qnn::Handle, qnn::Handle, const qnn::ContextConfig **list, const void *, qnn::BinSize) {
  record("contextValidateBinary");
  record_configs(list);
  return meet("contextValidateBinary");
}
Error apply_section(qnn::Handle context, qnn::Handle graph, std::uint32_t section, const qnn::CtxBuffer *buffer,
                    qnn::Handle, qnn::Handle) {
  must_live(context, "contextApplyBinarySection");
  must_live(graph, "contextApplyBinarySection");
  const std::string_view text(static_cast<const char *>(buffer->raw.data), buffer->raw.bytes);
  record("contextApplyBinarySection %s section=%u version=%u memory=%u '%s'", static_cast<Graph *>(graph)->name.c_str(),
         section, buffer->version, buffer->mem, std::string(text).c_str());
  return meet("contextApplyBinarySection");
}
// What is reported of a context of a list: its graphs, and then itself.
void report(const qnn::CtxParamsV1 &p, qnn::Handle made, Error error) {
  if (made)
    for (const auto &graph : static_cast<Context *>(made)->graphs)
      p.fn(made, graph.get(), graph->name.c_str(), 0, p.arg, 0);
  p.fn(made, nullptr, nullptr, 1, p.arg, error);
}
Error from_binary_list(qnn::Handle backend, qnn::Handle device, const qnn::CtxParams **params,
                       const qnn::ContextConfig **list, qnn::Handle) {
  record("contextCreateFromBinaryListAsync");
  record_configs(list);
  if (const Error error = meet("contextCreateFromBinaryListAsync")) return error;
  for (; params && *params; ++params) {
    const qnn::CtxParamsV1 &p = (*params)->v1;
    qnn::Handle made = nullptr;
    const Error error = from_binary(backend, device, p.config, p.bin, p.bytes, &made, p.profile);
    const auto tell = [p, made, error] { report(p, made, error); };
    // By another thread, and after the call has returned.
    const int late_ms = std::stoi(setting("late_ms", "0"));
    if (late_ms == 0) tell();
    else std::thread([tell, late_ms] { usleep(1000u * static_cast<unsigned>(late_ms)), tell(); }).detach();
  }
  return 0;
}
Error from_binary_callback(qnn::Handle backend, qnn::Handle device, const qnn::ContextConfig **list,
                           const qnn::BinCallback *callback, const void *data, qnn::BinSize bytes, qnn::Handle *out,
                           qnn::Handle profile, qnn::Handle) {
  record("contextCreateFromBinaryWithCallback kind=%u", callback->kind);
  if (const Error error = meet("contextCreateFromBinaryWithCallback")) return error;
  if (callback->kind != 2) return 1000;  // the only kind that there is
  std::string whole;
  std::vector<qnn::BinDmaReply> held;
  std::set<int> descriptors;
  bool is_sound = true;
  // In pieces, in memory that is kept until the context ends; each has a descriptor of its own, and whole pages.
  for (qnn::BinSize at = 0; at < bytes; at += 3000) {
    const qnn::BinSize size = std::min<qnn::BinSize>(3000, bytes - at);
    qnn::BinDmaReply reply{};
    if (const Error error = callback->dma.provide({at, size, 0}, &reply, callback->dma.arg)) return error;
    is_sound = is_sound && descriptors.insert(reply.dma.fd).second && reply.aligned >= size && reply.start == 0 &&
               reinterpret_cast<std::uintptr_t>(reply.dma.data) % 4096 == 0;
    whole.append(static_cast<const char *>(reply.dma.data) + reply.start, size);
    held.push_back(reply);
  }
  qnn::BinDmaReply none{};
  const bool refuses = callback->dma.provide({bytes, 1, 0}, &none, callback->dma.arg) != 0;
  record("  provided %zu bytes, %s%s%s", whole.size(), std::memcmp(whole.data(), data, bytes) == 0 ? "equal" : "others",
         is_sound ? "" : ", unsound", refuses ? "" : ", past the end");
  if (const Error error = from_binary(backend, device, list, whole.data(), whole.size(), out, profile)) return error;
  static_cast<Context *>(*out)->release = [callback = *callback, held, whole] {
    std::size_t at = 0, same = 0;
    for (const qnn::BinDmaReply &reply : held) {
      const std::size_t size = std::min<std::size_t>(3000, whole.size() - at);
      same += std::memcmp(reply.dma.data, whole.data() + at, size) == 0;
      at += size;
      if (callback.dma.release({reply.dma, reply.aligned}, callback.dma.arg) != 0) same = 0;
    }
    record("  gave back %zu pieces%s", held.size(), same == held.size() ? "" : ", others");
  };
  return 0;
}
Error graph_create(qnn::Handle handle, const char *name, const qnn::GraphConfig **list, qnn::Handle *out) {
  record("graphCreate %s", name);
  record_configs(list);
  for (const qnn::GraphConfig **one = list; one && *one; ++one) {
    const auto *const custom =
        (*one)->option == qnn::GraphOpt::Custom ? static_cast<const qnn::HtpGraphConfig *>((*one)->custom) : nullptr;
    if (custom && custom->option == 7 && std::string_view(custom->finalize.key).starts_with("unknown"))
      say("options.cc:92::ERROR:Option %s not found", custom->finalize.key);  // and takes it
  }
  if (const Error error = meet("graphCreate")) return error;
  Context &context = *static_cast<Context *>(handle);
  auto &made = context.graphs.emplace_back(std::make_unique<Graph>());
  made->name = name, made->context = &context;
  *out = made.get();
  born(*out, "graph");
  return 0;
}
Error graph_set_config(qnn::Handle handle, const qnn::GraphConfig **list) {
  must_live(handle, "graphSetConfig");
  record("graphSetConfig");
  record_configs(list);
  return meet("graphSetConfig");
}
Error tensor_create(qnn::Handle handle, qnn::Tensor *tensor) {
  must_live(handle, "tensorCreateGraphTensor");
  if (const Error error = meet("tensorCreateGraphTensor")) return error;
  Graph &graph = *static_cast<Graph *>(handle);
  tensor->v1.id = graph.context->backend->ids++;
  if (tensor->v1.type != qnn::TensorType::AppWrite && tensor->v1.type != qnn::TensorType::AppRead) return 0;
  HeldTensor &held = (tensor->v1.type == qnn::TensorType::AppWrite ? graph.inputs : graph.outputs).emplace_back();
  held.name = tensor->v1.name;
  held.dims.assign(tensor->v1.dims, tensor->v1.dims + tensor->v1.rank);
  held.tensor = *tensor;
  held.tensor.v1.buf = {};
  return 0;
}
Error add_node(qnn::Handle handle, qnn::Op op) {
  if (std::string_view(op.package) != "qti.aisw") {
    record("graphAddNode %s::%s inputs=%u outputs=%u", op.package, op.type, op.n_in, op.n_out);
    for (std::uint32_t i = 0; i < op.n_params; ++i) {
      const qnn::Param &p = op.params[i];
      const bool is_text = p.kind == qnn::ParamKind::Scalar && p.scalar.dtype == qnn::DataType::String;
      if (p.kind == qnn::ParamKind::Tensor) record("  param %s=[%u]", p.name, p.tensor.v1.dims[0]);
      else record("  param %s=%s%u", p.name, is_text ? p.scalar.str : "", is_text ? 0 : p.scalar.u32);
    }
  }
  static_cast<Graph *>(handle)->nodes.push_back(op.name);
  return meet("graphAddNode");
}
// Waits for as long as the script says that it does not end.
Error wait_while_hanging(const char *call, qnn::Handle signal) {
  const auto begin = std::chrono::steady_clock::now();
  while (hangs(call)) {
    const auto passed = std::chrono::steady_clock::now() - begin;
    if (const auto *const given = static_cast<Signal *>(signal)) {
      if (given->triggered) return 6031;
      if (given->timeout_us && passed > std::chrono::microseconds(given->timeout_us)) return 6033;
    }
    if (passed > std::chrono::seconds(20)) return 1003;
    usleep(500);
  }
  return 0;
}
Error finalize(qnn::Handle handle, qnn::Handle, qnn::Handle signal) {
  const Inside inside(handle, "graphFinalize");
  record("graphFinalize signal=%d", signal != nullptr);
  if (const Error error = meet("graphFinalize")) return error;
  if (const Error error = wait_while_hanging("graphFinalize", signal)) return error;
  static_cast<Graph *>(handle)->finalized = true;
  return 0;
}
Error retrieve(qnn::Handle handle, const char *name, qnn::Handle *out) {
  must_live(handle, "graphRetrieve");
  if (const Error error = meet("graphRetrieve")) return error;
  for (const auto &graph : static_cast<Context *>(handle)->graphs)
    if (graph->name == name) {
      *out = graph.get();
      return 0;
    }
  return 6002;
}

std::size_t bytes_of(const qnn::Tensor &tensor) {
  std::size_t bytes = 4;
  switch (static_cast<std::uint32_t>(tensor.v1.dtype) & 0xff) {
    case 0x08: bytes = 1; break;
    case 0x16: bytes = 2; break;
    case 0x64: bytes = 8; break;
    default: break;
  }
  for (std::uint32_t i = 0; i < tensor.v1.rank; ++i) bytes *= tensor.v1.dims[i];
  return bytes;
}

Error run_graph(qnn::Handle handle, const qnn::Tensor *in, std::uint32_t in_count, qnn::Tensor *out,
                std::uint32_t out_count, qnn::Handle profile, qnn::Handle signal) {
  must_live(handle, "graphExecute");
  Graph &graph = *static_cast<Graph *>(handle);
  if (in_count != graph.inputs.size() || out_count != graph.outputs.size()) return 6000;
  record("graphExecute %s in=%u,%s profile=%d signal=%d", graph.name.c_str(), in_count,
         in_count && in[0].v1.mem == qnn::TensorMem::Registered ? "registered" : "raw", profile != nullptr,
         signal != nullptr);
  if (const Error error = meet("graphExecute")) {
    say("the script lets graphExecute fail");
    return error;
  }
  if (const Error error = wait_while_hanging("graphExecute", signal)) return error;
  for (std::uint32_t i = 0; i < out_count; ++i) {
    char *const to = static_cast<char *>(place_of(out[i]));
    const std::size_t size = bytes_of(out[i]);
    if (in_count == 0 || !to) return 6004;
    const char *const from = static_cast<const char *>(place_of(in[0]));
    const std::size_t given = bytes_of(in[0]);
    if (!from) return 6004;
    for (std::size_t at = 0; at < size; at += given) std::memcpy(to + at, from, std::min(given, size - at));
  }
  if (profile) fill_events(*static_cast<Profile *>(profile), graph);
  return 0;
}
Error execute(qnn::Handle handle, const qnn::Tensor *in, std::uint32_t in_count, qnn::Tensor *out,
              std::uint32_t out_count, qnn::Handle profile, qnn::Handle signal) {
  const Inside inside(handle, "graphExecute");
  return run_graph(handle, in, in_count, out, out_count, profile, signal);
}
// The library queues these: several of one graph may be under way.
Error execute_async(qnn::Handle graph, const qnn::Tensor *in, std::uint32_t in_count, qnn::Tensor *out,
                    std::uint32_t out_count, qnn::Handle profile, qnn::Handle signal, qnn::NotifyFn fn, void *arg) {
  record("graphExecuteAsync");
  if (const Error error = meet("graphExecuteAsync")) return error;
  std::thread([=] {
    const Error error = run_graph(graph, in, in_count, out, out_count, profile, signal);
    if (fn) fn(arg, {error});
  }).detach();
  return 0;
}

Error signal_create(qnn::Handle, const qnn::SignalConfig **list, qnn::Handle *out) {
  if (const Error error = meet("signalCreate")) return error;
  auto made = std::make_unique<Signal>();
  for (; list && *list; ++list) {
    record("signalCreate option=%u", (*list)->option);
    if ((*list)->option == 2) made->timeout_us = (*list)->timeout_us;
  }
  *out = made.release();
  born(*out, "signal");
  return 0;
}
Error signal_set_config(qnn::Handle handle, const qnn::SignalConfig **list) {
  for (; list && *list; ++list)
    if ((*list)->option == 2) static_cast<Signal *>(handle)->timeout_us = (*list)->timeout_us;
  return meet("signalSetConfig");
}
Error signal_trigger(qnn::Handle handle) {
  must_live(handle, "signalTrigger");
  record("signalTrigger");
  if (const Error error = meet("signalTrigger")) return error;
  static_cast<Signal *>(handle)->triggered = true;
  return 0;
}
Error signal_free(qnn::Handle handle) {
  dies(handle, "signalFree");
  delete static_cast<Signal *>(handle);
  return 0;
}

}  // namespace
}  // namespace standin

extern "C" __attribute__((visibility("default"))) quarry::qnn::Error QnnInterface_getProviders(
    const quarry::qnn::Provider ***list, std::uint32_t *count) {
  using namespace standin;
  static qnn::Provider provider{};
  static const qnn::Provider *providers[] = {&provider};
  provider = {};
  provider.backend_id = static_cast<std::uint32_t>(std::stoul(setting("backend", "6")));
  provider.name = "STANDIN";
  provider.version = {version("core", "2.40.0"), version("htp", "5.51.0")};
  qnn::Api &api = provider.api;
  api.backendRegisterOpPackage = register_package;
  api.backendCreate = backend_create, api.backendGetBuildId = get_build_id, api.backendValidateOpConfig = validate;
  api.backendFree = backend_free, api.contextCreate = context_create, api.contextSetConfig = context_set_config;
  api.contextGetBinarySize = get_binary_size, api.contextGetBinary = get_binary;
  api.contextCreateFromBinary = from_binary, api.contextFree = context_free, api.graphCreate = graph_create;
  api.contextCreateFromBinaryListAsync = from_binary_list;
  api.contextCreateFromBinaryWithSignal = from_binary_signal;
  api.contextApplyBinarySection = apply_section, api.contextValidateBinary = validate_binary;
  api.contextCreateFromBinaryWithCallback = from_binary_callback;
  api.graphSetConfig = graph_set_config, api.graphAddNode = add_node, api.graphFinalize = finalize;
  api.graphRetrieve = retrieve, api.graphExecute = execute, api.graphExecuteAsync = execute_async;
  api.tensorCreateGraphTensor = tensor_create, api.logCreate = log_create, api.logFree = free_nothing;
  api.deviceCreate = device_create, api.deviceFree = device_free;
  api.signalCreate = signal_create, api.signalSetConfig = signal_set_config, api.signalTrigger = signal_trigger;
  api.signalFree = signal_free;
  fill_tables(api), fill_memory(api), fill_power(api);
  void **const slots = reinterpret_cast<void **>(&api);
  for (std::size_t i = std::stoul(setting("slots", "1000")); i < sizeof api / sizeof *slots; ++i)
    slots[i] = reinterpret_cast<void *>(0x1);
  if (is_listed("null", "graphExecute")) api.graphExecute = nullptr;
  if (is_listed("null", "deviceGetInfrastructure")) api.deviceGetInfrastructure = nullptr;
  *list = providers;
  *count = 1;
  return 0;
}
