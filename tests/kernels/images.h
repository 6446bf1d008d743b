// SPDX-License-Identifier: Apache-2.0
// Images as kernels have them, and as ONNX has.
#pragma once

#include <stdexcept>

#include "tests/kernels/operands.h"

namespace quarry::kernel_test {

// n x h x w pixels of c channels, `stride` apart; what lies between is a value that must survive.
struct Image {
  std::int32_t n, h, w, c, stride;
  std::vector<float> data;

  Image(std::int32_t n_, std::int32_t h_, std::int32_t w_, std::int32_t c_, std::int32_t stride_)
      : n(n_),
        h(h_),
        w(w_),
        c(c_),
        stride(stride_),
        data(static_cast<std::size_t>((std::int64_t{n_} * h_ * w_ - 1) * stride_ + c_), -77.0f) {}
  float &at(std::int64_t pixel, std::int64_t channel) {
    return data[static_cast<std::size_t>(pixel * stride + channel)];
  }
  std::int64_t pixels() const { return std::int64_t{n} * h * w; }

  static Image random(std::int32_t n, std::int32_t h, std::int32_t w, std::int32_t c, std::int32_t stride,
                      Random &random) {
    Image image(n, h, w, c, stride);
    for (std::int64_t i = 0; i < image.pixels(); ++i)
      for (std::int32_t k = 0; k < c; ++k) image.at(i, k) = random.real(-1, 1);
    return image;
  }
  // As ONNX has it: [n, c, h, w].
  Tensor planes() {
    Tensor tensor{DType::F32, {n, c, h, w}, {}, {}};
    std::vector<float> values;
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int32_t k = 0; k < c; ++k)
        for (std::int64_t p = 0; p < std::int64_t{h} * w; ++p) values.push_back(at(i * h * w + p, k));
    tensor.data = bytes_of(values);
    return tensor;
  }
  void set_planes(const std::vector<float> &values) {
    std::size_t next = 0;
    if (values.size() != static_cast<std::size_t>(pixels() * c))
      throw std::runtime_error("the reference's shape differs");
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int32_t k = 0; k < c; ++k)
        for (std::int64_t p = 0; p < std::int64_t{h} * w; ++p) at(i * h * w + p, k) = values[next++];
  }
};

inline Vector<std::int64_t> list(std::initializer_list<std::int64_t> values) { return Vector<std::int64_t>(values); }

}  // namespace quarry::kernel_test
