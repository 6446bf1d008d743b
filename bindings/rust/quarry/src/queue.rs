// SPDX-License-Identifier: Apache-2.0
//! Runs in a queue: what is lent to one must stay until its end, so these own their tensors.
use crate::error::{Error, Result, check};
use crate::runtime::Signal;
use crate::session::Session;
use crate::tensor::{DType, Element, bytes_of, shape_of};
use quarry_sys as sys;
use std::ffi::c_void;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// A tensor that owns its elements.
#[derive(Clone, Debug)]
pub struct OwnedTensor {
    dtype: DType,
    shape: Vec<usize>,
    words: Vec<u64>, // aligned for every element
    bytes: usize,
}

impl OwnedTensor {
    /// A copy of elements.
    pub fn new<T: Element>(shape: &[usize], data: &[T]) -> Result<Self> {
        let mut made = Self::zeros(T::DTYPE, shape)?;
        if std::mem::size_of_val(data) != made.bytes {
            return Err(Error::refused(format!("found {} elements for a tensor of shape {shape:?}", data.len()), "give as many elements as the shape has"));
        }
        // SAFETY: as many bytes as checked.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr().cast::<u8>(), made.words.as_mut_ptr().cast(), made.bytes) };
        Ok(made)
    }
    /// Zeros, as an input or as room for an output.
    pub fn zeros(dtype: DType, shape: &[usize]) -> Result<Self> {
        match bytes_of(dtype, shape) {
            Some(bytes) if shape.len() <= sys::QR_MAX_RANK as usize => Ok(Self { dtype, shape: shape.to_vec(), words: vec![0; bytes.div_ceil(8)], bytes }),
            _ => Err(Error::refused(format!("a tensor of shape {shape:?}, expected at most {} dimensions and 2^61 bytes", sys::QR_MAX_RANK), "")),
        }
    }
    /// Its type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }
    /// Its dimensions.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }
    /// Its elements. An error where it has another type.
    pub fn data<T: Element>(&self) -> Result<&[T]> {
        if self.dtype != T::DTYPE {
            return Err(Error::refused(format!("the tensor is {}, asked for as {}", self.dtype.name(), T::DTYPE.name()), ""));
        }
        // SAFETY: words are aligned for every element, and every pattern of bits is one.
        Ok(unsafe { std::slice::from_raw_parts(self.words.as_ptr().cast(), self.bytes / size_of::<T>()) })
    }
    pub(crate) fn view(&mut self) -> sys::qr_tensor {
        let mut made = sys::qr_tensor::INIT;
        made.dtype = self.dtype as i32;
        made.rank = self.shape.len() as u32;
        for (dim, extent) in made.dims.iter_mut().zip(&self.shape) {
            *dim = *extent as i64;
        }
        made.data = self.words.as_mut_ptr().cast();
        made.size_bytes = self.bytes as u64;
        made
    }
}

struct Lent {
    inputs: Vec<OwnedTensor>,
    outputs: Vec<OwnedTensor>,
    views: Vec<sys::qr_tensor>, // inputs, then outputs
}

/// A run that was not queued, with its tensors.
#[non_exhaustive]
#[derive(Debug)]
#[allow(missing_docs)]
pub struct Refused {
    pub error: Error,
    pub inputs: Vec<OwnedTensor>,
    pub outputs: Vec<OwnedTensor>,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.error.fmt(out)
    }
}

impl std::error::Error for Refused {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        refused.error
    }
}

impl From<Box<Refused>> for Error {
    fn from(refused: Box<Refused>) -> Self {
        refused.error
    }
}

/// A queued run: waited for by `wait`, or awaited, on any executor. Dropped before its end, it is aborted and waited for.
#[must_use = "dropped before its end, a run is aborted"]
pub struct Run<'s, 'd> {
    session: &'s Session<'d>,
    ticket: u64,
    // In a place of its own that a forgotten Run leaves as it is: the library may still write there. None: given back.
    lent: Option<Box<Lent>>,
    end: Arc<Mutex<End>>,
}

/// Whether a run has ended, and who wants to know.
#[derive(Default)]
struct End {
    reached: bool,
    waker: Option<Waker>,
}

/// Called once by the library, on a thread of its own, with an `Arc<Mutex<End>>`.
unsafe extern "C" fn ended(this: *mut c_void, _ticket: u64, status: *mut sys::qr_status) {
    // SAFETY: the Arc that submit() gave for this call; the status is ours, and wait() gives another.
    let end = unsafe {
        sys::qr_status_destroy(status);
        Arc::from_raw(this.cast::<Mutex<End>>().cast_const())
    };
    let waker = {
        let mut end = end.lock().unwrap_or_else(PoisonError::into_inner);
        end.reached = true;
        end.waker.take()
    };
    if let Some(waker) = waker {
        // A waker of somebody's that panics must not unwind through the library.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| waker.wake()));
    }
}

// SAFETY: tensors that are ours, and a session that any thread may submit to and wait for.
unsafe impl Send for Run<'_, '_> {}

impl<'d> Session<'d> {
    /// Queues a run and returns. At most "queue_depth" (an option) are under way; one more is Code::Busy. Gives the tensors back where it fails,
    /// as it does where one is of another type than the output.
    pub fn submit<'s>(
        &'s self, inputs: Vec<OwnedTensor>, outputs: Vec<OwnedTensor>, signal: Option<&Signal>,
    ) -> std::result::Result<Run<'s, 'd>, Box<Refused>> {
        if let Err(error) = self.check_types(outputs.iter().map(OwnedTensor::dtype)) {
            return Err(Box::new(Refused { error, inputs, outputs }));
        }
        let mut lent = Box::new(Lent { inputs, outputs, views: Vec::new() });
        let Lent { inputs, outputs, views } = &mut *lent;
        views.extend(inputs.iter_mut().chain(outputs.iter_mut()).map(OwnedTensor::view));
        let (ins, outs) = views.split_at_mut(inputs.len());
        let ins: Vec<*const sys::qr_tensor> = ins.iter().map(|tensor| tensor as *const _).collect();
        let outs: Vec<*mut sys::qr_tensor> = outs.iter_mut().map(|tensor| tensor as *mut _).collect();
        let mut options = sys::qr_submit_options::INIT;
        options.signal = Signal::or_null(signal);
        let end = Arc::new(Mutex::new(End::default()));
        options.self_ = Arc::into_raw(Arc::clone(&end)).cast_mut().cast();
        options.done = Some(ended);
        let mut ticket = 0;
        // SAFETY: [thread-safe]; tensors and data stay in their box until the run has ended.
        let status =
            unsafe { sys::qr_session_submit(self.get(), &options, ins.as_ptr(), ins.len() as u64, outs.as_ptr(), outs.len() as u64, &mut ticket) };
        match check(status) {
            Ok(()) => Ok(Run { session: self, ticket, lent: Some(lent), end }),
            Err(error) => {
                // SAFETY: `ended` is called for runs that were queued alone.
                unsafe { drop(Arc::from_raw(options.self_.cast::<Mutex<End>>().cast_const())) };
                Err(Box::new(Refused { error, inputs: lent.inputs, outputs: lent.outputs }))
            }
        }
    }
}

/// What a limited waiting came to.
pub enum Waited<'s, 'd> {
    /// The run has ended, as `wait` has it.
    Ended(Result<(Vec<OwnedTensor>, Vec<OwnedTensor>)>),
    /// The waiting has, and why; the run goes on with its tensors.
    Running(Run<'s, 'd>, Error),
}

impl<'s, 'd> Run<'s, 'd> {
    /// Waits for the end of the run; gives inputs and outputs back, the latter with the results' shapes.
    pub fn wait(mut self) -> Result<(Vec<OwnedTensor>, Vec<OwnedTensor>)> {
        self.finish()
    }
    /// Waits as long as the signal lets it: a timeout, or an abort, ends the waiting and not the run.
    pub fn wait_with(mut self, signal: &Signal) -> Waited<'s, 'd> {
        let mut ended = 0;
        // SAFETY: [thread-safe]
        let result = check(unsafe { sys::qr_session_wait(self.session.get(), self.ticket, Signal::or_null(Some(signal)), &mut ended) });
        match result {
            Err(error) if ended == 0 => Waited::Running(self, error),
            result => Waited::Ended(self.end_of(result, true)),
        }
    }
    fn finish(&mut self) -> Result<(Vec<OwnedTensor>, Vec<OwnedTensor>)> {
        let mut ended = 0;
        // SAFETY: [thread-safe]
        let result = check(unsafe { sys::qr_session_wait(self.session.get(), self.ticket, std::ptr::null_mut(), &mut ended) });
        self.end_of(result, ended != 0)
    }
    /// What a waiting gave: the box is ours again where the run has `ended`.
    fn end_of(&mut self, result: Result<()>, ended: bool) -> Result<(Vec<OwnedTensor>, Vec<OwnedTensor>)> {
        let result = match result {
            Err(error) if !ended && !self.has_ended() => return Err(error),
            result => result,
        };
        let lent = self.lent.take().expect("a run that was awaited to its end is polled again");
        result?;
        let Lent { inputs, mut outputs, views } = *lent;
        for (output, view) in outputs.iter_mut().zip(&views[inputs.len()..]) {
            output.dtype = DType::of(view.dtype);
            output.shape = shape_of(view);
            output.bytes = (view.size_bytes as usize).min(output.words.len() * 8);
        }
        Ok((inputs, outputs))
    }
    /// The run ends with Code::Cancelled as soon as it can.
    pub fn abort(&self) {
        // SAFETY: [thread-safe]
        unsafe { sys::qr_session_abort(self.session.get(), self.ticket) }
    }
}

impl Future for Run<'_, '_> {
    type Output = Result<(Vec<OwnedTensor>, Vec<OwnedTensor>)>;
    /// Ready when the run has ended; no thread waits meanwhile.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        {
            let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
            if !end.reached {
                if !end.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
                    end.waker = Some(context.waker().clone());
                }
                return Poll::Pending;
            }
        }
        Poll::Ready(self.finish())
    }
}

impl Run<'_, '_> {
    /// By the callback: so it is of a run that nobody waited for and that is forgotten.
    fn has_ended(&self) -> bool {
        self.end.lock().unwrap_or_else(PoisonError::into_inner).reached
    }
}

impl Drop for Run<'_, '_> {
    fn drop(&mut self) {
        if self.lent.is_some() {
            self.abort();
            let mut ended = 0;
            // SAFETY: [thread-safe]
            unsafe { sys::qr_status_destroy(sys::qr_session_wait(self.session.get(), self.ticket, std::ptr::null_mut(), &mut ended)) };
            if ended == 0 && !self.has_ended() {
                std::mem::forget(self.lent.take()); // the library may still write there
            }
        }
    }
}
