// SPDX-License-Identifier: Apache-2.0
// What the stand-in for Qualcomm's libraries is to do, and what it writes down.
//
// The environment variable QNN_STANDIN (or qnn_standin_script(), which replaces it at any time) holds settings with
// `;` between:
//   core=2.40.0  htp=5.51.0  system=1.15.0  build=v9  backend=6    versions that the libraries report (when opened)
//   slots=62                       later slots of the table hold rubbish, as behind the end of a short one
//   null=graphExecute              this slot is null (when opened)
//   fail=graphExecute:1011:2:1     this call fails with 1011 from its second time on, once (0: for ever)
//   slow=graphExecute:500          it takes so many microseconds
//   hang=graphExecute              it does not end before its signal does (without one: never, for a test that is 20 s)
//   refuse=Conv2d                  an operation that validation refuses
//   words=incorrect Value          what it says of that
//   late_ms=100                    contexts of a list are reported so much later, by another thread
//   spill=65536                    what the metadata says of spill-fill memory
// QNN_STANDIN_LOG names a file that every call is written to, a line each (qnn_standin_log(path): from now on there).
#pragma once

#include <cstdint>
#include <string>

#include "backends/htp/qnn/function_table.h"

namespace standin {

using quarry::qnn::Error;

// The last setting of a key, or `fallback`.
std::string setting(const char *key, const char *fallback);
quarry::qnn::Version version(const char *key, const char *fallback);
bool is_listed(const char *key, const std::string &value);

// At the beginning of each call: waits if the script says so, and gives the error to return; 0: none.
Error meet(const char *call);
// Whether the script says that it never ends.
bool hangs(const char *call);
// A line of the log; costs nothing without one.
__attribute__((format(printf, 1, 2))) void record(const char *pattern, ...);

}  // namespace standin
