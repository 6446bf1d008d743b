// SPDX-License-Identifier: Apache-2.0
#include "tools/input/input_files.h"

#include <algorithm>
#include <random>

#include "tools/console/failure.h"

namespace tools {
TensorData load_input(const std::string &path, const qr::TensorInfo &info, const ImageFlags &image) {
  if (is_image_path(path)) return image_tensor(path, info, image);
  if (path.ends_with(".npy")) {
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
  return is_image_path(path) || path.ends_with(".npy") || path.ends_with(".pb");
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

}  // namespace tools
