// SPDX-License-Identifier: Apache-2.0
//! Why a call failed.
use quarry_sys as sys;
use std::ffi::{CStr, OsStr};
use std::fmt;

/// The result of what may fail.
pub type Result<T> = std::result::Result<T, Error>;

/// Status codes: programs branch on these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(i32)]
#[allow(missing_docs)] // the words of types.h
pub enum Code {
    InvalidArgument = sys::QR_INVALID_ARGUMENT,
    FailedPrecondition = sys::QR_FAILED_PRECONDITION,
    NotFound = sys::QR_NOT_FOUND,
    OutOfRange = sys::QR_OUT_OF_RANGE,
    Unsupported = sys::QR_UNSUPPORTED,
    Incompatible = sys::QR_INCOMPATIBLE,
    Corrupt = sys::QR_CORRUPT,
    ResourceExhausted = sys::QR_RESOURCE_EXHAUSTED,
    Unavailable = sys::QR_UNAVAILABLE,
    DeadlineExceeded = sys::QR_DEADLINE_EXCEEDED,
    Cancelled = sys::QR_CANCELLED,
    PermissionDenied = sys::QR_PERMISSION_DENIED,
    Internal = sys::QR_INTERNAL,
    Busy = sys::QR_BUSY,
    DeviceLost = sys::QR_DEVICE_LOST,
}

impl Code {
    fn of(code: sys::qr_code) -> Self {
        use Code::*;
        const ALL: [Code; 15] = [
            InvalidArgument, FailedPrecondition, NotFound, OutOfRange, Unsupported, Incompatible, Corrupt, ResourceExhausted, Unavailable,
            DeadlineExceeded, Cancelled, PermissionDenied, Internal, Busy, DeviceLost,
        ];
        ALL.into_iter().find(|known| *known as i32 == code).unwrap_or(Internal)
    }
}

/// A failed call: a code for the program, a message for people, an id for search engines.
#[derive(Clone, Debug)]
pub struct Error {
    code: Code,
    id: String,
    message: String,
    hint: String,
    details: Vec<(String, String)>,
}

impl Error {
    /// What this crate refuses before the library is asked: it has no id.
    pub(crate) fn refused(message: String, hint: &str) -> Self {
        Self { code: Code::InvalidArgument, id: String::new(), message, hint: hint.into(), details: Vec::new() }
    }

    /// Takes the status.
    ///
    /// # Safety
    /// `status` is one that the library gave, and not null.
    unsafe fn take(status: *mut sys::qr_status) -> Self {
        // SAFETY: the texts live until the status is destroyed, which is last.
        unsafe {
            let mut details = Vec::new();
            for index in 0..sys::qr_status_detail_count(status) {
                let (mut key, mut value) = (std::ptr::null(), std::ptr::null());
                sys::qr_status_detail(status, index, &mut key, &mut value);
                details.push((text(key), text(value)));
            }
            let made = Self {
                code: Code::of(sys::qr_status_code(status)),
                id: text(sys::qr_status_id(status)),
                message: text(sys::qr_status_message(status)),
                hint: in_rust(&text(sys::qr_status_hint(status))),
                details,
            };
            sys::qr_status_destroy(status);
            made
        }
    }

    /// The code.
    pub fn code(&self) -> Code {
        self.code
    }
    /// The stable id, "QR-C0107", that docs/errors.md has a section for; empty for what this crate refuses itself.
    pub fn id(&self) -> &str {
        &self.id
    }
    /// What was found and what was expected.
    pub fn message(&self) -> &str {
        &self.message
    }
    /// What to do about it; may be empty.
    pub fn hint(&self) -> &str {
        &self.hint
    }
    /// Key and value: "node", "op", "reason" ...; one "reason" for each refused node.
    pub fn details(&self) -> &[(String, String)] {
        &self.details
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.id.is_empty() {
            write!(out, "{}: ", self.id)?;
        }
        if let Some((_, file)) = self.details.iter().find(|(key, _)| key == "file") {
            if !self.message.contains(file.rsplit('/').next().unwrap_or(file)) {
                write!(out, "{file}: ")?;
            }
        }
        out.write_str(&self.message)?;
        // Each reason once, with how often it was found.
        let reasons: Vec<_> = self.details.iter().filter(|(key, _)| key == "reason").map(|(_, reason)| reason).collect();
        for (index, reason) in reasons.iter().enumerate() {
            if !reasons[..index].contains(reason) {
                write!(out, "; {reason}")?;
                let times = reasons.iter().filter(|other| *other == reason).count();
                if times > 1 {
                    write!(out, " ({times} times)")?;
                }
            }
        }
        if self.hint.is_empty() { Ok(()) } else { write!(out, " (hint: {})", self.hint) }
    }
}

impl std::error::Error for Error {}

/// For functions whose error is that of files: the kind is the nearest, the whole error is within.
impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        use std::io::ErrorKind;
        let kind = match (error.id(), error.code()) {
            ("QR-F0001", _) | (_, Code::NotFound) => ErrorKind::NotFound,
            ("QR-F0007", _) => ErrorKind::StorageFull,
            (_, Code::InvalidArgument | Code::OutOfRange) => ErrorKind::InvalidInput,
            (_, Code::Corrupt) => ErrorKind::InvalidData,
            (_, Code::Unsupported) => ErrorKind::Unsupported,
            (_, Code::PermissionDenied) => ErrorKind::PermissionDenied,
            (_, Code::DeadlineExceeded) => ErrorKind::TimedOut,
            (_, Code::Cancelled) => ErrorKind::Interrupted,
            (_, Code::ResourceExhausted) => ErrorKind::OutOfMemory,
            _ => ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}

/// What hints of the library call by the names of C.
const IN_RUST: [(&str, &str); 14] = [
    ("qr_memory_allocate", "Memory::allocate"),
    ("qr_memory_import_fd", "Memory::import"),
    ("qr_memory_map", "Memory::read and write"),
    ("qr_memory_unmap", "its end"),
    ("qr_model_check", "Model::check"),
    ("qr_quantize_option_at", "Quantizer::options"),
    ("qr_quantizer_write", "Quantizer::write"),
    ("qr_session_abort", "Run::abort"),
    ("qr_session_clone", "Session::try_clone"),
    ("qr_session_create", "Session::new"),
    ("qr_session_recover", "Session::recover"),
    ("qr_session_run", "Session::run"),
    ("qr_session_submit", "Session::submit"),
    ("qr_signal_reset", "Signal::reset"),
];

fn in_rust(hint: &str) -> String {
    let mut found = hint.to_owned();
    for (c, rust) in IN_RUST {
        if found.contains(c) {
            found = found.replace(c, rust);
        }
    }
    found
}

/// Takes a status: null is success.
#[inline]
pub(crate) fn check(status: *mut sys::qr_status) -> Result<()> {
    if status.is_null() {
        return Ok(());
    }
    // SAFETY: every function of the library gives null or a status of the caller's.
    Err(unsafe { Error::take(status) })
}

/// A NUL-terminated text of the library's, copied.
///
/// # Safety
/// `pointer` is null or a text that ends with NUL.
pub(crate) unsafe fn text(pointer: *const std::ffi::c_char) -> String {
    if pointer.is_null() {
        return String::new();
    }
    // SAFETY: as promised by the caller.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}

/// The name of a file as the library takes it: in its own bytes, UTF-8 or not. Borrows it.
pub(crate) fn path_text(path: &OsStr) -> sys::qr_string {
    let bytes = path.as_encoded_bytes();
    sys::qr_string { data: bytes.as_ptr().cast(), size: bytes.len() as u64 }
}

/// A view of the library's, copied.
///
/// # Safety
/// The view is one that the library gave, and what it lies in is still there.
pub(crate) unsafe fn string(view: sys::qr_string) -> String {
    if view.size == 0 {
        return String::new();
    }
    // SAFETY: as promised by the caller.
    let bytes = unsafe { std::slice::from_raw_parts(view.data.cast::<u8>(), view.size as usize) };
    String::from_utf8_lossy(bytes).into_owned()
}

/// Two views that a function gave, copied.
///
/// # Safety
/// What the views lie in is there until the function's object changes.
pub(crate) unsafe fn pair(call: impl FnOnce(*mut sys::qr_string, *mut sys::qr_string) -> *mut sys::qr_status) -> Result<(String, String)> {
    let (mut key, mut value) = (sys::qr_string::new(""), sys::qr_string::new(""));
    check(call(&mut key, &mut value))?;
    // SAFETY: as promised by the caller.
    unsafe { Ok((string(key), string(value))) }
}

/// The text that a function gave, taken.
pub(crate) fn taken(call: impl FnOnce(*mut *mut std::ffi::c_char) -> *mut sys::qr_status) -> Result<String> {
    let mut out = std::ptr::null_mut();
    check(call(&mut out))?;
    // SAFETY: a text of ours now, which ends with NUL.
    unsafe {
        let found = text(out);
        sys::qr_string_destroy(out);
        Ok(found)
    }
}

/// Owns one object of the C ABI.
macro_rules! handle {
    ($kind:ty, $destroy:path) => {
        #[derive(Debug)]
        pub(crate) struct Handle(std::ptr::NonNull<$kind>);
        impl Handle {
            pub(crate) fn make(call: impl FnOnce(*mut *mut $kind) -> *mut quarry_sys::qr_status) -> $crate::Result<Self> {
                let mut out = std::ptr::null_mut();
                $crate::error::check(call(&mut out))?;
                Ok(Self(std::ptr::NonNull::new(out).expect("the library succeeded and gave nothing")))
            }
            #[inline]
            pub(crate) fn get(&self) -> *mut $kind {
                self.0.as_ptr()
            }
        }
        impl Drop for Handle {
            fn drop(&mut self) {
                // SAFETY: it is ours, and nobody has it any more.
                unsafe { $destroy(self.0.as_ptr()) }
            }
        }
    };
}
pub(crate) use handle;
