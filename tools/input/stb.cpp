// SPDX-License-Identifier: Apache-2.0
// stb's own code, compiled once. It shifts further than C allows on damaged files and is not built with the sanitizer
// that says so.
#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STBI_WRITE_NO_STDIO
#include "tools/input/stb.h"
