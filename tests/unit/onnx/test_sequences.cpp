// SPDX-License-Identifier: Apache-2.0
// Sequences are lists that are known when a model is imported: what is left of them in the graph.
#include "tests/unit/onnx/imported.h"

namespace quarry::onnx_import {
namespace {

using test::ModelText;

// The tensors that Concat joins, by name; nothing where there is no Concat.
Vector<String> joined(const Imported &done) {
  Vector<String> names;
  if (const qir::Node *concat = done.find(qir::Op::Concat))
    for (const std::int32_t id : concat->inputs) names.push_back(done.tensor(id).name);
  return names;
}

ModelText two_inputs() {
  ModelText text(17);
  text.input("a", {2, 3}), text.input("b", {2, 3});
  text.constant<std::int64_t>("first", 7, {}, {0});
  text.constant<std::int64_t>("last", 7, {}, {-1});
  text.output("y");
  return text;
}

void join(ModelText &text, const char *sequence, std::int64_t new_axis = 0) {
  auto *node = text.node("ConcatFromSequence", {sequence}, {"y"});
  ModelText::set(node, "axis", std::int64_t{0});
  ModelText::set(node, "new_axis", new_axis);
}

}  // namespace

TEST_CASE("sequences: places") {
  const auto order = [](const char *place) {
    ModelText text = two_inputs();
    text.node("Neg", {"a"}, {"c"});
    text.node("SequenceConstruct", {"a", "b"}, {"s"});
    if (*place) text.node("SequenceInsert", {"s", "c", place}, {"t"});
    else text.node("SequenceInsert", {"s", "c"}, {"t"});
    text.node("Identity", {"t"}, {"u"});
    join(text, "u");
    Imported done;
    import(text, done);
    CHECK_OK(done.status);
    return joined(done);
  };
  CHECK((order("") == Vector<String>{"a", "b", "c"}));
  CHECK((order("first") == Vector<String>{"c", "a", "b"}));
  CHECK((order("last") == Vector<String>{"a", "c", "b"}));  // before the last one
}

TEST_CASE("sequences: taken out, counted, emptied") {
  ModelText text = two_inputs();
  text.node("SequenceConstruct", {"a", "b"}, {"s"});
  text.node("SequenceAt", {"s", "last"}, {"at"});
  text.node("Relu", {"at"}, {"y"});
  text.node("SequenceErase", {"s", "first"}, {"less"});
  text.node("SequenceLength", {"less"}, {"length"});
  text.output("length", {}, 7);
  Imported done;
  import(text, done);
  REQUIRE_OK(done.status);
  CHECK_EQ(done.tensor(done.find(qir::Op::Relu)->inputs[0]).name, "b");
  const qir::Node *const made = done.find(qir::Op::Identity);
  REQUIRE(made);
  CHECK((done.ints(made->inputs[0]) == Vector<std::int64_t>{1}));
}

TEST_CASE("sequences: a place of the run is a place in what all of them are") {
  ModelText text = two_inputs();
  text.input("place", {}, 7);
  text.node("SequenceConstruct", {"a", "b"}, {"s"});
  text.node("SequenceAt", {"s", "place"}, {"y"});
  Imported done;
  import(text, done);
  REQUIRE_OK(done.status);
  const qir::Node *const gather = done.find(qir::Op::Gather);
  REQUIRE(gather);
  CHECK((done.tensor(gather->inputs[0]).shape == qir::Shape{2, 2, 3}));
  CHECK((done.tensor(gather->outputs[0]).shape == qir::Shape{2, 3}));
}

TEST_CASE("sequences: split") {
  const auto parts = [](const std::vector<std::int64_t> &split, bool scalar, std::int64_t keepdims) {
    ModelText text(17);
    text.input("x", {5, 2});
    if (scalar) text.constant<std::int64_t>("split", 7, {}, split);
    else if (!split.empty()) text.ints("split", split);
    auto *node = split.empty() ? text.node("SplitToSequence", {"x"}, {"s"})
                               : text.node("SplitToSequence", {"x", "split"}, {"s"});
    ModelText::set(node, "keepdims", keepdims);
    text.constant<std::int64_t>("last", 7, {}, {-1});
    text.node("SequenceAt", {"s", "last"}, {"at"});
    text.node("Relu", {"at"}, {"y"});
    text.output("y");
    Imported done;
    import(text, done);
    CHECK_OK(done.status);
    const qir::Node *const relu = done.find(qir::Op::Relu);
    return relu ? done.tensor(relu->inputs[0]).shape : qir::Shape();
  };
  CHECK((parts({2}, true, 1) == qir::Shape{1, 2}));  // 2, 2, 1
  CHECK((parts({2, 3}, false, 1) == qir::Shape{3, 2}));
  CHECK((parts({}, false, 1) == qir::Shape{1, 2}));
  CHECK((parts({}, false, 0) == qir::Shape{2}));
}

// Appends what the body is given to a sequence, as an exporter writes a list in a loop.
static void import_loop_of(std::vector<std::int64_t> times, Imported &done) {
  ModelText text = two_inputs();
  if (times.empty()) text.input("times", {}, 7);
  else text.constant<std::int64_t>("times", 7, {}, times);
  text.node("SequenceEmpty", {}, {"none"});
  auto *loop = text.node("Loop", {"times", "", "none"}, {"all"});
  auto *body = ModelText::graph(loop, "body");
  ModelText::fill(body->add_input(), "i", 7, {});
  ModelText::fill(body->add_input(), "go", 9, {});
  body->add_input()->set_name("list");
  ModelText::add_node(body->add_node(), "Identity", {"go"}, {"more"});
  auto *row = ModelText::add_node(body->add_node(), "Gather", {"a", "i"}, {"row"});
  ModelText::set(row, "axis", std::int64_t{0});
  ModelText::add_node(body->add_node(), "SequenceInsert", {"list", "row"}, {"longer"});
  ModelText::fill(body->add_output(), "more", 9, {});
  body->add_output()->set_name("longer");
  join(text, "all", 1);
  import(text, done);
}

TEST_CASE("sequences: a loop that carries one is unrolled") {
  Imported done;
  import_loop_of({2}, done);
  REQUIRE_OK(done.status);
  const qir::Node *const concat = done.find(qir::Op::Concat);
  REQUIRE(concat);
  CHECK_EQ(concat->inputs.size(), 2u);
  CHECK((done.tensor(concat->outputs[0]).shape == qir::Shape{2, 3}));
  CHECK_FALSE(done.find(qir::Op::Loop));
  Imported refused;
  import_loop_of({}, refused);
  CHECK(refused.has_reason("carries a sequence, and how often it runs is known only at run time"));
}

TEST_CASE("sequences: mapped, and captured by a branch") {
  ModelText text = two_inputs();
  text.input("c", {}, 9);
  text.node("SequenceConstruct", {"a", "b"}, {"s"});
  auto *map = text.node("SequenceMap", {"s", "b"}, {"t"});
  auto *body = ModelText::graph(map, "body");
  body->add_input()->set_name("each"), body->add_input()->set_name("other");
  ModelText::add_node(body->add_node(), "Add", {"each", "other"}, {"sum"});
  body->add_output()->set_name("sum");
  auto *choice = text.node("If", {"c"}, {"y"});
  for (const char *const name : {"then_branch", "else_branch"}) {
    auto *branch = ModelText::graph(choice, name);
    ModelText::add_node(branch->add_node(), "SequenceAt", {"t", name[0] == 't' ? "first" : "last"}, {name});
    ModelText::fill(branch->add_output(), name, 1, {2, 3});
  }
  Imported done;
  import(text, done);
  REQUIRE_OK(done.status);
  const qir::Node *const made = done.find(qir::Op::If);
  REQUIRE(made);
  CHECK_EQ(made->inputs.size(), 3u);  // the condition, and both sums
  CHECK_OK(qir::validate_graph(done.graph));
}

TEST_CASE("sequences: refused") {
  const auto reason = [](const char *op, std::initializer_list<std::string> inputs, const char *expected) {
    ModelText text = two_inputs();
    text.constant<std::int64_t>("far", 7, {}, {3});
    text.node("SequenceConstruct", {"a", "b"}, {"s"});
    text.node(op, inputs, {"y"});
    Imported done;
    import(text, done);
    const bool found =
        done.has_reason(expected) || std::string_view(done.status.message()).find(expected) != std::string_view::npos;
    if (!found) MESSAGE(done.status.message());
    return found;
  };
  CHECK(reason("Relu", {"s"}, "input 0 's' is a sequence, expected a tensor"));
  CHECK(reason("SequenceLength", {"a"}, "input 0 is a tensor, expected a sequence"));
  CHECK(reason("SequenceAt", {"s", "far"}, "the position is 3, and the sequence holds 2 tensors"));
  CHECK(reason("Identity", {"s"}, "is a sequence; Quarry gives tensors"));
  CHECK(reason("SequenceInsert", {"s", "far"}, "found a tensor of i64 in a sequence of f32"));
}

}  // namespace quarry::onnx_import
