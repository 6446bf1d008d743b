// SPDX-License-Identifier: Apache-2.0
// How good a context is for a device and a library, and what is too large for any.
#include "backends/htp/program/grade.h"

#include "backends/common/plugin_support.h"
#include "backends/htp/program/draft.h"
#include "backends/htp/qnn/htp_abi.h"
#include "tests/support/check.h"

using namespace quarry;
using namespace quarry::htp;

namespace {

Blob blob_for(std::uint32_t soc, std::uint32_t core_minor = 40, const char *build = "v2.51") {
  Blob blob;
  blob.soc = soc, blob.build_id = build;
  blob.version = {{2, core_minor, 0}, {5, core_minor + 11, 0}};
  return blob;
}
GradePlace place(std::uint32_t device = 0) {
  return {{{2, 40, 0}, {5, 51, 0}}, "v2.51", "QNN v2.51", device ? find_soc(device) : nullptr};
}
std::int32_t grade(const Blob &blob, const GradePlace &at, GradeWishes wishes = {"0"}) {
  const BlobGrade found = grade_blob(blob, at, wishes);
  CHECK_EQ(found.reason.empty(), found.grade == QR_PLUGIN_GRADE_OPTIMAL);
  return found.grade;
}

constexpr std::uint32_t kSm8350 = 30, kSm8550 = 43, kQcs8550 = 66, kSm8650 = 57, kSm8750 = 69;
constexpr std::int32_t kOptimal = QR_PLUGIN_GRADE_OPTIMAL, kUsable = QR_PLUGIN_GRADE_USABLE,
                       kRecompile = QR_PLUGIN_GRADE_RECOMPILE, kIncompatible = QR_PLUGIN_GRADE_INCOMPATIBLE;

}  // namespace

TEST_CASE("grades by SoC") {
  CHECK_EQ(grade(blob_for(kSm8650), place()), kOptimal);  // the emulator has every SoC
  CHECK_EQ(grade(blob_for(kSm8650), place(kSm8650)), kOptimal);
  CHECK_EQ(grade(blob_for(kSm8550), place(kSm8650)), kUsable);   // older, of one family
  CHECK_EQ(grade(blob_for(kQcs8550), place(kSm8550)), kUsable);  // of one architecture
  CHECK_EQ(grade(blob_for(kSm8750), place(kSm8650)), kRecompile);
  CHECK_EQ(grade(blob_for(kSm8350), place(kSm8650)), kRecompile);  // of another family
  CHECK_EQ(grade(blob_for(1), place()), kIncompatible);
  CHECK_EQ(grade(blob_for(kSm8650), place(), {"SM8750"}), kRecompile);
  CHECK_EQ(grade(blob_for(kSm8650), place(), {"SM8750,SM8650"}), kOptimal);
}

TEST_CASE("a context that wants more VTCM than the device has is compiled again") {
  constexpr std::uint32_t kSm8635 = 68;  // of SM8550's architecture, with half of its VTCM
  Blob blob = blob_for(kSm8550);
  blob.graphs.resize(2);
  blob.graphs[1].vtcm_bytes = 4 << 20;
  CHECK_EQ(grade(blob, place(kSm8635)), kUsable);
  blob.graphs[1].vtcm_bytes = 8 << 20;
  CHECK_EQ(grade(blob, place(kSm8635)), kRecompile);
  CHECK_EQ(grade(blob, place(kSm8550)), kOptimal);
}

TEST_CASE("of several contexts the device's own SoC is the best") {
  const GradePlace device = place(kSm8650);
  std::int32_t best = kIncompatible;
  std::uint32_t taken = 0;
  for (const std::uint32_t soc : {kSm8550, kSm8650, kSm8750})
    if (const std::int32_t found = grade(blob_for(soc), device); found < best) best = found, taken = soc;
  CHECK_EQ(taken, kSm8650);
  CHECK_EQ(best, kOptimal);
}

TEST_CASE("grades by version") {
  CHECK_EQ(grade(blob_for(kSm8650, 40, "v2.50"), place()), kUsable);  // another build
  CHECK_EQ(grade(blob_for(kSm8650, 32, "v2.43"), place()), kUsable);  // an older one
  CHECK_EQ(grade(blob_for(kSm8650, 41, "v2.52"), place()), kRecompile);
  CHECK_EQ(grade(blob_for(kSm8650, 41, "v2.52"), place(), {"0", false, true}), kUsable);  // skip_qnn_version_check
  Blob other = blob_for(kSm8650);
  other.version.core.major = 3;
  CHECK_EQ(grade(other, place()), kRecompile);
  other = blob_for(kSm8650);
  other.version.backend.minor = 52;
  CHECK_EQ(grade(other, place()), kRecompile);
}

TEST_CASE("strict takes no usable ones") {
  CHECK_EQ(grade(blob_for(kSm8550), place(kSm8650), {"0", true}), kRecompile);
  CHECK_EQ(grade(blob_for(kSm8650, 32, "v2.43"), place(), {"0", true}), kRecompile);
  CHECK_EQ(grade(blob_for(kSm8650, 41, "v2.52"), place(), {"0", true, true}), kRecompile);
  CHECK_EQ(grade(blob_for(kSm8650), place(), {"0", true}), kOptimal);
  CHECK_NE(grade_blob(blob_for(kSm8550), place(kSm8650), {"0", true}).reason.find("htp.compatibility is strict"),
           String::npos);
}

TEST_CASE("the SoC that the library reports for its device") {
  static std::uint32_t told;
  qnn::Api api{};
  CHECK(device_soc(api) == nullptr);
  api.deviceGetPlatformInfo = [](qnn::Handle, const qnn::PlatformInfo **out) -> qnn::Error {
    static qnn::HtpDeviceExt chip;
    static qnn::HwDevice device;
    static qnn::PlatformInfo info;
    chip.kind = 0, chip.chip.soc = told;
    device.ext = &chip;
    info.n_devices = told == 0 ? 0 : 1, info.devices = &device;
    *out = &info;
    return qnn::kOk;
  };
  for (const std::uint32_t soc : {0u, kSm8650, 1u}) {
    told = soc;
    CHECK(device_soc(api) == (soc == kSm8650 ? find_soc(soc) : nullptr));
  }
}

TEST_CASE("nodes whose weights no session has room for") {
  Draft draft;
  const auto weights = [&](std::uint64_t megabytes) {
    DraftTensor tensor;
    tensor.type = qnn::TensorType::Static, tensor.data = {nullptr, megabytes << 20};
    draft.tensors.push_back(tensor);
    return static_cast<std::int32_t>(draft.tensors.size() - 1);
  };
  for (const std::uint64_t megabytes : {2000u, 1800u, 100u}) {
    DraftNode node;
    node.type = "Conv2d", node.inputs = {weights(megabytes)};
    node.source = static_cast<std::int32_t>(draft.nodes.size());
    draft.nodes.push_back(node);
  }
  Vector<Status> refused(3);
  refuse_what_is_too_large(draft, refused);
  CHECK(refused[0].ok());
  CHECK(refused[1].ok());
  CHECK_EQ(refused[2].id(), "QR-B0004");
  CHECK_NE(refused[2].message().find("at most 4026531840"), std::string_view::npos);
  draft.tensors[1].data.size = 1 << 20;
  Vector<Status> fits(3);
  refuse_what_is_too_large(draft, fits);
  CHECK(fits[2].ok());
}
