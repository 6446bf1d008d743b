// SPDX-License-Identifier: Apache-2.0
// quarry.hpp, built with exceptions and without: objects moved and destroyed in every combination, results, errors. The
// strictest warnings are errors here, so a template of the wrapper that a user may instantiate is used below.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "wrapper_test.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>

#include <array>
#include <chrono>
#include <limits>
#include <memory>
#include <vector>

using namespace wrapper_test;

namespace {

void move_one(unsigned kind, Everything &from, Everything &to) {
  switch (kind) {
    case 0: to.runtime = std::move(from.runtime); break;
    case 1: to.options = std::move(from.options); break;
    case 2: to.signal = std::move(from.signal); break;
    case 3: to.profile = std::move(from.profile); break;
    case 4: to.model = std::move(from.model); break;
    case 5: to.session = std::move(from.session); break;
    default: to.memory = std::move(from.memory); break;
  }
}

// Uses each object that is there; what gives texts above all.
void use(Everything &all) {
  if (all.runtime) CHECK(must(all.runtime.try_operators("")).view().substr(0, 1) == "{");
  if (all.options) CHECK(must(all.options.try_value("threads")) == "1");
  all.signal.reset();
  if (all.model) CHECK(must(all.model.try_inspect()).view().find("contexts") != std::string_view::npos);
  if (all.memory) static_cast<char *>(all.memory.data())[all.memory.size() - 1] = 1;
  if (all.session) {
    const std::vector<float> pixels(64);
    const std::array<qr::Tensor, 1> inputs{qr::Tensor::of(pixels.data(), {1, 1, 8, 8})};
    std::array<qr::Tensor, 1> outputs;
    must(
        all.session.try_run(inputs, outputs, all.signal ? &all.signal : nullptr, all.profile ? &all.profile : nullptr));
    CHECK(must(outputs[0].try_data<float>()) != nullptr);
    CHECK(outputs[0].shape() == std::vector<std::int64_t>{1, 10});
    CHECK(must(all.session.try_report()).view().find("backend") != std::string_view::npos);
  }
  if (all.profile) CHECK(must(all.profile.try_export_as("csv")).view().find("name") != std::string_view::npos);
}

static_assert(sizeof(Everything) == kKinds * sizeof(void *), "an object is one pointer");
static_assert(std::is_nothrow_move_constructible_v<Everything> && std::is_nothrow_move_assignable_v<Everything> &&
              !std::is_copy_constructible_v<Everything>);

TEST_CASE("any set of objects moves to another struct, and either struct may go first") {
  PoisoningAllocator allocator;
  for (unsigned moved = 0; moved < 1u << kKinds; ++moved) {
    auto first = std::make_unique<Everything>(make_everything(allocator));
    auto second = std::make_unique<Everything>();
    for (unsigned kind = 0; kind < kKinds; ++kind)
      if (moved >> kind & 1) move_one(kind, *first, *second);
    (moved & 1 ? first : second).reset();
    use(*(first ? first : second));
  }
  CHECK(allocator.live == 0);
}

TEST_CASE("a struct moved as a whole works when the old one is gone") {
  PoisoningAllocator allocator;
  {
    auto old = std::make_unique<Everything>(make_everything(allocator));
    Everything all(std::move(*old));
    CHECK(!old->model);
    old.reset();
    use(all);
    std::vector<Everything> list;
    for (int i = 0; i < 5; ++i) list.push_back(make_everything(allocator));  // moved as the vector grows
    for (Everything &one : list) use(one);
    all = std::move(list[2]);
    list.clear();
    use(all);
  }
  CHECK(allocator.live == 0);
}

TEST_CASE("texts and errors outlive what gave them") {
  PoisoningAllocator allocator;
  {
    qr::Text report, operators;
    qr::Status status;
    {
      Everything all = make_everything(allocator);
      report = must(all.session.try_report());
      operators = must(all.runtime.try_operators(""));
      status = all.session.try_set_option("thread", "1");
    }
    CHECK(report.view().find("backend") != std::string_view::npos);
    CHECK(operators.str().find("Conv") != std::string::npos);
    CHECK(std::string(status.id()) == "QR-C0101");
    CHECK(std::string(status.message()).find("thread") != std::string::npos);
  }
  CHECK(allocator.live == 0);
}

TEST_CASE("a result holds a value, or the status that says why not") {
  const qr::Runtime runtime = must(qr::Runtime::try_create());
  const qr::Result<qr::Model> missing = qr::Model::try_open(runtime, "no_such_model.qrm");
  REQUIRE(!missing);
  CHECK(!missing.ok());
  CHECK(missing.status().code() == QR_NOT_FOUND);
  CHECK(std::string(missing.status().code_name()) == "NOT_FOUND");
  CHECK(std::string(missing.status().id()) == "QR-F0001");
  CHECK(std::string(missing.status().message()).find("no_such_model.qrm") != std::string::npos);
  CHECK(std::string(missing.status().hint()) == "check the path");
  CHECK(std::string(missing.status().detail(missing.status().detail_count()).first).empty());

  qr::Result<qr::Model> opened = qr::Model::try_open(runtime, container());
  REQUIRE(opened);
  CHECK(opened.status().ok());
  CHECK(std::string(opened.status().id()).empty());
  CHECK(std::string(opened.status().message()).empty());
  CHECK(opened->input_count() == 1);
  const qr::TensorInfo input = must((*opened).try_input(0));
  CHECK(input.dtype == QR_DTYPE_F32);
  CHECK(input.dims == std::vector<std::int64_t>{1, 1, 8, 8});
  CHECK(must(opened->try_outputs()).at(0).dims == std::vector<std::int64_t>{1, 10});
  CHECK(must(opened->try_inputs()).at(0).name == input.name);
  CHECK(opened->try_output(1).status().code() == QR_OUT_OF_RANGE);
  CHECK(must(opened->try_dim_name(0, 0)).empty());
  must(opened->try_verify());
  const qr::Options options = must(qr::Options::try_create(runtime));
  CHECK(must(opened->try_check_nodes(options)).view().find("\"refused\": 0") != std::string_view::npos);
  const auto [grade, reason] = must(opened->try_compatibility(options));
  CHECK(grade == QR_COMPATIBILITY_OPTIMAL);
  CHECK(reason.c_str()[reason.view().size()] == '\0');

  CHECK(qr::Options::try_create(runtime, {{"thread", "1"}}).status().code() == QR_NOT_FOUND);
  CHECK(qr::Status().ok());
  CHECK(qr::Status::out_of_memory().code() == QR_RESOURCE_EXHAUSTED);
  CHECK(std::string(qr::Status::out_of_memory().id()) == "QR-C0001");
}

TEST_CASE("an empty object answers with an error, and the C object can be had and given") {
  const std::string null = "QR-C0002";
  Everything none;
  CHECK(!none.session);
  CHECK(null == none.runtime.try_operators("").status().id());
  CHECK(null == none.options.try_set("threads", "1").id());
  CHECK(null == none.profile.try_event(0).status().id());
  CHECK(null == none.model.try_inspect().status().id());
  CHECK(null == none.session.try_report().status().id());
  CHECK(null == none.session.try_clone().status().id());
  CHECK(null == qr::Session::try_create(none.model).status().id());
  CHECK(none.memory.data() == nullptr);
  none.signal.abort();

  qr_runtime *made = nullptr;
  must(qr::Status(qr_runtime_create(nullptr, &made)));
  qr::Runtime runtime(made);
  CHECK(must(runtime.try_scan()) >= 2);
  CHECK(must(runtime.try_backend(0)).usable == 1);
  CHECK(must(runtime.try_device(0, 0)).usable == 1);
  qr_runtime_destroy(runtime.release());
  CHECK(!runtime);
}

TEST_CASE("an object that was moved from is harmless: every call that can fail says so, the others give nothing") {
  PoisoningAllocator allocator;
  Everything from = make_everything(allocator);
  const Everything to(std::move(from));
  const std::string null = "QR-C0002";
  const auto refused = [&null](const qr::Status &status) { return null == status.id(); };
  CHECK(refused(from.runtime.try_scan().status()));
  CHECK(refused(from.runtime.try_backend(0).status()));
  CHECK(refused(from.runtime.try_device(0, 0).status()));
  CHECK(refused(qr::Options::try_create(from.runtime).status()));
  CHECK(refused(from.options.try_value("threads").status()));
  CHECK(refused(qr::Signal::try_create(from.runtime).status()));
  CHECK(refused(from.signal.try_fd().status()));
  from.signal.abort();
  from.signal.reset();
  from.signal.set_timeout(std::chrono::seconds(1));
  CHECK(refused(qr::Profile::try_create(from.runtime).status()));
  CHECK((from.profile.size() == 0 && from.profile.lost() == 0));
  CHECK(refused(from.profile.try_export_as("csv").status()));
  from.profile.clear();
  CHECK((from.model.input_count() == 0 && from.model.output_count() == 0));
  CHECK(refused(from.model.try_input(0).status()));
  CHECK(refused(from.model.try_dim_name(0, 0).status()));
  CHECK(refused(from.model.try_verify()));
  CHECK(refused(from.model.try_compatibility(to.options).status()));
  CHECK(refused(from.model.try_compile("nowhere.qrm")));
  CHECK((from.session.input_count() == 0 && from.session.output_count() == 0));
  CHECK(refused(from.session.try_output(0).status()));
  std::vector<qr::Tensor> none;
  CHECK(refused(from.session.try_run(none, none)));
  CHECK(refused(from.session.try_submit(none, none).status()));
  CHECK(refused(from.session.try_wait()));
  CHECK(refused(from.session.try_completion_fd().status()));
  CHECK(refused(from.session.try_set_option("cpu.isa", "sse2")));
  CHECK(refused(from.session.try_recover()));
  from.session.abort();
  CHECK(refused(qr::Memory::try_allocate(from.session, 1).status()));
  CHECK(from.memory.size() == 0);
  CHECK(refused(from.memory.try_map(QR_ACCESS_READ).status()));
  CHECK(refused(from.memory.try_unmap()));
  CHECK(refused(from.memory.try_begin_access(QR_ACCESS_READ)));
  CHECK(refused(from.memory.try_export_fd().status()));
  // It may be given another, and moved again; moving one to itself keeps it.
  from = make_everything(allocator);
  Everything &same = from;
  from.session = std::move(same.session);
  CHECK(from.session);
  use(from);
}

TEST_CASE("runs take arrays and vectors of tensors, and refuse a wrong number of them") {
  PoisoningAllocator allocator;
  Everything all = make_everything(allocator);
  qr::Session clone = must(all.session.try_clone());
  std::array<float, 64> pixels{};
  std::array<float, 10> scores{};
  std::vector<qr::Tensor> inputs{qr::Tensor::of(pixels.data(), {1, 1, 8, 8})};
  qr::Tensor outputs[1] = {qr::Tensor::of(scores.data(), std::vector<std::int64_t>{1, 10})};
  CHECK(outputs[0].size_bytes == 40);
  must(clone.try_run(inputs, outputs));
  CHECK(outputs[0].bytes() == scores.data());
  CHECK(outputs[0].data_if<std::int32_t>() == nullptr);
  const qr::Result<std::int32_t *> as_i32 = outputs[0].try_data<std::int32_t>();
  const qr::Status &other = as_i32.status();
  CHECK(std::string(other.id()) == "QR-R0002");
  CHECK(other.detail_count() == 2);
  CHECK(std::string(other.detail(0).second) + " " + other.detail(1).second == "f32 i32");
  CHECK(std::string(other.detail(2).first).empty());
  const std::vector<qr::Tensor> many(100);  // more than fit the wrapper's own room
  CHECK(std::string(clone.try_run(many, outputs).id()) == "QR-R0001");
  qr::Tensor deep(QR_DTYPE_F32, {1, 1, 1, 1, 1, 1, 1, 1, 8, 8}, pixels.data());
  CHECK(!clone.try_run(&deep, 1, outputs, 1).ok());

  all.signal.abort();
  CHECK(clone.try_run(inputs, outputs, &all.signal).code() == QR_CANCELLED);
  all.signal.reset();
  all.signal.set_timeout(std::chrono::seconds(100));
  must(clone.try_run(inputs, outputs, &all.signal, &all.profile));
  CHECK(all.profile.size() > 0);
  CHECK(must(all.profile.try_event(0)).end > 0);
  all.profile.clear();
  CHECK(all.profile.size() == 0);
  must(clone.try_recover());
  CHECK(must(clone.try_input(0)).name == must(clone.try_inputs()).at(0).name);
  CHECK(must(clone.try_output(0)).name == must(clone.try_outputs()).at(0).name);
  std::array<char, 4096> own{};
  CHECK(must(qr::Memory::try_register(clone, own.data(), own.size())).size() == own.size());
}

TEST_CASE("a tensor never has more room than its array, and one that cannot be is refused by every call") {
  PoisoningAllocator allocator;
  Everything all = make_everything(allocator);
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  float scores[10];
  std::array<float, 64> pixels{};
  std::vector<float> many(10);
  const auto id = [](const qr::Tensor &tensor) { return std::string(tensor.status().id()); };
  CHECK((qr::Tensor::of(scores, {2, 5}).ok() && qr::Tensor::of(scores, {2, 5}).size_bytes == 40));
  CHECK(qr::Tensor::of(scores).size_bytes == 40);
  CHECK(qr::Tensor::of(many).shape() == std::vector<std::int64_t>{10});
  CHECK((qr::Tensor::of(many, {0, kHuge, kHuge}).ok() && qr::Tensor::of(many, {0, kHuge, kHuge}).size_bytes == 0));
  CHECK(qr::Tensor::of(many, {}).size_bytes == 4);
  CHECK(qr::Tensor(QR_DTYPE_I4, {3}, scores, 2).size_bytes == 2);
  CHECK(qr::Tensor().ok());
  const std::pair<qr::Tensor, const char *> wrong[] = {
      {qr::Tensor::of(scores, {-1, 10}), "QR-R0003"},
      {qr::Tensor::of(scores, {-2, -5}), "QR-R0003"},
      {qr::Tensor::of(scores, {kHuge, 0, -1}), "QR-R0003"},
      {qr::Tensor::of(&scores[0], {1, QR_DIM_UNKNOWN}), "QR-R0003"},
      {qr::Tensor::of(&scores[0], {kHuge, 8}), "QR-R0003"},
      {qr::Tensor::of(&scores[0], {kHuge}), "QR-R0003"},
      {qr::Tensor::of(&scores[0], {1, 1, 1, 1, 1, 1, 1, 1, 10}), "QR-R0003"},
      {qr::Tensor::of(scores, {11}), "QR-R0005"},
      {qr::Tensor::of(many, {1, 11}), "QR-R0005"},
      {qr::Tensor(QR_DTYPE_I4, {5}, scores, 2), "QR-R0005"},
  };
  const qr::Tensor image = qr::Tensor::of(pixels, {1, 1, 8, 8});
  const qr_tensor *const c_inputs[] = {&image};
  for (const auto &[tensor, expected] : wrong) {
    CHECK(!tensor.ok());
    CHECK(id(tensor) == expected);
    CHECK((tensor.bytes() == nullptr && tensor.size_bytes == 0 && tensor.shape().empty()));
    qr::Tensor outputs[1] = {tensor};
    CHECK(std::string(all.session.try_run(&image, 1, outputs, 1).id()) == expected);
    CHECK(std::string(all.session.try_submit(&image, 1, outputs, 1).status().id()) == expected);
    CHECK(std::string(all.session.try_run(&tensor, 1, outputs, 1).id()) == expected);
    qr_tensor *const c_outputs[] = {outputs};
    CHECK(std::string(qr::Status(qr_session_run(all.session.get(), nullptr, c_inputs, 1, c_outputs, 1)).id()) ==
          "QR-C0003");
  }
  // As it is in a program that has forgotten that a dimension may be unknown.
  qr::TensorInfo output = must(all.session.try_output(0));
  output.dims[0] = QR_DIM_UNKNOWN;
  CHECK(!qr::Tensor::of(many.data(), output.dims).ok());
}

TEST_CASE("a time that has run out is no time without a limit") {
  PoisoningAllocator allocator;
  Everything all = make_everything(allocator);
  const std::vector<float> pixels(64);
  const std::array<qr::Tensor, 1> inputs{qr::Tensor::of(pixels, {1, 1, 8, 8})};
  std::array<qr::Tensor, 1> outputs;
  const auto code = [&](auto timeout) {
    all.signal.set_timeout(timeout);
    return all.session.try_run(inputs, outputs, &all.signal).code();
  };
  using namespace std::chrono_literals;
  CHECK(code(-1ns) == QR_DEADLINE_EXCEEDED);
  CHECK(code(0ns) == QR_DEADLINE_EXCEEDED);
  CHECK(code(std::chrono::hours::min()) == QR_DEADLINE_EXCEEDED);
  CHECK(code(std::chrono::nanoseconds::min()) == QR_DEADLINE_EXCEEDED);
  CHECK(code(std::chrono::duration<double>(-0.5)) == QR_DEADLINE_EXCEEDED);
  CHECK(code(std::chrono::duration<double>(std::numeric_limits<double>::quiet_NaN())) == QR_DEADLINE_EXCEEDED);
  CHECK(code(1h) == QR_OK);
  CHECK(code(std::chrono::duration<double>(100.5)) == QR_OK);
  CHECK(code(std::chrono::hours::max()) == QR_OK);
  CHECK(code(std::chrono::duration<double>(1e300)) == QR_OK);
  CHECK(code(-1s) == QR_DEADLINE_EXCEEDED);
  CHECK(code(qr::Signal::no_limit) == QR_OK);
}

TEST_CASE("runs in a queue") {
  PoisoningAllocator allocator;
  Everything all = make_everything(allocator);
  std::array<float, 64> pixels{};
  std::array<float, 10> expected{}, scores{};
  const std::vector<qr::Tensor> inputs{qr::Tensor::of(pixels.data(), {1, 1, 8, 8})};
  qr::Tensor outputs[1] = {qr::Tensor::of(expected.data(), {1, 10})};
  must(all.session.try_run(inputs, outputs));
  outputs[0] = qr::Tensor::of(scores.data(), {1, 10});
  int ended = 0;
  qr_submit_options how = QR_SUBMIT_OPTIONS_INIT;
  how.self = &ended;
  how.done = [](void *self, std::uint64_t, qr_status *status) {
    *static_cast<int *>(self) += qr::Status(status).ok() ? 1 : 100;
  };
  const std::uint64_t ticket = must(all.session.try_submit(inputs, outputs, &how));
  must(all.session.try_wait(ticket, &all.signal));
  CHECK(ended == 1);
  CHECK(scores == expected);
  CHECK(std::string(all.session.try_wait(ticket).id()) == "QR-R0015");
  all.session.abort(ticket);
  all.session.abort();
  must(all.session.try_wait());
  CHECK(must(all.session.try_completion_fd()) >= 0);
  qr::Tensor none[1];
  CHECK(std::string(all.session.try_submit(inputs, none).status().id()) == "QR-R0004");
}

TEST_CASE("descriptors: of a model's file, of a signal, of memory") {
  PoisoningAllocator allocator;
  Everything all = make_everything(allocator);
  const int file = open(container().c_str(), O_RDONLY | O_CLOEXEC);
  REQUIRE(file >= 0);
  CHECK(must(qr::Model::try_open_fd(all.runtime, file)).input_count() == 1);
  close(file);
  CHECK(must(qr::Session::try_plan(all.model, &all.options)).io_bytes >= 64 * 4 + 40);

  pollfd ready{must(all.signal.try_fd()), POLLIN, 0};
  CHECK(poll(&ready, 1, 0) == 0);
  all.signal.abort();
  CHECK(poll(&ready, 1, 0) == 1);

  const int shared = memfd_create("test_wrapper", MFD_CLOEXEC);
  REQUIRE(shared >= 0);
  REQUIRE(ftruncate(shared, 8192) == 0);
  CHECK(qr::Memory::try_import(all.session, shared, 8192, 4096).status().code() == QR_OUT_OF_RANGE);
  qr::Memory imported = must(qr::Memory::try_import(all.session, shared, 4096, 4096));
  close(shared);
  CHECK(imported.size() == 4096);
  must(imported.try_begin_access(QR_ACCESS_WRITE));
  must(imported.try_end_access(QR_ACCESS_WRITE));
  void *view = must(imported.try_map(QR_ACCESS_READ));
  CHECK(view != nullptr);
  must(imported.try_unmap());
  CHECK(imported.try_unmap().code() == QR_FAILED_PRECONDITION);
  const auto [descriptor, offset] = must(imported.try_export_fd());
  CHECK(offset == 4096);
  close(descriptor);
}

#if QR_HAS_EXCEPTIONS

TEST_CASE("the throwing functions: a struct of objects is moved") {
  auto old = std::make_unique<Throwing>();
  Throwing all(std::move(*old));
  old.reset();
  const std::vector<float> pixels(64);
  qr::Session clone = all.session.clone();
  const std::vector<qr::Tensor> outputs =
      clone.run({qr::Tensor::of(pixels.data(), {1, 1, 8, 8})}, nullptr, &all.profile);
  CHECK(outputs.at(0).shape() == std::vector<std::int64_t>{1, 10});
  CHECK(outputs[0].data<float>() == outputs[0].bytes());
  CHECK_THROWS_WITH_AS((void)outputs[0].data<double>(),
                       "QR-R0002: a tensor was asked for as another type than it has, found f32, expected f64",
                       qr::Error);
  float room[4];
  std::vector<qr::Tensor> small{qr::Tensor::of(room, {-1, 10})};
  CHECK_THROWS_AS(clone.run({qr::Tensor::of(pixels, {1, 1, 8, 8})}, small), qr::Error);
  CHECK(all.profile[0].end > 0);
  CHECK(all.profile.export_as("csv").find("name") != std::string::npos);
  CHECK(all.model.inspect().find("contexts") != std::string::npos);
  CHECK(all.session.report().find("backend") != std::string::npos);
  CHECK(clone.report().find("backend") != std::string::npos);
  CHECK(all.options.set("threads", "2").value("threads") == "2");
  CHECK(all.model.compatibility(all.options).first == QR_COMPATIBILITY_OPTIMAL);
  CHECK(all.model.check_nodes(all.options).find("\"refused\": 0") != std::string::npos);
  CHECK(all.model.inputs().at(0).name == all.session.input(0).name);
  CHECK(all.model.output(0).name == all.session.outputs().at(0).name);
  CHECK(all.model.input(0).name == all.session.inputs().at(0).name);
  CHECK(all.model.outputs().at(0).name == all.session.output(0).name);
  CHECK(all.model.dim_name(0, 0).empty());
  all.model.verify();
  all.session.recover();
  CHECK(all.runtime.scan() >= 2);
  CHECK(all.runtime.backend(0).usable == 1);
  CHECK(all.runtime.device(0, 0).usable == 1);
  CHECK(all.runtime.operators("").find("Conv") != std::string::npos);
  CHECK(qr::Memory(all.session, 100).size() == 100);
  std::array<char, 4096> own{};
  qr::Memory memory(all.session, own.data(), own.size());
  CHECK(memory.data() == own.data());
  memory.begin_access(QR_ACCESS_READ);
  memory.end_access(QR_ACCESS_READ);
  CHECK(memory.map(QR_ACCESS_READ) == own.data());
  memory.unmap();
  CHECK_THROWS_AS(memory.export_fd(), qr::Error);  // it has no descriptor
  CHECK_THROWS_AS(qr::Memory::import(all.session, -1, 0, 1), qr::Error);
  CHECK_THROWS_AS(qr::Memory::import_hardware_buffer(all.session, own.data()), qr::Error);
  CHECK_THROWS_AS(qr::Model::open_fd(all.runtime, -1), qr::Error);
  CHECK(qr::Session::plan(all.model).io_bytes >= 64 * 4 + 40);
  CHECK(qr::Signal(all.runtime).fd() >= 0);
}

TEST_CASE("the throwing functions: runs in a queue") {
  Throwing all;
  const std::vector<float> pixels(64);
  std::vector<float> scores(10);
  const std::vector<qr::Tensor> inputs{qr::Tensor::of(pixels.data(), {1, 1, 8, 8})};
  std::vector<qr::Tensor> outputs{qr::Tensor::of(scores.data(), {1, 10})};
  all.session.wait(all.session.submit(inputs, outputs));
  CHECK(scores[0] != 0);
  CHECK(all.session.completion_fd() >= 0);
  CHECK_THROWS_AS(all.session.wait(99), qr::Error);
}

TEST_CASE("the throwing functions throw what the others give") {
  const qr_runtime_options defaults = QR_RUNTIME_OPTIONS_INIT;
  const qr::Runtime runtime(defaults);
  try {
    const qr::Model model(runtime, "no_such_model.qrm");
    FAIL("it was opened");
  } catch (const qr::Error &error) {
    CHECK(error.code() == QR_NOT_FOUND);
    CHECK(error.id() == "QR-F0001");
    CHECK(error.hint() == "check the path");
    CHECK(error.what() == error.id() + ": " + error.message());
  }
  CHECK_THROWS_AS(qr::Model(runtime, "not a model", 11), qr::Error);
  CHECK_THROWS_AS(qr::Options(runtime).set("thread", "1"), qr::Error);
  CHECK_THROWS_AS(qr::Session(qr::Model(runtime, container())).set_option("thread", "1"), qr::Error);
  CHECK_THROWS_AS(must(qr::Profile::try_create(runtime))[0], qr::Error);
  const qr::Signal signal(runtime);
}

#endif

}  // namespace
