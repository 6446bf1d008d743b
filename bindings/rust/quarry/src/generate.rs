// SPDX-License-Identifier: Apache-2.0
//! Tokens of a session that is a language model (feature `generate`).
use crate::error::{Result, check, handle};
use crate::model::Call;
use crate::session::{RunOptions, Session};
use crate::state::State;
use quarry_sys as sys;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

handle!(sys::qr_generator, sys::qr_generator_destroy);

/// How tokens are picked and when they end; see qr_sampler_options and qr_generator_options. The default takes the most probable token, until the state
/// is full.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct GeneratorOptions {
    /// Logits are divided by it; 0: the largest is taken, and none is drawn.
    pub temperature: f32,
    pub top_p: f32,
    pub min_p: f32,
    pub repetition_penalty: f32,
    pub top_k: u32,
    /// Of how many of the last tokens; 0: of all.
    pub repetition_window: u64,
    pub seed: u64,
    /// At which a model ends.
    pub stop_tokens: Vec<i64>,
    /// Of a [`Generator::run`]; 0: until something else ends it.
    pub max_new_tokens: u64,
    /// So many tokens of a prompt are one run; 0: 256.
    pub prompt_chunk: u64,
    /// Where the model's names are others: "input_ids=tokens,logits=scores".
    pub names: String,
}

/// Why tokens end.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// One of the stop tokens was picked: it is the last of the sequence.
    StopToken,
    /// As many as were wanted.
    Length,
    /// The state is full (option `state.capacity`).
    Capacity,
    /// What each token is shown to said so.
    Callback,
    /// The signal was aborted.
    Aborted,
    /// The signal's timeout ran out.
    Deadline,
}

/// What a generator has.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sequence {
    /// All of it.
    pub tokens: Vec<i64>,
    /// Of them, those that the state has.
    pub run: u64,
    /// Of the last prompt, those that were not run again.
    pub reused: u64,
    /// So many tokens have room; 0: no end is known.
    pub capacity: u64,
    /// 0: before the first run, where the model does not say it.
    pub vocabulary: u64,
}

/// Makes tokens on a clone of a session, with which it shares weights.
///
/// ```no_run
/// use quarry::{Generator, GeneratorOptions, Model, Options, Runtime, RunOptions, Session};
/// use std::ops::ControlFlow;
///
/// # fn main() -> quarry::Result<()> {
/// let runtime = Runtime::new()?;
/// let options = Options::new(&runtime)?.with("state", "auto")?;
/// let session = &mut Session::new(&Model::open(&runtime, "model.onnx", Some(&options))?, Some(&options))?;
/// let mut generator = Generator::new(session, &GeneratorOptions { max_new_tokens: 100, ..Default::default() })?;
/// generator.prompt(&[1, 15043, 29892], RunOptions::default())?;
/// generator.run(RunOptions::default(), |token| {
///     print!("{token} ");
///     ControlFlow::Continue(())
/// })?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Generator<'d> {
    handle: Handle,
    _data: PhantomData<&'d [u8]>,
}

// SAFETY: everything of a generator's takes &mut self.
unsafe impl Send for Generator<'_> {}
unsafe impl Sync for Generator<'_> {}

impl<'d> Generator<'d> {
    /// Of a session with the option "state"; one without is given all tokens in each run.
    pub fn new(session: &mut Session<'d>, options: &GeneratorOptions) -> Result<Self> {
        Self::with_call(session, options, Call::new())
    }
    /// The same, watched.
    pub fn with_call(session: &mut Session<'d>, options: &GeneratorOptions, call: Call<'_>) -> Result<Self> {
        let mut sampler = sys::qr_sampler_options::INIT;
        (sampler.temperature, sampler.top_p, sampler.min_p) = (options.temperature, options.top_p, options.min_p);
        (sampler.repetition_penalty, sampler.top_k) = (options.repetition_penalty, options.top_k);
        (sampler.repetition_window, sampler.seed) = (options.repetition_window, options.seed);
        let mut c = sys::qr_generator_options::INIT;
        c.sampler = &sampler;
        (c.stop_tokens, c.stop_token_count) = (options.stop_tokens.as_ptr(), options.stop_tokens.len() as u64);
        c.prompt_chunk = options.prompt_chunk;
        (c.names, c.max_new_tokens) = (sys::qr_string::new(&options.names), options.max_new_tokens);
        // SAFETY: the session is ours alone; everything lives until the call returns.
        call.with(|call| Handle::make(|out| unsafe { sys::qr_generator_create(session.get(), &c, call, out) }))
            .map(|handle| Self { handle, _data: PhantomData })
    }
    /// Makes the sequence these tokens: all of it, what was generated before included. What begins as the sequence before it did is not run again.
    pub fn prompt(&mut self, tokens: &[i64], options: RunOptions<'_>) -> Result<()> {
        // SAFETY: ours alone; the tokens are borrowed for the call.
        check(unsafe { sys::qr_generator_prompt(self.handle.get(), tokens.as_ptr(), tokens.len() as u64, &options.into_c()) })
    }
    /// Picks one token and puts it behind the sequence; none where the state is full. It may be the last.
    pub fn step(&mut self, options: RunOptions<'_>) -> Result<(Option<i64>, Option<End>)> {
        let (mut token, mut end) = (-1, sys::QR_END_NONE);
        // SAFETY: ours alone.
        check(unsafe { sys::qr_generator_step(self.handle.get(), &options.into_c(), &mut token, &mut end) })?;
        Ok(match end {
            sys::QR_END_CAPACITY => (None, Some(End::Capacity)),
            sys::QR_END_STOP_TOKEN => (Some(token), Some(End::StopToken)),
            _ => (Some(token), None),
        })
    }
    /// Picks tokens until there is a reason to end, and gives how many there were. `show` gets each but a stop token. An abort and a timeout, which is of all
    /// tokens together, are such reasons, and no errors: the next call goes on behind what was generated.
    pub fn run(&mut self, options: RunOptions<'_>, mut show: impl FnMut(i64) -> ControlFlow<()>) -> Result<(u64, End)> {
        let mut showing = Showing { show: &mut show, panicked: None };
        let sink = sys::qr_token_sink { self_: (&raw mut showing).cast(), token: Some(shown), ..sys::qr_token_sink::INIT };
        let (mut count, mut end) = (0, sys::QR_END_NONE);
        // SAFETY: ours alone; the sink lives until the call returns.
        let made = check(unsafe { sys::qr_generator_run(self.handle.get(), &options.into_c(), &sink, &mut count, &mut end) });
        if let Some(panic) = showing.panicked {
            resume_unwind(panic);
        }
        made?;
        let end = match end {
            sys::QR_END_STOP_TOKEN => End::StopToken,
            sys::QR_END_LENGTH => End::Length,
            sys::QR_END_CAPACITY => End::Capacity,
            sys::QR_END_CALLBACK => End::Callback,
            sys::QR_END_ABORTED => End::Aborted,
            _ => End::Deadline,
        };
        Ok((count, end))
    }
    /// The logits of the next token, for a choice of the program's own: [`Generator::accept`] goes on with what was chosen.
    pub fn logits(&mut self, options: RunOptions<'_>) -> Result<&[f32]> {
        let (mut logits, mut count) = (std::ptr::null(), 0);
        // SAFETY: ours alone; the logits stay until the next call, which takes the generator mutably.
        unsafe {
            check(sys::qr_generator_logits(self.handle.get(), &options.into_c(), &mut logits, &mut count))?;
            Ok(std::slice::from_raw_parts(logits, count as usize))
        }
    }
    /// Puts a token behind the sequence, as [`Generator::step`] does with the one that it picks.
    pub fn accept(&mut self, token: i64) -> Result<()> {
        // SAFETY: ours alone.
        check(unsafe { sys::qr_generator_accept(self.handle.get(), token) })
    }
    /// Forgets the tokens from `length` on; 0: all, and the seed begins again.
    pub fn rewind(&mut self, length: u64) -> Result<()> {
        // SAFETY: ours alone.
        check(unsafe { sys::qr_generator_rewind(self.handle.get(), length) })
    }
    /// What there is so far.
    pub fn sequence(&mut self) -> Result<Sequence> {
        let mut info = sys::qr_sequence_info::INIT;
        // SAFETY: ours alone; the tokens are copied before the next call.
        unsafe {
            check(sys::qr_generator_sequence(self.handle.get(), &mut info))?;
            let tokens = if info.count == 0 { &[] } else { std::slice::from_raw_parts(info.tokens, info.count as usize) };
            Ok(Sequence { tokens: tokens.to_vec(), run: info.run, reused: info.reused, capacity: info.capacity, vocabulary: info.vocabulary })
        }
    }
    /// What the generator's session keeps: to save it, or to ask for its size. After its load, call [`Generator::restore`].
    pub fn state(&mut self) -> Result<State> {
        // SAFETY: ours alone.
        State::made(|out| unsafe { sys::qr_generator_state(self.handle.get(), out) })
    }
    /// Says which tokens a state that was loaded has: the first [`Sequence::run`] of the sequence when it was saved.
    pub fn restore(&mut self, tokens: &[i64]) -> Result<()> {
        // SAFETY: ours alone; the tokens are borrowed for the call.
        check(unsafe { sys::qr_generator_restore(self.handle.get(), tokens.as_ptr(), tokens.len() as u64) })
    }
}

struct Showing<'s> {
    show: &'s mut dyn FnMut(i64) -> ControlFlow<()>,
    panicked: Option<Box<dyn std::any::Any + Send>>,
}

unsafe extern "C" fn shown(showing: *mut c_void, token: i64) -> i32 {
    // SAFETY: the Showing of run(), which waits for the call. A panic ends the run and waits for that.
    let showing = unsafe { &mut *showing.cast::<Showing<'_>>() };
    match catch_unwind(AssertUnwindSafe(|| (showing.show)(token))) {
        Ok(ControlFlow::Continue(())) => return sys::QR_GO_ON as i32,
        Ok(ControlFlow::Break(())) => (),
        Err(panic) => showing.panicked = Some(panic),
    }
    sys::QR_STOP as i32
}
