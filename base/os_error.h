// SPDX-License-Identifier: Apache-2.0
// What an errno means in an error of ours: one reading of the numbers for every file that is opened, mapped or written.
#pragma once

#include "base/status.h"

namespace quarry {

// The id of an errno; `fallback` is for numbers that say nothing better. A file that is not there or may not be read is
// reported as such where `fallback` is io_error: about a file to be written those mean something else.
ErrorId os_error_id(int number, ErrorId fallback) noexcept;

// The errno in words; where descriptors ran out, with how many this process may have.
String os_error_text(int number);

// What a function of the caller's answered: "qr_model_open: source->read: Input/output error".
Status callback_error(const char *function, const char *member, int number, ErrorId fallback);

// Where descriptors are not shared (base/os/file.h): the refusal of what takes or gives one, with what serves instead.
Status no_descriptors(const char *what, const char *instead);

// dlopen and others do not say why they could not open a file: true when this process has no descriptor left.
bool out_of_descriptors() noexcept;

}  // namespace quarry
