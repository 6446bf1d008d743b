/* SPDX-License-Identifier: Apache-2.0 */
/* What the native part's files share: texts, errors, what a call is given beside its arguments. Each native method of
 * quarry.Native is a function; a failure becomes an exception, and the value returned is of no meaning. Texts go as
 * UTF-8 in byte arrays: JNI's own strings are a UTF-8 of their own. */
#ifndef QUARRY_JNI_SUPPORT_H
#define QUARRY_JNI_SUPPORT_H

#include <jni.h>
#include <quarry/quarry.h>

#define NATIVE(type, name) JNIEXPORT type JNICALL Java_quarry_Native_##name
/* Of the parts that an app may lack, in libraries of their own with this file in each: quarry.PartNative. */
#define NATIVE_OF(part, type, name) JNIEXPORT type JNICALL Java_quarry_##part##Native_##name

extern jclass g_bytes, g_longs, g_object;

jbyteArray bytes_of(JNIEnv *env, const char *data, uint64_t size);
jbyteArray text_of(JNIEnv *env, qr_string text);
jbyteArray word_of(JNIEnv *env, const char *text);

/* A text of Java's as C has it, until release(). */
typedef struct text {
  jbyteArray array;
  jbyte *data;
  qr_string view;
} text;
int take(JNIEnv *env, jbyteArray array, text *out);
void release(JNIEnv *env, text *of);

/* Throws a QuarryException of these words; details may be NULL: there are none. */
void throw_words(JNIEnv *env, qr_code code, const char *id, const char *message, const char *hint,
                 jobjectArray details);
/* Throws what a status says, and frees it. False: it was none. */
int throws(JNIEnv *env, qr_status *status);
void throw_no_memory(JNIEnv *env);

/* What a call is given beside its arguments. */
typedef struct watch {
  qr_progress progress;
  qr_call_options call;
  jobject report;
  jthrowable thrown; /* by the report */
} watch;
const qr_call_options *watched(JNIEnv *env, watch *of, jlong signal, jobject progress);
/* The end of such a call: throws what its report threw, or what the status says. False: it succeeded. */
int failed(JNIEnv *env, watch *of, qr_status *status);
/* Of a qr_log_sink: `self` is a LogSink. */
void write_log(void *self, qr_log_level level, uint32_t flags, qr_string topic, qr_string message);

/* Numbers as an array of Java's. */
jlongArray longs_of(JNIEnv *env, const jlong *numbers, uint64_t count);
/* Whole numbers of Java's as C has them, until release_longs(). */
typedef struct longs {
  jlongArray array;
  jlong *data;
  uint64_t count;
} longs;
int take_longs(JNIEnv *env, jlongArray array, longs *out);
void release_longs(JNIEnv *env, longs *of);
/* A row of texts and numbers, with room for more. */
jobjectArray row_of(JNIEnv *env, jsize texts, const qr_string *text, jsize count, const jlong *numbers, jsize more);
/* The value's reference is given up. False: there is none. */
int put(JNIEnv *env, jobjectArray row, jsize at, jobject value);
/* A direct buffer as the tensor's memory; its reference is given up. */
int fill_memory(JNIEnv *env, jobject buffer, qr_tensor *to);

#endif
