// SPDX-License-Identifier: Apache-2.0
//! What went wrong, in the words of qr_status: code, id, message (subject, found, expected) and hint.
use std::ffi::{CString, c_char};
use std::path::Path;

/// The codes of quarry/types.h that come here.
#[derive(Clone, Copy)]
pub enum Code {
    InvalidArgument = 1,
    FailedPrecondition = 2,
    NotFound = 3,
    OutOfRange = 4,
    Incompatible = 6,
    Corrupt = 7,
    Unavailable = 9,
    PermissionDenied = 12,
    Internal = 13,
}

pub struct Fault {
    code: Code,
    id: &'static str,
    message: String,
    hint: String,
}

pub struct qr_tokenizer_error {
    code: i32,
    id: CString,
    message: CString,
    hint: CString,
}

fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', "\u{fffd}")).unwrap_or_default()
}

impl Fault {
    pub fn new(code: Code, id: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Fault {
        Fault { code, id, message: message.into(), hint: hint.into() }
    }

    pub fn null(name: &str) -> Fault {
        Fault::new(Code::InvalidArgument, "QR-C0002", format!("found NULL for {name}"), "pass a pointer to the argument named in the message")
    }

    pub fn of_file(path: &Path, error: &std::io::Error) -> Fault {
        use std::io::ErrorKind;
        let (code, id, hint) = match error.kind() {
            ErrorKind::NotFound => (Code::NotFound, "QR-F0001", "check the path"),
            ErrorKind::PermissionDenied => (Code::PermissionDenied, "QR-F0002", "check the file's permissions"),
            _ => (Code::Unavailable, "QR-F0004", ""),
        };
        // Without Rust's "(os error 2)".
        let said = error.to_string();
        let said = said.split(" (os error").next().unwrap_or_default();
        Fault::new(code, id, format!("'{}' cannot be read: {said}", path.display()), hint)
    }

    /// What the crate says of a text or of tokens.
    pub fn of_text(what: &str, error: &tokenizers::Error) -> Fault {
        Fault::new(Code::InvalidArgument, "QR-C0007", format!("{what}: the tokenizer says: {error}"), "")
    }

    pub fn given(self, function: &str) -> *mut qr_tokenizer_error {
        Box::into_raw(Box::new(qr_tokenizer_error {
            code: self.code as i32,
            id: c_text(self.id),
            message: c_text(&format!("{function}: {}", self.message)),
            hint: c_text(&self.hint),
        }))
    }
}

/// # Safety
/// NULL, or an error that was given and not destroyed; so for all functions here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qr_tokenizer_error_code(error: *const qr_tokenizer_error) -> i32 {
    unsafe { error.as_ref() }.map_or(0, |error| error.code)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn qr_tokenizer_error_id(error: *const qr_tokenizer_error) -> *const c_char {
    unsafe { error.as_ref() }.map_or(c"".as_ptr(), |error| error.id.as_ptr())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn qr_tokenizer_error_message(error: *const qr_tokenizer_error) -> *const c_char {
    unsafe { error.as_ref() }.map_or(c"".as_ptr(), |error| error.message.as_ptr())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn qr_tokenizer_error_hint(error: *const qr_tokenizer_error) -> *const c_char {
    unsafe { error.as_ref() }.map_or(c"".as_ptr(), |error| error.hint.as_ptr())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn qr_tokenizer_error_destroy(error: *mut qr_tokenizer_error) {
    if !error.is_null() {
        drop(unsafe { Box::from_raw(error) });
    }
}
