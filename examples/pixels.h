// SPDX-License-Identifier: Apache-2.0
// What the examples do with pictures: read, resize, draw, write PNG. Three bytes a pixel, RGB.
#pragma once

#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STB_IMAGE_WRITE_STATIC
#include <stb/stb_image.h>
#include <stb/stb_image_write.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

struct Pixels {
  int width = 0, height = 0;
  std::vector<std::uint8_t> rgb;
  std::uint8_t *at(int x, int y) {
    return &rgb[3 * (static_cast<std::size_t>(y) * static_cast<std::size_t>(width) + static_cast<std::size_t>(x))];
  }
  const std::uint8_t *at(int x, int y) const { return const_cast<Pixels *>(this)->at(x, y); }
};

inline Pixels blank(int width, int height, std::uint8_t grey) {
  return {width, height,
          std::vector<std::uint8_t>(3 * static_cast<std::size_t>(width) * static_cast<std::size_t>(height), grey)};
}

inline Pixels read_image(const std::string &path) {
  int width = 0, height = 0, channels = 0;
  stbi_uc *data = stbi_load(path.c_str(), &width, &height, &channels, 3);
  if (!data) throw std::runtime_error("'" + path + "' is no image that can be read");
  Pixels image = blank(width, height, 0);
  std::copy(data, data + image.rgb.size(), image.rgb.begin());
  stbi_image_free(data);
  return image;
}

inline void write_png(const std::string &path, const Pixels &image) {
  if (!stbi_write_png(path.c_str(), image.width, image.height, 3, image.rgb.data(), 3 * image.width))
    throw std::runtime_error("'" + path + "' cannot be written");
}

// The mean of the pixels around (cx, cy), those nearer counting for more.
inline void mean_around(const Pixels &from, double cx, double cy, double rx, double ry, std::uint8_t *to) {
  double sums[3] = {}, weights = 0;
  for (int j = std::max(0, static_cast<int>(std::ceil(cy - ry)));
       j <= std::min(from.height - 1, static_cast<int>(cy + ry)); ++j)
    for (int i = std::max(0, static_cast<int>(std::ceil(cx - rx)));
         i <= std::min(from.width - 1, static_cast<int>(cx + rx)); ++i) {
      const double weight = std::max(0.0, 1 - std::fabs(i - cx) / rx) * std::max(0.0, 1 - std::fabs(j - cy) / ry);
      weights += weight;
      for (int c = 0; c < 3; ++c) sums[c] += weight * from.at(i, j)[c];
    }
  for (int c = 0; c < 3; ++c) to[c] = static_cast<std::uint8_t>(weights > 0 ? sums[c] / weights + 0.5 : 0);
}

// Each pixel the mean of those that it stands for (smaller), or between its neighbours (larger).
inline Pixels resized(const Pixels &from, int width, int height) {
  Pixels to = blank(width, height, 0);
  const auto reach = [](int small, int large) { return std::max(1.0, static_cast<double>(large) / small); };
  const double rx = reach(width, from.width), ry = reach(height, from.height);
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) {
      const double cx = (x + 0.5) * from.width / width - 0.5, cy = (y + 0.5) * from.height / height - 0.5;
      mean_around(from, cx, cy, rx, ry, to.at(x, y));
    }
  return to;
}

// A frame of a colour, three pixels wide.
inline void draw_box(Pixels &image, float left, float top, float right, float bottom, const std::uint8_t (&colour)[3]) {
  const auto inside = [](float value, int size) {
    return std::clamp(static_cast<int>(std::lround(value)), 0, size - 1);
  };
  const int x0 = inside(left, image.width), x1 = inside(right, image.width), y0 = inside(top, image.height),
            y1 = inside(bottom, image.height);
  for (int y = y0; y <= y1; ++y)
    for (int x = x0; x <= x1; ++x)
      if (x - x0 < 3 || x1 - x < 3 || y - y0 < 3 || y1 - y < 3) std::copy(colour, colour + 3, image.at(x, y));
}
