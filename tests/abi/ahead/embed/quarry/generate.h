/* SPDX-License-Identifier: Apache-2.0 */
/* Derived by tests/abi/vary.py: never edited by hand. */
/* qr_sampler: a token from logits. qr_generator: tokens from a session that is a decoder: the prompt, then a token a
 * run, with a cache that the session keeps (option "state"). In a library of its own, libquarry-generate, which a
 * program links beside libquarry of the same release; quarry.h does not include this header. Tokens are numbers here:
 * quarry/tokenizer.h makes them of texts. Statuses are freed with qr_status_destroy, as all others. */
#ifndef QUARRY_GENERATE_H
#define QUARRY_GENERATE_H

#include <quarry/call.h>
#include <quarry/session.h>
#include <quarry/state.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qr_sampler qr_sampler;
typedef struct qr_generator qr_generator;

/* How a token is picked. All zeros: the largest logit, of several alike the first. What is set is done in this order:
 * repetition_penalty, temperature, top_k, top_p, min_p; what is left is drawn from by its probability. */
typedef struct qr_sampler_options {
  uint32_t struct_size;
  uint32_t top_k;           /* keeps the so many largest, and what is as large as the last of them; 0: all */
  float temperature;        /* logits are divided by it; 0: the largest is taken, and none is drawn */
  float top_p;              /* keeps the most probable until their sum is at least this; 0 and 1: all */
  float min_p;              /* keeps what is at least so probable as this times the most probable; 0: all */
  float repetition_penalty; /* of tokens that were there: logits over 0 divided by it, others multiplied; 0, 1: none */
  uint64_t repetition_window; /* of how many of the last tokens; 0: of all */
  uint64_t seed;              /* the same seed draws the same tokens of the same logits, on every machine */
  /* since one minor later */
  uint64_t later;
} qr_sampler_options;
#define QR_SAMPLER_OPTIONS_FIRST_SIZE 40u
#define QR_SAMPLER_OPTIONS_INIT \
  { sizeof(qr_sampler_options), 0, 0.0f, 0.0f, 0.0f, 0.0f, 0, 0 }

/* Creates a sampler, for loops of the program's own; a generator has one in it.
 * @param options      borrows: may be NULL: the largest logit is taken.
 * @param out_sampler  gives: qr_sampler_destroy.
 * @thread  [thread-safe]
 * @errors  INVALID_ARGUMENT (a number that is negative or not finite, a top_p or min_p over 1), RESOURCE_EXHAUSTED
 * @since   0.3 */
QR_API QR_MUST_USE qr_status *qr_sampler_create(const qr_sampler_options *options, qr_sampler **out_sampler);

/* Picks the next token. It is not taken as one that was there: qr_sampler_accept does that.
 * @param sampler    borrows.
 * @param logits     borrows: one for each token of the vocabulary; minus infinity is a token that is never picked.
 * @param count      of the logits.
 * @param out_token  borrows: the token, from 0.
 * @thread  [exclusive:sampler]
 * @errors  INVALID_ARGUMENT (no logits; a NaN or infinity: its token is named; none that may be picked),
 *          RESOURCE_EXHAUSTED
 * @since   0.3 */
QR_API QR_MUST_USE qr_status *qr_sampler_pick(qr_sampler *sampler, const float *logits, uint64_t count,
                                              int64_t *out_token);

/* Says which tokens were there, those of the prompt too: repetition_penalty is of them.
 * @param sampler  borrows.
 * @param tokens   borrows.
 * @param count    of the tokens.
 * @thread  [exclusive:sampler]
 * @errors  INVALID_ARGUMENT, RESOURCE_EXHAUSTED
 * @since   0.3 */
QR_API QR_MUST_USE qr_status *qr_sampler_accept(qr_sampler *sampler, const int64_t *tokens, uint64_t count);

/* As new: no token was there, and the seed begins again.
 * @param sampler  borrows.
 * @thread  [exclusive:sampler]
 * @errors  INVALID_ARGUMENT
 * @since   0.3 */
QR_API QR_MUST_USE qr_status *qr_sampler_reset(qr_sampler *sampler);

/* Frees a sampler. Accepts NULL.
 * @param sampler  takes.
 * @thread  [exclusive:sampler]
 * @errors  none
 * @since   0.3 */
QR_API void qr_sampler_destroy(qr_sampler *sampler);

/* ---- generating ------------------------------------------------------------------------------
 *
 * A session fits whose inputs, those that it keeps as state aside, have these names and a batch of 1:
 *
 *   input_ids [1, n]                         the tokens that are new
 *   attention_mask [1, past + n]             ones
 *   position_ids [1, n], cache_position [n]  past, past + 1, ...
 *   seqlens_k [1], total_sequence_length     past + n - 1 and past + n: GroupQueryAttention's
 *   num_logits_to_keep                       1
 *
 * of i64 or i32, the first alone is needed; and whose output "logits" (or the only one) is [1, n, vocabulary],
 * [1, 1, vocabulary] or [1, vocabulary] of f32, f16 or bf16. `past` is the length of what it keeps. A cache of constant
 * size goes where seqlens_k says what of it counts. A session without state is given all tokens in each run. */

/* Of qr_generator_create. */
typedef struct qr_generator_options {
  uint32_t struct_size;
  uint32_t reserved;
  const qr_sampler_options *sampler; /* borrows: copied; may be NULL */
  const int64_t *stop_tokens;        /* borrows: copied; the tokens at which a model ends */
  uint64_t stop_token_count;
  uint64_t max_new_tokens; /* of a qr_generator_run; 0: until something else ends it */
  uint64_t prompt_chunk;   /* so many tokens of a prompt are one run: logits of all of them take memory; 0: 256 */
  qr_string names;         /* where the model's names are others: "input_ids=tokens,logits=scores"; may be empty */
  /* since one minor later */
  uint64_t later;
} qr_generator_options;
#define QR_GENERATOR_OPTIONS_FIRST_SIZE 64u
#define QR_GENERATOR_OPTIONS_INIT                                     \
  {                                                                   \
    sizeof(qr_generator_options), 0, NULL, NULL, 0, 0, 0, { NULL, 0 } \
  }

/* Creates a generator on a clone of the session (qr_session_clone): weights are shared, the state is its own.
 * @param session        borrows.
 * @param options        borrows: may be NULL.
 * @param call           borrows: may be NULL.
 * @param out_generator  gives: qr_generator_destroy; it may outlive the session.
 * @thread  [exclusive:session] [blocking]
 * @errors  UNSUPPORTED (an input that the generator knows no value for, one that is missing, another type or shape:
 *          QR-R0032 names it), INVALID_ARGUMENT, and as qr_session_clone
 * @since   0.3 */
QR_API QR_MUST_USE qr_status *qr_generator_create(qr_session *session, const qr_generator_options *options,
                                                  const qr_call_options *call, qr_generator **out_generator);

/* Makes the sequence these tokens: all of it, what was generated before included. What begins as the sequence before it
 * did is not run again, so a conversation that goes on costs its new end alone. Where the state cannot be rewound
 * (a pair that keeps its size) and the beginning is another one, all of it is run. A call that is stopped keeps what
 * was run: the same call goes on from there.
 * @param generator  borrows.
 * @param tokens     borrows.
 * @param count      of the tokens; at least 1.
 * @param options    borrows: may be NULL; the timeout of its signal is of all runs together.
 * @thread  [exclusive:generator] [blocking]
 * @errors  INVALID_ARGUMENT (no token, a negative one), RESOURCE_EXHAUSTED (QR-R0024: more than state.capacity), and as
 *          qr_session_run
 * @since   0.3 */
QR_API QR_MUST_USE qr_status *qr_generator_prompt(qr_generator *generator, const int64_t *tokens, uint64_t count,
                                                  const qr_run_options *options);

/* Why tokens end. */
typedef int32_t qr_end_reason;
#define QR_END_NONE 0       /* they do not: the next step gives another */
#define QR_END_STOP_TOKEN 1 /* one of stop_tokens was picked: it is the last of the sequence */
#define QR_END_LENGTH 2     /* max_new_tokens were picked */
#define QR_END_CAPACITY 3   /* the state is full (option state.capacity) */
#define QR_END_CALLBACK 4   /* qr_token_sink.token said so */
#define QR_END_ABORTED 5    /* the signal was aborted */
#define QR_END_DEADLINE 6   /* the signal's timeout ran out */

/* Picks one token and puts it behind the sequence. It is run when the next is asked for.
 * @param generator  borrows.
 * @param options    borrows: may be NULL.
 * @param out_token  borrows: the token; -1 where the reason is QR_END_CAPACITY.
 * @param out_end    borrows: QR_END_NONE, QR_END_STOP_TOKEN or QR_END_CAPACITY.
 * @thread  [exclusive:generator] [blocking]
 * @errors  FAILED_PRECONDITION (QR-R0033: no prompt), INVALID_ARGUMENT (QR-R0034: logits that are no numbers), and as
 *          qr_session_run
 * @since   0.3 */
QR_API QR_MUST_USE qr_status *qr_generator_step(qr_generator *generator, const qr_run_options *options,
                                                int64_t *out_token, qr_end_reason *out_end);

/* Gets each token of a qr_generator_run as it is picked, but for a stop token, on the thread of the call. QR_GO_ON or
 * QR_STOP is the answer; it calls nothing of the generator. */
typedef struct qr_token_sink {
  uint32_t struct_size;
  uint32_t reserved;
  void *self;
  int32_t (*token)(void *self, int64_t token);
  /* since one minor later */
  void (*later)(void);
} qr_token_sink;
#define QR_TOKEN_SINK_FIRST_SIZE 24u
#define QR_TOKEN_SINK_INIT \
  { sizeof(qr_token_sink), 0, NULL, NULL }

/* Steps until there is a reason to end. An abort and a timeout are such reasons, and no errors: what was generated is
 * there, and the next call goes on behind it.
 * @param generator  borrows.
 * @param options    borrows: may be NULL; the timeout of its signal is of all steps together.
 * @param sink       borrows: may be NULL.
 * @param out_count  borrows: how many tokens were picked, a stop token included; may be NULL.
 * @param out_end    borrows: why it ended.
 * @thread  [exclusive:generator] [blocking]
 * @errors  as qr_generator_step, but for CANCELLED and DEADLINE_EXCEEDED
 * @since   0.3 */
QR_API QR_MUST_USE qr_status *qr_generator_run(qr_generator *generator, const qr_run_options *options,
                                               const qr_token_sink *sink, uint64_t *out_count, qr_end_reason *out_end);

/* The logits of the next token, for a choice of the program's own: grammars, beams, several models. qr_generator_accept
 * goes on with what was chosen.
 * @param generator   borrows.
 * @param options     borrows: may be NULL.
 * @param out_logits  borrows: until the next call on the generator; one for each token of the vocabulary.
 * @param out_count   borrows: of the logits.
 * @thread  [exclusive:generator] [blocking]
 * @errors  FAILED_PRECONDITION (QR-R0033: no prompt), RESOURCE_EXHAUSTED (QR-R0024: the state is full), and as
 *          qr_session_run
 * @since   0.3 */
QR_API QR_MUST_USE qr_status *qr_generator_logits(qr_generator *generator, const qr_run_options *options,
                                                  const float **out_logits, uint64_t *out_count);

/* Puts a token behind the sequence, as qr_generator_step does with the one that it picks.
 * @param generator  borrows.
 * @param token      from 0.
 * @thread  [exclusive:generator]
 * @errors  INVALID_ARGUMENT, RESOURCE_EXHAUSTED
 * @since   0.3 */
QR_API QR_MUST_USE qr_status *qr_generator_accept(qr_generator *generator, int64_t token);

/* Forgets the tokens from `length` on.
 * @param generator  borrows.
 * @param length     at most the sequence's; 0: all is forgotten, and the seed begins again.
 * @thread  [exclusive:generator]
 * @errors  OUT_OF_RANGE (past the sequence), UNSUPPORTED (a pair that keeps its size goes back to 0 alone)
 * @since   0.3 */
QR_API QR_MUST_USE qr_status *qr_generator_rewind(qr_generator *generator, uint64_t length);

/* What a generator has. */
typedef struct qr_sequence_info {
  uint32_t struct_size;
  uint32_t reserved;
  const int64_t *tokens; /* the sequence: borrowed until the next call on the generator that changes it */
  uint64_t count;
  uint64_t run;        /* of them, those that the state has */
  uint64_t reused;     /* of the last prompt, those that were not run again */
  uint64_t capacity;   /* so many tokens have room; 0: no end is known */
  uint64_t vocabulary; /* 0: before the first run, where the model does not say it */
  /* since one minor later */
  uint64_t later;
} qr_sequence_info;
#define QR_SEQUENCE_INFO_FIRST_SIZE 56u
#define QR_SEQUENCE_INFO_INIT \
  { sizeof(qr_sequence_info), 0, NULL, 0, 0, 0, 0, 0 }

/* The sequence so far.
 * @param generator  borrows.
 * @param out_info   borrows: set its struct_size.
 * @thread  [exclusive:generator]
 * @errors  INVALID_ARGUMENT
 * @since   0.3 */
QR_API QR_MUST_USE qr_status *qr_generator_sequence(qr_generator *generator, qr_sequence_info *out_info);

/* The state that the generator's session keeps: to save it, or to ask for its size. It is changed by the generator
 * alone, but for qr_state_load of what was saved, which qr_generator_restore has to hear of.
 * @param generator  borrows.
 * @param out_state  gives: qr_state_destroy.
 * @thread  [exclusive:generator]
 * @errors  FAILED_PRECONDITION (QR-R0023: the session keeps none)
 * @since   0.3 */
QR_API QR_MUST_USE qr_status *qr_generator_state(qr_generator *generator, qr_state **out_state);

/* Says which tokens the state has, after qr_state_load: a long prompt that many conversations begin with is run once.
 * @param generator  borrows.
 * @param tokens     borrows: those of the sequence when the state was saved (qr_sequence_info: the first `run`).
 * @param count      must be the length of the state, where it knows its length.
 * @thread  [exclusive:generator]
 * @errors  INVALID_ARGUMENT (another count), FAILED_PRECONDITION (the session keeps no state), RESOURCE_EXHAUSTED
 * @since   0.3 */
QR_API QR_MUST_USE qr_status *qr_generator_restore(qr_generator *generator, const int64_t *tokens, uint64_t count);

/* Frees a generator. Accepts NULL.
 * @param generator  takes.
 * @thread  [exclusive:generator]
 * @errors  none
 * @since   0.3 */
QR_API void qr_generator_destroy(qr_generator *generator);

#ifdef __cplusplus
}
#endif
#endif
