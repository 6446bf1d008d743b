// SPDX-License-Identifier: Apache-2.0
// What the kernels of an instruction set read everywhere, precompiled for each: the compiler's own header of its
// vectors took longer to read than most kernels to build. Files still include what they use.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/vector/activate.h"
#include "kernels/cpu/vector/isa_kernels.h"
