/* SPDX-License-Identifier: Apache-2.0 */
/* growth_host.c, compiled once for each minor. 0: the plugin went the whole way with y = max(x, 0) over 2x4 floats. */
#ifndef QUARRY_TESTS_GROWTH_HOST_H
#define QUARRY_TESTS_GROWTH_HOST_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
int growth_host_ahead(const char *file, const void *qir, uint64_t qir_size);
int growth_host_behind(const char *file, const void *qir, uint64_t qir_size);
#ifdef __cplusplus
}
#endif
#endif
