// SPDX-License-Identifier: Apache-2.0
//! Runs in a queue: what is lent to one must stay until its end, so these own their tensors.
use crate::error::{Error, Result, check};
use crate::runtime::Signal;
use crate::session::Session;
use crate::tensor::{DType, Element, bytes_of, shape_of};
use quarry_sys as sys;
use std::mem::ManuallyDrop;

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
    /// Its extents.
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
    fn view(&mut self) -> sys::qr_tensor {
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
#[derive(Debug)]
#[allow(missing_docs)]
pub struct Refused {
    pub error: Error,
    pub inputs: Vec<OwnedTensor>,
    pub outputs: Vec<OwnedTensor>,
}

impl From<Box<Refused>> for Error {
    fn from(refused: Box<Refused>) -> Self {
        refused.error
    }
}

/// A queued run. Dropped before its end, it is aborted and waited for.
pub struct Run<'s, 'd> {
    session: &'s Session<'d>,
    ticket: u64,
    // In a place of its own that a forgotten Run leaves as it is: the library may still write there.
    lent: ManuallyDrop<Box<Lent>>,
}

// SAFETY: tensors that are ours, and a session that any thread may submit to and wait for.
unsafe impl Send for Run<'_, '_> {}

impl<'d> Session<'d> {
    /// Queues a run and returns. At most "queue_depth" (an option) are under way; one more is Code::Busy. Gives the tensors back where it fails.
    pub fn submit<'s>(
        &'s self, inputs: Vec<OwnedTensor>, outputs: Vec<OwnedTensor>, signal: Option<&Signal>,
    ) -> std::result::Result<Run<'s, 'd>, Box<Refused>> {
        let mut lent = Box::new(Lent { inputs, outputs, views: Vec::new() });
        let Lent { inputs, outputs, views } = &mut *lent;
        views.extend(inputs.iter_mut().chain(outputs.iter_mut()).map(OwnedTensor::view));
        let (ins, outs) = views.split_at_mut(inputs.len());
        let ins: Vec<*const sys::qr_tensor> = ins.iter().map(|tensor| tensor as *const _).collect();
        let outs: Vec<*mut sys::qr_tensor> = outs.iter_mut().map(|tensor| tensor as *mut _).collect();
        let mut options = sys::qr_submit_options::INIT;
        options.signal = Signal::or_null(signal);
        let mut ticket = 0;
        // SAFETY: [thread-safe]; tensors and data stay in their box until the run has ended.
        let status =
            unsafe { sys::qr_session_submit(self.get(), &options, ins.as_ptr(), ins.len() as u64, outs.as_ptr(), outs.len() as u64, &mut ticket) };
        match check(status) {
            Ok(()) => Ok(Run { session: self, ticket, lent: ManuallyDrop::new(lent) }),
            Err(error) => Err(Box::new(Refused { error, inputs: lent.inputs, outputs: lent.outputs })),
        }
    }
}

impl Run<'_, '_> {
    /// Waits for the end of the run; gives inputs and outputs back, the latter with the results' shapes.
    pub fn wait(self) -> Result<(Vec<OwnedTensor>, Vec<OwnedTensor>)> {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: [thread-safe]; without a signal it returns when the run has ended, so the box is ours again, once.
        let (result, lent) = unsafe {
            let status = sys::qr_session_wait(this.session.get(), this.ticket, std::ptr::null_mut());
            (check(status), ManuallyDrop::take(&mut this.lent))
        };
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

impl Drop for Run<'_, '_> {
    fn drop(&mut self) {
        self.abort();
        // SAFETY: as wait().
        unsafe {
            sys::qr_status_destroy(sys::qr_session_wait(self.session.get(), self.ticket, std::ptr::null_mut()));
            ManuallyDrop::drop(&mut self.lent);
        }
    }
}
