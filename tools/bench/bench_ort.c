/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX Runtime's side of tools/bench.sh: what `quarry bench --json -` prints, measured through ONNX Runtime's C
 * API.
 *
 *   bench-ort LIBRARY MODEL [--form onnx|ort|ort-in-place] [--threads N] [--sessions N] [--spin 0|1] [--iterations N]
 * [--duration S]
 *                           [--warmup N] [--group N] [--save-ort FILE] [--shape NAME=2x3[,NAME=...]]
 *                           [--input NAME=FILE ...]
 *
 * FILE holds the bytes of an input; the others are made up. Dimensions that a model leaves open are 1 unless --shape
 * gives the input's.
 *
 * The wheel of ONNX Runtime brings the library and no header, so the few entries of its function table that are needed
 * stand below by their index. The order of the entries is frozen: ONNX Runtime appends to the table and never moves
 * what a version has shipped. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef void (*entry)(void);
typedef struct {
  const entry *(*get_api)(uint32_t version);
  const char *(*version)(void);
} api_base;
static const entry *api;
enum { /* indices in OrtApi, version 5 */
       kGetErrorMessage = 2,
       kCreateEnv = 3,
       kCreateSession = 7,
       kCreateSessionFromArray = 8,
       kRun = 9,
       kCreateSessionOptions = 10,
       kSetOptimizedModelFilePath = 11,
       kSetSessionGraphOptimizationLevel = 23,
       kSetIntraOpNumThreads = 24,
       kSetInterOpNumThreads = 25,
       kSessionGetInputCount = 30,
       kSessionGetOutputCount = 31,
       kSessionGetInputTypeInfo = 33,
       kSessionGetInputName = 36,
       kSessionGetOutputName = 37,
       kCreateTensorWithDataAsOrtValue = 49,
       kCastTypeInfoToTensorInfo = 55,
       kGetTensorElementType = 60,
       kGetDimensionsCount = 61,
       kGetDimensions = 62,
       kCreateCpuMemoryInfo = 69,
       kGetAllocatorWithDefaultOptions = 78,
       kReleaseSession = 95,
       kReleaseValue = 96,
       kAddSessionConfigEntry = 130,
       kRunWithBinding = 133,
       kCreateIoBinding = 134,
       kBindInput = 136,
       kBindOutputToDevice = 138
};
#define CALL(index, types, ...) check(((void *(*)types)api[index])(__VA_ARGS__), #index)

static void check(void *status, const char *what) {
  if (!status) return;
  fprintf(stderr, "bench-ort: %s: %s\n", what + 1, ((const char *(*)(void *))api[kGetErrorMessage])(status));
  exit(3);
}
static void die(const char *what) {
  fprintf(stderr, "bench-ort: %s\n", what);
  exit(2);
}

static double now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}
/* Not ru_maxrss: that begins with what the parent of this process held. */
static long peak_rss_kb(void) {
  char line[256];
  long kb = 0;
  FILE *file = fopen("/proc/self/status", "r");
  while (file && fgets(line, sizeof line, file))
    if (sscanf(line, "VmHWM: %ld", &kb) == 1) break;
  if (file) fclose(file);
  return kb;
}
static int by_value(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}
static double percentile(const double *sorted, size_t count, double part) {
  size_t rank = (size_t)(part * (double)count + 0.999999);
  return sorted[(rank < 1 ? 1 : rank > count ? count : rank) - 1];
}

enum { kMostInputs = 64 };

typedef struct {
  const char *library, *model, *form, *save_ort, *shape, *inputs[kMostInputs];
  int threads, sessions, spin, warmup, input_count;
  long iterations, group;
  double duration;
} flags;

typedef struct {
  const flags *flags;
  void *session, *binding;
  double *times;
  size_t runs;
  pthread_barrier_t *start;
} worker;

static void run_once(const worker *self) {
  CALL(kRunWithBinding, (void *, void *, void *), self->session, NULL, self->binding);
}

/* The same kind of values as `quarry bench` makes: floats in [-1, 1), integers small and not negative. */
static void fill(void *data, int type, size_t count) {
  static const unsigned char kSizes[] = {0, 4, 1, 1, 2, 2, 4, 8, 0, 1, 2, 8, 4, 8};
  uint32_t random = 42;
  for (size_t i = 0; i < count; ++i) {
    random = random * 1664525u + 1013904223u;
    const uint32_t bits = random >> 8;
    const double value = bits / 8388608.0 - 1;
    if (type == 1) ((float *)data)[i] = (float)value;
    else if (type == 11) ((double *)data)[i] = value;
    else if (type == 10) ((uint16_t *)data)[i] = (uint16_t)(0x3000 | (bits & 0x83ff)); /* f16 of about +-0.15 */
    else if (type == 2 || type == 4) memset((char *)data + i * kSizes[type], (int)(bits % 256), 1);
    else *((char *)data + i * kSizes[type]) = (char)(bits % 2);
  }
}

/* The input's shape from the text of --shape, where it names the input. */
static void given_shape(const char *text, const char *name, int64_t *dims, size_t rank) {
  const size_t length = strlen(name);
  for (; text; text = strchr(text, ',') ? strchr(text, ',') + 1 : NULL) {
    if (strncmp(text, name, length) != 0 || text[length] != '=') continue;
    text += length + 1;
    for (size_t axis = 0; axis < rank; ++axis) {
      char *end;
      dims[axis] = strtoll(text, &end, 10);
      const int follows = axis + 1 < rank ? *end == 'x' : *end == ',' || *end == 0;
      if (end == text || !follows) die("--shape has another rank than the input");
      text = end + 1;
    }
    return;
  }
}

/* The bytes of the input from the file of --input, where one names it. */
static void read_given(const flags *f, const char *name, void *data, size_t room) {
  const size_t length = strlen(name);
  for (int i = 0; i < f->input_count; ++i) {
    if (strncmp(f->inputs[i], name, length) != 0 || f->inputs[i][length] != '=') continue;
    FILE *file = fopen(f->inputs[i] + length + 1, "rb");
    if (!file) die("a file of --input cannot be opened");
    if (fread(data, 1, room, file) == room && fgetc(file) != EOF) die("a file of --input is too long");
    fclose(file);
  }
}

static void bind(worker *self) {
  void *memory, *allocator;
  size_t inputs, outputs;
  CALL(kCreateIoBinding, (void *, void **), self->session, &self->binding);
  CALL(kCreateCpuMemoryInfo, (int, int, void **), 0 /* device allocator */, 0 /* default memory */, &memory);
  CALL(kGetAllocatorWithDefaultOptions, (void **), &allocator);
  CALL(kSessionGetInputCount, (void *, size_t *), self->session, &inputs);
  CALL(kSessionGetOutputCount, (void *, size_t *), self->session, &outputs);
  for (size_t i = 0; i < inputs; ++i) {
    char *name;
    void *info, *tensor, *value, *data;
    int type;
    size_t rank, count = 1;
    int64_t dims[16];
    CALL(kSessionGetInputName, (void *, size_t, void *, char **), self->session, i, allocator, &name);
    CALL(kSessionGetInputTypeInfo, (void *, size_t, void **), self->session, i, &info);
    CALL(kCastTypeInfoToTensorInfo, (void *, void **), info, &tensor);
    CALL(kGetTensorElementType, (void *, int *), tensor, &type);
    CALL(kGetDimensionsCount, (void *, size_t *), tensor, &rank);
    if (rank > 16 || type < 1 || type > 13 || type == 8)
      die("an input has a type or rank that this program does not make");
    CALL(kGetDimensions, (void *, int64_t *, size_t), tensor, dims, rank);
    given_shape(self->flags->shape, name, dims, rank);
    for (size_t axis = 0; axis < rank; ++axis) {
      if (dims[axis] < 0) dims[axis] = 1;
      count *= (size_t)dims[axis];
    }
    data = calloc(count ? count : 1, 8);
    fill(data, type, count);
    read_given(self->flags, name, data, count * 8);
    CALL(kCreateTensorWithDataAsOrtValue, (void *, void *, size_t, int64_t *, size_t, int, void **), memory, data,
         count * 8, dims, rank, type, &value);
    CALL(kBindInput, (void *, const char *, void *), self->binding, name, value);
  }
  for (size_t i = 0; i < outputs; ++i) {
    char *name;
    CALL(kSessionGetOutputName, (void *, size_t, void *, char **), self->session, i, allocator, &name);
    CALL(kBindOutputToDevice, (void *, const char *, void *), self->binding, name, memory);
  }
}

static void *work(void *argument) {
  worker *self = argument;
  const flags *f = self->flags;
  const long most = f->iterations ? f->iterations : 1 << 20;
  const double limit = f->duration > 0 ? f->duration * 1000 : f->iterations ? 1e18 : 2000;
  self->times = malloc((size_t)most * sizeof *self->times);
  pthread_barrier_wait(self->start);
  for (const double begin = now_ms(); self->runs == 0 || ((long)self->runs < most && now_ms() - begin < limit);) {
    const double start = now_ms();
    for (long g = 0; g < f->group; ++g) run_once(self);
    self->times[self->runs++] = (now_ms() - start) / (double)f->group;
  }
  return NULL;
}

static flags parse(int argc, char **argv) {
  flags f = {.form = "onnx", .threads = 1, .sessions = 1, .spin = 1, .warmup = 1, .group = 1};
  if (argc < 3) die("usage: bench-ort LIBRARY MODEL [options], see the head of bench_ort.c");
  f.library = argv[1], f.model = argv[2];
  for (int i = 3; i < argc; i += 2) {
    const char *key = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
    if (!value) die("an option lacks its value");
    if (!strcmp(key, "--form")) f.form = value;
    else if (!strcmp(key, "--save-ort")) f.save_ort = value;
    else if (!strcmp(key, "--shape")) f.shape = value;
    else if (!strcmp(key, "--input") && f.input_count < kMostInputs) f.inputs[f.input_count++] = value;
    else if (!strcmp(key, "--threads")) f.threads = atoi(value);
    else if (!strcmp(key, "--sessions")) f.sessions = atoi(value);
    else if (!strcmp(key, "--spin")) f.spin = atoi(value);
    else if (!strcmp(key, "--warmup")) f.warmup = atoi(value);
    else if (!strcmp(key, "--iterations")) f.iterations = atol(value);
    else if (!strcmp(key, "--group")) f.group = atol(value);
    else if (!strcmp(key, "--duration")) f.duration = atof(value);
    else die("unknown option");
  }
  if (f.threads < 1 || f.sessions < 1 || f.sessions > 64 || f.group < 1) die("a number is out of range");
  return f;
}

static const api_base *open_library(const char *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) die(dlerror());
  const api_base *(*get_base)(void) = (const api_base *(*)(void))dlsym(library, "OrtGetApiBase");
  if (!get_base) die("the library has no OrtGetApiBase");
  const api_base *base = get_base();
  api = base->get_api(5);
  if (!api) die("the library does not know version 5 of the API");
  return base;
}

static int is_in_place(const flags *f) { return !strcmp(f->form, "ort-in-place"); }

static void *session_options(const flags *f) {
  void *options;
  CALL(kCreateSessionOptions, (void **), &options);
  CALL(kSetIntraOpNumThreads, (void *, int), options, f->threads);
  CALL(kSetInterOpNumThreads, (void *, int), options, 1);
  CALL(kSetSessionGraphOptimizationLevel, (void *, int), options, 99 /* all */);
#define CONFIG(key, value) CALL(kAddSessionConfigEntry, (void *, const char *, const char *), options, key, value)
  if (!f->spin) CONFIG("session.intra_op.allow_spinning", "0");
  if (f->save_ort) {
    CONFIG("session.save_model_format", "ORT");
    CALL(kSetOptimizedModelFilePath, (void *, const char *), options, f->save_ort);
  }
  if (strcmp(f->form, "onnx") != 0) CONFIG("session.load_model_format", "ORT");
  if (is_in_place(f)) {
    CONFIG("session.use_ort_model_bytes_directly", "1");
    CONFIG("session.use_ort_model_bytes_for_initializers", "1");
  }
  return options;
}

static void create_session(const flags *f, void *env, void *options, void **session) {
  if (!is_in_place(f)) {
    CALL(kCreateSession, (void *, const char *, void *, void **), env, f->model, options, session);
    return;
  }
  const int fd = open(f->model, O_RDONLY | O_CLOEXEC);
  struct stat info;
  if (fd < 0 || fstat(fd, &info) != 0) die("the model cannot be opened");
  void *bytes = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (bytes == MAP_FAILED) die("the model cannot be mapped");
  CALL(kCreateSessionFromArray, (void *, const void *, size_t, void *, void **), env, bytes, (size_t)info.st_size,
       options, session);
}

/* In order. */
static double *times_of(const worker *workers, int count, size_t runs) {
  double *times = malloc(runs * sizeof *times);
  size_t at = 0;
  for (int s = 0; s < count; ++s)
    memcpy(times + at, workers[s].times, workers[s].runs * sizeof *times), at += workers[s].runs;
  qsort(times, runs, sizeof *times, by_value);
  return times;
}

int main(int argc, char **argv) {
  const flags f = parse(argc, argv);
  const api_base *base = open_library(f.library);

  void *env;
  const double before_env = now_ms();
  CALL(kCreateEnv, (int, const char *, void **), 3 /* errors */, "bench", &env);
  const double env_ms = now_ms() - before_env;
  void *options = session_options(&f);

  worker workers[64] = {{0}};
  pthread_barrier_t start;
  pthread_barrier_init(&start, NULL, (unsigned)f.sessions + 1);
  double create_ms = 0;
  for (int s = 0; s < f.sessions; ++s) {
    workers[s].flags = &f, workers[s].start = &start;
    const double begin = now_ms();
    create_session(&f, env, options, &workers[s].session);
    if (s == 0) create_ms = now_ms() - begin;
  }
  if (f.save_ort) return 0;
  for (int s = 0; s < f.sessions; ++s) bind(&workers[s]);
  const double before_first = now_ms();
  run_once(&workers[0]);
  const double first_ms = now_ms() - before_first;
  for (int i = 0; i < f.warmup; ++i)
    for (int s = 0; s < f.sessions; ++s) run_once(&workers[s]);
  /* Before the lists of times grow, as `quarry bench` does. */
  const long peak_kb = peak_rss_kb();

  pthread_t threads[64];
  for (int s = 0; s < f.sessions; ++s) pthread_create(&threads[s], NULL, work, &workers[s]);
  pthread_barrier_wait(&start);
  const double begin = now_ms();
  size_t runs = 0;
  for (int s = 0; s < f.sessions; ++s) pthread_join(threads[s], NULL), runs += workers[s].runs;
  const double wall_ms = now_ms() - begin;
  double *times = times_of(workers, f.sessions, runs);
  printf(
      "{\"version\": \"%s\", \"runs\": %zu, \"sessions\": %d, \"env_ms\": %.6f, \"create_ms\": %.6f, \"first_ms\": "
      "%.6f, "
      "\"min_ms\": %.6f, \"median_ms\": %.6f, \"p90_ms\": %.6f, \"p99_ms\": %.6f, \"runs_per_s\": %.3f, "
      "\"peak_rss_kb\": %ld}\n",
      base->version(), runs * (size_t)f.group, f.sessions, env_ms, create_ms, first_ms, times[0],
      percentile(times, runs, 0.5), percentile(times, runs, 0.9), percentile(times, runs, 0.99),
      (double)(runs * (size_t)f.group) / wall_ms * 1e3, peak_kb);
  fflush(stdout);
  _exit(0); /* what ends after this is not measured */
}
