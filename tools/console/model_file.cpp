// SPDX-License-Identifier: Apache-2.0
#include "tools/console/model_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <vector>

#include "tools/console/output.h"
#include "tools/console/read_file.h"

namespace tools {

qr_model_source model_source(const std::string &path) {
  if (path != "-") return qr::detail::source_at(path);
  struct stat info {};
  const off_t at = lseek(0, 0, SEEK_CUR);
  if (at >= 0 && fstat(0, &info) == 0 && S_ISREG(info.st_mode) && at < info.st_size)
    return QR_MODEL_IN_FILE(0, static_cast<uint64_t>(at), 0);
  const std::vector<uint8_t> &bytes = standard_input();  // of a pipe: a command may open it twice
  if (bytes.empty()) return QR_MODEL_IN_MEMORY("", 0);
  return QR_MODEL_IN_MEMORY(bytes.data(), bytes.size());
}

}  // namespace tools
