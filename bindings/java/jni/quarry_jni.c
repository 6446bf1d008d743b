/* SPDX-License-Identifier: Apache-2.0 */
/* The native part of the Java package: each function is a native method of quarry.Native. A failure becomes an
 * exception, and the value returned is of no meaning. Texts go as UTF-8 in byte arrays: JNI's own strings are a UTF-8
 * of their own. */
#include <jni.h>
#include <quarry/quarry.h>
#include <stdlib.h>
#include <string.h>

#define NATIVE(type, name) JNIEXPORT type JNICALL Java_quarry_Native_##name

static JavaVM *g_vm;
static jclass g_native, g_exception, g_bytes, g_longs, g_object;
static jmethodID g_make, g_progress, g_log;

static jclass global_class(JNIEnv *env, const char *name) {
  jclass local = (*env)->FindClass(env, name);
  return local ? (*env)->NewGlobalRef(env, local) : NULL;
}

JNIEXPORT jint JNICALL JNI_OnLoad(JavaVM *vm, void *reserved) {
  JNIEnv *env;
  (void)reserved;
  g_vm = vm;
  if ((*vm)->GetEnv(vm, (void **)&env, JNI_VERSION_1_6) != JNI_OK) return JNI_ERR;
  g_native = global_class(env, "quarry/Native"), g_exception = global_class(env, "quarry/QuarryException");
  g_bytes = global_class(env, "[B"), g_longs = global_class(env, "[J"),
  g_object = global_class(env, "java/lang/Object");
  if (!g_native || !g_exception || !g_bytes || !g_longs || !g_object) return JNI_ERR;
  g_make = (*env)->GetStaticMethodID(env, g_exception, "make", "(I[B[B[B[[B)Lquarry/QuarryException;");
  g_progress = (*env)->GetStaticMethodID(env, g_native, "report", "(Lquarry/Progress;JJ[B)Z");
  g_log = (*env)->GetStaticMethodID(env, g_native, "log", "(Lquarry/LogSink;I[B[B)V");
  if (!g_make || !g_progress || !g_log) return JNI_ERR;
  return JNI_VERSION_1_6;
}

/* ---- texts and errors ------------------------------------------------------------------------ */

static jbyteArray bytes_of(JNIEnv *env, const char *data, uint64_t size) {
  jbyteArray made = (*env)->NewByteArray(env, (jsize)size);
  if (made && size) (*env)->SetByteArrayRegion(env, made, 0, (jsize)size, (const jbyte *)data);
  return made;
}
static jbyteArray text_of(JNIEnv *env, qr_string text) { return bytes_of(env, text.data, text.size); }
static jbyteArray word_of(JNIEnv *env, const char *text) { return bytes_of(env, text, strlen(text)); }

/* A text of Java's as C has it, until release(). */
typedef struct text {
  jbyteArray array;
  jbyte *data;
  qr_string view;
} text;
static int take(JNIEnv *env, jbyteArray array, text *out) {
  out->array = array;
  out->data = array ? (*env)->GetByteArrayElements(env, array, NULL) : NULL;
  out->view.data = (const char *)out->data;
  out->view.size = array ? (uint64_t)(*env)->GetArrayLength(env, array) : 0;
  return !array || out->data;
}
static void release(JNIEnv *env, text *of) {
  if (of->data) (*env)->ReleaseByteArrayElements(env, of->array, of->data, JNI_ABORT);
}

/* Throws what a status says, and frees it. False: it was none. */
static int throws(JNIEnv *env, qr_status *status) {
  if (!status) return 0;
  if (!(*env)->ExceptionCheck(env)) {
    const uint64_t count = qr_status_detail_count(status);
    jobjectArray details = (*env)->NewObjectArray(env, (jsize)(2 * count), g_bytes, NULL);
    for (uint64_t i = 0; details && i < count; ++i) {
      const char *pair[2];
      qr_status_detail(status, i, &pair[0], &pair[1]);
      for (int k = 0; k < 2; ++k) {
        jbyteArray word = word_of(env, pair[k]);
        (*env)->SetObjectArrayElement(env, details, (jsize)(2 * i) + k, word);
        (*env)->DeleteLocalRef(env, word);
      }
    }
    jbyteArray id = word_of(env, qr_status_id(status)), message = word_of(env, qr_status_message(status)),
               hint = word_of(env, qr_status_hint(status));
    if (details && id && message && hint) {
      jobject made = (*env)->CallStaticObjectMethod(env, g_exception, g_make, (jint)qr_status_code(status), id, message,
                                                    hint, details);
      if (!(*env)->ExceptionCheck(env) && made) (*env)->Throw(env, (jthrowable)made);
    }
  }
  qr_status_destroy(status);
  return 1;
}

static void throw_no_memory(JNIEnv *env) {
  jclass error = (*env)->FindClass(env, "java/lang/OutOfMemoryError");
  if (error) (*env)->ThrowNew(env, error, "quarry: no memory");
}

/* ---- callbacks -------------------------------------------------------------------------------- */

/* The thread's environment; `attached`: it had none, and is to be detached. */
static JNIEnv *environment(int *attached) {
  JNIEnv *env = NULL;
  *attached = 0;
  if ((*g_vm)->GetEnv(g_vm, (void **)&env, JNI_VERSION_1_6) == JNI_OK) return env;
#ifdef __ANDROID__
  if ((*g_vm)->AttachCurrentThreadAsDaemon(g_vm, &env, NULL) != JNI_OK) return NULL;
#else
  if ((*g_vm)->AttachCurrentThreadAsDaemon(g_vm, (void **)&env, NULL) != JNI_OK) return NULL;
#endif
  *attached = 1;
  return env;
}

/* What a call is given beside its arguments. */
typedef struct watch {
  qr_progress progress;
  qr_call_options call;
  jobject report;
  jthrowable thrown; /* by the report */
} watch;

static int32_t report(void *self, uint64_t done, uint64_t total, qr_string what) {
  watch *const of = self;
  int attached;
  JNIEnv *env = environment(&attached);
  if (!env || of->thrown) return QR_STOP;
  int32_t answer = QR_STOP;
  if ((*env)->PushLocalFrame(env, 8) == 0) {
    if ((*env)->CallStaticBooleanMethod(env, g_native, g_progress, of->report, (jlong)done, (jlong)total,
                                        text_of(env, what)))
      answer = QR_GO_ON;
    jthrowable thrown = (*env)->ExceptionOccurred(env);
    if (thrown) {
      (*env)->ExceptionClear(env);
      of->thrown = (*env)->NewGlobalRef(env, thrown);
      answer = QR_STOP;
    }
    (*env)->PopLocalFrame(env, NULL);
  }
  if (attached) (*g_vm)->DetachCurrentThread(g_vm);
  return answer;
}

static const qr_call_options *watched(JNIEnv *env, watch *of, jlong signal, jobject progress) {
  memset(of, 0, sizeof *of);
  of->progress = (qr_progress)QR_PROGRESS_INIT;
  of->call = (qr_call_options)QR_CALL_OPTIONS_INIT;
  of->call.signal = (qr_signal *)(intptr_t)signal;
  if (progress) {
    of->report = (*env)->NewGlobalRef(env, progress);
    of->progress.self = of, of->progress.report = report;
    of->call.progress = &of->progress;
  }
  return &of->call;
}

/* The end of such a call: throws what its report threw, or what the status says. False: it succeeded. */
static int failed(JNIEnv *env, watch *of, qr_status *status) {
  if (of->report) (*env)->DeleteGlobalRef(env, of->report);
  if (!of->thrown) return throws(env, status);
  qr_status_destroy(status);
  (*env)->Throw(env, of->thrown);
  (*env)->DeleteGlobalRef(env, of->thrown);
  return 1;
}

static void write_log(void *self, qr_log_level level, uint32_t flags, qr_string topic, qr_string message) {
  int attached;
  JNIEnv *env = environment(&attached);
  (void)flags;
  if (!env) return;
  jthrowable before = (*env)->ExceptionOccurred(env); /* of the call that logs */
  if (before) (*env)->ExceptionClear(env);
  if ((*env)->PushLocalFrame(env, 8) == 0) {
    (*env)->CallStaticVoidMethod(env, g_native, g_log, (jobject)self, (jint)level, text_of(env, topic),
                                 text_of(env, message));
    (*env)->ExceptionClear(env);
    (*env)->PopLocalFrame(env, NULL);
  }
  if (before) (*env)->Throw(env, before);
  if (attached) (*g_vm)->DetachCurrentThread(g_vm);
}

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

/* A row of texts and numbers. */
static jobjectArray row_of(JNIEnv *env, jsize texts, const qr_string *text, jsize count, const jlong *numbers,
                           jsize more) {
  jobjectArray row = (*env)->NewObjectArray(env, texts + 1 + more, g_object, NULL);
  for (jsize i = 0; row && i < texts; ++i) {
    jbyteArray bytes = text_of(env, text[i]);
    (*env)->SetObjectArrayElement(env, row, i, bytes);
    (*env)->DeleteLocalRef(env, bytes);
  }
  jlongArray longs = (*env)->NewLongArray(env, count);
  if (row && longs) {
    (*env)->SetLongArrayRegion(env, longs, 0, count, numbers);
    (*env)->SetObjectArrayElement(env, row, texts, longs);
    (*env)->DeleteLocalRef(env, longs);
  }
  return row;
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
(JNIEnv *env, jclass of, jlong runtime, jbyteArray path, jobject data, jlong size, jlong options, jlong signal,
 jobject progress) {
  qr_model_source source = QR_MODEL_SOURCE_INIT;
  qr_model *made = NULL;
  text name = {NULL, NULL, {NULL, 0}};
  watch calls;
  (void)of;
  if (path) {
    if (!take(env, path, &name)) return 0;
    source.kind = QR_SOURCE_PATH, source.path = name.view;
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

static int put(JNIEnv *env, jobjectArray row, jsize at, jobject value) {
  if (!value) return 0;
  (*env)->SetObjectArrayElement(env, row, at, value);
  (*env)->DeleteLocalRef(env, value);
  return 1;
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
  jlongArray made = (*env)->NewLongArray(env, 6);
  if (made) (*env)->SetLongArrayRegion(env, made, 0, 6, numbers);
  return made;
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

static int fill_memory(JNIEnv *env, jobject buffer, qr_tensor *to) {
  to->data = (*env)->GetDirectBufferAddress(env, buffer);
  const jlong bytes = (*env)->GetDirectBufferCapacity(env, buffer);
  to->size_bytes = bytes < 0 ? 0 : (uint64_t)bytes;
  (*env)->DeleteLocalRef(env, buffer);
  return bytes >= 0;
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
    jlongArray row = (*env)->NewLongArray(env, (jsize)(3 + tensor->rank));
    if (!row) return NULL;
    (*env)->SetLongArrayRegion(env, row, 0, (jsize)(3 + tensor->rank), numbers);
    put(env, rows, (jsize)i, row);
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
  jlongArray row = (*env)->NewLongArray(env, (jsize)(2 + tensor.rank));
  if (row) (*env)->SetLongArrayRegion(env, row, 0, (jsize)(2 + tensor.rank), numbers);
  return row;
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
