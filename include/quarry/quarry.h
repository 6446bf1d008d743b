/* SPDX-License-Identifier: Apache-2.0 */
/* Quarry: an embeddable neural-network inference runtime. This is the umbrella header.
 *
 *   qr_runtime *runtime;  qr_model *model;  qr_session *session;
 *   qr_status *status = qr_runtime_create(NULL, &runtime);
 *   if (!status) status = qr_model_open(runtime, &(qr_model_source)QR_MODEL_AT("model.qrm"), NULL, NULL, &model);
 *   if (!status) status = qr_session_create(model, NULL, NULL, &session);
 *   if (!status) status = qr_session_run(session, NULL, inputs, 1, outputs, 1);
 *   if (status) fprintf(stderr, "%s: %s\n", qr_status_id(status), qr_status_message(status));
 *
 * Objects: qr_runtime (runtime.h) -> qr_model (model.h) -> qr_session (session.h) -> qr_state (state.h), qr_adapter
 * (adapter.h); beside them qr_options, qr_memory, qr_signal, qr_profile. A child holds its parent: destroy in any
 * order. Conventions (ownership words, thread tags, how structs grow) are in types.h; what is promised between versions
 * in COMPATIBILITY.md. bindings/c has whole programs.
 */
#ifndef QUARRY_QUARRY_H
#define QUARRY_QUARRY_H

#include <quarry/types.h>
#include <quarry/status.h>
#include <quarry/runtime.h>
#include <quarry/options.h>
#include <quarry/signal.h>
#include <quarry/target.h>
#include <quarry/profile.h>
#include <quarry/call.h>
#include <quarry/tensor.h>
#include <quarry/model.h>
#include <quarry/memory.h>
#include <quarry/session.h>
#include <quarry/state.h>
#include <quarry/adapter.h>

#endif
