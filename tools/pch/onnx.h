// SPDX-License-Identifier: Apache-2.0
// The standard headers and ONNX's messages, precompiled for what reads ONNX files: to read protobuf's headers took most
// of the time to build a file. Files still include what they use.
#include "formats/onnx/proto.h"
#include "tools/pch/standard.h"
