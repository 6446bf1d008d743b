// SPDX-License-Identifier: Apache-2.0
// The devices of all platforms, what each can do, and why one cannot be used.
#pragma once

#include "backends/gpu/opencl/extension.h"
#include "backends/gpu/opencl/external.h"
#include "backends/gpu/opencl/replay.h"

namespace quarry::opencl {

// The name of PoCL's platform, whose device is the processor.
inline constexpr std::string_view kPocl = "Portable Computing Language";

// What a device says of itself.
struct Device {
  cl_platform_id platform = nullptr;
  cl_device_id id = nullptr;  // none: its platform cannot be asked
  String platform_name, name, vendor, driver, version, c_version, profile, extensions;
  cl_device_type type = 0;
  cl_device_fp_config f32 = 0;
  std::uint32_t numeric = 0;  // 102: OpenCL 1.2
  std::uint32_t compute_units = 0, clock_mhz = 0;
  std::uint64_t memory_bytes = 0, max_allocation = 0, local_bytes = 0;
  std::size_t max_group = 0;
  std::uint32_t alignment = 0;  // of sub-buffers, bytes
  std::size_t image_width = 0, image_height = 0;
  std::uint32_t image_pitch = 0, image_base = 0;  // of views of buffers, in texels: rows, and where they may begin
  bool shares_memory = false, has_images = false, has_compiler = false, is_available = false, little_endian = false;
  Replay replay;
  External external;
  String why_not;  // empty: it can be used

  bool has(std::string_view extension) const noexcept { return names_extension(extensions, extension); }
  bool computes_half() const noexcept { return has("cl_khr_fp16"); }
  // Quotients and roots of f32 are rounded as IEEE 754 has it, where a program asks for that; else they are 3 ULP off.
  bool divides_exactly() const noexcept { return f32 & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT; }
  bool computes_double() const noexcept { return has("cl_khr_fp64"); }
  // Sums of four products of integers of 8 bits, in OpenCL C 3.0.
  bool computes_dots() const noexcept { return numeric >= 300 && has("cl_khr_integer_dot_product"); }
  // Images that are views of buffers.
  bool views_images() const noexcept {
    return has_images && image_pitch > 0 && (has("cl_khr_image2d_from_buffer") || (numeric >= 200 && numeric < 300));
  }
  // Its matrix multiplications are quicker when they read images: graphics processors whose caches of textures are what
  // others are not.
  bool likes_images() const noexcept;
  const char *type_name() const noexcept;
  // What program binaries depend on: "name|version|driver".
  String identity() const;
};

// All that can be found, graphics processors first; in the order of the platforms otherwise. An error where there is
// none at all.
Result<Vector<Device>> find_devices(const Library &library);

// Device and limits for people, lines with '\n' between.
String describe(const Device &device);

}  // namespace quarry::opencl
