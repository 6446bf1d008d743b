// SPDX-License-Identifier: Apache-2.0
// Files of overrides: what is read, and what is refused by name.
#include "quantize/plan/overrides.h"

#include "tests/support/check.h"

using namespace quarry;
using namespace quarry::quantize;

namespace {

std::string refusal(std::string_view text, bool is_yaml) {
  const auto read = parse_overrides(text, is_yaml, "file");
  return read.ok() ? "" : std::string(read.status().message());
}

}  // namespace

TEST_CASE("ONNX Runtime's TensorQuantOverrides as JSON, and the same as YAML") {
  constexpr std::string_view kJson = R"({
    "Op2_out": [{"quant_type": "QUInt8", "convert": {"quant_type": "QUInt16", "recv_nodes": ["Op4", "Op 9"]}}],
    "onnx::Conv_1": [{"quant_type": "QuantType.QInt8", "axis": 0, "rmax": 1.5, "symmetric": true}, {"rmax": 2}],
    "x": [{"scale": 0.5, "zero_point": 3}], "nothing": []})";
  constexpr std::string_view kYaml = R"(
# what is said of tensors
Op2_out:
  type: u8
  convert: {type: u16, nodes: [Op4, "Op 9"]}   # a comment
onnx::Conv_1:
- quant_type: i8
  axis: 0
  rmax: 1.5
  symmetric: true
- rmax: 2
'x':
  - scale: 0.5
    zero_point: 3
)";
  for (const bool is_yaml : {false, true}) {
    auto read = parse_overrides(is_yaml ? kYaml : kJson, is_yaml, "file");
    REQUIRE_OK(read);
    const Overrides &all = read.value();
    CHECK(all.size() == 3);
    const TensorOverride &op2 = all.at("Op2_out"), &weights = all.at("onnx::Conv_1"), &x = all.at("x");
    CHECK(op2.own.dtype == DType::U8);
    CHECK(op2.has_convert);
    CHECK(op2.convert.dtype == DType::U16);
    CHECK(!op2.all_receive);
    CHECK(op2.receivers == Vector<String>{"Op4", "Op 9"});
    CHECK(weights.own.dtype == DType::I8);
    CHECK(weights.own.axis == 0);
    CHECK(weights.own.symmetric == true);
    REQUIRE(weights.channels.size() == 2);
    CHECK(weights.channels[0].high == 1.5);
    CHECK(weights.channels[1].high == 2.0);
    CHECK(x.own.scale == 0.5f);
    CHECK(x.own.zero_point == 3);
  }
}

TEST_CASE("overrides that are none are refused with the tensor or the line") {
  for (const auto &[text, is_yaml, part] : {
           std::tuple{"[1]", false, "found no mapping of tensors' names"},
           {"{", false, "found a text that is no JSON"},
           {R"({"a": [{"quant_type": "QUInt9"}]})", false, "tensor 'a': quant_type: found \"QUInt9\""},
           {R"({"a": [{"type": "f32"}]})", false, "quant_type: found \"f32\""},
           {R"({"a": [{"color": 1}]})", false, "found the key \"color\""},
           {R"({"a": [{"scale": 1}]})", false, "found one of scale and zero_point"},
           {R"({"a": [{"scale": 0, "zero_point": 0}]})", false, "expected more than 0"},
           {R"({"a": [{"scale": 1, "zero_point": 0, "rmin": 1}]})", false, "beside symmetric, rmin or rmax"},
           {R"({"a": [{"rmin": 2, "rmax": 1}]})", false, "rmin over rmax"},
           {R"({"a": [{"rmin": "low"}]})", false, "rmin: found \"low\", expected a number"},
           {R"({"a": [{"reduce_range": true}]})", false, "reduce_range"},
           {R"({"a": [{"convert": {}}]})", false, "convert: found no quant_type"},
           {R"({"a": [{"convert": {"type": "u16", "axis": 0}}]})", false, "found the key \"axis\""},
           {R"({"a": [{"convert": {"type": "u16", "recv_nodes": [1]}}]})", false, "expected names of nodes"},
           {R"({"a": [{"type": "u8"}, {"type": "u8"}]})", false, "several encodings without an axis"},
           {R"({"a": 3})", false, "found no mapping of keys"},
           {"a:\n  type: u8\n  type: u16\n", true, "line 3: found the key \"type\" twice"},
           {"a:\n    type: u8\n  low: 1\n", true, "line 3"},
           {"a: [1, 2\n", true, "line 1"},
           {"a: \"x\n", true, "no closing quote"},
           {"just words\n", true, "found no \"key: value\""},
           {"a: {b c}\n", true, "in braces"},
           {"  a: 1\nb: 2\n", true, "line 2"},
       }) {
    CAPTURE(text);
    CHECK(refusal(text, is_yaml).find(part) != std::string::npos);
  }
  std::string deep;
  for (int i = 0; i < 1000; ++i) deep += std::string(static_cast<std::size_t>(i), ' ') + "a:\n";
  CHECK(refusal(deep, true).find("levels") != std::string::npos);
  CHECK(refusal("a: " + std::string(1000, '['), true).find("levels") != std::string::npos);
  CHECK(refusal("", true).empty());
  CHECK(!read_overrides("/nowhere/overrides.json").ok());
}
