// SPDX-License-Identifier: Apache-2.0
// What is the same for every system; the rest stands in base/os.
#include "base/os_error.h"

namespace quarry {

Status callback_error(const char *function, const char *member, int number, ErrorId fallback) {
  return Status::errorf(os_error_id(number, fallback), "%s: %s: %s", function, member, os_error_text(number));
}

}  // namespace quarry
