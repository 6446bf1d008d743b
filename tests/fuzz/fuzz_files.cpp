// SPDX-License-Identifier: Apache-2.0
// Any bytes -> the files that the program `quarry` reads: .npy, ONNX's TensorProto, images. What is no such file is
// refused with a Failure (a UsageError most often) and nothing else; what is read is as long as its shape says.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

#include "tools/console/command.h"
#include "tools/input/image.h"
#include "tools/input/tensor_file.h"

namespace {

using namespace tools;

template <class Read>
void attempt(const Read &read) {
  try {
    const TensorData tensor = read();
    if (element_count(tensor.dims) < 0 || tensor.bytes.size() != packed_bytes(tensor.dtype, tensor.dims)) std::abort();
    to_doubles(tensor.dtype, tensor.bytes.data(), element_count(tensor.dims));
  } catch (const Failure &error) {
    if (*error.what() == 0) std::abort();
  }
}

qr::TensorInfo input(qr_dtype dtype, std::vector<int64_t> dims) {
  qr::TensorInfo info;
  info.name = "x";
  info.dtype = dtype;
  info.dims = std::move(dims);
  return info;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
  static const int fd = memfd_create("input", MFD_CLOEXEC);  // the readers take paths
  static const std::string path = "/proc/self/fd/" + std::to_string(fd);
  if (ftruncate(fd, 0) != 0 || (size > 0 && pwrite(fd, data, size, 0) != static_cast<ssize_t>(size))) std::abort();
  attempt([] { return read_npy(path); });
  attempt([] { return read_tensor_proto(path); });
  attempt([] { return image_tensor(path, input(QR_DTYPE_F32, {1, 3, 8, 8}), {}); });
  ImageFlags flags;
  flags.resize = "7", flags.crop = "5x6", flags.mean = {0.5}, flags.std_dev = {0.25};
  attempt([&] { return image_tensor(path, input(QR_DTYPE_U8, {6, 5, 1}), flags); });
  try {
    if (picture_text(path).empty()) std::abort();
  } catch (const Failure &) {
  }
  return 0;
}
