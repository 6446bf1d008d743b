// SPDX-License-Identifier: Apache-2.0
//! Quantised models of float ones and samples (feature `quantize`).
use crate::error::{Error, Result, check, handle, path_text, string, taken};
use crate::model::{Call, Source, TensorInfo};
use crate::runtime::{OptionInfo, Runtime};
use crate::target::Target;
use crate::tensor::TensorRef;
use quarry_sys as sys;
use std::marker::PhantomData;
use std::path::Path;

handle!(sys::qr_quantizer, sys::qr_quantizer_destroy);

/// A float ONNX model that samples are shown to, of which a quantised one is made (docs/quantize.md). `'d` is how long memory that it was opened from
/// is lent.
///
/// ```no_run
/// use quarry::{Call, Quantizer, Runtime, Target, TensorRef};
///
/// # fn main() -> quarry::Result<()> {
/// # let images: Vec<Vec<f32>> = Vec::new();
/// let runtime = Runtime::new()?;
/// let mut quantizer = Quantizer::open(&runtime, "model.onnx")?.with("activations", "u16")?;
/// for image in &images {
///     quantizer.add_sample(&[TensorRef::new(&[1, 3, 224, 224], image)?])?;
/// }
/// quantizer.write(Target::path("model.qdq.onnx"), Call::new())?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Quantizer<'d>(Handle, PhantomData<&'d [u8]>);

// SAFETY: everything of a quantizer's takes &mut self.
unsafe impl Send for Quantizer<'_> {}
unsafe impl Sync for Quantizer<'_> {}

impl Quantizer<'static> {
    /// Opens a file.
    pub fn open(runtime: &Runtime, path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(runtime, Source::path(&path), Call::new())
    }
    /// Every option, with `scope` "quantize".
    pub fn options() -> Result<Vec<OptionInfo>> {
        // SAFETY: [thread-safe]; the strings are static.
        unsafe {
            (0..sys::qr_quantize_option_count())
                .map(|index| {
                    let mut row = sys::qr_quantize_option::INIT;
                    check(sys::qr_quantize_option_at(index, &mut row))?;
                    Ok(OptionInfo {
                        key: string(row.key),
                        values: string(row.values),
                        default: string(row.default_value),
                        scope: "quantize".into(),
                        help: string(row.help),
                        changes_at_run_time: false,
                    })
                })
                .collect()
        }
    }
}

impl<'d> Quantizer<'d> {
    /// Opens a model from anywhere, watched.
    pub fn open_with(runtime: &Runtime, source: Source<'_, 'd>, call: Call<'_>) -> Result<Self> {
        // SAFETY: [thread-safe]; everything lives until the call returns, memory for 'd; descriptors are duplicated.
        let open = |from, call| Handle::make(|out| unsafe { sys::qr_quantizer_open(runtime.get(), from, call, out) });
        source.with(|from| call.with(|call| open(from, call))).map(|handle| Self(handle, PhantomData))
    }
    /// Sets one option, before the inputs are asked for and samples are given.
    pub fn set(&mut self, key: &str, value: &str) -> Result<()> {
        // SAFETY: ours alone.
        check(unsafe { sys::qr_quantizer_set(self.0.get(), sys::qr_string::new(key), sys::qr_string::new(value)) })
    }
    /// Sets an option that names a file, by a name of any bytes.
    pub fn set_path(&mut self, key: &str, value: impl AsRef<Path>) -> Result<()> {
        // SAFETY: ours alone.
        check(unsafe { sys::qr_quantizer_set(self.0.get(), sys::qr_string::new(key), path_text(value.as_ref().as_os_str())) })
    }
    /// The same, to be chained.
    pub fn with(mut self, key: &str, value: &str) -> Result<Self> {
        self.set(key, value)?;
        Ok(self)
    }
    /// What a sample has, with all dimensions known. The first time prepares the model; options are fixed then.
    pub fn inputs(&mut self) -> Result<Vec<TensorInfo>> {
        self.inputs_with(Call::new())
    }
    /// The same, watched.
    pub fn inputs_with(&mut self, call: Call<'_>) -> Result<Vec<TensorInfo>> {
        let mut count = 0;
        // SAFETY: ours alone; everything lives until the call returns, the strings as long as the quantizer.
        unsafe {
            call.with(|call| check(sys::qr_quantizer_input_count(self.0.get(), call, &mut count)))?;
            (0..count).map(|index| TensorInfo::ask(|out| sys::qr_quantizer_input(self.0.get(), index, out))).collect()
        }
    }
    /// Runs the float model on one sample, its inputs in the order of [`Quantizer::inputs`], and takes note of what each tensor holds. One that fails
    /// leaves everything as it was.
    pub fn add_sample(&mut self, inputs: &[TensorRef<'_>]) -> Result<()> {
        self.add_sample_with(inputs, Call::new())
    }
    /// The same, watched.
    pub fn add_sample_with(&mut self, inputs: &[TensorRef<'_>], call: Call<'_>) -> Result<()> {
        let pointers: Vec<*const sys::qr_tensor> = inputs.iter().map(|input| &raw const input.c).collect();
        // SAFETY: ours alone; everything lives until the call returns.
        call.with(|call| check(unsafe { sys::qr_quantizer_add_sample(self.0.get(), pointers.as_ptr(), pointers.len() as u64, call) }))
    }
    /// How many samples the model was shown, those of a calibration that was taken up included.
    pub fn samples(&mut self) -> Result<u64> {
        let mut count = 0;
        // SAFETY: ours alone.
        check(unsafe { sys::qr_quantizer_sample_count(self.0.get(), &mut count) })?;
        Ok(count)
    }
    /// Writes all that is known of the samples so far, from which another process can go on; the note is given back by [`Quantizer::restore`].
    pub fn save(&mut self, target: Target<'_>, note: &str, call: Call<'_>) -> Result<()> {
        // SAFETY: ours alone; everything lives until the call returns.
        call.with(|call| target.with(|to| check(unsafe { sys::qr_quantizer_save(self.0.get(), to, sys::qr_string::new(note), call) })))
    }
    /// Takes up what [`Quantizer::save`] wrote, before the first sample, and gives its note.
    pub fn restore(&mut self, source: Source<'_, '_>, call: Call<'_>) -> Result<String> {
        // SAFETY: ours alone; everything lives until the call returns.
        source.with(|from| call.with(|call| taken(|out| unsafe { sys::qr_quantizer_restore(self.0.get(), from, call, out) })))
    }
    /// Makes the quantised model of the samples so far and writes it. More samples may follow, and another write.
    pub fn write(&mut self, target: Target<'_>, call: Call<'_>) -> Result<()> {
        // SAFETY: ours alone; everything lives until the call returns.
        call.with(|call| target.with(|to| check(unsafe { sys::qr_quantizer_write(self.0.get(), to, call) })))
    }
    /// What the last write found and did, as "json" or as "html": a page that needs nothing else.
    pub fn report(&mut self, format: &str) -> Result<String> {
        let mut text = Vec::new();
        self.report_to(format, Target::memory(&mut text), Call::new())?;
        String::from_utf8(text).map_err(|error| Error::refused(format!("the library's report: {error}"), "build crate and library of one release"))
    }
    /// The same to anywhere, watched.
    pub fn report_to(&mut self, format: &str, target: Target<'_>, call: Call<'_>) -> Result<()> {
        // SAFETY: ours alone; everything lives until the call returns.
        call.with(|call| target.with(|to| check(unsafe { sys::qr_quantizer_report(self.0.get(), sys::qr_string::new(format), to, call) })))
    }
}
