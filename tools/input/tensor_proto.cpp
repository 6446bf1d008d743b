// SPDX-License-Identifier: Apache-2.0
// Tensors in ONNX's own files (.pb).
#include <onnx/onnx_pb.h>

#include "tools/console/command.h"
#include "tools/console/read_file.h"
#include "tools/input/tensor_file.h"

namespace tools {

TensorData read_tensor_proto(const std::string &path) {
  const std::vector<uint8_t> file = read_file(path);
  onnx::TensorProto proto;
  if (!proto.ParseFromArray(file.data(), int_size(file, path)))
    throw UsageError("'" + path + "' is no ONNX TensorProto");
  TensorData out;
  out.name = proto.name();
  out.dtype = proto.data_type();
  out.dims.assign(proto.dims().begin(), proto.dims().end());
  if (qr_dtype_bits(out.dtype) == 0)
    throw UsageError("'" + path + "': data type " + std::to_string(proto.data_type()) +
                     " has no counterpart in Quarry");
  const uint64_t expected = packed_bytes(out.dtype, out.dims);
  const int64_t count = element_count(out.dims);
  if (count < 0) throw UsageError("'" + path + "': shape " + shape_text(out.dims) + " is not valid");
  const auto store = [&](const auto &values, auto tag) {
    for (const auto &value : values) {
      const auto element = static_cast<decltype(tag)>(value);
      const auto *bytes = reinterpret_cast<const uint8_t *>(&element);
      out.bytes.insert(out.bytes.end(), bytes, bytes + sizeof element);
    }
  };
  if (proto.has_raw_data()) {
    out.bytes.assign(proto.raw_data().begin(), proto.raw_data().end());
  } else {
    switch (out.dtype) {
      case QR_DTYPE_F32: store(proto.float_data(), float{}); break;
      case QR_DTYPE_F64: store(proto.double_data(), double{}); break;
      case QR_DTYPE_I64: store(proto.int64_data(), int64_t{}); break;
      case QR_DTYPE_U64: store(proto.uint64_data(), uint64_t{}); break;
      case QR_DTYPE_U32: store(proto.uint64_data(), uint32_t{}); break;
      case QR_DTYPE_I32: store(proto.int32_data(), int32_t{}); break;
      case QR_DTYPE_I16:
      case QR_DTYPE_U16:
      case QR_DTYPE_F16:
      case QR_DTYPE_BF16: store(proto.int32_data(), uint16_t{}); break;
      default: store(proto.int32_data(), uint8_t{}); break;  // packed types hold one byte an entry
    }
  }
  if (out.bytes.size() != expected)
    throw UsageError("'" + path + "': found " + std::to_string(out.bytes.size()) + " bytes of data, " +
                     qr_dtype_name(out.dtype) + shape_text(out.dims) + " needs " + std::to_string(expected));
  return out;
}

}  // namespace tools
