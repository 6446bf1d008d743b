// SPDX-License-Identifier: Apache-2.0
//! Where a call writes.
use crate::error::{Result, path_text, string};
use quarry_sys as sys;
use std::any::Any;
use std::ffi::c_void;
use std::io::{self, Write};
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;

/// Takes the files that a call makes, one after the other.
pub trait Files {
    /// A file begins; the one before is whole, and `more` follow.
    fn begin(&mut self, name: &str, size_bytes: u64, more: u64) -> io::Result<()>;
    /// The next bytes of it.
    fn write(&mut self, data: &[u8]) -> io::Result<()>;
    /// Once, behind everything: whether all files are whole; else what was written is of no use.
    fn end(&mut self, committed: bool) -> io::Result<()>;
}

// What can be written to: one file.
struct OneFile<W>(W);

impl<W: Write> Files for OneFile<W> {
    fn begin(&mut self, name: &str, _: u64, more: u64) -> io::Result<()> {
        if more == 0 { Ok(()) } else { Err(io::Error::other(format!("a writer takes one file, and '{name}' has {more} more beside it"))) }
    }
    fn write(&mut self, data: &[u8]) -> io::Result<()> {
        self.0.write_all(data)
    }
    fn end(&mut self, committed: bool) -> io::Result<()> {
        if committed { self.0.flush() } else { Ok(()) }
    }
}

enum Goes<'a> {
    Elsewhere,
    Memory(&'a mut Vec<u8>),
    Files(Box<dyn Files + 'a>),
}

/// Where a call writes what it makes.
pub struct Target<'a> {
    c: sys::qr_target,
    goes: Goes<'a>,
    _lent: PhantomData<&'a [u8]>,
}

struct Writing<'a> {
    files: Box<dyn Files + 'a>,
    panicked: Option<Box<dyn Any + Send>>,
}

impl<'a> Target<'a> {
    fn of(kind: u32, goes: Goes<'a>) -> Self {
        Self { c: sys::qr_target { kind, ..sys::qr_target::INIT }, goes, _lent: PhantomData }
    }
    /// A file, which appears whole or not at all.
    pub fn path(path: &'a (impl AsRef<Path> + ?Sized)) -> Self {
        let mut made = Self::of(sys::QR_TARGET_PATH, Goes::Elsewhere);
        made.c.path = path_text(path.as_ref().as_os_str());
        made
    }
    /// A relative path begins in this folder.
    pub fn folder(mut self, folder: BorrowedFd<'a>) -> Self {
        self.c.folder_fd = folder.as_raw_fd();
        self
    }
    /// A descriptor, from its position on.
    pub fn descriptor(fd: BorrowedFd<'a>) -> Self {
        let mut made = Self::of(sys::QR_TARGET_DESCRIPTOR, Goes::Elsewhere);
        made.c.fd = fd.as_raw_fd();
        made
    }
    /// Memory, which is replaced where the call succeeds.
    pub fn memory(into: &'a mut Vec<u8>) -> Self {
        Self::of(sys::QR_TARGET_MEMORY, Goes::Memory(into))
    }
    /// What can be written to. A panic of its ends the call, and comes out of it.
    pub fn writer(writer: impl Write + 'a) -> Self {
        Self::files(OneFile(writer))
    }
    /// The same for who takes several files.
    pub fn files(files: impl Files + 'a) -> Self {
        Self::of(sys::QR_TARGET_WRITER, Goes::Files(Box::new(files)))
    }
    /// What the file would be called, where there is no path: its ending says the form where a call knows several.
    pub fn name(mut self, name: &'a str) -> Self {
        self.c.path = sys::qr_string::new(name);
        self
    }

    pub(crate) fn with(self, call: impl FnOnce(*const sys::qr_target) -> Result<()>) -> Result<()> {
        let Self { mut c, goes, .. } = self;
        match goes {
            Goes::Elsewhere => call(&c),
            Goes::Memory(into) => {
                let (mut data, mut size) = (std::ptr::null_mut::<c_void>(), 0u64);
                (c.out_data, c.out_size_bytes) = (&mut data, &mut size);
                call(&c)?;
                // SAFETY: the call succeeded: so many bytes are there, and they are ours to free.
                unsafe {
                    *into = std::slice::from_raw_parts(data.cast::<u8>(), size as usize).to_vec();
                    sys::qr_string_destroy(data.cast());
                }
                Ok(())
            }
            Goes::Files(files) => {
                let mut writing = Writing { files, panicked: None };
                c.self_ = (&raw mut writing).cast();
                c.begin = Some(begin);
                c.write = Some(write);
                c.end = Some(end);
                let result = call(&c);
                match writing.panicked {
                    Some(panic) => resume_unwind(panic),
                    None => result,
                }
            }
        }
    }
}

/// # Safety
/// `writing` is the Writing of with(), which waits for the call; one call at a time.
unsafe fn passed_on(writing: *mut c_void, body: impl FnOnce(&mut dyn Files) -> io::Result<()>) -> i32 {
    const EIO: i32 = 5;
    // SAFETY: as promised.
    let writing = unsafe { &mut *writing.cast::<Writing<'_>>() };
    match catch_unwind(AssertUnwindSafe(|| body(&mut *writing.files))) {
        Ok(Ok(())) => 0,
        Ok(Err(error)) => error.raw_os_error().filter(|number| *number > 0).unwrap_or(EIO),
        Err(panic) => {
            writing.panicked.get_or_insert(panic);
            EIO
        }
    }
}

unsafe extern "C" fn begin(writing: *mut c_void, name: sys::qr_string, size_bytes: u64, more: u64) -> i32 {
    // SAFETY: the name is there for the call.
    unsafe { passed_on(writing, |files| files.begin(&string(name), size_bytes, more)) }
}

unsafe extern "C" fn write(writing: *mut c_void, data: *const c_void, size_bytes: u64) -> i32 {
    // SAFETY: so many bytes are there for the call.
    unsafe { passed_on(writing, |files| files.write(std::slice::from_raw_parts(data.cast::<u8>(), size_bytes as usize))) }
}

unsafe extern "C" fn end(writing: *mut c_void, committed: i32) -> i32 {
    // SAFETY: as passed_on().
    unsafe { passed_on(writing, |files| files.end(committed != 0)) }
}
