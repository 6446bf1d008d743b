/* SPDX-License-Identifier: Apache-2.0 */
/* The seam between libquarry and libquarry-prepare: ONNX in, QIR out. Internal to a release: both libraries carry the
 * same QR_PREPARE_VERSION or do not work together. C types alone cross; the core needs neither protobuf nor onnx. */
#ifndef QUARRY_PREPARE_API_H
#define QUARRY_PREPARE_API_H

#include "quarry/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

#define QR_PREPARE_VERSION 12u

/* What the names of a graph's inputs begin with that adapters fill: "quarry.lora_A.NAME" [K, rank] and
 * "quarry.lora_B.NAME" [rank, N] of the weight NAME; of a convolution by one point [rank, K, 1, 1], [N, rank, 1, 1]. */
#define QR_ADAPTER_INPUT "quarry.lora_"

/* What is behind the names of state that is kept in bytes (option state.type) for the numbers of their rows. */
#define QR_STATE_SCALES ".state_scales"

typedef struct qr_prepared_model qr_prepared_model; /* a parsed ONNX model */
typedef struct qr_lowered qr_lowered;               /* its graphs as QIR */

typedef struct qr_prepare_io {
  qr_plugin_string name;
  int32_t dtype;
  uint32_t rank;
  int64_t dims[QR_PLUGIN_MAX_RANK];               /* -1: symbolic or unknown */
  qr_plugin_string dim_names[QR_PLUGIN_MAX_RANK]; /* of symbolic ones */
} qr_prepare_io;

/* One lowered graph (shape bucket). Its constants lie in segment 0, the pool that all graphs of a qr_lowered share. */
typedef struct qr_lowered_graph {
  qr_plugin_string name; /* the bucket's --shape text; "" for a model without symbolic dimensions */
  qr_plugin_bytes qir;
} qr_lowered_graph;

/* Where external data are that lie in no folder. `find`: the whole file of a name, which stays until model_destroy;
 * `out_is_there` 0: there is none. A code other than 0: the host knows why. */
typedef struct qr_prepare_external {
  void *self;
  qr_plugin_code (*find)(void *self, qr_plugin_string name, qr_plugin_bytes *out_bytes, int32_t *out_is_there);
} qr_prepare_external;

/* An operator of the normal form: its row of the table of operators. */
typedef struct qr_prepare_operator {
  const char *name, *domain, *types, *attributes;
  int32_t min_inputs, max_inputs, min_outputs, max_outputs;
} qr_prepare_operator;

typedef struct qr_prepare_progress {
  void *self;
  void (*report)(void *self, uint64_t done, uint64_t total, qr_plugin_string what);
} qr_prepare_progress;

/* Names of tensors; graph/edit/graph_part.h says what each list does. */
typedef struct qr_prepare_names {
  const qr_plugin_string *names;
  uint64_t count;
} qr_prepare_names;
typedef struct qr_prepare_part {
  qr_prepare_names tail, head, watch;
  qr_prepare_names adapters; /* weights that adapters may change: prepare/low_rank.h */
  uint32_t adapter_rank;
  int32_t state_type;         /* a qr_dtype: what `state` is kept in; prepare/state_type.h */
  qr_prepare_names state;     /* names of inputs, each followed by its output */
  const qr_files_sink *files; /* not NULL: what was taken is written there (prepare/export.h) */
  qr_plugin_string name;      /* of the file */
} qr_prepare_part;

/* An input that adapters fill. */
typedef struct qr_prepare_adapter_input {
  qr_plugin_string name;
  int32_t dtype;
  uint32_t rank;
  const int64_t *dims;
  void *data; /* of its type and shape, zeros */
} qr_prepare_adapter_input;
typedef struct qr_prepare_adapter {
  qr_plugin_bytes file;
  qr_plugin_string path; /* of the file, beside which adapter_config.json is read; empty: it has none */
  double alpha;          /* 0: the file or the configuration says it */
  double strength;
  int32_t is_list, reserved; /* not 0: the file is a text, whose line GRAPH;PATH names the adapter's */
  const qr_prepare_adapter_input *inputs;
  uint64_t input_count;
} qr_prepare_adapter;

typedef struct qr_prepare_api {
  uint32_t struct_size;
  uint32_t version;
  /* Parses and checks a model. `data` is borrowed until model_destroy. `folder` is a descriptor of the folder in which
   * external data lie (borrowed for the call; -1: there is none), whose files are opened here; not 0 `read_external`:
   * they are read into memory, and not mapped. `external`: in place of a folder (borrowed for the call, or NULL). */
  qr_plugin_code (*open)(const qr_host *host, qr_plugin_bytes data, int32_t folder, int32_t read_external,
                         const qr_prepare_external *external, const qr_plugin_signal *signal,
                         qr_prepared_model **out_model, const qr_error_sink *errors);
  void (*destroy)(qr_prepared_model *model);
  uint64_t (*input_count)(qr_prepared_model *model);
  uint64_t (*output_count)(qr_prepared_model *model);
  void (*input)(qr_prepared_model *model, uint64_t index,
                qr_prepare_io *out_io); /* strings live as long as the model */
  void (*output)(qr_prepared_model *model, uint64_t index, qr_prepare_io *out_io);
  /* What the model says of itself and a container carries on: who wrote it ("pytorch 2.4"; may be empty), and its
   * metadata_props as they are. Strings live as long as the model. */
  qr_plugin_string (*producer)(qr_prepared_model *model);
  uint64_t (*property_count)(qr_prepared_model *model);
  void (*property)(qr_prepared_model *model, uint64_t index, qr_plugin_string *out_key, qr_plugin_string *out_value);
  /* The folder of its external data as a descriptor that lives as long as the model; -1: it has none. Fails where their
   * names, by which another process would open them, are those of other files by now. */
  qr_plugin_code (*external_folder)(qr_prepared_model *model, int32_t *out_folder, const qr_error_sink *errors);
  /* {"producer", "ir_version", "opsets": [...], "operators": {"Conv": 9, ...}, "parameters", "metadata": {...}} */
  qr_plugin_code (*inspect)(qr_prepared_model *model, qr_plugin_string *out_json,
                            const qr_error_sink *errors); /* borrowed: as long as the model */
  /* Checks what opening does not and needs no shapes: all data, external ones too, are there and whole, and each value
   * is made by somebody. All reasons are reported, one "reason" frame each. */
  qr_plugin_code (*verify)(qr_prepared_model *model, const qr_plugin_signal *signal, const qr_error_sink *errors);
  /* Lowers to QIR: normalises, infers, folds, makes quantised types. `shapes`: one text per bucket
   * ("input=1x3x224x224,batch=1"); none: the model must need none. Not 0 `takes_ranges`: dimensions may be ranges
   * ("batch=1..8") where there is one bucket, and what is not bound is one. All reasons for a refusal are reported at
   * once, one "reason" frame each. */
  qr_plugin_code (*lower)(qr_prepared_model *model, const qr_plugin_string *shapes, uint64_t shape_count,
                          int32_t takes_ranges, const qr_plugin_signal *signal, const qr_prepare_progress *progress,
                          qr_lowered **out_lowered, const qr_error_sink *errors);
  void (*lowered_destroy)(qr_lowered *lowered);
  uint64_t (*graph_count)(qr_lowered *lowered);
  void (*graph)(qr_lowered *lowered, uint64_t index, qr_lowered_graph *out_graph);
  qr_plugin_bytes (*pool)(qr_lowered *lowered); /* segment 0; lives until lowered_destroy */
  /* A part of each graph (of a container, or lowered before) as a graph of its own. Nothing of `graphs` is borrowed. */
  qr_plugin_code (*cut)(const qr_host *host, const qr_plugin_graph *const *graphs, uint64_t graph_count,
                        const qr_prepare_part *part, qr_lowered **out_lowered, const qr_error_sink *errors);
  /* Where to cut a graph of which some nodes are refused (not 0; one for each node): `tell` gets the tensors in front
   * of and behind (1) what is left. How many nodes that has; 0: it cannot be cut. */
  uint64_t (*find_cuts)(const qr_host *host, const qr_plugin_graph *graph, const uint8_t *refused, uint64_t node_count,
                        void *self, void (*tell)(void *self, int32_t behind, uint32_t tensor));
  uint64_t (*operator_count)(void);
  void (*operator_at)(uint64_t index, qr_prepare_operator *out_operator);
  /* Fills the inputs from an adapter's file; how many weights it changes. A failure may leave some of them filled. */
  qr_plugin_code (*read_adapter)(const qr_host *host, const qr_prepare_adapter *from, uint64_t *out_weights,
                                 const qr_error_sink *errors);
} qr_prepare_api;

/* The one export of libquarry-prepare; NULL where `version` is not its own. */
typedef const qr_prepare_api *(*qr_prepare_query_fn)(uint32_t version);

#ifdef __cplusplus
}
#endif
#endif
