// SPDX-License-Identifier: Apache-2.0
// How good a blob is here: with this library, for the SoCs that are asked for or the one of this device.
#pragma once

#include "backends/htp/program/blob.h"
#include "backends/htp/qnn/library.h"
#include "backends/htp/soc/soc.h"

namespace quarry::htp {

struct GradeWishes {
  std::string_view soc_model;     // names and numbers with commas between; "0": whatever is here
  bool strict = false;            // what runs but could be better is not taken
  bool ignores_versions = false;  // of the library that made it
};
struct BlobGrade {
  std::int32_t grade;  // QR_PLUGIN_GRADE_*
  String reason;       // empty where it is optimal
};
// What a blob is held against.
struct GradePlace {
  qnn::ApiVersion version;
  String build_id, description;  // of the library
  const Soc *device = nullptr;   // nullptr: an emulator has every SoC, or it is not known
};
GradePlace grade_place(const qnn::Library &library);
BlobGrade grade_blob(const Blob &blob, const GradePlace &place, const GradeWishes &wishes);

// The SoC that the library reports of its device; nullptr: none, or one that is not known.
const Soc *device_soc(const qnn::Api &api);

}  // namespace quarry::htp
