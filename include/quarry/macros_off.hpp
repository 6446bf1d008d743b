// SPDX-License-Identifier: Apache-2.0
// Before the C++ headers' own text: lays aside macros of other headers that are words of theirs, so that those may be
// included in any order. macros_on.hpp puts them back as they were. For the headers of this folder alone; no guard:
// each of them has the two around it.
//
// Where `Status` is a macro still (Xlib.h), qr::Status goes by the name of qr::CallStatus.
//
// Xlib.h and X.h: Status, Success, None, Bool, True, False. windows.h: min, max, small, near, far, interface, IN, OUT,
// ERROR, OPTIONAL, CONST, DELETE. AssertMacros.h (macOS): check, verify. Qt: signals, slots, emit. Only those that the
// headers use are here: tests/abi/check_headers.py has them all.
#pragma push_macro("Status")
#pragma push_macro("check")
#pragma push_macro("verify")
#pragma push_macro("min")
#pragma push_macro("max")
#undef Status
#undef check
#undef verify
#undef min
#undef max
