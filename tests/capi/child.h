/* SPDX-License-Identifier: Apache-2.0 */
/* Part of a test that runs in a child of fork(). */
#ifndef QUARRY_CHILD_H
#define QUARRY_CHILD_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

/* gcc 12's address sanitizer takes the locks of its allocator into the child, where nobody lets go of those that
 * another thread of the parent's held (seen in a debugger: a thread of the child's waits in free()). Threads allocate
 * when they start, and ours not afterwards: so before a fork all are waited for until they have been seen asleep some
 * times. */
#if defined(__SANITIZE_ADDRESS__)
static inline void let_threads_start(void) {
  enum { kMost = 64, kEnough = 3, kLooks = 5000 };
  static struct { int tid, seen; } threads[kMost];
  static pid_t process; /* a child's threads are others */
  int look, waiting = 1;
  if (process != getpid()) memset(threads, 0, sizeof threads), process = getpid();
  for (look = 0; look < kLooks && waiting; ++look) {
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *task;
    waiting = 0;
    while (tasks && (task = readdir(tasks))) {
      char path[64], state = 0;
      const int tid = atoi(task->d_name);
      FILE *stat;
      int i;
      if (tid <= 0 || tid == (int)process) continue;
      for (i = 0; i < kMost && threads[i].tid != tid && threads[i].tid; ++i) continue;
      if (i == kMost || threads[i].seen >= kEnough) continue;
      threads[i].tid = tid;
      snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
      stat = fopen(path, "r");
      if (stat && fscanf(stat, "%*d (%*[^)]) %c", &state) == 1 && state == 'S') ++threads[i].seen;
      if (stat) fclose(stat);
      waiting += threads[i].seen < kEnough;
    }
    if (tasks) closedir(tasks);
    if (waiting) usleep(1000);
  }
}
#else
static inline void let_threads_start(void) {}
#endif

/* Runs `body` in a child of this process: 1 where it came to its end; 0 where a check failed or it hung. */
static inline int child_ends_well(void (*body)(void *), void *argument) {
  int status = 0;
  pid_t child;
  fflush(NULL);
  let_threads_start();
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
