// SPDX-License-Identifier: Apache-2.0
//! Runtimes, sets of options and signals.
use crate::error::{Error, Result, check, handle, pair, path_text, string, taken, text};
use quarry_sys as sys;
use std::ffi::{OsStr, OsString};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The version of the library that is loaded, "major.minor.patch".
pub fn version() -> String {
    // SAFETY: a static text.
    unsafe { text(sys::qr_version()) }
}

/// Major and minor of the C ABI of the library that is loaded.
pub fn abi_version() -> (u32, u32) {
    // SAFETY: [thread-safe]
    let found = unsafe { sys::qr_abi_version() };
    (found >> 16, found & 0xffff)
}

/// Whether this crate can call a library of that C ABI.
pub(crate) fn check_abi((major, minor): (u32, u32)) -> Result<()> {
    let of_crate = (sys::QR_ABI_MAJOR, sys::QR_ABI_MINOR);
    if major == of_crate.0 && minor >= of_crate.1 {
        return Ok(());
    }
    Err(Error::refused(
        format!("libquarry has the C ABI {major}.{minor}, expected {}.{}, or a later minor", of_crate.0, of_crate.1),
        "install the library of the release that the crate is of",
    ))
}

pub(crate) mod raw {
    use super::*;
    handle!(sys::qr_runtime, sys::qr_runtime_destroy);
}
// SAFETY: what is not [thread-safe] takes &mut Runtime; models make signals of it, and the last who has it destroys it.
unsafe impl Send for raw::Handle {}
unsafe impl Sync for raw::Handle {}
mod raw_options {
    use super::*;
    handle!(sys::qr_options, sys::qr_options_destroy);
}
mod raw_signal {
    use super::*;
    handle!(sys::qr_signal, sys::qr_signal_destroy);
}

/// Plugin search path, log and thread pools; models and sessions hold theirs.
#[derive(Debug)]
pub struct Runtime(Arc<raw::Handle>); // a Model makes signals of it

// SAFETY: what is not [thread-safe] takes &mut self.
unsafe impl Send for Runtime {}
unsafe impl Sync for Runtime {}

/// How important a line of the log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(i32)]
#[allow(missing_docs)]
pub enum LogLevel {
    Error = sys::QR_LOG_ERROR,
    Warn = sys::QR_LOG_WARN,
    Info = sys::QR_LOG_INFO,
    Debug = sys::QR_LOG_DEBUG,
    Trace = sys::QR_LOG_TRACE,
}

/// A line of the log.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct LogLine<'a> {
    /// How important it is.
    pub level: LogLevel,
    /// What it is about.
    pub topic: &'a str,
    /// The line.
    pub message: &'a str,
    /// It says that the program broke the contract.
    pub caller_misbehaves: bool,
    /// It says that a plugin did.
    pub plugin_misbehaves: bool,
}

type LogFunction = fn(LogLine<'_>);

/// A runtime that is not as all others.
#[derive(Clone, Debug, Default)]
pub struct RuntimeBuilder {
    backend_path: OsString,
    prepare_path: OsString,
    only_given_paths: bool,
    log: Option<(LogLevel, LogFunction)>,
}

impl RuntimeBuilder {
    /// Folders of plugins with ':' between, searched before the others.
    pub fn backend_path(mut self, folders: impl AsRef<OsStr>) -> Self {
        self.backend_path = folders.as_ref().into();
        self
    }
    /// The file of the compiler library.
    pub fn prepare_path(mut self, file: impl AsRef<OsStr>) -> Self {
        self.prepare_path = file.as_ref().into();
        self
    }
    /// No folders but those given.
    pub fn only_given_paths(mut self) -> Self {
        self.only_given_paths = true;
        self
    }
    /// Where lines of the log go, from `level` on. Called on whichever thread is inside Quarry.
    pub fn log(mut self, level: LogLevel, write: LogFunction) -> Self {
        self.log = Some((level, write));
        self
    }
    /// The runtime.
    pub fn build(self) -> Result<Runtime> {
        check_abi(abi_version())?;
        let mut options = sys::qr_runtime_options::INIT;
        options.flags = if self.only_given_paths { sys::QR_RUNTIME_ONLY_GIVEN_PATHS } else { 0 };
        options.backend_path = path_text(&self.backend_path);
        options.prepare_path = path_text(&self.prepare_path);
        let mut sink = sys::qr_log_sink::INIT;
        if let Some((level, write)) = self.log {
            sink.level = level as i32;
            sink.self_ = write as *mut std::ffi::c_void; // a function: it lives as long as the program
            sink.write = Some(write_log);
            options.log = &sink;
        }
        // SAFETY: everything that `options` points to lives until the call returns, which copies it.
        raw::Handle::make(|out| unsafe { sys::qr_runtime_create(&options, out) }).map(|handle| Runtime(Arc::new(handle)))
    }
}

unsafe extern "C" fn write_log(write: *mut std::ffi::c_void, level: sys::qr_log_level, flags: u32, topic: sys::qr_string, message: sys::qr_string) {
    use LogLevel::*;
    let level = [Error, Warn, Info, Debug, Trace].into_iter().find(|l| *l as i32 == level).unwrap_or(Error);
    // SAFETY: `self` is the function that build() was given; the views are there for the call. A panic must not go through the library.
    unsafe {
        let write: LogFunction = std::mem::transmute(write);
        let (topic, message) = (string(topic), string(message));
        let line = LogLine {
            level,
            topic: &topic,
            message: &message,
            caller_misbehaves: flags & sys::QR_LOG_CALLER_MISBEHAVES != 0,
            plugin_misbehaves: flags & sys::QR_LOG_PLUGIN_MISBEHAVES != 0,
        };
        let _ = std::panic::catch_unwind(|| write(line));
    }
}

/// A device of a backend.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // the fields of qr_device_info
#[non_exhaustive]
pub struct Device {
    pub name: String,
    pub usable: bool,
    pub target: String,
    pub memory_bytes: u64,
    pub features: u64,
    pub why_not: String,
    pub details: String,
}

/// What the loader says of one candidate plugin.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // the fields of qr_backend_info
#[non_exhaustive]
pub struct Backend {
    pub id: String,
    pub usable: bool,
    pub path: String,
    pub version: String,
    pub verdict: String,
    pub error_id: String,
    pub hint: String,
    pub devices: Vec<Device>,
}

/// One row of the table of options.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // the fields of qr_option_info
#[non_exhaustive]
pub struct OptionInfo {
    pub key: String,
    pub values: String,
    pub default: String,
    pub scope: String,
    pub help: String,
    pub changes_at_run_time: bool,
}

impl Runtime {
    /// A runtime with the defaults.
    pub fn new() -> Result<Self> {
        Self::builder().build()
    }
    /// Another one.
    pub fn builder() -> RuntimeBuilder {
        RuntimeBuilder::default()
    }
    #[inline]
    pub(crate) fn get(&self) -> *mut sys::qr_runtime {
        self.0.get()
    }
    pub(crate) fn share(&self) -> Arc<raw::Handle> {
        Arc::clone(&self.0)
    }

    /// Looks at every candidate plugin and says of each whether it can be used, or why not.
    pub fn backends(&mut self) -> Result<Vec<Backend>> {
        let mut count = 0;
        // SAFETY: the runtime is ours alone; the strings live until the next scan, and are copied.
        unsafe {
            check(sys::qr_runtime_scan(self.get(), &mut count))?;
            (0..count)
                .map(|index| {
                    let mut info = sys::qr_backend_info::INIT;
                    check(sys::qr_runtime_backend(self.get(), index, &mut info))?;
                    let devices = (0..info.device_count)
                        .map(|number| {
                            let mut device = sys::qr_device_info::INIT;
                            check(sys::qr_runtime_device(self.get(), index, number, &mut device))?;
                            Ok(Device {
                                name: string(device.name),
                                usable: device.usable != 0,
                                target: string(device.target),
                                memory_bytes: device.memory_bytes,
                                features: device.features,
                                why_not: string(device.why_not),
                                details: string(device.details),
                            })
                        })
                        .collect::<Result<_>>()?;
                    Ok(Backend {
                        id: string(info.id),
                        usable: info.usable != 0,
                        path: string(info.path),
                        version: string(info.version),
                        verdict: string(info.verdict),
                        error_id: string(info.error_id),
                        hint: string(info.hint),
                        devices,
                    })
                })
                .collect()
        }
    }

    /// The table of all options.
    pub fn options(&mut self) -> Result<Vec<OptionInfo>> {
        let mut found = Vec::new();
        loop {
            let mut info = sys::qr_option_info::INIT;
            // SAFETY: the strings live until the runtime's end.
            unsafe {
                match check(sys::qr_runtime_option(self.get(), found.len() as u64, &mut info)) {
                    Err(error) if error.code() == crate::Code::OutOfRange => return Ok(found),
                    other => other?,
                }
                found.push(OptionInfo {
                    key: string(info.key),
                    values: string(info.values),
                    default: string(info.default_value),
                    scope: string(info.scope),
                    help: string(info.help),
                    changes_at_run_time: info.changes_at_run_time != 0,
                });
            }
        }
    }

    /// What a backend takes, as JSON (qr_runtime_operators); of Quarry's own operators for an empty name.
    pub fn operators(&mut self, backend: &str) -> Result<String> {
        // SAFETY: the runtime is ours alone.
        taken(|out| unsafe { sys::qr_runtime_operators(self.get(), sys::qr_string::new(backend), out) })
    }

    /// The processor features that kernels may use.
    pub fn cpu_features(&self) -> String {
        // SAFETY: lives until the runtime's end.
        unsafe { text(sys::qr_runtime_cpu_features(self.get())) }
    }
}

/// A set of options: keys and values as text (docs/options.md). An unknown key or a bad value is an error at once.
#[derive(Debug)]
pub struct Options(raw_options::Handle);

// SAFETY: any number of calls may read a set; set() takes &mut self.
unsafe impl Send for Options {}
unsafe impl Sync for Options {}

impl Options {
    /// An empty set: every option has its default.
    pub fn new(runtime: &Runtime) -> Result<Self> {
        // SAFETY: [thread-safe]
        raw_options::Handle::make(|out| unsafe { sys::qr_options_create(runtime.get(), out) }).map(Self)
    }
    /// Sets one option.
    pub fn set(&mut self, key: &str, value: &str) -> Result<()> {
        // SAFETY: the set is ours alone.
        check(unsafe { sys::qr_options_set(self.0.get(), sys::qr_string::new(key), sys::qr_string::new(value)) })
    }
    /// Sets an option that names a file, by a name of any bytes.
    pub fn set_path(&mut self, key: &str, value: impl AsRef<Path>) -> Result<()> {
        // SAFETY: the set is ours alone.
        check(unsafe { sys::qr_options_set(self.0.get(), sys::qr_string::new(key), path_text(value.as_ref().as_os_str())) })
    }
    /// The same, to be chained.
    pub fn with(mut self, key: &str, value: &str) -> Result<Self> {
        self.set(key, value)?;
        Ok(self)
    }
    /// The value in force.
    pub fn value(&self, key: &str) -> Result<String> {
        let mut found = sys::qr_string::new("");
        // SAFETY: lives until the next set, which needs &mut self.
        unsafe {
            check(sys::qr_options_get(self.0.get(), sys::qr_string::new(key), &mut found))?;
            Ok(string(found))
        }
    }
    /// Takes an option back: its default holds again.
    pub fn unset(&mut self, key: &str) -> Result<()> {
        // SAFETY: the set is ours alone.
        check(unsafe { sys::qr_options_unset(self.0.get(), sys::qr_string::new(key)) })
    }
    /// The options that were set, in the order of their keys, with their values.
    pub fn list(&self) -> Result<Vec<(String, String)>> {
        // SAFETY: the texts live until the next set, which needs &mut self.
        unsafe { (0..sys::qr_options_count(self.0.get())).map(|index| pair(|key, value| sys::qr_options_at(self.0.get(), index, key, value))).collect() }
    }
    /// A copy of the set.
    pub fn try_clone(&self) -> Result<Self> {
        // SAFETY: [thread-safe]
        raw_options::Handle::make(|out| unsafe { sys::qr_options_copy(self.0.get(), out) }).map(Self)
    }
    pub(crate) fn or_null(options: Option<&Self>) -> *const sys::qr_options {
        options.map_or(std::ptr::null(), |set| set.0.get())
    }
}

/// Stops calls that are under way: from another thread, or by a timeout.
#[derive(Debug)]
pub struct Signal(raw_signal::Handle);

// SAFETY: everything of a signal's is [thread-safe].
unsafe impl Send for Signal {}
unsafe impl Sync for Signal {}

impl Signal {
    /// A signal that is not aborted and has no timeout.
    pub fn new(runtime: &Runtime) -> Result<Self> {
        // SAFETY: [thread-safe]
        raw_signal::Handle::make(|out| unsafe { sys::qr_signal_create(runtime.0.get(), out) }).map(Self)
    }
    /// A signal for calls that belong together: aborted with this one, and what is left of this one's timeout counts for all of them from now on.
    pub fn derive(&self) -> Result<Self> {
        // SAFETY: [thread-safe]
        raw_signal::Handle::make(|out| unsafe { sys::qr_signal_derive(self.0.get(), out) }).map(Self)
    }
    /// Whether a call that began now would go on.
    pub fn check(&self) -> Result<()> {
        // SAFETY: [thread-safe]
        check(unsafe { sys::qr_signal_check(self.0.get()) })
    }
    /// Calls that use the signal return Cancelled as soon as they can, now and until reset().
    pub fn abort(&self) {
        // SAFETY: [thread-safe]
        unsafe { sys::qr_signal_abort(self.0.get()) }
    }
    /// Takes an abort back.
    pub fn reset(&self) {
        // SAFETY: [thread-safe]
        unsafe { sys::qr_signal_reset(self.0.get()) }
    }
    /// Each later call has this long, from its own start. Zero: it has passed already. None: no limit.
    pub fn set_timeout(&self, limit: Option<Duration>) {
        let nanoseconds = limit.map_or(sys::QR_NO_TIMEOUT, |limit| u64::try_from(limit.as_nanos()).unwrap_or(sys::QR_NO_TIMEOUT));
        // SAFETY: [thread-safe]
        unsafe { sys::qr_signal_set_timeout(self.0.get(), nanoseconds) }
    }
    /// A descriptor that poll() calls readable while the signal is aborted.
    pub fn fd(&self) -> Result<BorrowedFd<'_>> {
        let mut fd = -1;
        // SAFETY: the descriptor is there until the signal is destroyed.
        unsafe {
            check(sys::qr_signal_fd(self.0.get(), &mut fd))?;
            Ok(BorrowedFd::borrow_raw(fd))
        }
    }
    pub(crate) fn or_null(signal: Option<&Self>) -> *mut sys::qr_signal {
        signal.map_or(std::ptr::null_mut(), |signal| signal.0.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_of_another_abi_is_refused() {
        let (major, minor) = (sys::QR_ABI_MAJOR, sys::QR_ABI_MINOR);
        check_abi(abi_version()).unwrap();
        check_abi((major, minor + 1)).unwrap();
        for other in [(major, minor - 1), (major + 1, minor)] {
            assert!(check_abi(other).unwrap_err().message().contains(&format!("C ABI {}.{}", other.0, other.1)));
        }
    }
}
