// SPDX-License-Identifier: Apache-2.0
// Every container that a release wrote is read by every later build, and what a newer version might write is refused
// politely. For each vX.Y/NAME.qrm, NAME.txt says how: the listing of its first graph, or the beginning of the refusal
// ("QR-...").
#include <filesystem>
#include <fstream>

#include "formats/qrm/qrm.h"
#include "tests/support/check.h"
#include "tests/support/kept_graph.h"

namespace quarry {
namespace {

namespace fs = std::filesystem;

Result<String> first_graph(const fs::path &path) {
  QR_ASSIGN_OR_RETURN(qrm::RawFile file, qrm::RawFile::open_path(path.string()));
  QR_ASSIGN_OR_RETURN(const qrm::ValidatedModel model, qrm::ValidatedModel::open(std::move(file)));
  QR_RETURN_IF_ERROR(model.verify());
  QR_ASSIGN_OR_RETURN(const qir::Graph graph, test::kept_graph(model, 0));
  return qir::print_graph(graph);
}

TEST_CASE("golden containers") {
  std::size_t count = 0;
  for (const fs::directory_entry &release : fs::directory_iterator(QUARRY_GOLDEN_FOLDER)) {
    if (!release.is_directory() || release.path().filename().string()[0] != 'v') continue;
    for (const fs::directory_entry &entry : fs::directory_iterator(release)) {
      if (entry.path().extension() != ".qrm") continue;
      ++count;
      std::ifstream in(fs::path(entry.path()).replace_extension(".txt"), std::ios::binary);
      const std::string expected((std::istreambuf_iterator<char>(in)), {});
      const Result<String> found = first_graph(entry.path());
      const std::string text = found.ok()
                                   ? std::string(found.value())
                                   : std::string(found.status().id()) + " " + std::string(found.status().message());
      const bool fits = !expected.empty() && (found.ok() ? text == expected
                                                         : expected.compare(0, 3, "QR-") == 0 &&
                                                               text.compare(0, expected.size(), expected) == 0);
      CHECK_MESSAGE(fits, entry.path().string(), ": found\n", text, "\nexpected\n", expected);
    }
  }
  CHECK(count >= 5);
}

// Format 1.0 knew programs of one graph alone.
TEST_CASE("programs of the first format") {
  Result<qrm::RawFile> file = qrm::RawFile::open_path(QUARRY_GOLDEN_FOLDER "/v0.1/sample.qrm");
  REQUIRE_OK(file);
  Result<qrm::ValidatedModel> model = qrm::ValidatedModel::open(std::move(*file));
  REQUIRE_OK(model);
  CHECK_EQ(model->format_minor(), 0u);
  const Vector<qrm::Program> &programs = model->metadata().contexts[0].programs;
  CHECK_EQ(programs.size(), 2u);
  for (std::uint32_t i = 0; i < programs.size(); ++i) CHECK(programs[i].graphs == Vector<std::uint32_t>({i}));
}

}  // namespace
}  // namespace quarry
