// SPDX-License-Identifier: Apache-2.0
// What is asked of any extension: whether it is there, and its functions.
#pragma once

#include "backends/gpu/opencl/library.h"

namespace quarry::opencl {

// A list of extensions, as drivers give it, has this one.
bool names_extension(std::string_view extensions, std::string_view name) noexcept;

// Of the platform's driver, or, where that does not know it, of the library itself.
template <class T>
bool find_function(const Library &library, cl_platform_id platform, const char *name, T &out) {
  void *found = library->GetExtensionFunctionAddressForPlatform
                    ? library->GetExtensionFunctionAddressForPlatform(platform, name)
                    : nullptr;
  if (!found) found = library.find(name);
  out = reinterpret_cast<T>(found);
  return found != nullptr;
}

}  // namespace quarry::opencl
