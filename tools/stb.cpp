// SPDX-License-Identifier: Apache-2.0
// stb's own code, compiled once. It shifts further than C allows on damaged files and is not built with the sanitizer
// that says so.
#define STB_IMAGE_IMPLEMENTATION
#include "stb.h"
