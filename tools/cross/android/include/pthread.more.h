// SPDX-License-Identifier: Apache-2.0
// At the end of <pthread.h>.
#ifdef __cplusplus
extern "C"
#endif
    pid_t pthread_gettid_np(pthread_t);
