// SPDX-License-Identifier: Apache-2.0
// Packages of operators of the user's own (op_packages) on the stand-in: what is registered, and what nodes become.
#include "tests/plugins/standin_fixture.h"

using namespace quarry::test;

namespace {

// y = my.domain::MyOp(relu(x)), with an attribute of each kind.
std::string custom_model(std::vector<std::int64_t> ints = {1, 2, 3}) {
  ModelText text(13);
  auto *import = text.proto.add_opset_import();
  import->set_domain("my.domain");
  import->set_version(2);
  text.input("x", {1, 8});
  text.node("Relu", {"x"}, {"hidden"});
  auto *node = text.node("MyOp", {"hidden"}, {"y"}, "my.domain");
  node->set_name("mine");
  ModelText::set(node, "mode", "fast");
  ModelText::set(node, "count", std::int64_t{7});
  ModelText::set(node, "sizes", ints);
  text.output("y", {1, 8});
  return text.bytes();
}

constexpr char kPackages[] =
    "MyOp:/a/libmine.so:MineInterface:CPU,Other:/a/libmine.so:MineInterface:CPU,MyOp:/b/libdsp.so:Dsp";

}  // namespace

TEST_CASE("packages are registered where is compiled and where is loaded, each once; nodes name their package") {
  const Standin standin;
  qr::Runtime runtime;
  qr::Session made = session(runtime, {{"op_packages", kPackages}}, custom_model());
  CHECK(run(made));
  // For the check, the compilation and the session.
  CHECK_EQ(standin.count("backendRegisterOpPackage /a/libmine.so MineInterface CPU"), standin.count("backendCreate"));
  CHECK_EQ(standin.count("backendRegisterOpPackage /b/libdsp.so Dsp -"), standin.count("backendCreate"));
  CHECK_EQ(standin.count("graphAddNode my.domain::MyOp inputs=1 outputs=1"), 1u);
  CHECK((standin.has("  param mode=fast0") && standin.has("  param count=7") && standin.has("  param sizes=[3]")));
  // Another session without them has another backend object.
  standin.begin_log();
  qr::Session plain = session(runtime);
  CHECK(run(plain));
  CHECK_EQ(standin.count("backendRegisterOpPackage"), 0u);
}

TEST_CASE("packages that are refused, or not there") {
  const Standin standin;
  qr::Runtime runtime;
  CHECK(says(failure([&] { session(runtime, {}, custom_model()); }, QR_UNSUPPORTED),
             {"custom operator my.domain::MyOp version 2", "no package for it", "op_packages"}));
  const auto refused = [&](const char *packages, std::initializer_list<const char *> parts, qr_code code) {
    CAPTURE(packages);
    CHECK(says(failure([&] { session(runtime, {{"op_packages", packages}}, custom_model()); }, code), parts));
  };
  refused("MyOp:/a/libmine.so", {"op_packages", "'MyOp:/a/libmine.so'", "operator:path:symbol"}, QR_INVALID_ARGUMENT);
  refused("MyOp:/a:b:c:d", {"op_packages", "operator:path:symbol:target"}, QR_INVALID_ARGUMENT);
  refused("Other:/a/libmine.so:I", {"my.domain::MyOp version 2", "no package for it"}, QR_UNSUPPORTED);
  standin.tell("fail=backendRegisterOpPackage:4005");
  refused("MyOp:/a/libmine.so:I", {"backendRegisterOpPackage", "/a/libmine.so", "4005"}, QR_INTERNAL);
  standin.tell("");
  const std::string wide = custom_model({1, std::int64_t{1} << 40});
  CHECK(says(failure(
                 [&] {
                   session(runtime, {{"op_packages", kPackages}}, wide);
                 },
                 QR_UNSUPPORTED),
             {"attribute sizes", "64 bits"}));
}
