/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions and their runs. */
#include <stdlib.h>

#include "support.h"

/* ---- sessions --------------------------------------------------------------------------------- */

NATIVE(jlong, sessionCreate)(JNIEnv *env, jclass of, jlong model, jlong options, jlong signal, jobject progress) {
  qr_session *made = NULL;
  watch calls;
  (void)of;
  const qr_call_options *const call = watched(env, &calls, signal, progress);
  failed(env, &calls,
         qr_session_create((const qr_model *)(intptr_t)model, (qr_options *)(intptr_t)options, call, &made));
  return (jlong)(intptr_t)made;
}

NATIVE(jlong, sessionClone)(JNIEnv *env, jclass of, jlong session, jlong signal, jobject progress) {
  qr_session *made = NULL;
  watch calls;
  (void)of;
  const qr_call_options *const call = watched(env, &calls, signal, progress);
  failed(env, &calls, qr_session_clone((qr_session *)(intptr_t)session, call, &made));
  return (jlong)(intptr_t)made;
}

NATIVE(jlongArray, sessionPlan)(JNIEnv *env, jclass of, jlong model, jlong options, jlong signal, jobject progress) {
  qr_memory_plan plan = QR_MEMORY_PLAN_INIT;
  watch calls;
  (void)of;
  const qr_call_options *const call = watched(env, &calls, signal, progress);
  if (failed(env, &calls,
             qr_session_plan((const qr_model *)(intptr_t)model, (qr_options *)(intptr_t)options, call, &plan)))
    return NULL;
  const jlong numbers[6] = {(jlong)plan.weights_bytes, (jlong)plan.arena_bytes,      (jlong)plan.io_bytes,
                            (jlong)plan.device_bytes,  (jlong)plan.scratchpad_bytes, (jlong)plan.spill_fill_bytes};
  return longs_of(env, numbers, 6);
}

/* Tensors of a run, and of a submitted one what keeps their memory. */
typedef struct run {
  uint64_t inputs, outputs, ticket;
  qr_session *session;
  qr_tensor *tensors;         /* inputs, then outputs */
  const qr_tensor **pointers; /* to them; NULL: an output that is not wanted */
  jobjectArray data, room;    /* global references */
} run;

static void free_run(JNIEnv *env, run *of) {
  if (!of) return;
  if (of->data) (*env)->DeleteGlobalRef(env, of->data);
  if (of->room) (*env)->DeleteGlobalRef(env, of->room);
  free(of->tensors);
  free(of->pointers);
  free(of);
}

static run *make_run(JNIEnv *env, jobjectArray data, jintArray types, jobjectArray shapes, jobjectArray room,
                     jbooleanArray wanted) {
  run *const made = calloc(1, sizeof *made);
  if (made) {
    made->inputs = (uint64_t)(*env)->GetArrayLength(env, data),
    made->outputs = (uint64_t)(*env)->GetArrayLength(env, room);
    made->tensors = calloc(made->inputs + made->outputs + 1, sizeof *made->tensors);
    made->pointers = calloc(made->inputs + made->outputs + 1, sizeof *made->pointers);
  }
  if (!made || !made->tensors || !made->pointers) {
    free_run(env, made);
    throw_no_memory(env);
    return NULL;
  }
  for (uint64_t i = 0; i < made->inputs; ++i) {
    qr_tensor *const tensor = &made->tensors[i];
    *tensor = (qr_tensor)QR_TENSOR_INIT;
    made->pointers[i] = tensor;
    jint type;
    (*env)->GetIntArrayRegion(env, types, (jsize)i, 1, &type);
    tensor->dtype = type;
    jlongArray dims = (*env)->GetObjectArrayElement(env, shapes, (jsize)i);
    tensor->rank = (uint32_t)(*env)->GetArrayLength(env, dims);
    if (tensor->rank <= QR_MAX_RANK)
      (*env)->GetLongArrayRegion(env, dims, 0, (jsize)tensor->rank, (jlong *)tensor->dims);
    (*env)->DeleteLocalRef(env, dims);
    fill_memory(env, (*env)->GetObjectArrayElement(env, data, (jsize)i), tensor);
  }
  for (uint64_t i = 0; i < made->outputs; ++i) {
    qr_tensor *const tensor = &made->tensors[made->inputs + i];
    *tensor = (qr_tensor)QR_TENSOR_INIT;
    jboolean is_wanted;
    (*env)->GetBooleanArrayRegion(env, wanted, (jsize)i, 1, &is_wanted);
    made->pointers[made->inputs + i] = is_wanted ? tensor : NULL;
    jobject buffer = (*env)->GetObjectArrayElement(env, room, (jsize)i);
    if (buffer) fill_memory(env, buffer, tensor);
  }
  return made;
}

/* Per output: dtype, bytes, whether it is in memory of the session's, shape. Such memory is put into `room`. */
static jobjectArray rows_of(JNIEnv *env, const run *of, jobjectArray room) {
  jobjectArray rows = (*env)->NewObjectArray(env, (jsize)of->outputs, g_longs, NULL);
  for (uint64_t i = 0; rows && i < of->outputs; ++i) {
    const qr_tensor *const tensor = &of->tensors[of->inputs + i];
    jlong numbers[3 + QR_MAX_RANK] = {tensor->dtype, (jlong)tensor->size_bytes,
                                      (tensor->flags & QR_TENSOR_OF_SESSION) != 0};
    for (uint32_t d = 0; d < tensor->rank; ++d) numbers[3 + d] = tensor->dims[d];
    if (!put(env, rows, (jsize)i, longs_of(env, numbers, 3 + tensor->rank))) return NULL;
    if (numbers[2] && tensor->size_bytes > 0) {
      jobject view = (*env)->NewDirectByteBuffer(env, tensor->data, (jlong)tensor->size_bytes);
      if (!put(env, room, (jsize)i, view)) return NULL;
    }
  }
  return rows;
}

NATIVE(jobjectArray, run)
(JNIEnv *env, jclass of, jlong session, jlong signal, jobjectArray data, jintArray types, jobjectArray shapes,
 jobjectArray room, jbooleanArray wanted) {
  run *const made = make_run(env, data, types, shapes, room, wanted);
  jobjectArray rows = NULL;
  (void)of;
  if (!made) return NULL;
  qr_run_options options = QR_RUN_OPTIONS_INIT;
  options.signal = (qr_signal *)(intptr_t)signal;
  if (!throws(env, qr_session_run((qr_session *)(intptr_t)session, &options, made->pointers, made->inputs,
                                  (qr_tensor *const *)(void *)(made->pointers + made->inputs), made->outputs)))
    rows = rows_of(env, made, room);
  free_run(env, made);
  return rows;
}

NATIVE(jlong, submit)
(JNIEnv *env, jclass of, jlong session, jlong signal, jobjectArray data, jintArray types, jobjectArray shapes,
 jobjectArray room, jbooleanArray wanted) {
  run *const made = make_run(env, data, types, shapes, room, wanted);
  (void)of;
  if (!made) return 0;
  made->session = (qr_session *)(intptr_t)session;
  made->data = (*env)->NewGlobalRef(env, data), made->room = (*env)->NewGlobalRef(env, room);
  qr_submit_options options = QR_SUBMIT_OPTIONS_INIT;
  options.signal = (qr_signal *)(intptr_t)signal;
  if (!throws(env, qr_session_submit(made->session, &options, made->pointers, made->inputs,
                                     (qr_tensor *const *)(void *)(made->pointers + made->inputs), made->outputs,
                                     &made->ticket)))
    return (jlong)(intptr_t)made;
  free_run(env, made);
  return 0;
}

NATIVE(jobjectArray, await)(JNIEnv *env, jclass of, jlong handle) {
  run *const waited = (run *)(intptr_t)handle;
  jobjectArray rows = NULL;
  (void)of;
  if (!throws(env, qr_session_wait(waited->session, waited->ticket, NULL, NULL)))
    rows = rows_of(env, waited, waited->room);
  return rows;
}

NATIVE(void, release)(JNIEnv *env, jclass of, jlong handle) {
  (void)of;
  free_run(env, (run *)(intptr_t)handle);
}

NATIVE(void, abort)(JNIEnv *env, jclass of, jlong handle) {
  const run *const waited = (const run *)(intptr_t)handle;
  (void)env, (void)of;
  qr_session_abort(waited->session, waited->ticket);
}

NATIVE(void, warmUp)(JNIEnv *env, jclass of, jlong session, jlong signal) {
  qr_run_options options = QR_RUN_OPTIONS_INIT;
  (void)of;
  options.signal = (qr_signal *)(intptr_t)signal;
  throws(env, qr_session_warm_up((qr_session *)(intptr_t)session, &options));
}

NATIVE(void, setOption)(JNIEnv *env, jclass of, jlong session, jbyteArray key, jbyteArray value) {
  text name, given;
  (void)of;
  if (!take(env, key, &name)) return;
  if (take(env, value, &given)) {
    throws(env, qr_session_set_option((qr_session *)(intptr_t)session, name.view, given.view));
    release(env, &given);
  }
  release(env, &name);
}

NATIVE(void, recover)(JNIEnv *env, jclass of, jlong session, jlong signal, jobject progress) {
  watch calls;
  (void)of;
  const qr_call_options *const call = watched(env, &calls, signal, progress);
  failed(env, &calls, qr_session_recover((qr_session *)(intptr_t)session, call));
}

NATIVE(jbyteArray, report)(JNIEnv *env, jclass of, jlong session) {
  char *json = NULL;
  (void)of;
  if (throws(env, qr_session_report((const qr_session *)(intptr_t)session, &json))) return NULL;
  jbyteArray made = word_of(env, json);
  qr_string_destroy(json);
  return made;
}
