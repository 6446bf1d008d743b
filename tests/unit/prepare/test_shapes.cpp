// SPDX-License-Identifier: Apache-2.0
// How symbolic dimensions are bound: numbers, ranges, buckets, sums of others, given values.
#include "tests/unit/prepare/prepare_test.h"

using namespace quarry;
using namespace quarry::test;

TEST_CASE("shapes are bound") {
  ModelText model(13);
  model.input("image", {-1, 3});
  model.input("other", {-1});
  model.node("Relu", {"image"}, {"y"});
  model.output("y", {-1, 3});
  const struct {
    const char *shape, *id, *part;
  } bad[] = {{"", "QR-O0008", "input 'image' [n,3], input 'other' [n]"},
             {"imagee=2x3", "QR-O0009", "did you mean 'image'"},
             {"image=2x4", "QR-O0009", "declared as [n,3]"},
             {"image=2", "QR-O0009", "declared as [n,3]"},
             {"image=2x3,other=5", "QR-O0009", "bound to 2"},
             {"n=-4", "QR-O0009", "a number, or a range"},
             {"n=1..4", "QR-O0009", "found the range 1..4, expected a number"},
             {"n", "QR-O0009", "no '='"},
             {"n=9223372036854775807", "QR-O0009", "more elements than a tensor can"},
             {"image=2x", "QR-O0009", "expected dimensions"},
             {"image=[1 two]", "QR-O0009", "expected numbers"},
             {"image=[", "QR-O0009", "expected numbers"},
             {"image=[ ]", "QR-O0009", "no number"},
             {"n=2,image=[1 2 3]", "QR-O0009", "3 values for [2,3]"},
             {"image=[1]", "QR-O0008", "unbound"}};
  for (const auto &one : bad) {
    const LoweredModel done(model, {one.shape});
    CHECK_EQ(done.errors.id, one.id);
    CHECK_MESSAGE(done.errors.says(one.part), one.shape, ": ", done.errors.message);
  }
  for (const char *good : {"n=2", "image=2x3", " image = 2x3 , n = 2 ", "other=2"}) {
    const LoweredModel done(model, {good});
    REQUIRE_EQ(done.code, 0);

    CHECK((done.graphs[0].tensors[static_cast<std::size_t>(done.graphs[0].inputs[0])].shape == qir::Shape{2, 3}));
  }
  CHECK_EQ(live_blocks, 0);
}

TEST_CASE("dimensions are ranges where a backend takes them") {
  ModelText model(13);
  model.input("x", {-1, 3});
  model.node("Relu", {"x"}, {"y"});
  model.output("y", {-1, 3});
  const auto lowered = [&](std::vector<const char *> shapes) { return LoweredModel(model, shapes, nullptr, true); };
  const struct {
    const char *shape;
    std::int64_t low, high;
  } good[] = {{"n=1..512", 1, 512}, {"x=2..8x3", 2, 8}, {"n=0..4", 0, 4}, {"", 1, qir::kMaxExtent}};
  for (const auto &one : good) {
    const LoweredModel done = lowered({one.shape});
    REQUIRE_EQ(done.code, 0);
    const qir::Graph &graph = done.graphs[0];
    CHECK((qir::at(graph, graph.inputs[0]).shape == qir::Shape{-1, 3}));
    REQUIRE_EQ(graph.dimensions.size(), 1u);
    CHECK_EQ(graph.dimensions[0].name, "n");
    CHECK_EQ(graph.dimensions[0].low, one.low);
    CHECK_EQ(graph.dimensions[0].high, one.high);
    CHECK((graph.dimensions[0].places == Vector<qir::Dimension::Place>{{0, 0}}));
  }
  CHECK(lowered({"n=5"}).graphs[0].dimensions.empty());
  CHECK_EQ(lowered({"n=4..1"}).errors.id, "QR-O0009");
  CHECK(lowered({"n=1..1099511627777"}).errors.says("the limit is 1099511627776"));
  CHECK_EQ(lowered({"n=1..2,x=1..3x3"}).errors.id, "QR-O0009");
  CHECK(lowered({"n=1..2", "n=4"}).errors.says("there are other buckets"));
  CHECK_EQ(live_blocks, 0);
}

TEST_CASE("a dimension whose name says what it is follows from others") {
  ModelText model(13);
  const char *const names[] = {"past", "seq", "past + 2*seq - 1"};
  for (int i = 0; i < 3; ++i) {
    model.input(std::string(1, static_cast<char>('a' + i)).c_str(), {-1});
    model.proto.mutable_graph()
        ->mutable_input(i)
        ->mutable_type()
        ->mutable_tensor_type()
        ->mutable_shape()
        ->mutable_dim(0)
        ->set_dim_param(names[i]);
  }
  auto *const axis = model.node("Concat", {"a", "b", "c"}, {"y"})->add_attribute();
  axis->set_name("axis"), axis->set_type(::onnx::AttributeProto::INT), axis->set_i(0);
  model.output("y", {-1});
  const LoweredModel fixed(model, {"past=3,seq=2"});
  REQUIRE_EQ(fixed.code, 0);
  CHECK((qir::at(fixed.graphs[0], fixed.graphs[0].inputs[2]).shape == qir::Shape{6}));
  const LoweredModel open(model, {"past=3,seq=1..4"}, nullptr, true);
  REQUIRE_EQ(open.code, 0);
  const Vector<qir::Dimension> &dimensions = open.graphs[0].dimensions;
  REQUIRE_EQ(dimensions.size(), 2u);
  CHECK_EQ(dimensions[1].name, "past + 2*seq - 1");
  CHECK_EQ(dimensions[1].added, 2);
  CHECK((dimensions[1].terms == Vector<qir::Dimension::Term>{{0, 2}}));
  CHECK_EQ(LoweredModel(model, {""}).errors.hint, "bind them with the option shape: past=N,seq=N");
}

namespace {

// One input for each dimension, whose name it has.
ModelText vectors(std::initializer_list<const char *> names) {
  ModelText model(13);
  for (const char *name : names) {
    const std::string input = "in_" + std::to_string(model.proto.graph().input_size());
    model.input(input.c_str(), {-1});
    model.proto.mutable_graph()
        ->mutable_input(model.proto.graph().input_size() - 1)
        ->mutable_type()
        ->mutable_tensor_type()
        ->mutable_shape()
        ->mutable_dim(0)
        ->set_dim_param(name);
    model.node("Relu", {input}, {"out_" + input});
    model.output(("out_" + input).c_str(), {-1});
  }
  return model;
}

}  // namespace

TEST_CASE("a sum that is bound to a number is kept to by the runs") {
  const ModelText model = vectors({"past", "seq", "past + seq"});
  const auto lowered = [&](const char *shape) { return LoweredModel(model, {shape}, nullptr, true); };
  const LoweredModel bound = lowered("past=0..8,seq=1..2,past + seq=4");
  REQUIRE_EQ(bound.code, 0);
  const qir::Graph &graph = bound.graphs[0];
  const auto check = [&](std::int64_t past, std::int64_t seq, std::int64_t all) {
    const Vector<qir::Shape> shapes{{past}, {seq}, {all}};
    return test::outcome(qir::check_dimensions(graph, shapes));
  };
  CHECK_EQ(check(3, 1, 4), "ok");
  CHECK(check(3, 2, 5).find("expected 4..4") != std::string::npos);
  CHECK(check(3, 2, 4).find("expected 'past' (3) + 'seq' (2)") != std::string::npos);
  // What no run can give.
  for (const char *none : {"past=0..8,seq=1..2,past + seq=100..200", "past=0..8,seq=1..2,past + seq=11",
                           "past=2..8,seq=2,past + seq=0..3", "past=1,seq=2,past + seq=4", "past + seq=0"})
    CHECK_EQ(lowered(none).errors.id, "QR-O0009");
  CHECK_EQ(LoweredModel(model, {"past=1,seq=2,past + seq=4"}).errors.id, "QR-O0009");
  CHECK_EQ(LoweredModel(model, {"past=1,seq=2,past + seq=3"}).code, 0);
  CHECK(lowered("past=1,seq=2").graphs[0].dimensions.empty());
}

TEST_CASE("a range may have no end") {
  const LoweredModel open(vectors({"past", "seq"}), {"past=0.."}, nullptr, true);
  REQUIRE_EQ(open.code, 0);
  const auto check = [&](std::int64_t past, std::int64_t seq) {
    const Vector<qir::Shape> shapes{{past}, {seq}};
    return test::outcome(qir::check_dimensions(open.graphs[0], shapes));
  };
  CHECK_EQ(check(0, 1), "ok");
  CHECK_EQ(check(1000000, 1), "ok");
  CHECK(check(0, 0).find("expected 1 or more") != std::string::npos);
  for (const char *wrong : {"past=..", "past=..3", "past=3..2", "past=-1.."})
    CHECK_EQ(LoweredModel(vectors({"past", "seq"}), {wrong}, nullptr, true).errors.id, "QR-O0009");
}

TEST_CASE("names of dimensions: sums of sums, and a minus in a name") {
  const LoweredModel chain(vectors({"2*3*n", "3*n", "n"}), {}, nullptr, true);
  REQUIRE_EQ(chain.code, 0);
  const auto check = [&](std::int64_t six, std::int64_t three, std::int64_t one) {
    const Vector<qir::Shape> shapes{{six}, {three}, {one}};
    return qir::check_dimensions(chain.graphs[0], shapes);
  };
  CHECK_OK(check(12, 6, 2));
  CHECK_EQ(check(13, 6, 2).id(), "QR-R0003");
  CHECK_EQ(check(14, 7, 2).id(), "QR-R0003");
  const auto terms = [](const char *name) {
    const LoweredModel made(vectors({"seq", "len", name}), {}, nullptr, true);
    return made.graphs[0].dimensions[2].terms.size() + made.graphs[0].dimensions[0].terms.size();
  };
  CHECK_EQ(terms("seq-len"), 0u);
  CHECK_EQ(terms("seq - len"), 2u);
  CHECK_EQ(terms("seq-1"), 1u);
}

TEST_CASE("of many unbound inputs three are named") {
  ModelText model(13);
  for (int i = 0; i < 5; ++i) model.input(("x" + std::to_string(i)).c_str(), {-1});
  model.node("Sum", {"x0", "x1", "x2", "x3", "x4"}, {"y"});
  model.output("y", {-1});
  CHECK(LoweredModel(model, {""}).errors.says("input 'x2' [n] and 2 more"));
}

TEST_CASE("dimensions without a name stand for themselves") {
  for (const char *name : {"?", ""}) {
    ModelText model(13);
    model.input("a", {-1, -1});
    model.input("b", {-1, 3});
    for (int i = 0; i < 2; ++i)
      for (auto &dim : *model.proto.mutable_graph()
                            ->mutable_input(i)
                            ->mutable_type()
                            ->mutable_tensor_type()
                            ->mutable_shape()
                            ->mutable_dim())
        if (dim.has_dim_param()) dim.set_dim_param(name);
    model.node("MatMul", {"a", "b"}, {"y"});
    model.output("y");
    const LoweredModel done(model, {"a=2x5,b=5x3"});
    CHECK_EQ(done.code, 0);
    CHECK_EQ(done.graphs.size(), 1u);
    if (done.graphs.size() == 1)
      CHECK((done.graphs[0].tensors[static_cast<std::size_t>(done.graphs[0].outputs[0])].shape == qir::Shape{2, 3}));
    const LoweredModel open(model, {"a=2x5"});
    CHECK_EQ(open.errors.id, "QR-O0008");
    CHECK(open.errors.says("input 'b' [?,3]"));
    CHECK_EQ(open.errors.hint, "bind them with the option shape: b=1x...");
    CHECK_EQ(LoweredModel(model, {"?=5"}).errors.id, "QR-O0009");
  }
}

TEST_CASE("a scalar may be given as one element") {
  ModelText model(13);
  model.input("x", {2});
  model.input("rate", {});
  model.node("Mul", {"x", "rate"}, {"y"});
  model.output("y", {2});
  for (const char *good : {"rate=", "rate=1", ""}) CHECK_EQ(LoweredModel(model, {good}).code, 0);
  CHECK_EQ(LoweredModel(model, {"rate=2"}).errors.id, "QR-O0009");
}

TEST_CASE("an input may be given its value") {
  ModelText model(13);
  model.input("x", {2});
  model.input("rate", {});
  model.node("Mul", {"x", "rate"}, {"y"});
  model.output("y", {2});
  const LoweredModel done(model, {"rate=[ -2.5 ]"});
  CHECK_EQ(done.code, 0);
  REQUIRE_EQ(done.graphs.size(), 1u);
  CHECK_EQ(done.graphs[0].inputs.size(), 1u);
  CHECK((run_lowered(done, {1, 3}) == std::vector<float>{-2.5f, -7.5f}));
  CHECK((run_lowered(LoweredModel(model, {"rate=[2],x=2"}), {1, 3}) == std::vector<float>{2, 6}));
}
