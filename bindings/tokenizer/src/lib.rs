// SPDX-License-Identifier: Apache-2.0
//! The C ABI of quarry/tokenizer.h around the crate `tokenizers`. Each function checks its pointers, lets no panic out,
//! and on failure leaves what it was to give untouched.
#![allow(non_camel_case_types)]
mod error;
mod stream;

use std::ffi::{CString, c_char, c_void};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use error::{Code, Fault, qr_tokenizer_error};
use stream::TextStream;

/// As in quarry/types.h.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct qr_string {
    data: *const c_char,
    size: u64,
}
const NUL_TERMINATED: u64 = u64::MAX;

const ENCODE_SPECIAL: u32 = 1;
const DECODE_SKIP_SPECIAL: u32 = 1;

pub struct qr_tokenizer {
    inner: Arc<tokenizers::Tokenizer>,
    special: Vec<(u32, String)>,
}

pub struct qr_text_stream {
    inner: TextStream,
    text: String, // what the last call gave
    in_use: AtomicBool,
}

#[repr(C)]
pub struct qr_text_stream_options {
    struct_size: u32,
    flags: u32,
    stops: *const qr_string,
    stop_count: u64,
}
const STREAM_OPTIONS_FIRST_SIZE: u32 = 24;

type Given = *mut qr_tokenizer_error;

/// The edge of a function that can fail.
fn guard(function: &'static str, body: impl FnOnce() -> Result<(), Fault>) -> Given {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)) {
        Ok(Ok(())) => std::ptr::null_mut(),
        Ok(Err(fault)) => fault.given(function),
        Err(_) => Fault::new(Code::Internal, "QR-C0010", "an exception reached the edge of libquarry-tokenizer", "please report this with the message").given(function),
    }
}

unsafe fn bytes_of<'a>(name: &str, text: qr_string) -> Result<&'a [u8], Fault> {
    if text.data.is_null() {
        return if text.size == 0 { Ok(&[]) } else { Err(Fault::null(name)) };
    }
    let size = if text.size == NUL_TERMINATED { unsafe { std::ffi::CStr::from_ptr(text.data) }.count_bytes() } else { text.size as usize };
    Ok(unsafe { std::slice::from_raw_parts(text.data.cast::<u8>(), size) })
}

unsafe fn text_of<'a>(name: &str, text: qr_string) -> Result<&'a str, Fault> {
    std::str::from_utf8(unsafe { bytes_of(name, text) }?)
        .map_err(|_| Fault::new(Code::InvalidArgument, "QR-C0009", format!("{name}: found bytes that are no UTF-8"), "pass UTF-8"))
}

unsafe fn borrowed<'a, T>(name: &str, from: *const T) -> Result<&'a T, Fault> {
    unsafe { from.as_ref() }.ok_or_else(|| Fault::null(name))
}

unsafe fn room<'a, T>(name: &str, to: *mut T) -> Result<&'a mut T, Fault> {
    unsafe { to.as_mut() }.ok_or_else(|| Fault::null(name))
}

fn check_flags(flags: u32, known: u32) -> Result<(), Fault> {
    if flags & !known == 0 {
        return Ok(());
    }
    Err(Fault::new(Code::InvalidArgument, "QR-C0005", format!("flags: found {flags:#x}, expected none but {known:#x}"), "clear the flag, or update the library"))
}

fn token_of(token: i64) -> Result<u32, Fault> {
    u32::try_from(token).map_err(|_| Fault::new(Code::InvalidArgument, "QR-C0007", format!("found the token {token}, expected one from 0 to 4294967295"), ""))
}

fn opened(data: &[u8], name: &str, out: *mut *mut qr_tokenizer) -> Result<(), Fault> {
    let out = unsafe { room("out_tokenizer", out) }?;
    let inner = tokenizers::Tokenizer::from_bytes(data).map_err(|error| {
        Fault::new(Code::Corrupt, "QR-T0001", format!("{name}: found no tokenizer.json that can be read: {error}, expected one of Hugging Face's"),
                   "give the file tokenizer.json that the model came with (tokenizer_config.json and tokenizer.model are others)")
    })?;
    let mut special: Vec<_> = inner.get_added_tokens_decoder().into_iter().filter(|(_, token)| token.special).map(|(id, token)| (id, token.content)).collect();
    special.sort();
    *out = Box::into_raw(Box::new(qr_tokenizer { inner: Arc::new(inner), special }));
    Ok(())
}

#[cfg(unix)]
fn path_of(bytes: &[u8]) -> Result<PathBuf, Fault> {
    use std::os::unix::ffi::OsStrExt;
    Ok(std::ffi::OsStr::from_bytes(bytes).into())
}
#[cfg(not(unix))]
fn path_of(bytes: &[u8]) -> Result<PathBuf, Fault> {
    let text = std::str::from_utf8(bytes).map_err(|_| Fault::new(Code::InvalidArgument, "QR-C0009", "path: found bytes that are no UTF-8", "pass UTF-8"))?;
    Ok(text.into())
}

/// # Safety
/// Pointers are NULL or as quarry/tokenizer.h says; so for all functions here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qr_tokenizer_open(path: qr_string, out_tokenizer: *mut *mut qr_tokenizer) -> Given {
    guard("qr_tokenizer_open", || {
        let path = path_of(unsafe { bytes_of("path", path) }?)?;
        let data = std::fs::read(&path).map_err(|error| Fault::of_file(&path, &error))?;
        opened(&data, &format!("'{}'", path.display()), out_tokenizer)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn qr_tokenizer_open_memory(data: *const c_void, size: u64, out_tokenizer: *mut *mut qr_tokenizer) -> Given {
    guard("qr_tokenizer_open_memory", || {
        let bytes = unsafe { bytes_of("data", qr_string { data: data.cast(), size: size.min(NUL_TERMINATED - 1) }) }?;
        opened(bytes, "memory", out_tokenizer)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn qr_tokenizer_destroy(tokenizer: *mut qr_tokenizer) {
    if !tokenizer.is_null() {
        drop(unsafe { Box::from_raw(tokenizer) });
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn qr_tokenizer_vocabulary(tokenizer: *const qr_tokenizer) -> u64 {
    unsafe { tokenizer.as_ref() }.map_or(0, |tokenizer| tokenizer.inner.get_vocab_size(true) as u64)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn qr_tokenizer_encode(tokenizer: *const qr_tokenizer, text: qr_string, flags: u32, out_tokens: *mut *mut i64, out_count: *mut u64) -> Given {
    guard("qr_tokenizer_encode", || {
        let tokenizer = unsafe { borrowed("tokenizer", tokenizer) }?;
        let (out_tokens, out_count) = (unsafe { room("out_tokens", out_tokens) }?, unsafe { room("out_count", out_count) }?);
        check_flags(flags, ENCODE_SPECIAL)?;
        let text = unsafe { text_of("text", text) }?;
        let made = tokenizer.inner.encode_fast(text, flags & ENCODE_SPECIAL != 0).map_err(|error| Fault::of_text("encode", &error))?;
        let tokens: Box<[i64]> = made.get_ids().iter().map(|&id| i64::from(id)).collect();
        *out_count = tokens.len() as u64;
        *out_tokens = Box::into_raw(tokens).cast();
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn qr_tokenizer_tokens_destroy(tokens: *mut i64, count: u64) {
    if !tokens.is_null() {
        drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(tokens, count as usize)) });
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn qr_tokenizer_decode(tokenizer: *const qr_tokenizer, tokens: *const i64, count: u64, flags: u32, out_text: *mut *mut c_char) -> Given {
    guard("qr_tokenizer_decode", || {
        let tokenizer = unsafe { borrowed("tokenizer", tokenizer) }?;
        let out_text = unsafe { room("out_text", out_text) }?;
        check_flags(flags, DECODE_SKIP_SPECIAL)?;
        if tokens.is_null() && count > 0 {
            return Err(Fault::null("tokens"));
        }
        let tokens = if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(tokens, count as usize) } };
        let ids = tokens.iter().map(|&token| token_of(token)).collect::<Result<Vec<u32>, Fault>>()?;
        let text = tokenizer.inner.decode(&ids, flags & DECODE_SKIP_SPECIAL != 0).map_err(|error| Fault::of_text("decode", &error))?;
        *out_text = CString::new(text.replace('\0', "\u{fffd}")).unwrap_or_default().into_raw();
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn qr_tokenizer_text_destroy(text: *mut c_char) {
    if !text.is_null() {
        drop(unsafe { CString::from_raw(text) });
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn qr_tokenizer_token(tokenizer: *const qr_tokenizer, text: qr_string, out_token: *mut i64) -> Given {
    guard("qr_tokenizer_token", || {
        let tokenizer = unsafe { borrowed("tokenizer", tokenizer) }?;
        let out_token = unsafe { room("out_token", out_token) }?;
        let text = unsafe { text_of("text", text) }?;
        let found = tokenizer.inner.token_to_id(text).ok_or_else(|| {
            let some: Vec<&str> = tokenizer.special.iter().take(8).map(|(_, text)| text.as_str()).collect();
            Fault::new(Code::NotFound, "QR-T0002", format!("found no token '{text}', expected one of the vocabulary"), format!("special tokens are {}", some.join(", ")))
        })?;
        *out_token = i64::from(found);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn qr_tokenizer_special_count(tokenizer: *const qr_tokenizer) -> u64 {
    unsafe { tokenizer.as_ref() }.map_or(0, |tokenizer| tokenizer.special.len() as u64)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn qr_tokenizer_special(tokenizer: *const qr_tokenizer, index: u64, out_token: *mut i64, out_text: *mut qr_string) -> Given {
    guard("qr_tokenizer_special", || {
        let tokenizer = unsafe { borrowed("tokenizer", tokenizer) }?;
        let (out_token, out_text) = (unsafe { room("out_token", out_token) }?, unsafe { room("out_text", out_text) }?);
        let (token, text) = usize::try_from(index).ok().and_then(|at| tokenizer.special.get(at)).ok_or_else(|| {
            Fault::new(Code::OutOfRange, "QR-C0008", format!("found the index {index}, expected one under {}", tokenizer.special.len()), "")
        })?;
        *out_token = i64::from(*token);
        *out_text = qr_string { data: text.as_ptr().cast(), size: text.len() as u64 };
        Ok(())
    })
}

/// The caller's options, whatever their age.
unsafe fn stream_options(options: *const qr_text_stream_options) -> Result<(bool, Vec<String>), Fault> {
    if options.is_null() {
        return Ok((false, Vec::new()));
    }
    let size = unsafe { (*options).struct_size };
    if size < STREAM_OPTIONS_FIRST_SIZE {
        return Err(Fault::new(Code::InvalidArgument, "QR-C0003", format!("qr_text_stream_options: found a struct_size of {size}, expected at least {STREAM_OPTIONS_FIRST_SIZE}"),
                              "initialise the struct with its _INIT macro"));
    }
    let whole = unsafe { std::slice::from_raw_parts(options.cast::<u8>(), size as usize) };
    if whole[STREAM_OPTIONS_FIRST_SIZE as usize..].iter().any(|&byte| byte != 0) {
        return Err(Fault::new(Code::Incompatible, "QR-C0004", "qr_text_stream_options: found a field that this library does not know", "update the library"));
    }
    let options = unsafe { &*options };
    check_flags(options.flags, DECODE_SKIP_SPECIAL)?;
    if options.stops.is_null() && options.stop_count > 0 {
        return Err(Fault::null("qr_text_stream_options.stops"));
    }
    let stops = if options.stop_count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(options.stops, options.stop_count as usize) } };
    let stops = stops.iter().map(|&stop| unsafe { text_of("a stop text", stop) }.map(String::from)).collect::<Result<Vec<_>, _>>()?;
    if stops.iter().any(String::is_empty) {
        return Err(Fault::new(Code::InvalidArgument, "QR-C0007", "qr_text_stream_options.stops: found an empty text, expected one that can come", ""));
    }
    Ok((options.flags & DECODE_SKIP_SPECIAL != 0, stops))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn qr_text_stream_create(tokenizer: *const qr_tokenizer, options: *const qr_text_stream_options, out_stream: *mut *mut qr_text_stream) -> Given {
    guard("qr_text_stream_create", || {
        let tokenizer = unsafe { borrowed("tokenizer", tokenizer) }?;
        let out_stream = unsafe { room("out_stream", out_stream) }?;
        let (skips_special, stops) = unsafe { stream_options(options) }?;
        let inner = TextStream::new(tokenizer.inner.clone(), skips_special, stops);
        *out_stream = Box::into_raw(Box::new(qr_text_stream { inner, text: String::new(), in_use: AtomicBool::new(false) }));
        Ok(())
    })
}

/// One call at a time on a stream.
unsafe fn with_stream(function: &'static str, stream: *mut qr_text_stream, body: impl FnOnce(&mut qr_text_stream) -> Result<(), Fault>) -> Given {
    guard(function, || {
        if stream.is_null() {
            return Err(Fault::null("stream"));
        }
        let in_use = unsafe { &*std::ptr::addr_of!((*stream).in_use) };
        if in_use.swap(true, Ordering::Acquire) {
            return Err(Fault::new(Code::FailedPrecondition, "QR-C0006", "found another call on the same stream, expected one at a time", "use one stream per caller or a lock"));
        }
        let done = body(unsafe { &mut *stream });
        in_use.store(false, Ordering::Release);
        done
    })
}

fn lend(stream: &mut qr_text_stream, text: String) -> qr_string {
    stream.text = text;
    qr_string { data: stream.text.as_ptr().cast(), size: stream.text.len() as u64 }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn qr_text_stream_push(stream: *mut qr_text_stream, token: i64, out_text: *mut qr_string, out_stopped: *mut i32) -> Given {
    unsafe {
        with_stream("qr_text_stream_push", stream, |stream| {
            let (out_text, out_stopped) = (room("out_text", out_text)?, room("out_stopped", out_stopped)?);
            let (text, stopped) = stream.inner.push(token_of(token)?)?;
            *out_text = lend(stream, text);
            *out_stopped = i32::from(stopped);
            Ok(())
        })
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn qr_text_stream_finish(stream: *mut qr_text_stream, out_text: *mut qr_string) -> Given {
    unsafe {
        with_stream("qr_text_stream_finish", stream, |stream| {
            let out_text = room("out_text", out_text)?;
            let text = stream.inner.finish()?;
            *out_text = lend(stream, text);
            Ok(())
        })
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn qr_text_stream_destroy(stream: *mut qr_text_stream) {
    if !stream.is_null() {
        drop(unsafe { Box::from_raw(stream) });
    }
}
