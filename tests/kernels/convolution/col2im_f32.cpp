// SPDX-License-Identifier: Apache-2.0
// Col2Im: exact.
#include "tests/kernels/images.h"

namespace quarry::kernel_test {

namespace {

using qir::Op;

void test_col2im(const Isa &isa) {
  Random random(23);
  struct Shape {
    std::int32_t planes, h, w, kh, kw, sh, dh, dw, top, left, bottom, right;
  };
  for (const Shape &s : {Shape{1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0},
                         {3, 28, 28, 3, 3, 1, 1, 1, 1, 1, 1, 1},
                         {2, 9, 70, 3, 5, 2, 1, 1, 0, 2, 1, 0},
                         {2, 11, 12, 2, 3, 3, 2, 4, 1, 0, 0, 3},
                         {5, 7, 5, 4, 5, 1, 1, 1, 3, 4, 3, 4},
                         {1, 6, 19, 1, 4, 1, 1, 6, 0, 3, 0, 0}}) {
    Col2ImF32 p;
    p.planes = s.planes;
    p.window = {1,
                s.h,
                s.w,
                (s.h + s.top + s.bottom - (s.kh - 1) * s.dh - 1) / s.sh + 1,
                s.w + s.left + s.right - (s.kw - 1) * s.dw,
                s.kh,
                s.kw,
                s.sh,
                1,
                s.dh,
                s.dw,
                s.top,
                s.left};
    const std::int64_t places = std::int64_t{p.window.oh} * p.window.ow, taps = std::int64_t{s.kh} * s.kw;
    const auto x = random.reals(static_cast<std::size_t>(s.planes * taps * places));
    qir::Node node = node_of(Op::Col2Im, 3);
    node.set("strides", list({s.sh, 1})), node.set("dilations", list({s.dh, s.dw}));
    node.set("pads", list({s.top, s.left, s.bottom, s.right}));
    const auto expected = reference_values(
        node, {tensor_of({1, s.planes * taps, places}, x), tensor_of({2}, std::vector<std::int64_t>{s.h, s.w}),
               tensor_of({2}, std::vector<std::int64_t>{s.kh, s.kw})});
    const auto found = run(isa, Kernel::Col2ImF32, &p, {in(x), out(expected.size() * 4)})[0];
    expect_close("places", values_of<float>(found), expected, 0, 0);
  }
  const Col2ImF32 p;
  refuse(isa, Kernel::Col2ImF32, p, "steps of 2", [](auto &q) { q.window.sw = 2; });
  refuse(isa, Kernel::Col2ImF32, p, "no planes", [](auto &q) { q.planes = 0; });
  refuse(isa, Kernel::Col2ImF32, p, "two images", [](auto &q) { q.window.n = 2; });
}

}  // namespace

void register_col2im(Registry &registry) { registry.test("Col2ImF32", test_col2im); }

}  // namespace quarry::kernel_test
