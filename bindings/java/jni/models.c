/* SPDX-License-Identifier: Apache-2.0 */
/* Runtimes, options, signals, models. */
#include "support.h"

/* ---- objects ---------------------------------------------------------------------------------- */

NATIVE(jbyteArray, version)(JNIEnv *env, jclass of) {
  (void)of;
  return word_of(env, qr_version());
}
NATIVE(jint, abiVersion)(JNIEnv *env, jclass of) {
  (void)env, (void)of;
  return (jint)qr_abi_version();
}

NATIVE(void, destroy)(JNIEnv *env, jclass of, jint kind, jlong handle) {
  void *const object = (void *)(intptr_t)handle;
  (void)env, (void)of;
  switch (kind) {
    case 0: qr_runtime_destroy(object); break;
    case 1: qr_model_destroy(object); break;
    case 2: qr_session_destroy(object); break;
    case 3: qr_signal_destroy(object); break;
    case 5: qr_state_destroy(object); break;
    case 6: qr_adapter_destroy(object); break;
    case 10: qr_memory_destroy(object); break;
    default: qr_options_destroy(object); break;
  }
}

/* A runtime that is gone may log still, for what was made from it: the sink lives as long as the program. */
NATIVE(jlong, runtimeCreate)
(JNIEnv *env, jclass of, jbyteArray backend_path, jbyteArray prepare_path, jboolean only_given, jobject sink,
 jint level) {
  text folders, file;
  qr_runtime *made = NULL;
  (void)of;
  if (!take(env, backend_path, &folders)) return 0;
  if (take(env, prepare_path, &file)) {
    qr_log_sink log = QR_LOG_SINK_INIT;
    qr_runtime_options options = QR_RUNTIME_OPTIONS_INIT;
    options.backend_path = folders.view, options.prepare_path = file.view;
    if (only_given) options.flags = QR_RUNTIME_ONLY_GIVEN_PATHS;
    if (sink) {
      log.level = level, log.write = write_log;
      log.self = (*env)->NewGlobalRef(env, sink);
      options.log = &log;
    }
    throws(env, qr_runtime_create(&options, &made));
    release(env, &file);
  }
  release(env, &folders);
  return (jlong)(intptr_t)made;
}

NATIVE(jobjectArray, backends)(JNIEnv *env, jclass of, jlong handle) {
  qr_runtime *const runtime = (qr_runtime *)(intptr_t)handle;
  uint64_t count = 0;
  (void)of;
  if (throws(env, qr_runtime_scan(runtime, &count))) return NULL;
  jobjectArray list = (*env)->NewObjectArray(env, (jsize)count, g_object, NULL);
  for (uint64_t i = 0; list && i < count; ++i) {
    qr_backend_info info = QR_BACKEND_INFO_INIT;
    if (throws(env, qr_runtime_backend(runtime, i, &info))) return NULL;
    const qr_string texts[5] = {info.id, info.path, info.version, info.verdict, info.hint};
    const jlong numbers[1] = {info.usable};
    jobjectArray row = row_of(env, 5, texts, 1, numbers, 1);
    jobjectArray devices = (*env)->NewObjectArray(env, (jsize)info.device_count, g_object, NULL);
    for (uint64_t d = 0; row && devices && d < info.device_count; ++d) {
      qr_device_info device = QR_DEVICE_INFO_INIT;
      if (throws(env, qr_runtime_device(runtime, i, d, &device))) return NULL;
      const qr_string of_device[3] = {device.name, device.target, device.why_not};
      const jlong facts[2] = {device.usable, (jlong)device.memory_bytes};
      jobjectArray entry = row_of(env, 3, of_device, 2, facts, 0);
      (*env)->SetObjectArrayElement(env, devices, (jsize)d, entry);
      (*env)->DeleteLocalRef(env, entry);
    }
    if (!row || !devices) return NULL;
    (*env)->SetObjectArrayElement(env, row, 6, devices);
    (*env)->SetObjectArrayElement(env, list, (jsize)i, row);
    (*env)->DeleteLocalRef(env, devices);
    (*env)->DeleteLocalRef(env, row);
  }
  return list;
}

NATIVE(jlong, optionsCreate)(JNIEnv *env, jclass of, jlong runtime, jobjectArray pairs) {
  qr_options *made = NULL;
  (void)of;
  if (throws(env, qr_options_create((qr_runtime *)(intptr_t)runtime, &made))) return 0;
  int bad = 0;
  for (jsize i = 0; !bad && i + 1 < (*env)->GetArrayLength(env, pairs); i += 2) {
    text key, value;
    jbyteArray first = (*env)->GetObjectArrayElement(env, pairs, i),
               second = (*env)->GetObjectArrayElement(env, pairs, i + 1);
    bad = !take(env, first, &key);
    if (!bad) {
      bad = !take(env, second, &value);
      if (!bad) {
        bad = throws(env, qr_options_set(made, key.view, value.view));
        release(env, &value);
      }
      release(env, &key);
    }
    (*env)->DeleteLocalRef(env, first);
    (*env)->DeleteLocalRef(env, second);
  }
  if (!bad) return (jlong)(intptr_t)made;
  qr_options_destroy(made);
  return 0;
}

NATIVE(jlong, signalCreate)(JNIEnv *env, jclass of, jlong runtime) {
  qr_signal *made = NULL;
  (void)of;
  throws(env, qr_signal_create((qr_runtime *)(intptr_t)runtime, &made));
  return (jlong)(intptr_t)made;
}
NATIVE(void, signalTell)(JNIEnv *env, jclass of, jlong handle, jint what, jlong value) {
  qr_signal *const signal = (qr_signal *)(intptr_t)handle;
  (void)env, (void)of;
  if (what == 0) qr_signal_abort(signal);
  else if (what == 1) qr_signal_reset(signal);
  else qr_signal_set_timeout(signal, value < 0 ? QR_NO_TIMEOUT : (uint64_t)value);
}

/* ---- models ----------------------------------------------------------------------------------- */

NATIVE(jlong, modelOpen)
(JNIEnv *env, jclass of, jlong runtime, jbyteArray path, jobject data, jint descriptor, jlong offset, jlong size,
 jlong options, jlong signal, jobject progress) {
  qr_model_source source = QR_MODEL_SOURCE_INIT;
  qr_model *made = NULL;
  text name = {NULL, NULL, {NULL, 0}};
  watch calls;
  (void)of;
  if (path) {
    if (!take(env, path, &name)) return 0;
    source.kind = QR_SOURCE_PATH, source.path = name.view;
  } else if (!data) {
    source.kind = QR_SOURCE_DESCRIPTOR, source.fd = descriptor;
    source.offset = (uint64_t)offset, source.size_bytes = (uint64_t)size;
  } else {
    source.kind = QR_SOURCE_MEMORY, source.size_bytes = (uint64_t)size;
    source.data = (*env)->GetDirectBufferAddress(env, data);
  }
  const qr_call_options *const call = watched(env, &calls, signal, progress);
  qr_status *const status =
      qr_model_open((qr_runtime *)(intptr_t)runtime, &source, (qr_options *)(intptr_t)options, call, &made);
  release(env, &name);
  failed(env, &calls, status);
  return (jlong)(intptr_t)made;
}

typedef struct info_of {
  int is_model;
  void *object;
  jboolean outputs;
} info_of;

static uint64_t count_of(const info_of *of) {
  if (of->is_model) return of->outputs ? qr_model_output_count(of->object) : qr_model_input_count(of->object);
  return of->outputs ? qr_session_output_count(of->object) : qr_session_input_count(of->object);
}
static qr_status *info_at(const info_of *of, uint64_t i, qr_tensor_info *out) {
  if (of->is_model) return of->outputs ? qr_model_output(of->object, i, out) : qr_model_input(of->object, i, out);
  return of->outputs ? qr_session_output(of->object, i, out) : qr_session_input(of->object, i, out);
}

static jobjectArray names_of_dims(JNIEnv *env, const info_of *of, uint64_t index, uint32_t rank) {
  jobjectArray names = (*env)->NewObjectArray(env, of->is_model ? (jsize)rank : 0, g_bytes, NULL);
  for (uint32_t d = 0; names && of->is_model && d < rank; ++d) {
    qr_string name = {NULL, 0};
    qr_status *const status = of->outputs ? qr_model_output_dim_name(of->object, index, d, &name)
                                          : qr_model_input_dim_name(of->object, index, d, &name);
    if (throws(env, status) || !put(env, names, (jsize)d, text_of(env, name))) return NULL;
  }
  return names;
}

static jobjectArray tensor_row(JNIEnv *env, const info_of *of, uint64_t index) {
  qr_tensor_info info = QR_TENSOR_INFO_INIT;
  if (throws(env, info_at(of, index, &info))) return NULL;
  jobjectArray row = (*env)->NewObjectArray(env, 8, g_object, NULL);
  jintArray numbers = (*env)->NewIntArray(env, 3);
  jlongArray dims = (*env)->NewLongArray(env, (jsize)info.rank), sizes = (*env)->NewLongArray(env, 3);
  jdoubleArray scale = (*env)->NewDoubleArray(env, 1);
  jfloatArray scales = (*env)->NewFloatArray(env, (jsize)info.scale_count);
  jintArray zeros = (*env)->NewIntArray(env, (jsize)info.scale_count);
  if (!row || !numbers || !dims || !sizes || !scale || !scales || !zeros) return NULL;
  const jint kinds[3] = {info.dtype, (jint)info.quantized_axis, (jint)info.is_quantized > 1};
  const jlong of_sizes[3] = {(jlong)info.size_bytes, info.zero_point, info.block_size};
  (*env)->SetIntArrayRegion(env, numbers, 0, 3, kinds);
  (*env)->SetLongArrayRegion(env, dims, 0, (jsize)info.rank, (const jlong *)info.dims);
  (*env)->SetLongArrayRegion(env, sizes, 0, 3, of_sizes);
  (*env)->SetDoubleArrayRegion(env, scale, 0, 1, &info.scale);
  if (info.scales) (*env)->SetFloatArrayRegion(env, scales, 0, (jsize)info.scale_count, info.scales);
  if (info.zero_points)
    (*env)->SetIntArrayRegion(env, zeros, 0, (jsize)info.scale_count, (const jint *)info.zero_points);
  if (!put(env, row, 0, text_of(env, info.name)) || !put(env, row, 1, numbers) || !put(env, row, 2, dims) ||
      !put(env, row, 3, names_of_dims(env, of, index, info.rank)) || !put(env, row, 4, sizes) ||
      !put(env, row, 5, scale) || !put(env, row, 6, scales) || !put(env, row, 7, zeros))
    return NULL;
  return row;
}

NATIVE(jobjectArray, tensors)(JNIEnv *env, jclass of, jint kind, jlong handle, jboolean outputs) {
  const info_of source = {kind == 1, (void *)(intptr_t)handle, outputs};
  const uint64_t count = count_of(&source);
  jobjectArray list = (*env)->NewObjectArray(env, (jsize)count, g_object, NULL);
  (void)of;
  for (uint64_t i = 0; list && i < count; ++i)
    if (!put(env, list, (jsize)i, tensor_row(env, &source, i))) return NULL;
  return list;
}

NATIVE(jobjectArray, properties)(JNIEnv *env, jclass of, jlong handle) {
  const qr_model *const model = (const qr_model *)(intptr_t)handle;
  const uint64_t count = qr_model_property_count(model);
  jobjectArray list = (*env)->NewObjectArray(env, (jsize)(2 * count), g_bytes, NULL);
  (void)of;
  for (uint64_t i = 0; list && i < count; ++i) {
    qr_string key, value;
    if (throws(env, qr_model_property(model, i, &key, &value)) || !put(env, list, (jsize)(2 * i), text_of(env, key)) ||
        !put(env, list, (jsize)(2 * i + 1), text_of(env, value)))
      return NULL;
  }
  return list;
}

NATIVE(jbyteArray, modelText)
(JNIEnv *env, jclass of, jint what, jlong handle, jlong options, jlong signal, jobject progress) {
  const qr_model *const model = (const qr_model *)(intptr_t)handle;
  char *json = NULL;
  watch calls;
  (void)of;
  const qr_call_options *const call = watched(env, &calls, signal, progress);
  qr_status *const status = what == 0   ? qr_model_inspect(model, call, &json)
                            : what == 1 ? qr_model_check(model, (qr_options *)(intptr_t)options, call, &json)
                                        : qr_model_verify(model, call);
  if (failed(env, &calls, status)) return NULL;
  jbyteArray made = word_of(env, json ? json : "");
  qr_string_destroy(json);
  return made;
}

NATIVE(void, modelCompile)
(JNIEnv *env, jclass of, jlong model, jlong options, jbyteArray path, jlong signal, jobject progress) {
  text name;
  watch calls;
  (void)of;
  if (!take(env, path, &name)) return;
  qr_target target = QR_TARGET_INIT;
  target.kind = QR_TARGET_PATH, target.path = name.view;
  const qr_call_options *const call = watched(env, &calls, signal, progress);
  qr_status *const status =
      qr_model_compile((const qr_model *)(intptr_t)model, (qr_options *)(intptr_t)options, &target, call);
  release(env, &name);
  failed(env, &calls, status);
}

NATIVE(jobjectArray, compatibility)(JNIEnv *env, jclass of, jlong model, jlong options, jlong signal) {
  qr_compatibility grade = 0;
  char *reason = NULL;
  watch calls;
  (void)of;
  const qr_call_options *const call = watched(env, &calls, signal, NULL);
  if (failed(env, &calls,
             qr_model_compatibility((const qr_model *)(intptr_t)model, (qr_options *)(intptr_t)options, call, &grade,
                                    &reason)))
    return NULL;
  jobjectArray row = (*env)->NewObjectArray(env, 2, g_object, NULL);
  jintArray number = (*env)->NewIntArray(env, 1);
  const jint value = grade;
  if (row && number) {
    (*env)->SetIntArrayRegion(env, number, 0, 1, &value);
    if (!put(env, row, 0, number) || !put(env, row, 1, word_of(env, reason ? reason : ""))) row = NULL;
  }
  qr_string_destroy(reason);
  return row;
}
