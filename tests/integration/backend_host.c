/* SPDX-License-Identifier: Apache-2.0 */
/* What a machine without the `quarry` program says of a backend: backend_host BACKEND [MODEL.qrm]. Prints the backend's
 * devices, and what becomes of a session. Exit status 0 whatever that is. */
#include <stdio.h>
#include <string.h>

#include <quarry/quarry.h>

#include "../support/open_model.h"

static int failed(const char *what, qr_status *status) {
  printf("%s: %s %s; %s\n", what, qr_status_id(status), qr_status_message(status), qr_status_hint(status));
  qr_status_destroy(status);
  return 1;
}

int main(int argc, char **argv) {
  qr_runtime *runtime = NULL;
  qr_options *options = NULL;
  qr_model *model = NULL;
  qr_session *session = NULL;
  uint64_t count = 0;
  qr_status *status = argc > 1 ? qr_runtime_create(NULL, &runtime) : NULL;
  if (argc < 2) return fputs("usage: backend_host BACKEND [MODEL.qrm]\n", stderr), 2;
  if (!status) status = qr_runtime_scan(runtime, &count);
  if (status) return failed("runtime", status);
  for (uint64_t i = 0; i < count; ++i) {
    qr_backend_info info = QR_BACKEND_INFO_INIT;
    qr_device_info device = QR_DEVICE_INFO_INIT;
    if ((status = qr_runtime_backend(runtime, i, &info))) return failed("backend", status);
    if (info.id.size != strlen(argv[1]) || memcmp(info.id.data, argv[1], info.id.size)) continue;
    if (!info.device_count) continue; /* shadowed by the first */
    printf("%s: usable %d, %u devices\n", argv[1], (int)info.usable, (unsigned)info.device_count);
    if ((status = qr_runtime_device(runtime, i, 0, &device))) return failed("device", status);
    printf("device: %.*s, usable %d %.*s\n", (int)device.name.size, device.name.data, (int)device.usable,
           (int)device.why_not.size, device.why_not.data);
  }
  if (argc > 2) {
    const qr_string key = {"backend", QR_NUL_TERMINATED}, value = {argv[1], QR_NUL_TERMINATED};
    const qr_string path = {argv[2], QR_NUL_TERMINATED};
    status = qr_options_create(runtime, &options);
    if (!status) status = qr_options_set(options, key, value);
    if (!status) status = model_at_path(runtime, path, NULL, &model);
    if (!status) status = qr_session_create(model, options, NULL, &session);
    if (status) failed("session", status);
    else puts("session: created");
  }
  qr_session_destroy(session);
  qr_model_destroy(model);
  qr_options_destroy(options);
  qr_runtime_destroy(runtime);
  return 0;
}
