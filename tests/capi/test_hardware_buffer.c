/* SPDX-License-Identifier: Apache-2.0 */
/* qr_memory_import_hardware_buffer, by the libquarry of tests/support/native_window: as on Android, with a
 * libnativewindow.so of the tests' own, which it opens as it opens Android's. Its memory can be reached under a lock
 * alone: what looks there before or after ends the test. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "../support/native_window/native_window.h"
#include "capi_test.h"

static const char *container;
static set_window_script_fn *set_window_script;
static count_windows_fn *count_windows;
static window_memory_fn *window_memory;
static allocate_window_fn *allocate_window;
static release_window_fn *release_window;

static void *function(const char *name) {
  void *const library = dlopen("libnativewindow.so", RTLD_NOW);
  if (!library) print_error("%s\n", dlerror());
  assert_non_null(library);
  void *const found = dlsym(library, name);
  assert_non_null(found);
  return found;
}

static void *window(uint32_t format, uint32_t width, uint32_t height, uint64_t usage) {
  const window_description wanted = {width, height, 1, format, usage, 0, 0, 0};
  void *made = NULL;
  assert_int_equal(allocate_window(&wanted, &made), 0);
  return made;
}

/* Nobody holds or locks anything of ours, and no call was one that Android leaves undefined. */
static void nothing_is_left(void) {
  const window_counts *const now = count_windows();
  assert_int_equal(now->buffers, 0);
  assert_int_equal(now->references, 0);
  assert_int_equal(now->locks, 0);
  assert_int_equal(now->mistakes, 0);
}

static int open_descriptors(void) {
  int count = 0;
  DIR *const folder = opendir("/proc/self/fd");
  while (readdir(folder)) ++count;
  closedir(folder);
  return count;
}

typedef struct fixture {
  counting_allocator counter;
  qr_runtime *runtime;
  qr_model *model;
  qr_session *session;
  float input[64], expected[10];
  qr_tensor in, out;
  const qr_tensor *inputs[1];
  qr_tensor *outputs[1];
} fixture;

static void open_fixture(fixture *f) {
  qr_runtime_options options = QR_RUNTIME_OPTIONS_INIT;
  qr_allocator allocator;
  qr_tensor in = QR_TENSOR_INIT, out = QR_TENSOR_INIT;
  memset(f, 0, sizeof *f);
  allocator = counting(&f->counter);
  options.allocator = &allocator;
  OK(qr_runtime_create(&options, &f->runtime));
  OK(model_at_path(f->runtime, str(container), NULL, &f->model));
  OK(qr_session_create(f->model, NULL, NULL, &f->session));
  for (int i = 0; i < 64; ++i) f->input[i] = (float)(i * 37 % 64) / 64.0f;
  in.dtype = QR_DTYPE_F32, in.rank = 4, in.dims[0] = in.dims[1] = 1, in.dims[2] = in.dims[3] = 8, in.data = f->input,
  in.size_bytes = sizeof f->input;
  out.data = f->expected, out.size_bytes = sizeof f->expected;
  f->in = in, f->out = out, f->inputs[0] = &f->in, f->outputs[0] = &f->out;
  OK(qr_session_run(f->session, NULL, f->inputs, 1, f->outputs, 1));
  set_window_script(NULL);
}
static void close_fixture(fixture *f) {
  qr_session_destroy(f->session), qr_model_destroy(f->model), qr_runtime_destroy(f->runtime);
  assert_int_equal(f->counter.live, 0);
  assert_int_equal(f->counter.mismatches, 0);
  nothing_is_left();
}
static qr_status *run(fixture *f) { return qr_session_run(f->session, NULL, f->inputs, 1, f->outputs, 1); }

static void test_bytes(void **state) {
  fixture f;
  qr_memory_options reads = QR_MEMORY_OPTIONS_INIT;
  qr_memory *in_memory = NULL, *out_memory = NULL;
  qr_buffer_layout layout = QR_BUFFER_LAYOUT_INIT;
  (void)state;
  open_fixture(&f);
  void *const in = window(WINDOW_BLOB, 512, 1, WINDOW_READS_RARELY | WINDOW_SAMPLED | WINDOW_CAMERA);
  void *const out = window(WINDOW_BLOB, 40, 1, WINDOW_READS | WINDOW_WRITES);
  /* The producer wrote the picture behind 128 bytes. */
  memcpy((char *)window_memory(in) + 128, f.input, 256);
  reads.device_access = QR_ACCESS_READ;
  OK(qr_memory_import_hardware_buffer(f.session, in, -1, &reads, &layout, &in_memory));
  /* The bits of its maker, and those of the processor's reading alone. */
  assert_int_equal(count_windows()->last_usage, WINDOW_READS_RARELY);
  assert_int_equal(count_windows()->locks, 1);
  assert_int_equal(count_windows()->references, 3);
  assert_int_equal(qr_memory_size(in_memory), 512);
  assert_int_equal(layout.format, WINDOW_BLOB);
  assert_int_equal(layout.width, 512), assert_int_equal(layout.height, 1);
  assert_int_equal(layout.plane_count, 1), assert_int_equal(layout.offset[0], 0);
  assert_int_equal(layout.row_bytes[0], 512), assert_int_equal(layout.pixel_bytes[0], 1);
  assert_memory_equal((char *)qr_memory_data(in_memory) + 128, f.input, 256);
  OK(qr_memory_import_hardware_buffer(f.session, out, -1, NULL, NULL, &out_memory));
  assert_int_equal(count_windows()->last_usage, WINDOW_READS | WINDOW_WRITES);
  assert_int_equal(count_windows()->locks, 2);

  f.in.data = NULL, f.in.memory = in_memory, f.in.memory_offset = 128;
  f.out.data = NULL, f.out.memory = out_memory, f.out.flags = 0;
  OK(run(&f));
  assert_memory_equal(window_memory(out), f.expected, 40);
  /* By the pointer too, as one of the host's. */
  memset(window_memory(out), 0, 40);
  f.in.memory = NULL, f.in.memory_offset = 0, f.in.data = (char *)qr_memory_data(in_memory) + 128;
  OK(run(&f));
  assert_memory_equal(window_memory(out), f.expected, 40);
  /* A range that does not lie in it. */
  f.in.data = NULL, f.in.memory = in_memory, f.in.memory_offset = 260;
  FAILS("QR-R0006", "252 bytes", run(&f));
  /* Locked once: nobody else gets at it, in Quarry or beside it. */
  {
    qr_memory *twice = NULL;
    FAILS("QR-R0010", "Invalid argument", qr_memory_import_hardware_buffer(f.session, in, -1, &reads, NULL, &twice));
    assert_null(twice);
    assert_int_equal(count_windows()->mistakes, 1);
    ((window_counts *)(uintptr_t)count_windows())->mistakes = 0;
  }
  qr_memory_destroy(in_memory);
  assert_int_equal(count_windows()->locks, 1);
  /* The memory holds the buffer when its maker has let it go. */
  release_window(out);
  assert_int_equal(count_windows()->buffers, 2);
  qr_memory_destroy(out_memory);
  assert_int_equal(count_windows()->buffers, 1);
  release_window(in);
  close_fixture(&f);
}

/* How pictures lie: scripts of the library, and what is said of them. */
static const struct picture_case {
  window_script script;
  uint32_t format, width, height, plane_count, row, colour_row, step;
  uint64_t size, blue, red; /* of the memory; where Cb and Cr begin */
} pictures[] = {
    {{0, 0, 0, 0, 0, 0, 0}, WINDOW_RGBA, 8, 8, 1, 32, 0, 0, 256, 0, 0},
    {{64, 0, 0, 0, 0, 0, 0}, WINDOW_RGBA, 100, 3, 1, 512, 0, 0, 2 * 512 + 400, 0, 0},
    {{64, 0, 0, 0, 0, 0, 0}, WINDOW_R8, 65, 2, 1, 128, 0, 0, 128 + 65, 0, 0},
    /* NV12 without a gap: 1.5 bytes a pixel. */
    {{64, 0, 0, 0, 0, 0, 0}, WINDOW_YUV, 640, 480, 3, 640, 640, 2, 640 * 720, 640 * 480, 640 * 480 + 1},
    /* As decoders have it: rows and the colours begin at multiples. */
    {{128, 4096, 0, 0, 0, 0, 0},
     WINDOW_YUV,
     1000,
     562,
     3,
     1024,
     1024,
     2,
     1024 * 562 + 4096 + 1024 * 280 + 1000,
     1024 * 562 + 4096,
     1024 * 562 + 4096 + 1},
    {{0, 0, 1, 0, 0, 0, 0}, WINDOW_YUV, 16, 4, 3, 16, 16, 2, 96, 65, 64},   /* NV21 */
    {{0, 0, 0, 1, 0, 0, 0}, WINDOW_YUV, 16, 4, 3, 16, 8, 1, 96, 64, 80},    /* I420 */
    {{0, 0, 1, 1, 0, 0, 0}, WINDOW_YUV, 16, 4, 3, 16, 8, 1, 96, 80, 64},    /* YV12 */
    {{0, 0, 0, 0, 0, 0, 0}, WINDOW_YUV, 5, 3, 3, 5, 6, 2, 15 + 12, 15, 16}, /* odd: a colour for the last pixel too */
};

static void test_pictures(void **state) {
  fixture f;
  (void)state;
  open_fixture(&f);
  for (size_t c = 0; c < sizeof pictures / sizeof *pictures; ++c) {
    const struct picture_case *const of = &pictures[c];
    qr_memory_options how = QR_MEMORY_OPTIONS_INIT;
    qr_buffer_layout layout = QR_BUFFER_LAYOUT_INIT;
    qr_memory *memory = NULL;
    how.device_access = QR_ACCESS_READ;
    set_window_script(&of->script);
    void *const picture = window(of->format, of->width, of->height, WINDOW_READS | WINDOW_CAMERA);
    OK(qr_memory_import_hardware_buffer(f.session, picture, -1, &how, &layout, &memory));
    print_message("picture %zu\n", c);
    assert_int_equal(layout.struct_size, sizeof layout);
    assert_int_equal(layout.format, of->format);
    assert_int_equal(layout.width, of->width), assert_int_equal(layout.height, of->height);
    assert_int_equal(layout.plane_count, of->plane_count);
    assert_int_equal(layout.offset[0], 0);
    assert_int_equal(layout.row_bytes[0], of->row);
    assert_int_equal(layout.pixel_bytes[0], of->format == WINDOW_RGBA ? 4 : 1);
    assert_int_equal(layout.offset[1], of->blue), assert_int_equal(layout.offset[2], of->red);
    assert_int_equal(layout.row_bytes[1], of->colour_row), assert_int_equal(layout.row_bytes[2], of->colour_row);
    assert_int_equal(layout.pixel_bytes[1], of->step), assert_int_equal(layout.pixel_bytes[2], of->step);
    assert_int_equal(qr_memory_size(memory), of->size);
    /* What the producer wrote last is the last byte of the memory. */
    ((unsigned char *)window_memory(picture))[of->size - 1] = 0xc5;
    assert_int_equal(((unsigned char *)qr_memory_data(memory))[of->size - 1], 0xc5);
    qr_memory_destroy(memory);
    release_window(picture);
  }
  close_fixture(&f);
}

/* A picture whose rows follow one another is a tensor as it lies: 8 x 8 pixels of 4 bytes are the digits' input. */
static void test_dense_picture(void **state) {
  fixture f;
  qr_memory_options how = QR_MEMORY_OPTIONS_INIT;
  qr_memory *memory = NULL;
  float scores[10];
  (void)state;
  open_fixture(&f);
  void *const picture = window(WINDOW_RGBA, 8, 8, WINDOW_READS);
  memcpy(window_memory(picture), f.input, 256);
  how.device_access = QR_ACCESS_READ;
  OK(qr_memory_import_hardware_buffer(f.session, picture, -1, &how, NULL, &memory));
  f.in.data = NULL, f.in.memory = memory;
  f.out.data = scores;
  OK(run(&f));
  assert_memory_equal(scores, f.expected, sizeof scores);
  qr_memory_destroy(memory);
  release_window(picture);
  close_fixture(&f);
}

static void *raise_later(void *fence) {
  usleep(50000);
  assert_int_equal(eventfd_write(*(int *)fence, 1), 0);
  return NULL;
}

static void test_fences(void **state) {
  fixture f;
  qr_memory *memory = NULL;
  pthread_t producer;
  eventfd_t seen = 0;
  (void)state;
  open_fixture(&f);
  void *const buffer = window(WINDOW_BLOB, 64, 1, WINDOW_READS | WINDOW_WRITES);
  int fence = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  const int before = open_descriptors(), waited = count_windows()->fences;
  assert_int_equal(pthread_create(&producer, NULL, raise_later, &fence), 0);
  OK(qr_memory_import_hardware_buffer(f.session, buffer, fence, NULL, NULL, &memory));
  assert_int_equal(eventfd_read(fence, &seen), 0); /* it was raised, and is still the caller's */
  assert_int_equal(pthread_join(producer, NULL), 0);
  assert_int_equal(count_windows()->fences, waited + 1);
  assert_int_equal(open_descriptors(), before);
  qr_memory_destroy(memory), memory = NULL;
  /* A refusal keeps no descriptor, whether the system has seen it or not. */
  const window_script refusing = {0, 0, 0, 0, EIO, 0, 0};
  assert_int_equal(eventfd_write(fence, 1), 0);
  set_window_script(&refusing);
  FAILS("QR-R0010", "Input/output error",
        qr_memory_import_hardware_buffer(f.session, buffer, fence, NULL, NULL, &memory));
  set_window_script(NULL);
  void *const unread = window(WINDOW_BLOB, 64, 1, WINDOW_SAMPLED);
  FAILS("QR-R0010", "usage 0x100", qr_memory_import_hardware_buffer(f.session, unread, fence, NULL, NULL, &memory));
  assert_int_equal(open_descriptors(), before);
  close(fence);
  FAILS("QR-C0007", "fence", qr_memory_import_hardware_buffer(f.session, buffer, fence, NULL, NULL, &memory));
  assert_null(memory);
  release_window(unread), release_window(buffer);
  close_fixture(&f);
}

static void test_refusals(void **state) {
  fixture f;
  qr_memory_options how = QR_MEMORY_OPTIONS_INIT;
  qr_buffer_layout layout = QR_BUFFER_LAYOUT_INIT;
  qr_memory *memory = NULL;
  (void)state;
  open_fixture(&f);
  /* What its maker did not say that the processor does. */
  void *const read_only = window(WINDOW_BLOB, 64, 1, WINDOW_READS);
  void *const write_only = window(WINDOW_BLOB, 64, 1, WINDOW_WRITES);
  FAILS("QR-R0010", "usage 0x3", qr_memory_import_hardware_buffer(f.session, read_only, -1, NULL, NULL, &memory));
  FAILS("QR-R0010", "usage 0x30", qr_memory_import_hardware_buffer(f.session, write_only, -1, NULL, NULL, &memory));
  how.device_access = QR_ACCESS_READ;
  FAILS("QR-R0010", "usage 0x30", qr_memory_import_hardware_buffer(f.session, write_only, -1, &how, NULL, &memory));
  how.device_access = QR_ACCESS_WRITE;
  OK(qr_memory_import_hardware_buffer(f.session, write_only, -1, &how, NULL, &memory));
  assert_int_equal(count_windows()->last_usage, WINDOW_WRITES);
  qr_memory_destroy(memory), memory = NULL;
  const window_description layers = {8, 8, 2, WINDOW_RGBA, WINDOW_READS | WINDOW_WRITES, 0, 0, 0};
  void *several = NULL;
  assert_int_equal(allocate_window(&layers, &several), 0);
  FAILS("QR-R0010", "2 layers", qr_memory_import_hardware_buffer(f.session, several, -1, NULL, NULL, &memory));
  FAILS("QR-C0002", "session and options->runtime",
        qr_memory_import_hardware_buffer(NULL, read_only, -1, NULL, NULL, &memory));
  /* Locks that fail, and locks that give nothing that can be used; the layout stays as it was. */
  void *const picture = window(WINDOW_YUV, 64, 64, WINDOW_READS | WINDOW_WRITES);
  layout.width = 77;
  const struct {
    window_script script;
    const char *says;
  } cases[] = {{{0, 0, 0, 0, ENOMEM, 0, 0}, "Cannot allocate memory"},
               {{0, 0, 0, 0, 0, 4, 0}, "4 planes: expected 1 to 3"},
               {{0, 0, 0, 0, 0, 0, 1}, "0 planes: expected 1 to 3"}};
  for (int c = 0; c < 3; ++c) {
    set_window_script(&cases[c].script);
    FAILS("QR-R0010", cases[c].says, qr_memory_import_hardware_buffer(f.session, picture, -1, NULL, &layout, &memory));
    assert_int_equal(layout.width, 77);
    assert_int_equal(count_windows()->locks, 0);
  }
  const window_script hidden = {0, 0, 0, 0, 0, 0, 1};
  void *const bytes = window(WINDOW_BLOB, 64, 1, WINDOW_READS | WINDOW_WRITES);
  set_window_script(&hidden);
  FAILS("QR-R0010", "format 0x21, 64 x 1", qr_memory_import_hardware_buffer(f.session, bytes, -1, NULL, NULL, &memory));
  set_window_script(NULL);
  layout.struct_size = 8;
  FAILS("QR-C0003", "qr_buffer_layout", qr_memory_import_hardware_buffer(f.session, bytes, -1, NULL, &layout, &memory));
  assert_null(memory);
  release_window(bytes), release_window(picture), release_window(several);
  release_window(read_only), release_window(write_only);
  close_fixture(&f);
}

/* Without memory nothing stays held or locked, whichever allocation it is that fails. */
static void test_without_memory(void **state) {
  fixture f;
  (void)state;
  open_fixture(&f);
  void *const buffer = window(WINDOW_BLOB, 64, 1, WINDOW_READS | WINDOW_WRITES);
  int failures = 0;
  for (uint64_t nth = 1;; ++nth) {
    qr_memory *memory = NULL;
    f.counter.fail_at = f.counter.made + nth;
    qr_status *const status = qr_memory_import_hardware_buffer(f.session, buffer, -1, NULL, NULL, &memory);
    f.counter.fail_at = 0;
    if (!status) {
      qr_memory_destroy(memory);
      break;
    }
    assert_int_equal(qr_status_code(status), QR_RESOURCE_EXHAUSTED);
    qr_status_destroy(status);
    assert_int_equal(count_windows()->locks, 0);
    assert_int_equal(count_windows()->references, 1);
    ++failures;
  }
  assert_true(failures > 0);
  release_window(buffer);
  close_fixture(&f);
}

/* Before there is a session; and what was queued. */
static void test_elsewhere(void **state) {
  fixture f;
  qr_memory_options where = QR_MEMORY_OPTIONS_INIT;
  qr_memory *memory = NULL;
  uint64_t ticket = 0;
  float scores[10];
  (void)state;
  open_fixture(&f);
  void *const buffer = window(WINDOW_BLOB, 256, 1, WINDOW_READS | WINDOW_WRITES);
  where.runtime = f.runtime, where.backend = str("cpu");
  OK(qr_memory_import_hardware_buffer(NULL, buffer, -1, &where, NULL, &memory));
  memcpy(qr_memory_data(memory), f.input, 256);
  f.in.data = NULL, f.in.memory = memory, f.out.data = scores, f.out.size_bytes = sizeof scores;
  OK(qr_session_submit(f.session, NULL, f.inputs, 1, f.outputs, 1, &ticket));
  OK(qr_session_wait(f.session, ticket, NULL, NULL));
  assert_memory_equal(scores, f.expected, sizeof scores);
  /* The processor writes at once what others see behind the end of the memory. */
  memset(qr_memory_data(memory), 0x3f, 256);
  qr_memory_destroy(memory);
  for (int i = 0; i < 256; ++i) assert_int_equal(((char *)window_memory(buffer))[i], 0x3f);
  release_window(buffer);
  close_fixture(&f);
}

/* As digits_qrm, for a libquarry that does not lie beside what reads ONNX. */
static const char *compiled(const char *prepare) {
  static const char path[] = "./hardware_buffer.qrm";
  qr_runtime_options options = QR_RUNTIME_OPTIONS_INIT;
  qr_runtime *runtime = NULL;
  qr_model *model = NULL;
  options.prepare_path = str(prepare);
  OK(qr_runtime_create(&options, &runtime));
  OK(model_at_path(runtime, str(digits_path()), NULL, &model));
  OK(qr_model_compile(model, NULL, &(qr_target)QR_TARGET_AT(path), NULL));
  qr_model_destroy(model), qr_runtime_destroy(runtime);
  return path;
}

/* test_hardware_buffer PREPARE_LIBRARY */
int main(int count, char **words) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_bytes),         cmocka_unit_test(test_pictures),
                                     cmocka_unit_test(test_dense_picture), cmocka_unit_test(test_fences),
                                     cmocka_unit_test(test_refusals),      cmocka_unit_test(test_elsewhere),
                                     cmocka_unit_test(test_without_memory)};
  *(void **)&set_window_script = function("set_window_script");
  *(void **)&count_windows = function("count_windows");
  *(void **)&window_memory = function("window_memory");
  *(void **)&allocate_window = function("AHardwareBuffer_allocate");
  *(void **)&release_window = function("AHardwareBuffer_release");
  if (count != 2) return 2;
  container = compiled(words[1]);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
