// SPDX-License-Identifier: Apache-2.0
#include "tools/input/webp.h"

#include <memory>

#include "base/os/library.h"
#include "tools/console/failure.h"

namespace tools {
namespace os = quarry::os;
namespace {

// The functions that are used, as libwebp has had them since 0.1: sizes in and out, and what it gives freed by it.
struct WebpLibrary {
  int (*info)(const uint8_t *data, size_t size, int *width, int *height) = nullptr;
  uint8_t *(*decode)(const uint8_t *data, size_t size, int *width, int *height) = nullptr;
  void (*release)(void *) = nullptr;
};

const WebpLibrary &webp_library() {
  static const WebpLibrary found = [] {
    WebpLibrary made;
#if !defined(QR_STATIC_QUANTIZE)  // a static program opens nothing
    // Its soname of a decade; it stays open, for what it gave may be.
    constexpr bool kIsMacos = os::kLibraryForm == os::LibraryForm::MachO;
    if (void *const opened = os::open_library(kIsMacos ? "libwebp.7.dylib" : "libwebp.so.7")) {
      os::find_symbol(opened, "WebPGetInfo", made.info);
      os::find_symbol(opened, "WebPDecodeRGB", made.decode);
      os::find_symbol(opened, "WebPFree", made.release);
    }
#endif
    return made.info && made.decode && made.release ? made : WebpLibrary();
  }();
  return found;
}

constexpr int kMostWebp = 16383;  // a side, as the format has it

}  // namespace

std::pair<int, int> webp_size(const std::vector<uint8_t> &file) {
  const WebpLibrary &library = webp_library();
  int width = 0, height = 0;
  if (!library.info || !library.info(file.data(), file.size(), &width, &height)) return {0, 0};
  return width > 0 && height > 0 && width <= kMostWebp && height <= kMostWebp ? std::pair(width, height)
                                                                              : std::pair(0, 0);
}

Pixels webp_pixels(const std::vector<uint8_t> &file, const std::string &path, int channels) {
  const WebpLibrary &library = webp_library();
  if (!library.decode)
    throw UsageError(
        "'" + path + "': found a picture as WebP, expected PNG, JPEG or BMP: libwebp is not on this machine",
        "install it (Debian: libwebp7), or convert the picture: magick '" + path + "' picture.png");
  const auto [wide, high] = webp_size(file);
  Pixels out;
  const std::unique_ptr<uint8_t, void (*)(void *)> data(
      wide ? library.decode(file.data(), file.size(), &out.width, &out.height) : nullptr, library.release);
  if (!data || out.width != wide || out.height != high)
    throw UsageError(
        "'" + path + "': found a picture as WebP that libwebp cannot read, expected PNG, JPEG or BMP, or a whole WebP",
        "convert it: magick '" + path + "' picture.png");
  out.channels = channels;
  const size_t count = static_cast<size_t>(wide) * static_cast<size_t>(high);
  const uint8_t *const rgb = data.get();
  if (channels == 3) {
    out.data.assign(rgb, rgb + 3 * count);
    return out;
  }
  out.data.resize(count);  // grey, as of the other formats
  for (size_t i = 0; i < count; ++i)
    out.data[i] = static_cast<uint8_t>((rgb[3 * i] * 77 + rgb[3 * i + 1] * 150 + rgb[3 * i + 2] * 29) >> 8);
  return out;
}

}  // namespace tools
