// SPDX-License-Identifier: Apache-2.0
// Photographs as network inputs: PNG, JPEG or BMP -> upright, resized, cropped, normalised tensor.
#pragma once

#include <string>
#include <vector>

#include "tools/input/tensor_file.h"

namespace CLI {
class App;
}

namespace tools {

// By its ending, or by its first bytes where that says nothing.
bool is_image_path(const std::string &path);

// The usual preprocessing, in this order: resize, crop (or letterbox), pixel * scale, (x - mean) / std, layout.
struct ImageFlags {
  std::string resize;        // "WxH"; "N": the short side, keeping proportions; empty: the input's own size
  std::string crop;          // "WxH" from the centre
  std::string letterbox;     // corner, centre: the whole picture in its proportions; empty: it is stretched
  int fill = 114;            // the grey around it
  std::vector<double> mean;  // per channel, in units of the scaled pixel
  std::vector<double> std_dev;
  double scale = 1.0 / 255;     // for floating-point inputs; integer inputs take the pixels as they are
  std::string layout = "auto";  // nchw, nhwc; auto: where the input's shape has the channels
  std::string color = "rgb";    // rgb, bgr

  void add_to(CLI::App &command);
};

// The input's shape with its unknown dimensions taken from the picture, as --resize and --crop leave it.
std::vector<int64_t> image_shape(const std::string &path, const qr::TensorInfo &input, const ImageFlags &flags);

// Makes the tensor that the input wants out of an image file. Throws UsageError naming file, found, expected.
TensorData image_tensor(const std::string &path, const qr::TensorInfo &input, const ImageFlags &flags);

// Where a picture lies in the input: a point (x, y) of it is at (x * scale_x + left, y * scale_y + top) there.
struct Placement {
  int photo_width = 0, photo_height = 0;
  int64_t input_width = 0, input_height = 0;
  double scale_x = 1, scale_y = 1;
  int left = 0, top = 0;
};
// For a picture that image_tensor took.
Placement image_placement(const std::string &path, const qr::TensorInfo &input, const ImageFlags &flags);

// A rough picture of a small one-channel image in characters, for a terminal.
std::string picture_text(const std::string &path);

}  // namespace tools
