// SPDX-License-Identifier: Apache-2.0
// Which tensors are quantised, with what, and the graph that is written: on graphs that are worked out by hand.
#include "quantize/plan/plan.h"

#include <cmath>
#include <map>

#include "tests/unit/passes/pieces.h"

using namespace quarry;
using namespace quarry::quantize;
using namespace quarry::test;

namespace {

class Given final : public Ranges {
 public:
  std::map<std::int32_t, Range> ranges;
  Range otherwise{-1, 1};
  Range range(std::int32_t tensor, const Grid &) const override {
    const auto found = ranges.find(tensor);
    return found == ranges.end() ? otherwise : found->second;
  }
};

const qir::Tensor *find(const qir::Graph &graph, std::string_view name) {
  for (const qir::Tensor &tensor : graph.tensors)
    if (tensor.name == name) return &tensor;
  return nullptr;
}

// "X:u8" where X is a DequantizeLinear's own name without its ending.
std::string read_by(const qir::Graph &graph, std::string_view node) {
  std::string out;
  for (const qir::Node &one : graph.nodes) {
    if (one.name != node) continue;
    for (const i32 id : one.inputs) {
      std::string text = "?";
      for (const qir::Node &maker : graph.nodes)
        if (maker.op == Op::DequantizeLinear && maker.outputs[0] == id)
          text = dtype_name(qir::at(graph, maker.inputs[0]).dtype);
      out += (out.empty() ? "" : " ") + text;
    }
  }
  return out;
}

double scale_of(const qir::Graph &graph, std::string_view dequantizer) {
  for (const qir::Node &node : graph.nodes)
    if (node.name == dequantizer) return static_cast<double>(*qir::constant_floats(graph, node.inputs[1]));
  return 0;
}

}  // namespace

TEST_CASE("a convolution and its Relu: weights per channel, a bias in units of the products, no node for Relu") {
  Pieces p;
  const i32 x = p.input({1, 1, 2, 2});
  const i32 w = p.constant<float>(DType::F32, {2, 1, 1, 1}, {1.27f, -2.54f});
  const i32 b = p.constant<float>(DType::F32, {2}, {0.5f, -0.25f});
  const i32 y = p.node(Op::Relu, {p.node(Op::Conv, {x, w, b})});
  p.gives({y});
  const Settings settings;
  auto plan = lay_out(p.graph, settings, {});
  REQUIRE_OK(plan);
  CHECK(plan.value().absorbed[1]);
  CHECK(observed_tensors(p.graph, plan.value()).size() == 3);
  Given ranges;
  ranges.ranges = {{x, {-1.0, 1.55}}, {y, {0.0, 5.1}}};
  REQUIRE_OK(give_encodings(p.graph, settings, {}, ranges, &plan.value()));
  CHECK(std::fabs(plan.value().activations[static_cast<std::size_t>(x)].encoding.scale - 0.01f) < 1e-8f);
  CHECK(plan.value().activations[static_cast<std::size_t>(x)].encoding.zero_point == 100);
  const Constant *weights = plan.value().constant(0, 1), *bias = plan.value().constant(0, 2);
  REQUIRE(weights);
  REQUIRE(bias);
  CHECK(weights->quant.scales.size() == 2);
  CHECK(std::fabs(weights->quant.scales[1] - 0.02f) < 1e-8f);
  CHECK(weights->stored == Vector<i32>{127, -127});
  CHECK(bias->dtype == DType::I32);
  CHECK(bias->stored == Vector<i32>{5000, -1250});  // 0.5 / (0.01 * 0.01), -0.25 / (0.01 * 0.02)
  qir::Store store;
  const qir::Graph made = write_qdq(p.graph, plan.value(), store);
  REQUIRE_OK(qir::validate_graph(made));
  CHECK(ops(made) ==
        "QuantizeLinear DequantizeLinear DequantizeLinear DequantizeLinear Conv QuantizeLinear DequantizeLinear");
  CHECK(qir::at(made, made.outputs[0]).name == p.at(y).name);
  // The model as a backend sees it computes on integers alone.
  qir::Graph typed = made;
  passes::put_together_quantized(typed);
  CHECK(ops(typed) == "QuantizeLinear Conv DequantizeLinear");
}

TEST_CASE("what only moves values, or lies between them, shares one encoding") {
  Pieces p;
  const i32 x = p.input({1, 2, 4, 4}), y = p.input({1, 2, 2, 2});
  const i32 pooled =
      p.node(Op::MaxPool, {x}, {p.attribute("kernel_shape", Ints{2, 2}), p.attribute("strides", Ints{2, 2})});
  const i32 both = p.node(Op::Concat, {pooled, y}, {p.attribute("axis", std::int64_t{1})});
  p.gives({p.node(Op::Sigmoid, {both})});
  const Settings settings;
  auto plan = lay_out(p.graph, settings, {});
  REQUIRE_OK(plan);
  Given ranges;
  ranges.ranges = {{x, {-1, 1}}, {pooled, {-0.5, 1}}, {y, {0, 3}}, {both, {-0.5, 3}}};
  REQUIRE_OK(give_encodings(p.graph, settings, {}, ranges, &plan.value()));
  const auto encoding = [&](i32 id) { return plan.value().activations[index_of(id)].encoding; };
  CHECK(encoding(x) == encode({-1, 3}, {DType::U8, false}));
  CHECK(encoding(x) == encoding(pooled));
  CHECK(encoding(x) == encoding(both));
  CHECK(encoding(x) == encoding(y));
  CHECK(encoding(p.graph.outputs[0]) == encode({-1, 1}, {DType::U8, false}));  // as seen
}

TEST_CASE("16 bits: Sigmoid, Tanh and Softmax have the steps that QNN demands") {
  for (const auto &[op, scale, zero] :
       {std::tuple{Op::Sigmoid, 1.0f / 65536, 0}, {Op::Softmax, 1.0f / 65536, 0}, {Op::Tanh, 1.0f / 32768, 32768}}) {
    Pieces p;
    p.gives({p.node(op, {p.input({4})})});
    Settings settings;
    REQUIRE_OK(settings.set("activations", "u16"));
    auto plan = lay_out(p.graph, settings, {});
    REQUIRE_OK(plan);
    REQUIRE_OK(give_encodings(p.graph, settings, {}, Given(), &plan.value()));
    const Encoding found = plan.value().activations[static_cast<std::size_t>(p.graph.outputs[0])].encoding;
    CHECK(found == Encoding{DType::U16, scale, zero});
  }
}

// The example of ONNX Runtime's page on its QNN execution provider, "Mixed precision support".
TEST_CASE("one tensor of 16 bits: the nodes around it compute in 16 bits, and conversions stand at the border") {
  Pieces p;
  const i32 in0 = p.input({4}), in1 = p.input({4});
  const auto named = [&](i32 id, const char *node, const char *tensor) {
    p.graph.nodes.back().name = node;
    p.at(id).name = tensor;
    return id;
  };
  const i32 op1 = named(p.of(Op::Neg, in0), "Op1", "Op1_out");
  const i32 op2 = named(p.of(Op::Neg, in1), "Op2", "Op2_out");
  const i32 op3 = named(p.of(Op::Abs, op1), "Op3", "Op3_out");
  const i32 op4 = named(p.of(Op::Abs, op2), "Op4", "Op4_out");
  const i32 op5 = named(p.add(op3, op4), "Op5", "Op5_out");
  const i32 op6 = named(p.of(Op::Abs, op5), "Op6", "Op6_out");
  const i32 op7 = named(p.of(Op::Abs, op2), "Op7", "Op7_out");
  const i32 op8 = named(p.of(Op::Neg, op2), "Op8", "Op8_out");
  p.gives({op6, op7, op8});
  const Settings settings;
  Overrides overrides;
  overrides["Op4_out"].own.dtype = DType::U16;
  auto plan = lay_out(p.graph, settings, overrides);
  REQUIRE_OK(plan);
  REQUIRE_OK(give_encodings(p.graph, settings, overrides, Given(), &plan.value()));
  qir::Store store;
  const qir::Graph made = write_qdq(p.graph, plan.value(), store);
  REQUIRE_OK(qir::validate_graph(made));
  CHECK(read_by(made, "Op3") == "u8");
  CHECK(read_by(made, "Op4") == "u16");
  CHECK(read_by(made, "Op5") == "u16 u16");
  CHECK(read_by(made, "Op6") == "u8");
  CHECK(read_by(made, "Op7") == "u8");
  CHECK(read_by(made, "Op8") == "u8");
  for (const auto &[tensor, type] : {std::pair{"Op2_out", DType::U8},
                                     {"Op3_out", DType::U8},
                                     {"Op4_out", DType::U16},
                                     {"Op5_out", DType::U16},
                                     {"Op6_out", DType::U8}}) {
    const qir::Tensor *stored = find(made, std::string(tensor) + "_QuantizeLinear_Output");
    REQUIRE(stored);
    CHECK(stored->dtype == type);
  }
  // Three conversions and no more.
  std::string converted;
  for (const qir::Node &node : made.nodes)
    if (node.op == Op::QuantizeLinear && node.name.find("_convert_") != String::npos)
      converted += std::string(node.name.substr(0, 7)) + " ";
  CHECK(converted == "Op2_out Op3_out Op5_out ");
}

TEST_CASE("a bias too large for i32 in the units of its products gives its weights a larger scale") {
  Pieces p;
  const i32 x = p.input({1, 1, 1, 1});
  const i32 w = p.constant<float>(DType::F32, {1, 1, 1, 1}, {1e-9f});
  const i32 b = p.constant<float>(DType::F32, {1}, {1000.0f});
  p.gives({p.node(Op::Conv, {x, w, b})});
  const Settings settings;
  auto plan = lay_out(p.graph, settings, {});
  REQUIRE_OK(plan);
  REQUIRE_OK(give_encodings(p.graph, settings, {}, Given(), &plan.value()));
  const Constant *bias = plan.value().constant(0, 2);
  REQUIRE(bias);
  CHECK(std::fabs(bias->stored[0] * static_cast<double>(bias->quant.scales[0]) - 1000) < 1e-3);
  CHECK(bias->stored[0] <= 1 << 30);
}

TEST_CASE("a channel of zeros leaves its bias its precision") {
  Pieces p;
  const i32 x = p.input({1, 1, 1, 1});
  const i32 w = p.constant<float>(DType::F32, {2, 1, 1, 1}, {1.27f, 0.0f});
  const i32 b = p.constant<float>(DType::F32, {2}, {0.5f, 0.003f});
  p.gives({p.node(Op::Conv, {x, w, b})});
  const Settings settings;
  auto plan = lay_out(p.graph, settings, {});
  REQUIRE_OK(plan);
  REQUIRE_OK(give_encodings(p.graph, settings, {}, Given(), &plan.value()));
  const Constant *bias = plan.value().constant(0, 2);
  REQUIRE(bias);
  CHECK(std::fabs(bias->stored[1] * static_cast<double>(bias->quant.scales[1]) - 0.003) < 1e-4);
}

TEST_CASE("an output of 16 bits that nobody reads stays one") {
  Pieces p;
  const i32 y = p.of(Op::Neg, p.input({4}));
  p.gives({y});
  const Settings settings;
  Overrides overrides;
  overrides[p.at(y).name].own.dtype = DType::U16;
  auto plan = lay_out(p.graph, settings, overrides);
  REQUIRE_OK(plan);
  CHECK(!plan.value().activations[static_cast<std::size_t>(y)].has_convert);
  CHECK(plan.value().activations[static_cast<std::size_t>(y)].grid.dtype == DType::U16);
}

TEST_CASE("a node that stays in float reads what its maker gives, and is known by name or refused") {
  Pieces p;
  const i32 x = p.input({4});
  const i32 a = p.of(Op::Neg, x), b = p.of(Op::Abs, a), c = p.of(Op::Neg, b);
  p.gives({c});
  Settings settings;
  REQUIRE_OK(settings.set("float_operators", "Abs"));
  auto plan = lay_out(p.graph, settings, {});
  REQUIRE_OK(plan);
  CHECK(!plan.value().quantized[1]);
  REQUIRE_OK(give_encodings(p.graph, settings, {}, Given(), &plan.value()));
  qir::Store store;
  const qir::Graph made = write_qdq(p.graph, plan.value(), store);
  CHECK(read_by(made, p.graph.nodes[1].name) == "u8");
  CHECK(scale_of(made, std::string(p.at(b).name) + "_DequantizeLinear") > 0);
  REQUIRE_OK(settings.set("float_nodes", "nobody"));
  CHECK(lay_out(p.graph, settings, {}).status().id() == "QR-C0102");
}

TEST_CASE("a mask says no more than what brings every sum to its lower end") {
  Pieces p;
  const i32 x = p.input({1, 4}), m = p.input({1, 4});
  const i32 shaped = p.node(Op::Reshape, {m, p.constant<std::int64_t>(DType::I64, {2}, {1, 4})});
  const i32 y = p.node(Op::Add, {x, shaped});
  const i32 fixed = p.constant<float>(DType::F32, {1, 4}, {0, -1e9f, 0, -1e9f});
  const i32 z = p.node(Op::Add, {x, fixed});
  // An infinity is no end of a range; beside other values too, and where no Softmax bounds what it must say.
  const i32 forbids = p.constant<float>(DType::F32, {1, 4}, {0, -HUGE_VALF, 1, -HUGE_VALF});
  const i32 v = p.node(Op::Add, {x, forbids});
  const i32 alone = p.constant<float>(DType::F32, {1, 4}, {0, -HUGE_VALF, HUGE_VALF, 1});
  const i32 w = p.node(Op::Mul, {x, alone});
  p.gives({p.node(Op::Softmax, {y}), p.node(Op::Softmax, {z}), p.node(Op::Softmax, {v}), w});
  const Settings settings;
  auto plan = lay_out(p.graph, settings, {});
  REQUIRE_OK(plan);
  Given ranges;  // what a calibration sees: sums that are bounded below each row's greatest
  ranges.ranges = {{x, {-2, 4}},  {m, {-1e9, 0}}, {shaped, {-1e9, 0}}, {y, {-18, 4}},
                   {z, {-18, 4}}, {v, {-18, 5}},  {w, {-2, 4}}};
  REQUIRE_OK(give_encodings(p.graph, settings, {}, ranges, &plan.value()));
  const auto encoding = [&](i32 id) { return plan.value().activations[index_of(id)].encoding; };
  CHECK(encoding(m) == encode({-22, 0}, settings.activation_grid()));  // with 4 added it is still at -18
  CHECK(encoding(m) == encoding(shaped));
  CHECK(encoding(x) == encode({-2, 4}, settings.activation_grid()));
  bool found = false;
  for (const Constant &one : plan.value().constants)
    if (one.tensor == fixed) {
      found = true;
      CHECK(one.stored == Vector<i32>{255, 0, 255, 0});
      CHECK(std::fabs(static_cast<double>(one.quant.scales[0]) * 255 - 22) < 1e-3);
    }
  CHECK(found);
  const auto span = [&](i32 id) {
    for (const Constant &one : plan.value().constants)
      if (one.tensor == id) return covered({one.dtype, one.quant.scales[0], one.quant.zero_points[0]});
    return Range{};
  };
  CHECK(std::fabs(span(forbids).low + 22) < 0.2);  // from 1 to what brings 4 to -18
  CHECK(std::fabs(span(forbids).high - 1) < 0.2);
  CHECK(std::fabs(span(alone).low + 16) < 0.2);
  CHECK(std::fabs(span(alone).high - 17) < 0.2);
  // Where somebody else reads the mask it stays what it is.
  p.graph.outputs.push_back(p.node(Op::Sigmoid, {m}));
  auto again = lay_out(p.graph, settings, {});
  REQUIRE_OK(again);
  REQUIRE_OK(give_encodings(p.graph, settings, {}, ranges, &again.value()));
  CHECK(again.value().activations[static_cast<std::size_t>(m)].encoding ==
        encode({-1e9, 0}, settings.activation_grid()));
}

TEST_CASE("factors of a normalization are unsigned, weights of products what is nearer") {
  Pieces p;
  const i32 x = p.input({1, 4});
  const i32 factors = p.constant<float>(DType::F32, {4}, {1, -1, 0.5f, -0.5f});  // i8 would miss less
  const i32 weights = p.constant<float>(DType::F32, {4, 1}, {1, -1, 1, -1});
  p.gives({p.node(Op::MatMul, {p.node(Op::LayerNormalization, {x, factors}), weights})});
  const Settings settings;
  auto plan = lay_out(p.graph, settings, {});
  REQUIRE_OK(plan);
  REQUIRE_OK(give_encodings(p.graph, settings, {}, Given(), &plan.value()));
  REQUIRE(plan.value().constant(0, 1));
  REQUIRE(plan.value().constant(1, 1));
  CHECK(plan.value().constant(0, 1)->dtype == DType::U8);
  CHECK(plan.value().constant(1, 1)->dtype == DType::I8);
}

TEST_CASE("weights of products that read 16 bits have 16 bits where that is wanted") {
  Pieces p;
  const i32 x = p.input({1, 1, 2, 2});
  const i32 w = p.constant<float>(DType::F32, {2, 1, 1, 1}, {1.27f, -2.54f});
  const i32 y = p.node(Op::Conv, {x, w});
  const i32 v = p.constant<float>(DType::F32, {1, 2, 1, 1}, {0.5f, 0.25f});
  p.gives({p.node(Op::Conv, {y, v})});
  Settings settings;
  REQUIRE_OK(settings.set("wide_weights", "1"));
  REQUIRE_OK(settings.set("weights", "i8"));
  Overrides overrides;
  overrides[p.at(x).name].own.dtype = DType::U16;
  auto plan = lay_out(p.graph, settings, overrides);
  REQUIRE_OK(plan);
  KnownWeights known;
  const auto types = [&](bool widens) {
    settings.widens_weights = widens;
    Plan made = plan.value();
    (void)give_encodings(p.graph, settings, overrides, Given(), &made, &known);
    return std::pair(made.constant(0, 1)->dtype, made.constant(1, 1)->dtype);
  };
  CHECK((types(true) == std::pair(DType::I16, DType::I8)));
  CHECK((types(false) == std::pair(DType::I8, DType::I8)));  // what is known of one form is not taken for the other
  CHECK((types(true) == std::pair(DType::I16, DType::I8)));
}
