// SPDX-License-Identifier: Apache-2.0
// A container that several threads read. On its own, so that the thread sanitizer need not build the rest.
#include <atomic>
#include <thread>

#include "sample_container.h"
#include "tests/support/check.h"

namespace quarry {
namespace {

using qrm::RawFile;
using qrm::SumCheck;
using qrm::ValidatedModel;
using test::SampleContainer;

TEST_CASE("several threads may use a model") {
  const SampleContainer sample;
  const Vector<std::uint8_t> bytes = sample.bytes();
  Result<RawFile> file = RawFile::from_memory(bytes.data(), bytes.size());
  REQUIRE_OK(file);
  Result<ValidatedModel> model = ValidatedModel::open(std::move(*file), SumCheck::Lazy);
  REQUIRE_OK(model);
  std::atomic<int> failures{0};
  const auto use = [&] {
    for (int i = 0; i < 50; ++i)
      if (!model->segments({0, 1, 2, 3}).ok() || !model->outline(0).ok() || !model->verify().ok()) ++failures;
  };
  std::thread other(use);
  use();
  other.join();
  CHECK_EQ(failures.load(), 0);
}

}  // namespace
}  // namespace quarry
