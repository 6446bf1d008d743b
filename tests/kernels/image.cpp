// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/driver.h"

namespace quarry::kernel_test {

void register_image(Registry &) {}

}  // namespace quarry::kernel_test
