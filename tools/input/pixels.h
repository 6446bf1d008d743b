// SPDX-License-Identifier: Apache-2.0
// Pictures in memory: read, resized, cut, painted on, written.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace tools {

using Colour = std::array<uint8_t, 3>;

struct Pixels {
  int width = 0, height = 0, channels = 0;
  std::vector<uint8_t> data;  // rows of interleaved channels
  bool is_turned = false;     // as it was read: Exif said so

  uint8_t *at(int x, int y) {
    return &data[(static_cast<size_t>(y) * static_cast<size_t>(width) + static_cast<size_t>(x)) *
                 static_cast<size_t>(channels)];
  }
};

// Throw UsageError naming the file. A photograph is upright: Exif's orientation is applied.
Pixels load_pixels(const std::string &path, int channels);
// Width and height alone, without decoding; {0, 0} for what is no picture.
std::pair<int, int> picture_size(const std::string &path);

Pixels resized(Pixels in, int width, int height);
// From the centre. `path` is for the error.
Pixels cropped(const Pixels &in, int width, int height, const std::string &path);
// In a frame of one grey, with its corner at (left, top).
Pixels framed(const Pixels &in, int width, int height, int left, int top, uint8_t grey);

// On pictures of three channels. A box outside of the picture is drawn at its edge.
void draw_box(Pixels &picture, double left, double top, double right, double bottom, const Colour &colour);
// Half of the pixel's own colour, half of this one.
void tint(Pixels &picture, int x, int y, const Colour &colour);

// The picture as a PNG file.
std::string png(const Pixels &picture);

}  // namespace tools
