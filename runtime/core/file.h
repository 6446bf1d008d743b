// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "base/alloc.h"

namespace quarry {

// The folder that libquarry was loaded from (of the program, where it is linked in), as an absolute path; empty where
// that is not known.
String library_folder();

// A file that belongs to the library: beside it where it is installed, in another folder beside it in a build tree, or
// in the folder it was configured for. Both are found from libquarry's folder `own` on ("/quarry/x"). Empty: not there,
// and `out_tried` lists where it was looked for.
String find_own_file(std::string_view own, std::string_view installed, std::string_view in_build_tree,
                     String &out_tried);

}  // namespace quarry
