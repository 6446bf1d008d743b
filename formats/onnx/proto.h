// SPDX-License-Identifier: Apache-2.0
// ONNX's protobuf messages, as Debian's libonnx has them (IR version 8; what newer models add arrives as unknown fields
// and numbers).
#pragma once

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wshadow"
#include <onnx/onnx_pb.h>
#pragma GCC diagnostic pop

namespace quarry::onnx_import {
namespace pb = ::onnx;
}
