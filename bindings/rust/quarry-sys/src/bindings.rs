// SPDX-License-Identifier: Apache-2.0
// Written by tools/generate_bindings.py from include/quarry, never by hand.
use core::ffi::{c_char, c_void};

pub const QR_VERSION_MAJOR: u32 = 0;
pub const QR_VERSION_MINOR: u32 = 1;
pub const QR_VERSION_PATCH: u32 = 0;
pub const QR_ABI_MAJOR: u32 = 0;
pub const QR_ABI_MINOR: u32 = 3;
pub const QR_MAX_RANK: u32 = 8;
pub const QR_DIM_UNKNOWN: i64 = -1;
pub const QR_NUL_TERMINATED: u64 = 0xffffffffffffffff;

/// ```text
/// FROZEN. UTF-8 text, but where a field or argument says that it may have other bytes (names of files). As an argument
/// `size` may be QR_NUL_TERMINATED; as a result it is always explicit and `data` is never promised to be NUL-terminated.
/// ```
#[repr(C)]
#[derive(Clone, Copy)]
pub struct qr_string {
    pub data: *const c_char,
    pub size: u64,
}

/// ```text
/// Status codes: programs branch on these, people read the message, search engines find the id.
/// ```
pub type qr_code = i32;
pub const QR_OK: qr_code = 0;
/// the call is wrong whatever the state of the system
pub const QR_INVALID_ARGUMENT: qr_code = 1;
/// right call, wrong time: the object is not in the state for it
pub const QR_FAILED_PRECONDITION: qr_code = 2;
/// a file, backend, tensor or option of that name does not exist
pub const QR_NOT_FOUND: qr_code = 3;
/// an index, size or offset past the end
pub const QR_OUT_OF_RANGE: qr_code = 4;
/// valid, but this backend or version cannot do it
pub const QR_UNSUPPORTED: qr_code = 5;
/// versions, targets or formats that do not fit together
pub const QR_INCOMPATIBLE: qr_code = 6;
/// a file that does not keep its own rules
pub const QR_CORRUPT: qr_code = 7;
/// out of memory, address space, handles or a stated budget
pub const QR_RESOURCE_EXHAUSTED: qr_code = 8;
/// the device or service cannot be used now; the hint says what would help
pub const QR_UNAVAILABLE: qr_code = 9;
/// the signal's timeout ran out
pub const QR_DEADLINE_EXCEEDED: qr_code = 10;
/// the signal was aborted
pub const QR_CANCELLED: qr_code = 11;
/// the operating system said no
pub const QR_PERMISSION_DENIED: qr_code = 12;
/// our fault: please report it with its id
pub const QR_INTERNAL: qr_code = 13;
/// a queue is full or a device is taken: the same call may succeed later
pub const QR_BUSY: qr_code = 14;
/// the device fell away: see qr_session_recover
pub const QR_DEVICE_LOST: qr_code = 15;

/// ```text
/// Element types. The numbers are those of ONNX's TensorProto.DataType. Types under 8 bits are packed, the first
/// element in the low bits.
/// ```
pub type qr_dtype = i32;
pub const QR_DTYPE_UNKNOWN: qr_dtype = 0;
pub const QR_DTYPE_F32: qr_dtype = 1;
pub const QR_DTYPE_U8: qr_dtype = 2;
pub const QR_DTYPE_I8: qr_dtype = 3;
pub const QR_DTYPE_U16: qr_dtype = 4;
pub const QR_DTYPE_I16: qr_dtype = 5;
pub const QR_DTYPE_I32: qr_dtype = 6;
pub const QR_DTYPE_I64: qr_dtype = 7;
pub const QR_DTYPE_BOOL: qr_dtype = 9;
pub const QR_DTYPE_F16: qr_dtype = 10;
pub const QR_DTYPE_F64: qr_dtype = 11;
pub const QR_DTYPE_U32: qr_dtype = 12;
pub const QR_DTYPE_U64: qr_dtype = 13;
pub const QR_DTYPE_BF16: qr_dtype = 16;
pub const QR_DTYPE_F8E4M3FN: qr_dtype = 17;
pub const QR_DTYPE_F8E4M3FNUZ: qr_dtype = 18;
pub const QR_DTYPE_F8E5M2: qr_dtype = 19;
pub const QR_DTYPE_F8E5M2FNUZ: qr_dtype = 20;
pub const QR_DTYPE_U4: qr_dtype = 21;
pub const QR_DTYPE_I4: qr_dtype = 22;
pub const QR_DTYPE_F4E2M1: qr_dtype = 23;
pub const QR_DTYPE_F8E8M0: qr_dtype = 24;
pub const QR_DTYPE_U2: qr_dtype = 25;
pub const QR_DTYPE_I2: qr_dtype = 26;

/// ```text
/// Log levels.
/// ```
pub type qr_log_level = i32;
pub const QR_LOG_ERROR: qr_log_level = 1;
pub const QR_LOG_WARN: qr_log_level = 2;
pub const QR_LOG_INFO: qr_log_level = 3;
pub const QR_LOG_DEBUG: qr_log_level = 4;
pub const QR_LOG_TRACE: qr_log_level = 5;
pub const QR_LOG_CALLER_MISBEHAVES: u32 = 1;
pub const QR_LOG_PLUGIN_MISBEHAVES: u32 = 2;

#[repr(C)]
pub struct qr_status {
    _opaque: [u8; 0],
    _marker: core::marker::PhantomData<(*mut u8, core::marker::PhantomPinned)>,
}

#[repr(C)]
pub struct qr_runtime {
    _opaque: [u8; 0],
    _marker: core::marker::PhantomData<(*mut u8, core::marker::PhantomPinned)>,
}

#[repr(C)]
pub struct qr_options {
    _opaque: [u8; 0],
    _marker: core::marker::PhantomData<(*mut u8, core::marker::PhantomPinned)>,
}

#[repr(C)]
pub struct qr_model {
    _opaque: [u8; 0],
    _marker: core::marker::PhantomData<(*mut u8, core::marker::PhantomPinned)>,
}

#[repr(C)]
pub struct qr_session {
    _opaque: [u8; 0],
    _marker: core::marker::PhantomData<(*mut u8, core::marker::PhantomPinned)>,
}

#[repr(C)]
pub struct qr_state {
    _opaque: [u8; 0],
    _marker: core::marker::PhantomData<(*mut u8, core::marker::PhantomPinned)>,
}

#[repr(C)]
pub struct qr_adapter {
    _opaque: [u8; 0],
    _marker: core::marker::PhantomData<(*mut u8, core::marker::PhantomPinned)>,
}

#[repr(C)]
pub struct qr_memory {
    _opaque: [u8; 0],
    _marker: core::marker::PhantomData<(*mut u8, core::marker::PhantomPinned)>,
}

#[repr(C)]
pub struct qr_signal {
    _opaque: [u8; 0],
    _marker: core::marker::PhantomData<(*mut u8, core::marker::PhantomPinned)>,
}

#[repr(C)]
pub struct qr_profile {
    _opaque: [u8; 0],
    _marker: core::marker::PhantomData<(*mut u8, core::marker::PhantomPinned)>,
}

/// ```text
/// The caller's memory functions. Size and alignment are given on free. `align_bytes` is a power of two, at least 16.
/// Both are called from any thread, several at a time.
/// ```
#[repr(C)]
#[derive(Clone, Copy)]
pub struct qr_allocator {
    pub struct_size: u32,
    pub reserved: u32,
    pub self_: *mut c_void,
    pub alloc: Option<unsafe extern "C" fn(self_: *mut c_void, size_bytes: u64, align_bytes: u64) -> *mut c_void>,
    pub free: Option<unsafe extern "C" fn(self_: *mut c_void, ptr: *mut c_void, size_bytes: u64, align_bytes: u64)>,
}
pub const QR_ALLOCATOR_FIRST_SIZE: u32 = 32;

/// ```text
/// Where log lines go. Called on whichever thread is inside Quarry; `topic` and `message` are borrowed for the call.
/// `flags`: QR_LOG_..._MISBEHAVES; others may come, and mean no harm to who does not know them.
/// ```
#[repr(C)]
#[derive(Clone, Copy)]
pub struct qr_log_sink {
    pub struct_size: u32,
    pub level: qr_log_level,
    pub self_: *mut c_void,
    pub write: Option<unsafe extern "C" fn(self_: *mut c_void, level: qr_log_level, flags: u32, topic: qr_string, message: qr_string)>,
}
pub const QR_LOG_SINK_FIRST_SIZE: u32 = 24;

/// ```text
/// The caller's own threads. `parallel_for` must call body(context, begin, end, worker) so that every index in
/// [0, count) is covered exactly once, with worker < worker_count and no two concurrent calls with the same worker, and
/// return when all are done. A pool that does not is detected, and the call that used it ends with QR-R0101.
/// `grain` is advice: a piece of fewer indices costs more to hand out than to work off, so that pieces are best no
/// smaller; any division is right, the whole in one piece included.
/// It is called on the thread that is inside qr_session_run (or warm_up, create, compile) or on the queue's; by several
/// threads at a time where several sessions run, never from within a body. A body calls nothing of Quarry's ABI, takes
/// no lock that the pool's other workers hold, and does not throw.
/// ```
#[repr(C)]
#[derive(Clone, Copy)]
pub struct qr_thread_pool {
    pub struct_size: u32,
    pub worker_count: u32,
    pub self_: *mut c_void,
    pub parallel_for: Option<unsafe extern "C" fn(self_: *mut c_void, count: u64, grain: u64, body: Option<unsafe extern "C" fn(context: *mut c_void, begin: u64, end: u64, worker: u32)>, context: *mut c_void)>,
}
pub const QR_THREAD_POOL_FIRST_SIZE: u32 = 24;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct qr_runtime_options {
    pub struct_size: u32,
    pub reserved: u32,
    pub flags: u64,
    pub allocator: *const qr_allocator,
    pub log: *const qr_log_sink,
    pub thread_pool: *const qr_thread_pool,
    pub backend_path: qr_string,
    pub prepare_path: qr_string,
}
pub const QR_RUNTIME_OPTIONS_FIRST_SIZE: u32 = 72;
pub const QR_RUNTIME_ONLY_GIVEN_PATHS: u64 = 1;

/// ```text
/// What the loader says of one candidate plugin file (or static backend).
/// ```
#[repr(C)]
#[derive(Clone, Copy)]
pub struct qr_backend_info {
    pub struct_size: u32,
    pub usable: i32,
    pub code: qr_code,
    pub is_static: u32,
    pub device_count: u64,
    pub id: qr_string,
    pub path: qr_string,
    pub version: qr_string,
    pub error_id: qr_string,
    pub verdict: qr_string,
    pub hint: qr_string,
}
pub const QR_BACKEND_INFO_FIRST_SIZE: u32 = 120;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct qr_device_info {
    pub struct_size: u32,
    pub usable: i32,
    pub memory_bytes: u64,
    pub features: u64,
    pub name: qr_string,
    pub target: qr_string,
    pub why_not: qr_string,
    pub details: qr_string,
}
pub const QR_DEVICE_INFO_FIRST_SIZE: u32 = 72;
/// qr_memory_import_fd works
pub const QR_DEVICE_IMPORTS_FD: u64 = 1;
/// qr_memory_register avoids a copy
pub const QR_DEVICE_REGISTERS_POINTER: u64 = 2;
/// results are real, times are predicted
pub const QR_DEVICE_SIMULATED: u64 = 4;
/// qr_session_recover can bring it back after a loss
pub const QR_DEVICE_RECOVERS: u64 = 8;
/// qr_session_submit queues on the device; else a thread of Quarry's runs
pub const QR_DEVICE_SUBMITS: u64 = 16;
/// contexts of one "context.group" share weights or buffers
pub const QR_DEVICE_GROUPS: u64 = 32;
/// of no use in a forked child: calls there return FAILED_PRECONDITION
pub const QR_DEVICE_NO_FORK: u64 = 64;
/// qr_memory_export_fd works
pub const QR_DEVICE_EXPORTS_FD: u64 = 128;
/// the option "shape" takes ranges: one program for all of "seq=1..512"
pub const QR_DEVICE_RANGES: u64 = 256;
/// of state that grows a run writes the new entries alone (state.h)
pub const QR_DEVICE_APPENDS: u64 = 512;
/// "shape" takes a range of the first axis of every input and output: a batch
pub const QR_DEVICE_BATCHES: u64 = 1024;

/// ```text
/// One row of the option table.
/// ```
#[repr(C)]
#[derive(Clone, Copy)]
pub struct qr_option_info {
    pub struct_size: u32,
    pub changes_at_run_time: u32,
    pub key: qr_string,
    pub values: qr_string,
    pub default_value: qr_string,
    pub scope: qr_string,
    pub help: qr_string,
    pub applies: u64,
}
pub const QR_OPTION_INFO_FIRST_SIZE: u32 = 96;
/// it shapes what is compiled, and stands in the container
pub const QR_OPTION_COMPILE: u64 = 1;
/// when a session is created
pub const QR_OPTION_LOAD: u64 = 2;
/// in runs
pub const QR_OPTION_RUN: u64 = 4;
/// beside COMPILE: it names the machine that is compiled for
pub const QR_OPTION_TARGET: u64 = 8;
pub const QR_NO_TIMEOUT: u64 = 0xffffffffffffffff;

/// ```text
/// Where to write. Start from one of the macros below; what a kind does not name is not looked at. Whatever the kind, a
/// call that fails leaves nothing half made that passes for the whole; a call that is stopped ends in the middle of
/// writing too.
/// ```
#[repr(C)]
#[derive(Clone, Copy)]
pub struct qr_target {
    pub struct_size: u32,
    pub kind: u32,
    pub path: qr_string,
    pub fd: i32,
    pub folder_fd: i32,
    pub out_data: *mut *mut c_void,
    pub out_size_bytes: *mut u64,
    pub self_: *mut c_void,
    pub begin: Option<unsafe extern "C" fn(self_: *mut c_void, name: qr_string, size_bytes: u64, more: u64) -> i32>,
    pub write: Option<unsafe extern "C" fn(self_: *mut c_void, data: *const c_void, size_bytes: u64) -> i32>,
    pub end: Option<unsafe extern "C" fn(self_: *mut c_void, committed: i32) -> i32>,
}
pub const QR_TARGET_FIRST_SIZE: u32 = 80;
pub const QR_TARGET_PATH: u32 = 1;
pub const QR_TARGET_MEMORY: u32 = 2;
pub const QR_TARGET_DESCRIPTOR: u32 = 3;
pub const QR_TARGET_WRITER: u32 = 4;
/// the call and its phases (basic)
pub const QR_PROFILE_BASIC: u32 = 1;
/// its nodes (detailed)
pub const QR_PROFILE_DETAILED: u32 = 2;
/// what the device says about each node beyond its time (linting)
pub const QR_PROFILE_LINTING: u32 = 3;
/// everything there is (optrace)
pub const QR_PROFILE_TRACE: u32 = 4;
/// nanoseconds of the monotonic clock
pub const QR_CLOCK_HOST: u32 = 0;
/// nanoseconds from some beginning of the device's
pub const QR_CLOCK_DEVICE_NS: u32 = 1;
/// cycles of the device, likewise
pub const QR_CLOCK_DEVICE_CYCLES: u32 = 2;
/// no times: the event has counters alone
pub const QR_CLOCK_NONE: u32 = 3;

/// ```text
/// FROZEN. What was counted in an event: {"bytes read", "bytes", 4096}.
/// ```
#[repr(C)]
#[derive(Clone, Copy)]
pub struct qr_profile_counter {
    pub name: qr_string,
    pub unit: qr_string,
    pub value: u64,
}

/// ```text
/// FROZEN. What else is known of an event: "kernel", "shapes", "fused", "graph".
/// ```
#[repr(C)]
#[derive(Clone, Copy)]
pub struct qr_profile_attribute {
    pub key: qr_string,
    pub value: qr_string,
}

/// ```text
/// One event.
/// ```
#[repr(C)]
#[derive(Clone, Copy)]
pub struct qr_profile_event {
    pub struct_size: u32,
    pub level: u32,
    pub id: u64,
    pub parent: u64,
    pub clock: u32,
    pub thread: u32,
    pub begin: u64,
    pub end: u64,
    pub node: i64,
    pub name: qr_string,
    pub kind: qr_string,
    pub op: qr_string,
    pub counters: *const qr_profile_counter,
    pub counter_count: u64,
    pub attributes: *const qr_profile_attribute,
    pub attribute_count: u64,
}
pub const QR_PROFILE_EVENT_FIRST_SIZE: u32 = 136;
pub const QR_GO_ON: u32 = 0;
/// as every other value than 0
pub const QR_STOP: u32 = 1;

/// ```text
/// Called with how far a long call has come: `done` of `total` steps (total 0: not known) and what it is doing. On
/// whichever thread is inside Quarry, one call at a time. Where it answers QR_STOP the call ends as soon as it can, with
/// CANCELLED and the id QR-C0013, as if its signal were aborted, and reports no more; the signal itself stays as it is.
/// ```
#[repr(C)]
#[derive(Clone, Copy)]
pub struct qr_progress {
    pub struct_size: u32,
    pub reserved: u32,
    pub self_: *mut c_void,
    pub report: Option<unsafe extern "C" fn(self_: *mut c_void, done: u64, total: u64, what: qr_string) -> i32>,
}
pub const QR_PROGRESS_FIRST_SIZE: u32 = 24;

/// ```text
/// Of a call that compiles, loads or creates. NULL for the struct, or for a member, means: not wanted.
/// ```
#[repr(C)]
#[derive(Clone, Copy)]
pub struct qr_call_options {
    pub struct_size: u32,
    pub reserved: u32,
    pub flags: u64,
    pub signal: *mut qr_signal,
    pub profile: *mut qr_profile,
    pub progress: *const qr_progress,
}
pub const QR_CALL_OPTIONS_FIRST_SIZE: u32 = 40;

/// ```text
/// Dense, row-major data. Plain data: there is nothing to destroy.
/// As an input: dtype, rank, dims and one of `data`, `const_data` and `memory` are set by the caller. Inputs are only
/// read, whichever of them it is.
/// As an output: the caller may set `data` and `size_bytes` (room for the result) or `memory` and `memory_offset`; the
/// run then writes there. With neither, the run sets `data` to memory of the session's own and flags it
/// QR_TENSOR_OF_SESSION. It is valid until the next run of the session, and may be an input of that one: so a state is
/// carried from run to run. In all cases the run sets dtype, rank, dims and size_bytes to the result's.
/// `data` may lie at any address. Where an element could not (a float at an odd address), each run copies it: align
/// what is to be quick. `memory_offset` is a multiple of an element's size.
/// An output lies neither where an input of the same run lies nor where another output does.
/// ```
#[repr(C)]
#[derive(Clone, Copy)]
pub struct qr_tensor {
    pub struct_size: u32,
    pub dtype: qr_dtype,
    pub rank: u32,
    pub flags: u32,
    pub dims: [i64; QR_MAX_RANK as usize],
    pub data: *mut c_void,
    pub size_bytes: u64,
    pub memory: *mut qr_memory,
    pub memory_offset: u64,
    pub const_data: *const c_void,
}
pub const QR_TENSOR_FIRST_SIZE: u32 = 120;
pub const QR_TENSOR_OF_SESSION: u32 = 1;

/// ```text
/// What is known of an input or output. `dims` holds QR_DIM_UNKNOWN for a dimension that is symbolic (its name is in
/// qr_model_input_dim_name) or known only after the run.
/// ```
#[repr(C)]
#[derive(Clone, Copy)]
pub struct qr_tensor_info {
    pub struct_size: u32,
    pub dtype: qr_dtype,
    pub rank: u32,
    pub is_quantized: u32,
    pub dims: [i64; QR_MAX_RANK as usize],
    pub size_bytes: u64,
    pub name: qr_string,
    pub scale: f64,
    pub zero_point: i64,
    pub scales: *const f32,
    pub zero_points: *const i32,
    pub scale_count: u64,
    pub block_size: i64,
    pub quantized_axis: u32,
    pub reserved: u32,
}
pub const QR_TENSOR_INFO_FIRST_SIZE: u32 = 160;
pub const QR_QUANTIZED_PER_TENSOR: u32 = 1;
pub const QR_QUANTIZED_PER_CHANNEL: u32 = 2;
pub const QR_QUANTIZED_PER_BLOCK: u32 = 3;

/// ```text
/// Where a model is read from. Start from one of the macros below; what a kind does not name is not looked at.
/// ```
#[repr(C)]
#[derive(Clone, Copy)]
pub struct qr_model_source {
    pub struct_size: u32,
    pub kind: u32,
    pub path: qr_string,
    pub data: *const c_void,
    pub offset: u64,
    pub size_bytes: u64,
    pub fd: i32,
    pub folder_fd: i32,
    pub self_: *mut c_void,
    pub read: Option<unsafe extern "C" fn(self_: *mut c_void, offset: u64, to: *mut c_void, size_bytes: u64) -> i32>,
    pub external: Option<unsafe extern "C" fn(self_: *mut c_void, name: qr_string, out_source: *mut qr_model_source) -> i32>,
}
pub const QR_MODEL_SOURCE_FIRST_SIZE: u32 = 72;
pub const QR_SOURCE_PATH: u32 = 1;
pub const QR_SOURCE_MEMORY: u32 = 2;
pub const QR_SOURCE_DESCRIPTOR: u32 = 3;
pub const QR_SOURCE_READER: u32 = 4;

/// ```text
/// One of several models that become one container: a network.
/// ```
#[repr(C)]
#[derive(Clone, Copy)]
pub struct qr_network {
    pub struct_size: u32,
    pub reserved: u32,
    pub model: *const qr_model,
    pub name: qr_string,
}
pub const QR_NETWORK_FIRST_SIZE: u32 = 32;

/// ```text
/// How well a context of a container fits a backend of this machine.
/// ```
pub type qr_compatibility = i32;
pub const QR_COMPATIBILITY_OPTIMAL: qr_compatibility = 1;
/// runs, but another compilation would be better
pub const QR_COMPATIBILITY_USABLE: qr_compatibility = 2;
/// does not run; the kept graph can be compiled again
pub const QR_COMPATIBILITY_RECOMPILE: qr_compatibility = 3;
/// does not run, and there is no graph to compile
pub const QR_COMPATIBILITY_INCOMPATIBLE: qr_compatibility = 4;
pub const QR_ACCESS_READ: u32 = 1;
pub const QR_ACCESS_WRITE: u32 = 2;

/// ```text
/// How memory will be used. NULL or zero: read and written by the device, with a view for the host.
/// ```
#[repr(C)]
#[derive(Clone, Copy)]
pub struct qr_memory_options {
    pub struct_size: u32,
    pub device_access: u32,
    pub flags: u64,
    pub runtime: *mut qr_runtime,
    pub backend: qr_string,
    pub device: u32,
    pub reserved: u32,
}
pub const QR_MEMORY_OPTIONS_FIRST_SIZE: u32 = 48;
pub const QR_MEMORY_NO_HOST_POINTER: u64 = 1;
pub const QR_BUFFER_PLANES: u32 = 3;

/// ```text
/// How a hardware buffer lies in memory while it is locked: a picture as one plane or several, with bytes between its
/// rows where the system wants them; a buffer of bytes (BLOB) as one plane of one row.
/// ```
#[repr(C)]
#[derive(Clone, Copy)]
pub struct qr_buffer_layout {
    pub struct_size: u32,
    pub format: u32,
    pub width: u32,
    pub height: u32,
    pub plane_count: u32,
    pub reserved: u32,
    pub offset: [u64; QR_BUFFER_PLANES as usize],
    pub row_bytes: [u32; QR_BUFFER_PLANES as usize],
    pub pixel_bytes: [u32; QR_BUFFER_PLANES as usize],
}
pub const QR_BUFFER_LAYOUT_FIRST_SIZE: u32 = 72;

/// ```text
/// What a session will need, known before it is created.
/// ```
#[repr(C)]
#[derive(Clone, Copy)]
pub struct qr_memory_plan {
    pub struct_size: u32,
    pub reserved: u32,
    pub weights_bytes: u64,
    pub arena_bytes: u64,
    pub io_bytes: u64,
    pub device_bytes: u64,
    pub scratchpad_bytes: u64,
    pub spill_fill_bytes: u64,
}
pub const QR_MEMORY_PLAN_FIRST_SIZE: u32 = 56;

/// ```text
/// Options of one run.
/// ```
#[repr(C)]
#[derive(Clone, Copy)]
pub struct qr_run_options {
    pub struct_size: u32,
    pub reserved: u32,
    pub flags: u64,
    pub signal: *mut qr_signal,
    pub profile: *mut qr_profile,
}
pub const QR_RUN_OPTIONS_FIRST_SIZE: u32 = 32;

/// ```text
/// Options of a submitted run.
/// ```
#[repr(C)]
#[derive(Clone, Copy)]
pub struct qr_submit_options {
    pub struct_size: u32,
    pub reserved: u32,
    pub flags: u64,
    pub signal: *mut qr_signal,
    pub profile: *mut qr_profile,
    pub self_: *mut c_void,
    pub done: Option<unsafe extern "C" fn(self_: *mut c_void, ticket: u64, status: *mut qr_status)>,
}
pub const QR_SUBMIT_OPTIONS_FIRST_SIZE: u32 = 48;

/// ```text
/// What a pair is.
/// ```
#[repr(C)]
#[derive(Clone, Copy)]
pub struct qr_state_info {
    pub struct_size: u32,
    pub axis: i32,
    pub input: qr_string,
    pub output: qr_string,
    pub dtype: qr_dtype,
    pub rank: u32,
    pub dims: [i64; QR_MAX_RANK as usize],
    pub capacity: u64,
    pub bytes: u64,
}
pub const QR_STATE_INFO_FIRST_SIZE: u32 = 128;

/// ```text
/// How an adapter is read.
/// ```
#[repr(C)]
#[derive(Clone, Copy)]
pub struct qr_adapter_options {
    pub struct_size: u32,
    pub reserved: u32,
    pub alpha: f32,
    pub strength: f32,
}
pub const QR_ADAPTER_OPTIONS_FIRST_SIZE: u32 = 16;

unsafe extern "C" {
    /// ```text
    /// Returns the run-time version, "major.minor.patch".
    /// @return  borrows: static, NUL-terminated.
    /// @thread  [thread-safe] [in-callback]
    /// @errors  none
    /// @since   0.1
    /// ```
    pub fn qr_version() -> *const c_char;

    /// ```text
    /// Returns the version of the C ABI that the library has, for who opens it at run time: QR_ABI_MAJOR * 65536 +
    /// QR_ABI_MINOR. A program built with these headers runs with a library of the same major and at least this minor.
    /// @thread  [thread-safe] [in-callback]
    /// @errors  none
    /// @since   0.1
    /// ```
    pub fn qr_abi_version() -> u32;

    /// ```text
    /// Names a data type as ONNX's C++ users write it ("f32", "u8", "bf16"); "unknown" for a number that is none.
    /// @return  borrows: static, NUL-terminated.
    /// @thread  [thread-safe] [in-callback]
    /// @errors  none
    /// @since   0.1
    /// ```
    pub fn qr_dtype_name(dtype: qr_dtype) -> *const c_char;

    /// ```text
    /// The bits of one element (4 for QR_DTYPE_I4), 0 for a number that is no data type.
    /// @thread  [thread-safe] [in-callback]
    /// @errors  none
    /// @since   0.1
    /// ```
    pub fn qr_dtype_bits(dtype: qr_dtype) -> u32;

    /// ```text
    /// The code of a status; QR_OK for NULL.
    /// @param status  borrows: may be NULL.
    /// @thread  [thread-safe] [in-callback]
    /// @errors  none
    /// @since   0.1
    /// ```
    pub fn qr_status_code(status: *const qr_status) -> qr_code;

    /// ```text
    /// The code's name, "INVALID_ARGUMENT"; "UNKNOWN" for a number that is none.
    /// @return  borrows: static, NUL-terminated.
    /// @thread  [thread-safe] [in-callback]
    /// @errors  none
    /// @since   0.1
    /// ```
    pub fn qr_code_name(code: qr_code) -> *const c_char;

    /// ```text
    /// The stable id, "QR-C0107"; empty for NULL. docs/errors.md has a section for each id.
    /// @param status  borrows: may be NULL.
    /// @return  borrows: until the status is destroyed; NUL-terminated.
    /// @thread  [thread-safe] [in-callback]
    /// @errors  none
    /// @since   0.1
    /// ```
    pub fn qr_status_id(status: *const qr_status) -> *const c_char;

    /// ```text
    /// What went wrong: subject, found, expected. Empty for NULL.
    /// @param status  borrows: may be NULL.
    /// @return  borrows: until the status is destroyed; NUL-terminated.
    /// @thread  [thread-safe] [in-callback]
    /// @errors  none
    /// @since   0.1
    /// ```
    pub fn qr_status_message(status: *const qr_status) -> *const c_char;

    /// ```text
    /// What to do about it; may be empty.
    /// @param status  borrows: may be NULL.
    /// @return  borrows: until the status is destroyed; NUL-terminated.
    /// @thread  [thread-safe] [in-callback]
    /// @errors  none
    /// @since   0.1
    /// ```
    pub fn qr_status_hint(status: *const qr_status) -> *const c_char;

    /// ```text
    /// The number of detail frames. A refusal of several nodes carries one "reason" frame for each of them.
    /// @param status  borrows: may be NULL.
    /// @thread  [thread-safe] [in-callback]
    /// @errors  none
    /// @since   0.1
    /// ```
    pub fn qr_status_detail_count(status: *const qr_status) -> u64;

    /// ```text
    /// A detail frame: its key ("file", "node", "op", "tensor", "option", "backend", "reason") and value.
    /// @param status     borrows: may be NULL (then both results are empty).
    /// @param index      from 0; past the end gives two empty strings.
    /// @param out_key    gives nothing: borrows until the status is destroyed; NUL-terminated.
    /// @param out_value  likewise borrows.
    /// @thread  [thread-safe] [in-callback]
    /// @errors  none
    /// @since   0.1
    /// ```
    pub fn qr_status_detail(status: *const qr_status, index: u64, out_key: *mut *const c_char, out_value: *mut *const c_char);

    /// ```text
    /// Frees a status. Accepts NULL.
    /// @param status  takes.
    /// @thread  [thread-safe] [in-callback]
    /// @errors  none
    /// @since   0.1
    /// ```
    pub fn qr_status_destroy(status: *mut qr_status);

    /// ```text
    /// Creates a runtime. Starts no thread and opens no plugin.
    /// @param options      borrows: may be NULL for the defaults.
    /// @param out_runtime  gives: qr_runtime_destroy.
    /// @thread  [thread-safe]
    /// @errors  INVALID_ARGUMENT (unknown flag or field, allocator without alloc or free), RESOURCE_EXHAUSTED
    /// @since   0.1
    /// ```
    pub fn qr_runtime_create(options: *const qr_runtime_options, out_runtime: *mut *mut qr_runtime) -> *mut qr_status;

    /// ```text
    /// Lets go of a runtime. What was made from it stays valid and keeps it alive. Accepts NULL.
    /// @param runtime  takes.
    /// @thread  [thread-safe]
    /// @errors  none
    /// @since   0.1
    /// ```
    pub fn qr_runtime_destroy(runtime: *mut qr_runtime);

    /// ```text
    /// Looks at every candidate plugin: opens the usable ones, runs no code of the others. The list is kept until the next
    /// call.
    /// @param runtime    borrows.
    /// @param out_count  the number of candidates.
    /// @thread  [exclusive:runtime] [blocking]
    /// @errors  INVALID_ARGUMENT, RESOURCE_EXHAUSTED
    /// @since   0.1
    /// ```
    pub fn qr_runtime_scan(runtime: *mut qr_runtime, out_count: *mut u64) -> *mut qr_status;

    /// ```text
    /// The verdict on one candidate.
    /// @param runtime   borrows.
    /// @param index     under the count of the last qr_runtime_scan.
    /// @param out_info  borrows: set its struct_size; its strings live until the next scan or the runtime's end.
    /// @thread  [exclusive:runtime]
    /// @errors  INVALID_ARGUMENT, OUT_OF_RANGE
    /// @since   0.1
    /// ```
    pub fn qr_runtime_backend(runtime: *const qr_runtime, index: u64, out_info: *mut qr_backend_info) -> *mut qr_status;

    /// ```text
    /// A device of a usable backend.
    /// @param runtime   borrows.
    /// @param index     of the backend, as for qr_runtime_backend.
    /// @param device    under its device_count.
    /// @param out_info  borrows: set its struct_size; strings live as in qr_runtime_backend.
    /// @thread  [exclusive:runtime]
    /// @errors  INVALID_ARGUMENT, OUT_OF_RANGE
    /// @since   0.1
    /// ```
    pub fn qr_runtime_device(runtime: *const qr_runtime, index: u64, device: u64, out_info: *mut qr_device_info) -> *mut qr_status;

    /// ```text
    /// The folders that are searched for plugins, in order, with where each came from: "option" (backend_path),
    /// "environment" (QUARRY_BACKEND_PATH, not read in a set-user-id program), "beside libquarry" (quarry/backends below the
    /// library's folder) or "build tree" (each folder of ../backends that holds a plugin, where the library is still in its
    /// build tree), "built in" (the folder that the library was configured to be installed with). A folder is searched once.
    /// @param runtime     borrows.
    /// @param index       from 0.
    /// @param out_path    borrows: until the runtime's end.
    /// @param out_origin  borrows: static.
    /// @thread  [thread-safe]
    /// @errors  INVALID_ARGUMENT, OUT_OF_RANGE (past the last)
    /// @since   0.1
    /// ```
    pub fn qr_runtime_search_path(runtime: *const qr_runtime, index: u64, out_path: *mut qr_string, out_origin: *mut qr_string) -> *mut qr_status;

    /// ```text
    /// The processor features that kernels may use, one word each with spaces between ("sse4.2 avx2 fma").
    /// @return  borrows: until the runtime's end; NUL-terminated. Empty for NULL.
    /// @param runtime  borrows.
    /// @thread  [thread-safe]
    /// @errors  none
    /// @since   0.1
    /// ```
    pub fn qr_runtime_cpu_features(runtime: *const qr_runtime) -> *const c_char;

    /// ```text
    /// What plugins have to be built for to be loaded here: processor, system and C library ("x86_64-linux-glibc").
    /// @return  borrows: static; NUL-terminated.
    /// @thread  [thread-safe]
    /// @errors  none
    /// @since   0.1
    /// ```
    pub fn qr_plugin_target() -> *const c_char;

    /// ```text
    /// One row per (operator, backend) as JSON: {"backend": ..., "opset": N, "operators": [{"name", "domain", "supported",
    /// "types", "note"}]}. An empty backend gives the table of Quarry's own operator set.
    /// The table is libquarry-prepare's, which is opened.
    /// @param runtime   borrows.
    /// @param backend   borrows: a backend's id, or empty.
    /// @param out_json  gives: qr_string_destroy; NUL-terminated.
    /// @thread  [exclusive:runtime] [blocking]
    /// @errors  NOT_FOUND (no such backend, no libquarry-prepare), INVALID_ARGUMENT, RESOURCE_EXHAUSTED
    /// @since   0.1
    /// ```
    pub fn qr_runtime_operators(runtime: *mut qr_runtime, backend: qr_string, out_json: *mut *mut c_char) -> *mut qr_status;

    /// ```text
    /// Frees a text that a function of this library gave. What gave it, and its runtime, may be gone by then.
    /// @param text  takes: may be NULL.
    /// @thread  [thread-safe]
    /// @errors  none
    /// @since   0.1
    /// ```
    pub fn qr_string_destroy(text: *mut c_char);

    /// ```text
    /// Creates an empty set: every option has its default.
    /// @param runtime      borrows: kept alive by the set.
    /// @param out_options  gives: qr_options_destroy.
    /// @thread  [thread-safe]
    /// @errors  INVALID_ARGUMENT, RESOURCE_EXHAUSTED
    /// @since   0.1
    /// ```
    pub fn qr_options_create(runtime: *mut qr_runtime, out_options: *mut *mut qr_options) -> *mut qr_status;

    /// ```text
    /// Sets one option; the last value of a key holds, except that "shape" adds (see docs/options.md).
    /// @param options  borrows.
    /// @param key      borrows: UTF-8.
    /// @param value    borrows: UTF-8; of an option whose values are a "path" any bytes but NUL.
    /// @thread  [exclusive:options]
    /// @errors  NOT_FOUND (unknown key: the nearest is named), INVALID_ARGUMENT (bad value: the allowed ones are listed),
    ///          RESOURCE_EXHAUSTED
    /// @since   0.1
    /// ```
    pub fn qr_options_set(options: *mut qr_options, key: qr_string, value: qr_string) -> *mut qr_status;

    /// ```text
    /// The value in force: what was set, or the default.
    /// @param options    borrows.
    /// @param key        borrows: UTF-8.
    /// @param out_value  borrows: until the next set or the destruction of `options`.
    /// @thread  [thread-safe]
    /// @errors  NOT_FOUND, INVALID_ARGUMENT, FAILED_PRECONDITION (overlaps with qr_options_set)
    /// @since   0.1
    /// ```
    pub fn qr_options_get(options: *const qr_options, key: qr_string, out_value: *mut qr_string) -> *mut qr_status;

    /// ```text
    /// Takes an option back: its default holds again. One that was not set stays so.
    /// @param options  borrows.
    /// @param key      borrows: UTF-8.
    /// @thread  [exclusive:options]
    /// @errors  NOT_FOUND (unknown key: the nearest is named), RESOURCE_EXHAUSTED
    /// @since   0.1
    /// ```
    pub fn qr_options_unset(options: *mut qr_options, key: qr_string) -> *mut qr_status;

    /// ```text
    /// The number of options that were set; 0 for NULL.
    /// @param options  borrows.
    /// @thread  [exclusive:options]
    /// @errors  none
    /// @since   0.1
    /// ```
    pub fn qr_options_count(options: *const qr_options) -> u64;

    /// ```text
    /// An option that was set, in the order of their keys.
    /// @param options    borrows.
    /// @param index      under qr_options_count.
    /// @param out_key    borrows: until the next set or unset, or the destruction of `options`.
    /// @param out_value  borrows: likewise.
    /// @thread  [thread-safe]
    /// @errors  OUT_OF_RANGE, INVALID_ARGUMENT, FAILED_PRECONDITION (overlaps with qr_options_set)
    /// @since   0.1
    /// ```
    pub fn qr_options_at(options: *const qr_options, index: u64, out_key: *mut qr_string, out_value: *mut qr_string) -> *mut qr_status;

    /// ```text
    /// Copies a set of options.
    /// @param options   borrows.
    /// @param out_copy  gives: qr_options_destroy.
    /// @thread  [thread-safe]
    /// @errors  INVALID_ARGUMENT, FAILED_PRECONDITION (overlaps with qr_options_set), RESOURCE_EXHAUSTED
    /// @since   0.1
    /// ```
    pub fn qr_options_copy(options: *const qr_options, out_copy: *mut *mut qr_options) -> *mut qr_status;

    /// ```text
    /// Frees a set of options. Accepts NULL.
    /// @param options  takes.
    /// @thread  [exclusive:options]
    /// @errors  none
    /// @since   0.1
    /// ```
    pub fn qr_options_destroy(options: *mut qr_options);

    /// ```text
    /// One row of the table of all options, those of the usable backends' own tables included.
    /// @param runtime   borrows.
    /// @param index     from 0.
    /// @param out_info  borrows: set its struct_size; its strings live until the runtime's end.
    /// @thread  [exclusive:runtime]
    /// @errors  OUT_OF_RANGE (past the last row), INVALID_ARGUMENT
    /// @since   0.1
    /// ```
    pub fn qr_runtime_option(runtime: *mut qr_runtime, index: u64, out_info: *mut qr_option_info) -> *mut qr_status;

    /// ```text
    /// Creates a signal that is not aborted and has no timeout.
    /// @param runtime     borrows: kept alive by the signal.
    /// @param out_signal  gives: qr_signal_destroy.
    /// @thread  [thread-safe]
    /// @errors  INVALID_ARGUMENT, RESOURCE_EXHAUSTED
    /// @since   0.1
    /// ```
    pub fn qr_signal_create(runtime: *mut qr_runtime, out_signal: *mut *mut qr_signal) -> *mut qr_status;

    /// ```text
    /// A signal for the calls that belong together: it is aborted when `parent` is, and what is left of the parent's timeout
    /// counts from now on for all of them. By itself it may be aborted, and have a timeout of each call, without the parent
    /// seeing it. It stays aborted when the parent is reset.
    /// @param parent      borrows: kept alive by the new signal.
    /// @param out_signal  gives: qr_signal_destroy.
    /// @thread  [thread-safe]
    /// @errors  INVALID_ARGUMENT, RESOURCE_EXHAUSTED
    /// @since   0.1
    /// ```
    pub fn qr_signal_derive(parent: *mut qr_signal, out_signal: *mut *mut qr_signal) -> *mut qr_status;

    /// ```text
    /// Whether a call that began now would go on: for work of the caller's own between calls. NULL goes on.
    /// @param signal  borrows.
    /// @thread  [thread-safe] [in-callback]
    /// @errors  CANCELLED (it is aborted), DEADLINE_EXCEEDED (no time is left)
    /// @since   0.1
    /// ```
    pub fn qr_signal_check(signal: *const qr_signal) -> *mut qr_status;

    /// ```text
    /// Makes the calls that use the signal return CANCELLED as soon as they can, now and until it is reset. NULL is ignored.
    /// @param signal  borrows.
    /// @thread  [thread-safe] [in-callback]
    /// @errors  none
    /// @since   0.1
    /// ```
    pub fn qr_signal_abort(signal: *mut qr_signal);

    /// ```text
    /// Takes an abort back. NULL is ignored.
    /// @param signal  borrows.
    /// @thread  [thread-safe] [in-callback]
    /// @errors  none
    /// @since   0.1
    /// ```
    pub fn qr_signal_reset(signal: *mut qr_signal);

    /// ```text
    /// Gives each later call that uses the signal this long, counted from its start, its waiting for other calls included.
    /// NULL is ignored.
    /// @param signal      borrows.
    /// @param timeout_ns  in nanoseconds; 0: no time at all; QR_NO_TIMEOUT: no limit, as before the first call.
    /// @thread  [thread-safe] [in-callback]
    /// @errors  none
    /// @since   0.1
    /// ```
    pub fn qr_signal_set_timeout(signal: *mut qr_signal, timeout_ns: u64);

    /// ```text
    /// A descriptor that poll() calls readable while the signal is aborted, for a caller that waits for several things. A
    /// child of fork() asks for it again: the number stays, and is from then on of what happens to the signal in the child.
    /// Refused on Windows, where no descriptor goes from one library to another: ask qr_signal_check now and then.
    /// @param signal  borrows.
    /// @param out_fd  borrows: until the signal is destroyed; never read, written or closed by the caller.
    /// @thread  [thread-safe]
    /// @errors  INVALID_ARGUMENT, RESOURCE_EXHAUSTED (no descriptor to be had)
    /// @since   0.1
    /// ```
    pub fn qr_signal_fd(signal: *mut qr_signal, out_fd: *mut i32) -> *mut qr_status;

    /// ```text
    /// Frees a signal; calls that use it keep it alive. Accepts NULL.
    /// @param signal  takes.
    /// @thread  [thread-safe]
    /// @errors  none
    /// @since   0.1
    /// ```
    pub fn qr_signal_destroy(signal: *mut qr_signal);

    /// ```text
    /// Creates an empty profile.
    /// @param runtime      borrows: kept alive by the profile.
    /// @param out_profile  gives: qr_profile_destroy.
    /// @thread  [thread-safe]
    /// @errors  INVALID_ARGUMENT, RESOURCE_EXHAUSTED
    /// @since   0.1
    /// ```
    pub fn qr_profile_create(runtime: *mut qr_runtime, out_profile: *mut *mut qr_profile) -> *mut qr_status;

    /// ```text
    /// The number of events so far; 0 for NULL.
    /// @param profile  borrows.
    /// @thread  [exclusive:profile]
    /// @errors  none
    /// @since   0.1
    /// ```
    pub fn qr_profile_event_count(profile: *const qr_profile) -> u64;

    /// ```text
    /// The number of events that could not be kept: for want of memory, by the device, or because the profile has 1048576 of
    /// them (or 4194304 counters and attributes, or 64 MB of texts) since it was cleared; 0 for NULL.
    /// @param profile  borrows.
    /// @thread  [exclusive:profile]
    /// @errors  none
    /// @since   0.1
    /// ```
    pub fn qr_profile_lost_count(profile: *const qr_profile) -> u64;

    /// ```text
    /// One event. A call comes before its parts; among the parts of one, in the order of their begins.
    /// @param profile    borrows.
    /// @param index      under qr_profile_event_count.
    /// @param out_event  borrows: set its struct_size; its strings and arrays live until the profile is cleared, destroyed
    /// or given to another call.
    /// @thread  [exclusive:profile]
    /// @errors  OUT_OF_RANGE, INVALID_ARGUMENT
    /// @since   0.1
    /// ```
    pub fn qr_profile_event_at(profile: *const qr_profile, index: u64, out_event: *mut qr_profile_event) -> *mut qr_status;

    /// ```text
    /// Writes the events, the file "profile": "chrome" (trace JSON for Perfetto and chrome://tracing) or "csv". Both say
    /// how many events were lost.
    /// @param profile  borrows.
    /// @param format   borrows.
    /// @param target   borrows: where they go.
    /// @thread  [exclusive:profile] [blocking]
    /// @errors  INVALID_ARGUMENT (unknown format), PERMISSION_DENIED, RESOURCE_EXHAUSTED, UNAVAILABLE (the target's writer)
    /// @since   0.1
    /// ```
    pub fn qr_profile_export(profile: *const qr_profile, format: qr_string, target: *const qr_target) -> *mut qr_status;

    /// ```text
    /// Forgets all events. NULL is ignored.
    /// @param profile  borrows.
    /// @thread  [exclusive:profile]
    /// @errors  none
    /// @since   0.1
    /// ```
    pub fn qr_profile_clear(profile: *mut qr_profile);

    /// ```text
    /// Frees a profile. Accepts NULL.
    /// @param profile  takes.
    /// @thread  [exclusive:profile]
    /// @errors  none
    /// @since   0.1
    /// ```
    pub fn qr_profile_destroy(profile: *mut qr_profile);

    /// ```text
    /// Opens a model. A .qrm is mapped where it is a file, or read into memory with the option "container.map" at 0; an
    /// .onnx is parsed and checked, and its external data are opened now, and mapped or read likewise. The kind is found
    /// from the content. A mapped file must not be cut or written to in place as long as the model or a session of it lives:
    /// replace it by renaming another over it.
    /// @param runtime    borrows: kept alive by the model.
    /// @param source     borrows.
    /// @param options    borrows: may be NULL; of use here: "verify", "container.map" and, for ONNX, "shape",
    /// "model.folder".
    /// @param call       borrows: may be NULL.
    /// @param out_model  gives: qr_model_destroy.
    /// @thread  [thread-safe] [blocking]
    /// @errors  NOT_FOUND, PERMISSION_DENIED, CORRUPT, INCOMPATIBLE, UNSUPPORTED (all reasons as details), OUT_OF_RANGE
    /// (offset or size past the file), CANCELLED, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED
    /// @since   0.1
    /// ```
    pub fn qr_model_open(runtime: *mut qr_runtime, source: *const qr_model_source, options: *const qr_options, call: *const qr_call_options, out_model: *mut *mut qr_model) -> *mut qr_status;

    /// ```text
    /// The number of inputs; 0 for NULL.
    /// @param model  borrows.
    /// @thread  [thread-safe]
    /// @errors  none
    /// @since   0.1
    /// ```
    pub fn qr_model_input_count(model: *const qr_model) -> u64;

    /// ```text
    /// The number of outputs; 0 for NULL.
    /// @param model  borrows.
    /// @thread  [thread-safe]
    /// @errors  none
    /// @since   0.1
    /// ```
    pub fn qr_model_output_count(model: *const qr_model) -> u64;

    /// ```text
    /// What the model says of an input. With several shape buckets the dimensions that differ are QR_DIM_UNKNOWN.
    /// @param model     borrows.
    /// @param index     under qr_model_input_count.
    /// @param out_info  borrows: set its struct_size; its strings live as long as the model.
    /// @thread  [thread-safe]
    /// @errors  OUT_OF_RANGE, INVALID_ARGUMENT
    /// @since   0.1
    /// ```
    pub fn qr_model_input(model: *const qr_model, index: u64, out_info: *mut qr_tensor_info) -> *mut qr_status;

    /// ```text
    /// What the model says of an output; as qr_model_input.
    /// @param model     borrows.
    /// @param index     under qr_model_output_count.
    /// @param out_info  borrows: set its struct_size; its strings live as long as the model.
    /// @thread  [thread-safe]
    /// @errors  OUT_OF_RANGE, INVALID_ARGUMENT
    /// @since   0.1
    /// ```
    pub fn qr_model_output(model: *const qr_model, index: u64, out_info: *mut qr_tensor_info) -> *mut qr_status;

    /// ```text
    /// The name of a symbolic dimension ("batch"); empty where the dimension has none.
    /// @param model     borrows.
    /// @param index     of the input.
    /// @param axis      under its rank.
    /// @param out_name  borrows: as long as the model.
    /// @thread  [thread-safe]
    /// @errors  OUT_OF_RANGE, INVALID_ARGUMENT
    /// @since   0.1
    /// ```
    pub fn qr_model_input_dim_name(model: *const qr_model, index: u64, axis: u64, out_name: *mut qr_string) -> *mut qr_status;

    /// ```text
    /// The same of an output.
    /// @param model     borrows.
    /// @param index     of the output.
    /// @param axis      under its rank.
    /// @param out_name  borrows: as long as the model.
    /// @thread  [thread-safe]
    /// @errors  OUT_OF_RANGE, INVALID_ARGUMENT
    /// @since   0.1
    /// ```
    pub fn qr_model_output_dim_name(model: *const qr_model, index: u64, axis: u64, out_name: *mut qr_string) -> *mut qr_status;

    /// ```text
    /// The number of properties that the model carries (ONNX's metadata_props, "metadata.<key>" of a container); 0 for NULL.
    /// @param model  borrows.
    /// @thread  [thread-safe]
    /// @errors  none
    /// @since   0.1
    /// ```
    pub fn qr_model_property_count(model: *const qr_model) -> u64;

    /// ```text
    /// A property of the model.
    /// @param model      borrows.
    /// @param index      under qr_model_property_count.
    /// @param out_key    borrows: as long as the model; any bytes that the file has.
    /// @param out_value  borrows: likewise.
    /// @thread  [thread-safe]
    /// @errors  OUT_OF_RANGE, INVALID_ARGUMENT
    /// @since   0.1
    /// ```
    pub fn qr_model_property(model: *const qr_model, index: u64, out_key: *mut qr_string, out_value: *mut qr_string) -> *mut qr_status;

    /// ```text
    /// Everything the model says of itself, as JSON: kind, producer, inputs, outputs, graphs with their shapes, operators
    /// and their counts, contexts (backend, target, blob version, compatibility key, options), segments, metadata. The
    /// schema is docs/formats/inspect.md.
    /// @param model     borrows.
    /// @param call      borrows: may be NULL.
    /// @param out_json  gives: qr_string_destroy; NUL-terminated.
    /// @thread  [thread-safe] [blocking]
    /// @errors  INVALID_ARGUMENT, CANCELLED, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED
    /// @since   0.1
    /// ```
    pub fn qr_model_inspect(model: *const qr_model, call: *const qr_call_options, out_json: *mut *mut c_char) -> *mut qr_status;

    /// ```text
    /// Reads every byte of a .qrm and checks all sums and rules. Of an .onnx, what was not checked when it was opened: all
    /// data, external ones too, are there and whole, and each value is made by a node, an input or an initializer.
    /// @param model  borrows.
    /// @param call   borrows: may be NULL.
    /// @thread  [thread-safe] [blocking]
    /// @errors  CORRUPT, NOT_FOUND (external data), UNSUPPORTED (several reasons at once), INVALID_ARGUMENT, CANCELLED,
    ///          DEADLINE_EXCEEDED
    /// @since   0.1
    /// ```
    pub fn qr_model_verify(model: *const qr_model, call: *const qr_call_options) -> *mut qr_status;

    /// ```text
    /// Compiles a model for a backend into a container, the file "model.qrm". Where the target's name ends in ".onnx" it
    /// becomes what ONNX Runtime loads, as with option ep.context_file_path: a model of an EPContext node, and with
    /// ep.context_embed_mode at 0 the device's binary as a file before it. Options of use: "backend", "device_id", "shape"
    /// (several: shape buckets), "container.keep_graph", "metadata.<key>" and the backend's own.
    /// @param model     borrows: an ONNX model, or a container that kept its graph.
    /// @param options   borrows: may be NULL: the backend is then cpu.
    /// @param target    borrows: where the files go.
    /// @param call      borrows: may be NULL.
    /// @thread  [thread-safe] [blocking]
    /// @errors  UNSUPPORTED (nodes the backend refuses: one "reason" detail for each), INVALID_ARGUMENT, NOT_FOUND,
    ///          CANCELLED, DEADLINE_EXCEEDED, PERMISSION_DENIED, RESOURCE_EXHAUSTED, UNAVAILABLE (the target's writer)
    /// @since   0.1
    /// ```
    pub fn qr_model_compile(model: *const qr_model, options: *const qr_options, target: *const qr_target, call: *const qr_call_options) -> *mut qr_status;

    /// ```text
    /// Compiles several models for a backend into one container. What is equal in them is in the file once; a backend that
    /// takes several graphs (htp) has all of them in one program, with weights in common where its options say so. Such a
    /// container is opened with the option "model", which names a network of it. Where the target's name ends in ".onnx" it
    /// is a model of an EPContext node for each network and bucket, "name_1.onnx" and so on in their order, which have one
    /// binary. Options as for qr_model_compile but "shape", which is each model's own.
    /// @param networks  borrows: all of models of one runtime.
    /// @param count     of the networks; at least one.
    /// @param options   borrows: may be NULL: the backend is then cpu.
    /// @param target    borrows: where the files go.
    /// @param call      borrows: may be NULL.
    /// @thread  [thread-safe] [blocking]
    /// @errors  as qr_model_compile
    /// @since   0.3
    /// ```
    pub fn qr_model_compile_networks(networks: *const *const qr_network, count: u64, options: *const qr_options, target: *const qr_target, call: *const qr_call_options) -> *mut qr_status;

    /// ```text
    /// Writes a model's graph as it is after the passes that all backends share, for other programs; nothing is compiled.
    /// The target's name says how: ".onnx" (also where it has no name): a model, with its constants in a file before it
    /// where they are more than 2 GB; ".onnx.data": with them there in any case, in the file of this name; ".json": what
    /// docs/formats/graph.md describes. Options as for qr_model_compile, "graph.head" and "graph.tail" among them.
    /// @param model     borrows: an ONNX model, or a container that kept its graph.
    /// @param options   borrows: may be NULL.
    /// @param target    borrows: where the files go.
    /// @param call      borrows: may be NULL.
    /// @thread  [thread-safe] [blocking]
    /// @errors  as qr_model_compile; UNSUPPORTED: ONNX has no form for a node
    /// @since   0.3
    /// ```
    pub fn qr_model_export(model: *const qr_model, options: *const qr_options, target: *const qr_target, call: *const qr_call_options) -> *mut qr_status;

    /// ```text
    /// Asks a backend about every node and compiles nothing. JSON: {"backend", "supported", "refused", "nodes": [{"name",
    /// "op", "supported", "reason", "id", "hint", "path", "kernel", "inputs", "outputs"}]}. "path" says by what a supported
    /// node runs: "native", "reference" (right, and slow), "none" (fused, folded or a view) or "unknown". Where nodes are
    /// refused, "cut" has the tensors between which the most nodes are taken wholly ("kept" of "nodes"): "front" for the
    /// option graph.tail, "back" for graph.head. It is not there where no cut helps.
    /// @param model     borrows: an ONNX model, or a container that kept its graph.
    /// @param options   borrows: may be NULL; as for qr_model_compile.
    /// @param call      borrows: may be NULL.
    /// @param out_json  gives: qr_string_destroy; NUL-terminated.
    /// @thread  [thread-safe] [blocking]
    /// @errors  INVALID_ARGUMENT, NOT_FOUND, UNSUPPORTED (the model has no graph to ask about), RESOURCE_EXHAUSTED
    /// @since   0.1
    /// ```
    pub fn qr_model_check(model: *const qr_model, options: *const qr_options, call: *const qr_call_options, out_json: *mut *mut c_char) -> *mut qr_status;

    /// ```text
    /// Grades a container's context for a backend without loading it and without a session.
    /// @param model       borrows.
    /// @param options     borrows: may be NULL; "backend" and "device_id" choose.
    /// @param call        borrows: may be NULL.
    /// @param out_grade   the grade.
    /// @param out_reason  gives: qr_string_destroy; one line: found and expected; NUL-terminated.
    /// @thread  [thread-safe] [blocking]
    /// @errors  NOT_FOUND (no such backend, or the container has no context for it), INVALID_ARGUMENT, CANCELLED,
    ///          DEADLINE_EXCEEDED
    /// @since   0.1
    /// ```
    pub fn qr_model_compatibility(model: *const qr_model, options: *const qr_options, call: *const qr_call_options, out_grade: *mut qr_compatibility, out_reason: *mut *mut c_char) -> *mut qr_status;

    /// ```text
    /// Lets go of a model; its sessions keep what they need. Accepts NULL.
    /// @param model  takes.
    /// @thread  [thread-safe]
    /// @errors  none
    /// @since   0.1
    /// ```
    pub fn qr_model_destroy(model: *mut qr_model);

    /// ```text
    /// Allocates memory that suits a device (at least 64-byte aligned, zero-filled where the host has a view).
    /// @param session     borrows: says the device; NULL: the options say it.
    /// @param size_bytes  at least 1.
    /// @param options     borrows: may be NULL.
    /// @param out_memory  gives: qr_memory_destroy.
    /// @thread  [thread-safe]
    /// @errors  INVALID_ARGUMENT, UNSUPPORTED (an option that the device cannot serve), RESOURCE_EXHAUSTED
    /// @since   0.1
    /// ```
    pub fn qr_memory_allocate(session: *mut qr_session, size_bytes: u64, options: *const qr_memory_options, out_memory: *mut *mut qr_memory) -> *mut qr_status;

    /// ```text
    /// Makes an existing file descriptor (memfd, dma-buf) usable. The descriptor is duplicated; the caller keeps its own.
    /// Refused on Windows (see qr_signal_fd): map the memory and give it to qr_memory_register.
    /// @param session     borrows: says the device; NULL: the options say it.
    /// @param fd          borrows.
    /// @param offset      in bytes, into the file.
    /// @param size_bytes  at least 1; offset + size_bytes must lie inside the file.
    /// @param options     borrows: may be NULL.
    /// @param out_memory  gives: qr_memory_destroy.
    /// @thread  [thread-safe]
    /// @errors  INVALID_ARGUMENT, OUT_OF_RANGE, UNSUPPORTED (the device cannot import), RESOURCE_EXHAUSTED
    /// @since   0.1
    /// ```
    pub fn qr_memory_import_fd(session: *mut qr_session, fd: i32, offset: u64, size_bytes: u64, options: *const qr_memory_options, out_memory: *mut *mut qr_memory) -> *mut qr_status;

    /// ```text
    /// Makes memory of the caller's usable. It must stay valid until qr_memory_destroy.
    /// @param session     borrows: says the device; NULL: the options say it.
    /// @param data        borrows: until qr_memory_destroy.
    /// @param size_bytes  at least 1.
    /// @param options     borrows: may be NULL.
    /// @param out_memory  gives: qr_memory_destroy.
    /// @thread  [thread-safe]
    /// @errors  INVALID_ARGUMENT, RESOURCE_EXHAUSTED
    /// @since   0.1
    /// ```
    pub fn qr_memory_register(session: *mut qr_session, data: *mut c_void, size_bytes: u64, options: *const qr_memory_options, out_memory: *mut *mut qr_memory) -> *mut qr_status;

    /// ```text
    /// Makes a buffer of Android's (AHardwareBuffer: a picture of the camera, of a decoder or the GPU, or bytes) usable. It
    /// is held, and locked for the processor from now until qr_memory_destroy, so that nobody else writes to it: import it
    /// when its producer has given it, destroy the memory before it goes on. The memory has a view for the host, and runs
    /// use it where it lies; a tensor whose pixels do not follow one another in it (row_bytes) is the caller's to copy.
    /// Android alone has such buffers, from API 29 on; elsewhere the call is refused (UNSUPPORTED).
    /// @param session     borrows: says the device; NULL: the options say it.
    /// @param buffer      borrows: an AHardwareBuffer *, whose usage has CPU_READ and CPU_WRITE, as far as options'
    /// device_access has QR_ACCESS_READ and QR_ACCESS_WRITE; of one layer.
    /// @param fence       borrows: a descriptor that says when the producer has written, which is waited for; -1: it has.
    /// @param options     borrows: may be NULL.
    /// @param out_layout  borrows: may be NULL.
    /// @param out_memory  gives: qr_memory_destroy.
    /// @thread  [thread-safe] [blocking]
    /// @errors  INVALID_ARGUMENT, UNSUPPORTED (no such buffers here, a usage or form that cannot be locked),
    /// RESOURCE_EXHAUSTED
    /// @since   0.1
    /// ```
    pub fn qr_memory_import_hardware_buffer(session: *mut qr_session, buffer: *mut c_void, fence: i32, options: *const qr_memory_options, out_layout: *mut qr_buffer_layout, out_memory: *mut *mut qr_memory) -> *mut qr_status;

    /// ```text
    /// The host's view of the memory; NULL for NULL, and where there is none (see qr_memory_map).
    /// @param memory  borrows.
    /// @return  borrows: until qr_memory_destroy.
    /// @thread  [thread-safe]
    /// @errors  none
    /// @since   0.1
    /// ```
    pub fn qr_memory_data(memory: *mut qr_memory) -> *mut c_void;

    /// ```text
    /// The size in bytes; 0 for NULL.
    /// @param memory  borrows.
    /// @thread  [thread-safe]
    /// @errors  none
    /// @since   0.1
    /// ```
    pub fn qr_memory_size(memory: *const qr_memory) -> u64;

    /// ```text
    /// Gives the host a view of memory that has none of its own, and begins an access to it. No run may use the memory until
    /// qr_memory_unmap.
    /// @param memory    borrows.
    /// @param access    QR_ACCESS_*: what the host will do.
    /// @param out_data  borrows: until qr_memory_unmap.
    /// @thread  [exclusive:memory] [blocking]
    /// @errors  INVALID_ARGUMENT, FAILED_PRECONDITION (mapped already), UNSUPPORTED, DEVICE_LOST, RESOURCE_EXHAUSTED
    /// @since   0.1
    /// ```
    pub fn qr_memory_map(memory: *mut qr_memory, access: u32, out_data: *mut *mut c_void) -> *mut qr_status;

    /// ```text
    /// Ends what qr_memory_map began.
    /// @param memory  borrows.
    /// @thread  [exclusive:memory] [blocking]
    /// @errors  FAILED_PRECONDITION (not mapped), DEVICE_LOST
    /// @since   0.1
    /// ```
    pub fn qr_memory_unmap(memory: *mut qr_memory) -> *mut qr_status;

    /// ```text
    /// Where host and device do not see each other's writes by themselves: goes before the host reads or writes what
    /// qr_memory_data points to. Costs nothing where they do. Runs see to the rest.
    /// @param memory  borrows.
    /// @param access  QR_ACCESS_*: what the host will do.
    /// @thread  [exclusive:memory] [blocking]
    /// @errors  INVALID_ARGUMENT, DEVICE_LOST
    /// @since   0.1
    /// ```
    pub fn qr_memory_begin_access(memory: *mut qr_memory, access: u32) -> *mut qr_status;

    /// ```text
    /// Goes after it.
    /// @param memory  borrows.
    /// @param access  as given to qr_memory_begin_access.
    /// @thread  [exclusive:memory] [blocking]
    /// @errors  INVALID_ARGUMENT, DEVICE_LOST
    /// @since   0.1
    /// ```
    pub fn qr_memory_end_access(memory: *mut qr_memory, access: u32) -> *mut qr_status;

    /// ```text
    /// A descriptor of the memory, for another process or device. Refused on Windows (see qr_signal_fd).
    /// @param memory      borrows.
    /// @param out_fd      gives: close().
    /// @param out_offset  where the memory begins in it, in bytes.
    /// @thread  [thread-safe]
    /// @errors  INVALID_ARGUMENT, UNSUPPORTED (the memory has none), RESOURCE_EXHAUSTED
    /// @since   0.1
    /// ```
    pub fn qr_memory_export_fd(memory: *mut qr_memory, out_fd: *mut i32, out_offset: *mut u64) -> *mut qr_status;

    /// ```text
    /// Lets go of the memory. Accepts NULL. A run that uses it must have returned.
    /// @param memory  takes.
    /// @thread  [exclusive:memory]
    /// @errors  none
    /// @since   0.1
    /// ```
    pub fn qr_memory_destroy(memory: *mut qr_memory);

    /// ```text
    /// Says what a session would need, without creating it. Works for a target that is not there (see the options of the
    /// backend that name one): then it says what compiling for it found out.
    /// @param model     borrows.
    /// @param options   borrows: may be NULL; as for qr_session_create.
    /// @param call      borrows: may be NULL.
    /// @param out_plan  borrows: set its struct_size. With shape buckets: the largest of each figure.
    /// @thread  [thread-safe] [blocking]
    /// @errors  as qr_session_create
    /// @since   0.1
    /// ```
    pub fn qr_session_plan(model: *const qr_model, options: *const qr_options, call: *const qr_call_options, out_plan: *mut qr_memory_plan) -> *mut qr_status;

    /// ```text
    /// Creates a session on the backend that the option "backend" (or "backend_path", "backend_type") names. From a
    /// container it loads the context compiled for it, or has it compiled again (option context.recompile); from ONNX it
    /// compiles in memory. Nothing falls back: a node that the backend refuses is an error with one "reason" detail for
    /// each.
    /// @param model        borrows: kept alive by the session.
    /// @param options      borrows: may be NULL: then all defaults, on cpu.
    /// @param call         borrows: may be NULL.
    /// @param out_session  gives: qr_session_destroy.
    /// @thread  [thread-safe] [blocking]
    /// @errors  NOT_FOUND (backend, context), INCOMPATIBLE (found and expected), UNSUPPORTED, INVALID_ARGUMENT, CANCELLED,
    ///          DEADLINE_EXCEEDED, UNAVAILABLE, RESOURCE_EXHAUSTED
    /// @since   0.1
    /// ```
    pub fn qr_session_create(model: *const qr_model, options: *const qr_options, call: *const qr_call_options, out_session: *mut *mut qr_session) -> *mut qr_status;

    /// ```text
    /// Another execution state of the same context: shares weights and programs, has its own working memory.
    /// @param session      borrows.
    /// @param call         borrows: may be NULL.
    /// @param out_session  gives: qr_session_destroy.
    /// @thread  [exclusive:session] [blocking]
    /// @errors  INVALID_ARGUMENT, RESOURCE_EXHAUSTED, UNAVAILABLE, CANCELLED, DEADLINE_EXCEEDED
    /// @since   0.1
    /// ```
    pub fn qr_session_clone(session: *mut qr_session, call: *const qr_call_options, out_session: *mut *mut qr_session) -> *mut qr_status;

    /// ```text
    /// The number of inputs; 0 for NULL.
    /// @param session  borrows.
    /// @thread  [thread-safe]
    /// @errors  none
    /// @since   0.1
    /// ```
    pub fn qr_session_input_count(session: *const qr_session) -> u64;

    /// ```text
    /// The number of outputs; 0 for NULL.
    /// @param session  borrows.
    /// @thread  [thread-safe]
    /// @errors  none
    /// @since   0.1
    /// ```
    pub fn qr_session_output_count(session: *const qr_session) -> u64;

    /// ```text
    /// What the session expects as an input.
    /// @param session   borrows.
    /// @param index     under qr_session_input_count.
    /// @param out_info  borrows: set its struct_size; its strings live as long as the session.
    /// @thread  [thread-safe]
    /// @errors  OUT_OF_RANGE, INVALID_ARGUMENT
    /// @since   0.1
    /// ```
    pub fn qr_session_input(session: *const qr_session, index: u64, out_info: *mut qr_tensor_info) -> *mut qr_status;

    /// ```text
    /// What the session gives as an output.
    /// @param session   borrows.
    /// @param index     under qr_session_output_count.
    /// @param out_info  borrows: set its struct_size; its strings live as long as the session.
    /// @thread  [thread-safe]
    /// @errors  OUT_OF_RANGE, INVALID_ARGUMENT
    /// @since   0.1
    /// ```
    pub fn qr_session_output(session: *const qr_session, index: u64, out_info: *mut qr_tensor_info) -> *mut qr_status;

    /// ```text
    /// The number of shape buckets that runs choose from: 1 without the option "shape", 0 for NULL and while a container
    /// that does not suit the machine is compiled in the background.
    /// @param session  borrows.
    /// @thread  [thread-safe]
    /// @errors  none
    /// @since   0.1
    /// ```
    pub fn qr_session_bucket_count(session: *const qr_session) -> u64;

    /// ```text
    /// What a shape bucket expects as an input: qr_session_input with the bucket's dimensions.
    /// @param session   borrows.
    /// @param bucket    under qr_session_bucket_count.
    /// @param index     under qr_session_input_count.
    /// @param out_info  borrows: set its struct_size; its strings live as long as the session.
    /// @thread  [thread-safe]
    /// @errors  OUT_OF_RANGE, INVALID_ARGUMENT
    /// @since   0.1
    /// ```
    pub fn qr_session_bucket_input(session: *const qr_session, bucket: u64, index: u64, out_info: *mut qr_tensor_info) -> *mut qr_status;

    /// ```text
    /// What a shape bucket gives as an output; as qr_session_bucket_input. Dimensions that only the run knows are
    /// QR_DIM_UNKNOWN.
    /// @param session   borrows.
    /// @param bucket    under qr_session_bucket_count.
    /// @param index     under qr_session_output_count.
    /// @param out_info  borrows: set its struct_size; its strings live as long as the session.
    /// @thread  [thread-safe]
    /// @errors  OUT_OF_RANGE, INVALID_ARGUMENT
    /// @since   0.1
    /// ```
    pub fn qr_session_bucket_output(session: *const qr_session, bucket: u64, index: u64, out_info: *mut qr_tensor_info) -> *mut qr_status;

    /// ```text
    /// Runs the network. After the first run with the same shapes the CPU backends allocate nothing, but for what a run
    /// meets for the first time: data that are not aligned for their type, an output that is given back as an input, more
    /// threads, a program that was compiled in the background (option context.recompile), other shapes of a part whose
    /// shapes depend on data. With shape buckets the inputs' shapes choose the bucket.
    /// @param session       borrows.
    /// @param options       borrows: may be NULL.
    /// @param inputs        borrows: input_count tensors in the order of qr_session_input.
    /// @param input_count   must equal qr_session_input_count.
    /// @param outputs       borrows: output_count tensors in the order of qr_session_output; a NULL entry is not wanted.
    /// @param output_count  must equal qr_session_output_count.
    /// @thread  [exclusive:session] [blocking]
    /// @errors  INVALID_ARGUMENT (count, dtype or shape: found and expected), OUT_OF_RANGE (an output's room is too small),
    ///          CANCELLED, DEADLINE_EXCEEDED, DEVICE_LOST (qr_session_recover), BUSY (the device is taken: try again),
    ///          RESOURCE_EXHAUSTED
    /// @since   0.1
    /// ```
    pub fn qr_session_run(session: *mut qr_session, options: *const qr_run_options, inputs: *const *const qr_tensor, input_count: u64, outputs: *const *mut qr_tensor, output_count: u64) -> *mut qr_status;

    /// ```text
    /// Runs each shape bucket once on inputs of zeros and throws the results away, so that the next run takes as long as
    /// those after it: threads are started, working memory and that of outputs is made, weights are read. The option
    /// "warm_up" has qr_session_create and qr_session_clone do so. Where something better is being compiled
    /// (context.recompile=background), what there is now is warmed; where there is nothing yet, the call waits.
    /// @param session  borrows.
    /// @param options  borrows: may be NULL. A timeout of its signal is for all buckets together.
    /// @thread  [exclusive:session] [blocking]
    /// @errors  as qr_session_run; also what the model's nodes say of zeros
    /// @since   0.1
    /// ```
    pub fn qr_session_warm_up(session: *mut qr_session, options: *const qr_run_options) -> *mut qr_status;

    /// ```text
    /// Changes an option that may change at run time (see qr_option_info.changes_at_run_time).
    /// @param session  borrows.
    /// @param key      borrows.
    /// @param value    borrows.
    /// @thread  [exclusive:session]
    /// @errors  NOT_FOUND, INVALID_ARGUMENT, FAILED_PRECONDITION (not an option that changes at run time), UNSUPPORTED.
    ///          On failure nothing has changed, in no shape bucket
    /// @since   0.1
    /// ```
    pub fn qr_session_set_option(session: *mut qr_session, key: qr_string, value: qr_string) -> *mut qr_status;

    /// ```text
    /// Queues a run. Every wanted output must have room (data or memory): the session's own is not given to queued runs.
    /// Several threads may submit; while one is inside qr_session_run, set_option or recover, the others wait for it. The
    /// CPU backends allocate nothing for it once queue_depth runs of the same shapes have been submitted.
    /// @param session       borrows.
    /// @param options       borrows: may be NULL.
    /// @param inputs        borrows: the array until the call returns; the tensors and their data until the run has ended.
    /// @param input_count   must equal qr_session_input_count.
    /// @param outputs       borrows: likewise; a NULL entry is not wanted.
    /// @param output_count  must equal qr_session_output_count.
    /// @param out_ticket    borrows: the run's number, from 1, larger with each; may be NULL.
    /// @thread  [thread-safe] [in-callback]
    /// @errors  as qr_session_run as far as the tensors show it; BUSY (queue_depth runs are under way),
    ///          INVALID_ARGUMENT (an output without room), DEVICE_LOST
    /// @since   0.1
    /// ```
    pub fn qr_session_submit(session: *mut qr_session, options: *const qr_submit_options, inputs: *const *const qr_tensor, input_count: u64, outputs: *const *mut qr_tensor, output_count: u64, out_ticket: *mut u64) -> *mut qr_status;

    /// ```text
    /// Waits until a submitted run has ended and gives its status, once; a run that nobody waits for is forgotten when the
    /// session ends, or, at the earliest, once 1024 more have ended after it.
    /// @param session    borrows.
    /// @param ticket     of qr_session_submit; 0: waits until the queue is empty, and gives OK.
    /// @param signal     borrows: aborts or limits the waiting, not the run; may be NULL. A waiting that it ends has an id
    /// of its own, QR-R0019 (CANCELLED) or QR-R0020 (DEADLINE_EXCEEDED): wait again, or qr_session_abort.
    /// @param out_ended  borrows: may be NULL. 1: the run has ended, as the status says, and its tensors and their data are
    ///                   the caller's again. 0: they may still be in use; nothing was reported of the run.
    /// @thread  [thread-safe] [blocking]
    /// @errors  those of the run; NOT_FOUND (no such ticket, or its status was given before), CANCELLED, DEADLINE_EXCEEDED,
    ///          FAILED_PRECONDITION (called by a run's callback)
    /// @since   0.1
    /// ```
    pub fn qr_session_wait(session: *mut qr_session, ticket: u64, signal: *mut qr_signal, out_ended: *mut i32) -> *mut qr_status;

    /// ```text
    /// Aborts a submitted run, or all; they end with CANCELLED as soon as they can. One that has ended is left alone.
    /// @param session  borrows: NULL is ignored.
    /// @param ticket   of qr_session_submit; 0: all.
    /// @thread  [thread-safe] [in-callback]
    /// @errors  none
    /// @since   0.1
    /// ```
    pub fn qr_session_abort(session: *mut qr_session, ticket: u64);

    /// ```text
    /// A descriptor that poll() calls readable while runs have ended whose status qr_session_wait has not given yet.
    /// Refused on Windows (see qr_signal_fd): wait by qr_session_wait, on a thread of your own.
    /// @param session  borrows.
    /// @param out_fd   borrows: until the session is destroyed; never read, written or closed by the caller.
    /// @thread  [thread-safe]
    /// @errors  INVALID_ARGUMENT, RESOURCE_EXHAUSTED (no descriptor to be had)
    /// @since   0.1
    /// ```
    pub fn qr_session_completion_fd(session: *mut qr_session, out_fd: *mut i32) -> *mut qr_status;

    /// ```text
    /// Brings the session's device back after a run returned DEVICE_LOST. It is the device that is lost and recovered: all
    /// sessions of the runtime on it fail with DEVICE_LOST in between, and all work again afterwards, clones too. Runs that
    /// were queued end with DEVICE_LOST. Memory objects stay valid; what was in device memory is undefined. Does nothing
    /// where the device is healthy.
    /// @param session  borrows.
    /// @param call     borrows: may be NULL.
    /// @thread  [exclusive:session] [blocking]
    /// @errors  DEVICE_LOST (still), CANCELLED, DEADLINE_EXCEEDED, UNSUPPORTED (the device cannot recover: create a new
    /// session), INVALID_ARGUMENT
    /// @since   0.1
    /// ```
    pub fn qr_session_recover(session: *mut qr_session, call: *const qr_call_options) -> *mut qr_status;

    /// ```text
    /// What the session is, as JSON: backend, plugin file, device, target, grade, source of the context ("container",
    /// "compiled", "recompiled", "pending"), recompilation in the background ("none", "running", "done", "failed"), nodes
    /// and by what they run ("node_paths", as in qr_model_check, where the backend says), the compile-time options that the
    /// context was compiled with ("compiled_with") and those of them that were asked to be otherwise ("asked_for"), memory
    /// plan, of a range of shapes what became of its plans ("plans": how many are kept of "most", their bytes, those of
    /// packed weights that no container has, runs that found their plan, plans made and dropped), options in force, options
    /// given that are for other backends.
    /// @param session   borrows.
    /// @param out_json  gives: qr_string_destroy; NUL-terminated.
    /// @thread  [exclusive:session]
    /// @errors  INVALID_ARGUMENT, RESOURCE_EXHAUSTED
    /// @since   0.1
    /// ```
    pub fn qr_session_report(session: *const qr_session, out_json: *mut *mut c_char) -> *mut qr_status;

    /// ```text
    /// Ends a session. Accepts NULL.
    /// @param session  takes.
    /// @thread  [exclusive:session]
    /// @errors  none
    /// @since   0.1
    /// ```
    pub fn qr_session_destroy(session: *mut qr_session);

    /// ```text
    /// The state that the session's next run goes on from.
    /// @param session    borrows.
    /// @param out_state  gives: qr_state_destroy; it may outlive the session.
    /// @thread  [exclusive:session]
    /// @errors  FAILED_PRECONDITION (the session keeps none: option "state")
    /// @since   0.3
    /// ```
    pub fn qr_session_state(session: *mut qr_session, out_state: *mut *mut qr_state) -> *mut qr_status;

    /// ```text
    /// Has the session's runs go on from another state, of this session or of a clone: of one beam among several, say.
    /// @param session  borrows.
    /// @param state    borrows: kept alive by the session. One session at a time runs it.
    /// @thread  [exclusive:session]
    /// @errors  INVALID_ARGUMENT (of another model, device or session)
    /// @since   0.3
    /// ```
    pub fn qr_session_set_state(session: *mut qr_session, state: *mut qr_state) -> *mut qr_status;

    /// ```text
    /// The number of pairs; 0 for NULL.
    /// @param state  borrows.
    /// @thread  [thread-safe]
    /// @errors  none
    /// @since   0.3
    /// ```
    pub fn qr_state_count(state: *const qr_state) -> u64;

    /// ```text
    /// What a pair is, and how large now.
    /// @param state     borrows.
    /// @param index     under qr_state_count; in the order of the model's inputs.
    /// @param out_info  borrows: set its struct_size.
    /// @thread  [exclusive:state]
    /// @errors  OUT_OF_RANGE, INVALID_ARGUMENT
    /// @since   0.3
    /// ```
    pub fn qr_state_tensor(state: *const qr_state, index: u64, out_info: *mut qr_state_info) -> *mut qr_status;

    /// ```text
    /// How many entries the pairs that grow have along their axes: the tokens so far, of a decoder.
    /// @param state       borrows.
    /// @param out_length  0 where no pair grows.
    /// @thread  [exclusive:state]
    /// @errors  INVALID_ARGUMENT
    /// @since   0.3
    /// ```
    pub fn qr_state_length(state: *const qr_state, out_length: *mut u64) -> *mut qr_status;

    /// ```text
    /// How many entries the option "state.window" has dropped: the next token's position is this and the length.
    /// @param state        borrows.
    /// @param out_dropped  receives it; a reset begins again at 0.
    /// @thread  [exclusive:state]
    /// @errors  INVALID_ARGUMENT
    /// @since   0.3
    /// ```
    pub fn qr_state_dropped(state: *const qr_state, out_dropped: *mut u64) -> *mut qr_status;

    /// ```text
    /// Empties the state: pairs that grow have no entries, all others are zeros. Memory is kept.
    /// @param state  borrows.
    /// @thread  [exclusive:state]
    /// @errors  INVALID_ARGUMENT
    /// @since   0.3
    /// ```
    pub fn qr_state_reset(state: *mut qr_state) -> *mut qr_status;

    /// ```text
    /// Forgets the entries from `length` on. What a pair of constant size was before is not known: a state that has one goes
    /// back to 0 alone, or to a fork.
    /// @param state   borrows.
    /// @param length  in entries, at most qr_state_length; 0 is a reset.
    /// @thread  [exclusive:state]
    /// @errors  OUT_OF_RANGE (past the length), UNSUPPORTED (a pair that keeps its size)
    /// @since   0.3
    /// ```
    pub fn qr_state_rewind(state: *mut qr_state, length: u64) -> *mut qr_status;

    /// ```text
    /// A copy, which goes on by itself: qr_session_set_state has a session run it.
    /// @param state      borrows.
    /// @param out_state  gives: qr_state_destroy.
    /// @thread  [exclusive:state]
    /// @errors  RESOURCE_EXHAUSTED
    /// @since   0.3
    /// ```
    pub fn qr_state_fork(state: *const qr_state, out_state: *mut *mut qr_state) -> *mut qr_status;

    /// ```text
    /// Writes the state, the file "state", for qr_state_load: with a version, the model's identity and a sum.
    /// @param state   borrows.
    /// @param target  borrows: where it goes.
    /// @param call    borrows: may be NULL.
    /// @thread  [exclusive:state] [blocking]
    /// @errors  INVALID_ARGUMENT, PERMISSION_DENIED, RESOURCE_EXHAUSTED, UNAVAILABLE (the target's writer), CANCELLED,
    ///          DEADLINE_EXCEEDED
    /// @since   0.3
    /// ```
    pub fn qr_state_save(state: *const qr_state, target: *const qr_target, call: *const qr_call_options) -> *mut qr_status;

    /// ```text
    /// Makes the state what was saved, by any session of the same model with the same pairs, whatever its backend and
    /// capacity. Everything is checked first: on failure nothing has changed.
    /// @param state  borrows.
    /// @param data   borrows: what qr_state_save wrote; at any address.
    /// @param size   in bytes.
    /// @thread  [exclusive:state] [blocking]
    /// @errors  CORRUPT (cut or damaged), INCOMPATIBLE (another version, another model, other pairs), RESOURCE_EXHAUSTED
    ///          (more entries than state.capacity)
    /// @since   0.3
    /// ```
    pub fn qr_state_load(state: *mut qr_state, data: *const c_void, size: u64) -> *mut qr_status;

    /// ```text
    /// Copies out one tensor of the state, dense.
    /// @param state       borrows.
    /// @param index       under qr_state_count.
    /// @param out_tensor  borrows: data and size_bytes are the caller's room; without data its type, shape and size_bytes
    ///                    alone are set.
    /// @thread  [exclusive:state]
    /// @errors  OUT_OF_RANGE (index; too little room), INVALID_ARGUMENT, FAILED_PRECONDITION (no run has said its shape)
    /// @since   0.3
    /// ```
    pub fn qr_state_read(state: *const qr_state, index: u64, out_tensor: *mut qr_tensor) -> *mut qr_status;

    /// ```text
    /// Replaces one tensor of the state. One that grows may get another length: before the next run all have the same.
    /// @param state   borrows.
    /// @param index   under qr_state_count.
    /// @param tensor  borrows: with data or const_data.
    /// @thread  [exclusive:state]
    /// @errors  OUT_OF_RANGE (index), INVALID_ARGUMENT (type or shape), RESOURCE_EXHAUSTED (more entries than
    ///          state.capacity)
    /// @since   0.3
    /// ```
    pub fn qr_state_write(state: *mut qr_state, index: u64, tensor: *const qr_tensor) -> *mut qr_status;

    /// ```text
    /// Lets go of a state; a session that runs it keeps it. Accepts NULL.
    /// @param state  takes.
    /// @thread  [exclusive:state]
    /// @errors  none
    /// @since   0.3
    /// ```
    pub fn qr_state_destroy(state: *mut qr_state);

    /// ```text
    /// Reads an adapter for a session, its clones, and any session whose weights for adapters are the same. The file is
    /// safetensors with the names of PEFT (NAME.lora_A.weight [rank, K], NAME.lora_B.weight [N, rank]), or an ONNX model
    /// whose initializers have these names, or those of the model's inputs for adapters ("quarry inspect" lists them), whose
    /// values are taken as they are. Each tensor must be of a weight that adapters may change, with its sizes and a rank
    /// that there is room for; weights that the file does not name stay as they are. Nothing of the source is kept.
    /// @param session      borrows.
    /// @param source       borrows. Of a PATH, adapter_config.json beside it is read too.
    /// @param options      borrows: may be NULL.
    /// @param call         borrows: may be NULL.
    /// @param out_adapter  gives: qr_adapter_destroy.
    /// @thread  [thread-safe] [blocking]
    /// @errors  FAILED_PRECONDITION (no weight may change: option "adapter.targets"), CORRUPT, INCOMPATIBLE (names, shapes
    /// or ranks), UNSUPPORTED (other than low-rank updates), INVALID_ARGUMENT (nothing says alpha), NOT_FOUND,
    ///          PERMISSION_DENIED, RESOURCE_EXHAUSTED, CANCELLED, DEADLINE_EXCEEDED
    /// @since   0.3
    /// ```
    pub fn qr_adapter_open(session: *const qr_session, source: *const qr_model_source, options: *const qr_adapter_options, call: *const qr_call_options, out_adapter: *mut *mut qr_adapter) -> *mut qr_status;

    /// ```text
    /// Has the session's runs from now on compute with an adapter, in place of the one before; waits until the runs that
    /// were submitted have ended. A clone that is made of the session has it too. What the session keeps as state stays.
    /// @param session  borrows.
    /// @param adapter  borrows: kept alive by the session; several sessions may have it. NULL: none is applied any more.
    /// @thread  [exclusive:session]
    /// @errors  FAILED_PRECONDITION (no weight may change), INVALID_ARGUMENT (opened for a session of other weights)
    /// @since   0.3
    /// ```
    pub fn qr_session_set_adapter(session: *mut qr_session, adapter: *mut qr_adapter) -> *mut qr_status;

    /// ```text
    /// Lets go of an adapter; sessions that it is applied to keep it. Accepts NULL.
    /// @param adapter  takes.
    /// @thread  [exclusive:adapter]
    /// @errors  none
    /// @since   0.3
    /// ```
    pub fn qr_adapter_destroy(adapter: *mut qr_adapter);
}

/// Sizes and offsets as tests/abi/abi.txt has them: another layout does not compile.
const _: () = {
    assert!(size_of::<qr_string>() == 16);
    assert!(core::mem::offset_of!(qr_string, data) == 0);
    assert!(core::mem::offset_of!(qr_string, size) == 8);
    assert!(size_of::<qr_allocator>() == 32);
    assert!(core::mem::offset_of!(qr_allocator, struct_size) == 0);
    assert!(core::mem::offset_of!(qr_allocator, reserved) == 4);
    assert!(core::mem::offset_of!(qr_allocator, self_) == 8);
    assert!(core::mem::offset_of!(qr_allocator, alloc) == 16);
    assert!(core::mem::offset_of!(qr_allocator, free) == 24);
    assert!(size_of::<qr_log_sink>() == 24);
    assert!(core::mem::offset_of!(qr_log_sink, struct_size) == 0);
    assert!(core::mem::offset_of!(qr_log_sink, level) == 4);
    assert!(core::mem::offset_of!(qr_log_sink, self_) == 8);
    assert!(core::mem::offset_of!(qr_log_sink, write) == 16);
    assert!(size_of::<qr_thread_pool>() == 24);
    assert!(core::mem::offset_of!(qr_thread_pool, struct_size) == 0);
    assert!(core::mem::offset_of!(qr_thread_pool, worker_count) == 4);
    assert!(core::mem::offset_of!(qr_thread_pool, self_) == 8);
    assert!(core::mem::offset_of!(qr_thread_pool, parallel_for) == 16);
    assert!(size_of::<qr_runtime_options>() == 72);
    assert!(core::mem::offset_of!(qr_runtime_options, struct_size) == 0);
    assert!(core::mem::offset_of!(qr_runtime_options, reserved) == 4);
    assert!(core::mem::offset_of!(qr_runtime_options, flags) == 8);
    assert!(core::mem::offset_of!(qr_runtime_options, allocator) == 16);
    assert!(core::mem::offset_of!(qr_runtime_options, log) == 24);
    assert!(core::mem::offset_of!(qr_runtime_options, thread_pool) == 32);
    assert!(core::mem::offset_of!(qr_runtime_options, backend_path) == 40);
    assert!(core::mem::offset_of!(qr_runtime_options, prepare_path) == 56);
    assert!(size_of::<qr_backend_info>() == 120);
    assert!(core::mem::offset_of!(qr_backend_info, struct_size) == 0);
    assert!(core::mem::offset_of!(qr_backend_info, usable) == 4);
    assert!(core::mem::offset_of!(qr_backend_info, code) == 8);
    assert!(core::mem::offset_of!(qr_backend_info, is_static) == 12);
    assert!(core::mem::offset_of!(qr_backend_info, device_count) == 16);
    assert!(core::mem::offset_of!(qr_backend_info, id) == 24);
    assert!(core::mem::offset_of!(qr_backend_info, path) == 40);
    assert!(core::mem::offset_of!(qr_backend_info, version) == 56);
    assert!(core::mem::offset_of!(qr_backend_info, error_id) == 72);
    assert!(core::mem::offset_of!(qr_backend_info, verdict) == 88);
    assert!(core::mem::offset_of!(qr_backend_info, hint) == 104);
    assert!(size_of::<qr_device_info>() == 88);
    assert!(core::mem::offset_of!(qr_device_info, struct_size) == 0);
    assert!(core::mem::offset_of!(qr_device_info, usable) == 4);
    assert!(core::mem::offset_of!(qr_device_info, memory_bytes) == 8);
    assert!(core::mem::offset_of!(qr_device_info, features) == 16);
    assert!(core::mem::offset_of!(qr_device_info, name) == 24);
    assert!(core::mem::offset_of!(qr_device_info, target) == 40);
    assert!(core::mem::offset_of!(qr_device_info, why_not) == 56);
    assert!(core::mem::offset_of!(qr_device_info, details) == 72);
    assert!(size_of::<qr_option_info>() == 96);
    assert!(core::mem::offset_of!(qr_option_info, struct_size) == 0);
    assert!(core::mem::offset_of!(qr_option_info, changes_at_run_time) == 4);
    assert!(core::mem::offset_of!(qr_option_info, key) == 8);
    assert!(core::mem::offset_of!(qr_option_info, values) == 24);
    assert!(core::mem::offset_of!(qr_option_info, default_value) == 40);
    assert!(core::mem::offset_of!(qr_option_info, scope) == 56);
    assert!(core::mem::offset_of!(qr_option_info, help) == 72);
    assert!(core::mem::offset_of!(qr_option_info, applies) == 88);
    assert!(size_of::<qr_target>() == 80);
    assert!(core::mem::offset_of!(qr_target, struct_size) == 0);
    assert!(core::mem::offset_of!(qr_target, kind) == 4);
    assert!(core::mem::offset_of!(qr_target, path) == 8);
    assert!(core::mem::offset_of!(qr_target, fd) == 24);
    assert!(core::mem::offset_of!(qr_target, folder_fd) == 28);
    assert!(core::mem::offset_of!(qr_target, out_data) == 32);
    assert!(core::mem::offset_of!(qr_target, out_size_bytes) == 40);
    assert!(core::mem::offset_of!(qr_target, self_) == 48);
    assert!(core::mem::offset_of!(qr_target, begin) == 56);
    assert!(core::mem::offset_of!(qr_target, write) == 64);
    assert!(core::mem::offset_of!(qr_target, end) == 72);
    assert!(size_of::<qr_profile_counter>() == 40);
    assert!(core::mem::offset_of!(qr_profile_counter, name) == 0);
    assert!(core::mem::offset_of!(qr_profile_counter, unit) == 16);
    assert!(core::mem::offset_of!(qr_profile_counter, value) == 32);
    assert!(size_of::<qr_profile_attribute>() == 32);
    assert!(core::mem::offset_of!(qr_profile_attribute, key) == 0);
    assert!(core::mem::offset_of!(qr_profile_attribute, value) == 16);
    assert!(size_of::<qr_profile_event>() == 136);
    assert!(core::mem::offset_of!(qr_profile_event, struct_size) == 0);
    assert!(core::mem::offset_of!(qr_profile_event, level) == 4);
    assert!(core::mem::offset_of!(qr_profile_event, id) == 8);
    assert!(core::mem::offset_of!(qr_profile_event, parent) == 16);
    assert!(core::mem::offset_of!(qr_profile_event, clock) == 24);
    assert!(core::mem::offset_of!(qr_profile_event, thread) == 28);
    assert!(core::mem::offset_of!(qr_profile_event, begin) == 32);
    assert!(core::mem::offset_of!(qr_profile_event, end) == 40);
    assert!(core::mem::offset_of!(qr_profile_event, node) == 48);
    assert!(core::mem::offset_of!(qr_profile_event, name) == 56);
    assert!(core::mem::offset_of!(qr_profile_event, kind) == 72);
    assert!(core::mem::offset_of!(qr_profile_event, op) == 88);
    assert!(core::mem::offset_of!(qr_profile_event, counters) == 104);
    assert!(core::mem::offset_of!(qr_profile_event, counter_count) == 112);
    assert!(core::mem::offset_of!(qr_profile_event, attributes) == 120);
    assert!(core::mem::offset_of!(qr_profile_event, attribute_count) == 128);
    assert!(size_of::<qr_progress>() == 24);
    assert!(core::mem::offset_of!(qr_progress, struct_size) == 0);
    assert!(core::mem::offset_of!(qr_progress, reserved) == 4);
    assert!(core::mem::offset_of!(qr_progress, self_) == 8);
    assert!(core::mem::offset_of!(qr_progress, report) == 16);
    assert!(size_of::<qr_call_options>() == 40);
    assert!(core::mem::offset_of!(qr_call_options, struct_size) == 0);
    assert!(core::mem::offset_of!(qr_call_options, reserved) == 4);
    assert!(core::mem::offset_of!(qr_call_options, flags) == 8);
    assert!(core::mem::offset_of!(qr_call_options, signal) == 16);
    assert!(core::mem::offset_of!(qr_call_options, profile) == 24);
    assert!(core::mem::offset_of!(qr_call_options, progress) == 32);
    assert!(size_of::<qr_tensor>() == 120);
    assert!(core::mem::offset_of!(qr_tensor, struct_size) == 0);
    assert!(core::mem::offset_of!(qr_tensor, dtype) == 4);
    assert!(core::mem::offset_of!(qr_tensor, rank) == 8);
    assert!(core::mem::offset_of!(qr_tensor, flags) == 12);
    assert!(core::mem::offset_of!(qr_tensor, dims) == 16);
    assert!(core::mem::offset_of!(qr_tensor, data) == 80);
    assert!(core::mem::offset_of!(qr_tensor, size_bytes) == 88);
    assert!(core::mem::offset_of!(qr_tensor, memory) == 96);
    assert!(core::mem::offset_of!(qr_tensor, memory_offset) == 104);
    assert!(core::mem::offset_of!(qr_tensor, const_data) == 112);
    assert!(size_of::<qr_tensor_info>() == 160);
    assert!(core::mem::offset_of!(qr_tensor_info, struct_size) == 0);
    assert!(core::mem::offset_of!(qr_tensor_info, dtype) == 4);
    assert!(core::mem::offset_of!(qr_tensor_info, rank) == 8);
    assert!(core::mem::offset_of!(qr_tensor_info, is_quantized) == 12);
    assert!(core::mem::offset_of!(qr_tensor_info, dims) == 16);
    assert!(core::mem::offset_of!(qr_tensor_info, size_bytes) == 80);
    assert!(core::mem::offset_of!(qr_tensor_info, name) == 88);
    assert!(core::mem::offset_of!(qr_tensor_info, scale) == 104);
    assert!(core::mem::offset_of!(qr_tensor_info, zero_point) == 112);
    assert!(core::mem::offset_of!(qr_tensor_info, scales) == 120);
    assert!(core::mem::offset_of!(qr_tensor_info, zero_points) == 128);
    assert!(core::mem::offset_of!(qr_tensor_info, scale_count) == 136);
    assert!(core::mem::offset_of!(qr_tensor_info, block_size) == 144);
    assert!(core::mem::offset_of!(qr_tensor_info, quantized_axis) == 152);
    assert!(core::mem::offset_of!(qr_tensor_info, reserved) == 156);
    assert!(size_of::<qr_model_source>() == 80);
    assert!(core::mem::offset_of!(qr_model_source, struct_size) == 0);
    assert!(core::mem::offset_of!(qr_model_source, kind) == 4);
    assert!(core::mem::offset_of!(qr_model_source, path) == 8);
    assert!(core::mem::offset_of!(qr_model_source, data) == 24);
    assert!(core::mem::offset_of!(qr_model_source, offset) == 32);
    assert!(core::mem::offset_of!(qr_model_source, size_bytes) == 40);
    assert!(core::mem::offset_of!(qr_model_source, fd) == 48);
    assert!(core::mem::offset_of!(qr_model_source, folder_fd) == 52);
    assert!(core::mem::offset_of!(qr_model_source, self_) == 56);
    assert!(core::mem::offset_of!(qr_model_source, read) == 64);
    assert!(core::mem::offset_of!(qr_model_source, external) == 72);
    assert!(size_of::<qr_network>() == 32);
    assert!(core::mem::offset_of!(qr_network, struct_size) == 0);
    assert!(core::mem::offset_of!(qr_network, reserved) == 4);
    assert!(core::mem::offset_of!(qr_network, model) == 8);
    assert!(core::mem::offset_of!(qr_network, name) == 16);
    assert!(size_of::<qr_memory_options>() == 48);
    assert!(core::mem::offset_of!(qr_memory_options, struct_size) == 0);
    assert!(core::mem::offset_of!(qr_memory_options, device_access) == 4);
    assert!(core::mem::offset_of!(qr_memory_options, flags) == 8);
    assert!(core::mem::offset_of!(qr_memory_options, runtime) == 16);
    assert!(core::mem::offset_of!(qr_memory_options, backend) == 24);
    assert!(core::mem::offset_of!(qr_memory_options, device) == 40);
    assert!(core::mem::offset_of!(qr_memory_options, reserved) == 44);
    assert!(size_of::<qr_buffer_layout>() == 72);
    assert!(core::mem::offset_of!(qr_buffer_layout, struct_size) == 0);
    assert!(core::mem::offset_of!(qr_buffer_layout, format) == 4);
    assert!(core::mem::offset_of!(qr_buffer_layout, width) == 8);
    assert!(core::mem::offset_of!(qr_buffer_layout, height) == 12);
    assert!(core::mem::offset_of!(qr_buffer_layout, plane_count) == 16);
    assert!(core::mem::offset_of!(qr_buffer_layout, reserved) == 20);
    assert!(core::mem::offset_of!(qr_buffer_layout, offset) == 24);
    assert!(core::mem::offset_of!(qr_buffer_layout, row_bytes) == 48);
    assert!(core::mem::offset_of!(qr_buffer_layout, pixel_bytes) == 60);
    assert!(size_of::<qr_memory_plan>() == 56);
    assert!(core::mem::offset_of!(qr_memory_plan, struct_size) == 0);
    assert!(core::mem::offset_of!(qr_memory_plan, reserved) == 4);
    assert!(core::mem::offset_of!(qr_memory_plan, weights_bytes) == 8);
    assert!(core::mem::offset_of!(qr_memory_plan, arena_bytes) == 16);
    assert!(core::mem::offset_of!(qr_memory_plan, io_bytes) == 24);
    assert!(core::mem::offset_of!(qr_memory_plan, device_bytes) == 32);
    assert!(core::mem::offset_of!(qr_memory_plan, scratchpad_bytes) == 40);
    assert!(core::mem::offset_of!(qr_memory_plan, spill_fill_bytes) == 48);
    assert!(size_of::<qr_run_options>() == 32);
    assert!(core::mem::offset_of!(qr_run_options, struct_size) == 0);
    assert!(core::mem::offset_of!(qr_run_options, reserved) == 4);
    assert!(core::mem::offset_of!(qr_run_options, flags) == 8);
    assert!(core::mem::offset_of!(qr_run_options, signal) == 16);
    assert!(core::mem::offset_of!(qr_run_options, profile) == 24);
    assert!(size_of::<qr_submit_options>() == 48);
    assert!(core::mem::offset_of!(qr_submit_options, struct_size) == 0);
    assert!(core::mem::offset_of!(qr_submit_options, reserved) == 4);
    assert!(core::mem::offset_of!(qr_submit_options, flags) == 8);
    assert!(core::mem::offset_of!(qr_submit_options, signal) == 16);
    assert!(core::mem::offset_of!(qr_submit_options, profile) == 24);
    assert!(core::mem::offset_of!(qr_submit_options, self_) == 32);
    assert!(core::mem::offset_of!(qr_submit_options, done) == 40);
    assert!(size_of::<qr_state_info>() == 128);
    assert!(core::mem::offset_of!(qr_state_info, struct_size) == 0);
    assert!(core::mem::offset_of!(qr_state_info, axis) == 4);
    assert!(core::mem::offset_of!(qr_state_info, input) == 8);
    assert!(core::mem::offset_of!(qr_state_info, output) == 24);
    assert!(core::mem::offset_of!(qr_state_info, dtype) == 40);
    assert!(core::mem::offset_of!(qr_state_info, rank) == 44);
    assert!(core::mem::offset_of!(qr_state_info, dims) == 48);
    assert!(core::mem::offset_of!(qr_state_info, capacity) == 112);
    assert!(core::mem::offset_of!(qr_state_info, bytes) == 120);
    assert!(size_of::<qr_adapter_options>() == 16);
    assert!(core::mem::offset_of!(qr_adapter_options, struct_size) == 0);
    assert!(core::mem::offset_of!(qr_adapter_options, reserved) == 4);
    assert!(core::mem::offset_of!(qr_adapter_options, alpha) == 8);
    assert!(core::mem::offset_of!(qr_adapter_options, strength) == 12);
};
