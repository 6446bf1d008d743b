// SPDX-License-Identifier: Apache-2.0
// Weights that are known only in the run, packed as the kernels of products read them.
#include "kernels/cpu/pack/pack.h"
#include "kernels/cpu/shapes/conv_shape.h"
#include "kernels/cpu/shapes/recurrent_shape.h"
#include "kernels/cpu/vector/isa_kernels.h"

namespace quarry::kernels::QR_ISA {

namespace {

// Elements that are worth another thread.
constexpr std::int64_t kGrain = 16384;

// Parts of so many elements in all, shared out; some at a time, between which it is asked whether to stop.
template <class Body>
void in_parts(const Call &call, std::int64_t parts, std::int64_t elements, Body &&body) {
  const std::int64_t each = max_of<std::int64_t>(1, elements / parts);
  call.threads.run(static_cast<std::uint64_t>(parts),
                   static_cast<std::uint64_t>(max_of<std::int64_t>(1, kGrain / each)),
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                     const auto first = static_cast<std::int64_t>(begin);
                     Parts some(call.threads, static_cast<std::int64_t>(end) - first,
                                max_of<std::int64_t>(1, Parts::kElements / 4 / each));  // (that lie apart)
                     while (some.next()) body(first + some.begin, first + some.end);
                   });
}

}  // namespace

void run_PackF32(const Call &call) {
  const auto &p = call.as<PackF32>();
  const ConvF32 &c = p.conv;
  const std::int64_t dims[] = {c.oc, c.ic / c.groups, c.window.kh, c.window.kw};
  FilterView<float> w{call.operand<const float>(0), p.strides[0], p.strides[1], p.strides[2], p.strides[3]};
  // Whole vectors of each group's outputs, or of all.
  const std::int64_t groups = p.kind == PackKind::Conv && c.algorithm == ConvAlgorithm::Direct ? c.groups : 1;
  std::int64_t elements = groups * ceil_div<std::int64_t>(c.oc / groups, p.lanes) * p.lanes;
  for (int i = 0; i < 4; ++i) {
    if (i > 0) elements *= dims[i];
    if (p.strides[i] < 0) w.data -= (dims[i] - 1) * p.strides[i];
  }
  float *const to = call.operand<float>(1);
  if (p.kind == PackKind::Conv) {
    in_parts(call, conv_pack_parts(c, p.lanes, p.panel), elements,
             [&](std::int64_t begin, std::int64_t end) { pack_conv_parts(c, p.lanes, p.panel, w, to, begin, end); });
  } else {
    DepthwiseF32 d;
    d.window = c.window, d.c = c.oc;
    in_parts(call, depthwise_pack_parts(d, p.lanes), elements,
             [&](std::int64_t begin, std::int64_t end) { pack_depthwise_parts(d, p.lanes, w, to, begin, end); });
  }
}

void run_PackRecurrentF32(const Call &call) {
  const auto &p = call.as<PackRecurrentF32>();
  const RecurrentShape s = recurrent_shape(p.layer, p.lanes);
  in_parts(call, recurrent_pack_parts(p.layer, p.lanes), s.weights, [&](std::int64_t begin, std::int64_t end) {
    pack_recurrent_parts(p.layer, p.lanes, call.operand<const float>(0), call.operand<float>(1), begin, end);
  });
}

}  // namespace quarry::kernels::QR_ISA
