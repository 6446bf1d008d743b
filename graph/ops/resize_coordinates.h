// SPDX-License-Identifier: Apache-2.0
// Where Resize reads, axis by axis; for every backend that runs it on this processor. In f32, as ONNX Runtime does:
// which neighbour is the nearest one depends on it.
#pragma once

#include <algorithm>
#include <cmath>

#include "graph/graph.h"

namespace quarry::qir {

enum class Coordinates { HalfPixel, HalfPixelSymmetric, PytorchHalfPixel, AlignCorners, Asymmetric, Crop };
enum class Nearest { PreferFloor, PreferCeil, Floor, Ceil };

inline Coordinates coordinates_of(const Node &node) {
  const std::string_view how = node.get_string("coordinate_transformation_mode", "half_pixel");
  return how == "half_pixel_symmetric" ? Coordinates::HalfPixelSymmetric
         : how == "pytorch_half_pixel" ? Coordinates::PytorchHalfPixel
         : how == "align_corners"      ? Coordinates::AlignCorners
         : how == "asymmetric"         ? Coordinates::Asymmetric
         : how == "tf_crop_and_resize" ? Coordinates::Crop
                                       : Coordinates::HalfPixel;
}
inline Nearest nearest_of(const Node &node) {
  const std::string_view rounding = node.get_string("nearest_mode", "round_prefer_floor");
  return rounding == "round_prefer_ceil" ? Nearest::PreferCeil
         : rounding == "floor"           ? Nearest::Floor
         : rounding == "ceil"            ? Nearest::Ceil
                                         : Nearest::PreferFloor;
}

struct ResizeAxis {
  std::int64_t in, out;
  float scale;
  float roi_start = 0, roi_end = 1;
};

// Where output index y lies in the input.
inline float original(const ResizeAxis &axis, Coordinates coordinates, std::int64_t y) {
  const auto x = static_cast<float>(y), in = static_cast<float>(axis.in);
  const float width =
      axis.scale * in;  // of the output; not an integer where a scale was given that does not divide evenly
  switch (coordinates) {
    case Coordinates::HalfPixel: return (x + 0.5F) / axis.scale - 0.5F;
    case Coordinates::HalfPixelSymmetric: {
      const float center = in / 2, adjustment = static_cast<float>(axis.out) / width;
      return center * (1 - adjustment) + (x + 0.5F) / axis.scale - 0.5F;
    }
    case Coordinates::PytorchHalfPixel: return axis.out > 1 ? (x + 0.5F) / axis.scale - 0.5F : 0.0F;
    case Coordinates::AlignCorners: return axis.out > 1 && width != 1 ? x * (in - 1) / (width - 1) : 0.0F;
    case Coordinates::Asymmetric: return x / axis.scale;
    case Coordinates::Crop:
      return axis.out > 1 ? axis.roi_start * (in - 1) +
                                x * (axis.roi_end - axis.roi_start) * (in - 1) / static_cast<float>(axis.out - 1)
                          : 0.5F * (axis.roi_start + axis.roi_end) * (in - 1);
  }
  return 0;
}

inline float nearest_index(float x, Nearest nearest) {
  switch (nearest) {
    case Nearest::PreferFloor: return std::ceil(x - 0.5F);
    case Nearest::PreferCeil: return std::floor(x + 0.5F);
    case Nearest::Floor: return std::floor(x);
    case Nearest::Ceil: return std::ceil(x);
  }
  return x;
}

// A coordinate may be anything that roi or a tiny scale made of it.
inline std::int64_t clamp_index(float x, std::int64_t in) {
  if (!(x > 0)) return 0;
  return x >= static_cast<float>(in) ? in - 1 : std::min(static_cast<std::int64_t>(x), in - 1);
}

// Keys' cubic convolution kernel at distance x; `a` is its free coefficient.
inline double cubic_weight(double x, double a) noexcept {
  x = __builtin_fabs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

}  // namespace quarry::qir
