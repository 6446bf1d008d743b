// SPDX-License-Identifier: Apache-2.0
// Chains of one operator, as long as a file says, on a thread of little stack: nobody who reads, rewrites or compiles
// them calls himself from node to node.
#include <pthread.h>

#include "backends/cpu-reference/program.h"
#include "backends/cpu/compile/compile.h"
#include "backends/cpu/program/blob.h"
#include "kernels/cpu/isa.h"
#include "passes/fuse/compose.h"
#include "passes/passes.h"
#include "prepare/lower.h"
#include "tests/support/check.h"
#include "tests/unit/onnx/model_text.h"

using namespace quarry;
using test::ModelText;

namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// Frames are many times as large, none of a call from node to node less than 100 bytes; and each node takes ten times
// as long.
constexpr int kNodes = 30000;
constexpr std::size_t kStack = 2 << 20;
#else
constexpr int kNodes = 100000;
constexpr std::size_t kStack = 256 << 10;
#endif

struct Chain {
  const char *op;
  void (*add)(ModelText &text, const std::string &from, const std::string &to);
};

const Chain kChains[] = {
    {"Relu", [](ModelText &t, const std::string &from, const std::string &to) { t.node("Relu", {from}, {to}); }},
    {"Identity",
     [](ModelText &t, const std::string &from, const std::string &to) { t.node("Identity", {from}, {to}); }},
    {"Mul",
     [](ModelText &t, const std::string &from, const std::string &to) {
       t.node("Mul", {from, "k"}, {to});
     }},
    {"Mul of itself",
     [](ModelText &t, const std::string &from, const std::string &to) {
       t.node("Mul", {from, from}, {to});
     }},
    {"Add",
     [](ModelText &t, const std::string &from, const std::string &to) {
       t.node("Add", {from, "k"}, {to});
     }},
    {"Div",
     [](ModelText &t, const std::string &from, const std::string &to) {
       t.node("Div", {from, "one"}, {to});
     }},
    {"Pow",
     [](ModelText &t, const std::string &from, const std::string &to) {
       t.node("Pow", {from, "one"}, {to});
     }},
    {"Slice",
     [](ModelText &t, const std::string &from, const std::string &to) {
       t.node("Slice", {from, "zero", "four", "zero"}, {to});
     }},
    {"Reshape",
     [](ModelText &t, const std::string &from, const std::string &to) {
       t.node("Reshape", {from, "shape"}, {to});
     }},
    {"Transpose",
     [](ModelText &t, const std::string &from, const std::string &to) { t.node("Transpose", {from}, {to}); }},
    {"Clip",
     [](ModelText &t, const std::string &from, const std::string &to) {
       t.node("Clip", {from, "one"}, {to});
     }},
    {"Sigmoid", [](ModelText &t, const std::string &from, const std::string &to) { t.node("Sigmoid", {from}, {to}); }},
    {"Softmax", [](ModelText &t, const std::string &from, const std::string &to) { t.node("Softmax", {from}, {to}); }},
    {"MatMul",
     [](ModelText &t, const std::string &from, const std::string &to) {
       t.node("MatMul", {from, "w"}, {to});
     }},
};

void go_through(const Chain &chain) {
  ModelText text(17);
  text.input("x", {1, 4});
  text.floats("k", {4}, {1, 2, 3, 4});
  text.floats("one", {}, {1});
  text.floats("w", {4, 4}, std::vector<float>(16, 0.25f));
  text.ints("zero", {0}), text.ints("four", {4}), text.ints("shape", {1, 4});
  for (int i = 0; i < kNodes; ++i)
    chain.add(text, i ? "t" + std::to_string(i - 1) : "x", i + 1 == kNodes ? "y" : "t" + std::to_string(i));
  text.output("y", {});
  const std::string bytes = text.bytes();
  auto model = onnx_import::Model::open({bytes.data(), bytes.size()}, OpenFd());
  REQUIRE_OK(model);
  Vector<onnx_import::InputBinding> bindings;
  for (const onnx_import::Declared &input : (*model)->inputs()) bindings.push_back({input.shape, {}});
  qir::Store store;
  Result<qir::Graph> graph = prepare::lower_graph(**model, bindings, store, nullptr);
  REQUIRE_OK(graph);
  qir::Graph other = *graph;
  qir::number_sources(other);
  passes::compose(other, store, passes::Composites::all(), nullptr);
  passes::simplify_movements(other, store);
  passes::steady_variances(other, store);
  passes::decompose_unsupported(other, store, [](const qir::Graph &, const qir::Node &) { return true; });
  REQUIRE_OK(reference::Program::build(*graph));
  cpu::CompileOptions options;
  options.isa = &kernels::best_isa();
  REQUIRE_OK(cpu::compile(*graph, {}, options));
}

}  // namespace

TEST_CASE("chains of 100,000 nodes need no stack") {
  for (const Chain &chain : kChains) {
    INFO(std::string(chain.op));
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    REQUIRE_EQ(pthread_attr_setstacksize(&attributes, kStack), 0);
    pthread_t thread;
    REQUIRE_EQ(pthread_create(
                   &thread, &attributes,
                   [](void *one) -> void * {
                     go_through(*static_cast<const Chain *>(one));
                     return nullptr;
                   },
                   const_cast<Chain *>(&chain)),
               0);
    pthread_join(thread, nullptr);
    pthread_attr_destroy(&attributes);
  }
}
