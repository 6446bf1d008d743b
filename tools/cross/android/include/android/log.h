// SPDX-License-Identifier: Apache-2.0
#pragma once
enum { ANDROID_LOG_VERBOSE = 2, ANDROID_LOG_DEBUG, ANDROID_LOG_INFO, ANDROID_LOG_WARN, ANDROID_LOG_ERROR };
#ifdef __cplusplus
extern "C"
#endif
    int
    __android_log_write(int priority, const char *tag, const char *text);
