// SPDX-License-Identifier: Apache-2.0
// What a picture's file says beside its pixels: its format, and how a camera was held.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tools {

// "PNG", "JPEG", "BMP"; "WebP", which libwebp reads where it is; "HEIC", "AVIF", "GIF", "TIFF", which are not read;
// empty: no picture. By its first bytes, as names of files lie.
std::string picture_format(const uint8_t *bytes, size_t size);

// How a PNG, JPEG, BMP or WebP ends. Unmarked: a JPEG that lacks the two bytes of its end and has a scan for all of its
// pixels; whether the last one is whole says only who decodes it.
enum class PictureEnd { There, Unmarked, Cut };
PictureEnd end_of_picture(const std::vector<uint8_t> &file);

// A JPEG without what some writers leave between the segments before its pixels, which is legal or harmless.
std::vector<uint8_t> without_padding(const std::vector<uint8_t> &jpeg);

// Exif's orientation of a JPEG or WebP, 1 to 8; 1, upright, where the file says nothing.
int exif_orientation(const std::vector<uint8_t> &file);

}  // namespace tools
