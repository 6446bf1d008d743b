/* SPDX-License-Identifier: Apache-2.0 */
/* Where calls write (qr_target): the same bytes whatever the kind, and what is left when something stops them. And
 * external data that come by name. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "capi_test.h"

typedef struct bytes {
  uint8_t *data;
  uint64_t size;
} bytes;

static void add(bytes *to, const void *data, uint64_t size) {
  to->data = realloc(to->data, to->size + size + 1);
  memcpy(to->data + to->size, data, size);
  to->size += size;
}

static bytes whole_file(const char *path) {
  bytes out = {NULL, 0};
  char block[65536];
  size_t got;
  FILE *file = fopen(path, "rbe");
  assert_non_null(file);
  while ((got = fread(block, 1, sizeof block, file)) > 0) add(&out, block, got);
  fclose(file);
  return out;
}

static void same(const bytes *a, const bytes *b, const char *what) {
  if (a->size != b->size || memcmp(a->data, b->data, a->size) != 0) {
    print_error("%s: found %llu bytes, expected those %llu of the path\n", what, (unsigned long long)a->size,
                (unsigned long long)b->size);
    fail();
  }
}

/* ---- what writes: each by one function, and what it writes does not depend on the time --------- */

typedef struct fixture {
  qr_runtime *runtime;
  qr_model *model;
  qr_options *options;
  counting_allocator memory;
} fixture;

typedef qr_status *(*writes)(fixture *f, const qr_target *target, const qr_call_options *call);
static qr_status *compiles(fixture *f, const qr_target *target, const qr_call_options *call) {
  return qr_model_compile(f->model, f->options, target, call);
}
static qr_status *exports(fixture *f, const qr_target *target, const qr_call_options *call) {
  return qr_model_export(f->model, f->options, target, call);
}
static qr_status *profiles(fixture *f, const qr_target *target, const qr_call_options *call) {
  qr_profile *profile = NULL; /* of nothing: a header line */
  qr_status *status = qr_profile_create(f->runtime, &profile);
  (void)call;
  if (!status) status = qr_profile_export(profile, str("csv"), target);
  qr_profile_destroy(profile);
  return status;
}

static const struct {
  const char *name; /* of the file */
  writes write;
  int files;
} kCalls[] = {{"t.qrm", compiles, 1},
              {"t.onnx", exports, 1},
              {"t.json", exports, 1},
              {"t.onnx.data", exports, 2},
              {"t.csv", profiles, 1}};
enum { kCallCount = sizeof kCalls / sizeof *kCalls };

static int open_fixture(void **state) {
  static fixture f;
  qr_runtime_options options = QR_RUNTIME_OPTIONS_INIT;
  memset(&f, 0, sizeof f);
  const qr_allocator allocator = counting(&f.memory);
  options.allocator = &allocator;
  OK(qr_runtime_create(&options, &f.runtime));
  OK(model_at_path(f.runtime, str(digits_path()), NULL, &f.model));
  OK(qr_options_create(f.runtime, &f.options));
  *state = &f;
  return 0;
}
static int close_fixture(void **state) {
  fixture *f = *state;
  qr_options_destroy(f->options), qr_model_destroy(f->model), qr_runtime_destroy(f->runtime);
  assert_int_equal(f->memory.live, 0), assert_int_equal(f->memory.mismatches, 0);
  return 0;
}

/* ---- a writer ------------------------------------------------------------------------------------ */

typedef struct writer {
  bytes files[4];
  char names[4][64];
  uint64_t promised[4], more[4];
  int count, ends, committed, after_end;
  uint64_t refuse_at; /* bytes that it takes before it says no; UINT64_MAX: all */
  int refuse_begin, refuse_end, number;
} writer;

static int32_t on_begin(void *self, qr_string name, uint64_t size_bytes, uint64_t more) {
  writer *w = self;
  w->after_end |= w->ends;
  if (w->refuse_begin) return w->number;
  snprintf(w->names[w->count], sizeof w->names[0], "%.*s", (int)name.size, name.data);
  w->promised[w->count] = size_bytes, w->more[w->count] = more;
  ++w->count;
  return 0;
}
static int32_t on_write(void *self, const void *data, uint64_t size_bytes) {
  writer *w = self;
  w->after_end |= w->ends;
  if (w->count == 0) w->count = 1; /* without `begin` */
  bytes *file = &w->files[w->count - 1];
  if (size_bytes > w->refuse_at || file->size > w->refuse_at - size_bytes) return w->number;
  add(file, data, size_bytes);
  return 0;
}
static int32_t on_end(void *self, int32_t committed) {
  writer *w = self;
  ++w->ends, w->committed = committed;
  return committed && w->refuse_end ? w->number : 0;
}
static writer takes_all(void) {
  writer w;
  memset(&w, 0, sizeof w);
  w.refuse_at = UINT64_MAX;
  return w;
}
static void free_writer(writer *w) {
  for (int i = 0; i < w->count; ++i) free(w->files[i].data);
}

/* ---- every kind ---------------------------------------------------------------------------------- */

static void *drain(void *argument) {
  static bytes got;
  const int fd = *(int *)argument;
  char block[5000];
  ssize_t count;
  got = (bytes){NULL, 0};
  while ((count = read(fd, block, sizeof block)) > 0) add(&got, block, (uint64_t)count);
  return &got;
}

static void each_kind(fixture *f) {
  for (int c = 0; c < kCallCount; ++c) {
    const char *name = kCalls[c].name, *main_file = kCalls[c].files == 2 ? "t.onnx" : name;
    qr_target target = QR_TARGET_AT(name);
    void *data = NULL;
    uint64_t size = 0;
    OK(kCalls[c].write(f, &target, NULL));
    bytes expected = whole_file(main_file);
    unlink(main_file);

    /* In a folder that is open. */
    mkdir("folder", 0777);
    target.folder_fd = open("folder", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    OK(kCalls[c].write(f, &target, NULL));
    close(target.folder_fd);
    assert_int_equal(chdir("folder"), 0);
    bytes found = whole_file(main_file);
    same(&found, &expected, "a path in a folder");
    free(found.data);
    unlink(main_file), unlink("t.onnx.data");
    assert_int_equal(chdir(".."), 0);
    assert_int_equal(rmdir("folder"), 0);

    writer w = takes_all();
    target = (qr_target)QR_TARGET_BY_WRITER(&w, on_begin, on_write, on_end);
    target.path = str(name);
    OK(kCalls[c].write(f, &target, NULL));
    assert_int_equal(w.count, kCalls[c].files);
    assert_int_equal(w.ends, 1), assert_int_equal(w.committed, 1), assert_int_equal(w.after_end, 0);
    same(&w.files[w.count - 1], &expected, "a writer");
    assert_string_equal(w.names[w.count - 1], main_file);
    for (int i = 0; i < w.count; ++i) {
      assert_int_equal(w.promised[i], w.files[i].size);
      assert_int_equal(w.more[i], w.count - 1 - i);
    }
    if (w.count == 2) {
      bytes beside = whole_file("t.onnx.data");
      same(&w.files[0], &beside, "the constants");
      assert_string_equal(w.names[0], "t.onnx.data");
      free(beside.data);
      /* Who takes one file gets that error before the first byte. */
      const int fd = memfd_create("one", MFD_CLOEXEC);
      target = (qr_target)QR_TARGET_IN_FILE(fd);
      target.path = str(name);
      FAILS("QR-C0007", "takes one file", kCalls[c].write(f, &target, NULL));
      assert_int_equal(lseek(fd, 0, SEEK_END), 0);
      close(fd);
      target = (qr_target)QR_TARGET_IN_MEMORY(&data, &size);
      target.path = str(name);
      FAILS("QR-C0007", "takes one file", kCalls[c].write(f, &target, NULL));
      assert_null(data);
    } else {
      target = (qr_target)QR_TARGET_IN_MEMORY(&data, &size);
      target.path = str(name);
      OK(kCalls[c].write(f, &target, NULL));
      found = (bytes){data, size};
      same(&found, &expected, "memory");
      assert_int_equal((uintptr_t)data % 64, 0), assert_int_equal(((char *)data)[size], 0);
      qr_string_destroy(data);

      /* A file behind what it has already. */
      const int fd = memfd_create("target", MFD_CLOEXEC);
      assert_int_equal(write(fd, "before", 6), 6);
      target = (qr_target)QR_TARGET_IN_FILE(fd);
      target.path = str(name);
      OK(kCalls[c].write(f, &target, NULL));
      assert_int_equal(lseek(fd, 0, SEEK_CUR), 6 + (off_t)expected.size);
      found = (bytes){malloc(expected.size), expected.size};
      assert_int_equal(pread(fd, found.data, found.size, 6), found.size);
      same(&found, &expected, "a file");
      free(found.data);
      close(fd);

      int ends[2];
      pthread_t reader;
      void *got;
      assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
      pthread_create(&reader, NULL, drain, &ends[0]);
      target.fd = ends[1];
      OK(kCalls[c].write(f, &target, NULL));
      close(ends[1]);
      pthread_join(reader, &got);
      same(got, &expected, "a pipe");
      free(((bytes *)got)->data);
      close(ends[0]);
    }
    free_writer(&w);
    /* One that has `write` alone. */
    if (kCalls[c].files == 1) {
      w = takes_all();
      target = (qr_target)QR_TARGET_BY_WRITER(&w, NULL, on_write, NULL);
      target.path = str(name);
      OK(kCalls[c].write(f, &target, NULL));
      same(&w.files[0], &expected, "a plain writer");
      free_writer(&w);
    }
    free(expected.data);
    unlink("t.onnx.data");
  }
}

static void test_every_kind(void **state) { each_kind(*state); }

/* A process of its own makes the bytes, and this one writes them. */
static void test_every_kind_of_a_child(void **state) {
  fixture *f = *state;
  OK(qr_options_set(f->options, str("compile.process"), str("child")));
  each_kind(f);
  writer w = takes_all();
  qr_target target = QR_TARGET_BY_WRITER(&w, on_begin, on_write, on_end);
  w.refuse_at = 5000, w.number = ECONNRESET;
  FAILS("QR-F0009", "target->write", qr_model_compile(f->model, f->options, &target, NULL));
  assert_int_equal(w.ends, 1), assert_int_equal(w.committed, 0);
  free_writer(&w);
}

/* ---- what stops it ------------------------------------------------------------------------------- */

static void test_a_writer_that_refuses(void **state) {
  fixture *f = *state;
  for (int c = 0; c < kCallCount; ++c) {
    writer all = takes_all();
    qr_target target = QR_TARGET_BY_WRITER(&all, on_begin, on_write, on_end);
    target.path = str(kCalls[c].name);
    OK(kCalls[c].write(f, &target, NULL));
    const uint64_t size = all.files[all.count - 1].size, live = f->memory.live;
    free_writer(&all);
    const uint64_t points[] = {0, 1, size / 2, size - 1};
    for (int i = 0; i < 6; ++i) {
      writer w = takes_all();
      target.self = &w;
      w.number = i % 2 ? EPIPE : ENOSPC;
      if (i < 4) w.refuse_at = points[i];
      else if (i == 4) w.refuse_begin = 1;
      else w.refuse_end = 1;
      FAILS(i % 2 ? "QR-F0009" : "QR-F0007",
            i < 4    ? "target->write"
            : i == 4 ? "target->begin"
                     : "target->end",
            kCalls[c].write(f, &target, NULL));
      /* Reported once, and that nothing of it is of use; `end` that was asked to commit is not asked again. */
      assert_int_equal(w.ends, 1), assert_int_equal(w.committed, i == 5), assert_int_equal(w.after_end, 0);
      free_writer(&w);
      assert_int_equal(f->memory.live, live);
    }
  }
  /* What fails before the first byte asks nobody. */
  writer w = takes_all();
  qr_target target = QR_TARGET_BY_WRITER(&w, on_begin, on_write, on_end);
  target.path = str("x.unknown");
  FAILS("QR-C0007", "x.unknown", qr_model_export(f->model, NULL, &target, NULL));
  assert_int_equal(w.count + w.ends, 0);
}

static uint64_t written(qr_status *status, const char *id) {
  uint64_t found = 0;
  assert_non_null(status);
  assert_string_equal(qr_status_id(status), id);
  for (uint64_t i = 0; i < qr_status_detail_count(status); ++i) {
    const char *key, *value;
    qr_status_detail(status, i, &key, &value);
    if (!strcmp(key, "written")) found = strtoull(value, NULL, 10);
  }
  qr_status_destroy(status);
  return found;
}

static void test_descriptors_that_fail(void **state) {
  fixture *f = *state;
  int ends[2];
  /* A full disk. */
  qr_target target = QR_TARGET_IN_FILE(open("/dev/full", O_WRONLY | O_CLOEXEC));
  assert_int_equal(written(compiles(f, &target, NULL), "QR-F0007"), 0);
  close(target.fd);
  /* A pipe whose reader has gone, at once and in the middle; no signal ends the process. */
  assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
  close(ends[0]);
  target.fd = ends[1];
  assert_int_equal(written(compiles(f, &target, NULL), "QR-F0003"), 0);
  close(ends[1]);
  /* A file that takes no more: it gets its length back, and its position. */
  const int fd = memfd_create("sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  assert_int_equal(ftruncate(fd, 20000), 0);
  assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW), 0);
  assert_int_equal(lseek(fd, 20000, SEEK_SET), 20000);
  target.fd = fd;
  assert_int_equal(written(compiles(f, &target, NULL), "QR-F0003"), 0);
  assert_int_equal(lseek(fd, 0, SEEK_CUR), 20000);
  /* What was written over is reported. */
  assert_int_equal(lseek(fd, 12000, SEEK_SET), 12000);
  const uint64_t over = written(compiles(f, &target, NULL), "QR-F0003");
  assert_true(over > 0 && over <= 8000);
  assert_int_equal(lseek(fd, 0, SEEK_CUR), 12000), assert_int_equal(lseek(fd, 0, SEEK_END), 20000);
  close(fd);
  /* What is none, and what is read alone. */
  target.fd = 9999;
  assert_int_equal(written(compiles(f, &target, NULL), "QR-F0003"), 0);
  target.fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  assert_int_equal(written(compiles(f, &target, NULL), "QR-F0003"), 0);
  close(target.fd);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}
static void *abort_soon(void *signal) {
  usleep(100000);
  qr_signal_abort(signal);
  return NULL;
}

static void nothing(int number) { (void)number; }

/* A pipe that nobody reads waits, and the call's signal ends that; signals of the system's, which interrupt the
 * waiting, do not have it write all the same. */
static void test_stopped_while_writing(void **state) {
  fixture *f = *state;
  struct sigaction action = {.sa_handler = nothing, .sa_flags = SA_RESTART};
  const struct itimerval often = {{0, 7000}, {0, 7000}}, never = {{0, 0}, {0, 0}};
  sigaction(SIGALRM, &action, NULL);
  setitimer(ITIMER_REAL, &often, NULL);
  qr_call_options call = QR_CALL_OPTIONS_INIT;
  qr_target target = QR_TARGET_IN_FILE(-1);
  int ends[2];
  OK(qr_signal_create(f->runtime, &call.signal));
  assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
  fcntl(ends[1], F_SETPIPE_SZ, 4096);
  OK(compiles(f, &(qr_target)QR_TARGET_AT("first.qrm"), NULL)); /* which opens the backend, for good */
  unlink("first.qrm");
  target.fd = ends[1];
  for (int child = 0; child < 2; ++child) {
    const uint64_t live = f->memory.live;
    if (child) OK(qr_options_set(f->options, str("compile.process"), str("child")));
    qr_signal_set_timeout(call.signal, 2000000000);
    double begun = now();
    const uint64_t first = written(compiles(f, &target, &call), "QR-C0012");
    assert_true(now() - begun < 30);
    assert_true(child ? first == 0 : first > 0 && first <= 4096); /* as much as there was room for */
    qr_signal_set_timeout(call.signal, QR_NO_TIMEOUT);
    pthread_t thread;
    begun = now();
    pthread_create(&thread, NULL, abort_soon, call.signal);
    assert_int_equal(written(compiles(f, &target, &call), "QR-C0011"), 0);
    pthread_join(thread, NULL);
    assert_true(now() - begun < 30);
    qr_signal_reset(call.signal);
    if (!child) assert_int_equal(f->memory.live, live);
  }
  setitimer(ITIMER_REAL, &never, NULL);
  qr_signal_destroy(call.signal);
  close(ends[0]), close(ends[1]);
}

static void *compile_often(void *argument) {
  fixture *f = argument;
  writer first = takes_all();
  for (int i = 0; i < 5; ++i) {
    writer w = takes_all();
    const qr_target target = QR_TARGET_BY_WRITER(&w, on_begin, on_write, on_end), path = QR_TARGET_AT("both.qrm");
    OK(qr_model_compile(f->model, NULL, &target, NULL));
    OK(qr_model_compile(f->model, NULL, &path, NULL));
    if (i == 0) first = w;
    else same(&w.files[0], &first.files[0], "a thread's"), free_writer(&w);
  }
  free_writer(&first);
  return NULL;
}
static void test_two_threads(void **state) {
  pthread_t threads[2];
  for (int i = 0; i < 2; ++i) pthread_create(&threads[i], NULL, compile_often, *state);
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  unlink("both.qrm");
}

static void test_wrong_targets(void **state) {
  fixture *f = *state;
  void *data = NULL;
  uint64_t size = 0;
  const struct {
    const char *id, *says;
    qr_target target;
  } wrong[] = {{"QR-C0007", "kind is 0", QR_TARGET_INIT},
               {"QR-C0007", "path is empty", QR_TARGET_AT("")},
               {"QR-C0009",
                "without NUL",
                {sizeof(qr_target), QR_TARGET_PATH, {"a\0.qrm", 6}, -1, -1, NULL, NULL, NULL, NULL, NULL, NULL}},
               {"QR-C0007", "fd is -1", QR_TARGET_IN_FILE(-1)},
               {"QR-C0002", "out_data is NULL", QR_TARGET_IN_MEMORY(NULL, &size)},
               {"QR-C0002", "out_size_bytes is NULL", QR_TARGET_IN_MEMORY(&data, NULL)},
               {"QR-C0002", "write is NULL", QR_TARGET_BY_WRITER(NULL, NULL, NULL, NULL)}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i)
    for (int c = 0; c < kCallCount; ++c) FAILS(wrong[i].id, wrong[i].says, kCalls[c].write(f, &wrong[i].target, NULL));
  qr_target target = QR_TARGET_AT("x.qrm");
  target.struct_size = QR_TARGET_FIRST_SIZE - 1;
  FAILS("QR-C0003", "qr_target", compiles(f, &target, NULL));
  target.struct_size = sizeof target;
  target.folder_fd = 9999;
  FAILS("QR-F0003", "x.qrm", compiles(f, &target, NULL));
}

/* A name of a file is bytes: what is written there is opened by it again, and no other file stands for it. */
static void test_names_in_any_bytes(void **state) {
  fixture *f = *state;
  for (int child = 0; child < 2; ++child) {
    if (child) OK(qr_options_set(f->options, str("compile.process"), str("child")));
    for (int c = 0; c < kCallCount; ++c) {
      char name[32];
      snprintf(name, sizeof name, "caf\xe9.%s", kCalls[c].name);
      const qr_target target = QR_TARGET_AT(name);
      if (kCalls[c].files == 2) { /* the model would have to say the other file's name, which is text */
        FAILS("QR-C0009", "\\xe9", kCalls[c].write(f, &target, NULL));
        assert_int_equal(access(name, F_OK), -1);
        continue;
      }
      OK(kCalls[c].write(f, &target, NULL));
      if (strstr(name, ".qrm") || strstr(name, ".onnx")) {
        qr_model *model;
        char *json;
        OK(model_at_path(f->runtime, str(name), NULL, &model));
        OK(qr_model_inspect(model, NULL, &json));
        assert_non_null(strstr(json, "caf\xef\xbf\xbd.t.")); /* JSON is text: U+FFFD for the byte */
        qr_string_destroy(json);
        OK(qr_model_verify(model, NULL));
        OK(compiles(f, &(qr_target)QR_TARGET_AT("\xff.qrm"), NULL));
        assert_int_equal(unlink("\xff.qrm"), 0);
        qr_model_destroy(model);
      }
      assert_int_equal(unlink(name), 0);
    }
  }
}

/* ---- external data that come by name ------------------------------------------------------------- */

typedef struct library {
  const writer *files; /* of an export: the constants, then the model */
  uint32_t kind;       /* of the source that is given; 0: there is no such file */
  int32_t number;      /* else: fails so */
  int asked, fd;
} library;

static int32_t read_part(void *self, uint64_t offset, void *to, uint64_t size_bytes) {
  memcpy(to, ((const bytes *)self)->data + offset, size_bytes);
  return 0;
}
static int32_t find(void *self, qr_string name, qr_model_source *out) {
  library *l = self;
  ++l->asked;
  assert_true(name.size == strlen(l->files->names[0]) && !memcmp(name.data, l->files->names[0], name.size));
  assert_true(out->struct_size == sizeof *out && out->fd == -1 && out->kind == 0);
  const bytes *file = &l->files->files[0];
  if (l->number) return l->number;
  switch (l->kind) {
    case QR_SOURCE_MEMORY: *out = (qr_model_source)QR_MODEL_IN_MEMORY(file->data, file->size); return 0;
    case QR_SOURCE_DESCRIPTOR: *out = (qr_model_source)QR_MODEL_IN_FILE(l->fd, 0, 0); return 0;
    case QR_SOURCE_READER: *out = (qr_model_source)QR_MODEL_BY_READER((void *)file, read_part, file->size); return 0;
    case QR_SOURCE_PATH: *out = (qr_model_source)QR_MODEL_AT("constants.bin"); return 0;
    case 99: out->kind = 99; return 0;
    default: return ENOENT;
  }
}

static void test_external_data_by_name(void **state) {
  fixture *f = *state;
  writer files = takes_all();
  qr_target target = QR_TARGET_BY_WRITER(&files, on_begin, on_write, on_end);
  target.path = str("d.onnx.data");
  OK(qr_model_export(f->model, NULL, &target, NULL));
  assert_int_equal(files.count, 2);
  void *expected = NULL, *data = NULL;
  uint64_t expected_size = 0, size = 0;
  library l = {&files, 0, 0, 0, memfd_create("constants", MFD_CLOEXEC)};
  assert_int_equal(write(l.fd, files.files[0].data, files.files[0].size), files.files[0].size);
  const int fd = open("constants.bin", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  assert_int_equal(write(fd, files.files[0].data, files.files[0].size), files.files[0].size);
  close(fd);

  qr_model_source source = QR_MODEL_IN_MEMORY(files.files[1].data, files.files[1].size);
  source.self = &l, source.external = find;
  for (uint32_t kind = QR_SOURCE_PATH; kind <= QR_SOURCE_READER; ++kind)
    for (int child = 0; child < 2; ++child) {
      qr_model *model = NULL;
      l.kind = kind, l.asked = 0;
      OK(qr_model_open(f->runtime, &source, NULL, NULL, &model));
      OK(qr_model_verify(model, NULL));
      if (child) OK(qr_options_set(f->options, str("compile.process"), str("child")));
      else OK(qr_options_unset(f->options, str("compile.process")));
      OK(qr_model_compile(model, f->options, &(qr_target)QR_TARGET_IN_MEMORY(&data, &size), NULL));
      assert_int_equal(l.asked, 1);
      if (!expected) expected = data, expected_size = size;
      else {
        assert_int_equal(size, expected_size), assert_memory_equal(data, expected, size);
        qr_string_destroy(data);
      }
      qr_model_destroy(model);
    }
  qr_string_destroy(expected);

  qr_model *model = NULL;
  const uint64_t live = f->memory.live;
  l.kind = 0; /* reported with all that is wrong, where it is wanted */
  OK(qr_model_open(f->runtime, &source, NULL, NULL, &model));
  FAILS("QR-O0007", "is not there", qr_model_verify(model, NULL));
  qr_model_destroy(model);
  l.number = EACCES;
  FAILS("QR-F0002", "source->external: Permission denied", qr_model_open(f->runtime, &source, NULL, NULL, &model));
  l.number = 0, l.kind = 99;
  FAILS("QR-C0007", "kind is 99", qr_model_open(f->runtime, &source, NULL, NULL, &model));
  /* A name that leaves the folder is asked of nobody. */
  bytes changed = {NULL, 0};
  add(&changed, files.files[1].data, files.files[1].size);
  uint8_t *const name = memmem(changed.data, changed.size, "d.onnx.data", 11);
  assert_non_null(name);
  memcpy(name, "../onnx.dat", 11);
  source.data = changed.data, source.size_bytes = changed.size;
  for (uint8_t *next = name; (next = memmem(next, (size_t)(changed.data + changed.size - next), "d.onnx.data", 11));)
    memcpy(next, "/.onnx.data", 11);
  l.asked = 0, l.kind = QR_SOURCE_MEMORY;
  OK(qr_model_open(f->runtime, &source, NULL, NULL, &model));
  assert_int_equal(l.asked, 0);
  FAILS("QR-O0007", "not followed", qr_model_verify(model, NULL));
  qr_model_destroy(model);
  assert_int_equal(f->memory.live, live);
  free(changed.data);
  free_writer(&files);
  close(l.fd);
  unlink("constants.bin");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_fixture, close_fixture)

int main(void) {
  const struct CMUnitTest tests[] = {CASE(test_every_kind),
                                     CASE(test_every_kind_of_a_child),
                                     CASE(test_a_writer_that_refuses),
                                     CASE(test_descriptors_that_fail),
                                     CASE(test_stopped_while_writing),
                                     CASE(test_two_threads),
                                     CASE(test_wrong_targets),
                                     CASE(test_names_in_any_bytes),
                                     CASE(test_external_data_by_name)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
