/* SPDX-License-Identifier: Apache-2.0 */
/* Part of a test that runs in a child of fork(). */
#ifndef QUARRY_CHILD_H
#define QUARRY_CHILD_H

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <quarry/quarry.h>

/* In the child, where cmocka's checks must not be used: a failure ends it. */
#define CHILD_OK(call)                                                                  \
  do {                                                                                  \
    qr_status *child_status_ = (call);                                                  \
    if (child_status_) {                                                                \
      fprintf(stderr, "in the child: %s: %s: %s\n", #call, qr_status_id(child_status_), \
              qr_status_message(child_status_));                                        \
      _exit(2);                                                                         \
    }                                                                                   \
  } while (0)
#define CHILD_CHECK(what)                                   \
  do {                                                      \
    if (!(what)) {                                          \
      fprintf(stderr, "in the child: not so: %s\n", #what); \
      _exit(3);                                             \
    }                                                       \
  } while (0)

/* 1 where children of a process with threads may hang through no fault of what is tested: gcc 12's address sanitizer
 * takes the locks of its allocator into the child (seen in a debugger: a thread of the child's waits in free()). */
static inline int children_may_hang(void) {
#if defined(__SANITIZE_ADDRESS__)
  fprintf(stderr, "skipped: the address sanitizer's allocator stays locked in children of a process with threads\n");
  return 1;
#else
  return 0;
#endif
}
enum { kSkipped = 77 }; /* to meson */

/* Runs `body` in a child of this process: 1 where it came to its end; 0 where a check failed or it hung. */
static inline int child_ends_well(void (*body)(void *), void *argument) {
  int status = 0;
  pid_t child;
  fflush(NULL);
  child = fork();
  if (child == 0) {
    alarm(100); /* a sanitized build on a busy machine takes its time */
    body(argument);
    _exit(0);
  }
  if (child < 0 || waitpid(child, &status, 0) != child) return 0;
  if (WIFSIGNALED(status)) fprintf(stderr, "the child ended by signal %d\n", WTERMSIG(status));
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

#endif
