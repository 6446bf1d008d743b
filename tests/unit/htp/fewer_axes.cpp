// SPDX-License-Identifier: Apache-2.0
// Operations on many axes as ones on fewer: what a draft computes is the same before and behind, by a small interpreter
// of the operations; and what the library then gets has at most five axes.
#include "backends/htp/lower/fewer_axes.h"

#include <functional>
#include <map>
#include <random>

#include "backends/htp/lower/bool_forms.h"
#include "tests/support/check.h"

using namespace quarry;
using namespace quarry::htp;
using qnn::TensorType;
using Dims = Vector<std::uint32_t>;
using i32 = std::int32_t;

namespace {

std::size_t count_of(const Dims &dims) {
  std::size_t count = 1;
  for (const std::uint32_t extent : dims) count *= extent;
  return count;
}

struct Array {
  Dims dims;
  std::vector<float> values;
  // The element at these positions, of which the last axes count; a dimension of 1 is stretched.
  float at(const Dims &places) const {
    std::size_t index = 0;
    for (std::size_t i = 0; i < dims.size(); ++i)
      index = index * dims[i] + (dims[i] == 1 ? 0 : places[places.size() - dims.size() + i]);
    return values[index];
  }
};

// An array of which each element is a function of its places.
Array made_of(const Dims &dims, const std::function<float(const Dims &)> &element) {
  Array out{dims, {}};
  Dims places(dims.size());
  for (std::size_t n = 0; n < count_of(dims); ++n) {
    std::size_t rest = n;
    for (std::size_t i = dims.size(); i-- > 0;) places[i] = static_cast<std::uint32_t>(rest % dims[i]), rest /= dims[i];
    out.values.push_back(element(places));
  }
  return out;
}

struct Machine {
  const Draft &draft;
  std::map<i32, Array> arrays = {};

  const DraftTensor &tensor(i32 id) const { return draft.tensors[index_of(id)]; }
  Array input(i32 id) const {
    if (const auto found = arrays.find(id); found != arrays.end()) return found->second;
    const DraftTensor &given = tensor(id);
    REQUIRE(given.type == TensorType::Static);
    const auto *const values = static_cast<const float *>(given.data.data);
    return {given.dims, {values, values + given.data.size / 4}};
  }
  std::vector<i32> list(const DraftNode &node, std::string_view name) const {
    for (const DraftParam &param : node.params) {
      if (name != param.name) continue;
      if (const auto *u = std::get_if<std::uint32_t>(&param.value)) return {static_cast<i32>(*u)};
      if (const auto *b = std::get_if<bool>(&param.value)) return {*b};
      const qir::Bytes data = tensor(std::get<DraftParam::Ref>(param.value).tensor).data;
      const auto *const values = static_cast<const i32 *>(data.data);
      return {values, values + data.size / 4};
    }
    return {};
  }

  void run(i32 in, const std::vector<float> &values) {
    arrays[in] = {tensor(in).dims, values};
    for (const DraftNode &node : draft.nodes) step(node);
  }
  void step(const DraftNode &node) {
    const std::string_view type = node.type;
    const Array x = input(node.inputs[0]);
    const i32 to = node.outputs[0];
    const Dims &out = tensor(to).dims;
    const auto axis = [&] { return static_cast<std::size_t>(list(node, "axis")[0]); };
    if (type == "Reshape") {
      REQUIRE_EQ(count_of(out), x.values.size());
      arrays[to] = {out, x.values};
    } else if (type == "ElementWiseAdd") {
      const Array y = input(node.inputs[1]);
      arrays[to] = made_of(out, [&](const Dims &at) { return x.at(at) + y.at(at); });
    } else if (type == "Relu") {
      arrays[to] = made_of(out, [&](const Dims &at) { return std::max(x.at(at), 0.0f); });
    } else if (type == "Transpose") {
      const std::vector<i32> perm = list(node, "perm");
      REQUIRE_EQ(perm.size(), out.size());
      arrays[to] = made_of(out, [&](const Dims &at) {
        Dims from(at.size());
        for (std::size_t i = 0; i < at.size(); ++i) from[static_cast<std::size_t>(perm[i])] = at[i];
        return x.at(from);
      });
    } else if (type == "ReduceSum") {
      Dims kept = x.dims;
      for (const i32 gone : list(node, "axes")) kept[static_cast<std::size_t>(gone)] = 1;
      arrays[to] = {out, made_of(kept, [&](const Dims &at) {
                           float sum = 0;
                           (void)made_of(x.dims, [&](const Dims &from) {
                             bool is_its = true;
                             for (std::size_t i = 0; i < at.size(); ++i)
                               is_its = is_its && (kept[i] == 1 || from[i] == at[i]);
                             return sum += is_its ? x.at(from) : 0;
                           });
                           return sum;
                         }).values};
    } else if (type == "StridedSlice") {
      const std::vector<i32> ranges = list(node, "ranges");
      REQUIRE_EQ(ranges.size(), 3 * x.dims.size());
      for (std::size_t i = 0; i < out.size(); ++i)
        REQUIRE_EQ(out[i], static_cast<std::uint32_t>((ranges[3 * i + 1] - ranges[3 * i] + ranges[3 * i + 2] - 1) /
                                                      ranges[3 * i + 2]));
      arrays[to] = made_of(out, [&](Dims at) {
        for (std::size_t i = 0; i < at.size(); ++i)
          at[i] = static_cast<std::uint32_t>(ranges[3 * i]) + at[i] * static_cast<std::uint32_t>(ranges[3 * i + 2]);
        return x.at(at);
      });
    } else if (type == "Pad") {
      const std::vector<i32> pads = list(node, "pad_amount");
      REQUIRE_EQ(pads.size(), 2 * x.dims.size());
      for (std::size_t i = 0; i < out.size(); ++i)
        REQUIRE_EQ(out[i], x.dims[i] + static_cast<std::uint32_t>(pads[2 * i] + pads[2 * i + 1]));
      arrays[to] = made_of(out, [&](Dims at) {
        for (std::size_t i = 0; i < at.size(); ++i) {
          const auto before = static_cast<std::uint32_t>(pads[2 * i]);
          if (at[i] < before || at[i] >= before + x.dims[i]) return 0.0f;
          at[i] -= before;
        }
        return x.at(at);
      });
    } else if (type == "Tile") {
      const std::vector<i32> multiples = list(node, "multiples");
      REQUIRE_EQ(multiples.size(), x.dims.size());
      arrays[to] = made_of(out, [&](Dims at) {
        for (std::size_t i = 0; i < at.size(); ++i) {
          REQUIRE_EQ(out[i], x.dims[i] * static_cast<std::uint32_t>(multiples[i]));
          at[i] %= x.dims[i];
        }
        return x.at(at);
      });
    } else if (type == "Concat") {
      const Array y = input(node.inputs[1]);
      const std::size_t along = axis();
      arrays[to] = made_of(out, [&](Dims at) {
        if (at[along] < x.dims[along]) return x.at(at);
        at[along] -= x.dims[along];
        return y.at(at);
      });
    } else if (type == "CumulativeSum") {
      const std::size_t along = axis();
      arrays[to] = made_of(out, [&](Dims at) {
        float sum = 0;
        for (const std::uint32_t last = at[along]; at[along] <= last && at[along] != UINT32_MAX; --at[along])
          sum += x.at(at);
        return sum;
      });
    } else {
      REQUIRE_EQ(type, "an operation that this interpreter has");
    }
  }
};

// A graph of one node of many axes, between an input and an output of the model.
struct Graph {
  Draft draft;
  qir::Store store;
  i32 add(TensorType type, Dims dims, qir::Bytes data = {}) {
    draft.tensors.push_back(
        {format("t%zu", draft.tensors.size()), type, qnn::DataType::F32, std::move(dims), {}, data});
    return static_cast<i32>(draft.tensors.size() - 1);
  }
  i32 constant(Dims dims) {
    std::vector<float> values;
    for (std::size_t i = 0; i < count_of(dims); ++i) values.push_back(static_cast<float>(i * i % 97) - 40);
    return add(TensorType::Static, std::move(dims), store.copy(values.data(), values.size() * 4));
  }
  void list(const char *name, const std::vector<i32> &values, std::uint32_t columns = 1) {
    Dims dims{static_cast<std::uint32_t>(values.size()) / columns};
    if (columns > 1) dims.push_back(columns);
    const i32 made = add(TensorType::Static, dims, store.copy(values.data(), values.size() * 4));
    draft.nodes.back().params.push_back({name, DraftParam::Ref{made}});
  }
  void axis(std::size_t axis) { draft.nodes.back().params.push_back({"axis", static_cast<std::uint32_t>(axis)}); }
  void node(const char *type, Vector<i32> inputs, i32 to) {
    draft.nodes.push_back({format("n%zu", draft.nodes.size()), type, std::move(inputs), {to}, {}, 0});
  }
  std::vector<float> result(i32 in, i32 out) const {
    std::vector<float> values;
    for (std::size_t i = 0; i < count_of(draft.tensors[static_cast<std::size_t>(in)].dims); ++i)
      values.push_back(static_cast<float>(i * 31 % 101) - 50);
    Machine machine{draft};
    machine.run(in, values);
    return machine.arrays[out].values;
  }
  std::string types() const {
    std::string text;
    for (const DraftNode &one : draft.nodes) text += (text.empty() ? "" : " ") + std::string(one.type);
    return text;
  }
  void check(const std::string &what, i32 in, i32 out) {
    CAPTURE(what);
    const std::vector<float> before = result(in, out);
    Vector<Status> refused(1);
    give_fewer_axes(draft, store, refused);
    CHECK_OK(refused[0]);
    CHECK_EQ(result(in, out), before);
    for (const DraftTensor &tensor : draft.tensors)
      if (tensor.type != TensorType::Null) CHECK_LE(tensor.dims.size(), 5u);
    for (const DraftNode &one : draft.nodes) {
      if (std::string_view(one.type) == "Reshape") continue;
      for (const i32 id : one.inputs) CHECK_LE(draft.tensors[index_of(id)].dims.size(), 5u);
    }
  }
};

}  // namespace

TEST_CASE("operations on many axes give the same on fewer") {
  std::mt19937 random(7);
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  for (int round = 0; round < 400; ++round) {
    const std::size_t rank = 6 + below(3);
    Dims dims;
    for (std::size_t i = 0; i < rank; ++i) dims.push_back(1 + below(count_of(dims) > 400 ? 1 : 3));
    Graph g;
    const i32 x = g.add(TensorType::AppWrite, dims);
    Dims out = dims;
    const std::size_t axis = below(static_cast<std::uint32_t>(rank));
    std::string what = format("round %d", round).c_str();
    const auto written = [&] { return g.add(TensorType::AppRead, out); };
    i32 y = -1;
    switch (round % 9) {
      case 0: g.node("Relu", {x}, y = written()); break;
      case 1: {  // with one operand of two kinds of axes: more would need more than four
        Dims other = dims;
        const std::size_t from = below(static_cast<std::uint32_t>(rank));
        for (std::size_t i = 0; i < from; ++i) other[i] = 1;
        if (below(2)) other.erase(other.begin(), other.begin() + static_cast<std::ptrdiff_t>(from));
        if (other.empty()) other = {1};
        g.node("ElementWiseAdd", {x, g.constant(other)}, y = written());
        break;
      }
      case 2: {
        std::vector<i32> perm(rank);
        for (std::size_t i = 0; i < rank; ++i) perm[i] = static_cast<i32>(i);
        std::shuffle(perm.begin(), perm.end(), random);
        for (std::size_t i = 0; i < rank; ++i) out[i] = dims[static_cast<std::size_t>(perm[i])];
        g.node("Transpose", {x}, y = written());
        g.list("perm", perm);
        break;
      }
      case 3: {
        std::vector<i32> axes{static_cast<i32>(axis)};
        if (axis + 1 < rank && below(2)) axes.push_back(static_cast<i32>(axis + 1));
        const bool keeps = below(2);
        for (std::size_t i = axes.size(); i-- > 0;) {
          if (keeps) out[static_cast<std::size_t>(axes[i])] = 1;
          else out.erase(out.begin() + axes[i]);
        }
        g.node("ReduceSum", {x}, y = written());
        g.list("axes", axes);
        g.draft.nodes.back().params.push_back({"keep_dims", keeps});
        break;
      }
      case 4: {
        std::vector<i32> ranges;
        for (std::size_t i = 0; i < rank; ++i) {
          const bool cuts = i == axis && dims[i] > 1;
          ranges.insert(ranges.end(), {cuts ? 1 : 0, static_cast<i32>(dims[i]), 1});
          if (cuts) --out[i];
        }
        g.node("StridedSlice", {x}, y = written());
        g.list("ranges", ranges, 3);
        break;
      }
      case 5: {
        std::vector<i32> pads(2 * rank);
        pads[2 * axis] = 1, pads[2 * axis + 1] = 2;
        out[axis] += 3;
        g.node("Pad", {x}, y = written());
        g.list("pad_amount", pads, 2);
        break;
      }
      case 6: {
        std::vector<i32> multiples(rank, 1);
        multiples[axis] = 2;
        out[axis] *= 2;
        g.node("Tile", {x}, y = written());
        g.list("multiples", multiples);
        break;
      }
      case 7:
        out[axis] *= 2;
        g.node("Concat", {x, g.constant(dims)}, y = written());
        g.axis(axis);
        break;
      default:
        g.node("CumulativeSum", {x}, y = written());
        g.axis(axis);
        break;
    }
    g.check(what, x, y);
  }
}

TEST_CASE("windows of images are decomposed without a tensor of six axes") {
  Graph g;
  const i32 x = g.add(TensorType::AppWrite, {2, 8, 8, 16}), windows = g.add(TensorType::Native, {2, 2, 4, 2, 4, 16}),
            turned = g.add(TensorType::Native, {2, 2, 2, 4, 4, 16}), y = g.add(TensorType::AppRead, {8, 16, 16});
  g.node("Reshape", {x}, windows);
  g.node("Transpose", {windows}, turned);
  g.list("perm", {0, 1, 3, 2, 4, 5});
  g.node("Reshape", {turned}, y);
  g.check("windows", x, y);
  CHECK_EQ(g.types(), "Reshape Transpose Reshape");
}

TEST_CASE("operands stretched along other axes each are repeated; axes that go by turns go one by one") {
  Graph g;
  const i32 x = g.add(TensorType::AppWrite, {2, 1, 3, 1, 2, 1}), other = g.constant({1, 2, 1, 2, 1, 2}),
            sum = g.add(TensorType::Native, {2, 2, 3, 2, 2, 2}), y = g.add(TensorType::AppRead, {2, 3, 2});
  g.node("ElementWiseAdd", {x, other}, sum);
  g.node("ReduceSum", {sum}, y);
  g.list("axes", {0, 3, 5});
  g.draft.nodes.back().params.push_back({"keep_dims", false});
  g.check("by turns", x, y);
}

TEST_CASE("what is left with too many axes has a reason of ours") {
  Graph g;
  const i32 x = g.add(TensorType::AppWrite, {2, 1, 2, 1, 2, 1}), y = g.add(TensorType::AppRead, {2, 1, 2, 1, 2, 1});
  g.node("OneHot", {x}, y);
  Vector<Status> refused(1);
  give_fewer_axes(g.draft, g.store, refused);
  CHECK_EQ(refused[0].id(), "QR-B0004");
  CHECK_NE(refused[0].message().find("OneHot of 6 axes"), std::string_view::npos);
}

TEST_CASE("four axes are left as they are") {
  Graph g;
  const i32 x = g.add(TensorType::AppWrite, {2, 3, 4, 5}), y = g.add(TensorType::AppRead, {2, 3, 4, 5});
  g.node("Relu", {x}, y);
  g.check("four axes", x, y);
  CHECK_EQ(g.types(), "Relu");
}

TEST_CASE("bools are moved as bytes where the library moves none") {
  Graph g;
  const i32 x = g.add(TensorType::AppWrite, {2, 4}), some = g.add(TensorType::Native, {2, 3}),
            y = g.add(TensorType::AppRead, {1, 3});
  for (const i32 id : {x, some, y}) g.draft.tensors[index_of(id)].dtype = qnn::DataType::Bool8;
  g.node("Gather", {x, g.constant({3})}, some);
  g.node("StridedSlice", {some}, y);
  give_bool_forms(g.draft, g.store);
  // The second reads the bytes of the first; the bools of the first nobody reads.
  CHECK_EQ(g.types(), "Cast Gather StridedSlice ElementWiseNotEqual");
  CHECK_EQ(g.draft.nodes[2].inputs[0], g.draft.nodes[1].outputs[0]);
  CHECK(g.draft.tensors[static_cast<std::size_t>(g.draft.nodes[1].outputs[0])].dtype == qnn::DataType::UQ8);
}
