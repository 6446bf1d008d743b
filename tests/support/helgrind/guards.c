/* SPDX-License-Identifier: Apache-2.0
 * Preloaded under helgrind: first use of a static object in a function, with a lock that helgrind knows. The compiler's
 * code looks at the first byte of a guard without one, so that byte stays 0 and everybody comes here. */
#include <pthread.h>
#include <stdint.h>

enum { kNobody, kUnderWay, kDone };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void set(uint8_t *guard, uint8_t state) {
  pthread_mutex_lock(&mutex);
  guard[1] = state;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&mutex);
}

int __cxa_guard_acquire(uint8_t *guard);
int __cxa_guard_acquire(uint8_t *guard) {
  pthread_mutex_lock(&mutex);
  while (guard[1] == kUnderWay) pthread_cond_wait(&changed, &mutex);
  const int first = guard[1] == kNobody;
  if (first) guard[1] = kUnderWay;
  pthread_mutex_unlock(&mutex);
  return first;
}

void __cxa_guard_release(uint8_t *guard);
void __cxa_guard_release(uint8_t *guard) { set(guard, kDone); }

void __cxa_guard_abort(uint8_t *guard);
void __cxa_guard_abort(uint8_t *guard) { set(guard, kNobody); }
