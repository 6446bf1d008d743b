// SPDX-License-Identifier: Apache-2.0
// A real plugin when memory runs out: the Nth allocation fails, for every N, once alone and once with all that follow.
// Every call then ends in RESOURCE_EXHAUSTED or success, and nothing is left over.
#include <cstdlib>
#include <cstring>

#include "graph/graph.h"
#include "loader/plugin.h"
#include "tests/support/check.h"

using namespace quarry;
using namespace quarry::loader;

namespace {

class FailingEnvironment final : public HostEnvironment, public Allocator {
 public:
  Allocator &allocator() noexcept override { return *this; }
  void log(qr_log_level, std::uint32_t flags, std::string_view, std::string_view message) noexcept override {
    if (flags & QR_LOG_PLUGIN_MISBEHAVES) FAIL_CHECK("misbehaving: ", message);
  }
  bool knows_option(std::string_view key) noexcept override { return key == "qnn_context_priority"; }
  void *allocate(std::size_t size, std::size_t align) noexcept override {
    ++calls;
    if (fail_at && (calls == fail_at || (fail_after && calls > fail_at))) {
      failed = true;
      return nullptr;
    }
    void *ptr = nullptr;
    if (posix_memalign(&ptr, align, size ? size : 1) != 0) return nullptr;
    ++live;
    bytes += size;
    return ptr;
  }
  void deallocate(void *ptr, std::size_t size, std::size_t) noexcept override {
    --live;
    bytes -= size;
    free(ptr);
  }
  std::uint64_t calls = 0, fail_at = 0, live = 0, bytes = 0;
  bool fail_after = false, failed = false;
};

// y = relu(x) + c; z = nonzero(relu(x)), over 2x3.
struct Model {
  float c[6] = {1, 2, 3, 4, 5, 6};
  std::vector<std::uint8_t> qir, pool;

  Model() {
    qir::Graph graph;
    const auto tensor = [&](const char *name, DType dtype, std::int64_t columns) {
      qir::Tensor made;
      made.name = name;
      made.dtype = dtype;
      made.shape = {2, columns};
      graph.tensors.push_back(std::move(made));
      return static_cast<std::int32_t>(graph.tensors.size() - 1);
    };
    const auto node = [&](qir::Op op, Vector<std::int32_t> inputs, std::int32_t output) {
      qir::Node made;
      made.op = op;
      made.name = qir::op_name(op);
      made.inputs = std::move(inputs);
      made.outputs = {output};
      graph.nodes.push_back(std::move(made));
    };
    graph.name = "g";
    const auto x = tensor("x", DType::F32, 3), r = tensor("r", DType::F32, 3), y = tensor("y", DType::F32, 3),
               z = tensor("z", DType::I64, qir::kUnknownDim), constant = tensor("c", DType::F32, 3);
    graph.tensors.back().is_constant = true;
    graph.tensors.back().data = {c, sizeof c};
    graph.inputs = {x};
    graph.outputs = {y, z};
    node(qir::Op::Relu, {x}, r);
    node(qir::Op::Add, {r, constant}, y);
    node(qir::Op::NonZero, {r}, z);
    qir::ConstantPool constants;
    auto bytes = qir::write_graph(graph, constants);
    REQUIRE_OK(bytes);
    qir.assign(bytes->begin(), bytes->end());
    pool.resize(constants.size());
    constants.write_to(pool.data());
  }
};

void run_serially(void *, std::uint64_t count, std::uint64_t, qr_parallel_body body, void *context) {
  body(context, 0, count, 0);
}

// From the file to the results of two runs.
Status whole_way(HostEnvironment &environment, const Model &model) try {
  AllocatorScope scope(environment.allocator());
  QR_ASSIGN_OR_RETURN(auto plugin, Plugin::open_file(environment, QR_SCRIPTED_PLUGIN));
  const qr_plugin_bytes segment{model.pool.data(), model.pool.size()};
  const qr_host_threads threads{sizeof threads, 1, nullptr, run_serially};
  const qr_plugin_option option{{"scripted.script", 15}, {"grade=2", 7}};
  const qr_plugin_graph graph{sizeof graph, 0, {"", 0}, {model.qir.data(), model.qir.size()}, &segment, 1};
  const qr_plugin_graph *const graphs[] = {&graph};
  const qr_compile_request request{sizeof request, 0, graphs, 1, &option, 1, nullptr, &threads, nullptr, nullptr};
  Vector<Verdict> verdicts;
  QR_RETURN_IF_ERROR(plugin->check(request, 3, verdicts));
  for (const Verdict &verdict : verdicts) CHECK(verdict.supported);
  QR_ASSIGN_OR_RETURN(const CompiledBlob compiled, plugin->compile(request));
  CHECK_EQ(compiled.segments.size(), 2u);

  Vector<qr_plugin_segment> segments;
  for (const CompiledSegment &made : compiled.segments)
    segments.push_back(made.kept ? qr_plugin_segment{segment.data, segment.size, -1, 0, 0, 0}
                                 : qr_plugin_segment{made.bytes.data(), made.bytes.size(), -1, 0, 0, 0});
  const qr_blob blob{sizeof blob,
                     plugin->blob_version(),
                     {compiled.blob.data(), compiled.blob.size(), -1, 0, 0, 0},
                     segments.data(),
                     segments.size(),
                     {compiled.target.data(), compiled.target.size()},
                     {compiled.key.data(), compiled.key.size()},
                     1};
  const qr_load_request load{sizeof load, 0, &blob, nullptr, 0, nullptr, {nullptr, 0}, nullptr, nullptr};
  QR_ASSIGN_OR_RETURN(const Grade grade, plugin->grade(load));
  CHECK_EQ(grade.grade, QR_PLUGIN_GRADE_USABLE);
  QR_ASSIGN_OR_RETURN(auto context, plugin->load(load));
  qr_plugin_memory_request wanted{};
  wanted.struct_size = sizeof wanted;
  wanted.size_bytes = 64;
  QR_ASSIGN_OR_RETURN(auto memory, plugin->allocate(wanted));
  QR_ASSIGN_OR_RETURN(auto execution, context->create_execution(0, nullptr, 0, 0));

  const float x[6] = {-1, 2, 0, 3, -4, 5}, expected[6] = {1, 4, 3, 7, 5, 11};
  const std::int64_t places[6] = {0, 1, 1, 1, 0, 2};
  for (int round = 0; round < 2; ++round) {
    qr_io_buffer in{}, out[2] = {};
    in.data = const_cast<float *>(x);
    in.size_bytes = sizeof x;
    out[0].data = memory->data();
    out[0].memory = memory->handle();
    out[0].size_bytes = sizeof expected;
    out[0].wanted = out[1].wanted = 1;
    const qr_run_request run{sizeof run, 0, &in, 1, out, 2, nullptr, nullptr, &threads};
    QR_RETURN_IF_ERROR(execution->run(run));
    CHECK(std::memcmp(memory->data(), expected, sizeof expected) == 0);
    CHECK_EQ(out[1].used_bytes, sizeof places);
    CHECK(std::memcmp(out[1].data, places, sizeof places) == 0);
  }
  const std::uint32_t *answer = static_cast<const std::uint32_t *>(plugin->extension("test.answer/1"));
  CHECK((answer && *answer == 42));
  CHECK(plugin->extension("test.answer/2") == nullptr);
  return {};
} catch (const std::bad_alloc &) {
  return Status::out_of_memory();
}

}  // namespace

TEST_CASE("every allocation may fail") {
  const Model model;
  FailingEnvironment counting;
  CHECK_OK(whole_way(counting, model));
  CHECK_EQ(counting.live, 0u);
  CHECK_EQ(counting.bytes, 0u);
  CHECK(counting.calls > 100);
  for (const bool after : {false, true}) {
    for (std::uint64_t n = 1; n <= counting.calls; ++n) {
      FailingEnvironment environment;
      environment.fail_at = n;
      environment.fail_after = after;
      Status status = whole_way(environment, model);
      CHECK(environment.failed);
      if (!status.ok() && status.code() != QR_RESOURCE_EXHAUSTED)
        FAIL_CHECK("allocation ", std::to_string(n), ": ", status.id(), " ", status.message());
      status = {};  // it says what could not be had, where there is memory for that
      CHECK_EQ(environment.live, 0u);
      CHECK_EQ(environment.bytes, 0u);
    }
  }
}

TEST_CASE("a damaged blob is refused") {
  const Model model;
  FailingEnvironment environment;
  AllocatorScope scope(environment);
  auto plugin = Plugin::open_file(environment, QR_SCRIPTED_PLUGIN);
  REQUIRE_OK(plugin);
  const qr_plugin_segment both[2] = {{model.pool.data(), model.pool.size(), -1, 0, 0, 0}, {"x", 1, -1, 0, 0, 0}};
  // A blob as compile of the scripted backend writes it: how many graphs, where each is, and its QIR.
  const std::vector<std::uint8_t> whole = [&] {
    const std::uint64_t head[] = {1, 64, model.qir.size(), 1};
    std::vector<std::uint8_t> bytes(64);
    std::memcpy(bytes.data(), "script04", 8);
    std::memcpy(bytes.data() + 8, head, sizeof head);
    bytes.insert(bytes.end(), model.qir.begin(), model.qir.end());
    return bytes;
  }();
  const auto outcome_of = [&](const std::vector<std::uint8_t> &bytes, std::size_t size, std::uint64_t segments) {
    const qr_blob blob{sizeof blob,    4, {bytes.data(), size, -1, 0, 0, 0}, both, segments, {"scripted-v1", 11},
                       {"grade=1", 7}, 1};
    const qr_load_request load{sizeof load, 0, &blob, nullptr, 0, nullptr, {nullptr, 0}, nullptr, nullptr};
    return test::outcome((*plugin)->load(load));
  };
  const auto is_refused = [](const std::string &outcome) {  // with an error of a blob or a graph, and its reason
    return (outcome.starts_with("QR-B") || outcome.starts_with("QR-G")) && outcome.size() > 20;
  };
  CHECK_EQ(outcome_of(whole, whole.size(), 2), "ok");
  const std::uint64_t live = environment.live;
  for (std::size_t size = 0; size + 8 < whole.size(); ++size) {  // the last bytes may be padding
    const std::string outcome = outcome_of(whole, size, 2);
    CHECK_MESSAGE(is_refused(outcome), size, " bytes: ", outcome);
  }
  const std::string without = outcome_of(whole, whole.size(), 0);
  CHECK_MESSAGE(is_refused(without), "without its segments: ", without);
  std::uint64_t state = 7;
  int loaded = 0, refused = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::uint8_t> bytes = whole;
    for (int i = 0; i < 3; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      bytes[(state >> 33) % bytes.size()] = static_cast<std::uint8_t>(state >> 24);
    }
    const std::string outcome = outcome_of(bytes, bytes.size(), 2);
    if (outcome == "ok") ++loaded;  // a graph that is whole all the same
    else if (is_refused(outcome)) ++refused;
    else FAIL_CHECK("round ", round, ": ", outcome);
  }
  CHECK(loaded > 0);
  CHECK(refused > 500);
  CHECK_EQ(environment.live, live);
}
