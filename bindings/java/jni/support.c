/* SPDX-License-Identifier: Apache-2.0 */
#include "support.h"

#include <stdlib.h>
#include <string.h>

static JavaVM *g_vm;
jclass g_bytes, g_longs, g_object;
static jclass g_native, g_exception;
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

jbyteArray bytes_of(JNIEnv *env, const char *data, uint64_t size) {
  jbyteArray made = (*env)->NewByteArray(env, (jsize)size);
  if (made && size) (*env)->SetByteArrayRegion(env, made, 0, (jsize)size, (const jbyte *)data);
  return made;
}
jbyteArray text_of(JNIEnv *env, qr_string text) { return bytes_of(env, text.data, text.size); }
jbyteArray word_of(JNIEnv *env, const char *text) { return bytes_of(env, text, strlen(text)); }

int take(JNIEnv *env, jbyteArray array, text *out) {
  out->array = array;
  out->data = array ? (*env)->GetByteArrayElements(env, array, NULL) : NULL;
  out->view.data = (const char *)out->data;
  out->view.size = array ? (uint64_t)(*env)->GetArrayLength(env, array) : 0;
  return !array || out->data;
}
void release(JNIEnv *env, text *of) {
  if (of->data) (*env)->ReleaseByteArrayElements(env, of->array, of->data, JNI_ABORT);
}

void throw_words(JNIEnv *env, qr_code code, const char *id, const char *message, const char *hint,
                 jobjectArray details) {
  jbyteArray words[3] = {word_of(env, id), word_of(env, message), word_of(env, hint)};
  if (!details) details = (*env)->NewObjectArray(env, 0, g_bytes, NULL);
  if (!details || !words[0] || !words[1] || !words[2]) return;
  jobject made =
      (*env)->CallStaticObjectMethod(env, g_exception, g_make, (jint)code, words[0], words[1], words[2], details);
  if (!(*env)->ExceptionCheck(env) && made) (*env)->Throw(env, (jthrowable)made);
}

int throws(JNIEnv *env, qr_status *status) {
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
    if (details)
      throw_words(env, qr_status_code(status), qr_status_id(status), qr_status_message(status), qr_status_hint(status),
                  details);
  }
  qr_status_destroy(status);
  return 1;
}

void throw_no_memory(JNIEnv *env) {
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

const qr_call_options *watched(JNIEnv *env, watch *of, jlong signal, jobject progress) {
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

int failed(JNIEnv *env, watch *of, qr_status *status) {
  if (of->report) (*env)->DeleteGlobalRef(env, of->report);
  if (!of->thrown) return throws(env, status);
  qr_status_destroy(status);
  (*env)->Throw(env, of->thrown);
  (*env)->DeleteGlobalRef(env, of->thrown);
  return 1;
}

void write_log(void *self, qr_log_level level, uint32_t flags, qr_string topic, qr_string message) {
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

/* ---- values ----------------------------------------------------------------------------------- */

jlongArray longs_of(JNIEnv *env, const jlong *numbers, uint64_t count) {
  if (count > INT32_MAX) {
    throw_no_memory(env);
    return NULL;
  }
  jlongArray made = (*env)->NewLongArray(env, (jsize)count);
  if (made && count) (*env)->SetLongArrayRegion(env, made, 0, (jsize)count, numbers);
  return made;
}

int take_longs(JNIEnv *env, jlongArray array, longs *out) {
  out->array = array;
  out->count = (uint64_t)(*env)->GetArrayLength(env, array);
  out->data = (*env)->GetLongArrayElements(env, array, NULL);
  return out->data != NULL;
}
void release_longs(JNIEnv *env, longs *of) {
  if (of->data) (*env)->ReleaseLongArrayElements(env, of->array, of->data, JNI_ABORT);
}

jobjectArray row_of(JNIEnv *env, jsize texts, const qr_string *text, jsize count, const jlong *numbers, jsize more) {
  jobjectArray row = (*env)->NewObjectArray(env, texts + 1 + more, g_object, NULL);
  for (jsize i = 0; row && i < texts; ++i) {
    jbyteArray bytes = text_of(env, text[i]);
    (*env)->SetObjectArrayElement(env, row, i, bytes);
    (*env)->DeleteLocalRef(env, bytes);
  }
  return row && put(env, row, texts, longs_of(env, numbers, (uint64_t)count)) ? row : NULL;
}

int put(JNIEnv *env, jobjectArray row, jsize at, jobject value) {
  if (!value) return 0;
  (*env)->SetObjectArrayElement(env, row, at, value);
  (*env)->DeleteLocalRef(env, value);
  return 1;
}

int fill_memory(JNIEnv *env, jobject buffer, qr_tensor *to) {
  to->data = (*env)->GetDirectBufferAddress(env, buffer);
  const jlong bytes = (*env)->GetDirectBufferCapacity(env, buffer);
  to->size_bytes = bytes < 0 ? 0 : (uint64_t)bytes;
  (*env)->DeleteLocalRef(env, buffer);
  return bytes >= 0;
}
