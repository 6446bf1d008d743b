// SPDX-License-Identifier: Apache-2.0
#include "tools/input/pixels.h"

#include "tools/input/stb.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>

#include "tools/console/failure.h"
#include "tools/console/read_file.h"
#include "tools/input/picture_file.h"
#include "tools/input/tensor_file.h"
#include "tools/input/webp.h"

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

// One pixel of a row that is made narrower or wider.
void add_taps(const uint8_t *row, const Taps &taps, size_t channels, float *to) {
  const uint8_t *const first = row + static_cast<size_t>(taps.first) * channels;
  for (size_t k = 0; k < taps.weights.size(); ++k)
    for (size_t c = 0; c < channels; ++c) to[c] += taps.weights[k] * first[k * channels + c];
}

// As the camera was held: orientations 5 to 8 lie on a side.
bool lies(int orientation) { return orientation >= 5; }

// The picture as Exif's orientation says that it is looked at.
Pixels upright(Pixels in, int orientation) {
  if (orientation == 1) return in;
  const int w = in.width, h = in.height;
  Pixels out{lies(orientation) ? h : w, lies(orientation) ? w : h, in.channels, {}, true};
  out.data.resize(in.data.size());
  // The columns of what is read go from the right, its rows from below.
  const bool from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool from_below = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  for (int y = 0; y < out.height; ++y)
    for (int x = 0; x < out.width; ++x) {
      const int column = lies(orientation) ? y : x, row = lies(orientation) ? x : y;
      std::copy_n(in.at(from_right ? w - 1 - column : column, from_below ? h - 1 - row : row), in.channels,
                  out.at(x, y));
    }
  return out;
}

// What stb reads; nothing where it cannot.
std::optional<Pixels> decoded(const std::vector<uint8_t> &given, const std::string &path, int channels) {
  const bool is_jpeg = picture_format(given.data(), given.size()) == "JPEG";
  const std::vector<uint8_t> clean = is_jpeg ? without_padding(given) : std::vector<uint8_t>();
  const std::vector<uint8_t> &file = is_jpeg ? clean : given;
  Pixels out;
  out.channels = channels;
  int found = 0;
  stbi_uc *data = stbi_load_from_memory(file.data(), int_size(file, path), &out.width, &out.height, &found, channels);
  if (!data) return std::nullopt;
  out.data.assign(
      data, data + static_cast<size_t>(out.width) * static_cast<size_t>(out.height) * static_cast<size_t>(channels));
  stbi_image_free(data);
  return out;
}

// A JPEG without the mark of its end gets one. It is whole where its pixels do not depend on the bits behind it.
bool is_whole_with_end(std::vector<uint8_t> &file, const std::string &path) {
  while (file.back() == 0xff) file.pop_back();  // half of that mark
  constexpr uint8_t kOnes = 0xfe, kEnd[] = {0xff, 0xd9};
  std::vector<uint8_t> other = file;
  other.insert(other.end(), 64, kOnes);
  for (std::vector<uint8_t> *one : {&file, &other}) one->insert(one->end(), kEnd, kEnd + 2);  // stb reads on in zeros
  const std::optional<Pixels> zeros = decoded(file, path, 3), ones = decoded(other, path, 3);
  return zeros && ones && zeros->data == ones->data;
}

// Of a JPEG the rest would be grey.
void refuse_cut(std::vector<uint8_t> &file, const std::string &path) {
  const size_t size = file.size();
  const PictureEnd end = end_of_picture(file);
  if (end == PictureEnd::Cut || (end == PictureEnd::Unmarked && !is_whole_with_end(file, path)))
    throw UsageError("'" + path + "': found a picture that is cut off after " + std::to_string(size) +
                         " bytes, expected a whole one",
                     "copy or download the file again, whole and in binary mode");
}

}  // namespace

Pixels load_pixels(const std::string &path, int channels) {
  std::vector<uint8_t> file = read_file(path);  // not stb's own fopen: paths are UTF-8 everywhere
  refuse_cut(file, path);
  const std::string format = picture_format(file.data(), file.size());
  if (format == "WebP") return upright(webp_pixels(file, path, channels), exif_orientation(file));
  std::optional<Pixels> out = decoded(file, path, channels);
  if (!out) {
    if (!format.empty() && format != "PNG" && format != "JPEG" && format != "BMP")
      throw UsageError("'" + path + "': found a picture as " + format + ", expected PNG, JPEG, WebP or BMP",
                       "convert it: magick '" + path + "' picture.png");
    throw UsageError("'" + path + "' is no image that can be read: " + stbi_failure_reason(),
                     "PNG, JPEG, WebP and BMP work");
  }
  return upright(std::move(*out), exif_orientation(file));
}

std::pair<int, int> picture_size(const std::string &path) {
  const std::vector<uint8_t> file = read_file(path);
  int width = 0, height = 0, channels = 0;
  if (picture_format(file.data(), file.size()) == "WebP") std::tie(width, height) = webp_size(file);
  else if (!stbi_info_from_memory(file.data(), int_size(file, path), &width, &height, &channels)) return {0, 0};
  if (lies(exif_orientation(file))) std::swap(width, height);
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
      add_taps(in.data.data() + y * static_cast<size_t>(in.width) * channels, across[x], channels,
               narrow.data() + (y * w + x) * channels);
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
