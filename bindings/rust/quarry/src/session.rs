// SPDX-License-Identifier: Apache-2.0
//! Sessions: a model made ready to run on one backend.
use crate::error::{Error, Result, check, handle, path_text, taken};
use crate::memory::{Access, Memory, options};
use crate::model::{Call, Model, TensorInfo};
use crate::profile::Profile;
use crate::runtime::{Options, Signal, raw};
use crate::tensor::{DType, Element, TensorMut, TensorRef, shape_of};
use quarry_sys as sys;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

handle!(sys::qr_session, sys::qr_session_destroy);

/// Tensors whose pointers stand on the stack; more cost an allocation in each run.
const FEW: usize = 16;

/// What a session needs, in bytes; see qr_memory_plan.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct MemoryPlan {
    pub weights_bytes: u64,
    pub arena_bytes: u64,
    pub io_bytes: u64,
    pub device_bytes: u64,
    pub scratchpad_bytes: u64,
    pub spill_fill_bytes: u64,
}

/// What one of a session's shape buckets takes and gives.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct Bucket {
    pub inputs: Vec<TensorInfo>,
    pub outputs: Vec<TensorInfo>,
}

/// What goes with one run.
#[derive(Default)]
pub struct RunOptions<'a> {
    /// Aborts or limits the run.
    pub signal: Option<&'a Signal>,
    /// Receives its events.
    pub profile: Option<&'a mut Profile>,
}

impl RunOptions<'_> {
    /// For a call that signal and profile outlive.
    pub(crate) fn into_c(self) -> sys::qr_run_options {
        let mut c = sys::qr_run_options::INIT;
        c.signal = Signal::or_null(self.signal);
        c.profile = self.profile.map_or(std::ptr::null_mut(), |profile| profile.get());
        c
    }
}

/// What inputs and outputs are called.
struct Names {
    inputs: Vec<String>,
    outputs: Vec<String>,
}

/// One execution state of a model on one backend. Runs take `&mut self`; [`Session::try_clone`] gives another thread its own.
pub struct Session<'d> {
    handle: Handle,
    runtime: Arc<raw::Handle>, // signals of calls are made of it
    results: Vec<sys::qr_tensor>,
    types: Vec<DType>, // of the outputs
    inputs: usize,
    names: Names,
    _data: PhantomData<&'d [u8]>,
}

// SAFETY: what is [exclusive:session] takes &mut self; the tensors in `results` are looked at through it alone.
unsafe impl Send for Session<'_> {}
unsafe impl Sync for Session<'_> {}

impl<'d> Session<'d> {
    /// Makes a model ready on the backend that the option "backend" names; without options on cpu.
    pub fn new(model: &Model<'d>, options: Option<&Options>) -> Result<Self> {
        Self::with_call(model, options, Call::new())
    }
    /// The same, watched.
    pub fn with_call(model: &Model<'d>, options: Option<&Options>, call: Call<'_>) -> Result<Self> {
        // SAFETY: [thread-safe]; everything lives until the call returns.
        call.with(|call| Handle::make(|out| unsafe { sys::qr_session_create(model.get(), Options::or_null(options), call, out) }))
            .and_then(|handle| Self::of(handle, model.share()))
    }
    fn of(handle: Handle, runtime: Arc<raw::Handle>) -> Result<Self> {
        // SAFETY: [thread-safe]
        let (inputs, outputs) = unsafe { (sys::qr_session_input_count(handle.get()), sys::qr_session_output_count(handle.get())) };
        let mut types = Vec::with_capacity(outputs as usize);
        let mut names = Names { inputs: Vec::with_capacity(inputs as usize), outputs: Vec::with_capacity(outputs as usize) };
        for index in 0..inputs {
            // SAFETY: [thread-safe]
            names.inputs.push(TensorInfo::ask(|out| unsafe { sys::qr_session_input(handle.get(), index, out) })?.name);
        }
        for index in 0..outputs {
            // SAFETY: [thread-safe]
            let info = TensorInfo::ask(|out| unsafe { sys::qr_session_output(handle.get(), index, out) })?;
            types.push(info.dtype);
            names.outputs.push(info.name);
        }
        Ok(Self { handle, runtime, results: vec![sys::qr_tensor::INIT; outputs as usize], types, inputs: inputs as usize, names, _data: PhantomData })
    }
    /// Room that is of a type is for outputs of that type: nothing is written before it is known.
    #[inline]
    pub(crate) fn check_types(&self, wanted: impl Iterator<Item = DType>) -> Result<()> {
        for (index, (wanted, is)) in wanted.zip(&self.types).enumerate() {
            if wanted != *is && wanted != DType::Unknown {
                return Err(other_type(index, wanted, *is));
            }
        }
        Ok(())
    }
    /// What a session would need, without making one.
    pub fn plan(model: &Model<'d>, options: Option<&Options>) -> Result<MemoryPlan> {
        Self::plan_with(model, options, Call::new())
    }
    /// The same, watched.
    pub fn plan_with(model: &Model<'d>, options: Option<&Options>, call: Call<'_>) -> Result<MemoryPlan> {
        let mut plan = sys::qr_memory_plan::INIT;
        // SAFETY: [thread-safe]; everything lives until the call returns.
        call.with(|call| check(unsafe { sys::qr_session_plan(model.get(), Options::or_null(options), call, &mut plan) }))?;
        Ok(MemoryPlan {
            weights_bytes: plan.weights_bytes,
            arena_bytes: plan.arena_bytes,
            io_bytes: plan.io_bytes,
            device_bytes: plan.device_bytes,
            scratchpad_bytes: plan.scratchpad_bytes,
            spill_fill_bytes: plan.spill_fill_bytes,
        })
    }
    /// Another execution state: shares weights and programs, has its own working memory.
    pub fn try_clone(&mut self) -> Result<Session<'d>> {
        self.try_clone_with(Call::new())
    }
    /// The same, watched.
    pub fn try_clone_with(&mut self, call: Call<'_>) -> Result<Session<'d>> {
        let runtime = Arc::clone(&self.runtime);
        // SAFETY: ours alone; everything lives until the call returns.
        call.with(|call| Handle::make(|out| unsafe { sys::qr_session_clone(self.get(), call, out) }))
            .and_then(|handle| Self::of(handle, runtime))
    }
    #[inline]
    pub(crate) fn get(&self) -> *mut sys::qr_session {
        self.handle.get()
    }
    /// What it expects.
    pub fn inputs(&self) -> Result<Vec<TensorInfo>> {
        // SAFETY: [thread-safe]
        (0..self.inputs as u64).map(|i| TensorInfo::ask(|out| unsafe { sys::qr_session_input(self.get(), i, out) })).collect()
    }
    /// What it gives.
    pub fn outputs(&self) -> Result<Vec<TensorInfo>> {
        // SAFETY: [thread-safe]
        (0..self.results.len() as u64).map(|i| TensorInfo::ask(|out| unsafe { sys::qr_session_output(self.get(), i, out) })).collect()
    }

    /// The shape buckets that runs choose from (option "shape"); none while a container that does not suit is compiled in the background.
    pub fn buckets(&self) -> Result<Vec<Bucket>> {
        // SAFETY: [thread-safe]
        unsafe {
            let ask = |count: usize, asked: unsafe extern "C" fn(*const sys::qr_session, u64, u64, *mut sys::qr_tensor_info) -> *mut sys::qr_status, bucket| {
                (0..count as u64).map(|i| TensorInfo::ask(|out| asked(self.get(), bucket, i, out))).collect::<Result<Vec<_>>>()
            };
            (0..sys::qr_session_bucket_count(self.get()))
                .map(|bucket| {
                    Ok(Bucket {
                        inputs: ask(self.inputs, sys::qr_session_bucket_input, bucket)?,
                        outputs: ask(self.results.len(), sys::qr_session_bucket_output, bucket)?,
                    })
                })
                .collect()
        }
    }

    /// Runs the network. The outputs lie in the session's memory: they borrow it until the next run.
    #[inline]
    pub fn run(&mut self, inputs: &[TensorRef<'_>]) -> Result<Outputs<'_>> {
        self.run_with(inputs, RunOptions::default())
    }
    /// The same with a signal or a profile.
    pub fn run_with(&mut self, inputs: &[TensorRef<'_>], options: RunOptions<'_>) -> Result<Outputs<'_>> {
        let session = self.get();
        for result in &mut self.results {
            (result.data, result.size_bytes, result.memory, result.flags) = (std::ptr::null_mut(), 0, std::ptr::null_mut(), 0);
        }
        let results = self.results.as_mut_ptr();
        // SAFETY: ours alone; TensorRef is a qr_tensor whose data live for the call.
        unsafe { run_tensors(session, options, inputs.as_ptr().cast(), inputs.len(), |i| results.add(i), self.results.len()) }?;
        Ok(Outputs { tensors: &self.results, names: &self.names.outputs })
    }
    /// The same with inputs by their names, in any order: `session.run_named(&[("image", tensor)])`.
    pub fn run_named(&mut self, inputs: &[(&str, TensorRef<'_>)]) -> Result<Outputs<'_>> {
        self.run_named_with(inputs, RunOptions::default())
    }
    /// The same with a signal or a profile.
    pub fn run_named_with(&mut self, inputs: &[(&str, TensorRef<'_>)], options: RunOptions<'_>) -> Result<Outputs<'_>> {
        let given = self.in_order(inputs)?;
        self.run_with(&given, options)
    }
    fn in_order<'t>(&self, inputs: &[(&str, TensorRef<'t>)]) -> Result<Vec<TensorRef<'t>>> {
        let refused = || {
            let found: Vec<_> = inputs.iter().map(|(name, _)| *name).collect();
            Error::refused(format!("found the inputs {found:?}, expected {:?}", self.names.inputs), "give each input once, by its name")
        };
        if inputs.len() != self.names.inputs.len() {
            return Err(refused());
        }
        self.names.inputs.iter().map(|wanted| inputs.iter().find(|(name, _)| name == wanted).map(|(_, tensor)| *tensor).ok_or_else(refused)).collect()
    }
    /// Runs the network into the caller's room, whose tensors then have the results' shapes. Room of another type than the output is an error.
    #[inline]
    pub fn run_into(&mut self, inputs: &[TensorRef<'_>], outputs: &mut [TensorMut<'_>], options: RunOptions<'_>) -> Result<()> {
        self.check_types(outputs.iter().map(TensorMut::wanted))?;
        outputs.iter_mut().for_each(TensorMut::prepare);
        let (count, places) = (outputs.len(), outputs.as_mut_ptr());
        // SAFETY: as run_with(); the tensor in a TensorMut has room that is the caller's for the call.
        unsafe { run_tensors(self.get(), options, inputs.as_ptr().cast(), inputs.len(), |i| TensorMut::place(places.add(i)), count) }
    }
    /// Runs each shape bucket once on zeros, so that the next run takes as long as those after it; the option "warm_up" does so when a session is made.
    pub fn warm_up(&mut self, options: RunOptions<'_>) -> Result<()> {
        // SAFETY: ours alone; signal and profile live for the call.
        check(unsafe { sys::qr_session_warm_up(self.get(), &options.into_c()) })
    }
    /// Changes an option that may change at run time.
    pub fn set_option(&mut self, key: &str, value: &str) -> Result<()> {
        // SAFETY: ours alone.
        check(unsafe { sys::qr_session_set_option(self.get(), sys::qr_string::new(key), sys::qr_string::new(value)) })
    }
    /// The same of an option that names a file, by a name of any bytes.
    pub fn set_option_path(&mut self, key: &str, value: impl AsRef<std::path::Path>) -> Result<()> {
        // SAFETY: ours alone.
        check(unsafe { sys::qr_session_set_option(self.get(), sys::qr_string::new(key), path_text(value.as_ref().as_os_str())) })
    }
    /// Brings the device back after DeviceLost.
    pub fn recover(&mut self) -> Result<()> {
        self.recover_with(Call::new())
    }
    /// The same, watched.
    pub fn recover_with(&mut self, call: Call<'_>) -> Result<()> {
        // SAFETY: ours alone; everything lives until the call returns.
        call.with(|call| check(unsafe { sys::qr_session_recover(self.get(), call) }))
    }
    /// What the session is, as JSON (qr_session_report).
    pub fn report(&mut self) -> Result<String> {
        // SAFETY: ours alone.
        taken(|out| unsafe { sys::qr_session_report(self.get(), out) })
    }
}

#[cold]
fn other_type(index: usize, wanted: DType, is: DType) -> Error {
    Error::refused(
        format!("output {index}: found room of {}, expected {}", wanted.name(), is.name()),
        "give room of the type that Session::outputs() names, or bytes",
    )
}

/// # Safety
/// The tensors are as qr_session_run wants them (`output(i)` for each i below output_count), and their data live until it returns.
#[inline]
unsafe fn run_tensors(
    session: *mut sys::qr_session, options: RunOptions<'_>, inputs: *const sys::qr_tensor, input_count: usize,
    output: impl Fn(usize) -> *mut sys::qr_tensor, output_count: usize,
) -> Result<()> {
    let c = options.into_c();
    // SAFETY: as promised by the caller; the arrays of pointers live for the call.
    unsafe {
        if input_count <= FEW && output_count <= FEW {
            let mut ins = [std::ptr::null(); FEW];
            let mut outs = [std::ptr::null_mut(); FEW];
            for (i, place) in ins[..input_count].iter_mut().enumerate() {
                *place = inputs.add(i);
            }
            for (i, place) in outs[..output_count].iter_mut().enumerate() {
                *place = output(i);
            }
            return check(sys::qr_session_run(session, &c, ins.as_ptr(), input_count as u64, outs.as_ptr(), output_count as u64));
        }
        let ins: Vec<_> = (0..input_count).map(|i| inputs.add(i)).collect();
        let outs: Vec<_> = (0..output_count).map(output).collect();
        check(sys::qr_session_run(session, &c, ins.as_ptr(), input_count as u64, outs.as_ptr(), output_count as u64))
    }
}

/// The outputs of a run, in the session's memory.
#[derive(Clone, Copy)]
pub struct Outputs<'s> {
    tensors: &'s [sys::qr_tensor],
    names: &'s [String],
}

// SAFETY: a view of memory of the session's, which nobody writes to as long as the view borrows the session: runs need it mutably.
unsafe impl Send for Outputs<'_> {}
unsafe impl Sync for Outputs<'_> {}

impl std::fmt::Debug for Outputs<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_map().entries(self.names.iter().enumerate().map(|(i, name)| (name, format!("{} {:?}", self.dtype(i).name(), self.shape(i))))).finish()
    }
}

impl<'s> Outputs<'s> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.tensors.len()
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty()
    }
    /// The number of the output of this name.
    pub fn index(&self, name: &str) -> Result<usize> {
        let found = self.names.iter().position(|known| known == name);
        found.ok_or_else(|| Error::refused(format!("found the output '{name}', expected one of {:?}", self.names), ""))
    }
    /// The elements of the output of this name, where they lie.
    pub fn named<T: Element>(&self, name: &str) -> Result<&'s [T]> {
        self.data(self.index(name)?)
    }
    /// The type of one.
    pub fn dtype(&self, index: usize) -> DType {
        DType::of(self.tensors[index].dtype)
    }
    /// The dimensions of one.
    pub fn shape(&self, index: usize) -> Vec<usize> {
        shape_of(&self.tensors[index])
    }
    /// The bytes of one.
    #[inline]
    pub fn bytes(&self, index: usize) -> &'s [u8] {
        let tensor = &self.tensors[index];
        if tensor.size_bytes == 0 || tensor.data.is_null() {
            return &[];
        }
        // SAFETY: the session's memory, until its next run.
        unsafe { std::slice::from_raw_parts(tensor.data.cast(), tensor.size_bytes as usize) }
    }
    /// The elements of one, where they lie. An error where it has another type.
    #[inline]
    pub fn data<T: Element>(&self, index: usize) -> Result<&'s [T]> {
        let bytes = self.bytes(index);
        if self.tensors[index].dtype != T::DTYPE as i32 {
            return Err(Error::refused(format!("output {index} is {}, asked for as {}", self.dtype(index).name(), T::DTYPE.name()), ""));
        }
        // SAFETY: every pattern of bits is an element; a place that does not fit the type has a prefix.
        let (before, elements, _) = unsafe { bytes.align_to::<T>() };
        if before.is_empty() { Ok(elements) } else { Err(Error::refused(format!("output {index} is not aligned for {}", T::DTYPE.name()), "")) }
    }
    /// One as a view of ndarray's.
    #[cfg(feature = "ndarray")]
    pub fn array<T: Element>(&self, index: usize) -> Result<ndarray::ArrayViewD<'s, T>> {
        ndarray::ArrayViewD::from_shape(self.shape(index), self.data(index)?).map_err(|error| Error::refused(format!("output {index}: {error}"), ""))
    }
    /// The same of ndarray 0.16.
    #[cfg(feature = "ndarray_0_16")]
    pub fn array_0_16<T: Element>(&self, index: usize) -> Result<ndarray_0_16::ArrayViewD<'s, T>> {
        ndarray_0_16::ArrayViewD::from_shape(self.shape(index), self.data(index)?).map_err(|error| Error::refused(format!("output {index}: {error}"), ""))
    }
}

// Here and not in memory.rs, so that modules use each other one way.
impl Memory<'static> {
    /// Memory that suits the session's device.
    pub fn allocate(session: &Session<'_>, size_bytes: usize, access: Access) -> Result<Self> {
        // SAFETY: [thread-safe]
        unsafe { Self::allocated(session.get(), size_bytes, options(access)) }
    }
    /// A memfd's or dma-buf's memory; the descriptor stays the caller's.
    pub fn import(session: &Session<'_>, fd: BorrowedFd<'_>, offset: u64, size_bytes: usize, access: Access) -> Result<Self> {
        // SAFETY: [thread-safe]; the descriptor is duplicated.
        unsafe { Self::imported(session.get(), fd, offset, size_bytes, options(access)) }
    }
}

impl<'m> Memory<'m> {
    /// Memory of the caller's, lent until this is dropped.
    pub fn register(session: &Session<'_>, data: &'m mut [u8], access: Access) -> Result<Self> {
        // SAFETY: [thread-safe]
        unsafe { Self::registered(session.get(), data, options(access)) }
    }
}
