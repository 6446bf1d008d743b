// SPDX-License-Identifier: Apache-2.0
#include "tools/input/input_files.h"

#include <algorithm>
#include <random>

#include "tools/console/command.h"
#include "tools/console/failure.h"
#include "tools/console/read_file.h"

namespace tools {
namespace {

// By its name, or, where that says nothing (standard input), by its bytes.
bool is_npy_path(const std::string &path) {
  if (path.ends_with(".npy")) return true;
  for (const char *const ending : {".pb", ".raw", ".bin"})
    if (path.ends_with(ending)) return false;
  const std::vector<uint8_t> head = read_head(path, 6);
  return std::string_view(reinterpret_cast<const char *>(head.data()), head.size()) == "\x93NUMPY";
}

}  // namespace

TensorData load_input(const std::string &path, const qr::TensorInfo &info, const ImageFlags &image) {
  if (is_image_path(path)) return image_tensor(path, info, image);
  if (is_npy_path(path)) {
    TensorData data = read_npy(path);
    // NumPy has no name for bf16 and the types under 16 bits: their bits come as unsigned integers.
    if (data.dtype != info.dtype && (data.dtype == QR_DTYPE_U8 || data.dtype == QR_DTYPE_U16) &&
        qr_dtype_bits(info.dtype) == qr_dtype_bits(data.dtype) && info.dtype != QR_DTYPE_I8 &&
        info.dtype != QR_DTYPE_I16 && info.dtype != QR_DTYPE_BOOL)
      data.dtype = info.dtype;
    return data;
  }
  if (path.ends_with(".pb")) return read_tensor_proto(path);
  return read_raw(path, info.dtype, info.dims);
}

bool says_its_shape(const std::string &path) {
  return is_image_path(path) || is_npy_path(path) || path.ends_with(".pb");
}

TensorData made_input(const qr::TensorInfo &info) {
  TensorData out;
  out.name = info.name, out.dtype = info.dtype, out.dims = info.dims;
  const int64_t count = element_count(info.dims);
  std::mt19937 random(42);
  const bool is_float = info.dtype == QR_DTYPE_F32 || info.dtype == QR_DTYPE_F64 || info.dtype == QR_DTYPE_F16 ||
                        info.dtype == QR_DTYPE_BF16;
  const bool is_byte = info.dtype == QR_DTYPE_U8 || info.dtype == QR_DTYPE_U16;
  out.bytes = room_for(packed_bytes(info.dtype, info.dims), "input '" + info.name + "'");
  if (!is_float && qr_dtype_bits(info.dtype) < 8) {
    std::fill(out.bytes.begin(), out.bytes.end(), uint8_t{0x11});
    return out;
  }
  // In pieces: the doubles of a whole tensor would take several times its memory.
  std::vector<double> values;
  auto to = out.bytes.begin();
  for (int64_t left = count; left > 0; left -= static_cast<int64_t>(values.size())) {
    values.resize(static_cast<size_t>(std::min<int64_t>(left, 65536)));
    for (double &value : values)
      value = is_float ? random() / 2147483648.0 - 1 : is_byte ? random() % 256 : random() % 2;
    const std::vector<uint8_t> piece = from_doubles(info.dtype, values);
    to = std::copy(piece.begin(), piece.end(), to);
  }
  return out;
}

std::pair<std::string, std::string> split_input(const std::string &text, const std::vector<qr::TensorInfo> &inputs) {
  size_t found = std::string::npos;  // the longest name counts
  for (const qr::TensorInfo &info : inputs)
    if (text.size() > info.name.size() && text[info.name.size()] == '=' &&
        text.compare(0, info.name.size(), info.name) == 0 && (found == std::string::npos || info.name.size() > found))
      found = info.name.size();
  if (found != std::string::npos) return {text.substr(0, found), text.substr(found + 1)};
  const std::string name = split_pair(text, "--input").first;
  std::string names;
  for (const qr::TensorInfo &info : inputs) names += (names.empty() ? "" : ", ") + info.name;
  throw UsageError("--input: the model has no input '" + name + "'; it has " + names,
                   "an input with an initializer is one of the run where --shape gives its shape: --shape NAME=1x3");
}

}  // namespace tools
