// SPDX-License-Identifier: Apache-2.0
//! Opened models.
use crate::error::{Error, Result, check, handle, string, taken, text};
use crate::profile::Profile;
use crate::runtime::{Options, Runtime, Signal};
use crate::tensor::DType;
use quarry_sys as sys;
use std::any::Any;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;

handle!(sys::qr_model, sys::qr_model_destroy);

/// What is known of an input or output.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorInfo {
    /// Its name.
    pub name: String,
    /// Its type.
    pub dtype: DType,
    /// None for an extent that is symbolic, or known only after a run.
    pub shape: Vec<Option<usize>>,
    /// Scale and zero point of a per-tensor quantisation.
    pub quantization: Option<(f64, i64)>,
}

impl TensorInfo {
    pub(crate) fn ask(call: impl FnOnce(*mut sys::qr_tensor_info) -> *mut sys::qr_status) -> Result<Self> {
        let mut info = sys::qr_tensor_info::INIT;
        check(call(&mut info))?;
        let dims = &info.dims[..info.rank as usize];
        Ok(Self {
            // SAFETY: lives as long as what was asked.
            name: unsafe { string(info.name) },
            dtype: DType::of(info.dtype),
            shape: dims.iter().map(|dim| usize::try_from(*dim).ok()).collect(),
            quantization: (info.is_quantized != 0).then_some((info.scale, info.zero_point)),
        })
    }
}

/// How a call that may take long is watched, stopped and measured.
#[derive(Default)]
#[allow(clippy::type_complexity)]
pub struct Call<'a> {
    signal: Option<&'a Signal>,
    profile: Option<&'a mut Profile>,
    progress: Option<&'a mut (dyn FnMut(u64, u64, &str) + Send)>,
}

struct Reporter<'r, 'a> {
    report: &'r mut (dyn FnMut(u64, u64, &str) + Send + 'a),
    panicked: Option<Box<dyn Any + Send>>,
}

impl<'a> Call<'a> {
    /// Nothing of it.
    pub fn new() -> Self {
        Self::default()
    }
    /// What aborts or limits the call.
    pub fn signal(mut self, signal: &'a Signal) -> Self {
        self.signal = Some(signal);
        self
    }
    /// What receives the events of compiling and loading.
    pub fn profile(mut self, profile: &'a mut Profile) -> Self {
        self.profile = Some(profile);
        self
    }
    /// What is told how far the call is: done, total (0: not known), of what. On whichever thread is inside Quarry.
    pub fn progress(mut self, report: &'a mut (dyn FnMut(u64, u64, &str) + Send)) -> Self {
        self.progress = Some(report);
        self
    }

    pub(crate) fn with<T>(self, work: impl FnOnce(*const sys::qr_call_options) -> Result<T>) -> Result<T> {
        let mut c = sys::qr_call_options::INIT;
        c.signal = Signal::or_null(self.signal);
        c.profile = self.profile.map_or(std::ptr::null_mut(), |profile| profile.get());
        let Some(report) = self.progress else { return work(&c) };
        let mut reporter = Reporter { report, panicked: None };
        let mut progress = sys::qr_progress::INIT;
        progress.self_ = (&raw mut reporter).cast();
        progress.report = Some(told);
        c.progress = &progress;
        let result = work(&c);
        match reporter.panicked {
            Some(panic) => resume_unwind(panic),
            None => result,
        }
    }
}

unsafe extern "C" fn told(reporter: *mut c_void, done: u64, total: u64, what: sys::qr_string) {
    // SAFETY: the Reporter of with(), which waits for the call; one call at a time. A panic waits until the call has ended.
    let (reporter, what) = unsafe { (&mut *reporter.cast::<Reporter<'_, '_>>(), string(what)) };
    if reporter.panicked.is_none() {
        reporter.panicked = catch_unwind(AssertUnwindSafe(|| (reporter.report)(done, total, &what))).err();
    }
}

/// How well a context of a container fits a backend of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Compatibility {
    Optimal,
    Usable,
    Recompile,
    Incompatible,
}

/// An opened .onnx or .qrm: immutable, for any number of threads and sessions. `'d` is how long memory that it was opened from is lent.
#[derive(Debug)]
pub struct Model<'d>(Handle, PhantomData<&'d [u8]>);

// SAFETY: everything of a model's is [thread-safe].
unsafe impl Send for Model<'_> {}
unsafe impl Sync for Model<'_> {}

impl Model<'static> {
    /// Opens a file.
    pub fn open(runtime: &Runtime, path: impl AsRef<Path>, options: Option<&Options>) -> Result<Self> {
        let path = path.as_ref().as_os_str().as_encoded_bytes();
        let path = sys::qr_string { data: path.as_ptr().cast(), size: path.len() as u64 };
        // SAFETY: [thread-safe]
        Handle::make(|out| unsafe { sys::qr_model_open_path(runtime.get(), path, Options::or_null(options), out) }).map(|h| Self(h, PhantomData))
    }
    /// Opens a file by its descriptor, or a part of one; `size_bytes` 0: to its end.
    pub fn open_fd(runtime: &Runtime, fd: BorrowedFd<'_>, offset: u64, size_bytes: u64, options: Option<&Options>) -> Result<Self> {
        // SAFETY: [thread-safe]; the descriptor is duplicated.
        Handle::make(|out| unsafe { sys::qr_model_open_fd(runtime.get(), fd.as_raw_fd(), offset, size_bytes, Options::or_null(options), out) })
            .map(|h| Self(h, PhantomData))
    }
}

impl<'d> Model<'d> {
    /// Opens a model in memory, where it lies; model and sessions cannot outlive it.
    pub fn from_memory(runtime: &Runtime, data: &'d [u8], options: Option<&Options>) -> Result<Self> {
        // SAFETY: [thread-safe]; the data are lent for 'd.
        Handle::make(|out| unsafe { sys::qr_model_open_memory(runtime.get(), data.as_ptr().cast(), data.len() as u64, Options::or_null(options), out) })
            .map(|h| Self(h, PhantomData))
    }
    #[inline]
    pub(crate) fn get(&self) -> *mut sys::qr_model {
        self.0.get()
    }
    /// What it takes.
    pub fn inputs(&self) -> Result<Vec<TensorInfo>> {
        // SAFETY: [thread-safe]
        unsafe { (0..sys::qr_model_input_count(self.get())).map(|i| TensorInfo::ask(|out| sys::qr_model_input(self.get(), i, out))).collect() }
    }
    /// What it gives.
    pub fn outputs(&self) -> Result<Vec<TensorInfo>> {
        // SAFETY: [thread-safe]
        unsafe { (0..sys::qr_model_output_count(self.get())).map(|i| TensorInfo::ask(|out| sys::qr_model_output(self.get(), i, out))).collect() }
    }
    /// The name of a symbolic extent of an input; empty where it has none.
    pub fn dim_name(&self, input: usize, axis: usize) -> Result<String> {
        let mut name = sys::qr_string::new("");
        // SAFETY: [thread-safe]; lives as long as the model.
        unsafe {
            check(sys::qr_model_input_dim_name(self.get(), input as u64, axis as u64, &mut name))?;
            Ok(string(name))
        }
    }
    /// Everything the model says of itself, as JSON (docs/formats/inspect.md).
    pub fn inspect(&self) -> Result<String> {
        // SAFETY: [thread-safe]
        taken(|out| unsafe { sys::qr_model_inspect(self.get(), out) })
    }
    /// Reads every byte of a .qrm and checks all sums.
    pub fn verify(&self) -> Result<()> {
        // SAFETY: [thread-safe]
        check(unsafe { sys::qr_model_verify(self.get()) })
    }
    /// Compiles into a .qrm, which appears whole or not at all.
    pub fn compile(&self, path: impl AsRef<Path>, options: Option<&Options>, call: Call<'_>) -> Result<()> {
        let path = path.as_ref().as_os_str().as_encoded_bytes();
        let path = sys::qr_string { data: path.as_ptr().cast(), size: path.len() as u64 };
        // SAFETY: [thread-safe]; everything lives until the call returns.
        call.with(|call| check(unsafe { sys::qr_model_compile(self.get(), Options::or_null(options), path, call) }))
    }
    /// Asks a backend about every node and compiles nothing; JSON as of qr_model_check.
    pub fn check(&self, options: Option<&Options>, call: Call<'_>) -> Result<String> {
        // SAFETY: [thread-safe]; everything lives until the call returns.
        call.with(|call| taken(|out| unsafe { sys::qr_model_check(self.get(), Options::or_null(options), call, out) }))
    }
    /// How well a container fits a backend of this machine, and why.
    pub fn compatibility(&self, options: Option<&Options>) -> Result<(Compatibility, String)> {
        let (mut grade, mut reason) = (0, std::ptr::null_mut());
        // SAFETY: [thread-safe]; the text is given.
        let reason = unsafe {
            check(sys::qr_model_compatibility(self.get(), Options::or_null(options), &mut grade, &mut reason))?;
            let found = text(reason);
            sys::qr_string_destroy(reason);
            found
        };
        let grade = match grade {
            sys::QR_COMPATIBILITY_OPTIMAL => Compatibility::Optimal,
            sys::QR_COMPATIBILITY_USABLE => Compatibility::Usable,
            sys::QR_COMPATIBILITY_RECOMPILE => Compatibility::Recompile,
            sys::QR_COMPATIBILITY_INCOMPATIBLE => Compatibility::Incompatible,
            other => return Err(Error::refused(format!("a grade {other} that this crate does not know"), "use the crate of the library's release")),
        };
        Ok((grade, reason))
    }
}
