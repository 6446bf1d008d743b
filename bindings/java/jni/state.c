/* SPDX-License-Identifier: Apache-2.0 */
/* What sessions keep from run to run, and the adapters that they run with. */
#include "support.h"

/* ---- state ------------------------------------------------------------------------------------ */

NATIVE(jlong, sessionState)(JNIEnv *env, jclass of, jlong session) {
  qr_state *made = NULL;
  (void)of;
  throws(env, qr_session_state((qr_session *)(intptr_t)session, &made));
  return (jlong)(intptr_t)made;
}
NATIVE(void, sessionSetState)(JNIEnv *env, jclass of, jlong session, jlong state) {
  (void)of;
  throws(env, qr_session_set_state((qr_session *)(intptr_t)session, (qr_state *)(intptr_t)state));
}

NATIVE(jlong, openAdapter)
(JNIEnv *env, jclass of, jlong session, jbyteArray path, jfloat alpha, jfloat strength) {
  qr_model_source source = QR_MODEL_SOURCE_INIT;
  qr_adapter_options how = QR_ADAPTER_OPTIONS_INIT;
  qr_adapter *made = NULL;
  text name = {NULL, NULL, {NULL, 0}};
  (void)of;
  if (!take(env, path, &name)) return 0;
  source.kind = QR_SOURCE_PATH, source.path = name.view;
  how.alpha = alpha, how.strength = strength;
  qr_status *const status = qr_adapter_open((const qr_session *)(intptr_t)session, &source, &how, NULL, &made);
  release(env, &name);
  throws(env, status);
  return (jlong)(intptr_t)made;
}
NATIVE(void, setAdapter)(JNIEnv *env, jclass of, jlong session, jlong adapter) {
  (void)of;
  throws(env, qr_session_set_adapter((qr_session *)(intptr_t)session, (qr_adapter *)(intptr_t)adapter));
}

NATIVE(jobjectArray, statePairs)(JNIEnv *env, jclass of, jlong handle) {
  const qr_state *const state = (const qr_state *)(intptr_t)handle;
  const uint64_t count = qr_state_count(state);
  jobjectArray list = (*env)->NewObjectArray(env, (jsize)count, g_object, NULL);
  (void)of;
  for (uint64_t i = 0; list && i < count; ++i) {
    qr_state_info info = QR_STATE_INFO_INIT;
    if (throws(env, qr_state_tensor(state, i, &info))) return NULL;
    const qr_string names[2] = {info.input, info.output};
    jlong numbers[4 + QR_MAX_RANK] = {info.axis, info.dtype, (jlong)info.capacity, (jlong)info.bytes};
    for (uint32_t d = 0; d < info.rank; ++d) numbers[4 + d] = info.dims[d];
    if (!put(env, list, (jsize)i, row_of(env, 2, names, (jsize)(4 + info.rank), numbers, 0))) return NULL;
  }
  return list;
}

NATIVE(jlong, stateLength)(JNIEnv *env, jclass of, jlong state) {
  uint64_t length = 0;
  (void)of;
  throws(env, qr_state_length((const qr_state *)(intptr_t)state, &length));
  return (jlong)length;
}
NATIVE(jlong, stateDropped)(JNIEnv *env, jclass of, jlong state) {
  uint64_t dropped = 0;
  (void)of;
  throws(env, qr_state_dropped((const qr_state *)(intptr_t)state, &dropped));
  return (jlong)dropped;
}
NATIVE(void, stateReset)(JNIEnv *env, jclass of, jlong state) {
  (void)of;
  throws(env, qr_state_reset((qr_state *)(intptr_t)state));
}
NATIVE(void, stateRewind)(JNIEnv *env, jclass of, jlong state, jlong length) {
  (void)of;
  throws(env, qr_state_rewind((qr_state *)(intptr_t)state, (uint64_t)length));
}
NATIVE(jlong, stateFork)(JNIEnv *env, jclass of, jlong state) {
  qr_state *made = NULL;
  (void)of;
  throws(env, qr_state_fork((const qr_state *)(intptr_t)state, &made));
  return (jlong)(intptr_t)made;
}

NATIVE(jbyteArray, stateSave)(JNIEnv *env, jclass of, jlong state, jbyteArray path) {
  qr_target target = QR_TARGET_INIT;
  void *data = NULL;
  uint64_t size = 0;
  text name;
  jbyteArray made = NULL;
  (void)of;
  if (!take(env, path, &name)) return NULL;
  if (path) target.kind = QR_TARGET_PATH, target.path = name.view;
  else target.kind = QR_TARGET_MEMORY, target.out_data = &data, target.out_size_bytes = &size;
  if (!throws(env, qr_state_save((const qr_state *)(intptr_t)state, &target, NULL)) && !path) {
    made = size <= INT32_MAX ? bytes_of(env, data, size) : NULL;
    if (!made && !(*env)->ExceptionCheck(env)) throw_no_memory(env);
    qr_string_destroy(data);
  }
  release(env, &name);
  return made;
}
NATIVE(void, stateLoad)(JNIEnv *env, jclass of, jlong state, jbyteArray saved) {
  text bytes;
  (void)of;
  if (!take(env, saved, &bytes)) return;
  throws(env, qr_state_load((qr_state *)(intptr_t)state, bytes.data, bytes.view.size));
  release(env, &bytes);
}

NATIVE(jlongArray, stateRead)(JNIEnv *env, jclass of, jlong state, jint index, jobject room) {
  qr_tensor tensor = QR_TENSOR_INIT;
  (void)of;
  if (room) fill_memory(env, room, &tensor);
  if (throws(env, qr_state_read((const qr_state *)(intptr_t)state, (uint64_t)index, &tensor))) return NULL;
  jlong numbers[2 + QR_MAX_RANK] = {tensor.dtype, (jlong)tensor.size_bytes};
  for (uint32_t d = 0; d < tensor.rank; ++d) numbers[2 + d] = tensor.dims[d];
  return longs_of(env, numbers, 2 + tensor.rank);
}
NATIVE(void, stateWrite)
(JNIEnv *env, jclass of, jlong state, jint index, jobject data, jint type, jlongArray shape) {
  qr_tensor tensor = QR_TENSOR_INIT;
  (void)of;
  tensor.dtype = type;
  tensor.rank = (uint32_t)(*env)->GetArrayLength(env, shape);
  if (tensor.rank <= QR_MAX_RANK) (*env)->GetLongArrayRegion(env, shape, 0, (jsize)tensor.rank, (jlong *)tensor.dims);
  fill_memory(env, data, &tensor);
  throws(env, qr_state_write((qr_state *)(intptr_t)state, (uint64_t)index, &tensor));
}
