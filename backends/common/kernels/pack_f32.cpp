// SPDX-License-Identifier: Apache-2.0
#include "backends/common/kernels/pack.h"
