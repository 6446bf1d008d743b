/* SPDX-License-Identifier: Apache-2.0 */
/* Written files: what is there after a file was written, whatever was there before and whatever goes wrong; and that a
 * name which changes, or a working folder, changes nothing of what was opened before. */
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capi_test.h"
#include "child.h"

static char g_home[4096]; /* where this program began */

/* ---- a folder for each test, in which it works -------------------------------------------------- */

static int enter_folder(void **state) {
  const char *const parent = getenv("TMPDIR");
  char name[4096];
  (void)state;
  snprintf(name, sizeof name, "%s/quarry-written-files-XXXXXX", parent && *parent ? parent : P_tmpdir);
  return !mkdtemp(name) || chdir(name) != 0;
}
static int leave_folder(void **state) {
  char name[4096], command[4200];
  (void)state;
  if (!getcwd(name, sizeof name) || !strstr(name, "/quarry-written-files-")) return 1;
  snprintf(command, sizeof command, "rm -rf '%s'", name);
  return chdir(g_home) != 0 || system(command) != 0;
}

static int count_files(const char *folder) {
  DIR *directory = opendir(folder);
  int count = -2;
  assert_non_null(directory);
  while (readdir(directory)) ++count;
  closedir(directory);
  return count;
}
static void put_file(const char *path, const void *bytes, size_t size) {
  const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, bytes, size), size);
  close(fd);
}
static int holds(const char *path, const char *text) {
  char found[64] = "";
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  const ssize_t count = fd < 0 ? -1 : read(fd, found, sizeof found - 1);
  if (fd >= 0) close(fd);
  return count == (ssize_t)strlen(text) && memcmp(found, text, strlen(text)) == 0;
}
static mode_t mode_of(const char *path) {
  struct stat info;
  assert_int_equal(lstat(path, &info), 0);
  return info.st_mode;
}

/* ---- what is written ---------------------------------------------------------------------------- */

/* By the name's ending: a container, or a graph. Calls no assertion: it works in children too. */
static qr_status *put_model(qr_runtime *runtime, const char *model_path, const char *path, const char *keep_graph) {
  qr_model *model = NULL;
  qr_options *options = NULL;
  const size_t length = strlen(path);
  qr_status *status = model_at_path(runtime, str(model_path), NULL, &model);
  if (!status) status = qr_options_create(runtime, &options);
  if (!status && length > 4 && strcmp(path + length - 4, ".qrm") == 0) {
    status = qr_options_set(options, str("container.keep_graph"), str(keep_graph));
    if (!status) status = qr_model_compile(model, options, &(qr_target)QR_TARGET_AT(path), NULL);
  } else if (!status) {
    status = qr_model_export(model, options, &(qr_target)QR_TARGET_AT(path), NULL);
  }
  qr_options_destroy(options), qr_model_destroy(model);
  return status;
}

static const char *const kWritten[] = {"x.qrm", "x.onnx", "x.json", "x.onnx.data"};
enum { kKinds = sizeof kWritten / sizeof *kWritten };

static void test_mode_and_links(void **state) {
  qr_runtime *runtime = NULL;
  int kind;
  (void)state;
  OK(qr_runtime_create(NULL, &runtime));
  umask(027);
  for (kind = 0; kind < kKinds; ++kind) {
    const char *name = kWritten[kind];
    const int files = kind == 3 ? 2 : 1;
    OK(put_model(runtime, digits_path(), name, "1"));
    assert_int_equal(mode_of(name), S_IFREG | 0640);
    assert_int_equal(count_files("."), files);
    /* Who keeps a file to himself has it so afterwards. */
    assert_int_equal(chmod(name, 0600), 0);
    OK(put_model(runtime, digits_path(), name, "1"));
    assert_int_equal(mode_of(name), S_IFREG | 0600);
    /* The target of a link is replaced, where it lies. */
    assert_int_equal(mkdir("real", 0755), 0);
    put_file("real/target", "old", 3);
    assert_int_equal(chmod("real/target", 0604), 0);
    assert_int_equal(unlink(name), 0);
    assert_int_equal(symlink("real/target", name), 0);
    OK(put_model(runtime, digits_path(), name, "1"));
    assert_true(S_ISLNK(mode_of(name)));
    assert_int_equal(mode_of("real/target"), S_IFREG | 0604);
    assert_false(holds("real/target", "old"));
    assert_int_equal(count_files("real"), 1);
    /* A device stays one. */
    assert_int_equal(unlink(name), 0);
    assert_int_equal(symlink("/dev/null", name), 0);
    OK(put_model(runtime, digits_path(), name, "1"));
    assert_true(S_ISLNK(mode_of(name)) && S_ISCHR(mode_of("/dev/null")));
    assert_int_equal(system("rm -rf x.* real"), 0);
  }
  umask(022);
  qr_runtime_destroy(runtime);
}

/* Names that could be guessed beforehand, as earlier releases had them: somebody may have put links there. */
static void test_planted_links(void **state) {
  qr_runtime *runtime = NULL;
  int kind;
  (void)state;
  OK(qr_runtime_create(NULL, &runtime));
  put_file("victim", "precious", 8);
  for (kind = 0; kind < kKinds; ++kind) {
    static const char *const patterns[] = {"%s.part%d", "%s.%d", "%s.old%d", "%s.tmp%d"};
    size_t p;
    for (p = 0; p < sizeof patterns / sizeof *patterns; ++p) {
      char name[128];
      snprintf(name, sizeof name, patterns[p], kWritten[kind], (int)getpid());
      assert_int_equal(symlink("victim", name), 0);
    }
    OK(put_model(runtime, digits_path(), kWritten[kind], "1"));
    OK(put_model(runtime, digits_path(), kWritten[kind], "1"));
    assert_true(holds("victim", "precious"));
    assert_true(S_ISREG(mode_of(kWritten[kind])));
    assert_int_equal(count_files("."), 1 + 4 + (kind == 3 ? 2 : 1));
    assert_int_equal(system("rm -f x.*"), 0);
  }
  qr_runtime_destroy(runtime);
}

struct broken {
  const char *path;
  int is_killed;
};
/* In a child: no file may grow beyond a little; that is an error of the call, or ends the process in the middle. */
static void write_onto_a_full_disk(void *argument) {
  const struct broken *how = argument;
  const struct rlimit limit = {700, 700}, no_core = {0, 0};
  qr_runtime *runtime = NULL;
  qr_status *status;
  CHILD_OK(qr_runtime_create(NULL, &runtime));
  signal(SIGXFSZ, how->is_killed ? SIG_DFL : SIG_IGN);
  setrlimit(RLIMIT_CORE, &no_core);
  setrlimit(RLIMIT_FSIZE, &limit);
  status = put_model(runtime, digits_path(), how->path, "1");
  CHILD_CHECK(status && strcmp(qr_status_id(status), "QR-F0007") == 0);
}

static void test_full_disk_and_killed_call(void **state) {
  int kind, killed;
  (void)state;
  for (kind = 0; kind < kKinds; ++kind)
    for (killed = 0; killed < 2; ++killed) {
      const struct broken how = {kWritten[kind], killed};
      put_file(kWritten[kind], "old", 3);
      assert_int_equal(child_ends_well(write_onto_a_full_disk, (void *)(uintptr_t)&how), !killed);
      assert_true(holds(kWritten[kind], "old"));
      assert_int_equal(count_files("."), 1); /* this folder's file system knows nameless files */
      unlink(kWritten[kind]);
    }
}

struct writer {
  qr_runtime *runtime;
  const char *model, *path, *keep_graph;
  int failures;
};
static void *write_often(void *argument) {
  struct writer *self = argument;
  int i;
  for (i = 0; i < 25; ++i) {
    qr_status *status = put_model(self->runtime, self->model, self->path, self->keep_graph);
    qr_model *model = NULL;
    if (!status) status = model_at_path(self->runtime, str(self->path), NULL, &model); /* whoever wrote it */
    if (!status) status = qr_model_verify(model, NULL);
    if (status) {
      if (self->failures++ < 3) print_error("%s: %s\n", qr_status_id(status), qr_status_message(status));
      qr_status_destroy(status);
    }
    qr_model_destroy(model);
  }
  return NULL;
}

static void *write_once(void *argument) {
  struct writer *self = argument;
  qr_status *status = put_model(self->runtime, self->model, self->path, self->keep_graph);
  self->failures += status != NULL;
  qr_status_destroy(status);
  return NULL;
}

static void test_two_threads_on_one_path(void **state) {
  static const char *const paths[] = {"x.qrm", "x.onnx"};
  qr_runtime *runtime = NULL;
  qr_model *model = NULL;
  qr_session *session = NULL;
  size_t p;
  int round;
  (void)state;
  OK(qr_runtime_create(NULL, &runtime));
  OK(put_model(runtime, digits_path(), "other.onnx", "1"));
  for (p = 0; p < 2; ++p) {
    struct writer writers[2] = {{runtime, digits_path(), paths[p], "1", 0}, {runtime, "other.onnx", paths[p], "0", 0}};
    pthread_t other;
    assert_int_equal(pthread_create(&other, NULL, write_often, &writers[1]), 0);
    write_often(&writers[0]);
    pthread_join(other, NULL);
    assert_int_equal(writers[0].failures + writers[1].failures, 0);
    assert_int_equal(count_files("."), p + 2);
  }
  /* A model and its constants are of one writer: a session on them can be made. (Whoever opens them meanwhile may see a
   * part; see NewFiles.) */
  for (round = 0; round < 20; ++round) {
    struct writer writers[2] = {{runtime, digits_path(), "y.onnx.data", "1", 0},
                                {runtime, "other.onnx", "y.onnx.data", "1", 0}};
    pthread_t other;
    assert_int_equal(pthread_create(&other, NULL, write_once, &writers[1]), 0);
    write_once(&writers[0]);
    pthread_join(other, NULL);
    assert_int_equal(writers[0].failures + writers[1].failures, 0);
    OK(model_at_path(runtime, str("y.onnx"), NULL, &model));
    OK(qr_session_create(model, NULL, NULL, &session));
    qr_session_destroy(session), qr_model_destroy(model);
  }
  assert_int_equal(count_files("."), 5);
  qr_runtime_destroy(runtime);
}

/* ---- what is opened ----------------------------------------------------------------------------- */

/* y = x + w, f32[2], where w lies in ./weights.bin. */
static const char kExternal[] =
    "\010\010B\002\020\015:Y\012\016\012\001x\012\001w\022\001y\042\003Add\022\001g*"
    "\042\010\002\020\001B\001wj\027\012\010location"
    "\022\013weights."
    "binp\001Z\017\012\001x\022\012\012\010\010\001\022\004\012\002\010\002b\017\012\001y\022\012\012\010\010\001\022"
    "\004\012\002\010\002";
static const float kWeights[2] = {10, 20}, kOthers[2] = {-1, -1};

static void check_sums(qr_model *model) {
  static const float kX[2] = {1, 2};
  qr_session *session = NULL;
  qr_tensor in = QR_TENSOR_INIT, out = QR_TENSOR_INIT;
  const qr_tensor *inputs[1] = {&in};
  qr_tensor *outputs[1] = {&out};
  float y[2] = {0, 0};
  OK(qr_session_create(model, NULL, NULL, &session));
  in.dtype = QR_DTYPE_F32, in.rank = 1, in.dims[0] = 2, in.data = (void *)(uintptr_t)kX, in.size_bytes = sizeof kX;
  out.data = y, out.size_bytes = sizeof y;
  OK(qr_session_run(session, NULL, inputs, 1, outputs, 1));
  assert_true(y[0] == 11 && y[1] == 22);
  qr_session_destroy(session);
}
static void put_external(const char *folder) {
  char name[64];
  assert_int_equal(mkdir(folder, 0755), 0);
  snprintf(name, sizeof name, "%s/m.onnx", folder);
  put_file(name, kExternal, sizeof kExternal - 1);
  snprintf(name, sizeof name, "%s/weights.bin", folder);
  put_file(name, kWeights, sizeof kWeights);
}
static qr_model *open_external(qr_runtime *runtime, const char *path, const char *map) {
  qr_options *options = NULL;
  qr_model *model = NULL;
  OK(qr_options_create(runtime, &options));
  OK(qr_options_set(options, str("container.map"), str(map)));
  OK(model_at_path(runtime, str(path), options, &model));
  qr_options_destroy(options);
  return model;
}

static void test_external_data_are_opened_with_the_model(void **state) {
  static const char *const maps[] = {"0", "1"};
  qr_runtime *runtime = NULL;
  qr_model *model;
  char here[4096];
  int m;
  (void)state;
  assert_non_null(getcwd(here, sizeof here));
  OK(qr_runtime_create(NULL, &runtime));
  for (m = 0; m < 2; ++m) {
    put_external("f");
    /* The working folder becomes another. */
    model = open_external(runtime, "f/m.onnx", maps[m]);
    assert_int_equal(chdir("/"), 0);
    check_sums(model);
    qr_model_destroy(model);
    assert_int_equal(chdir(here), 0);
    /* Other weights take the place of those. */
    model = open_external(runtime, "f/m.onnx", maps[m]);
    put_file("f/new", kOthers, sizeof kOthers);
    assert_int_equal(rename("f/new", "f/weights.bin"), 0);
    check_sums(model);
    qr_model_destroy(model);
    /* They are gone, and so is their folder. */
    put_file("f/weights.bin", kWeights, sizeof kWeights);
    assert_int_equal(chdir("f"), 0);
    model = open_external(runtime, "m.onnx", maps[m]);
    assert_int_equal(chdir(here), 0);
    assert_int_equal(rename("f", "g"), 0);
    assert_int_equal(unlink("g/weights.bin"), 0);
    check_sums(model);
    check_sums(model);
    qr_model_destroy(model);
    assert_int_equal(system("rm -rf g"), 0);
  }
  qr_runtime_destroy(runtime);
}

/* A model in memory has its external data where the option says. */
static void test_model_folder(void **state) {
  qr_runtime *runtime = NULL;
  qr_options *options = NULL;
  qr_model *model = NULL;
  (void)state;
  put_external("f");
  OK(qr_runtime_create(NULL, &runtime));
  OK(qr_options_create(runtime, &options));
  OK(qr_options_set(options, str("model.folder"), str("f")));
  OK(model_in_memory(runtime, kExternal, sizeof kExternal - 1, options, &model));
  check_sums(model);
  qr_model_destroy(model);
  OK(qr_options_set(options, str("model.folder"), str("none")));
  FAILS("QR-F0001", "model.folder", model_in_memory(runtime, kExternal, sizeof kExternal - 1, options, &model));
  qr_options_destroy(options), qr_runtime_destroy(runtime);
}

/* The process that compiles gets what is open, not its name. */
static void test_child_compiles_what_was_opened(void **state) {
  static const char *const maps[] = {"0", "1"};
  qr_runtime *runtime = NULL;
  qr_options *options = NULL;
  qr_model *made = NULL;
  int m;
  (void)state;
#ifdef NO_LIBRARIES
  print_message("skipped: a static program has no other one that has its backends\n");
  skip();
#endif
  OK(qr_runtime_create(NULL, &runtime));
  OK(qr_options_create(runtime, &options));
  OK(qr_options_set(options, str("compile.process"), str("child")));
  for (m = 0; m < 2; ++m) {
    qr_model *model;
    put_external("f");
    model = open_external(runtime, "f/m.onnx", maps[m]);
    assert_int_equal(rename("f", "g"), 0);
    put_external("f");
    put_file("f/weights.bin", kOthers, sizeof kOthers);
    put_file("g/new", "no model", 8);
    assert_int_equal(rename("g/new", "g/m.onnx"), 0);
    OK(qr_model_compile(model, options, &(qr_target)QR_TARGET_AT("made.qrm"), NULL));
    OK(model_at_path(runtime, str("made.qrm"), NULL, &made));
    check_sums(made);
    qr_model_destroy(made);
    /* Its external data it opens by their names: those of another file are refused. */
    put_file("g/new", kOthers, sizeof kOthers);
    assert_int_equal(rename("g/new", "g/weights.bin"), 0);
    FAILS("QR-O0007", "weights.bin", qr_model_compile(model, options, &(qr_target)QR_TARGET_AT("made.qrm"), NULL));
    qr_model_destroy(model);
    assert_int_equal(system("rm -rf f g"), 0);
  }
  /* A container too, and what goes wrong names the file. */
  OK(model_at_path(runtime, str("made.qrm"), NULL, &made));
  assert_int_equal(unlink("made.qrm"), 0);
  OK(qr_model_compile(made, options, &(qr_target)QR_TARGET_AT("again.qrm"), NULL));
  FAILS("QR-F0003", "none/x.qrm", qr_model_compile(made, options, &(qr_target)QR_TARGET_AT("none/x.qrm"), NULL));
  qr_model_destroy(made);
  OK(model_at_path(runtime, str("again.qrm"), NULL, &made));
  check_sums(made);
  qr_model_destroy(made), qr_options_destroy(options), qr_runtime_destroy(runtime);
}

static void test_descriptors_keep_their_position(void **state) {
  qr_runtime *runtime = NULL;
  qr_model *model = NULL;
  qr_session *session = NULL;
  qr_memory *memory = NULL;
  int i;
  (void)state;
  OK(qr_runtime_create(NULL, &runtime));
  OK(model_at_path(runtime, str(digits_path()), NULL, &model));
  OK(qr_session_create(model, NULL, NULL, &session));
  put_file("file", "", 0);
  for (i = 0; i < 2; ++i) {
    const int fd = i ? open("file", O_RDWR | O_CLOEXEC) : memfd_create("x", MFD_CLOEXEC);
    assert_int_equal(ftruncate(fd, 8192), 0);
    assert_int_equal(lseek(fd, 100, SEEK_SET), 100);
    OK(qr_memory_import_fd(session, fd, 0, 4096, NULL, &memory));
    qr_memory_destroy(memory);
    assert_int_equal(lseek(fd, 0, SEEK_CUR), 100);
    close(fd);
  }
  i = open(digits_path(), O_RDONLY | O_CLOEXEC);
  qr_session_destroy(session), qr_model_destroy(model);
  assert_int_equal(lseek(i, 10, SEEK_SET), 10);
  OK(model_in_file(runtime, i, 0, 0, NULL, &model));
  assert_int_equal(lseek(i, 0, SEEK_CUR), 10);
  close(i);
  qr_model_destroy(model), qr_runtime_destroy(runtime);
}

/* ---- libraries ---------------------------------------------------------------------------------- */

/* Relative folders of plugins are those of the moment when the runtime is made. */
static void test_relative_backend_path(void **state) {
  const char *const folders = getenv("QUARRY_BACKEND_PATH");
  qr_runtime_options how = QR_RUNTIME_OPTIONS_INIT;
  qr_runtime *runtime = NULL;
  qr_model *model = NULL;
  qr_session *session = NULL;
  char relative[8192] = "", here[4096];
  const char *from;
  size_t used = 0;
  (void)state;
#ifdef NO_LIBRARIES
  print_message("skipped: a static program opens no library\n");
  skip();
#endif
  assert_non_null(getcwd(here, sizeof here));
  assert_non_null(folders);
  for (from = folders; *from && used + 1 < sizeof relative; ++from) /* "/a:/b" to "a:b" */
    if (*from != '/' || (from != folders && from[-1] != ':')) relative[used++] = *from;
  how.flags = QR_RUNTIME_ONLY_GIVEN_PATHS;
  how.backend_path = str(relative);
  assert_int_equal(chdir("/"), 0);
  OK(qr_runtime_create(&how, &runtime));
  assert_int_equal(chdir(here), 0);
  OK(model_at_path(runtime, str(digits_path()), NULL, &model));
  OK(qr_session_create(model, NULL, NULL, &session));
  qr_session_destroy(session), qr_model_destroy(model), qr_runtime_destroy(runtime);
}

/* This program again, in folder WHERE, with libquarry found by LD_LIBRARY_PATH=lib. "after": the working folder becomes
 * another one, with a library in its lib, when the runtime was made; "before": before that. */
static int use_relative_libraries(const char *when) {
  qr_runtime *runtime = NULL;
  qr_model *model = NULL;
  qr_options *options = NULL;
  Dl_info info;
  if (!dladdr((void *)(uintptr_t)&qr_version, &info) || info.dli_fname[0] == '/') {
    fprintf(stderr, "libquarry is %s, expected a relative name\n", info.dli_fname);
    return 9;
  }
  if (strcmp(when, "before") == 0) CHILD_CHECK(chdir("evil") == 0);
  CHILD_OK(qr_runtime_create(NULL, &runtime));
  if (strcmp(when, "after") == 0) CHILD_CHECK(chdir("evil") == 0);
  CHILD_OK(model_at_path(runtime, str(digits_path()), NULL, &model));
  CHILD_OK(qr_options_create(runtime, &options));
  CHILD_OK(qr_options_set(options, str("compile.process"), str("child")));
  CHILD_OK(qr_model_compile(model, options, &(qr_target)QR_TARGET_AT("x.qrm"), NULL));
  return 0;
}

static void test_relative_library_path(void **state) {
  static const char *const whens[] = {"never", "after", "before"};
  char self[4096], library[4096], command[16384];
  Dl_info info;
  ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  size_t w;
  (void)state;
#if defined(NO_LIBRARIES) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  print_message(
      "skipped: a static program opens no library, and the libraries of sanitizers look at LD_LIBRARY_PATH too\n");
  skip();
#endif
  assert_true(length > 0);
  self[length] = 0;
  assert_int_not_equal(dladdr((void *)(uintptr_t)&qr_version, &info), 0);
  assert_non_null(realpath(info.dli_fname, library));
  *strrchr(library, '/') = 0; /* the build's folder "runtime" */
  snprintf(command, sizeof command,
           "mkdir -p lib/quarry evil/lib/quarry && cp -L '%s/libquarry.so.0' lib/ && cp -L "
           "'%s/../prepare/libquarry-prepare.so.0' '%s/quarry-compiler' lib/ && mv lib/quarry-compiler lib/quarry/ && "
           "for f in libquarry.so.0 libquarry-prepare.so.0 quarry/quarry-compiler; do echo planted > evil/lib/$f; "
           "chmod 755 evil/lib/$f; done",
           library, library, library);
  assert_int_equal(system(command), 0);
  for (w = 0; w < sizeof whens / sizeof *whens; ++w) {
    snprintf(command, sizeof command, "LD_LIBRARY_PATH=lib '%s' relative %s", self, whens[w]);
    assert_int_equal(system(command), 0);
  }
}

#define PLACE(test) cmocka_unit_test_setup_teardown(test, enter_folder, leave_folder)

int main(int count, char **words) {
  const struct CMUnitTest tests[] = {
      PLACE(test_mode_and_links),
      PLACE(test_planted_links),
      PLACE(test_full_disk_and_killed_call),
      PLACE(test_two_threads_on_one_path),
      PLACE(test_external_data_are_opened_with_the_model),
      PLACE(test_model_folder),
      PLACE(test_child_compiles_what_was_opened),
      PLACE(test_descriptors_keep_their_position),
      PLACE(test_relative_backend_path),
      PLACE(test_relative_library_path),
  };
  if (count == 3 && strcmp(words[1], "relative") == 0) return use_relative_libraries(words[2]);
  if (!getcwd(g_home, sizeof g_home)) return 2;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
