// SPDX-License-Identifier: Apache-2.0
#include "image.h"

#include "stb.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <tuple>

#include "command.h"
#include "usage.h"

namespace tools {
namespace {

struct Pixels {
  int width = 0, height = 0, channels = 0;
  std::vector<uint8_t> data;  // rows of interleaved channels
};

Pixels load(const std::string &path, int channels) {
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

std::pair<int, int> parse_size(const std::string &text, const char *what) {
  int width = 0, height = 0;
  char rest = 0;
  if (std::sscanf(text.c_str(), "%dx%d%c", &width, &height, &rest) == 2 && width > 0 && height > 0)
    return {width, height};
  throw UsageError(std::string(what) + ": found '" + text + "', expected WIDTHxHEIGHT");
}

// What --resize makes of a picture of this size.
std::pair<int, int> size_after_resize(int width, int height, const std::string &resize) {
  if (resize.empty()) return {width, height};
  if (resize.find('x') != std::string::npos) return parse_size(resize, "--resize");
  char *end = nullptr;
  const long side = std::strtol(resize.c_str(), &end, 10);
  if (*end || side < 1 || side > 32768)
    throw UsageError("--resize: found '" + resize + "', expected WIDTHxHEIGHT or the length of the short side");
  const double factor = static_cast<double>(side) / std::min(width, height);
  return {std::max<int>(1, static_cast<int>(std::lround(width * factor))),
          std::max<int>(1, static_cast<int>(std::lround(height * factor)))};
}

// Where the channels are in a shape of 4 extents.
bool channels_last(const std::vector<int64_t> &dims, const ImageFlags &flags) {
  const auto is_channels = [](int64_t extent) { return extent == 1 || extent == 3; };
  return flags.layout == "auto" ? !is_channels(dims[1]) && is_channels(dims[3]) : flags.layout == "nhwc";
}

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

}  // namespace

bool is_image_path(const std::string &path) {
  const size_t dot = path.rfind('.');
  if (dot == std::string::npos) return false;
  std::string ending = path.substr(dot + 1);
  for (char &c : ending) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return ending == "png" || ending == "jpg" || ending == "jpeg" || ending == "bmp";
}

void ImageFlags::add_to(CLI::App &command) {
  const char *group = "Images";
  command.add_option("--resize", resize, "WxH, or N for the short side (default: the size that the input has)")
      ->type_name("SIZE")
      ->group(group);
  command.add_option("--crop", crop, "WxH cut from the centre after --resize")->type_name("SIZE")->group(group);
  command.add_option("--mean", mean, "Subtracted per channel after the scale: 0.485,0.456,0.406")
      ->delimiter(',')
      ->type_name("NUMBER,...")
      ->check(number(Sign::Any))
      ->allow_extra_args(false)  // the word behind is a file
      ->group(group);
  command.add_option("--std", std_dev, "Divided by, per channel: 0.229,0.224,0.225")
      ->delimiter(',')
      ->type_name("NUMBER,...")
      ->check(number(Sign::NotZero))
      ->allow_extra_args(false)
      ->group(group);
  command.add_option("--scale", scale, "Factor for the 0..255 pixels of a floating-point input (default 1/255)")
      ->type_name("NUMBER")
      ->check(number(Sign::Any))
      ->group(group);
  command.add_option("--layout", layout, "Where the channels are")
      ->check(one_of({"auto", "nchw", "nhwc"}))
      ->capture_default_str()
      ->group(group);
  command.add_option("--color", color, "Order of the channels")
      ->check(one_of({"rgb", "bgr"}))
      ->capture_default_str()
      ->group(group);
}

std::vector<int64_t> image_shape(const std::string &path, const qr::TensorInfo &input, const ImageFlags &flags) {
  const size_t rank = input.dims.size();
  if (rank != 3 && rank != 4) return input.dims;  // told by image_tensor
  std::vector<int64_t> dims = input.dims;
  if (rank == 3) dims.insert(dims.begin(), 1);
  const std::vector<uint8_t> file = read_file(path);
  int width = 0, height = 0, channels = 0;
  if (!stbi_info_from_memory(file.data(), int_size(file, path), &width, &height, &channels)) return input.dims;
  std::tie(width, height) = size_after_resize(width, height, flags.resize);
  if (!flags.crop.empty()) std::tie(width, height) = parse_size(flags.crop, "--crop");
  const bool last = channels_last(dims, flags);
  const int64_t found[4] = {1, last ? height : 3, last ? width : height, last ? 3 : width};
  for (size_t i = 0; i < 4; ++i)
    if (dims[i] < 0) dims[i] = found[i];
  return {dims.end() - static_cast<std::ptrdiff_t>(rank), dims.end()};
}

TensorData image_tensor(const std::string &path, const qr::TensorInfo &input, const ImageFlags &flags) {
  const auto unfit = [&](const std::string &why) {
    return UsageError("'" + path + "' does not fit input '" + input.name + "' " + qr_dtype_name(input.dtype) +
                      shape_text(input.dims) + ": " + why);
  };
  std::vector<int64_t> dims = input.dims;
  if (dims.size() == 3) dims.insert(dims.begin(), 1);
  if (dims.size() != 4) throw unfit("an image needs 3 or 4 dimensions");
  for (int64_t dim : dims)
    if (dim == QR_DIM_UNKNOWN) throw unfit("bind its dimensions with --shape");
  const auto is_channels = [](int64_t extent) { return extent == 1 || extent == 3; };
  const bool last = channels_last(dims, flags);
  const int64_t channels = last ? dims[3] : dims[1], height = last ? dims[1] : dims[2],
                width = last ? dims[2] : dims[3];
  if (dims[0] != 1) throw unfit("it has a batch of " + std::to_string(dims[0]) + ", expected 1");
  if (!is_channels(channels))
    throw unfit("it has " + std::to_string(channels) + " channels, expected 1 or 3 (see --layout)");
  if (height < 1 || width < 1 || height > 32768 || width > 32768) throw unfit("its height and width are out of range");
  const auto check_list = [&](const std::vector<double> &list, const char *what) {
    if (!list.empty() && list.size() != 1 && list.size() != static_cast<size_t>(channels))
      throw UsageError(std::string(what) + ": found " + std::to_string(list.size()) + " numbers, expected 1" +
                       (channels > 1 ? ", or one for each of " + std::to_string(channels) + " channels" : ""));
  };
  check_list(flags.mean, "--mean");
  check_list(flags.std_dev, "--std");

  Pixels pixels = load(path, static_cast<int>(channels));
  if (flags.resize.empty()) {
    if (flags.crop.empty()) pixels = resized(std::move(pixels), static_cast<int>(width), static_cast<int>(height));
  } else {
    const auto [w, h] = size_after_resize(pixels.width, pixels.height, flags.resize);
    pixels = resized(std::move(pixels), w, h);
  }
  if (!flags.crop.empty()) {
    const auto [w, h] = parse_size(flags.crop, "--crop");
    pixels = cropped(pixels, w, h, path);
  }
  if (pixels.width != width || pixels.height != height)
    throw unfit("it is " + std::to_string(pixels.width) + "x" + std::to_string(pixels.height) +
                " after --resize and --crop, expected " + std::to_string(width) + "x" + std::to_string(height));

  const bool is_float = input.dtype == QR_DTYPE_F32 || input.dtype == QR_DTYPE_F16 || input.dtype == QR_DTYPE_BF16 ||
                        input.dtype == QR_DTYPE_F64;
  const auto pick = [](const std::vector<double> &list, size_t c, double fallback) {
    return list.empty() ? fallback : list[list.size() == 1 ? 0 : c];
  };
  std::vector<double> values(pixels.data.size());
  const size_t plane = static_cast<size_t>(width * height), n = static_cast<size_t>(channels);
  for (size_t p = 0; p < plane; ++p)
    for (size_t c = 0; c < n; ++c) {
      double value = pixels.data[p * n + (flags.color == "bgr" ? n - 1 - c : c)];
      if (is_float) value = (value * flags.scale - pick(flags.mean, c, 0)) / pick(flags.std_dev, c, 1);
      values[last ? p * n + c : c * plane + p] = value;
    }
  TensorData out;
  out.name = input.name;
  out.dtype = input.dtype;
  out.dims = input.dims;
  out.bytes = from_doubles(input.dtype, values);
  return out;
}

std::string picture_text(const std::string &path) {
  Pixels pixels = load(path, 1);
  const int columns = std::min(pixels.width, 32), rows = std::max(1, pixels.height * columns / pixels.width);
  pixels = resized(std::move(pixels), columns, rows);
  static const char shades[] = " .:-=+*#%@";
  std::string out;
  for (int y = 0; y < rows; ++y) {
    for (int x = 0; x < columns; ++x) {
      const char shade = shades[pixels.data[static_cast<size_t>(y * columns + x)] * 9 / 255];
      out += shade, out += shade;  // a character is about twice as high as wide
    }
    out += '\n';
  }
  return out;
}

}  // namespace tools
