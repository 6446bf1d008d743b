// SPDX-License-Identifier: Apache-2.0
// Memory of other devices by its descriptor: imported where the driver can (as the layer plays it), else mapped.
#include <fcntl.h>
#include <linux/udmabuf.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include <algorithm>

#include "tests/plugins/gpu_fixture.h"

using namespace quarry::test;

namespace {

constexpr char kImports[] = "with=cl_khr_external_memory_dma_buf";
constexpr std::uint64_t kBytes = 64 * 1024;

// A memfd, and a view of it that no backend knows of.
struct File {
  int fd = memfd_create("quarry-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  char *base = nullptr;
  File() {
    REQUIRE_EQ(ftruncate(fd, kBytes), 0);
    base = static_cast<char *>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  }
  ~File() {
    munmap(base, kBytes);
    close(fd);
  }
};

// Runs small_model with x and y in the memory, which begins at `view`.
bool once(qr::Session &session, qr::Memory &memory, char *view, std::uint64_t at_x, std::uint64_t at_y, float first) {
  memory.begin_access(QR_ACCESS_WRITE);
  auto *const x = reinterpret_cast<float *>(view + at_x), *const y = reinterpret_cast<float *>(view + at_y);
  for (std::size_t i = 0; i < 64; ++i) x[i] = static_cast<float>(i % 5) + first;
  std::fill_n(y, 32, -1.0f);
  memory.end_access(QR_ACCESS_WRITE);
  qr::Tensor in(QR_DTYPE_F32, {4, 16}, nullptr), out(QR_DTYPE_F32, {4, 8}, nullptr);
  in.memory = out.memory = memory.get();
  in.memory_offset = at_x, out.memory_offset = at_y;
  std::vector<qr::Tensor> inputs{in}, outputs{out};
  session.run(inputs, outputs);
  memory.begin_access(QR_ACCESS_READ);
  const bool right = is_right(x, y);
  memory.end_access(QR_ACCESS_READ);
  return right;
}
long copies(const Layer &layer) {
  return layer.count("EnqueueWriteBuffer") + layer.count("EnqueueReadBuffer") + layer.count("EnqueueCopyBuffer");
}

}  // namespace

TEST_CASE("a descriptor is mapped and worked on where it lies, where the driver imports none") {
  if (!has_device()) return;
  const Layer layer("without=cl_khr_external_memory_dma_buf");
  {
    qr::Runtime runtime;
    CHECK(says(device_of(runtime).details, {"dma-bufs: mapped by the host (the driver has no cl_khr_external_memory"}));
    qr::Session made = session(runtime);
    CHECK(run(made, 1));  // constants are there
    const File file;
    qr::Memory memory = qr::Memory::import(made, file.fd, 4096, kBytes - 4096);
    layer.tell("");
    for (int i = 0; i < 3; ++i) CHECK(once(made, memory, file.base + 4096, 0, 4096, static_cast<float>(i)));
    CHECK(once(made, memory, file.base + 4096, 8192, 1024, 3));
    CHECK_EQ(copies(layer), 0);
    CHECK(run(made, 2));
    layer.tell("fail=Finish:-14");
    failure([&] { once(made, memory, file.base + 4096, 0, 4096, 1); }, QR_DEVICE_LOST);
    layer.tell("");
    made.recover();
    CHECK(once(made, memory, file.base + 4096, 0, 4096, 2));
    const int only_read = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    CHECK(says(failure([&] { qr::Memory::import(made, only_read, 0, 4096); }, QR_UNSUPPORTED), {"cannot be mapped"}));
    close(only_read);
  }
  CHECK_EQ(layer.count("objects"), 0);
}

TEST_CASE("a dma-buf is imported: the device acquires it for its runs, and gives it back") {
  if (!has_device()) return;
  const Layer layer(kImports);
  {
    qr::Runtime runtime;
    CHECK(says(device_of(runtime).details, {"dma-bufs: imported (cl_khr_external_memory_dma_buf)"}));
    qr::Session made = session(runtime, small_model(), {{"queue_depth", "2"}});
    CHECK(run(made, 1));
    const File file;
    char *const base = file.base + 8192;
    layer.tell(kImports);
    qr::Memory memory = qr::Memory::import(made, file.fd, 8192, kBytes - 8192);
    CHECK_EQ(layer.count("CreateBufferWithProperties"), 1);
    CHECK_EQ(layer.count("EnqueueMapBuffer"), 0);
    for (int i = 0; i < 3; ++i) {
      CHECK(once(made, memory, base, 0, 4096, static_cast<float>(i)));
      CHECK_EQ(layer.count("acquired"), 0);
    }
    CHECK_EQ(layer.count("EnqueueAcquireExternalMemObjectsKHR"), 3);
    CHECK_EQ(layer.count("EnqueueReleaseExternalMemObjectsKHR"), 3);
    CHECK_EQ(layer.count("EnqueueNDRangeKernel"), 3);
    CHECK_EQ(layer.count("KernelsAcquired"), 3);
    CHECK_EQ(copies(layer), 0);
    CHECK(once(made, memory, base, 4, 1028, 5));  // no buffer of OpenCL begins there: copied on the device
    CHECK_EQ(layer.count("EnqueueCopyBuffer"), 2);
    CHECK(run(made, 2));  // without it nothing is acquired
    CHECK_EQ(layer.count("EnqueueAcquireExternalMemObjectsKHR"), 4);

    // Two runs under way share it; it comes back with the last.
    std::vector<std::vector<qr::Tensor>> in(2), out(2);
    std::uint64_t tickets[2];
    for (std::uint64_t t = 0; t < 2; ++t) {
      qr::Tensor x(QR_DTYPE_F32, {4, 16}, nullptr), y(QR_DTYPE_F32, {4, 8}, nullptr);
      x.memory = y.memory = memory.get();
      x.memory_offset = 16384 * t, y.memory_offset = 16384 * t + 4096;
      auto *const values = reinterpret_cast<float *>(base + x.memory_offset);
      for (std::size_t i = 0; i < 64; ++i) values[i] = static_cast<float>(i % 3) + static_cast<float>(t);
      in[t].push_back(x), out[t].push_back(y);
    }
    for (std::uint64_t t = 0; t < 2; ++t) tickets[t] = made.submit(in[t], out[t]);
    for (std::uint64_t t = 0; t < 2; ++t) made.wait(tickets[t]);
    CHECK_EQ(layer.count("acquired"), 0);
    for (std::uint64_t t = 0; t < 2; ++t)
      CHECK(is_right(reinterpret_cast<float *>(base + 16384 * t), reinterpret_cast<float *>(base + 16384 * t + 4096)));

    for (const char *const call : {"EnqueueAcquireExternalMemObjectsKHR", "EnqueueReleaseExternalMemObjectsKHR"}) {
      layer.tell(std::string(kImports) + ";fail=" + call + ":-5");
      CHECK(says(failure([&] { once(made, memory, base, 0, 4096, 1); }, QR_RESOURCE_EXHAUSTED), {call, "a dma-buf"}));
      layer.tell(kImports);
      made = session(runtime);
      memory = qr::Memory::import(made, file.fd, 8192, kBytes - 8192);
    }
    layer.tell(std::string(kImports) + ";fail=Finish:-14");
    failure([&] { run(made, 1); }, QR_DEVICE_LOST);
    layer.tell(kImports);
    made.recover();
    CHECK_EQ(layer.count("CreateBufferWithProperties"), 1);  // imported again
    CHECK(once(made, memory, base, 0, 4096, 6));
    CHECK_EQ(layer.count("KernelsAcquired"), 1);
  }
  CHECK_EQ(layer.count("objects"), 0);
}

TEST_CASE("a descriptor that the driver refuses is mapped; a driver without all of the extension imports none") {
  if (!has_device()) return;
  for (const std::string &script : {std::string(kImports) + ";fail=CreateBufferWithProperties:-30",
                                    std::string(kImports) + ";hidden=clEnqueueReleaseExternalMemObjectsKHR"}) {
    CAPTURE(script);
    const Layer layer(script);
    {
      qr::Runtime runtime;
      CHECK(says(device_of(runtime).details,
                 {script.find("hidden") == std::string::npos ? "imported" : "found not all of its functions"}));
      qr::Session made = session(runtime);
      const File file;
      qr::Memory memory = qr::Memory::import(made, file.fd, 0, kBytes);
      CHECK(once(made, memory, file.base, 0, 4096, 1));
      CHECK_EQ(layer.count("EnqueueAcquireExternalMemObjectsKHR"), 0);
    }
    CHECK_EQ(layer.count("objects"), 0);
  }
}

// Where the kernel makes them of memfds.
TEST_CASE("a real dma-buf") {
  if (!has_device()) return;
  const int device = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
  if (device < 0) {
    MESSAGE("/dev/udmabuf cannot be opened: not tested");
    return;
  }
  const File file;
  REQUIRE_EQ(fcntl(file.fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
  udmabuf_create wanted{static_cast<std::uint32_t>(file.fd), UDMABUF_FLAGS_CLOEXEC, 0, kBytes};
  const int buffer = ioctl(device, UDMABUF_CREATE, &wanted);
  REQUIRE_GE(buffer, 0);
  const Layer layer;
  {
    qr::Runtime runtime;
    qr::Session made = session(runtime);
    qr::Memory memory = qr::Memory::import(made, buffer, 0, kBytes);
    for (int i = 0; i < 3; ++i)
      CHECK(once(made, memory, static_cast<char *>(memory.data()), 0, 4096, static_cast<float>(i)));
  }
  CHECK_EQ(layer.count("objects"), 0);
  close(buffer), close(device);
}
