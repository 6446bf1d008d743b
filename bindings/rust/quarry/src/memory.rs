// SPDX-License-Identifier: Apache-2.0
//! Buffers that a device reads and writes without a copy.
use crate::error::{Error, Result, check, handle};
use crate::runtime::Runtime;
use quarry_sys as sys;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

handle!(sys::qr_memory, sys::qr_memory_destroy);

/// What runs will do with memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Access {
    Read,
    Write,
    #[default]
    Both,
}

/// Memory of a device, of use to every session of the runtime on it. `'m` is how long memory of the caller's is lent.
#[derive(Debug)]
pub struct Memory<'m>(Handle, PhantomData<&'m mut [u8]>);

// SAFETY: what is [exclusive:memory] takes &mut self.
unsafe impl Send for Memory<'_> {}
unsafe impl Sync for Memory<'_> {}

/// Whose memory, before there is a session.
#[derive(Clone, Copy, Debug)]
pub struct MemoryDevice<'a> {
    /// The memory is of use to its sessions.
    pub runtime: &'a Runtime,
    /// The backend's id: "gpu".
    pub backend: &'a str,
    /// The device's number.
    pub device: u32,
}

impl MemoryDevice<'_> {
    fn options(&self, access: Access) -> sys::qr_memory_options {
        let mut made = options(access);
        (made.runtime, made.backend, made.device) = (self.runtime.get(), sys::qr_string::new(self.backend), self.device);
        made
    }
}

pub(crate) fn options(access: Access) -> sys::qr_memory_options {
    let mut made = sys::qr_memory_options::INIT;
    made.device_access = match access {
        Access::Read => sys::QR_ACCESS_READ,
        Access::Write => sys::QR_ACCESS_WRITE,
        Access::Both => 0,
    };
    made
}

impl Memory<'static> {
    /// Memory of a device, before there is a session.
    pub fn allocate_on(device: MemoryDevice<'_>, size_bytes: usize, access: Access) -> Result<Self> {
        // SAFETY: [thread-safe]
        unsafe { Self::allocated(std::ptr::null_mut(), size_bytes, device.options(access)) }
    }
    /// A memfd's or dma-buf's memory; the descriptor stays the caller's. Before there is a session.
    pub fn import_on(device: MemoryDevice<'_>, fd: BorrowedFd<'_>, offset: u64, size_bytes: usize, access: Access) -> Result<Self> {
        // SAFETY: [thread-safe]; the descriptor is duplicated.
        unsafe { Self::imported(std::ptr::null_mut(), fd, offset, size_bytes, device.options(access)) }
    }

    /// # Safety
    /// What session and options name is there.
    pub(crate) unsafe fn allocated(session: *mut sys::qr_session, size_bytes: usize, options: sys::qr_memory_options) -> Result<Self> {
        // SAFETY: as promised.
        Handle::make(|out| unsafe { sys::qr_memory_allocate(session, size_bytes as u64, &options, out) }).map(|h| Self(h, PhantomData))
    }
    /// # Safety
    /// As allocated().
    pub(crate) unsafe fn imported(session: *mut sys::qr_session, fd: BorrowedFd<'_>, offset: u64, size_bytes: usize, options: sys::qr_memory_options) -> Result<Self> {
        // SAFETY: as promised.
        Handle::make(|out| unsafe { sys::qr_memory_import_fd(session, fd.as_raw_fd(), offset, size_bytes as u64, &options, out) })
            .map(|h| Self(h, PhantomData))
    }
}

impl<'m> Memory<'m> {
    /// Memory of the caller's, lent until this is dropped. Before there is a session.
    pub fn register_on(device: MemoryDevice<'_>, data: &'m mut [u8], access: Access) -> Result<Self> {
        // SAFETY: [thread-safe]
        unsafe { Self::registered(std::ptr::null_mut(), data, device.options(access)) }
    }
    /// # Safety
    /// As allocated().
    pub(crate) unsafe fn registered(session: *mut sys::qr_session, data: &'m mut [u8], options: sys::qr_memory_options) -> Result<Self> {
        // SAFETY: as promised; `data` is ours for 'm.
        Handle::make(|out| unsafe { sys::qr_memory_register(session, data.as_mut_ptr().cast(), data.len() as u64, &options, out) })
            .map(|h| Self(h, PhantomData))
    }
    #[inline]
    pub(crate) fn get(&self) -> *mut sys::qr_memory {
        self.0.get()
    }
    /// The size in bytes.
    pub fn size(&self) -> usize {
        // SAFETY: [thread-safe]
        unsafe { sys::qr_memory_size(self.get()) as usize }
    }
    /// Copies bytes out of it.
    pub fn read(&mut self, offset: usize, into: &mut [u8]) -> Result<()> {
        // SAFETY: access() has checked the range.
        self.access(offset, into.len(), sys::QR_ACCESS_READ, |place| unsafe { std::ptr::copy_nonoverlapping(place, into.as_mut_ptr(), into.len()) })
    }
    /// Copies bytes into it.
    pub fn write(&mut self, offset: usize, from: &[u8]) -> Result<()> {
        // SAFETY: access() has checked the range.
        self.access(offset, from.len(), sys::QR_ACCESS_WRITE, |place| unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), place, from.len()) })
    }
    // A pointer and no slice: another process may have an imported memory too.
    fn access(&mut self, offset: usize, count: usize, how: u32, work: impl FnOnce(*mut u8)) -> Result<()> {
        if offset.checked_add(count).is_none_or(|end| end > self.size()) {
            return Err(Error::refused(format!("{count} bytes behind offset {offset} of a memory of {}", self.size()), ""));
        }
        // SAFETY: ours alone; the place is good from begin to end.
        unsafe {
            let own: *mut u8 = sys::qr_memory_data(self.get()).cast();
            if !own.is_null() {
                check(sys::qr_memory_begin_access(self.get(), how))?;
                work(own.add(offset));
                return check(sys::qr_memory_end_access(self.get(), how));
            }
            let mut mapped = std::ptr::null_mut();
            check(sys::qr_memory_map(self.get(), how, &mut mapped))?;
            work(mapped.cast::<u8>().add(offset));
            check(sys::qr_memory_unmap(self.get()))
        }
    }
    /// A descriptor of the memory, and where the memory begins in it.
    pub fn export(&self) -> Result<(OwnedFd, u64)> {
        let (mut fd, mut offset) = (-1, 0);
        // SAFETY: [thread-safe]; the descriptor is given.
        unsafe {
            check(sys::qr_memory_export_fd(self.get(), &mut fd, &mut offset))?;
            Ok((OwnedFd::from_raw_fd(fd), offset))
        }
    }
}
