// SPDX-License-Identifier: Apache-2.0
#include "backends/gpu/opencl/library.h"

#include <array>

#include "base/os/library.h"

namespace quarry::opencl {

namespace {

constexpr bool kIsWindows = os::kLibraryForm == os::LibraryForm::Pe,
               kIsMacos = os::kLibraryForm == os::LibraryForm::MachO;
// Debian and most others have the first, Android the others. On Windows a driver brings the one there is, macOS has its
// own.
constexpr std::array<const char *, 4> kNames =
    kIsWindows ? std::array<const char *, 4>{"OpenCL.dll"}
    : kIsMacos ? std::array<const char *, 4>{"/System/Library/Frameworks/OpenCL.framework/OpenCL"}
               : std::array<const char *, 4>{"libOpenCL.so.1", "libOpenCL.so", "/vendor/lib64/libOpenCL.so",
                                             "/system/vendor/lib64/libOpenCL.so"};
constexpr const char *kHowToGet =
    kIsWindows ? "install the driver of the graphics processor, which brings OpenCL.dll, or name the file by the "
                 "environment variable QUARRY_OPENCL_PATH"
    : kIsMacos ? "macOS brings it; another is named by the environment variable QUARRY_OPENCL_PATH"
    : os::kAndroid
        ? "an app opens the driver's library where its manifest has <uses-native-library "
          "android:name=\"libOpenCL.so\" android:required=\"false\"/> in <application>; some devices have none"
        : "install the OpenCL loader and the device's driver (on Debian: ocl-icd-libopencl1 and, without a GPU, "
          "pocl-opencl-icd), or name the file by the environment variable QUARRY_OPENCL_PATH";

enum class Meaning { Call, Memory, Lost };
struct ErrorRow {
  cl_int number;
  const char *name;
  Meaning meaning;
};
constexpr ErrorRow kErrors[] = {
#define QR_CL_ERROR(number, name, meaning) {number, name, Meaning::meaning},
#include "backends/gpu/opencl/error.inc"
#undef QR_CL_ERROR
};

const ErrorRow *find_error(cl_int number) {
  for (const ErrorRow &row : kErrors)
    if (row.number == number) return &row;
  return nullptr;
}

}  // namespace

void *Library::find(const char *name) const noexcept { return os::find_symbol(handle_, name); }

String error_text(cl_int error) {
  const ErrorRow *const row = find_error(error);
  if (!row) return format("%d, which OpenCL does not name", error);
  return row->name[0] == 'a' ? format("%d, %s", error, row->name) : format("%d CL_%s", error, row->name);
}

Status check(const char *function, cl_int returned, std::string_view subject) {
  if (returned == CL_SUCCESS) return {};
  const String text = format("gpu: cl%s%s%.*s: found %s, expected success", function, subject.empty() ? "" : " of ",
                             subject, error_text(returned));
  const ErrorRow *const row = find_error(returned);
  switch (row ? row->meaning : Meaning::Call) {
    case Meaning::Memory:
      return Status::error(ErrorId::out_of_memory, text,
                           "the device's memory is full: end other sessions, or take a smaller model or batch");
    case Meaning::Lost: return Status::error(ErrorId::device_lost, text);
    case Meaning::Call: break;
  }
  return Status::error(ErrorId::backend_library_call, text);
}

Result<std::shared_ptr<const Library>> Library::open() {
  String room;
  const char *const named = os::variable("QUARRY_OPENCL_PATH", room);
  void *handle = nullptr;
  String path;
  if (named && *named) {
    path = named;
    handle = os::open_library(named);
  } else {
    for (const char *const name : kNames) {
      if (!name || handle) break;
      handle = os::open_library(name);
      path = name;
    }
  }
  if (!handle) {
    const String why = named && *named ? os::library_error() : String();
    return Status::error(
        ErrorId::backend_library,
        !why.empty()
            ? format("%s: the loader says: %s; expected the OpenCL library", printable(path, 1000),
                     printable(why, 1000))
            : format("%s: not found in the system's library path; expected the OpenCL library", kNames.front()),
        kHowToGet);
  }
  auto library = quarry::make_shared<Library>();
  library->path_ = path;
  library->handle_ = handle;
  const char *missing = nullptr;
#define QR_CL_FUNCTION(name, needed)                                                                        \
  library->api_.name = reinterpret_cast<decltype(library->api_.name)>(os::find_symbol(handle, "cl" #name)); \
  if ((needed) && !library->api_.name && !missing) missing = "cl" #name;
#include "backends/gpu/opencl/functions.inc"
#undef QR_CL_FUNCTION
  if (missing)
    return Status::error(
        ErrorId::backend_library,
        format("%s: found no function %s, expected the OpenCL library, 1.2 or later", printable(path, 1000), missing),
        kHowToGet);
  if (String file = os::file_of(reinterpret_cast<void *>(library->api_.GetPlatformIDs)); !file.empty())
    library->path_ = std::move(file);
  return std::shared_ptr<const Library>(std::move(library));
}

}  // namespace quarry::opencl
