// SPDX-License-Identifier: Apache-2.0
// A custom operator from an ONNX model to the backends: shown by inspect, and refused by name by those that have no
// package for it.
#include <quarry/quarry.hpp>

#include "tests/support/check.h"
#include "tests/unit/onnx/model_text.h"

namespace {

using quarry::test::ModelText;

// y = relu(my.domain::MyOp(x)), version 2
std::string model_bytes() {
  ModelText text(13);
  auto *import = text.proto.add_opset_import();
  import->set_domain("my.domain");
  import->set_version(2);
  text.input("x", {2, 2});
  auto *node = text.node("MyOp", {"x"}, {"hidden"}, "my.domain");
  node->set_name("mine");
  ModelText::set(node, "mode", "fast");
  ModelText::fill(text.proto.mutable_graph()->add_value_info(), "hidden", 1, {2, 2});
  text.node("Relu", {"hidden"}, {"y"});
  text.output("y", {2, 2});
  return text.bytes();
}

bool has(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

const char *const kRefusal = "custom operator my.domain::MyOp version 2: this backend has no package for it";

}  // namespace

TEST_CASE("inspect shows custom operators") {
  const std::string bytes = model_bytes();
  qr::Runtime runtime;
  const qr::Model model(runtime, bytes.data(), bytes.size());
  CHECK(has(model.inspect(), "\"my.domain::MyOp\": 1"));
}

TEST_CASE("processors refuse custom operators by name") {
  const std::string bytes = model_bytes();
  qr::Runtime runtime;
  const qr::Model model(runtime, bytes.data(), bytes.size());
  for (const char *backend : {"cpu", "cpu-reference"}) {
    const qr::Options options(runtime, {{"backend", backend}});
    const std::string report = model.check_nodes(options);
    CHECK((has(report, "\"refused\": 1") && has(report, "\"op\": \"my.domain::MyOp\"") && has(report, kRefusal)));
    CHECK(has(report, "choose a backend that has a package for it"));
    for (const bool compile : {false, true}) {
      try {
        if (compile) model.compile("/tmp/quarry-custom-never-written.qrm", &options);
        else qr::Session session(model, &options);
        FAIL_CHECK("a custom operator was taken");
      } catch (const qr::Error &error) {
        CHECK_EQ(error.message(), "backend " + std::string(backend) +
                                      " refuses 1 of 2 nodes; the first: node mine (my.domain::MyOp): " + kRefusal +
                                      " [QR-B0002]; choose a backend that has a package for it, or take the operator "
                                      "out of the model");
      }
    }
  }
}

TEST_CASE("a backend without operators names them too") {
  const std::string bytes = model_bytes();
  qr::Runtime runtime;
  const qr::Model model(runtime, bytes.data(), bytes.size());
  const std::string report = model.check_nodes(qr::Options(runtime, {{"backend", "null"}}));
  CHECK(has(report, "found my.domain::MyOp, expected nothing"));
}
