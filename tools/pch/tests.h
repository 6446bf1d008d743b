// SPDX-License-Identifier: Apache-2.0
// The standard headers and doctest, precompiled for the larger tests. Files still include what they use.
#include "tests/support/check.h"
#include "tools/pch/standard.h"
