// SPDX-License-Identifier: Apache-2.0
#pragma once
#ifdef __cplusplus
extern "C"
#endif
    void
    android_set_abort_message(const char *message);
