// SPDX-License-Identifier: Apache-2.0
#include "tools/console/model_file.h"

#include <cstdio>
#include <vector>

#include "base/os/file.h"
#include "tools/console/output.h"
#include "tools/console/read_file.h"

namespace tools {

qr_model_source model_source(const std::string &path) {
  if (path != "-") return qr::detail::source_at(path);
  quarry::os::FileInfo info;
  const long at = quarry::os::kDescriptorsAreShared ? std::ftell(stdin) : -1;
  if (at >= 0 && quarry::os::get_info(0, &info) && info.kind == quarry::os::FileKind::Regular &&
      static_cast<uint64_t>(at) < info.size)
    return QR_MODEL_IN_FILE(0, static_cast<uint64_t>(at), 0);
  const std::vector<uint8_t> &bytes = standard_input();  // of a pipe: a command may open it twice
  if (bytes.empty()) return QR_MODEL_IN_MEMORY("", 0);
  return QR_MODEL_IN_MEMORY(bytes.data(), bytes.size());
}

}  // namespace tools
