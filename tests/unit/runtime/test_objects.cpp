// SPDX-License-Identifier: Apache-2.0
// Reference counts, overlapping calls, the growth rule of structs, the caller's allocator.
#include <cstdlib>
#include <thread>

#include "runtime/capi/edge.h"
#include "runtime/core/allocator.h"
#include "tests/support/check.h"
#include "tests/support/open_model.h"

using namespace quarry;
using namespace quarry::capi;

namespace {

struct Thing : Counted<Thing> {
  explicit Thing(int &alive) : alive_(alive) { ++alive_; }
  ~Thing() { --alive_; }
  int &alive_;
};

// A struct as a caller with newer headers has it.
template <class T>
struct Newer {
  T known;
  std::uint64_t later;
};

struct Counter {
  std::int64_t blocks = 0, bytes = 0;
  qr_allocator functions() {
    qr_allocator made = QR_ALLOCATOR_INIT;
    made.self = this;
    made.alloc = [](void *self, std::uint64_t size, std::uint64_t align) {
      void *ptr = std::aligned_alloc(align, (size + align - 1) & ~(align - 1));
      if (ptr) {
        ++static_cast<Counter *>(self)->blocks;
        static_cast<Counter *>(self)->bytes += static_cast<std::int64_t>(size);
      }
      return ptr;
    };
    made.free = [](void *self, void *ptr, std::uint64_t size, std::uint64_t) {
      --static_cast<Counter *>(self)->blocks;
      static_cast<Counter *>(self)->bytes -= static_cast<std::int64_t>(size);
      std::free(ptr);
    };
    return made;
  }
};

}  // namespace

TEST_CASE("references") {
  int alive = 0;
  {
    const Ref<Thing> first = Ref<Thing>::make(alive);
    Ref<Thing> second = first, third = std::move(second);
    CHECK(!second);
    CHECK_EQ(alive, 1);
    Thing *handle = third.give();
    third = Ref<Thing>::adopt(handle);
  }
  CHECK_EQ(alive, 0);
}

TEST_CASE("overlapping calls") {
  Process process;
  ExclusiveUse use;
  const ExclusiveScope first(use, process, "qr_session_run", "session");
  CHECK(first.held());
  CHECK_OK(first.status());
  {
    const ExclusiveScope again(use, process, "qr_session_clone", "session");
    CHECK(!again.held());
    CHECK_EQ(again.status().id(), "QR-C0006");
    CHECK(again.status().message().find("the same thread is inside another call on this session") !=
          std::string_view::npos);
  }
  const std::uint32_t here = process.thread_id();
  std::thread([&] {
    const ExclusiveScope other(use, process, "qr_session_run", "session");
    CHECK_EQ(other.status().message(),
             format("qr_session_run: called on thread %u while thread %u is inside another call on this session, "
                    "expected one call at a time",
                    process.thread_id(), here));
  }).join();
}

TEST_CASE("a scope ends") {
  Process process;
  ExclusiveUse use;
  { const ExclusiveScope scope(use, process, "a", "session"); }
  const ExclusiveScope scope(use, process, "b", "session");
  CHECK(scope.held());
}

TEST_CASE("structs grow") {
  qr_run_options from = QR_RUN_OPTIONS_INIT, to;
  CHECK_OK(read_struct("f", "options", &from, to, QR_RUN_OPTIONS_FIRST_SIZE));
  from.struct_size = 8;
  const Status small = read_struct("f", "options", &from, to, QR_RUN_OPTIONS_FIRST_SIZE);
  CHECK_EQ(small.id(), "QR-C0003");
  CHECK_EQ(small.message(), "f: options.struct_size is 8, expected at least 32");
  from.struct_size = 1u << 20;
  CHECK_EQ(read_struct("f", "options", &from, to, QR_RUN_OPTIONS_FIRST_SIZE).id(), "QR-C0003");
  CHECK_EQ(read_struct("f", "options", static_cast<qr_run_options *>(nullptr), to, QR_RUN_OPTIONS_FIRST_SIZE).id(),
           "QR-C0002");

  Newer<qr_run_options> newer = {QR_RUN_OPTIONS_INIT, 0};
  newer.known.struct_size = sizeof newer;
  CHECK_OK(read_struct("f", "options", &newer.known, to, QR_RUN_OPTIONS_FIRST_SIZE));
  newer.later = 0x100;  // the byte at offset 33
  const Status unknown = read_struct("f", "options", &newer.known, to, QR_RUN_OPTIONS_FIRST_SIZE);
  CHECK_EQ(unknown.id(), "QR-C0004");
  CHECK_EQ(unknown.message(), "f: options has a value at offset 33, this library knows 32 bytes of it");
}

TEST_CASE("older structs read as zero") {
  qr_run_options from = QR_RUN_OPTIONS_INIT, to;
  from.struct_size = 16;
  from.profile = reinterpret_cast<qr_profile *>(&from);  // past what this caller knows
  CHECK_OK(read_struct("f", "options", &from, to, 16));
  CHECK(to.profile == nullptr);
  qr_memory_plan plan = QR_MEMORY_PLAN_INIT, filled = QR_MEMORY_PLAN_INIT;
  filled.weights_bytes = 1;
  filled.arena_bytes = 2;
  plan.struct_size = 16;
  write_struct(filled, &plan);
  CHECK_EQ(plan.struct_size, 16);
  CHECK_EQ(plan.weights_bytes, 1);
  CHECK_EQ(plan.arena_bytes, 0);
}

TEST_CASE("flags and texts") {
  CHECK_OK(check_flags("f", "options", 1, 1));
  const Status status = check_flags("f", "options", 0x14, 4);
  CHECK_EQ(status.id(), "QR-C0005");
  CHECK_EQ(status.message(), "f: options.flags has bit 4 set, which this library does not know; it knows 0x4");
  std::string_view text;
  CHECK_OK(read_text("f", "path", {"abc", 2}, Empty::Refused, &text));
  CHECK_EQ(text, "ab");
  CHECK_OK(read_text("f", "path", {"abc", QR_NUL_TERMINATED}, Empty::Refused, &text));
  CHECK_EQ(text, "abc");
  CHECK_OK(read_text("f", "path", {nullptr, 0}, Empty::Allowed, &text));
  CHECK_EQ(read_text("f", "path", {nullptr, 0}, Empty::Refused, &text).id(), "QR-C0007");
  CHECK_EQ(read_text("f", "path", {nullptr, 3}, Empty::Allowed, &text).id(), "QR-C0002");
  CHECK_EQ(read_text("f", "path", {nullptr, QR_NUL_TERMINATED}, Empty::Allowed, &text).id(), "QR-C0002");
  CHECK_EQ(read_text("f", "path", {"\xff", 1}, Empty::Allowed, &text).id(), "QR-C0009");
  CHECK_OK(read_text("f", "path", {"\xff", 1}, Empty::Path, &text));
  CHECK_EQ(text, "\xff");
  CHECK_OK(read_text("f", "path", {nullptr, 0}, Empty::Path, &text));
  CHECK_EQ(read_text("f", "path", {"a\0b", 3}, Empty::Path, &text).id(), "QR-C0009");
}

TEST_CASE("callers allocator outlives its blocks") {
  Counter counter;
  CallerAllocator *allocator = CallerAllocator::make(counter.functions());
  void *block;
  {
    AllocatorScope scope(*allocator);
    block = allocate_block(100, 64);
    CHECK(reinterpret_cast<std::uintptr_t>(block) % 64 == 0);
  }
  allocator->release();  // as a runtime does at its end
  CHECK_EQ(counter.blocks, 2);
  free_block(block);
  CHECK_EQ(counter.blocks, 0);
  CHECK_EQ(counter.bytes, 0);
}

TEST_CASE("statuses outlive the runtime") {
  Counter counter;
  const qr_allocator functions = counter.functions();
  qr_runtime_options options = QR_RUNTIME_OPTIONS_INIT;
  options.allocator = &functions;
  options.flags = QR_RUNTIME_ONLY_GIVEN_PATHS;
  qr_runtime *runtime = nullptr;
  qr_status *status = qr_runtime_create(&options, &runtime);
  CHECK(status == nullptr);
  qr_model *model = nullptr;
  status = model_at_path(runtime, {"/nowhere/model.qrm", QR_NUL_TERMINATED}, nullptr, &model);
  CHECK((status != nullptr && model == nullptr));
  qr_runtime_destroy(runtime);
  CHECK_EQ(std::string_view(qr_status_id(status)), "QR-F0001");
  CHECK(counter.blocks > 0);
  qr_status_destroy(status);
  CHECK_EQ(counter.blocks, 0);
  CHECK_EQ(counter.bytes, 0);
}

TEST_CASE("backends may cut small blocks from malloc's, and a caller's allocator sees each") {
  Counter counter;
  const qr_allocator functions = counter.functions();
  for (const bool own : {false, true}) {
    qr_runtime_options options = QR_RUNTIME_OPTIONS_INIT;
    if (own) options.allocator = &functions;
    options.flags = QR_RUNTIME_ONLY_GIVEN_PATHS;
    qr_runtime *runtime = nullptr;
    CHECK(qr_runtime_create(&options, &runtime) == nullptr);
    const qr_host &host = object(runtime)->host();
    CHECK_EQ(host.get_extension(host.self, "qr.malloc/1") != nullptr, !own);
    CHECK(host.get_extension(host.self, "qr.malloc/2") == nullptr);
    qr_runtime_destroy(runtime);
  }
  CHECK_EQ(counter.blocks, 0);
}
