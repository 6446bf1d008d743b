// SPDX-License-Identifier: Apache-2.0
#pragma once
#define __NEED_locale_t
#include <bits/alltypes.h>
#ifdef __cplusplus
extern "C" {
#endif
long long strtoll_l(const char *, char **, int, locale_t);
unsigned long long strtoull_l(const char *, char **, int, locale_t);
#ifdef __cplusplus
}
#endif
