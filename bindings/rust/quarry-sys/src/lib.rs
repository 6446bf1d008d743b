// SPDX-License-Identifier: Apache-2.0
//! The C ABI of [Quarry](https://crates.io/crates/quarry) as the headers have it: `include/quarry`, without `backend.h`.
//!
//! `bindings.rs`, and `quantize.rs` and `generate.rs` of the features of those names, are written by `tools/generate_bindings.py`, which also checks that they are up to date; sizes and offsets are compared with the
//! ABI's record when the crate is compiled. The comments are those of the headers: ownership words and thread tags are explained in
//! `types.h`. The crate `quarry` is the safe side of it.
#![no_std]
#![allow(non_camel_case_types)]

mod bindings;
pub use bindings::*;
#[cfg(feature = "generate")]
mod generate;
#[cfg(feature = "generate")]
pub use generate::*;
#[cfg(feature = "quantize")]
mod quantize;
#[cfg(feature = "quantize")]
pub use quantize::*;

impl qr_string {
    /// A view of text; the callee borrows it.
    pub const fn new(text: &str) -> Self {
        Self { data: text.as_ptr().cast(), size: text.len() as u64 }
    }
}

macro_rules! init {
    ($($name:ident),*) => {$(
        impl $name {
            /// All zero but for `struct_size`: what the header's `_INIT` macro gives.
            pub const INIT: Self = {
                // SAFETY: integers, pointers, optional functions and views may all be zero.
                let mut made: Self = unsafe { core::mem::zeroed() };
                made.struct_size = size_of::<Self>() as u32;
                made
            };
        }
    )*};
}
init!(
    qr_allocator, qr_log_sink, qr_thread_pool, qr_runtime_options, qr_backend_info, qr_device_info, qr_option_info, qr_profile_event, qr_progress,
    qr_call_options, qr_tensor, qr_tensor_info, qr_memory_options, qr_memory_plan, qr_run_options, qr_submit_options, qr_state_info
);

#[cfg(feature = "quantize")]
init!(qr_quantize_option);
#[cfg(feature = "generate")]
init!(qr_sampler_options, qr_generator_options, qr_token_sink, qr_sequence_info);

macro_rules! init_with_descriptors {
    ($($name:ident),*) => {$(
        impl $name {
            /// What the header's `_INIT` macro gives: no descriptor is named.
            pub const INIT: Self = {
                // SAFETY: integers, pointers, optional functions and views may all be zero.
                let mut made: Self = unsafe { core::mem::zeroed() };
                made.struct_size = size_of::<Self>() as u32;
                (made.fd, made.folder_fd) = (-1, -1);
                made
            };
        }
    )*};
}
init_with_descriptors!(qr_model_source, qr_target);
