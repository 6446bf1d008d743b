// SPDX-License-Identifier: Apache-2.0
#include "tools/input/pixels.h"

#include "tools/input/stb.h"

#include <algorithm>
#include <cmath>

#include "tools/console/failure.h"
#include "tools/console/read_file.h"
#include "tools/input/tensor_file.h"

namespace tools {
namespace {

// The weights of the input samples that make one output sample along an axis: a triangle as wide as the scale when
// shrinking, linear interpolation when growing. (stb's own resizer asserts on some scales.)
struct Taps {
  int first = 0;
  std::vector<float> weights;
};
std::vector<Taps> triangle_taps(int from, int to) {
  std::vector<Taps> all(static_cast<size_t>(to));
  const double scale = static_cast<double>(from) / to, reach = std::max(scale, 1.0);
  for (int o = 0; o < to; ++o) {
    const double centre = (o + 0.5) * scale - 0.5;
    Taps &taps = all[static_cast<size_t>(o)];
    taps.first = std::clamp(static_cast<int>(std::ceil(centre - reach)), 0, from - 1);
    const int last = std::clamp(static_cast<int>(std::floor(centre + reach)), taps.first, from - 1);
    double sum = 0;
    for (int i = taps.first; i <= last; ++i) {
      const double weight = std::max(0.0, 1 - std::fabs(i - centre) / reach);
      taps.weights.push_back(static_cast<float>(weight));
      sum += weight;
    }
    if (sum <= 0) taps.weights.assign(1, 1.0f), sum = 1;
    for (float &weight : taps.weights) weight = static_cast<float>(weight / sum);
  }
  return all;
}

}  // namespace

Pixels load_pixels(const std::string &path, int channels) {
  const std::vector<uint8_t> file = read_file(path);  // not stb's own fopen: paths are UTF-8 everywhere
  Pixels out;
  out.channels = channels;
  int found = 0;
  stbi_uc *data = stbi_load_from_memory(file.data(), int_size(file, path), &out.width, &out.height, &found, channels);
  if (!data)
    throw UsageError("'" + path + "' is no image that can be read: " + stbi_failure_reason(), "PNG, JPEG and BMP work");
  out.data.assign(
      data, data + static_cast<size_t>(out.width) * static_cast<size_t>(out.height) * static_cast<size_t>(channels));
  stbi_image_free(data);
  return out;
}

std::pair<int, int> picture_size(const std::string &path) {
  const std::vector<uint8_t> file = read_file(path);
  int width = 0, height = 0, channels = 0;
  if (!stbi_info_from_memory(file.data(), int_size(file, path), &width, &height, &channels)) return {0, 0};
  return {width, height};
}

Pixels resized(Pixels in, int width, int height) {
  if (in.width == width && in.height == height) return in;
  if (width > 32768 || height > 32768)
    throw UsageError("--resize: found " + std::to_string(width) + "x" + std::to_string(height) +
                     " for the whole image, expected at most 32768x32768");
  const size_t channels = static_cast<size_t>(in.channels), w = static_cast<size_t>(width),
               rows = static_cast<size_t>(in.height);
  const std::vector<Taps> across = triangle_taps(in.width, width), down = triangle_taps(in.height, height);
  std::vector<float> narrow(rows * w * channels);
  for (size_t y = 0; y < rows; ++y)
    for (size_t x = 0; x < w; ++x)
      for (size_t k = 0; k < across[x].weights.size(); ++k)
        for (size_t c = 0; c < channels; ++c)
          narrow[(y * w + x) * channels + c] +=
              across[x].weights[k] *
              in.data[(y * static_cast<size_t>(in.width) + static_cast<size_t>(across[x].first) + k) * channels + c];
  Pixels out{width, height, in.channels, {}};
  out.data.resize(static_cast<size_t>(height) * w * channels);
  std::vector<float> row(w * channels);
  for (size_t y = 0; y < static_cast<size_t>(height); ++y) {
    std::fill(row.begin(), row.end(), 0.0f);
    for (size_t k = 0; k < down[y].weights.size(); ++k) {
      const float *from = narrow.data() + (static_cast<size_t>(down[y].first) + k) * w * channels;
      for (size_t i = 0; i < row.size(); ++i) row[i] += down[y].weights[k] * from[i];
    }
    for (size_t i = 0; i < row.size(); ++i)
      out.data[y * row.size() + i] = static_cast<uint8_t>(std::clamp(std::lround(row[i]), 0l, 255l));
  }
  return out;
}

Pixels cropped(const Pixels &in, int width, int height, const std::string &path) {
  if (in.width == width && in.height == height) return in;
  if (in.width < width || in.height < height)
    throw UsageError("'" + path + "' is " + std::to_string(in.width) + "x" + std::to_string(in.height) +
                         " before the crop, which wants " + std::to_string(width) + "x" + std::to_string(height),
                     "resize it first: --resize");
  Pixels out{width, height, in.channels, {}};
  const size_t row = static_cast<size_t>(width) * static_cast<size_t>(in.channels);
  const int left = (in.width - width) / 2, top = (in.height - height) / 2;
  for (int y = 0; y < height; ++y) {
    const uint8_t *from =
        in.data.data() + (static_cast<size_t>(top + y) * static_cast<size_t>(in.width) + static_cast<size_t>(left)) *
                             static_cast<size_t>(in.channels);
    out.data.insert(out.data.end(), from, from + row);
  }
  return out;
}

Pixels framed(const Pixels &in, int width, int height, int left, int top, uint8_t grey) {
  Pixels out{width, height, in.channels, {}};
  out.data.assign(static_cast<size_t>(width) * static_cast<size_t>(height) * static_cast<size_t>(in.channels), grey);
  const size_t row = static_cast<size_t>(in.width) * static_cast<size_t>(in.channels);
  for (int y = 0; y < in.height; ++y)
    std::copy_n(in.data.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(y) * row), row,
                out.at(left, top + y));
  return out;
}

void draw_box(Pixels &picture, double left, double top, double right, double bottom, const Colour &colour) {
  const auto inside = [](double value, int size) {
    return static_cast<int>(std::lround(std::clamp(value, 0.0, static_cast<double>(size - 1))));
  };
  const int x0 = inside(left, picture.width), x1 = inside(right, picture.width), y0 = inside(top, picture.height),
            y1 = inside(bottom, picture.height);
  const int thick = std::max(2, std::min(picture.width, picture.height) / 200);
  for (int y = y0; y <= y1; ++y)
    for (int x = x0; x <= x1; ++x)
      if (x - x0 < thick || x1 - x < thick || y - y0 < thick || y1 - y < thick)
        std::copy(colour.begin(), colour.end(), picture.at(x, y));
}

void tint(Pixels &picture, int x, int y, const Colour &colour) {
  uint8_t *at = picture.at(x, y);
  for (size_t c = 0; c < colour.size(); ++c) at[c] = static_cast<uint8_t>((at[c] + colour[c] + 1) / 2);
}

std::string png(const Pixels &picture) {
  std::string file;
  const auto append = [](void *to, void *data, int size) {
    static_cast<std::string *>(to)->append(static_cast<const char *>(data), static_cast<size_t>(size));
  };
  if (!stbi_write_png_to_func(append, &file, picture.width, picture.height, picture.channels, picture.data.data(),
                              picture.width * picture.channels))
    throw Failure("the picture of " + std::to_string(picture.width) + "x" + std::to_string(picture.height) +
                  " cannot be written as PNG: no memory");
  return file;
}

}  // namespace tools
