// SPDX-License-Identifier: Apache-2.0
#include "tools/input/image.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <tuple>

#include "base/os/path.h"
#include "tools/console/command.h"
#include "tools/console/usage.h"
#include "tools/console/read_file.h"
#include "tools/input/picture_file.h"
#include "tools/input/pixels.h"

namespace tools {
namespace {

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

// Where the channels are in a shape of 4 dimensions.
bool channels_last(const std::vector<int64_t> &dims, const ImageFlags &flags) {
  const auto is_channels = [](int64_t extent) { return extent == 1 || extent == 3; };
  return flags.layout == "auto" ? !is_channels(dims[1]) && is_channels(dims[3]) : flags.layout == "nhwc";
}

// Where an input has its channels, height and width, in a shape of 4 dimensions.
struct Extents {
  bool last = false;
  int64_t channels = 0, height = 0, width = 0;
};
Extents extents_of(const std::vector<int64_t> &dims, const ImageFlags &flags) {
  if (channels_last(dims, flags)) return {true, dims[3], dims[1], dims[2]};
  return {false, dims[1], dims[2], dims[3]};
}

std::vector<int64_t> four(std::vector<int64_t> dims) {
  if (dims.size() == 3) dims.insert(dims.begin(), 1);
  return dims;
}

// What becomes of a picture of this size for an input of that one.
struct Preparation {
  int width = 0, height = 0;            // what it is resized to
  int crop_width = 0, crop_height = 0;  // 0: not cropped
  int left = 0, top = 0;                // its corner in the frame of --letterbox
};
Preparation prepare(int width, int height, int64_t input_width, int64_t input_height, const ImageFlags &flags) {
  const int wide = static_cast<int>(input_width), high = static_cast<int>(input_height);
  Preparation out;
  if (!flags.letterbox.empty()) {
    if (!flags.resize.empty() || !flags.crop.empty())
      throw UsageError("--letterbox: found it with " + std::string(flags.resize.empty() ? "--crop" : "--resize") +
                           ", expected one of them",
                       "--letterbox makes the whole picture fit into the input");
    const double factor = std::min(static_cast<double>(wide) / width, static_cast<double>(high) / height);
    out.width = std::clamp(static_cast<int>(width * factor), 1, wide);
    out.height = std::clamp(static_cast<int>(height * factor), 1, high);
    if (flags.letterbox == "centre") out.left = (wide - out.width) / 2, out.top = (high - out.height) / 2;
    return out;
  }
  const bool whole = flags.resize.empty() && flags.crop.empty();
  std::tie(out.width, out.height) = whole ? std::pair(wide, high) : size_after_resize(width, height, flags.resize);
  if (!flags.crop.empty()) std::tie(out.crop_width, out.crop_height) = parse_size(flags.crop, "--crop");
  return out;
}

}  // namespace

bool is_image_path(const std::string &path) {
  const size_t dot = path.rfind('.'), slash = quarry::os::last_separator(path);
  const bool has_ending = dot != std::string::npos && (slash == std::string::npos || slash < dot);
  std::string ending = has_ending ? path.substr(dot + 1) : "";
  for (char &c : ending) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  // Those that cannot be read are named as such when they are loaded.
  for (const char *const one : {"png", "jpg", "jpeg", "bmp", "webp", "heic", "heif", "avif", "gif", "tif", "tiff"})
    if (ending == one) return true;
  for (const char *const one : {"npy", "pb", "raw", "bin"})
    if (ending == one) return false;
  const std::vector<uint8_t> head = read_head(path, 16);
  return !picture_format(head.data(), head.size()).empty();
}

void ImageFlags::add_to(CLI::App &command) {
  const char *group = "Images";
  command.add_option("--resize", resize, "WxH, or N for the short side (default: the size that the input has)")
      ->type_name("SIZE")
      ->group(group);
  command.add_option("--crop", crop, "WxH cut from the centre after --resize")->type_name("SIZE")->group(group);
  command
      .add_option("--letterbox", letterbox,
                  "The whole picture in its proportions, in the corner at the top left or in the centre of the input")
      ->check(one_of({"corner", "centre"}))
      ->type_name("PLACE")
      ->group(group);
  command.add_option("--fill", fill, "Grey of what --letterbox leaves free")
      ->check(whole_number(0, 255))
      ->capture_default_str()
      ->type_name("N")
      ->group(group);
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
  if (rank != 3 && rank != 4) return input.dims;  // image_tensor reports it
  std::vector<int64_t> dims = four(input.dims);
  auto [width, height] = picture_size(path);
  if (!width) load_pixels(path, 1);  // throws with the reason
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
  const std::vector<int64_t> dims = four(input.dims);
  if (dims.size() != 4) throw unfit("an image needs 3 or 4 dimensions");
  for (int64_t dim : dims)
    if (dim == QR_DIM_UNKNOWN) throw unfit("bind its dimensions with --shape");
  const auto is_channels = [](int64_t extent) { return extent == 1 || extent == 3; };
  const auto [last, channels, height, width] = extents_of(dims, flags);
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

  Pixels pixels = load_pixels(path, static_cast<int>(channels));
  const bool is_turned = pixels.is_turned;
  const Preparation made = prepare(pixels.width, pixels.height, width, height, flags);
  pixels = resized(std::move(pixels), made.width, made.height);
  if (made.crop_width) pixels = cropped(pixels, made.crop_width, made.crop_height, path);
  if (!flags.letterbox.empty())
    pixels = framed(pixels, static_cast<int>(width), static_cast<int>(height), made.left, made.top,
                    static_cast<uint8_t>(flags.fill));
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
  out.is_turned = is_turned;
  return out;
}

Placement image_placement(const std::string &path, const qr::TensorInfo &input, const ImageFlags &flags) {
  const auto [last, channels, height, width] = extents_of(four(input.dims), flags);
  Placement out;
  std::tie(out.photo_width, out.photo_height) = picture_size(path);
  out.input_width = width, out.input_height = height;
  const Preparation made = prepare(out.photo_width, out.photo_height, width, height, flags);
  out.scale_x = static_cast<double>(made.width) / out.photo_width;
  out.scale_y = static_cast<double>(made.height) / out.photo_height;
  out.left = made.crop_width ? -(made.width - made.crop_width) / 2 : made.left;
  out.top = made.crop_height ? -(made.height - made.crop_height) / 2 : made.top;
  return out;
}

std::string picture_text(const std::string &path) {
  Pixels pixels = load_pixels(path, 1);
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
