/* SPDX-License-Identifier: Apache-2.0 */
/* What HardwareTest.java needs of Android: its libandroid's function, on the stub of HardwareBuffer, and buffers of the
 * tests' libnativewindow. */
#include <jni.h>

#include "native_window.h"

allocate_window_fn AHardwareBuffer_allocate;
release_window_fn AHardwareBuffer_release;
set_window_script_fn set_window_script;
count_windows_fn count_windows;
window_memory_fn window_memory;

JNIEXPORT void *AHardwareBuffer_fromHardwareBuffer(JNIEnv *env, jobject buffer) {
  const jfieldID field = (*env)->GetFieldID(env, (*env)->GetObjectClass(env, buffer), "address", "J");
  return field ? (void *)(intptr_t)(*env)->GetLongField(env, buffer, field) : NULL;
}

JNIEXPORT jlong JNICALL Java_HardwareTest_allocate(JNIEnv *env, jclass of, jint format, jint width, jint height,
                                                   jlong usage, jint row_align, jint gap) {
  const window_description wanted = {(uint32_t)width, (uint32_t)height, 1, (uint32_t)format, (uint64_t)usage, 0, 0, 0};
  const window_script script = {(uint32_t)row_align, (uint32_t)gap, 0, 0, 0, 0, 0};
  void *made = NULL;
  (void)env, (void)of;
  set_window_script(&script);
  return AHardwareBuffer_allocate(&wanted, &made) == 0 ? (jlong)(intptr_t)made : 0;
}
JNIEXPORT void JNICALL Java_HardwareTest_release(JNIEnv *env, jclass of, jlong buffer) {
  (void)env, (void)of;
  AHardwareBuffer_release((void *)(intptr_t)buffer);
}
/* The producer's view. */
JNIEXPORT jobject JNICALL Java_HardwareTest_memory(JNIEnv *env, jclass of, jlong buffer, jint size) {
  (void)of;
  return (*env)->NewDirectByteBuffer(env, window_memory((void *)(intptr_t)buffer), size);
}
/* Buffers, locks, mistakes. */
JNIEXPORT jint JNICALL Java_HardwareTest_count(JNIEnv *env, jclass of, jint what) {
  (void)env, (void)of;
  return what == 0 ? count_windows()->buffers : what == 1 ? count_windows()->locks : count_windows()->mistakes;
}
