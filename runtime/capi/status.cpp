// SPDX-License-Identifier: Apache-2.0
// status.h and the functions of types.h.
#include "base/dtype.h"
#include "runtime/capi/edge.h"

using namespace quarry;
using namespace quarry::capi;

#define QR_TEXT_(x) #x
#define QR_TEXT(x) QR_TEXT_(x)

extern "C" {

uint32_t qr_abi_version(void) { return QR_ABI_MAJOR * 65536u + QR_ABI_MINOR; }

const char *qr_version(void) {
  return QR_TEXT(QR_VERSION_MAJOR) "." QR_TEXT(QR_VERSION_MINOR) "." QR_TEXT(QR_VERSION_PATCH);
}

const char *qr_dtype_name(qr_dtype dtype) { return dtype_name(dtype_from_number(dtype).value_or(DType::Unknown)); }

uint32_t qr_dtype_bits(qr_dtype dtype) { return dtype_bits(dtype_from_number(dtype).value_or(DType::Unknown)); }

const char *qr_code_name(qr_code code) { return code_name(code); }

qr_code qr_status_code(const qr_status *status) { return status ? object(status)->code : QR_OK; }
const char *qr_status_id(const qr_status *status) { return status ? object(status)->id.c_str() : ""; }
const char *qr_status_message(const qr_status *status) { return status ? object(status)->message.c_str() : ""; }
const char *qr_status_hint(const qr_status *status) { return status ? object(status)->hint.c_str() : ""; }
uint64_t qr_status_detail_count(const qr_status *status) { return status ? object(status)->details.size() : 0; }

void qr_status_detail(const qr_status *status, uint64_t index, const char **out_key, const char **out_value) {
  const bool there = index < qr_status_detail_count(status);
  if (out_key) *out_key = there ? object(status)->details[index].key.c_str() : "";
  if (out_value) *out_value = there ? object(status)->details[index].value.c_str() : "";
}

void qr_status_destroy(qr_status *status) { Status::free_payload(object(status)); }

}  // extern "C"
