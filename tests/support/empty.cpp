// SPDX-License-Identifier: Apache-2.0
// A test program without a test: it must fail.
#include "tests/support/check.h"
