// SPDX-License-Identifier: Apache-2.0
#include "backends/gpu/opencl/device.h"

#include <algorithm>
#include <cstdio>

#include "backends/gpu/opencl/pocl.h"

namespace quarry::opencl {

namespace {

constexpr char kNoDevice[] =
    "install the device's driver: it puts a file into /etc/OpenCL/vendors (on Debian, without a GPU: "
    "pocl-opencl-icd)";

// A text that a call writes after it has said how long it is.
template <class Call>
String text_of(const Call &call) {
  std::size_t size = 0;
  if (call(0, nullptr, &size) != CL_SUCCESS || size == 0) return {};
  String text(size, '\0');
  if (call(size, text.data(), nullptr) != CL_SUCCESS) return {};
  text.resize(std::min(text.size(), text.find('\0')));
  return text;
}

class Reader {
 public:
  Reader(const Library &library, Device &device) : library_(library), device_(device) {}
  String text(cl_device_info what) const {
    return text_of([&](std::size_t size, void *out, std::size_t *needed) {
      return library_->GetDeviceInfo(device_.id, what, size, out, needed);
    });
  }
  // What it does not say stays as it was.
  template <class T>
  void value(cl_device_info what, T &out) const {
    T read{};
    if (library_->GetDeviceInfo(device_.id, what, sizeof read, &read, nullptr) == CL_SUCCESS) out = read;
  }
  bool flag(cl_device_info what) const {
    cl_bool read = CL_FALSE;
    value(what, read);
    return read != CL_FALSE;
  }

 private:
  const Library &library_;
  Device &device_;
};

void read(const Library &library, Device &d) {
  const Reader reader(library, d);
  d.name = reader.text(CL_DEVICE_NAME);
  d.vendor = reader.text(CL_DEVICE_VENDOR);
  d.driver = reader.text(CL_DRIVER_VERSION);
  d.version = reader.text(CL_DEVICE_VERSION);
  d.c_version = reader.text(CL_DEVICE_OPENCL_C_VERSION);
  d.profile = reader.text(CL_DEVICE_PROFILE);
  d.extensions = reader.text(CL_DEVICE_EXTENSIONS);
  unsigned major = 0, minor = 0;
  if (std::sscanf(d.version.c_str(), "OpenCL %u.%u", &major, &minor) == 2) d.numeric = major * 100 + minor;
  reader.value(CL_DEVICE_TYPE, d.type);
  reader.value(CL_DEVICE_SINGLE_FP_CONFIG, d.f32);
  reader.value(CL_DEVICE_MAX_COMPUTE_UNITS, d.compute_units);
  reader.value(CL_DEVICE_MAX_CLOCK_FREQUENCY, d.clock_mhz);
  reader.value(CL_DEVICE_GLOBAL_MEM_SIZE, d.memory_bytes);
  reader.value(CL_DEVICE_MAX_MEM_ALLOC_SIZE, d.max_allocation);
  reader.value(CL_DEVICE_LOCAL_MEM_SIZE, d.local_bytes);
  reader.value(CL_DEVICE_MAX_WORK_GROUP_SIZE, d.max_group);
  reader.value(CL_DEVICE_MEM_BASE_ADDR_ALIGN, d.alignment);
  d.alignment = std::max<std::uint32_t>(d.alignment / 8, 1);
  reader.value(CL_DEVICE_IMAGE2D_MAX_WIDTH, d.image_width);
  reader.value(CL_DEVICE_IMAGE2D_MAX_HEIGHT, d.image_height);
  d.shares_memory = reader.flag(CL_DEVICE_HOST_UNIFIED_MEMORY);
  d.has_images = reader.flag(CL_DEVICE_IMAGE_SUPPORT) && library->CreateImage;
  reader.value(CL_DEVICE_IMAGE_PITCH_ALIGNMENT, d.image_pitch);
  reader.value(CL_DEVICE_IMAGE_BASE_ADDRESS_ALIGNMENT, d.image_base);
  d.has_compiler = reader.flag(CL_DEVICE_COMPILER_AVAILABLE);
  d.is_available = reader.flag(CL_DEVICE_AVAILABLE);
  d.little_endian = reader.flag(CL_DEVICE_ENDIAN_LITTLE);
  d.replay = find_replay(library, d.platform, d.id, d.extensions);
  d.external = find_external(library, d.platform, d.id, d.extensions);
}

String why_unusable(const Device &d) {
  if (!d.is_available) return "found the device not available, expected one that is: its driver says so";
  if (d.numeric < 102)
    return format("found %s, expected OpenCL 1.2 or later: update the driver", printable(d.version, 60));
  if (!d.has_compiler) return "found a driver without a compiler, expected one that builds kernels from source";
  if (!d.little_endian) return "found a device of big endian, expected little endian";
  if (d.profile == "EMBEDDED_PROFILE" && !d.has("cles_khr_int64"))
    return "found the embedded profile without cles_khr_int64, expected integers of 64 bits";
  return {};
}

int rank_of(const Device &d) { return d.type & CL_DEVICE_TYPE_GPU ? 0 : d.type & CL_DEVICE_TYPE_ACCELERATOR ? 1 : 2; }

}  // namespace

bool names_extension(std::string_view all, std::string_view extension) noexcept {
  for (std::size_t at = all.find(extension); at != all.npos; at = all.find(extension, at + 1)) {
    const std::size_t end = at + extension.size();
    if ((at == 0 || all[at - 1] == ' ') && (end == all.size() || all[end] == ' ')) return true;
  }
  return false;
}

// By the vendor's name: their numbers are not the same on all systems.
bool Device::likes_images() const noexcept {
  if (!has_images || !(type & CL_DEVICE_TYPE_GPU)) return false;
  for (const std::string_view part : {"Adreno", "Mali", "Immortalis"})
    if (name.find(part) != String::npos) return true;
  return vendor.find("QUALCOMM") != String::npos || vendor.find("Qualcomm") != String::npos;
}

const char *Device::type_name() const noexcept {
  constexpr const char *kNames[] = {"graphics processor", "accelerator", "processor, by an OpenCL driver for it"};
  return kNames[rank_of(*this)];
}

String Device::identity() const { return name + "|" + version + "|" + driver; }

namespace {

Device refused_pocl(cl_platform_id platform, const char *why) {
  Device device;
  device.platform = platform, device.platform_name = device.name = kPocl, device.type = CL_DEVICE_TYPE_CPU;
  device.why_not = why;
  return device;
}

}  // namespace

Result<Vector<Device>> find_devices(const Library &library) {
  Vector<Device> devices;
  // From 5 on it makes its device as soon as anybody asks for platforms.
  const char *const pocl_aborts = why_pocl_would_abort();
  if (pocl_aborts && pocl_is_installed()) {
    devices.push_back(refused_pocl(nullptr, pocl_aborts));
    return devices;
  }
  cl_uint count = 0;
  const cl_int asked = library->GetPlatformIDs(0, nullptr, &count);
  if (asked != CL_SUCCESS || count == 0)
    return Status::error(
        ErrorId::backend_no_device,
        format("%s: found no platform%s%s, expected the driver of a device", printable(library.path(), 1000),
               asked == CL_SUCCESS ? "" : ": ", asked == CL_SUCCESS ? "" : error_text(asked).c_str()),
        kNoDevice);
  Vector<cl_platform_id> platforms(count);
  QR_RETURN_IF_ERROR(check("GetPlatformIDs", library->GetPlatformIDs(count, platforms.data(), nullptr)));
  String names;
  for (const cl_platform_id platform : platforms) {
    const String name = text_of([&](std::size_t size, void *out, std::size_t *needed) {
      return library->GetPlatformInfo(platform, CL_PLATFORM_NAME, size, out, needed);
    });
    names += (names.empty() ? "" : ", ") + name;
    if (pocl_aborts && name == kPocl) {
      devices.push_back(refused_pocl(platform, pocl_aborts));
      continue;
    }
    cl_uint found = 0;
    if (library->GetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &found) != CL_SUCCESS || found == 0) continue;
    Vector<cl_device_id> ids(found);
    if (library->GetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, found, ids.data(), nullptr) != CL_SUCCESS) continue;
    for (const cl_device_id id : ids) {
      Device &device = devices.emplace_back();
      device.platform = platform, device.id = id, device.platform_name = name;
      read(library, device);
      device.why_not = why_unusable(device);
    }
  }
  if (devices.empty())
    return Status::error(ErrorId::backend_no_device,
                         format("OpenCL: found the platforms %s without a device, expected one", printable(names, 300)),
                         "is the device there, and may this user open it (/dev/dri, /dev/kgsl-3d0, /dev/mali0)?");
  std::ranges::stable_sort(devices, {}, rank_of);
  return devices;
}

String describe(const Device &d) {
  if (!d.id) return "platform: " + printable(d.platform_name);
  constexpr double kMega = 1 << 20;
  String out = format("%s: %s by %s, platform %s\n", d.type_name(), printable(d.name), printable(d.vendor),
                      printable(d.platform_name));
  out += format("driver: %s; %s; %s\n", printable(d.driver), printable(d.version), printable(d.c_version));
  out += format(
      "limits: %u compute units at %u MHz, %.0f MB (%.0f MB in one piece), %.0f kB of local memory, groups of %zu\n",
      d.compute_units, d.clock_mhz, static_cast<double>(d.memory_bytes) / kMega,
      static_cast<double>(d.max_allocation) / kMega, static_cast<double>(d.local_bytes) / 1024, d.max_group);
  if (d.has_images)
    out +=
        format("images: up to %zu x %zu; %s; products %s\n", d.image_width, d.image_height,
               d.views_images() ? format("views of buffers (cl_khr_image2d_from_buffer), rows of %u texels, from %u on",
                                         d.image_pitch, d.image_base)
                                      .c_str()
                                : "no views of buffers",
               d.likes_images() ? "read them" : "read buffers (gpu.images)");
  else out += "images: none\n";
  out += format("memory: %s\n", d.shares_memory ? "shared with the host" : "its own");
  out += format("f16: %s; f64: %s\n", d.computes_half() ? "computes (cl_khr_fp16)" : "stores, and computes in f32",
                d.computes_double() ? "computes (cl_khr_fp64)" : "none");
  out += format("quotients of f32: %s\n", d.divides_exactly() ? "rounded as on the processor"
                                                              : "to 3 ULP, so that a quantised value may be 1 off");
  out += format("integers of 8 bits: %s\n",
                d.computes_dots() ? "dot products (cl_khr_integer_dot_product)" : "one by one");
  out += d.replay.api == Replay::Api::None ? "kernels of a run: handed over one by one (" + d.replay.text + ")\n"
                                           : "kernels of a run: recorded (" + d.replay.text + ")\n";
  out += (d.external.create ? "dma-bufs: imported (" : "dma-bufs: mapped by the host (") + d.external.text + ")\n";
  out += "extensions: " + printable(d.extensions, 4000);
  return out;
}

}  // namespace quarry::opencl
