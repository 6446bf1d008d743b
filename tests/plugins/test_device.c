/* SPDX-License-Identifier: Apache-2.0 */
/* What belongs to a device and not to one session, on the scripted backend: memory, and its loss and recovery; and what
 * must happen in all shape buckets or in none. */
#include <fcntl.h>
#include <linux/udmabuf.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include "tests/plugins/scripted_fixture.h"

/* ---- memory ---------------------------------------------------------------------------------- */

/* One run of `accepted` whose input lies in memory; checks the result. */
static qr_status *run_in(qr_session *session, qr_memory *memory, uint64_t offset) {
  static float out[8];
  static int64_t z[8];
  qr_tensor x = tensor(QR_DTYPE_F32, NULL, 0), y = tensor(QR_DTYPE_F32, out, sizeof out),
            found = tensor(QR_DTYPE_I64, z, sizeof z);
  x.memory = memory, x.memory_offset = offset;
  const qr_tensor *inputs[] = {&x};
  qr_tensor *outputs[] = {&y, &found};
  memset(out, 0, sizeof out);
  qr_status *status = qr_session_run(session, NULL, inputs, 1, outputs, 2);
  if (!status) assert_memory_equal(out, kY, sizeof kY);
  return status;
}

/* Memory serves every session on the device, also those made before it, and outlives the one that made it. */
static void test_memory_of_the_device(void **state) {
  fixture *f = *state;
  qr_model *model = compile(f, "", "1", "other-model");
  qr_session *first = create(f), *other = create_on(f, model);
  qr_memory *memory = NULL;
  ok(qr_memory_allocate(first, 64, NULL, &memory));
  memcpy(qr_memory_data(memory), kX, sizeof kX);
  ok(run_in(other, memory, 0));
  qr_session_destroy(first);
  ok(run_in(other, memory, 0));
  qr_session *late = create(f);
  ok(run_in(late, memory, 0));
  assert_int_equal(event_value(f, late, "registrations"), 1); /* one, however many contexts */
  /* Not on another device, though. */
  set(f, "device_id", "2");
  qr_session *elsewhere = create(f);
  fails(run_in(elsewhere, memory, 0), QR_INVALID_ARGUMENT, "QR-R0006");
  qr_session_destroy(elsewhere);
  qr_session_destroy(other);
  qr_memory_destroy(memory);
  assert_int_equal(event_value(f, late, "registrations"), 0);
  qr_session_destroy(late);
  qr_model_destroy(model);
}

static void test_memory_without_a_view(void **state) {
  fixture *f = *state;
  qr_session *session = create(f);
  qr_memory_options how = QR_MEMORY_OPTIONS_INIT;
  how.flags = QR_MEMORY_NO_HOST_POINTER;
  qr_memory *memory = NULL;
  void *view = NULL;
  ok(qr_memory_allocate(session, 64, &how, &memory));
  assert_null(qr_memory_data(memory));
  ok(qr_memory_map(memory, QR_ACCESS_WRITE, &view));
  memcpy(view, kX, sizeof kX);
  fails(run_in(session, memory, 0), QR_FAILED_PRECONDITION, "QR-R0017"); /* while it is mapped */
  ok(qr_memory_unmap(memory));
  ok(run_in(session, memory, 0));
  /* As an output: known shape, no view. */
  float in[8];
  memcpy(in, kX, sizeof kX);
  int64_t z[8];
  qr_tensor x = tensor(QR_DTYPE_F32, in, sizeof in), y = tensor(QR_DTYPE_F32, NULL, 0),
            found = tensor(QR_DTYPE_I64, z, sizeof z);
  y.memory = memory;
  const qr_tensor *inputs[] = {&x};
  qr_tensor *outputs[] = {&y, &found};
  ok(qr_session_run(session, NULL, inputs, 1, outputs, 2));
  ok(qr_memory_map(memory, QR_ACCESS_READ, &view));
  assert_memory_equal(view, kY, sizeof kY);
  ok(qr_memory_unmap(memory));
  /* An output whose shape only the run knows needs a view. */
  qr_tensor in_memory = tensor(QR_DTYPE_I64, NULL, 0);
  in_memory.memory = memory;
  outputs[0] = NULL, outputs[1] = &in_memory;
  fails(qr_session_run(session, NULL, inputs, 1, outputs, 2), QR_INVALID_ARGUMENT, "QR-R0006");
  /* Input and output in one piece of memory must not overlap, seen or unseen. */
  qr_tensor again = tensor(QR_DTYPE_F32, NULL, 0);
  again.memory = memory;
  inputs[0] = &again, outputs[0] = &y, outputs[1] = NULL;
  fails(qr_session_run(session, NULL, inputs, 1, outputs, 2), QR_INVALID_ARGUMENT, "QR-R0006");
  qr_memory_destroy(memory);
  qr_session_destroy(session);
}

/* The host's view of memory of this size is a copy, which begin_access and end_access bring up to date. */
static void test_memory_that_is_not_coherent(void **state) {
  fixture *f = *state;
  qr_session *session = create(f);
  qr_memory *memory = NULL;
  ok(qr_memory_allocate(session, 4242, NULL, &memory));
  float *view = qr_memory_data(memory);
  ok(qr_memory_begin_access(memory, QR_ACCESS_WRITE));
  memcpy(view, kX, sizeof kX);
  qr_tensor y = tensor(QR_DTYPE_F32, NULL, 0), x = tensor(QR_DTYPE_F32, NULL, 0);
  x.memory = y.memory = memory, y.memory_offset = 1024;
  const qr_tensor *inputs[] = {&x};
  qr_tensor *outputs[] = {&y, NULL};
  ok(qr_memory_end_access(memory, QR_ACCESS_WRITE));
  ok(qr_session_run(session, NULL, inputs, 1, outputs, 2));
  assert_true(view[256] == 0); /* not yet */
  ok(qr_memory_begin_access(memory, QR_ACCESS_READ));
  assert_memory_equal(view + 256, kY, sizeof kY);
  ok(qr_memory_end_access(memory, QR_ACCESS_READ));
  fails(qr_memory_begin_access(memory, 4), QR_INVALID_ARGUMENT, "QR-C0007");
  qr_memory_destroy(memory);
  qr_session_destroy(session);
}

static void test_exported_memory(void **state) {
  fixture *f = *state;
  qr_session *session = create(f);
  qr_memory *memory = NULL, *imported = NULL;
  int32_t fd = -1;
  uint64_t offset = 77;
  ok(qr_memory_allocate(session, 4096, NULL, &memory));
  ok(qr_memory_export_fd(memory, &fd, &offset));
  assert_int_equal(offset, 0);
  ok(qr_memory_import_fd(session, fd, 0, 4096, NULL, &imported));
  close(fd);
  memcpy(qr_memory_data(memory), kX, sizeof kX);
  ok(run_in(session, imported, 0)); /* the same bytes */
  float own[8];
  qr_memory *registered = NULL;
  ok(qr_memory_register(session, own, sizeof own, NULL, &registered));
  fails(qr_memory_export_fd(registered, &fd, &offset), QR_UNSUPPORTED, "QR-R0010");
  qr_memory_destroy(registered);
  qr_memory_destroy(imported);
  qr_memory_destroy(memory);
  qr_session_destroy(session);
}

/* A real dma-buf, where the kernel makes them of memfds. */
static void test_dma_buf(void **state) {
  fixture *f = *state;
  const int device = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
  if (device < 0) {
    print_message("skipped: /dev/udmabuf cannot be opened, so there is no dma-buf to import\n");
    skip();
  }
  const int file = memfd_create("quarry-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  assert_int_equal(ftruncate(file, 4096), 0);
  assert_int_equal(fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK), 0);
  struct udmabuf_create create_request = {(uint32_t)file, UDMABUF_FLAGS_CLOEXEC, 0, 4096};
  const int buffer = ioctl(device, UDMABUF_CREATE, &create_request);
  assert_true(buffer >= 0);
  qr_session *session = create(f);
  qr_memory *memory = NULL;
  ok(qr_memory_import_fd(session, buffer, 0, 4096, NULL, &memory));
  ok(qr_memory_begin_access(memory, QR_ACCESS_WRITE));
  memcpy(qr_memory_data(memory), kX, sizeof kX);
  ok(qr_memory_end_access(memory, QR_ACCESS_WRITE));
  ok(run_in(session, memory, 0));
  qr_memory_destroy(memory);
  qr_session_destroy(session);
  close(buffer), close(file), close(device);
}

/* ---- loss and recovery ----------------------------------------------------------------------- */

/* The device is lost for all: sessions, clones, memory; and comes back for all. */
static void test_loss_is_the_devices(void **state) {
  fixture *f = *state;
  qr_session *healthy = create(f), *clone = NULL;
  ok(qr_session_clone(healthy, NULL, &clone));
  qr_memory *memory = NULL, *late = NULL;
  ok(qr_memory_allocate(healthy, 64, NULL, &memory));
  memcpy(qr_memory_data(memory), kX, sizeof kX);
  ok(run_in(healthy, memory, 0));
  set(f, "scripted.script", "lose_at=1;stay_lost=1");
  qr_session *loser = create(f);
  fails(run(loser, NULL, NULL), QR_DEVICE_LOST, "QR-R0009");
  assert_true(reports(healthy, "\"device_lost\": true"));
  fails(run(healthy, NULL, NULL), QR_DEVICE_LOST, "QR-R0009");
  fails(run(clone, NULL, NULL), QR_DEVICE_LOST, "QR-R0009");
  fails(qr_memory_allocate(healthy, 64, NULL, &late), QR_DEVICE_LOST, "QR-R0009");
  fails(qr_session_set_option(healthy, text("qnn_context_priority"), text("low")), QR_DEVICE_LOST, "QR-R0009");
  fails(qr_session_recover(clone, NULL), QR_DEVICE_LOST, "QR-R0009"); /* still lost, says the script */
  fails(run(healthy, NULL, NULL), QR_DEVICE_LOST, "QR-R0009");
  ok(qr_session_recover(clone, NULL)); /* any session will do */
  assert_true(reports(healthy, "\"device_lost\": false"));
  ok(run(healthy, NULL, NULL));
  ok(run(clone, NULL, NULL));
  ok(run_in(healthy, memory, 0)); /* the memory is still registered */
  ok(qr_session_set_option(loser, text("scripted.script"), text("")));
  ok(run(loser, NULL, NULL));
  qr_memory_destroy(memory);
  qr_session_destroy(loser);
  qr_session_destroy(clone);
  qr_session_destroy(healthy);
}

/* A session that is made while the device is lost brings it back: there may be none left to ask for it. */
static void test_new_session_recovers(void **state) {
  fixture *f = *state;
  qr_session *keeper = create(f);
  set(f, "scripted.script", "lose_at=1");
  qr_session *loser = create(f);
  fails(run(loser, NULL, NULL), QR_DEVICE_LOST, "QR-R0009");
  qr_session_destroy(loser);
  set(f, "scripted.script", "");
  qr_session *fresh = create(f);
  ok(run(fresh, NULL, NULL));
  ok(run(keeper, NULL, NULL));
  qr_session_destroy(fresh);
  qr_session_destroy(keeper);
}

/* ---- all shape buckets or none --------------------------------------------------------------- */

static void run_rows(qr_session *session, int64_t rows, const char *priority) {
  float in[20] = {0}, out[20];
  qr_tensor x = tensor(QR_DTYPE_F32, in, sizeof in), y = tensor(QR_DTYPE_F32, out, sizeof out);
  x.dims[0] = rows;
  const qr_tensor *inputs[] = {&x};
  qr_tensor *outputs[] = {&y};
  qr_profile *profile = NULL;
  qr_run_options options = QR_RUN_OPTIONS_INIT;
  qr_runtime *runtime = NULL;
  ok(qr_runtime_create(NULL, &runtime));
  ok(qr_profile_create(runtime, &profile));
  options.profile = profile;
  ok(qr_session_run(session, &options, inputs, 1, outputs, 1));
  const qr_profile_event told = find_event(profile, "priority");
  assert_int_equal(told.op.size, strlen(priority));
  assert_memory_equal(told.op.data, priority, told.op.size);
  qr_profile_destroy(profile);
  qr_runtime_destroy(runtime);
}

/* The graph of two rows refuses "high": then no graph may have taken it. */
static void test_option_in_all_buckets_or_none(void **state) {
  fixture *f = *state;
  qr_model *onnx = open_model(f, g_models, "rows.onnx");
  set(f, "shape", "rows=1;rows=2;rows=5");
  qr_session *session = create_on(f, onnx);
  for (int64_t rows = 1; rows <= 5; rows += rows == 2 ? 3 : 1) run_rows(session, rows, "normal");
  fails(qr_session_set_option(session, text("qnn_context_priority"), text("high")), QR_UNSUPPORTED, "QR-B0004");
  for (int64_t rows = 1; rows <= 5; rows += rows == 2 ? 3 : 1) run_rows(session, rows, "normal");
  assert_true(reports(session, "\"qnn_context_priority\": \"normal\""));
  ok(qr_session_set_option(session, text("qnn_context_priority"), text("low")));
  fails(qr_session_set_option(session, text("qnn_context_priority"), text("high")), QR_UNSUPPORTED, "QR-B0004");
  for (int64_t rows = 1; rows <= 5; rows += rows == 2 ? 3 : 1) run_rows(session, rows, "low");
  qr_session_destroy(session);
  qr_model_destroy(onnx);
}

/* ---- after fork() ---------------------------------------------------------------------------- */

/* The third device is of no use in a forked child, which gets that error; the parent goes on. */
static void test_fork(void **state) {
  fixture *f = *state;
  set(f, "device_id", "2");
  set(f, "threads", "1");
  qr_session *session = create(f);
  ok(run(session, NULL, NULL));
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    qr_status *status = run(session, NULL, NULL);
    const int told =
        status && qr_status_code(status) == QR_FAILED_PRECONDITION && !strcmp(qr_status_id(status), "QR-R0016");
    qr_session_destroy(session);
    _exit(told ? 0 : 1);
  }
  int ended = -1;
  assert_int_equal(waitpid(child, &ended, 0), child);
  assert_true(WIFEXITED(ended) && WEXITSTATUS(ended) == 0);
  ok(run(session, NULL, NULL));
  qr_session_destroy(session);
}

int main(int argc, char **argv) {
  if (begin(argc, argv)) return 2;
  const struct CMUnitTest tests[] = {
      SCRIPTED(test_memory_of_the_device),
      SCRIPTED(test_memory_without_a_view),
      SCRIPTED(test_memory_that_is_not_coherent),
      SCRIPTED(test_exported_memory),
      SCRIPTED(test_dma_buf),
      SCRIPTED(test_loss_is_the_devices),
      SCRIPTED(test_new_session_recovers),
      SCRIPTED(test_option_in_all_buckets_or_none),
      SCRIPTED(test_fork),
  };
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  char command[128];
  snprintf(command, sizeof command, "rm -r %s", g_folder);
  return system(command) != 0 || failed;
}
