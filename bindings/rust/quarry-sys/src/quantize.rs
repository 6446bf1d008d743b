// SPDX-License-Identifier: Apache-2.0
// Written by tools/generate_bindings.py from include/quarry, never by hand.
use crate::bindings::*;
use core::ffi::c_char;

#[repr(C)]
pub struct qr_quantizer {
    _opaque: [u8; 0],
    _marker: core::marker::PhantomData<(*mut u8, core::marker::PhantomPinned)>,
}

/// ```text
/// One option of a quantisation.
/// ```
#[repr(C)]
#[derive(Clone, Copy)]
pub struct qr_quantize_option {
    pub struct_size: u32,
    pub reserved: u32,
    pub key: qr_string,
    pub values: qr_string,
    pub default_value: qr_string,
    pub help: qr_string,
}
pub const QR_QUANTIZE_OPTION_FIRST_SIZE: u32 = 72;

unsafe extern "C" {
    /// ```text
    /// The number of options.
    /// @thread  [thread-safe]
    /// @errors  none
    /// @since   0.1
    /// ```
    pub fn qr_quantize_option_count() -> u64;

    /// ```text
    /// What is known of an option.
    /// @param index       under qr_quantize_option_count.
    /// @param out_option  borrows: set its struct_size; its strings are static.
    /// @thread  [thread-safe]
    /// @errors  OUT_OF_RANGE, INVALID_ARGUMENT
    /// @since   0.1
    /// ```
    pub fn qr_quantize_option_at(index: u64, out_option: *mut qr_quantize_option) -> *mut qr_status;

    /// ```text
    /// Opens the float model: an .onnx, with its external data.
    /// @param runtime        borrows: kept alive by the quantizer. Its cpu backend runs the model.
    /// @param source         borrows: memory that it names must stay until the quantizer is gone.
    /// @param call           borrows: may be NULL; its signal aborts it.
    /// @param out_quantizer  gives: qr_quantizer_destroy.
    /// @thread  [thread-safe] [blocking]
    /// @errors  NOT_FOUND, PERMISSION_DENIED, CORRUPT, UNSUPPORTED, INVALID_ARGUMENT, RESOURCE_EXHAUSTED, CANCELLED,
    ///          DEADLINE_EXCEEDED
    /// @since   0.1
    /// ```
    pub fn qr_quantizer_open(runtime: *mut qr_runtime, source: *const qr_model_source, call: *const qr_call_options, out_quantizer: *mut *mut qr_quantizer) -> *mut qr_status;

    /// ```text
    /// Sets one option, before the inputs are asked for and samples are given; the last value of a key holds.
    /// @param quantizer  borrows.
    /// @param key        borrows: UTF-8.
    /// @param value      borrows: UTF-8; of an option whose values are a "path" any bytes but NUL.
    /// @thread  [exclusive:quantizer]
    /// @errors  NOT_FOUND (unknown key: the nearest is named), INVALID_ARGUMENT (bad value: the allowed ones are listed),
    ///          FAILED_PRECONDITION (too late), RESOURCE_EXHAUSTED
    /// @since   0.1
    /// ```
    pub fn qr_quantizer_set(quantizer: *mut qr_quantizer, key: qr_string, value: qr_string) -> *mut qr_status;

    /// ```text
    /// The number of inputs of the model as it is prepared; the first call imports and prepares it.
    /// @param quantizer  borrows.
    /// @param call       borrows: may be NULL; its signal aborts it, and the next call begins anew.
    /// @param out_count  borrows: the number.
    /// @thread  [exclusive:quantizer] [blocking]
    /// @errors  INVALID_ARGUMENT (a dimension that no shape binds, a model that is quantised already), UNSUPPORTED (all
    ///          reasons as details), RESOURCE_EXHAUSTED, CANCELLED, DEADLINE_EXCEEDED
    /// @since   0.1
    /// ```
    pub fn qr_quantizer_input_count(quantizer: *mut qr_quantizer, call: *const qr_call_options, out_count: *mut u64) -> *mut qr_status;

    /// ```text
    /// What a sample has for an input: type, and shape with every dimension known.
    /// @param quantizer  borrows.
    /// @param index      under qr_quantizer_input_count.
    /// @param out_info   borrows: set its struct_size; its strings live as long as the quantizer.
    /// @thread  [exclusive:quantizer] [blocking]
    /// @errors  OUT_OF_RANGE, and as qr_quantizer_input_count
    /// @since   0.1
    /// ```
    pub fn qr_quantizer_input(quantizer: *mut qr_quantizer, index: u64, out_info: *mut qr_tensor_info) -> *mut qr_status;

    /// ```text
    /// Runs the float model on one sample and takes note of what each tensor holds. Samples are not kept, but for the first
    /// few (option "evaluate"): memory does not grow with their number. One that fails leaves everything as it was.
    /// @param quantizer    borrows.
    /// @param inputs       borrows: input_count tensors in the order of qr_quantizer_input, with their data.
    /// @param input_count  must equal qr_quantizer_input_count.
    /// @param call         borrows: may be NULL; its timeout is of all of this.
    /// @thread  [exclusive:quantizer] [blocking]
    /// @errors  INVALID_ARGUMENT (count, type, shape; a NaN: the tensor that has it is named), CANCELLED, DEADLINE_EXCEEDED,
    ///          and as qr_quantizer_input_count
    /// @since   0.1
    /// ```
    pub fn qr_quantizer_add_sample(quantizer: *mut qr_quantizer, inputs: *const *const qr_tensor, input_count: u64, call: *const qr_call_options) -> *mut qr_status;

    /// ```text
    /// The number of samples seen so far, those of a calibration that was taken up included.
    /// @param quantizer  borrows.
    /// @param out_count  borrows: the number.
    /// @thread  [exclusive:quantizer]
    /// @errors  INVALID_ARGUMENT
    /// @since   0.1
    /// ```
    pub fn qr_quantizer_sample_count(quantizer: *mut qr_quantizer, out_count: *mut u64) -> *mut qr_status;

    /// ```text
    /// Writes all that is known of the samples so far, the file "calibration", from which another process can go on. It may
    /// be written over again. Its size depends on the model and on option "evaluate", not on the samples.
    /// @param quantizer  borrows.
    /// @param target     borrows: where it goes.
    /// @param note       borrows: UTF-8, may be empty: given back by qr_quantizer_restore; which samples these were, say.
    /// @param call       borrows: may be NULL; its signal aborts it.
    /// @thread  [exclusive:quantizer] [blocking]
    /// @errors  PERMISSION_DENIED, RESOURCE_EXHAUSTED (disk or memory), CANCELLED, UNAVAILABLE (the target's writer), and as
    ///          qr_quantizer_input_count
    /// @since   0.1
    /// ```
    pub fn qr_quantizer_save(quantizer: *mut qr_quantizer, target: *const qr_target, note: qr_string, call: *const qr_call_options) -> *mut qr_status;

    /// ```text
    /// Takes up what qr_quantizer_save wrote, before the first sample. What follows is as if all samples had been given to
    /// this quantizer. One that fails leaves it as it was.
    /// @param quantizer  borrows.
    /// @param source     borrows: where its bytes are.
    /// @param call       borrows: may be NULL; its timeout is of all of this.
    /// @param out_note   gives: qr_string_destroy; NUL-terminated. May be NULL.
    /// @thread  [exclusive:quantizer] [blocking]
    /// @errors  NOT_FOUND, PERMISSION_DENIED, CORRUPT (no saved calibration, or a damaged one), INVALID_ARGUMENT (of another
    ///          model or of other options), FAILED_PRECONDITION (samples were given already), CANCELLED, DEADLINE_EXCEEDED,
    ///          RESOURCE_EXHAUSTED, and as qr_quantizer_input_count
    /// @since   0.1
    /// ```
    pub fn qr_quantizer_restore(quantizer: *mut qr_quantizer, source: *const qr_model_source, call: *const qr_call_options, out_note: *mut *mut c_char) -> *mut qr_status;

    /// ```text
    /// Makes the quantised model of the samples seen so far, compares it with the float one on those that were kept, and
    /// writes it: the file "model.onnx", with its constants in a file before it where they are more than 2 GB, or where the
    /// target's name ends in ".onnx.data". More samples may follow, and another write.
    /// @param quantizer  borrows.
    /// @param target     borrows: where the files go.
    /// @param call       borrows: may be NULL; its timeout is of all of this, however many runs that takes.
    /// @thread  [exclusive:quantizer] [blocking]
    /// @errors  INVALID_ARGUMENT (no samples), PERMISSION_DENIED, RESOURCE_EXHAUSTED (disk or memory), CANCELLED,
    ///          DEADLINE_EXCEEDED, UNAVAILABLE (the target's writer)
    /// @since   0.1
    /// ```
    pub fn qr_quantizer_write(quantizer: *mut qr_quantizer, target: *const qr_target, call: *const qr_call_options) -> *mut qr_status;

    /// ```text
    /// Writes what the last write found and did, the file "report": options, what was rewritten, and for each tensor its
    /// range, type and signal to noise against the float model; docs/quantize.md has the keys.
    /// @param quantizer  borrows.
    /// @param format     borrows: "json", or "html": a page that needs nothing else.
    /// @param target     borrows: where it goes.
    /// @param call       borrows: may be NULL; its signal aborts it.
    /// @thread  [exclusive:quantizer] [blocking]
    /// @errors  FAILED_PRECONDITION (nothing was written yet), INVALID_ARGUMENT (another format), PERMISSION_DENIED,
    ///          RESOURCE_EXHAUSTED, CANCELLED, UNAVAILABLE (the target's writer)
    /// @since   0.1
    /// ```
    pub fn qr_quantizer_report(quantizer: *mut qr_quantizer, format: qr_string, target: *const qr_target, call: *const qr_call_options) -> *mut qr_status;

    /// ```text
    /// Frees a quantizer. Accepts NULL.
    /// @param quantizer  takes.
    /// @thread  [exclusive:quantizer]
    /// @errors  none
    /// @since   0.1
    /// ```
    pub fn qr_quantizer_destroy(quantizer: *mut qr_quantizer);
}

/// Sizes and offsets as tests/abi/abi.txt has them: another layout does not compile.
const _: () = {
    assert!(size_of::<qr_quantize_option>() == 72);
    assert!(core::mem::offset_of!(qr_quantize_option, struct_size) == 0);
    assert!(core::mem::offset_of!(qr_quantize_option, reserved) == 4);
    assert!(core::mem::offset_of!(qr_quantize_option, key) == 8);
    assert!(core::mem::offset_of!(qr_quantize_option, values) == 24);
    assert!(core::mem::offset_of!(qr_quantize_option, default_value) == 40);
    assert!(core::mem::offset_of!(qr_quantize_option, help) == 56);
};
