// SPDX-License-Identifier: Apache-2.0
// A stand-in for libquarry-prepare, linked into the test: the "ONNX model" is any bytes that begin like one, and
//   becomes y = x + 10 (f32), nonzero = NonZero(x)
// with x of the shapes that the option "shape" binds ("x=2x3").
#pragma once

#include <cstdint>

// The beginning of every ONNX file: field ir_version.
inline constexpr std::uint8_t kFakeOnnx[] = {0x08, 0x07, 0x12, 0x00};

// How many prepared models and lowered graphs are alive.
int fake_prepare_alive() noexcept;
