// SPDX-License-Identifier: Apache-2.0
// quarry.hpp, calls: what they are given (constant elements, options, readers, signals, progress functions) and what
// models and sessions say of themselves.
#include "adapter_model.h"
#include "wrapper_test.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <vector>

using namespace wrapper_test;

namespace {

TEST_CASE("constant elements are an input, and no place for an output") {
  PoisoningAllocator allocator;
  Everything all = make_everything(allocator);
  const std::vector<float> pixels(64);
  std::vector<float> scores(10);
  const qr::Tensor lent = qr::Tensor::of(pixels, {1, 1, 8, 8});
  CHECK((static_cast<const qr_tensor &>(lent).data == nullptr && lent.const_data == pixels.data()));
  CHECK((lent.bytes() == pixels.data() && lent.data_if<float>() == pixels.data()));
  CHECK(must(lent.try_data<float>()) == pixels.data());
  qr::Tensor output = qr::Tensor::of(scores, {1, 10});
  CHECK((output.const_data == nullptr && output.bytes() == scores.data()));
  must(all.session.try_run(&lent, 1, &output, 1));
  CHECK(scores[0] != 0);
  const std::vector<float> never(10);
  qr::Tensor no_place = qr::Tensor::of(never, {1, 10});
  CHECK(std::string(all.session.try_run(&lent, 1, &no_place, 1).id()) == "QR-R0006");
  CHECK(!qr::Tensor::of(never, {11}).bytes());
}

TEST_CASE("a set of options is listed, taken back and copied") {
  PoisoningAllocator allocator;
  Everything all = make_everything(allocator);
  must(all.options.try_set("backend", "cpu"));
  const qr::Options copy = must(all.options.try_copy());
  must(all.options.try_unset("backend"));
  CHECK((all.options.size() == 1 && copy.size() == 2 && qr::Options().size() == 0));
  CHECK((must(copy.try_at(0)) == std::pair<std::string_view, std::string_view>("backend", "cpu")));
  CHECK(must(copy.try_at(1)).first == "threads");
  CHECK(copy.try_at(2).status().code() == QR_OUT_OF_RANGE);
  CHECK(all.options.try_unset("backnd").code() == QR_NOT_FOUND);
}

TEST_CASE("what a model and a session say of themselves: names, properties, scales, buckets") {
  const qr::Runtime runtime = must(qr::Runtime::try_create());
  const qr::Model model = must(qr::Model::try_open(runtime, facts_path()));
  CHECK(must(model.try_output_dim_name(0, 1)) == "columns");
  CHECK(must(model.try_output_dim_name(0, 0)).empty());
  CHECK(model.property_count() == 1);
  CHECK((must(model.try_property(0)) == std::pair<std::string_view, std::string_view>("colour", "blue")));
  CHECK(model.try_property(1).status().code() == QR_OUT_OF_RANGE);
  const qr::Options options = must(qr::Options::try_create(runtime, {{"shape", "columns=3"}, {"shape", "columns=5"}}));
  const qr::Session session = must(qr::Session::try_create(model, &options));
  CHECK(session.bucket_count() == 2);
  CHECK(must(session.try_bucket_inputs(1)).at(0).dims == std::vector<std::int64_t>{2, 5});
  CHECK(must(session.try_bucket_outputs(0)).at(0).dims == std::vector<std::int64_t>{2, 3});
  CHECK(session.try_bucket_inputs(2).status().code() == QR_OUT_OF_RANGE);
  const qr::TensorInfo output = must(session.try_output(0));
  CHECK((output.is_quantized == QR_QUANTIZED_PER_CHANNEL && output.scale != output.scale));
  CHECK(output.scales == std::vector<float>{0.5f, 0.25f});
  CHECK(output.zero_points == std::vector<std::int32_t>{3, 5});
  CHECK((output.quantized_axis == 0 && output.block_size == 0));
  CHECK((must(session.try_input(0)).is_quantized == 0 && must(session.try_input(0)).scales.empty()));
}

TEST_CASE("an adapter is opened for a session, applied and taken off") {
  const qr::Runtime runtime = must(qr::Runtime::try_create());
  const qr::Model model = must(qr::Model::try_open(runtime, product_model, sizeof product_model));
  const qr::Options options = must(qr::Options::try_create(runtime, {{"adapter.targets", "q"}}));
  qr::Session session = must(qr::Session::try_create(model, &options));
  const qr_model_source source = QR_MODEL_IN_MEMORY(rank_one_adapter, sizeof rank_one_adapter);
  CHECK_EQ(std::string(session.try_open_adapter(source).status().id()), "QR-A0004");
  qr_adapter_options how = QR_ADAPTER_OPTIONS_INIT;
  how.alpha = 1;
  const std::vector<float> x = {1, 10};
  const auto run = [&] {
    std::vector<qr::Tensor> outputs(1);
    REQUIRE(session.try_run(std::vector<qr::Tensor>{qr::Tensor::of(x, {1, 2})}, outputs).ok());
    const float *const made = outputs[0].data_if<float>();
    return std::vector<float>(made, made + 2);
  };
  {
    const qr::Adapter adapter = must(session.try_open_adapter(source, &how));
    REQUIRE(session.try_set_adapter(adapter).ok());
  }
  CHECK(run() == std::vector<float>{42, 31});  // the session keeps it
  REQUIRE(session.try_remove_adapter().ok());
  CHECK(run() == std::vector<float>{31, 42});
}

TEST_CASE("a model is read by a function, and of what it says of itself") {
  const qr::Runtime runtime = must(qr::Runtime::try_create());
  const std::string content = content_of(container());
  const qr::Reader reader = [&](std::uint64_t offset, void *to, std::uint64_t size) {
    std::memcpy(to, content.data() + offset, size);
    return 0;
  };
  CHECK(must(qr::Model::try_open_reader(runtime, content.size(), reader)).input_count() == 1);
  const qr::Reader fails = [](std::uint64_t, void *, std::uint64_t) { return EACCES; };
  CHECK(qr::Model::try_open_reader(runtime, content.size(), fails).status().code() == QR_PERMISSION_DENIED);
  const qr_model_source source = QR_MODEL_AT(container().c_str());
  CHECK(must(qr::Model::try_open(runtime, source)).input_count() == 1);
}

TEST_CASE("a signal ends every call that may take long") {
  PoisoningAllocator allocator;
  Everything all = make_everything(allocator);
  all.signal.abort();
  const auto ended = [](const qr::Status &status) { return status.code() == QR_CANCELLED; };
  const std::string content = content_of(container());
  const qr::Reader reader = [&](std::uint64_t offset, void *to, std::uint64_t size) {
    std::memcpy(to, content.data() + offset, size);
    return 0;
  };
  CHECK(ended(qr::Model::try_open(all.runtime, container(), nullptr, &all.signal).status()));
  CHECK(ended(qr::Model::try_open(all.runtime, content.data(), content.size(), nullptr, &all.signal).status()));
  CHECK(ended(qr::Model::try_open_reader(all.runtime, content.size(), reader, nullptr, &all.signal).status()));
  const int file = open(container().c_str(), O_RDONLY | O_CLOEXEC);
  CHECK(ended(qr::Model::try_open_fd(all.runtime, file, 0, 0, nullptr, &all.signal).status()));
  close(file);
  CHECK(ended(all.model.try_verify(&all.signal)));
  CHECK(ended(all.model.try_inspect(&all.signal).status()));
  CHECK(ended(all.model.try_compatibility(all.options, &all.signal).status()));
  CHECK(ended(qr::Session::try_plan(all.model, &all.options, &all.signal).status()));
  CHECK(ended(all.session.try_clone(&all.signal).status()));
  (void)all.session.try_recover(&all.signal);  // a healthy device has nothing to end
}

TEST_CASE("a waiting that ends before its run leaves the run what it was given") {
  PoisoningAllocator allocator;
  Everything all = make_everything(allocator);
  const std::vector<float> pixels(64);
  std::vector<float> scores(10);
  const std::array<qr::Tensor, 1> inputs{qr::Tensor::of(pixels, {1, 1, 8, 8})};
  std::array<qr::Tensor, 1> outputs{qr::Tensor::of(scores, {1, 10})};
  std::atomic<bool> may_end{false};
  qr_submit_options how = QR_SUBMIT_OPTIONS_INIT;  // whose callback holds the first run, and so the second
  how.self = &may_end;
  how.done = [](void *self, std::uint64_t, qr_status *status) {
    const qr::Status taken(status);
    while (!*static_cast<std::atomic<bool> *>(self)) usleep(1000);
  };
  must(all.options.try_set("queue_depth", "2"));
  qr::Session session = must(qr::Session::try_create(all.model, &all.options));
  const std::uint64_t ticket = must(session.try_submit(inputs, outputs, &how));
  bool ended = true;
  all.signal.set_timeout(std::chrono::milliseconds(20));
  CHECK(std::string(session.try_wait(ticket, &all.signal, &ended).id()) == "QR-R0020");
  CHECK(!ended);
  all.signal.abort();
  ended = true;
  CHECK(std::string(session.try_wait(ticket, &all.signal, &ended).id()) == "QR-R0019");
  CHECK(!ended);
  may_end = true;
  must(session.try_wait(ticket, nullptr, &ended));
  CHECK((ended && scores[0] != 0));
}

TEST_CASE("memory of a device before there is a session") {
  PoisoningAllocator allocator;
  Everything all = make_everything(allocator);
  const qr_memory_options cpu = qr::Memory::on(all.runtime, "cpu");
  qr::Memory made = must(qr::Memory::try_allocate(cpu, 256));
  qr::Tensor input(QR_DTYPE_F32, {1, 1, 8, 8}, nullptr), output;
  input.memory = made.get();
  must(all.session.try_run(&input, 1, &output, 1));
  std::array<char, 4096> own{};
  CHECK(must(qr::Memory::try_register(cpu, own.data(), own.size())).size() == own.size());
  // Not Android: test_hardware_buffer.c has the rest.
  CHECK(qr::Memory::try_import_hardware_buffer(cpu, own.data()).status().code() == QR_UNSUPPORTED);
  CHECK(qr::Memory::try_import_hardware_buffer(all.session, own.data()).status().code() == QR_UNSUPPORTED);
  const int shared = memfd_create("test_wrapper", MFD_CLOEXEC);
  REQUIRE((shared >= 0 && ftruncate(shared, 8192) == 0));
  CHECK(must(qr::Memory::try_import(cpu, shared, 4096, 4096)).size() == 4096);
  close(shared);
  CHECK(!qr::Memory::try_allocate(qr::Memory::on(all.runtime, "no such"), 256).ok());
}

TEST_CASE("calls write to a path, memory, a descriptor and a writer") {
  struct Keeps final : qr::Writer {
    std::string name, bytes;
    std::uint64_t promised = 0, refuse_at = UINT64_MAX;
    int ends = 0;
    bool committed = false;
    int begin(std::string_view file, std::uint64_t size, std::uint64_t) override {
      name = file, promised = size;
      return 0;
    }
    int write(const void *data, std::uint64_t size) override {
      if (bytes.size() + size > refuse_at) return ENOSPC;
      bytes.append(static_cast<const char *>(data), size);
      return 0;
    }
    int end(bool whole) override {
      ++ends, committed = whole;
      return 0;
    }
  };
  const qr::Runtime runtime = must(qr::Runtime::try_create());
  const qr::Model model = must(qr::Model::try_open(runtime, container()));
  const std::string path = container() + ".target.qrm";
  must(model.try_compile(path));
  qr::Bytes bytes;
  must(model.try_compile(qr::Target::in_memory(bytes)));
  CHECK((!bytes.empty() && must(qr::Model::try_open(runtime, bytes.data(), bytes.size())).input_count() == 1));
  Keeps keeps;
  must(model.try_compile(qr::Target::by_writer(keeps, "mine.qrm")));
  CHECK((keeps.bytes == bytes.view() && keeps.promised == bytes.size() && keeps.name == "mine.qrm"));
  CHECK((keeps.ends == 1 && keeps.committed));
  std::FILE *const file = std::fopen(path.c_str(), "r+b");
  REQUIRE(file != nullptr);
  std::string content(bytes.size(), '\0');
  CHECK((std::fread(content.data(), 1, content.size(), file) == content.size() && content == bytes.view()));
  std::fclose(file);
  const int fd = open(path.c_str(), O_RDWR | O_TRUNC | O_CLOEXEC);
  must(model.try_compile(qr::Target::in_file(fd)));
  CHECK((pread(fd, content.data(), content.size(), 0) == static_cast<ssize_t>(content.size()) &&
         content == bytes.view()));
  close(fd);
  const int folder = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  must(model.try_compile(qr::Target::in_folder(folder, path)));
  close(folder);
  std::remove(path.c_str());
  // The name says how.
  must(model.try_export_to(qr::Target::in_memory(bytes, "graph.json")));
  CHECK(bytes.view().find("\"graphs\"") != std::string_view::npos);
  Keeps refuses;
  refuses.refuse_at = 10;
  CHECK(model.try_export_to(qr::Target::by_writer(refuses, "graph.onnx")).code() == QR_RESOURCE_EXHAUSTED);
  CHECK((refuses.ends == 1 && !refuses.committed));
  const qr::Profile profile = must(qr::Profile::try_create(runtime));
  must(profile.try_export_as("csv", qr::Target::in_memory(bytes)));
  CHECK(bytes.view() == must(profile.try_export_as("csv")).view());
}

TEST_CASE("several networks in one container") {
  const qr::Runtime runtime = must(qr::Runtime::try_create());
  const qr::Model model = must(qr::Model::try_open(runtime, container()));
  qr::Bytes bytes;
  must(qr::try_compile_networks({{&model, "one"}, {&model, "two"}}, qr::Target::in_memory(bytes)));
  const qr::Options second = must(qr::Options::try_create(runtime, {{"model", "two"}}));
  const qr_model_source both = QR_MODEL_IN_MEMORY(bytes.view().data(), bytes.view().size());
  CHECK(must(qr::Model::try_open(runtime, both, &second)).input_count() == 1);
  CHECK(qr::Model::try_open(runtime, both).status().code() == QR_INVALID_ARGUMENT);
}

#if QR_HAS_EXCEPTIONS

TEST_CASE("the throwing functions: what 0.3 added") {
  Throwing all;
  CHECK(all.options.copy().unset("threads").size() == 0);
  CHECK((all.options.at(0) == std::pair<std::string, std::string>("threads", "1")));
  const qr::Model model(all.runtime, facts_path());
  CHECK(model.output_dim_name(0, 1) == "columns");
  CHECK(model.property(0).second == "blue");
  CHECK(all.session.bucket_inputs(0).size() == all.session.bucket_outputs(0).size());
  CHECK(qr::Memory(qr::Memory::on(all.runtime, "cpu"), 128).size() == 128);
  const std::string content = content_of(container());
  const qr_model_source source = QR_MODEL_IN_MEMORY(content.data(), content.size());
  CHECK(qr::Model(all.runtime, source).input_count() == 1);
  const auto throws = [](std::uint64_t, void *, std::uint64_t) -> int { throw 7; };
  CHECK_THROWS_AS(qr::Model::open_reader(all.runtime, content.size(), throws), int);
  qr::Signal signal(all.runtime);
  signal.abort();
  CHECK_THROWS_AS(all.session.clone(&signal), qr::Error);
  CHECK_THROWS_AS(model.verify(&signal), qr::Error);
}

TEST_CASE("what a writer throws fails the call that it was given to, and comes out of it") {
  struct Throws final : qr::Writer {
    int where = 0, ends = 0;
    bool committed = false;
    int begin(std::string_view, std::uint64_t, std::uint64_t) override {
      if (where == 0) throw where;
      return 0;
    }
    int write(const void *, std::uint64_t) override {
      if (where == 1) throw where;
      return 0;
    }
    int end(bool whole) override {
      ++ends, committed = whole;
      if (where >= 2) throw where;
      return 0;
    }
  } writer;
  const qr::Runtime runtime;
  const qr::Model model(runtime, container());
  for (; writer.where < 3; ++writer.where) {
    writer.ends = 0;
    CHECK_THROWS_AS(model.compile(qr::Target::by_writer(writer)), int);
    CHECK((writer.ends == 1 && writer.committed == (writer.where == 2)));
  }
  writer.where = -1;
  model.compile(qr::Target::by_writer(writer));
  CHECK(writer.committed);
}

TEST_CASE("what a progress function throws stops the call that it was given to, and comes out of it") {
  const qr::Runtime runtime;
  const qr::Model model(runtime, container());
  const std::string path = container() + ".thrown.qrm";
  const auto is_there = [&path] { return access(path.c_str(), F_OK) == 0; };
  int calls = 0;
  const qr::Progress fails = [&](std::uint64_t, std::uint64_t, std::string_view) {
    ++calls;
    throw calls;
  };
  CHECK_THROWS_AS(model.compile(path, nullptr, nullptr, fails), int);
  CHECK(calls == 1);
  CHECK(!is_there());
  qr::Signal signal(runtime);
  CHECK_THROWS_AS(model.compile(path, nullptr, &signal, fails), int);
  CHECK(calls == 2);
  CHECK(!is_there());
  // One that says stop; the signal serves other calls as before.
  bool goes_on = false;
  const auto asked = [&](std::uint64_t, std::uint64_t, std::string_view) { return goes_on; };
  const qr::Status stopped = model.try_compile(path, nullptr, &signal, asked);
  CHECK((stopped.code() == QR_CANCELLED && std::string_view(stopped.id()) == "QR-C0013"));
  CHECK(!is_there());
  goes_on = true;
  model.compile(path, nullptr, &signal, asked);
  CHECK(is_there());
  model.compile(path, nullptr, &signal, [&](std::uint64_t, std::uint64_t, std::string_view) { ++calls; });
  CHECK((calls > 2 && is_there()));
  const std::function<void(std::uint64_t, std::uint64_t, std::string_view)> nothing;
  model.compile(path, nullptr, &signal, nothing);
  std::remove(path.c_str());
  const qr::Signal part = signal.derive();
  CHECK(part.try_check().ok());
  signal.abort();
  CHECK(part.try_check().code() == QR_CANCELLED);
}

#endif

}  // namespace
