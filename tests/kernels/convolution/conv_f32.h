// SPDX-License-Identifier: Apache-2.0
// What the tests of convolutions and of products share.
#pragma once

#include <utility>

#include "kernels/cpu/pack/pack.h"
#include "tests/kernels/driver.h"

namespace quarry::kernel_test {

// A convolution; of its parameters `groups` is the channels' number where it is depthwise.
struct ConvCase {
  kernels::ConvF32 p;
  bool depthwise = false;
  std::vector<std::pair<std::size_t, float>> special_x;  // elements of x (modulo its size) that are not random
  bool planes_out = false;                               // where x lies in planes: y, too
  std::vector<float> w;                                  // in place of random ones, where there are any
};
struct ConvData {
  std::vector<float> x, w, bias, r;
};
ConvCase conv_case(std::int32_t size, std::int32_t ic, std::int32_t oc, std::int32_t k, std::int32_t step,
                   std::int32_t pad);
ConvCase gemm_case(std::int32_t m, std::int32_t k, std::int32_t n);
ConvCase depthwise_case(std::int32_t size, std::int32_t channels, std::int32_t k, std::int32_t step, std::int32_t pad);
Registry::Prepared prepare(const Isa &isa, const ConvCase &c, Random &random, ConvData *data);
void check_conv(const Isa &isa, const ConvCase &c);

double apply(const kernels::Activation &act, double x);
// Demands act(sum [+ r]) [+ r], where the sum may be off by `error`.
void expect_result(const std::string &what, float found, double sum, double error, kernels::Residual residual, double r,
                   const kernels::Activation &act);

void register_matmul(Registry &registry);
void register_block(Registry &registry);

}  // namespace quarry::kernel_test
