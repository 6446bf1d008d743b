// SPDX-License-Identifier: Apache-2.0
// What `quarry doctor` reports: the libraries, what a device needs beside them, and the one next thing to do.
#pragma once

#include "backends/htp/qnn/library.h"

namespace quarry::htp {

// Lines. `library` is null where none could be opened in these places.
String report_device(const qnn::LibraryPlaces &places, const qnn::Library *library);

}  // namespace quarry::htp
