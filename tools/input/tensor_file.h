// SPDX-License-Identifier: Apache-2.0
// Tensors in files: NumPy's .npy, ONNX's TensorProto (.pb), raw bytes.
#pragma once

#include <quarry/quarry.hpp>

#include <string>
#include <vector>

namespace tools {

struct TensorData {
  std::string name;  // TensorProto's; empty elsewhere
  qr_dtype dtype = QR_DTYPE_UNKNOWN;
  std::vector<int64_t> dims;
  std::vector<uint8_t> bytes;
  bool is_turned = false;  // of a picture whose Exif says so

  qr::Tensor tensor() { return qr::Tensor(dtype, dims, bytes.data()); }
};

int64_t element_count(const std::vector<int64_t> &dims);  // -1 when a dimension is unknown
uint64_t packed_bytes(qr_dtype dtype, const std::vector<int64_t> &dims);
// The size as the readers of protobuf and images take it.
int int_size(const std::vector<uint8_t> &file, const std::string &path);

// All throw UsageError naming file, found, expected.
TensorData read_npy(const std::string &path);
void write_npy(const std::string &path, qr_dtype dtype, const std::vector<int64_t> &dims, const void *data,
               uint64_t size_bytes);
TensorData read_tensor_proto(const std::string &path);
TensorData read_raw(const std::string &path, qr_dtype dtype, const std::vector<int64_t> &dims);

// Values as double, for printing and comparing; sub-byte and small floats included.
std::vector<double> to_doubles(qr_dtype dtype, const void *data, int64_t count);
// Doubles to the type, saturating integers; for filling inputs.
std::vector<uint8_t> from_doubles(qr_dtype dtype, const std::vector<double> &values);

}  // namespace tools
