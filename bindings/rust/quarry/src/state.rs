// SPDX-License-Identifier: Apache-2.0
//! What a session keeps from run to run (option "state").
use crate::error::{Error, Result, check, handle, string};
use crate::model::Call;
use crate::queue::OwnedTensor;
use crate::session::Session;
use crate::target::Target;
use crate::tensor::{DType, TensorRef, shape_of};
use quarry_sys as sys;

handle!(sys::qr_state, sys::qr_state_destroy);

/// A pair of input and output that a session keeps; see qr_state_info.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateTensor {
    /// What reads it.
    pub input: String,
    /// What gives it anew.
    pub output: String,
    /// Along which it grows; None: it keeps its size.
    pub axis: Option<usize>,
    /// Its type.
    pub dtype: DType,
    /// Now; None: the next run says.
    pub shape: Vec<Option<usize>>,
    /// Entries along the axis that there is room for; 0: it keeps its size.
    pub capacity: u64,
    /// Of memory that is held.
    pub bytes: u64,
}

/// The values of the pairs: [`Session::state`], or a fork of one. It may outlive the session.
///
/// A session runs one state at a time; [`Session::set_state`] has it go on from another, of a beam or of another conversation.
#[derive(Debug)]
pub struct State(Handle);

// SAFETY: what is [exclusive:state] is refused where calls overlap, and takes &mut self where it changes something.
unsafe impl Send for State {}

impl State {
    #[cfg(feature = "generate")]
    pub(crate) fn made(call: impl FnOnce(*mut *mut sys::qr_state) -> *mut sys::qr_status) -> Result<Self> {
        Handle::make(call).map(Self)
    }
    /// The pairs, in the order of the model's inputs.
    pub fn tensors(&mut self) -> Result<Vec<StateTensor>> {
        // SAFETY: [thread-safe]
        let count = unsafe { sys::qr_state_count(self.0.get()) };
        (0..count)
            .map(|index| {
                let mut info = sys::qr_state_info::INIT;
                // SAFETY: ours alone.
                check(unsafe { sys::qr_state_tensor(self.0.get(), index, &mut info) })?;
                Ok(StateTensor {
                    // SAFETY: both live as long as the state.
                    input: unsafe { string(info.input) },
                    // SAFETY: likewise.
                    output: unsafe { string(info.output) },
                    axis: usize::try_from(info.axis).ok(),
                    dtype: DType::of(info.dtype),
                    shape: info.dims[..info.rank as usize].iter().map(|dim| usize::try_from(*dim).ok()).collect(),
                    capacity: info.capacity,
                    bytes: info.bytes,
                })
            })
            .collect()
    }
    /// How many entries the pairs that grow have: the tokens so far, of a decoder. 0 where none grows.
    pub fn length(&mut self) -> Result<u64> {
        let mut length = 0;
        // SAFETY: ours alone.
        check(unsafe { sys::qr_state_length(self.0.get(), &mut length) })?;
        Ok(length)
    }
    /// How many entries the option `state.window` has dropped: the next token's position is this and the length.
    pub fn dropped(&mut self) -> Result<u64> {
        let mut dropped = 0;
        // SAFETY: ours alone.
        check(unsafe { sys::qr_state_dropped(self.0.get(), &mut dropped) })?;
        Ok(dropped)
    }
    /// Empties it: no entries, and zeros.
    pub fn reset(&mut self) -> Result<()> {
        // SAFETY: ours alone.
        check(unsafe { sys::qr_state_reset(self.0.get()) })
    }
    /// Forgets the entries from `length` on.
    pub fn rewind(&mut self, length: u64) -> Result<()> {
        // SAFETY: ours alone.
        check(unsafe { sys::qr_state_rewind(self.0.get(), length) })
    }
    /// A copy, which goes on by itself.
    pub fn fork(&mut self) -> Result<State> {
        // SAFETY: ours alone.
        Handle::make(|out| unsafe { sys::qr_state_fork(self.0.get(), out) }).map(Self)
    }
    /// Writes it for [`State::load`].
    pub fn save(&mut self, target: Target<'_>, call: Call<'_>) -> Result<()> {
        // SAFETY: ours alone; everything lives until the call returns.
        call.with(|call| target.with(|to| check(unsafe { sys::qr_state_save(self.0.get(), to, call) })))
    }
    /// Makes it what was saved, by a session of the same model. On failure nothing has changed.
    pub fn load(&mut self, saved: &[u8]) -> Result<()> {
        // SAFETY: ours alone; the bytes are borrowed for the call.
        check(unsafe { sys::qr_state_load(self.0.get(), saved.as_ptr().cast(), saved.len() as u64) })
    }
    /// A copy of one pair's values: that of an input, or of an output.
    pub fn read(&mut self, name: &str) -> Result<OwnedTensor> {
        let index = self.place(name)?;
        let mut asked = sys::qr_tensor::INIT;
        // SAFETY: ours alone; without data the type and the shape alone are set.
        check(unsafe { sys::qr_state_read(self.0.get(), index, &mut asked) })?;
        let mut made = OwnedTensor::zeros(DType::of(asked.dtype), &shape_of(&asked))?;
        let mut view = made.view();
        // SAFETY: ours alone; the view has the room that was asked for.
        check(unsafe { sys::qr_state_read(self.0.get(), index, &mut view) })?;
        Ok(made)
    }
    /// Replaces one pair's values. One that grows may get another length.
    pub fn write(&mut self, name: &str, values: &TensorRef<'_>) -> Result<()> {
        let index = self.place(name)?;
        // SAFETY: ours alone; the values are borrowed for the call.
        check(unsafe { sys::qr_state_write(self.0.get(), index, &values.c) })
    }
    fn place(&mut self, name: &str) -> Result<u64> {
        let tensors = self.tensors()?;
        tensors.iter().position(|pair| pair.input == name || pair.output == name).map(|place| place as u64).ok_or_else(|| {
            let known: Vec<_> = tensors.iter().map(|pair| format!("'{}'", pair.input)).collect();
            Error::refused(format!("found no pair '{name}' in the state, expected one of {}", known.join(", ")), "")
        })
    }
}

impl Session<'_> {
    /// The state that the next run goes on from. An error where the session keeps none (option "state").
    pub fn state(&mut self) -> Result<State> {
        // SAFETY: ours alone.
        Handle::make(|out| unsafe { sys::qr_session_state(self.get(), out) }).map(State)
    }
    /// Has runs go on from another state, of this session or of a clone of it.
    pub fn set_state(&mut self, state: &State) -> Result<()> {
        // SAFETY: ours alone; the library keeps the state alive.
        check(unsafe { sys::qr_session_set_state(self.get(), state.0.get()) })
    }
}
