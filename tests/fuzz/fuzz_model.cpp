// SPDX-License-Identifier: Apache-2.0
// Any bytes -> ONNX model -> plan, session and run on cpu-reference and cpu, as a program does it, with the limits that
// a program would set: a deadline of half a second for each call that takes one, and 512 MB. No input may take more
// than two seconds of the processor, whatever it says of itself, nor more memory. A refusal has an id and a message.
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "quarry/quarry.hpp"

namespace {

constexpr std::uint64_t kMemory = std::uint64_t{512} << 20;
constexpr std::uint64_t kMostInput = std::uint64_t{32} << 20;  // given to a run
constexpr auto kDeadline = std::chrono::milliseconds(500);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION)
constexpr double kSeconds = 20;
constexpr std::uint64_t kBeside = std::uint64_t{4} << 30;  // what sanitizers hold
#else
constexpr double kSeconds = 2;
constexpr std::uint64_t kBeside = std::uint64_t{128} << 20;  // the program, protobuf
#endif

std::atomic<std::uint64_t> g_used{0};
void *give(void *, std::uint64_t size, std::uint64_t align) {
  void *ptr = nullptr;
  if (g_used.fetch_add(size) + size > kMemory || posix_memalign(&ptr, align < 16 ? 16 : align, size ? size : 1) != 0) {
    g_used -= size;
    return nullptr;
  }
  return ptr;
}
void take(void *, void *ptr, std::uint64_t size, std::uint64_t) {
  g_used -= size;
  std::free(ptr);
}

[[noreturn]] void fail(const char *what) {
  std::fprintf(stderr, "fuzz_model: %s\n", what);
  std::abort();
}

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// True where it went well; what is refused says why.
bool went_well(const qr::Status &status) {
  if (!status.ok() && (!*status.id() || !*status.message())) fail("a refusal without an id or a message");
  return status.ok();
}

qr::Runtime make_runtime() {
  static qr_allocator allocator = QR_ALLOCATOR_INIT;
  allocator.alloc = give, allocator.free = take;
  qr_runtime_options options = QR_RUNTIME_OPTIONS_INIT;
  options.allocator = &allocator;
  return qr::Runtime(options);
}

void run(qr::Session &session, qr::Signal &signal) {
  auto inputs = session.try_inputs(), outputs = session.try_outputs();
  if (!inputs.ok() || !outputs.ok()) return;
  std::uint64_t bytes = 0;
  for (const qr::TensorInfo &info : (*inputs)) {
    if (info.size_bytes > kMostInput || (bytes += info.size_bytes) > kMostInput) return;
    for (const std::int64_t extent : info.dims)
      if (extent < 0) return;
  }
  std::vector<std::vector<unsigned char>> data;
  std::vector<qr::Tensor> in, out(outputs->size());
  for (const qr::TensorInfo &info : (*inputs)) {
    data.emplace_back(info.size_bytes + 1);
    in.emplace_back(info.dtype, info.dims, data.back().data());
  }
  signal.set_timeout(kDeadline);
  went_well(session.try_run(in, out, &signal));
}

void use(qr::Runtime &runtime, const qr::Model &model, const char *backend, const std::string &shape) {
  qr::Signal signal(runtime);
  qr::Options options(runtime);
  options.set("backend", backend);
  options.set("threads", "1");
  const auto create = [&] {
    signal.set_timeout(kDeadline);
    return qr::Session::try_create(model, &options, &signal);
  };
  qr::Result<qr::Session> session = create();
  if (!session.ok() && !shape.empty()) {
    went_well(session.status());
    if (!options.try_set("shape", shape).ok()) return;
    session = create();
  }
  if (!session.ok()) {
    went_well(session.status());
    return;
  }
  went_well(qr::Session::try_plan(model, &options).status());
  run(*session, signal);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
  static qr::Runtime runtime = make_runtime();
  const double begin = processor_seconds();
  qr::Result<qr::Model> model = qr::Model::try_open(runtime, data, size);
  if (!model.ok()) {
    went_well(model.status());
  } else {
    std::string shape;  // 2 for each dimension that is not known
    auto inputs = model->try_inputs();
    for (std::size_t i = 0; inputs.ok() && i < inputs->size(); ++i) {
      const qr::TensorInfo &info = (*inputs)[i];
      std::string dims;
      bool unknown = false;
      for (const std::int64_t extent : info.dims) {
        unknown |= extent < 0;
        dims += (dims.empty() ? "" : "x") + std::to_string(extent < 0 ? 2 : extent);
      }
      if (unknown) shape += (shape.empty() ? "" : ",") + info.name + "=" + dims;
    }
    for (const char *const backend : {"cpu-reference", "cpu"}) use(runtime, *model, backend, shape);
  }
  if (processor_seconds() - begin > kSeconds) fail("it took more than two seconds");
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  if (static_cast<std::uint64_t>(used.ru_maxrss) * 1024 > kMemory + kBeside) fail("it took more than 512 MB");
  return 0;
}
