// SPDX-License-Identifier: Apache-2.0
//! Opened models.
use crate::error::{Error, Result, check, handle, pair, path_text, string, taken};
use crate::profile::Profile;
use crate::runtime::{Options, Runtime, Signal, raw};
use crate::target::Target;
use crate::tensor::DType;
use quarry_sys as sys;
use std::any::Any;
use std::ffi::c_void;
use std::io::{self, Read, Seek, SeekFrom};
use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::Arc;

handle!(sys::qr_model, sys::qr_model_destroy);

/// What a quantised value q means: (q - zero point) * scale.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum Quantization {
    /// One scale for all.
    PerTensor { scale: f64, zero_point: i64 },
    /// One for each index of an axis.
    PerChannel { axis: usize, scales: Vec<f32>, zero_points: Vec<i32> },
    /// One for each block of `block_size` along an axis: laid out like the tensor, with that axis divided by it and rounded up.
    PerBlock { axis: usize, block_size: usize, scales: Vec<f32>, zero_points: Vec<i32> },
}

impl Quantization {
    /// # Safety
    /// The library has filled `info`, and its object is still there.
    unsafe fn of(info: &sys::qr_tensor_info) -> Option<Self> {
        // SAFETY: as promised; both arrays have scale_count entries.
        unsafe fn list<T: Clone>(data: *const T, count: u64) -> Vec<T> {
            if data.is_null() { Vec::new() } else { unsafe { std::slice::from_raw_parts(data, count as usize) }.to_vec() }
        }
        // SAFETY: as above.
        let (scales, zero_points) = unsafe { (list(info.scales, info.scale_count), list(info.zero_points, info.scale_count)) };
        let axis = info.quantized_axis as usize;
        match info.is_quantized {
            0 => None,
            sys::QR_QUANTIZED_PER_CHANNEL => Some(Self::PerChannel { axis, scales, zero_points }),
            sys::QR_QUANTIZED_PER_BLOCK => Some(Self::PerBlock { axis, block_size: usize::try_from(info.block_size).unwrap_or(0), scales, zero_points }),
            _ => Some(Self::PerTensor { scale: info.scale, zero_point: info.zero_point }),
        }
    }
}

/// What is known of an input or output.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq)]
pub struct TensorInfo {
    /// Its name.
    pub name: String,
    /// Its type.
    pub dtype: DType,
    /// None for a dimension that is symbolic, or known only after a run.
    pub shape: Vec<Option<usize>>,
    /// None: the values are what they say.
    pub quantization: Option<Quantization>,
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
            // SAFETY: likewise.
            quantization: unsafe { Quantization::of(&info) },
        })
    }
}

/// What is called with how far a call is: done, total (0: not known), of what.
type Report<'a> = dyn FnMut(u64, u64, &str) -> ControlFlow<()> + Send + 'a;

/// How a call that may take long is watched, stopped and measured.
#[derive(Default)]
pub struct Call<'a> {
    signal: Option<&'a Signal>,
    profile: Option<&'a mut Profile>,
    progress: Option<&'a mut Report<'a>>,
}

struct Reporter<'r, 'a> {
    report: &'r mut Report<'a>,
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
    /// What is called with how far the call is: done, total (0: not known), of what. On whichever thread is inside Quarry. `ControlFlow::Break` stops
    /// the call, whose error is then `Code::Cancelled`; a panic stops it too, and comes out of it.
    pub fn progress(mut self, report: &'a mut (dyn FnMut(u64, u64, &str) -> ControlFlow<()> + Send + 'a)) -> Self {
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
        progress.report = Some(reported);
        c.progress = &progress;
        let result = work(&c);
        match reporter.panicked {
            Some(panic) => resume_unwind(panic),
            None => result,
        }
    }
}

unsafe extern "C" fn reported(reporter: *mut c_void, done: u64, total: u64, what: sys::qr_string) -> i32 {
    // SAFETY: the Reporter of with(), which waits for the call; one call at a time. A panic stops the call and waits for its end.
    let (reporter, what) = unsafe { (&mut *reporter.cast::<Reporter<'_, '_>>(), string(what)) };
    if reporter.panicked.is_none() {
        match catch_unwind(AssertUnwindSafe(|| (reporter.report)(done, total, &what))) {
            Ok(ControlFlow::Continue(())) => return sys::QR_GO_ON as i32,
            Ok(ControlFlow::Break(())) => (),
            Err(panic) => reporter.panicked = Some(panic),
        }
    }
    sys::QR_STOP as i32
}

/// How well a context of a container fits a backend of this machine.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Compatibility {
    Optimal,
    Usable,
    Recompile,
    Incompatible,
}

type ReadPart<'a> = Box<dyn FnMut(u64, &mut [u8]) -> io::Result<()> + 'a>;
type FindPart<'a> = Box<dyn FnMut(&str) -> io::Result<(u64, ReadPart<'a>)> + 'a>;

fn read_at<'a>(mut file: impl Read + Seek + 'a) -> io::Result<(u64, ReadPart<'a>)> {
    let size_bytes = file.seek(SeekFrom::End(0))?;
    let read = move |offset, part: &mut [u8]| {
        file.seek(SeekFrom::Start(offset))?;
        file.read_exact(part)
    };
    Ok((size_bytes, Box::new(read)))
}

/// Where a model is read from. `'d` is how long memory is lent to the model, `'a` what is needed until it is open.
pub struct Source<'a, 'd> {
    c: sys::qr_model_source,
    read: Option<ReadPart<'a>>,
    find: Option<FindPart<'a>>,
    _lent: PhantomData<(&'a [u8], &'d [u8])>,
}

impl<'a> Source<'a, 'static> {
    /// A file.
    pub fn path(path: &'a (impl AsRef<Path> + ?Sized)) -> Self {
        let mut made = Self::of(sys::QR_SOURCE_PATH);
        made.c.path = path_text(path.as_ref().as_os_str());
        made
    }
    /// A file by its descriptor, or a part of one; `size_bytes` 0: to its end.
    pub fn descriptor(fd: BorrowedFd<'a>, offset: u64, size_bytes: u64) -> Self {
        let mut made = Self::of(sys::QR_SOURCE_DESCRIPTOR);
        (made.c.fd, made.c.offset, made.c.size_bytes) = (fd.as_raw_fd(), offset, size_bytes);
        made
    }
    /// What can be read and sought in: the whole of it.
    pub fn reader(file: &'a mut (impl Read + Seek)) -> io::Result<Self> {
        let (size_bytes, read) = read_at(file)?;
        Ok(Self::by(size_bytes, read))
    }
    /// A function that fills a part of the model from an offset on, called from the first byte to the last. A panic of its ends the opening, and comes
    /// out of it.
    pub fn by(size_bytes: u64, read: impl FnMut(u64, &mut [u8]) -> io::Result<()> + 'a) -> Self {
        let mut made = Self::of(sys::QR_SOURCE_READER);
        made.c.size_bytes = size_bytes;
        made.read = Some(Box::new(read));
        made
    }
}

impl<'a, 'd> Source<'a, 'd> {
    fn of(kind: u32) -> Self {
        Self { c: sys::qr_model_source { kind, ..sys::qr_model_source::INIT }, read: None, find: None, _lent: PhantomData }
    }
    /// A model in memory, where it lies; model and sessions cannot outlive it.
    pub fn memory(data: &'d [u8]) -> Self {
        let mut made = Self::of(sys::QR_SOURCE_MEMORY);
        (made.c.data, made.c.size_bytes) = (data.as_ptr().cast(), data.len() as u64);
        made
    }
    /// Calls work with what C reads from. A panic of the source's functions goes on here.
    pub(crate) fn with<T>(self, work: impl FnOnce(*const sys::qr_model_source) -> Result<T>) -> Result<T> {
        let Self { mut c, read, find, .. } = self;
        let mut reading = Reading::of(read, find);
        c.self_ = (&raw mut reading).cast();
        c.read = reading.read.as_ref().map(|_| read_part as _);
        c.external = reading.find.as_ref().map(|_| find_external as _);
        let made = work(&c);
        match reading.take_panic() {
            Some(panic) => resume_unwind(panic),
            None => made,
        }
    }
    /// External data of an .onnx by name, in place of a folder: what can be read and sought in, or an error of `NotFound` where there is none. Asked
    /// and read until the model is open. A panic of its ends the opening, and comes out of it.
    pub fn external<F: Read + Seek + 'a>(mut self, mut find: impl FnMut(&str) -> io::Result<F> + 'a) -> Self {
        self.find = Some(Box::new(move |name| read_at(find(name)?)));
        self
    }
    /// The folder with the external data of an .onnx, where it is not that of the file.
    pub fn folder(mut self, folder: BorrowedFd<'a>) -> Self {
        self.c.folder_fd = folder.as_raw_fd();
        self
    }
}

struct Reading<'a> {
    read: Option<ReadPart<'a>>,
    find: Option<FindPart<'a>>,
    #[allow(clippy::vec_box)] // the library has their addresses
    parts: Vec<Box<Reading<'a>>>,
    panicked: Option<Box<dyn Any + Send>>,
}

impl<'a> Reading<'a> {
    fn of(read: Option<ReadPart<'a>>, find: Option<FindPart<'a>>) -> Self {
        Self { read, find, parts: Vec::new(), panicked: None }
    }
    fn take_panic(&mut self) -> Option<Box<dyn Any + Send>> {
        self.panicked.take().or_else(|| self.parts.iter_mut().find_map(|part| part.panicked.take()))
    }
}

unsafe extern "C" fn find_external(reading: *mut c_void, name: sys::qr_string, source: *mut sys::qr_model_source) -> i32 {
    const ENOENT: i32 = 2;
    const EIO: i32 = 5;
    // SAFETY: the Reading of with(), which waits for the call; the name is there for the call.
    let (reading, name) = unsafe { (&mut *reading.cast::<Reading<'_>>(), string(name)) };
    let Some(find) = &mut reading.find else { return EIO };
    match catch_unwind(AssertUnwindSafe(|| find(&name))) {
        Ok(Ok((size_bytes, read))) => {
            let mut part = Box::new(Reading::of(Some(read), None));
            // SAFETY: the library's room for it, which is filled in; the part lives as long as the reading.
            let source = unsafe { &mut *source };
            (source.kind, source.size_bytes) = (sys::QR_SOURCE_READER, size_bytes);
            source.read = Some(read_part);
            source.self_ = (&raw mut *part).cast();
            reading.parts.push(part);
            0
        }
        Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => ENOENT,
        Ok(Err(error)) => error.raw_os_error().filter(|number| *number > 0).unwrap_or(EIO),
        Err(panic) => {
            reading.panicked = Some(panic);
            EIO
        }
    }
}

unsafe extern "C" fn read_part(reading: *mut c_void, offset: u64, to: *mut c_void, size_bytes: u64) -> i32 {
    const EIO: i32 = 5;
    // SAFETY: the Reading of with(), which waits for the call. The room is filled with zeros first: a function of safe Rust may look at it.
    let (reading, part) = unsafe {
        std::ptr::write_bytes(to.cast::<u8>(), 0, size_bytes as usize);
        (&mut *reading.cast::<Reading<'_>>(), std::slice::from_raw_parts_mut(to.cast::<u8>(), size_bytes as usize))
    };
    let Some(read) = &mut reading.read else { return EIO };
    match catch_unwind(AssertUnwindSafe(|| read(offset, part))) {
        Ok(Ok(())) => 0,
        Ok(Err(error)) => error.raw_os_error().filter(|number| *number > 0).unwrap_or(EIO),
        Err(panic) => {
            reading.panicked = Some(panic);
            EIO
        }
    }
}

/// An opened .onnx or .qrm: immutable, for any number of threads and sessions. `'d` is how long memory that it was opened from is lent.
#[derive(Debug)]
pub struct Model<'d>(Handle, Arc<raw::Handle>, PhantomData<&'d [u8]>);

// SAFETY: everything of a model's is [thread-safe].
unsafe impl Send for Model<'_> {}
unsafe impl Sync for Model<'_> {}

impl Model<'static> {
    /// Opens a file.
    pub fn open(runtime: &Runtime, path: impl AsRef<Path>, options: Option<&Options>) -> Result<Self> {
        Self::open_with(runtime, Source::path(&path), options, Call::new())
    }
    /// Opens a file by its descriptor, or a part of one; `size_bytes` 0: to its end.
    pub fn open_fd(runtime: &Runtime, fd: BorrowedFd<'_>, offset: u64, size_bytes: u64, options: Option<&Options>) -> Result<Self> {
        Self::open_with(runtime, Source::descriptor(fd, offset, size_bytes), options, Call::new())
    }
}

impl<'d> Model<'d> {
    /// Opens a model in memory, where it lies; model and sessions cannot outlive it.
    pub fn from_memory(runtime: &Runtime, data: &'d [u8], options: Option<&Options>) -> Result<Self> {
        Self::open_with(runtime, Source::memory(data), options, Call::new())
    }
    /// Opens a model from anywhere, watched.
    pub fn open_with(runtime: &Runtime, source: Source<'_, 'd>, options: Option<&Options>, call: Call<'_>) -> Result<Self> {
        // SAFETY: [thread-safe]; everything lives until the call returns, memory for 'd; descriptors are duplicated.
        let open = |from, call| Handle::make(|out| unsafe { sys::qr_model_open(runtime.get(), from, Options::or_null(options), call, out) });
        source.with(|from| call.with(|call| open(from, call))).map(|handle| Self(handle, runtime.share(), PhantomData))
    }
    #[inline]
    pub(crate) fn get(&self) -> *mut sys::qr_model {
        self.0.get()
    }
    pub(crate) fn share(&self) -> Arc<raw::Handle> {
        Arc::clone(&self.1)
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
    /// The name of a symbolic dimension of an input; empty where it has none.
    pub fn dim_name(&self, input: usize, axis: usize) -> Result<String> {
        let mut name = sys::qr_string::new("");
        // SAFETY: [thread-safe]; lives as long as the model.
        unsafe {
            check(sys::qr_model_input_dim_name(self.get(), input as u64, axis as u64, &mut name))?;
            Ok(string(name))
        }
    }
    /// The same of an output.
    pub fn output_dim_name(&self, output: usize, axis: usize) -> Result<String> {
        let mut name = sys::qr_string::new("");
        // SAFETY: [thread-safe]; lives as long as the model.
        unsafe {
            check(sys::qr_model_output_dim_name(self.get(), output as u64, axis as u64, &mut name))?;
            Ok(string(name))
        }
    }
    /// The keys and values that the model carries: ONNX's metadata_props, `metadata.<key>` of a container.
    pub fn properties(&self) -> Result<Vec<(String, String)>> {
        // SAFETY: [thread-safe]; the texts live as long as the model.
        unsafe { (0..sys::qr_model_property_count(self.get())).map(|i| pair(|key, value| sys::qr_model_property(self.get(), i, key, value))).collect() }
    }
    /// Everything the model says of itself, as JSON (docs/formats/inspect.md).
    pub fn inspect(&self) -> Result<String> {
        self.inspect_with(Call::new())
    }
    /// The same, watched.
    pub fn inspect_with(&self, call: Call<'_>) -> Result<String> {
        // SAFETY: [thread-safe]; everything lives until the call returns.
        call.with(|call| taken(|out| unsafe { sys::qr_model_inspect(self.get(), call, out) }))
    }
    /// Reads every byte of a .qrm and checks all sums.
    pub fn verify(&self) -> Result<()> {
        self.verify_with(Call::new())
    }
    /// The same, watched.
    pub fn verify_with(&self, call: Call<'_>) -> Result<()> {
        // SAFETY: [thread-safe]; everything lives until the call returns.
        call.with(|call| check(unsafe { sys::qr_model_verify(self.get(), call) }))
    }
    /// Compiles into a .qrm, which appears whole or not at all.
    pub fn compile(&self, path: impl AsRef<Path>, options: Option<&Options>, call: Call<'_>) -> Result<()> {
        self.compile_to(Target::path(&path), options, call)
    }
    /// Compiles to anywhere; with a name that ends in .onnx, into what ONNX Runtime loads.
    pub fn compile_to(&self, target: Target<'_>, options: Option<&Options>, call: Call<'_>) -> Result<()> {
        // SAFETY: [thread-safe]; everything lives until the call returns.
        call.with(|call| target.with(|to| check(unsafe { sys::qr_model_compile(self.get(), Options::or_null(options), to, call) })))
    }
    /// Writes the graph after the passes that all backends share, for other programs: as .onnx, .onnx.data or .json, as the target's name says.
    pub fn export_to(&self, target: Target<'_>, options: Option<&Options>, call: Call<'_>) -> Result<()> {
        // SAFETY: [thread-safe]; everything lives until the call returns.
        call.with(|call| target.with(|to| check(unsafe { sys::qr_model_export(self.get(), Options::or_null(options), to, call) })))
    }
    /// Asks a backend about every node and compiles nothing; JSON as of qr_model_check.
    pub fn check(&self, options: Option<&Options>, call: Call<'_>) -> Result<String> {
        // SAFETY: [thread-safe]; everything lives until the call returns.
        call.with(|call| taken(|out| unsafe { sys::qr_model_check(self.get(), Options::or_null(options), call, out) }))
    }
    /// How well a container fits a backend of this machine, and why.
    pub fn compatibility(&self, options: Option<&Options>) -> Result<(Compatibility, String)> {
        self.compatibility_with(options, Call::new())
    }
    /// The same, watched.
    pub fn compatibility_with(&self, options: Option<&Options>, call: Call<'_>) -> Result<(Compatibility, String)> {
        let mut grade = 0;
        // SAFETY: [thread-safe]; everything lives until the call returns.
        let reason = call.with(|call| {
            taken(|out| unsafe { sys::qr_model_compatibility(self.get(), Options::or_null(options), call, &mut grade, out) })
        })?;
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
