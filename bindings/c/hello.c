/* SPDX-License-Identifier: Apache-2.0 */
/* A whole program: runs a model once on zeros and prints the first values of each output.
 *   cc hello.c $(pkg-config --cflags --libs quarry) -o hello && ./hello model.qrm [backend] */
#include <quarry/quarry.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_TENSORS 16

static void check(qr_status *status) {
  if (!status) return;
  fprintf(stderr, "%s: %s\n%s\n", qr_status_id(status), qr_status_message(status), qr_status_hint(status));
  qr_status_destroy(status);
  exit(1);
}

int main(int argc, char **argv) {
  qr_runtime *runtime;
  qr_options *options;
  qr_model *model;
  qr_session *session;
  qr_tensor in[MAX_TENSORS], out[MAX_TENSORS];
  const qr_tensor *inputs[MAX_TENSORS];
  qr_tensor *outputs[MAX_TENSORS];
  uint64_t i, v, in_count, out_count;

  if (argc < 2) return fprintf(stderr, "usage: hello MODEL [BACKEND]\n"), 2;
  check(qr_runtime_create(NULL, &runtime));
  check(qr_options_create(runtime, &options));
  if (argc > 2)
    check(qr_options_set(options, (qr_string){"backend", QR_NUL_TERMINATED}, (qr_string){argv[2], QR_NUL_TERMINATED}));
  check(qr_model_open(runtime, &(qr_model_source)QR_MODEL_AT(argv[1]), options, NULL, &model));
  check(qr_session_create(model, options, NULL, &session));
  in_count = qr_session_input_count(session), out_count = qr_session_output_count(session);
  if (in_count > MAX_TENSORS || out_count > MAX_TENSORS)
    return fprintf(stderr, "more than %d tensors\n", MAX_TENSORS), 1;
  for (i = 0; i < in_count; ++i) {
    qr_tensor_info info = QR_TENSOR_INFO_INIT;
    qr_tensor tensor = QR_TENSOR_INIT;
    check(qr_session_input(session, i, &info));
    tensor.dtype = info.dtype, tensor.rank = info.rank, tensor.size_bytes = info.size_bytes;
    for (v = 0; v < info.rank; ++v) tensor.dims[v] = info.dims[v];
    tensor.data = calloc(1, info.size_bytes);
    in[i] = tensor, inputs[i] = &in[i];
  }
  for (i = 0; i < out_count; ++i) out[i] = (qr_tensor)QR_TENSOR_INIT, outputs[i] = &out[i];
  check(qr_session_run(session, NULL, inputs, in_count, outputs, out_count));
  for (i = 0; i < out_count; ++i) {
    printf("output %d: %s, %d bytes:", (int)i, qr_dtype_name(out[i].dtype), (int)out[i].size_bytes);
    for (v = 0; out[i].dtype == QR_DTYPE_F32 && v < out[i].size_bytes / 4 && v < 10; ++v)
      printf(" %.4f", ((float *)out[i].data)[v]);
    printf("\n");
  }
  for (i = 0; i < in_count; ++i) free(in[i].data);
  qr_session_destroy(session), qr_model_destroy(model), qr_options_destroy(options), qr_runtime_destroy(runtime);
  return 0;
}
