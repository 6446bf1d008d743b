// SPDX-License-Identifier: Apache-2.0
// What the tests of the C++ wrapper share: an allocator that fills what it frees, models, and the objects that a
// program has.
#pragma once

#if !defined(__cpp_exceptions)
#define DOCTEST_CONFIG_NO_EXCEPTIONS_BUT_WITH_ALL_ASSERTS
#endif
#include <doctest/doctest.h>
#include <quarry/quarry.hpp>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

namespace wrapper_test {

// The value of a call that must succeed; where it does not the program says why and ends.
template <class T>
T must(qr::Result<T> result) {
  if (!result.ok()) {
    std::fprintf(stderr, "%s: %s\n", result.status().id(), result.status().message());
    std::_Exit(1);
  }
  return *std::move(result);
}
inline void must(const qr::Status &status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s: %s\n", status.id(), status.message());
  std::_Exit(1);
}

// What is freed is filled first, so that a use of it afterwards does not go well by luck.
struct PoisoningAllocator {
  std::atomic<int> live{0};
  static void *alloc(void *self, std::uint64_t size, std::uint64_t align) {
    void *block = nullptr;
    if (posix_memalign(&block, align, size) != 0) return nullptr;
    ++static_cast<PoisoningAllocator *>(self)->live;
    return block;
  }
  static void free(void *self, void *block, std::uint64_t size, std::uint64_t) {
    --static_cast<PoisoningAllocator *>(self)->live;
    std::memset(block, 0xdd, size);
    std::free(block);
  }
  qr::Result<qr::Runtime> make_runtime() {
    qr_allocator functions = QR_ALLOCATOR_INIT;
    functions.self = this;
    functions.alloc = alloc;
    functions.free = free;
    qr_runtime_options options = QR_RUNTIME_OPTIONS_INIT;
    options.allocator = &functions;
    return qr::Runtime::try_create(&options);
  }
};

// A container of the digits model: compiled once, gone with the program.
class Container {
 public:
  Container() : path_("test_wrapper_" + std::to_string(getpid()) + ".qrm") {
    const char *root = std::getenv("QUARRY_SOURCE_ROOT");
    const qr::Runtime runtime = must(qr::Runtime::try_create());
    const qr::Model model =
        must(qr::Model::try_open(runtime, std::string(root ? root : ".") + "/models/digits/digits.onnx"));
    std::uint64_t told = 0;
    must(model.try_compile(path_, nullptr, nullptr,
                           [&](std::uint64_t, std::uint64_t, std::string_view what) { told += !what.empty(); }));
    CHECK(told > 0);
  }
  Container(const Container &) = delete;
  Container &operator=(const Container &) = delete;
  ~Container() { std::remove(path_.c_str()); }
  const std::string &path() const { return path_; }

 private:
  std::string path_;
};
inline const std::string &container() {
  static const Container made;
  return made.path();
}

// y[2, columns] = QuantizeLinear(x) by scales 0.5 and 0.25, zero points 3 and 5; its property "colour" is "blue".
inline std::string facts_path() {
  const char *root = std::getenv("QUARRY_SOURCE_ROOT");
  return std::string(root ? root : ".") + "/models/facts.onnx";
}
inline std::string content_of(const std::string &path) {
  std::string content;
  std::FILE *file = std::fopen(path.c_str(), "rb");
  REQUIRE(file != nullptr);
  for (int byte = std::fgetc(file); byte != EOF; byte = std::fgetc(file)) content += static_cast<char>(byte);
  std::fclose(file);
  return content;
}

// What a program keeps in one of its own structs.
struct Everything {
  qr::Runtime runtime{nullptr};
  qr::Options options;
  qr::Signal signal;
  qr::Profile profile;
  qr::Model model;
  qr::Session session;
  qr::Memory memory;
};
constexpr unsigned kKinds = 7;

inline Everything make_everything(PoisoningAllocator &allocator) {
  Everything all;
  all.runtime = must(allocator.make_runtime());
  all.options = must(qr::Options::try_create(all.runtime, {{"threads", "1"}}));
  all.signal = must(qr::Signal::try_create(all.runtime));
  all.profile = must(qr::Profile::try_create(all.runtime));
  all.model = must(qr::Model::try_open(all.runtime, container(), &all.options));
  all.session = must(qr::Session::try_create(all.model, &all.options, &all.signal));
  all.memory = must(qr::Memory::try_allocate(all.session, 1000));
  return all;
}

#if QR_HAS_EXCEPTIONS

// As a program writes it that has exceptions.
struct Throwing {
  qr::Runtime runtime;
  qr::Options options{runtime, {{"threads", "1"}}};
  qr::Profile profile{runtime};
  qr::Model model{runtime, container(), &options};
  qr::Session session{model, &options};
};

#endif

}  // namespace wrapper_test
