// SPDX-License-Identifier: Apache-2.0
// Views against the plain meaning of their operators: all elements enumerated.
#include "backends/cpu/program/view.h"

#include <algorithm>
#include <numeric>

#include "tests/unit/cpu/plan_case.h"

using namespace quarry;
using namespace quarry::cpu;
using quarry::test::Random;

namespace {

// Where each element lies, in ONNX's order.
Vector<std::int64_t> places(const View &view) {
  Vector<std::int64_t> made, index(view.rank(), 0);
  for (std::int64_t left = count_of(view.dims); left > 0; --left) {
    made.push_back(std::inner_product(index.begin(), index.end(), view.strides.begin(), view.offset));
    for (std::size_t d = view.rank(); d-- > 0 && ++index[d] == view.dims[d];) index[d] = 0;
  }
  return made;
}
Vector<std::int64_t> places(const Nest &nest, std::size_t which, std::int64_t offset) {
  return places(View{0, offset, nest.dims, nest.strides[which]});
}

// Any view: dense in some order, gaps, repeated dimensions.
View random_view(Random &random) {
  View view{0, random.integer(0, 5), {}, {}};
  const std::int64_t rank = random.integer(0, 5);
  for (std::int64_t d = 0; d < rank; ++d) view.dims.push_back(random.one_of({1, 1, 2, 3, 4, 6}));
  Vector<std::size_t> order(view.rank());
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(i) - 1))]);
  if (random.chance(40)) std::iota(order.begin(), order.end(), std::size_t{0});
  view.strides.assign(view.rank(), 0);
  std::int64_t stride = random.chance(20) ? 2 : 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    const std::size_t d = order[i];
    if (random.chance(10)) continue;  // repeated
    view.strides[d] = view.dims[d] == 1 && random.chance(50) ? random.integer(0, 9) : stride;
    stride *= view.dims[d];
    if (random.chance(15)) stride += random.integer(1, 4);
  }
  return view;
}

// Dimensions with the same product.
Dims random_shape(Random &random, std::int64_t count) {
  Dims dims;
  while (count > 1) {
    Vector<std::int64_t> divisors;
    for (std::int64_t d = 2; d <= count; ++d)
      if (count % d == 0) divisors.push_back(d);
    dims.push_back(random.one_of(divisors));
    count /= dims.back();
    if (random.chance(20)) dims.push_back(1);
  }
  return dims;
}

}  // namespace

TEST_CASE("views move as their operators do") {
  Random random(1);
  for (int round = 0; round < 3000; ++round) {
    const View view = random_view(random);
    const Vector<std::int64_t> before = places(view);
    Vector<std::int64_t> perm(view.rank());
    std::iota(perm.begin(), perm.end(), std::int64_t{0});
    for (std::size_t i = perm.size(); i > 1; --i)
      std::swap(perm[i - 1], perm[static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(i) - 1))]);
    // Element j of the transpose is the element whose index is j's, back through the permutation.
    const View dense{0, 0, view.dims, row_major(view.dims)};
    const Vector<std::int64_t> source = places(transposed(dense, perm)), moved = places(transposed(view, perm));
    for (std::size_t i = 0; i < moved.size(); ++i) REQUIRE_EQ(moved[i], before[static_cast<std::size_t>(source[i])]);
    if (view.rank() == 0) continue;

    const std::size_t axis = static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(view.rank()) - 1));
    const std::int64_t start = random.integer(0, view.dims[axis] - 1), step = random.integer(1, 2),
                       extent = (view.dims[axis] - start + step - 1) / step;
    const Vector<std::int64_t> kept = places(sliced(dense, axis, start, extent, step)),
                               part = places(sliced(view, axis, start, extent, step));
    for (std::size_t i = 0; i < part.size(); ++i) REQUIRE_EQ(part[i], before[static_cast<std::size_t>(kept[i])]);
    CHECK(places(without(view, axis, start)) == places(sliced(view, axis, start, 1)));

    View narrow = view;  // a dimension of 1 is repeated, and new ones stand in front
    narrow.dims[axis] = 1;
    Dims wide(narrow.dims);
    wide[axis] = 3;
    wide.insert(wide.begin(), 2);
    const View repeated = broadcast(narrow, wide);
    for (std::int64_t lead = 0; lead < 2; ++lead)
      for (std::int64_t i = 0; i < 3; ++i)
        CHECK(places(sliced(sliced(repeated, 0, lead, 1), axis + 1, i, 1)) == places(narrow));
  }
}

TEST_CASE("reshapes keep the elements in order or refuse") {
  Random random(2);
  int made = 0, refused = 0;
  for (int round = 0; round < 6000; ++round) {
    const View view = random_view(random);
    const Dims dims = random_shape(random, count_of(view.dims));
    const auto same = reshaped(view, dims);
    if (same) {
      ++made;
      REQUIRE(same->dims == dims);
      REQUIRE(places(*same) == places(view));
    } else {
      ++refused;
      CHECK(!is_row_major(view));  // those can always
    }
  }
  CHECK((made > 1000 && refused > 1000));
  const View empty{0, 0, {2, 0, 3}, {0, 3, 1}};
  CHECK(reshaped(empty, {0, 7})->dims == (Dims{0, 7}));
}

TEST_CASE("what is dense is found") {
  Random random(3);
  int dense = 0, images = 0;
  for (int round = 0; round < 6000; ++round) {
    const View view = random_view(random);
    Vector<std::int64_t> at = places(view);
    const bool in_order = std::is_sorted(at.begin(), at.end()) &&
                          std::adjacent_find(at.begin(), at.end()) == at.end() &&
                          at.back() - at.front() + 1 == static_cast<std::int64_t>(at.size());
    CHECK_EQ(is_row_major(view), in_order);
    std::sort(at.begin(), at.end());
    const bool gapless = std::adjacent_find(at.begin(), at.end()) == at.end() &&
                         at.back() - at.front() + 1 == static_cast<std::int64_t>(at.size());
    CHECK_EQ(is_dense(view), gapless);
    dense += gapless;
    // Made dense in the same order of memory, elements keep their order there.
    const View like{0, 0, view.dims, dense_strides(view.dims, memory_order(view))};
    CHECK(is_dense(like));
    if (gapless) {
      View moved = like;
      moved.offset = view.offset;
      CHECK(places(moved) == places(view));
    }
    std::int64_t pixel = 0;
    if (!is_channels_last(view, &pixel)) continue;
    ++images;
    const Vector<std::size_t> order = channels_last_order(view.rank());
    Vector<std::int64_t> perm(order.begin(), order.end());
    const Vector<std::int64_t> nhwc = places(transposed(view, perm));
    for (std::size_t i = 0; i < nhwc.size(); ++i) {
      const std::int64_t c = view.dims[1], n = static_cast<std::int64_t>(i);
      REQUIRE_EQ(nhwc[i], view.offset + n / c * pixel + n % c);
    }
  }
  CHECK((dense > 500 && images > 100));
}

TEST_CASE("nests walk all views together") {
  Random random(4);
  for (int round = 0; round < 4000; ++round) {
    View first = random_view(random), second = first, third = first;
    std::shuffle(second.strides.begin(), second.strides.end(),
                 std::mt19937(static_cast<unsigned>(round)));  // any strides at all
    third = broadcast(View{0, 7, Dims(1, 1), Dims(1, 1)}, first.dims.empty() ? Dims{1} : first.dims);
    if (first.dims.empty()) continue;
    const View *const views[] = {&first, &second, &third};
    Nest nest;
    REQUIRE(make_nest(views, 8, nest));
    CHECK(nest.dims.size() <= std::max<std::size_t>(first.rank(), 1));
    Nest refused;
    CHECK_EQ(make_nest(views, nest.dims.size() - 1, refused), false);
    // As sets of triples: each element of the views once, in whatever order.
    Vector<std::array<std::int64_t, 3>> expected, found;
    const Vector<std::int64_t> a = places(first), b = places(second), c = places(third);
    const Vector<std::int64_t> x = places(nest, 0, first.offset), y = places(nest, 1, second.offset),
                               z = places(nest, 2, third.offset);
    REQUIRE_EQ(a.size(), x.size());
    for (std::size_t i = 0; i < a.size(); ++i)
      expected.push_back({a[i], b[i], c[i]}), found.push_back({x[i], y[i], z[i]});
    std::sort(expected.begin(), expected.end()), std::sort(found.begin(), found.end());
    REQUIRE(expected == found);
    CHECK((std::is_sorted(x.begin(), x.end()) || std::count(first.strides.begin(), first.strides.end(), 0) > 0 ||
           !is_dense(first)));  // in the first's order of memory
  }
}
