// SPDX-License-Identifier: Apache-2.0
// After the C++ headers' own text: puts back what macros_off.hpp laid aside.
#pragma pop_macro("Status")
#pragma pop_macro("check")
#pragma pop_macro("verify")
#pragma pop_macro("min")
#pragma pop_macro("max")
