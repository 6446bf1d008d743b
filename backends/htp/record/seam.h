/* SPDX-License-Identifier: Apache-2.0 */
/* The seam between the htp backend and libquarry-replay, which records its calls: internal to a release. */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version is in the name of the function that the backend looks for. */
#define QUARRY_RECORD_BEGIN "quarry_record_begin"

struct quarry_record_wish {
  const char *file;
  uint32_t keeps_weights;
  const void *provider; /* qnn::Provider, which the library gave */
  const char *build;    /* its build id */
  const char *quarry;   /* our version */
  /* Where it cannot be begun. */
  char *why;
  uint64_t why_size;
  char *hint;
  uint64_t hint_size;
  int32_t *code; /* qr_code */
};

/* The functions that record, a qnn::Api; NULL: not begun. */
typedef const void *(*quarry_record_begin_fn)(const struct quarry_record_wish *wish);

#ifdef __cplusplus
}
#endif
