/* SPDX-License-Identifier: Apache-2.0 */
/* The smallest program that runs a model, for the memory figures of tools/bench.sh: the `quarry` program brings
 * libraries of its own (protobuf, for test data) that a user's program does not have.
 *
 *   bench-host MODEL KEY=VALUE...     prints {"peak_rss_kb": N} after one session and two runs */
#include <quarry/quarry.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(qr_status *status) {
  if (!status) return;
  fprintf(stderr, "bench-host: error %s: %s\n", qr_status_id(status), qr_status_message(status));
  exit(3);
}

static long peak_rss_kb(void) {
  char line[256];
  long kb = 0;
  FILE *file = fopen("/proc/self/status", "r");
  while (file && fgets(line, sizeof line, file))
    if (sscanf(line, "VmHWM: %ld", &kb) == 1) break;
  if (file) fclose(file);
  return kb;
}

int main(int argc, char **argv) {
  qr_runtime *runtime = NULL;
  qr_options *options = NULL;
  qr_model *model = NULL;
  qr_session *session = NULL;
  if (argc < 2) {
    fprintf(stderr, "usage: bench-host MODEL KEY=VALUE...\n");
    return 2;
  }
  check(qr_runtime_create(NULL, &runtime));
  check(qr_options_create(runtime, &options));
  for (int i = 2; i < argc; ++i) {
    const char *equals = strchr(argv[i], '=');
    if (!equals) return 2;
    check(qr_options_set(options, (qr_string){argv[i], (uint64_t)(equals - argv[i])},
                         (qr_string){equals + 1, QR_NUL_TERMINATED}));
  }
  check(qr_model_open(runtime, &(qr_model_source)QR_MODEL_AT(argv[1]), options, NULL, &model));
  check(qr_session_create(model, options, NULL, &session));

  const uint64_t inputs = qr_session_input_count(session), outputs = qr_session_output_count(session);
  qr_tensor *in = calloc(inputs + 1, sizeof *in), *out = calloc(outputs + 1, sizeof *out);
  const qr_tensor **ins = calloc(inputs + 1, sizeof *ins);
  qr_tensor **outs = calloc(outputs + 1, sizeof *outs);
  for (uint64_t i = 0; i < inputs; ++i) {
    qr_tensor_info info = QR_TENSOR_INFO_INIT;
    uint64_t bits;
    check(qr_session_input(session, i, &info));
    in[i] = (qr_tensor)QR_TENSOR_INIT;
    in[i].dtype = info.dtype, in[i].rank = info.rank;
    bits = qr_dtype_bits(info.dtype);
    for (uint32_t axis = 0; axis < info.rank; ++axis) {
      in[i].dims[axis] = info.dims[axis] < 0 ? 1 : info.dims[axis];
      bits *= (uint64_t)in[i].dims[axis];
    }
    in[i].size_bytes = (bits + 7) / 8;
    in[i].data = malloc(in[i].size_bytes + 1);
    memset(in[i].data, 0, in[i].size_bytes);
    ins[i] = &in[i];
  }
  for (uint64_t i = 0; i < outputs; ++i) out[i] = (qr_tensor)QR_TENSOR_INIT, outs[i] = &out[i];
  for (int i = 0; i < 2; ++i) check(qr_session_run(session, NULL, ins, inputs, outs, outputs));
  printf("{\"peak_rss_kb\": %ld}\n", peak_rss_kb());
  return 0; /* what ends after this is not measured */
}
