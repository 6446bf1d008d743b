// SPDX-License-Identifier: Apache-2.0
// What ChildProcess asks of the system where systems differ (not Windows, which has another one).
#pragma once

#include <string_view>

#include "base/os/child_process.h"

namespace quarry::os {

struct ChildProcess::Ending {
  bool is_known = false, by_signal = false;
  int number = 0;  // the exit status, or the signal
};

// Of the variable that has the folders of libraries: "LD_LIBRARY_PATH=".
extern const std::string_view kLibraryFolders;

// Two ends of a stream that a program which is started does not have, and that raise no signal. 0, or an errno.
int make_stream(int (&ends)[2]) noexcept;
extern const int kNoSignal;  // to be given to send()

}  // namespace quarry::os
