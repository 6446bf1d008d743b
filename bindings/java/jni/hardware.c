/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers of Android's as memory. */
#include "support.h"

/* Of libandroid, which a linker leaves out where nothing but a weak name wants it. Elsewhere nobody has it. */
#if defined(__ANDROID__)
#define HAS_HARDWARE_BUFFERS 1
extern void *AHardwareBuffer_fromHardwareBuffer(JNIEnv *env, jobject buffer);
#else
#define HAS_HARDWARE_BUFFERS (AHardwareBuffer_fromHardwareBuffer != NULL)
extern __attribute__((weak)) void *AHardwareBuffer_fromHardwareBuffer(JNIEnv *env, jobject buffer);
#endif

/* 0 without an exception: there are no such buffers here. */
NATIVE(jlong, memoryImport)
(JNIEnv *env, jclass of, jlong session, jobject buffer, jint access, jlongArray out_layout) {
  qr_memory_options how = QR_MEMORY_OPTIONS_INIT;
  qr_buffer_layout layout = QR_BUFFER_LAYOUT_INIT;
  qr_memory *made = NULL;
  (void)of;
  if (!HAS_HARDWARE_BUFFERS) return 0;
  how.device_access = (uint32_t)access;
  if (throws(env, qr_memory_import_hardware_buffer((qr_session *)(intptr_t)session,
                                                   AHardwareBuffer_fromHardwareBuffer(env, buffer), -1, &how, &layout,
                                                   &made)))
    return 0;
  jlong numbers[4 + 9] = {layout.format, layout.width, layout.height, layout.plane_count};
  for (int i = 0; i < QR_BUFFER_PLANES; ++i) {
    numbers[4 + 3 * i] = (jlong)layout.offset[i];
    numbers[5 + 3 * i] = layout.row_bytes[i];
    numbers[6 + 3 * i] = layout.pixel_bytes[i];
  }
  (*env)->SetLongArrayRegion(env, out_layout, 0, 4 + 9, numbers);
  return (jlong)(intptr_t)made;
}

NATIVE(jobject, memoryData)(JNIEnv *env, jclass of, jlong handle) {
  qr_memory *const memory = (qr_memory *)(intptr_t)handle;
  (void)of;
  return (*env)->NewDirectByteBuffer(env, qr_memory_data(memory), (jlong)qr_memory_size(memory));
}
