// SPDX-License-Identifier: Apache-2.0
//! Low-rank updates of weights (option "adapter.targets").
use crate::error::{Result, check, handle};
use crate::model::{Call, Source};
use crate::session::Session;
use quarry_sys as sys;

handle!(sys::qr_adapter, sys::qr_adapter_destroy);

/// Low-rank updates of weights that runs compute with: [`Session::open_adapter`], [`Session::set_adapter`]. It may outlive the session, and serve several.
#[derive(Debug)]
pub struct Adapter(Handle);

// SAFETY: immutable once it is made, and counted.
unsafe impl Send for Adapter {}
// SAFETY: likewise.
unsafe impl Sync for Adapter {}

impl Session<'_> {
    /// Reads an adapter (safetensors or ONNX) for this session, its clones, and others of the same weights. `alpha`: lora_alpha; None: as
    /// adapter_config.json beside the file, or its metadata, say. `strength` scales the adapter once more.
    pub fn open_adapter(&self, source: Source<'_, '_>, alpha: Option<f32>, strength: f32, call: Call<'_>) -> Result<Adapter> {
        let how = sys::qr_adapter_options { struct_size: size_of::<sys::qr_adapter_options>() as u32, reserved: 0, alpha: alpha.unwrap_or(0.0), strength };
        // SAFETY: [thread-safe]; everything lives until the call returns.
        let open = |from, call| Handle::make(|out| unsafe { sys::qr_adapter_open(self.get(), from, &how, call, out) });
        source.with(|from| call.with(|call| open(from, call))).map(Adapter)
    }
    /// Has the runs from now on compute with an adapter, or with none.
    pub fn set_adapter(&mut self, adapter: Option<&Adapter>) -> Result<()> {
        let pointer = adapter.map_or(std::ptr::null_mut(), |adapter| adapter.0.get());
        // SAFETY: ours alone; the library keeps the adapter alive.
        check(unsafe { sys::qr_session_set_adapter(self.get(), pointer) })
    }
}
