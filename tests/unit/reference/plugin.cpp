// SPDX-License-Identifier: Apache-2.0
// The plugin through its table, with a host made here: check, compile, load, run; damaged blobs; memory that runs out.
#include <cstdlib>

#include "backends/common/plugin_support.h"
#include "backends/cpu-reference/blob.h"
#include "tests/unit/reference/graph_builder.h"

using namespace quarry;
using plugin::text;
using plugin::view;
using qir::Op;
using quarry::test::Builder;
using i64 = std::int64_t;

extern "C" qr_plugin_code qr_plugin_query(const qr_host *, const qr_plugin **, const qr_error_sink *);

namespace {

struct Host {
  qr_host table{};
  i64 alive = 0, allocations = 0, fails_at = -1;
  String id, message;
  qr_error_sink errors{};

  Host() {
    table.struct_size = sizeof table;
    table.abi_major = QR_PLUGIN_ABI_MAJOR;
    table.abi_minor_max = QR_PLUGIN_ABI_MINOR;
    table.magic = QR_PLUGIN_MAGIC;
    table.self = this;
    table.alloc = [](void *self, std::uint64_t size, std::uint64_t align) -> void * {
      Host &host = *static_cast<Host *>(self);
      if (host.allocations++ == host.fails_at) return nullptr;
      if (size > std::uint64_t{1} << 32) return nullptr;  // a damaged plan asks for anything
      void *block = std::aligned_alloc(align, (size + align - 1) / align * align);
      host.alive += block != nullptr;
      return block;
    };
    table.free = [](void *self, void *ptr, std::uint64_t, std::uint64_t) {
      if (ptr) --static_cast<Host *>(self)->alive;
      std::free(ptr);
    };
    table.log = [](void *, std::int32_t, qr_plugin_string, qr_plugin_string) {};
    table.clock_ns = [](void *) -> std::uint64_t { return 1000; };
    errors.struct_size = sizeof errors;
    errors.self = this;
    errors.set = [](void *self, qr_plugin_code, qr_plugin_string id, qr_plugin_string message, qr_plugin_string) {
      AllocatorScope scope(malloc_allocator());
      static_cast<Host *>(self)->id = view(id);
      static_cast<Host *>(self)->message = view(message);
    };
  }
};

// What a compilation gives. The blob is aligned as the host's would be.
struct CollectedBlob {
  std::uint8_t *bytes = static_cast<std::uint8_t *>(std::aligned_alloc(64, 1 << 16));
  std::uint64_t size = 0;
  qr_plugin_plan plan{};
  String target;
  std::uint32_t kept = 0;
  qr_blob_sink sink{};

  CollectedBlob() {
    sink.struct_size = sizeof sink;
    sink.self = this;
    sink.keep_segment = [](void *self, std::uint64_t, std::uint64_t, std::uint32_t *out) -> qr_plugin_code {
      *out = static_cast<CollectedBlob *>(self)->kept++;
      return 0;
    };
    sink.blob = [](void *self, const void *data, std::uint64_t length) -> qr_plugin_code {
      CollectedBlob &to = *static_cast<CollectedBlob *>(self);
      if (length > 1 << 16) return 8;
      std::memcpy(to.bytes, data, length);
      to.size = length;
      return 0;
    };
    sink.compatibility = [](void *self, qr_plugin_string target, qr_plugin_string) -> qr_plugin_code {
      AllocatorScope scope(malloc_allocator());
      static_cast<CollectedBlob *>(self)->target = view(target);
      return 0;
    };
    sink.plan = [](void *self, const qr_plugin_plan *plan) -> qr_plugin_code {
      static_cast<CollectedBlob *>(self)->plan = *plan;
      return 0;
    };
  }
  ~CollectedBlob() { std::free(bytes); }
};

// y = neg(x + c), z = non-zero positions of y
struct Sample {
  Builder b;
  Vector<std::uint8_t> qir, pool;
  qr_plugin_bytes segment{};
  qr_plugin_segment loaded{};  // the same, as a container gives it
  qr_plugin_graph graph{};
  const qr_plugin_graph *graphs[1] = {&graph};
  qr_compile_request request{};

  Sample() {
    const std::int32_t x = b.input(DType::F32, {2, 2}), c = b.constant<float>({2}, {10, -2}),
                       s = b.tensor(DType::F32, {2, 2}), y = b.tensor(DType::F32, {2, 2});
    const std::int32_t z = b.tensor(DType::I64, {2, -1});
    b.node(Op::Add, {x, c}, {s});
    b.node(Op::Neg, {s}, {y});
    b.node(Op::NonZero, {y}, {z});
    b.gives({y, z});
    qir::ConstantPool constants;
    auto written = qir::write_graph(b.graph, constants);
    CHECK_OK(written.status());
    qir = std::move(written.value());
    pool.resize(constants.size() + 64);
    constants.write_to(pool.data());
    segment = {pool.data(), constants.size()};
    request.struct_size = sizeof request;
    loaded = {segment.data, segment.size, -1, 0, 0, 0};
    graph.struct_size = sizeof graph;
    graph.qir = {qir.data(), qir.size()};
    graph.segments = &segment;
    graph.segment_count = 1;
    request.graphs = graphs;
    request.graph_count = 1;
  }
};

const qr_plugin &table(Host &host) {
  const qr_plugin *plugin = nullptr;
  CHECK_EQ(qr_plugin_query(&host.table, &plugin, &host.errors), 0);
  return *plugin;
}

// Loads and runs the blob once; the code of the first slot that failed.
qr_plugin_code load_and_run(Host &host, const qr_plugin &plugin, qr_backend *backend, const qr_blob &blob, float *out_y,
                            i64 *out_positions, const qr_profile_sink *profile = nullptr) {
  qr_load_request load{};
  load.struct_size = sizeof load;
  load.blob = &blob;
  qr_context *context = nullptr;
  if (const qr_plugin_code code = plugin.context->load(backend, &load, &context, &host.errors)) return code;
  qr_execution *execution = nullptr;
  const qr_execution_request execution_request{sizeof execution_request, 0, nullptr, 0, 0};
  qr_plugin_code code = plugin.execution->create(context, &execution_request, &execution, &host.errors);
  if (code == 0) {
    float x[4] = {1, 2, 3, 4};
    qr_io_buffer input{}, outputs[2] = {};
    input.data = x;
    input.size_bytes = sizeof x;
    input.rank = 2;
    input.dims[0] = input.dims[1] = 2;
    outputs[0].wanted = outputs[1].wanted = 1;
    qr_run_request run{};
    run.struct_size = sizeof run;
    run.profile = profile;
    run.inputs = &input;
    run.input_count = plugin.context->input_count(context, 0);
    run.outputs = outputs;
    run.output_count = plugin.context->output_count(context, 0);
    // A damaged blob may ask for other tensors than the sample has; a host would give those.
    if (run.input_count == 1 && run.output_count == 2) code = plugin.execution->run(execution, &run, &host.errors);
    if (code == 0 && outputs[0].used_bytes == 16 && out_y) {
      std::memcpy(out_y, outputs[0].data, 16);
      *out_positions = outputs[1].dims[1];
    }
    plugin.execution->destroy(execution);
  }
  plugin.context->destroy(context);
  return code;
}

}  // namespace

TEST_CASE("plugin compiles loads and runs") {
  Host host;
  const qr_plugin &plugin = table(host);
  qr_backend *backend = nullptr;
  CHECK_EQ(plugin.create(&host.table, &backend, &host.errors), 0);
  qr_plugin_device_info device{};
  device.struct_size = sizeof device;
  CHECK_EQ(plugin.device->info(backend, 0, &device, &host.errors), 0);
  CHECK((device.usable == 1 && !view(device.name).empty()));
  {
    Sample sample;
    qr_verdict_sink verdicts{sizeof verdicts, 0, &host, [](void *, const qr_plugin_verdict *verdict) {
                               CHECK_EQ(verdict->supported, 1);
                               CHECK_EQ(verdict->path, QR_PLUGIN_PATH_REFERENCE);
                             }};
    CHECK_EQ(plugin.compiler->check(backend, &sample.request, &verdicts, &host.errors), 0);
    CollectedBlob compiled;
    CHECK_EQ(plugin.compiler->compile(backend, &sample.request, &compiled.sink, &host.errors), 0);
    CHECK_EQ(host.message, "");
    CHECK_EQ(compiled.plan.weights_bytes, 8u);
    CHECK_EQ(compiled.kept, 1u);
    qr_blob blob{sizeof blob, 1, {compiled.bytes, compiled.size, -1, 0, 0, 0}, &sample.loaded, 1, text(compiled.target),
                 text(""),    1};
    qr_load_request load{};
    load.struct_size = sizeof load;
    load.blob = &blob;
    std::int32_t grade = 0;
    CHECK_EQ(plugin.context->grade(backend, &load, &grade, &host.errors), 0);
    CHECK_EQ(grade, QR_PLUGIN_GRADE_OPTIMAL);
    blob.version = 2;
    CHECK_EQ(plugin.context->grade(backend, &load, &grade, &host.errors), 0);
    CHECK_EQ(grade, QR_PLUGIN_GRADE_RECOMPILE);
    CHECK_EQ(host.message, "blob: found version 2, expected 1");
    float y[4] = {};
    i64 positions = 0;
    CHECK_EQ(load_and_run(host, plugin, backend, blob, y, &positions), 0);
    CHECK((y[0] == -11 && y[1] == 0 && y[3] == -2));
    CHECK_EQ(positions, 3);

    // Each node reports what it ran with: NonZero's shape is known after the run.
    std::string told;
    qr_profile_sink profile{sizeof profile, QR_PLUGIN_PROFILE_LINTING, &told,
                            [](void *self, const qr_plugin_event *event) {
                              std::string &to = *static_cast<std::string *>(self);
                              to += std::to_string(event->node) + " " + std::string(view(event->op));
                              for (std::uint64_t i = 0; i < event->attribute_count; ++i)
                                to += " " + std::string(view(event->attributes[i].value));
                              for (std::uint64_t i = 0; i < event->counter_count; ++i)
                                to += " " + std::to_string(event->counters[i].value);
                              to += "\n";
                            },
                            nullptr};
    CHECK_EQ(load_and_run(host, plugin, backend, blob, y, &positions, &profile), 0);
    CHECK_EQ(told,
             "0 Add reference 2x2 f32, 2 f32 -> 2x2 f32 24 16\n"
             "1 Neg reference 2x2 f32 -> 2x2 f32 16 16\n"
             "2 NonZero reference 2x2 f32 -> 2x3 i64 16 48\n");
    told.clear();
    profile.level = QR_PLUGIN_PROFILE_BASIC;
    CHECK_EQ(load_and_run(host, plugin, backend, blob, y, &positions, &profile), 0);
    CHECK_EQ(told, "");
  }
  plugin.destroy(backend);
  CHECK_EQ(host.alive, 0);
}

TEST_CASE("damaged blobs are refused or run") {
  Host host;
  const qr_plugin &plugin = table(host);
  qr_backend *backend = nullptr;
  CHECK_EQ(plugin.create(&host.table, &backend, &host.errors), 0);
  {
    Sample sample;
    CollectedBlob good, bad;
    REQUIRE_EQ(plugin.compiler->compile(backend, &sample.request, &good.sink, &host.errors), 0);
    REQUIRE(good.size > 0);
    qr_blob blob{sizeof blob, 1, {bad.bytes, good.size, -1, 0, 0, 0}, &sample.loaded, 1, text(good.target),
                 text(""),    1};
    int accepted = 0;
    for (std::uint64_t length = 0; length < good.size; ++length) {
      std::memcpy(bad.bytes, good.bytes, good.size);
      blob.bytes.size = length;
      accepted += load_and_run(host, plugin, backend, blob, nullptr, nullptr) == 0;
    }
    CHECK_EQ(accepted, 0);
    blob.bytes.size = good.size;
    std::uint32_t random = 1;
    for (int flip = 0; flip < 4000; ++flip) {
      std::memcpy(bad.bytes, good.bytes, good.size);
      random = random * 1664525u + 1013904223u;
      bad.bytes[(random >> 8) % good.size] ^= static_cast<std::uint8_t>(1u << (random >> 29));
      host.message.clear();
      if (load_and_run(host, plugin, backend, blob, nullptr, nullptr) != 0) CHECK(!host.message.empty());
    }
    // A segment that is too short for what the graph says.
    qr_plugin_segment cut{sample.segment.data, 4, -1, 0, 0, 0};
    std::memcpy(bad.bytes, good.bytes, good.size);
    blob.segments = &cut;
    CHECK(load_and_run(host, plugin, backend, blob, nullptr, nullptr) != 0);
  }
  plugin.destroy(backend);
  CHECK_EQ(host.alive, 0);
}

TEST_CASE("out of memory anywhere leaks nothing") {
  Sample sample;
  i64 needed = 0;
  for (i64 fails_at = -1; fails_at < needed; ++fails_at) {
    Host host;
    host.fails_at = fails_at;
    const qr_plugin &plugin = table(host);
    qr_backend *backend = nullptr;
    qr_plugin_code code = plugin.create(&host.table, &backend, &host.errors);
    if (code == 0) {
      CollectedBlob compiled;
      code = plugin.compiler->compile(backend, &sample.request, &compiled.sink, &host.errors);
      if (code == 0) {
        qr_blob blob{sizeof blob,    1, {compiled.bytes, compiled.size, -1, 0, 0, 0},
                     &sample.loaded, 1, text(compiled.target),
                     text(""),       1};
        code = load_and_run(host, plugin, backend, blob, nullptr, nullptr);
      }
      plugin.destroy(backend);
    }
    if (fails_at < 0) needed = host.allocations;
    CHECK_EQ(code, fails_at < 0 ? 0 : 8);  // QR_RESOURCE_EXHAUSTED
    CHECK_EQ(host.alive, 0);
  }
  CHECK(needed > 20);
}

TEST_CASE("who was asked to stop stays stopped when the abort is taken back") {
  std::uint32_t word = 0;
  qr_plugin_signal signal{};
  signal.struct_size = sizeof signal;
  signal.aborted = &word;
  const qr_host host{};
  const plugin::StopToken stop(&signal, host);
  CHECK_FALSE(stop.stopped());
  CHECK_OK(stop.status("run"));
  word = 1;
  CHECK(stop.stopped());
  word = 0;
  CHECK(stop.stopped());
  CHECK_EQ(stop.status("run").code(), QR_CANCELLED);
  CHECK_EQ(stop.status("run").message(), "run: the signal was aborted");
  CHECK_FALSE(plugin::StopToken(&signal, host).stopped());  // another call
}
