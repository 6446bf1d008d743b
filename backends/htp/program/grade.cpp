// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/program/grade.h"

#include "backends/common/plugin_support.h"
#include "backends/htp/qnn/htp_abi.h"

namespace quarry::htp {

namespace {

// The list names the SoC.
bool names(std::string_view list, const Soc &soc) {
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(','), list.size());
    if (auto target = choose_target(list.substr(0, end), "0"); target.ok() && target->soc == &soc) return true;
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return false;
}

BlobGrade of_version(const Blob &blob, const GradePlace &here) {
  if (blob.version.core.major != here.version.core.major || blob.version.core.minor > here.version.core.minor ||
      (blob.version.core.minor == here.version.core.minor && blob.version.backend.minor > here.version.backend.minor))
    return {QR_PLUGIN_GRADE_RECOMPILE,
            format("blob: made by %s (core %s, HTP %s), the library here is %s, which is older", blob.build_id,
                   qnn::version_text(blob.version.core), qnn::version_text(blob.version.backend), here.description)};
  if (blob.build_id != here.build_id)
    return {QR_PLUGIN_GRADE_USABLE,
            format("blob: made by %s, the library here is %s", blob.build_id, here.description)};
  return {QR_PLUGIN_GRADE_OPTIMAL, {}};
}

BlobGrade of_soc(const Blob &blob, const Soc &soc, const GradePlace &here, std::string_view wanted) {
  const bool asked = !wanted.empty() && wanted != "0";
  if (asked && !names(wanted, soc))
    return {QR_PLUGIN_GRADE_RECOMPILE,
            format("blob: made for %s, asked for was %s", soc_text(soc), printable(wanted, 200))};
  const Soc *const device = here.device;
  if (!device || device == &soc) return {QR_PLUGIN_GRADE_OPTIMAL, {}};
  for (const BlobGraph &graph : blob.graphs)
    if (graph.vtcm_bytes > std::uint64_t{device->vtcm_mb} << 20)
      return {QR_PLUGIN_GRADE_RECOMPILE,
              format("blob: made for %s with %llu bytes of VTCM, the device, %s, has %u MB", soc_text(soc),
                     static_cast<unsigned long long>(graph.vtcm_bytes), soc_text(*device), device->vtcm_mb)};
  if (soc.arch <= device->arch && same_family(soc, *device))
    return {QR_PLUGIN_GRADE_USABLE, format("blob: made for %s, the device is %s", soc_text(soc), soc_text(*device))};
  return {QR_PLUGIN_GRADE_RECOMPILE,
          format("blob: made for %s, which the device, %s, does not run", soc_text(soc), soc_text(*device))};
}

}  // namespace

GradePlace grade_place(const qnn::Library &library) {
  // The emulator names the same SoC whatever it is asked to be.
  return {library.version(), library.build_id(), library.describe(),
          qnn::Library::emulates() ? nullptr : device_soc(library.api())};
}

const Soc *device_soc(const qnn::Api &api) {
  if (!api.deviceGetPlatformInfo) return nullptr;
  const qnn::PlatformInfo *info = nullptr;
  if (api.deviceGetPlatformInfo(nullptr, &info) != qnn::kOk || !info) return nullptr;
  const Soc *soc = nullptr;
  if (info->n_devices > 0 && info->devices && info->devices[0].ext) {
    const auto *const chip = static_cast<const qnn::HtpDeviceExt *>(info->devices[0].ext);
    if (chip->kind == 0) soc = find_soc(chip->chip.soc);
  }
  if (api.deviceFreePlatformInfo) (void)api.deviceFreePlatformInfo(nullptr, info);
  return soc;
}

BlobGrade grade_blob(const Blob &blob, const GradePlace &place, const GradeWishes &wishes) {
  const Soc *const soc = find_soc(blob.soc);
  if (!soc) return {QR_PLUGIN_GRADE_INCOMPATIBLE, format("blob: made for SoC %u, which is not known", blob.soc)};
  BlobGrade version = of_version(blob, place), chip = of_soc(blob, *soc, place, wishes.soc_model);
  if (wishes.ignores_versions && version.grade == QR_PLUGIN_GRADE_RECOMPILE) version.grade = QR_PLUGIN_GRADE_USABLE;
  BlobGrade worst = chip.grade >= version.grade ? std::move(chip) : std::move(version);
  if (wishes.strict && worst.grade == QR_PLUGIN_GRADE_USABLE) {
    worst.grade = QR_PLUGIN_GRADE_RECOMPILE;
    worst.reason += " (htp.compatibility is strict)";
  }
  return worst;
}

}  // namespace quarry::htp
