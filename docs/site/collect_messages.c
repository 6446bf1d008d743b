/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded into a program that uses libquarry, it writes each status that the program gets to a file, when it is
 * freed: cc -shared -fPIC collect_messages.c -o collect.so -ldl; QUARRY_MESSAGES=FILE LD_PRELOAD=./collect.so PROGRAM
 * error_examples.py makes examples for docs/errors.md of them. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct qr_status;
typedef const char *(*text_of)(const struct qr_status *);
void qr_status_destroy(struct qr_status *status);

void qr_status_destroy(struct qr_status *status) {
  void (*const destroy)(struct qr_status *) = (void (*)(struct qr_status *))dlsym(RTLD_NEXT, "qr_status_destroy");
  const text_of id = (text_of)dlsym(RTLD_NEXT, "qr_status_id"),
                message = (text_of)dlsym(RTLD_NEXT, "qr_status_message");
  const char *const path = getenv("QUARRY_MESSAGES");
  if (status && path && id && message) {
    char line[1200];
    const int size = snprintf(line, sizeof line, "%s\t%s\n", id(status), message(status));
    const int file = size < (int)sizeof line && !strchr(message(status), '\n')
                         ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666)
                         : -1;
    if (file >= 0) {
      if (write(file, line, (size_t)size) != size) perror(path);
      close(file);
    }
  }
  if (destroy) destroy(status);
}
