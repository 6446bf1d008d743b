// SPDX-License-Identifier: Apache-2.0
//! Tokens of a session that is a language model (feature `generate`).
use crate::error::{Code, Result, check, handle};
use crate::model::Call;
use crate::session::{RunOptions, Session};
use crate::state::State;
use quarry_sys as sys;
use std::marker::PhantomData;
use std::ops::ControlFlow;

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
    most: u64,
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
        c.names = sys::qr_string::new(&options.names);
        // SAFETY: the session is ours alone; everything lives until the call returns.
        call.with(|call| Handle::make(|out| unsafe { sys::qr_generator_create(session.get(), &c, call, out) }))
            .map(|handle| Self { handle, most: options.max_new_tokens, _data: PhantomData })
    }
    /// Makes the sequence these tokens: all of it, what was generated before included. What begins as the sequence before it did is not run again.
    pub fn prompt(&mut self, tokens: &[i64], options: RunOptions<'_>) -> Result<()> {
        // SAFETY: ours alone; the tokens are borrowed for the call.
        check(unsafe { sys::qr_generator_prompt(self.handle.get(), tokens.as_ptr(), tokens.len() as u64, &options.into_c()) })
    }
    /// Picks one token and puts it behind the sequence; none where the state is full. It may be the last.
    pub fn step(&mut self, options: RunOptions<'_>) -> Result<(Option<i64>, Option<End>)> {
        self.step_with(&options.into_c())
    }
    fn step_with(&mut self, options: &sys::qr_run_options) -> Result<(Option<i64>, Option<End>)> {
        let (mut token, mut end) = (-1, sys::QR_END_NONE);
        // SAFETY: ours alone.
        check(unsafe { sys::qr_generator_step(self.handle.get(), options, &mut token, &mut end) })?;
        Ok(match end {
            sys::QR_END_CAPACITY => (None, Some(End::Capacity)),
            sys::QR_END_STOP_TOKEN => (Some(token), Some(End::StopToken)),
            _ => (Some(token), None),
        })
    }
    /// Picks tokens until there is a reason to end, and gives how many there were. `show` gets each but a stop token. An abort and a timeout are such
    /// reasons, and no errors: the next call goes on behind what was generated.
    pub fn run(&mut self, options: RunOptions<'_>, mut show: impl FnMut(i64) -> ControlFlow<()>) -> Result<(u64, End)> {
        let c = options.into_c();
        let mut count = 0;
        loop {
            if self.most > 0 && count == self.most {
                return Ok((count, End::Length));
            }
            match self.step_with(&c) {
                Err(error) if error.code() == Code::Cancelled => return Ok((count, End::Aborted)),
                Err(error) if error.code() == Code::DeadlineExceeded => return Ok((count, End::Deadline)),
                Err(error) => return Err(error),
                Ok((token, end)) => {
                    count += u64::from(token.is_some());
                    if let Some(end) = end {
                        return Ok((count, end));
                    }
                    if token.is_some_and(|token| show(token).is_break()) {
                        return Ok((count, End::Callback));
                    }
                }
            }
        }
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
