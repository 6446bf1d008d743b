// SPDX-License-Identifier: Apache-2.0
// A custom operator from an ONNX model to the backends: shown by inspect, refused by name by those that have no package
// for it, run by the scripted backend, which has one.
#include <unistd.h>

#include <filesystem>

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

TEST_CASE("a backend with a package gets the operator whole and runs it") {
  ModelText text(13);
  auto *import = text.proto.add_opset_import();
  import->set_domain("test.scripted");
  import->set_version(1);
  text.input("x", {-1, 2});
  auto *node = text.node("Tabled", {"x"}, {"hidden"}, "test.scripted");
  ModelText::set(node, "offset", 0.5f);
  auto *table = node->add_attribute();
  table->set_name("table");
  table->set_type(::onnx::AttributeProto_AttributeType_TENSOR);
  table->mutable_t()->set_data_type(1);
  table->mutable_t()->add_dims(3);
  for (const float value : {1.f, -10.f, 100.f}) table->mutable_t()->add_float_data(value);
  ModelText::fill(text.proto.mutable_graph()->add_value_info(), "hidden", 1, {-1, 2});
  text.node("Relu", {"hidden"}, {"y"});
  text.output("y", {-1, 2});
  const std::string bytes = text.bytes();
  const std::string file =
      (std::filesystem::temp_directory_path() / ("quarry-custom-" + std::to_string(getpid()) + ".qrm")).string();
  qr::Runtime runtime;
  const qr::Options options(runtime, {{"backend", "scripted"}, {"shape", "n=2"}});
  const qr::Model onnx(runtime, bytes.data(), bytes.size());
  CHECK(has(onnx.check_nodes(options), "\"kernel\": \"scripted_package\""));
  onnx.compile(file, &options);
  const qr::Model container(runtime, file);
  container.verify();
  CHECK(has(container.inspect(), "\"test.scripted::Tabled\": 1"));
  const qr::Options plain(runtime, {{"backend", "scripted"}});  // a container's shapes are bound already
  for (const qr::Model *model : {&onnx, &container}) {
    qr::Session session(*model, model == &onnx ? &options : &plain);
    CHECK(has(session.report(), "\"op\": \"test.scripted::Tabled\""));
    const float x[4] = {1, 2, 3, -4};
    const auto results = session.run({qr::Tensor::of(x, {2, 2})});
    REQUIRE_EQ(results.size(), 1u);
    CHECK(results[0].shape() == std::vector<std::int64_t>{2, 2});
    const float expected[4] = {1.5f, 0, 300.5f, 0};  // 1 * 1, 2 * -10, 3 * 100, -4 * 1; each + 0.5; not under 0
    for (int i = 0; i < 4; ++i) CHECK_EQ(results[0].data<float>()[i], expected[i]);
  }
  std::filesystem::remove(file);

  // Another version is another operator.
  import->set_version(2);
  const std::string newer = text.bytes();
  const qr::Model refused(runtime, newer.data(), newer.size());
  CHECK(has(refused.check_nodes(options), "custom operator test.scripted::Tabled version 2: the package has"));
}
