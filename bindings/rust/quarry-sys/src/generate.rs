// SPDX-License-Identifier: Apache-2.0
// Written by tools/generate_bindings.py from include/quarry, never by hand.
use crate::bindings::*;
use core::ffi::c_void;

#[repr(C)]
pub struct qr_sampler {
    _opaque: [u8; 0],
    _marker: core::marker::PhantomData<(*mut u8, core::marker::PhantomPinned)>,
}

#[repr(C)]
pub struct qr_generator {
    _opaque: [u8; 0],
    _marker: core::marker::PhantomData<(*mut u8, core::marker::PhantomPinned)>,
}

/// ```text
/// How a token is picked. All zeros: the largest logit, of several alike the first. What is set is done in this order:
/// repetition_penalty, temperature, top_k, top_p, min_p; what is left is drawn from by its probability.
/// ```
#[repr(C)]
#[derive(Clone, Copy)]
pub struct qr_sampler_options {
    pub struct_size: u32,
    pub top_k: u32,
    pub temperature: f32,
    pub top_p: f32,
    pub min_p: f32,
    pub repetition_penalty: f32,
    pub repetition_window: u64,
    pub seed: u64,
}
pub const QR_SAMPLER_OPTIONS_FIRST_SIZE: u32 = 40;

/// ```text
/// Of qr_generator_create.
/// ```
#[repr(C)]
#[derive(Clone, Copy)]
pub struct qr_generator_options {
    pub struct_size: u32,
    pub reserved: u32,
    pub sampler: *const qr_sampler_options,
    pub stop_tokens: *const i64,
    pub stop_token_count: u64,
    pub max_new_tokens: u64,
    pub prompt_chunk: u64,
    pub names: qr_string,
}
pub const QR_GENERATOR_OPTIONS_FIRST_SIZE: u32 = 64;

/// ```text
/// Why tokens end.
/// ```
pub type qr_end_reason = i32;
/// they do not: the next step gives another
pub const QR_END_NONE: qr_end_reason = 0;
/// one of stop_tokens was picked: it is the last of the sequence
pub const QR_END_STOP_TOKEN: qr_end_reason = 1;
/// max_new_tokens were picked
pub const QR_END_LENGTH: qr_end_reason = 2;
/// the state is full (option state.capacity)
pub const QR_END_CAPACITY: qr_end_reason = 3;
/// qr_token_sink.token said so
pub const QR_END_CALLBACK: qr_end_reason = 4;
/// the signal was aborted
pub const QR_END_ABORTED: qr_end_reason = 5;
/// the signal's timeout ran out
pub const QR_END_DEADLINE: qr_end_reason = 6;

/// ```text
/// Gets each token of a qr_generator_run as it is picked, but for a stop token, on the thread of the call. QR_GO_ON or
/// QR_STOP is the answer; it calls nothing of the generator.
/// ```
#[repr(C)]
#[derive(Clone, Copy)]
pub struct qr_token_sink {
    pub struct_size: u32,
    pub reserved: u32,
    pub self_: *mut c_void,
    pub token: Option<unsafe extern "C" fn(self_: *mut c_void, token: i64) -> i32>,
}
pub const QR_TOKEN_SINK_FIRST_SIZE: u32 = 24;

/// ```text
/// What a generator has.
/// ```
#[repr(C)]
#[derive(Clone, Copy)]
pub struct qr_sequence_info {
    pub struct_size: u32,
    pub reserved: u32,
    pub tokens: *const i64,
    pub count: u64,
    pub run: u64,
    pub reused: u64,
    pub capacity: u64,
    pub vocabulary: u64,
}
pub const QR_SEQUENCE_INFO_FIRST_SIZE: u32 = 56;

unsafe extern "C" {
    /// ```text
    /// Creates a sampler, for loops of the program's own; a generator has one in it.
    /// @param options      borrows: may be NULL: the largest logit is taken.
    /// @param out_sampler  gives: qr_sampler_destroy.
    /// @thread  [thread-safe]
    /// @errors  INVALID_ARGUMENT (a number that is negative or not finite, a top_p or min_p over 1), RESOURCE_EXHAUSTED
    /// @since   0.3
    /// ```
    pub fn qr_sampler_create(options: *const qr_sampler_options, out_sampler: *mut *mut qr_sampler) -> *mut qr_status;

    /// ```text
    /// Picks the next token. It is not taken as one that was there: qr_sampler_accept does that.
    /// @param sampler    borrows.
    /// @param logits     borrows: one for each token of the vocabulary; minus infinity is a token that is never picked.
    /// @param count      of the logits.
    /// @param out_token  borrows: the token, from 0.
    /// @thread  [exclusive:sampler]
    /// @errors  INVALID_ARGUMENT (no logits; a NaN or infinity: its token is named; none that may be picked),
    ///          RESOURCE_EXHAUSTED
    /// @since   0.3
    /// ```
    pub fn qr_sampler_pick(sampler: *mut qr_sampler, logits: *const f32, count: u64, out_token: *mut i64) -> *mut qr_status;

    /// ```text
    /// Says which tokens were there, those of the prompt too: repetition_penalty is of them.
    /// @param sampler  borrows.
    /// @param tokens   borrows.
    /// @param count    of the tokens.
    /// @thread  [exclusive:sampler]
    /// @errors  INVALID_ARGUMENT, RESOURCE_EXHAUSTED
    /// @since   0.3
    /// ```
    pub fn qr_sampler_accept(sampler: *mut qr_sampler, tokens: *const i64, count: u64) -> *mut qr_status;

    /// ```text
    /// As new: no token was there, and the seed begins again.
    /// @param sampler  borrows.
    /// @thread  [exclusive:sampler]
    /// @errors  INVALID_ARGUMENT
    /// @since   0.3
    /// ```
    pub fn qr_sampler_reset(sampler: *mut qr_sampler) -> *mut qr_status;

    /// ```text
    /// Frees a sampler. Accepts NULL.
    /// @param sampler  takes.
    /// @thread  [exclusive:sampler]
    /// @errors  none
    /// @since   0.3
    /// ```
    pub fn qr_sampler_destroy(sampler: *mut qr_sampler);

    /// ```text
    /// Creates a generator on a clone of the session (qr_session_clone): weights are shared, the state is its own.
    /// @param session        borrows.
    /// @param options        borrows: may be NULL.
    /// @param call           borrows: may be NULL.
    /// @param out_generator  gives: qr_generator_destroy; it may outlive the session.
    /// @thread  [exclusive:session] [blocking]
    /// @errors  UNSUPPORTED (an input that the generator knows no value for, one that is missing, another type or shape:
    ///          QR-R0032 names it), INVALID_ARGUMENT, and as qr_session_clone
    /// @since   0.3
    /// ```
    pub fn qr_generator_create(session: *mut qr_session, options: *const qr_generator_options, call: *const qr_call_options, out_generator: *mut *mut qr_generator) -> *mut qr_status;

    /// ```text
    /// Makes the sequence these tokens: all of it, what was generated before included. What begins as the sequence before it
    /// did is not run again, so a conversation that goes on costs its new end alone. Where the state cannot be rewound
    /// (a pair that keeps its size) and the beginning is another one, all of it is run. A call that is stopped keeps what
    /// was run: the same call goes on from there.
    /// @param generator  borrows.
    /// @param tokens     borrows.
    /// @param count      of the tokens; at least 1.
    /// @param options    borrows: may be NULL; the timeout of its signal is of all runs together.
    /// @thread  [exclusive:generator] [blocking]
    /// @errors  INVALID_ARGUMENT (no token, a negative one), RESOURCE_EXHAUSTED (QR-R0024: more than state.capacity), and as
    ///          qr_session_run
    /// @since   0.3
    /// ```
    pub fn qr_generator_prompt(generator: *mut qr_generator, tokens: *const i64, count: u64, options: *const qr_run_options) -> *mut qr_status;

    /// ```text
    /// Picks one token and puts it behind the sequence. It is run when the next is asked for.
    /// @param generator  borrows.
    /// @param options    borrows: may be NULL.
    /// @param out_token  borrows: the token; -1 where the reason is QR_END_CAPACITY.
    /// @param out_end    borrows: QR_END_NONE, QR_END_STOP_TOKEN or QR_END_CAPACITY.
    /// @thread  [exclusive:generator] [blocking]
    /// @errors  FAILED_PRECONDITION (QR-R0033: no prompt), INVALID_ARGUMENT (QR-R0034: logits that are no numbers), and as
    ///          qr_session_run
    /// @since   0.3
    /// ```
    pub fn qr_generator_step(generator: *mut qr_generator, options: *const qr_run_options, out_token: *mut i64, out_end: *mut qr_end_reason) -> *mut qr_status;

    /// ```text
    /// Steps until there is a reason to end. An abort and a timeout are such reasons, and no errors: what was generated is
    /// there, and the next call goes on behind it.
    /// @param generator  borrows.
    /// @param options    borrows: may be NULL; the timeout of its signal is of all steps together.
    /// @param sink       borrows: may be NULL.
    /// @param out_count  borrows: how many tokens were picked, a stop token included; may be NULL.
    /// @param out_end    borrows: why it ended.
    /// @thread  [exclusive:generator] [blocking]
    /// @errors  as qr_generator_step, but for CANCELLED and DEADLINE_EXCEEDED
    /// @since   0.3
    /// ```
    pub fn qr_generator_run(generator: *mut qr_generator, options: *const qr_run_options, sink: *const qr_token_sink, out_count: *mut u64, out_end: *mut qr_end_reason) -> *mut qr_status;

    /// ```text
    /// The logits of the next token, for a choice of the program's own: grammars, beams, several models. qr_generator_accept
    /// goes on with what was chosen.
    /// @param generator   borrows.
    /// @param options     borrows: may be NULL.
    /// @param out_logits  borrows: until the next call on the generator; one for each token of the vocabulary.
    /// @param out_count   borrows: of the logits.
    /// @thread  [exclusive:generator] [blocking]
    /// @errors  FAILED_PRECONDITION (QR-R0033: no prompt), RESOURCE_EXHAUSTED (QR-R0024: the state is full), and as
    ///          qr_session_run
    /// @since   0.3
    /// ```
    pub fn qr_generator_logits(generator: *mut qr_generator, options: *const qr_run_options, out_logits: *mut *const f32, out_count: *mut u64) -> *mut qr_status;

    /// ```text
    /// Puts a token behind the sequence, as qr_generator_step does with the one that it picks.
    /// @param generator  borrows.
    /// @param token      from 0.
    /// @thread  [exclusive:generator]
    /// @errors  INVALID_ARGUMENT, RESOURCE_EXHAUSTED
    /// @since   0.3
    /// ```
    pub fn qr_generator_accept(generator: *mut qr_generator, token: i64) -> *mut qr_status;

    /// ```text
    /// Forgets the tokens from `length` on.
    /// @param generator  borrows.
    /// @param length     at most the sequence's; 0: all is forgotten, and the seed begins again.
    /// @thread  [exclusive:generator]
    /// @errors  OUT_OF_RANGE (past the sequence), UNSUPPORTED (a pair that keeps its size goes back to 0 alone)
    /// @since   0.3
    /// ```
    pub fn qr_generator_rewind(generator: *mut qr_generator, length: u64) -> *mut qr_status;

    /// ```text
    /// The sequence so far.
    /// @param generator  borrows.
    /// @param out_info   borrows: set its struct_size.
    /// @thread  [exclusive:generator]
    /// @errors  INVALID_ARGUMENT
    /// @since   0.3
    /// ```
    pub fn qr_generator_sequence(generator: *mut qr_generator, out_info: *mut qr_sequence_info) -> *mut qr_status;

    /// ```text
    /// The state that the generator's session keeps: to save it, or to ask for its size. It is changed by the generator
    /// alone, but for qr_state_load of what was saved, which qr_generator_restore has to hear of.
    /// @param generator  borrows.
    /// @param out_state  gives: qr_state_destroy.
    /// @thread  [exclusive:generator]
    /// @errors  FAILED_PRECONDITION (QR-R0023: the session keeps none)
    /// @since   0.3
    /// ```
    pub fn qr_generator_state(generator: *mut qr_generator, out_state: *mut *mut qr_state) -> *mut qr_status;

    /// ```text
    /// Says which tokens the state has, after qr_state_load: a long prompt that many conversations begin with is run once.
    /// @param generator  borrows.
    /// @param tokens     borrows: those of the sequence when the state was saved (qr_sequence_info: the first `run`).
    /// @param count      must be the length of the state, where it knows its length.
    /// @thread  [exclusive:generator]
    /// @errors  INVALID_ARGUMENT (another count), FAILED_PRECONDITION (the session keeps no state), RESOURCE_EXHAUSTED
    /// @since   0.3
    /// ```
    pub fn qr_generator_restore(generator: *mut qr_generator, tokens: *const i64, count: u64) -> *mut qr_status;

    /// ```text
    /// Frees a generator. Accepts NULL.
    /// @param generator  takes.
    /// @thread  [exclusive:generator]
    /// @errors  none
    /// @since   0.3
    /// ```
    pub fn qr_generator_destroy(generator: *mut qr_generator);
}

/// Sizes and offsets as tests/abi/abi.txt has them: another layout does not compile.
const _: () = {
    assert!(size_of::<qr_sampler_options>() == 40);
    assert!(core::mem::offset_of!(qr_sampler_options, struct_size) == 0);
    assert!(core::mem::offset_of!(qr_sampler_options, top_k) == 4);
    assert!(core::mem::offset_of!(qr_sampler_options, temperature) == 8);
    assert!(core::mem::offset_of!(qr_sampler_options, top_p) == 12);
    assert!(core::mem::offset_of!(qr_sampler_options, min_p) == 16);
    assert!(core::mem::offset_of!(qr_sampler_options, repetition_penalty) == 20);
    assert!(core::mem::offset_of!(qr_sampler_options, repetition_window) == 24);
    assert!(core::mem::offset_of!(qr_sampler_options, seed) == 32);
    assert!(size_of::<qr_generator_options>() == 64);
    assert!(core::mem::offset_of!(qr_generator_options, struct_size) == 0);
    assert!(core::mem::offset_of!(qr_generator_options, reserved) == 4);
    assert!(core::mem::offset_of!(qr_generator_options, sampler) == 8);
    assert!(core::mem::offset_of!(qr_generator_options, stop_tokens) == 16);
    assert!(core::mem::offset_of!(qr_generator_options, stop_token_count) == 24);
    assert!(core::mem::offset_of!(qr_generator_options, max_new_tokens) == 32);
    assert!(core::mem::offset_of!(qr_generator_options, prompt_chunk) == 40);
    assert!(core::mem::offset_of!(qr_generator_options, names) == 48);
    assert!(size_of::<qr_token_sink>() == 24);
    assert!(core::mem::offset_of!(qr_token_sink, struct_size) == 0);
    assert!(core::mem::offset_of!(qr_token_sink, reserved) == 4);
    assert!(core::mem::offset_of!(qr_token_sink, self_) == 8);
    assert!(core::mem::offset_of!(qr_token_sink, token) == 16);
    assert!(size_of::<qr_sequence_info>() == 56);
    assert!(core::mem::offset_of!(qr_sequence_info, struct_size) == 0);
    assert!(core::mem::offset_of!(qr_sequence_info, reserved) == 4);
    assert!(core::mem::offset_of!(qr_sequence_info, tokens) == 8);
    assert!(core::mem::offset_of!(qr_sequence_info, count) == 16);
    assert!(core::mem::offset_of!(qr_sequence_info, run) == 24);
    assert!(core::mem::offset_of!(qr_sequence_info, reused) == 32);
    assert!(core::mem::offset_of!(qr_sequence_info, capacity) == 40);
    assert!(core::mem::offset_of!(qr_sequence_info, vocabulary) == 48);
};
