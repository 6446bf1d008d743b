// SPDX-License-Identifier: Apache-2.0
#include "tools/input/picture_file.h"

#include <algorithm>
#include <bitset>
#include <map>
#include <string_view>

namespace tools {
namespace {

// Integers of a TIFF block, in the order of bytes that its head names; 0 behind its end.
struct Tiff {
  const uint8_t *data;
  size_t size;
  bool little;

  uint32_t number(size_t at, size_t bytes) const {
    if (at > size || size - at < bytes) return 0;
    uint32_t value = 0;
    for (size_t i = 0; i < bytes; ++i) value = value << 8 | data[at + (little ? bytes - 1 - i : i)];
    return value;
  }
};

int orientation_of(const Tiff &tiff) {
  constexpr uint32_t kOrientation = 0x0112, kShort = 3;
  const size_t list = tiff.number(4, 4);
  const uint32_t count = tiff.number(list, 2);
  for (size_t i = 0; i < count; ++i) {
    const size_t entry = list + 2 + 12 * i;
    if (tiff.number(entry, 2) != kOrientation) continue;
    const uint32_t value = tiff.number(entry + 8, 2);
    return tiff.number(entry + 2, 2) == kShort && value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

constexpr uint8_t kStartOfScan = 0xda, kEndOfImage = 0xd9;

// A JPEG's segments: 0xff, as often as the writer likes, what it is, its length with these two bytes, big-endian. What
// lies between them, pixels or what a writer left there, is passed over. `visit` sees the body of each, until it gives
// false. Whether that, or the mark of the file's end, came before the file was over.
template <class Visit>
bool walk_segments(const std::vector<uint8_t> &file, Visit visit) {
  bool in_pixels = false;
  for (size_t at = 2;;) {
    while (at < file.size() && file[at] != 0xff) ++at;
    while (at < file.size() && file[at] == 0xff) ++at;
    if (at == file.size()) return false;
    const uint8_t what = file[at++];
    if (what == kEndOfImage) return true;
    const bool is_bare = what <= 1 || (what >= 0xd0 && what <= 0xd8);  // 0: within pixels, behind a 0xff of theirs
    if (is_bare) continue;
    const size_t left = file.size() - at;
    const size_t length = left < 2 ? 0 : static_cast<size_t>(file[at]) << 8 | file[at + 1];
    if (left < 2 || left < length) {
      if (!in_pixels) return false;
      continue;
    }
    if (length < 2) continue;
    if (!visit(what, file.data() + at + 2, length - 2)) return true;
    in_pixels |= what == kStartOfScan;
    at += length;
  }
}

// Which of a JPEG's coefficients have a scan that gives their last bit, for each component by its number.
class Coefficients {
 public:
  void see(uint8_t what, const uint8_t *body, size_t size) {
    const bool is_frame = what >= 0xc0 && what <= 0xc2;
    if (is_frame && size >= 6)
      for (size_t i = 0; i < body[5] && 6 + 3 * i < size; ++i) given_[body[6 + 3 * i]];
    if (what != kStartOfScan || size < 1 || size < 4 + 2 * size_t{body[0]}) return;
    const uint8_t *const range = body + 1 + 2 * size_t{body[0]};  // from, to, how many bits there are still to come
    if (range[2] & 15) return;
    for (size_t i = 0; i < body[0]; ++i)
      for (size_t k = range[0]; k <= range[1] && k < 64; ++k) given_[body[1 + 2 * i]].set(k);
  }
  bool are_whole() const {
    return !given_.empty() &&
           std::all_of(given_.begin(), given_.end(), [](const auto &component) { return component.second.all(); });
  }

 private:
  std::map<uint8_t, std::bitset<64>> given_;
};

constexpr std::string_view kExif("Exif\0\0", 6);

// Of the block that a WebP has for it: four letters, the size of what follows, that, filled up to an even size.
int webp_orientation(const std::vector<uint8_t> &file) {
  constexpr std::string_view kName = "EXIF";
  const Tiff numbers{file.data(), file.size(), true};
  for (size_t at = 12; at + 8 <= file.size();) {
    const size_t size = numbers.number(at + 4, 4);
    if (size > file.size() - at - 8) return 1;
    if (size > 16 && std::equal(kName.begin(), kName.end(), file.data() + at)) {
      const uint8_t *const body = file.data() + at + 8;
      const size_t begin = std::equal(kExif.begin(), kExif.end(), body) ? kExif.size() : 0;  // some write it here too
      return orientation_of({body + begin, size - begin, body[begin] == 'I'});
    }
    at += 8 + size + size % 2;
  }
  return 1;
}

bool is_cut_png(const std::vector<uint8_t> &file) {
  const Tiff numbers{file.data(), file.size(), false};
  for (size_t at = 8; at + 8 <= file.size();) {
    const size_t length = numbers.number(at, 4);
    if (std::equal(file.begin() + static_cast<std::ptrdiff_t>(at) + 4,
                   file.begin() + static_cast<std::ptrdiff_t>(at) + 8, "IEND"))
      return false;
    if (length + 12 > file.size() - at) return true;
    at += length + 12;
  }
  return true;
}

PictureEnd end_of_jpeg(const std::vector<uint8_t> &file) {
  Coefficients coefficients;
  const bool ends = walk_segments(file, [&](uint8_t what, const uint8_t *body, size_t size) {
    coefficients.see(what, body, size);
    return true;
  });
  return ends ? PictureEnd::There : coefficients.are_whole() ? PictureEnd::Unmarked : PictureEnd::Cut;
}

// By its rows: writers do not agree on what the size of the file in its head counts.
bool is_cut_bmp(const std::vector<uint8_t> &file) {
  const Tiff numbers{file.data(), file.size(), true};
  const uint32_t head = numbers.number(14, 4);
  if (file.size() < 18 || file.size() - 14 < head) return file.size() < 18 || head <= 124;  // else it is no BMP
  constexpr uint32_t kOldHead = 12, kFields = 3, kMostExtent = 32768;
  const bool is_old = head == kOldHead;
  if (!is_old && head < 40) return false;
  const uint32_t width = numbers.number(18, is_old ? 2 : 4),
                 rows = is_old ? numbers.number(20, 2) : numbers.number(22, 4),
                 bits = numbers.number(is_old ? 24 : 28, 2), packing = is_old ? 0 : numbers.number(30, 4);
  const uint32_t height = !is_old && rows >> 31 ? 0 - rows : rows;  // below 0: from above
  if (width == 0 || height == 0 || width > kMostExtent || height > kMostExtent || bits > 32) return false;
  if (packing != 0 && packing != kFields) return false;  // its rows have no size that is known
  const uint64_t row = (uint64_t{width} * bits + 31) / 32 * 4, last = (uint64_t{width} * bits + 7) / 8;
  return numbers.number(10, 4) + row * (height - 1) + last > file.size();
}

}  // namespace

PictureEnd end_of_picture(const std::vector<uint8_t> &file) {
  const std::string format = picture_format(file.data(), file.size());
  if (format == "JPEG") return end_of_jpeg(file);
  const Tiff numbers{file.data(), file.size(), true};
  const bool is_cut = (format == "PNG" && is_cut_png(file)) || (format == "BMP" && is_cut_bmp(file)) ||
                      (format == "WebP" && numbers.number(4, 4) + uint64_t{8} > file.size());
  return is_cut ? PictureEnd::Cut : PictureEnd::There;
}

std::string picture_format(const uint8_t *bytes, size_t size) {
  const std::string_view file(reinterpret_cast<const char *>(bytes), size);
  if (file.starts_with("\x89PNG\r\n\x1a\n")) return "PNG";
  if (file.starts_with("\xff\xd8\xff")) return "JPEG";
  if (file.starts_with("BM") && size >= 14) return "BMP";
  if (file.starts_with("RIFF") && size >= 12 && file.substr(8, 4) == "WEBP") return "WebP";
  if (file.starts_with("GIF8")) return "GIF";
  if (file.starts_with(std::string_view("II*\0", 4)) || file.starts_with(std::string_view("MM\0*", 4))) return "TIFF";
  if (size >= 12 && file.substr(4, 4) == "ftyp") {
    const std::string_view brand = file.substr(8, 4);
    if (brand == "avif" || brand == "avis") return "AVIF";
    if (brand == "mif1" || brand == "msf1" || brand.substr(0, 3) == "hei" || brand.substr(0, 3) == "hev") return "HEIC";
  }
  return "";
}

std::vector<uint8_t> without_padding(const std::vector<uint8_t> &jpeg) {
  std::vector<uint8_t> out(jpeg.begin(), jpeg.begin() + 2);
  const uint8_t *rest = jpeg.data() + 2;
  walk_segments(jpeg, [&](uint8_t what, const uint8_t *body, size_t size) {
    rest = body + size;
    out.insert(out.end(), body - 4, rest);
    return what != kStartOfScan;
  });
  out.insert(out.end(), rest, jpeg.data() + jpeg.size());
  return out;
}

int exif_orientation(const std::vector<uint8_t> &file) {
  const std::string format = picture_format(file.data(), file.size());
  if (format == "WebP") return webp_orientation(file);
  if (format != "JPEG") return 1;
  constexpr uint8_t kApplication1 = 0xe1;
  int found = 0;  // the first segment of this kind counts
  walk_segments(file, [&](uint8_t what, const uint8_t *body, size_t size) {
    if (what == kApplication1 && size > kExif.size() + 8 && std::equal(kExif.begin(), kExif.end(), body))
      found = orientation_of({body + kExif.size(), size - kExif.size(), body[kExif.size()] == 'I'});
    return found == 0 && what != kStartOfScan;
  });
  return std::max(found, 1);
}

}  // namespace tools
