// SPDX-License-Identifier: Apache-2.0
// Written by tools/generate_bindings.py from include/quarry, never by hand.
// What each means, and who owns what, say the headers.
using System;
using System.Runtime.InteropServices;

#pragma warning disable 649, 169 // fields that only the library sets, and those that nobody looks at

namespace Quarry {
    internal static unsafe partial class Native {
        public const uint QR_VERSION_MAJOR = 0;
        public const uint QR_VERSION_MINOR = 1;
        public const uint QR_VERSION_PATCH = 0;
        public const uint QR_ABI_MAJOR = 0;
        public const uint QR_ABI_MINOR = 3;
        public const uint QR_MAX_RANK = 8;
        public const long QR_DIM_UNKNOWN = -1;
        public const ulong QR_NUL_TERMINATED = 0xffffffffffffffff;
        public const int QR_OK = 0;
        public const int QR_INVALID_ARGUMENT = 1;
        public const int QR_FAILED_PRECONDITION = 2;
        public const int QR_NOT_FOUND = 3;
        public const int QR_OUT_OF_RANGE = 4;
        public const int QR_UNSUPPORTED = 5;
        public const int QR_INCOMPATIBLE = 6;
        public const int QR_CORRUPT = 7;
        public const int QR_RESOURCE_EXHAUSTED = 8;
        public const int QR_UNAVAILABLE = 9;
        public const int QR_DEADLINE_EXCEEDED = 10;
        public const int QR_CANCELLED = 11;
        public const int QR_PERMISSION_DENIED = 12;
        public const int QR_INTERNAL = 13;
        public const int QR_BUSY = 14;
        public const int QR_DEVICE_LOST = 15;
        public const int QR_DTYPE_UNKNOWN = 0;
        public const int QR_DTYPE_F32 = 1;
        public const int QR_DTYPE_U8 = 2;
        public const int QR_DTYPE_I8 = 3;
        public const int QR_DTYPE_U16 = 4;
        public const int QR_DTYPE_I16 = 5;
        public const int QR_DTYPE_I32 = 6;
        public const int QR_DTYPE_I64 = 7;
        public const int QR_DTYPE_BOOL = 9;
        public const int QR_DTYPE_F16 = 10;
        public const int QR_DTYPE_F64 = 11;
        public const int QR_DTYPE_U32 = 12;
        public const int QR_DTYPE_U64 = 13;
        public const int QR_DTYPE_BF16 = 16;
        public const int QR_DTYPE_F8E4M3FN = 17;
        public const int QR_DTYPE_F8E4M3FNUZ = 18;
        public const int QR_DTYPE_F8E5M2 = 19;
        public const int QR_DTYPE_F8E5M2FNUZ = 20;
        public const int QR_DTYPE_U4 = 21;
        public const int QR_DTYPE_I4 = 22;
        public const int QR_DTYPE_F4E2M1 = 23;
        public const int QR_DTYPE_F8E8M0 = 24;
        public const int QR_DTYPE_U2 = 25;
        public const int QR_DTYPE_I2 = 26;
        public const int QR_LOG_ERROR = 1;
        public const int QR_LOG_WARN = 2;
        public const int QR_LOG_INFO = 3;
        public const int QR_LOG_DEBUG = 4;
        public const int QR_LOG_TRACE = 5;
        public const uint QR_LOG_CALLER_MISBEHAVES = 1;
        public const uint QR_LOG_PLUGIN_MISBEHAVES = 2;
        public const uint QR_ALLOCATOR_FIRST_SIZE = 32;
        public const uint QR_LOG_SINK_FIRST_SIZE = 24;
        public const uint QR_THREAD_POOL_FIRST_SIZE = 24;
        public const uint QR_RUNTIME_OPTIONS_FIRST_SIZE = 72;
        public const ulong QR_RUNTIME_ONLY_GIVEN_PATHS = 1;
        public const uint QR_BACKEND_INFO_FIRST_SIZE = 120;
        public const uint QR_DEVICE_INFO_FIRST_SIZE = 72;
        public const ulong QR_DEVICE_IMPORTS_FD = 1;
        public const ulong QR_DEVICE_REGISTERS_POINTER = 2;
        public const ulong QR_DEVICE_SIMULATED = 4;
        public const ulong QR_DEVICE_RECOVERS = 8;
        public const ulong QR_DEVICE_SUBMITS = 16;
        public const ulong QR_DEVICE_GROUPS = 32;
        public const ulong QR_DEVICE_NO_FORK = 64;
        public const ulong QR_DEVICE_EXPORTS_FD = 128;
        public const ulong QR_DEVICE_RANGES = 256;
        public const ulong QR_DEVICE_APPENDS = 512;
        public const ulong QR_DEVICE_BATCHES = 1024;
        public const uint QR_OPTION_INFO_FIRST_SIZE = 96;
        public const ulong QR_OPTION_COMPILE = 1;
        public const ulong QR_OPTION_LOAD = 2;
        public const ulong QR_OPTION_RUN = 4;
        public const ulong QR_OPTION_TARGET = 8;
        public const ulong QR_NO_TIMEOUT = 0xffffffffffffffff;
        public const uint QR_TARGET_FIRST_SIZE = 80;
        public const uint QR_TARGET_PATH = 1;
        public const uint QR_TARGET_MEMORY = 2;
        public const uint QR_TARGET_DESCRIPTOR = 3;
        public const uint QR_TARGET_WRITER = 4;
        public const uint QR_PROFILE_BASIC = 1;
        public const uint QR_PROFILE_DETAILED = 2;
        public const uint QR_PROFILE_LINTING = 3;
        public const uint QR_PROFILE_TRACE = 4;
        public const uint QR_CLOCK_HOST = 0;
        public const uint QR_CLOCK_DEVICE_NS = 1;
        public const uint QR_CLOCK_DEVICE_CYCLES = 2;
        public const uint QR_CLOCK_NONE = 3;
        public const uint QR_PROFILE_EVENT_FIRST_SIZE = 136;
        public const uint QR_GO_ON = 0;
        public const uint QR_STOP = 1;
        public const uint QR_PROGRESS_FIRST_SIZE = 24;
        public const uint QR_CALL_OPTIONS_FIRST_SIZE = 40;
        public const uint QR_TENSOR_FIRST_SIZE = 120;
        public const uint QR_TENSOR_OF_SESSION = 1;
        public const uint QR_TENSOR_INFO_FIRST_SIZE = 160;
        public const uint QR_QUANTIZED_PER_TENSOR = 1;
        public const uint QR_QUANTIZED_PER_CHANNEL = 2;
        public const uint QR_QUANTIZED_PER_BLOCK = 3;
        public const uint QR_MODEL_SOURCE_FIRST_SIZE = 72;
        public const uint QR_SOURCE_PATH = 1;
        public const uint QR_SOURCE_MEMORY = 2;
        public const uint QR_SOURCE_DESCRIPTOR = 3;
        public const uint QR_SOURCE_READER = 4;
        public const uint QR_NETWORK_FIRST_SIZE = 32;
        public const int QR_COMPATIBILITY_OPTIMAL = 1;
        public const int QR_COMPATIBILITY_USABLE = 2;
        public const int QR_COMPATIBILITY_RECOMPILE = 3;
        public const int QR_COMPATIBILITY_INCOMPATIBLE = 4;
        public const uint QR_ACCESS_READ = 1;
        public const uint QR_ACCESS_WRITE = 2;
        public const uint QR_MEMORY_OPTIONS_FIRST_SIZE = 48;
        public const ulong QR_MEMORY_NO_HOST_POINTER = 1;
        public const uint QR_BUFFER_PLANES = 3;
        public const uint QR_BUFFER_LAYOUT_FIRST_SIZE = 72;
        public const uint QR_MEMORY_PLAN_FIRST_SIZE = 56;
        public const uint QR_RUN_OPTIONS_FIRST_SIZE = 32;
        public const uint QR_SUBMIT_OPTIONS_FIRST_SIZE = 48;
        public const uint QR_STATE_INFO_FIRST_SIZE = 128;
        public const uint QR_ADAPTER_OPTIONS_FIRST_SIZE = 16;

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern byte* qr_version();

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern uint qr_abi_version();

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern byte* qr_dtype_name(int dtype);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern uint qr_dtype_bits(int dtype);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern int qr_status_code(IntPtr status);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern byte* qr_code_name(int code);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern byte* qr_status_id(IntPtr status);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern byte* qr_status_message(IntPtr status);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern byte* qr_status_hint(IntPtr status);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern ulong qr_status_detail_count(IntPtr status);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern void qr_status_detail(IntPtr status, ulong index, byte** out_key, byte** out_value);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern void qr_status_destroy(IntPtr status);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_runtime_create(qr_runtime_options* options, IntPtr* out_runtime);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern void qr_runtime_destroy(IntPtr runtime);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_runtime_scan(IntPtr runtime, ulong* out_count);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_runtime_backend(IntPtr runtime, ulong index, qr_backend_info* out_info);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_runtime_device(IntPtr runtime, ulong index, ulong device, qr_device_info* out_info);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_runtime_search_path(IntPtr runtime, ulong index, qr_string* out_path, qr_string* out_origin);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern byte* qr_runtime_cpu_features(IntPtr runtime);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern byte* qr_plugin_target();

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_runtime_operators(IntPtr runtime, qr_string backend, byte** out_json);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern void qr_string_destroy(byte* text);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_options_create(IntPtr runtime, IntPtr* out_options);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_options_set(IntPtr options, qr_string key, qr_string value);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_options_get(IntPtr options, qr_string key, qr_string* out_value);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_options_unset(IntPtr options, qr_string key);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern ulong qr_options_count(IntPtr options);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_options_at(IntPtr options, ulong index, qr_string* out_key, qr_string* out_value);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_options_copy(IntPtr options, IntPtr* out_copy);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern void qr_options_destroy(IntPtr options);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_runtime_option(IntPtr runtime, ulong index, qr_option_info* out_info);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_signal_create(IntPtr runtime, IntPtr* out_signal);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_signal_derive(IntPtr parent, IntPtr* out_signal);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_signal_check(IntPtr signal);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern void qr_signal_abort(IntPtr signal);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern void qr_signal_reset(IntPtr signal);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern void qr_signal_set_timeout(IntPtr signal, ulong timeout_ns);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_signal_fd(IntPtr signal, int* out_fd);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern void qr_signal_destroy(IntPtr signal);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_profile_create(IntPtr runtime, IntPtr* out_profile);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern ulong qr_profile_event_count(IntPtr profile);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern ulong qr_profile_lost_count(IntPtr profile);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_profile_event_at(IntPtr profile, ulong index, qr_profile_event* out_event);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_profile_export(IntPtr profile, qr_string format, qr_target* target);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern void qr_profile_clear(IntPtr profile);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern void qr_profile_destroy(IntPtr profile);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_model_open(IntPtr runtime, qr_model_source* source, IntPtr options, qr_call_options* call, IntPtr* out_model);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern ulong qr_model_input_count(IntPtr model);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern ulong qr_model_output_count(IntPtr model);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_model_input(IntPtr model, ulong index, qr_tensor_info* out_info);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_model_output(IntPtr model, ulong index, qr_tensor_info* out_info);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_model_input_dim_name(IntPtr model, ulong index, ulong axis, qr_string* out_name);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_model_output_dim_name(IntPtr model, ulong index, ulong axis, qr_string* out_name);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern ulong qr_model_property_count(IntPtr model);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_model_property(IntPtr model, ulong index, qr_string* out_key, qr_string* out_value);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_model_inspect(IntPtr model, qr_call_options* call, byte** out_json);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_model_verify(IntPtr model, qr_call_options* call);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_model_compile(IntPtr model, IntPtr options, qr_target* target, qr_call_options* call);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_model_compile_networks(qr_network** networks, ulong count, IntPtr options, qr_target* target, qr_call_options* call);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_model_export(IntPtr model, IntPtr options, qr_target* target, qr_call_options* call);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_model_check(IntPtr model, IntPtr options, qr_call_options* call, byte** out_json);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_model_compatibility(IntPtr model, IntPtr options, qr_call_options* call, int* out_grade, byte** out_reason);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern void qr_model_destroy(IntPtr model);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_memory_allocate(IntPtr session, ulong size_bytes, qr_memory_options* options, IntPtr* out_memory);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_memory_import_fd(IntPtr session, int fd, ulong offset, ulong size_bytes, qr_memory_options* options, IntPtr* out_memory);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_memory_register(IntPtr session, void* data, ulong size_bytes, qr_memory_options* options, IntPtr* out_memory);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_memory_import_hardware_buffer(IntPtr session, void* buffer, int fence, qr_memory_options* options, qr_buffer_layout* out_layout, IntPtr* out_memory);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern void* qr_memory_data(IntPtr memory);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern ulong qr_memory_size(IntPtr memory);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_memory_map(IntPtr memory, uint access, void** out_data);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_memory_unmap(IntPtr memory);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_memory_begin_access(IntPtr memory, uint access);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_memory_end_access(IntPtr memory, uint access);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_memory_export_fd(IntPtr memory, int* out_fd, ulong* out_offset);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern void qr_memory_destroy(IntPtr memory);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_session_plan(IntPtr model, IntPtr options, qr_call_options* call, qr_memory_plan* out_plan);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_session_create(IntPtr model, IntPtr options, qr_call_options* call, IntPtr* out_session);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_session_clone(IntPtr session, qr_call_options* call, IntPtr* out_session);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern ulong qr_session_input_count(IntPtr session);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern ulong qr_session_output_count(IntPtr session);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_session_input(IntPtr session, ulong index, qr_tensor_info* out_info);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_session_output(IntPtr session, ulong index, qr_tensor_info* out_info);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern ulong qr_session_bucket_count(IntPtr session);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_session_bucket_input(IntPtr session, ulong bucket, ulong index, qr_tensor_info* out_info);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_session_bucket_output(IntPtr session, ulong bucket, ulong index, qr_tensor_info* out_info);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_session_run(IntPtr session, qr_run_options* options, qr_tensor** inputs, ulong input_count, qr_tensor** outputs, ulong output_count);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_session_warm_up(IntPtr session, qr_run_options* options);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_session_set_option(IntPtr session, qr_string key, qr_string value);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_session_submit(IntPtr session, qr_submit_options* options, qr_tensor** inputs, ulong input_count, qr_tensor** outputs, ulong output_count, ulong* out_ticket);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_session_wait(IntPtr session, ulong ticket, IntPtr signal, int* out_ended);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern void qr_session_abort(IntPtr session, ulong ticket);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_session_completion_fd(IntPtr session, int* out_fd);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_session_recover(IntPtr session, qr_call_options* call);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_session_report(IntPtr session, byte** out_json);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern void qr_session_destroy(IntPtr session);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_session_state(IntPtr session, IntPtr* out_state);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_session_set_state(IntPtr session, IntPtr state);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern ulong qr_state_count(IntPtr state);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_state_tensor(IntPtr state, ulong index, qr_state_info* out_info);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_state_length(IntPtr state, ulong* out_length);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_state_dropped(IntPtr state, ulong* out_dropped);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_state_reset(IntPtr state);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_state_rewind(IntPtr state, ulong length);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_state_fork(IntPtr state, IntPtr* out_state);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_state_save(IntPtr state, qr_target* target, qr_call_options* call);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_state_load(IntPtr state, void* data, ulong size);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_state_read(IntPtr state, ulong index, qr_tensor* out_tensor);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_state_write(IntPtr state, ulong index, qr_tensor* tensor);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern void qr_state_destroy(IntPtr state);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_adapter_open(IntPtr session, qr_model_source* source, qr_adapter_options* options, qr_call_options* call, IntPtr* out_adapter);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_session_set_adapter(IntPtr session, IntPtr adapter);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern void qr_adapter_destroy(IntPtr adapter);
    }

    [StructLayout(LayoutKind.Sequential)]
    internal unsafe struct qr_string {
        public byte* data;
        public ulong size;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal unsafe struct qr_allocator {
        public uint struct_size;
        public uint reserved;
        public void* self;
        public IntPtr alloc;
        public IntPtr free;
    }

    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
    internal unsafe delegate void* qr_allocator_alloc(void* self, ulong size_bytes, ulong align_bytes);

    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
    internal unsafe delegate void qr_allocator_free(void* self, void* ptr, ulong size_bytes, ulong align_bytes);

    [StructLayout(LayoutKind.Sequential)]
    internal unsafe struct qr_log_sink {
        public uint struct_size;
        public int level;
        public void* self;
        public IntPtr write;
    }

    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
    internal unsafe delegate void qr_log_sink_write(void* self, int level, uint flags, qr_string topic, qr_string message);

    [StructLayout(LayoutKind.Sequential)]
    internal unsafe struct qr_thread_pool {
        public uint struct_size;
        public uint worker_count;
        public void* self;
        public IntPtr parallel_for;
    }

    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
    internal unsafe delegate void qr_thread_pool_parallel_for(void* self, ulong count, ulong grain, IntPtr body, void* context);

    [StructLayout(LayoutKind.Sequential)]
    internal unsafe struct qr_runtime_options {
        public uint struct_size;
        public uint reserved;
        public ulong flags;
        public qr_allocator* allocator;
        public qr_log_sink* log;
        public qr_thread_pool* thread_pool;
        public qr_string backend_path;
        public qr_string prepare_path;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal unsafe struct qr_backend_info {
        public uint struct_size;
        public int usable;
        public int code;
        public uint is_static;
        public ulong device_count;
        public qr_string id;
        public qr_string path;
        public qr_string version;
        public qr_string error_id;
        public qr_string verdict;
        public qr_string hint;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal unsafe struct qr_device_info {
        public uint struct_size;
        public int usable;
        public ulong memory_bytes;
        public ulong features;
        public qr_string name;
        public qr_string target;
        public qr_string why_not;
        public qr_string details;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal unsafe struct qr_option_info {
        public uint struct_size;
        public uint changes_at_run_time;
        public qr_string key;
        public qr_string values;
        public qr_string default_value;
        public qr_string scope;
        public qr_string help;
        public ulong applies;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal unsafe struct qr_target {
        public uint struct_size;
        public uint kind;
        public qr_string path;
        public int fd;
        public int folder_fd;
        public void** out_data;
        public ulong* out_size_bytes;
        public void* self;
        public IntPtr begin;
        public IntPtr write;
        public IntPtr end;
    }

    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
    internal unsafe delegate int qr_target_begin(void* self, qr_string name, ulong size_bytes, ulong more);

    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
    internal unsafe delegate int qr_target_write(void* self, void* data, ulong size_bytes);

    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
    internal unsafe delegate int qr_target_end(void* self, int committed);

    [StructLayout(LayoutKind.Sequential)]
    internal unsafe struct qr_profile_counter {
        public qr_string name;
        public qr_string unit;
        public ulong value;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal unsafe struct qr_profile_attribute {
        public qr_string key;
        public qr_string value;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal unsafe struct qr_profile_event {
        public uint struct_size;
        public uint level;
        public ulong id;
        public ulong parent;
        public uint clock;
        public uint thread;
        public ulong begin;
        public ulong end;
        public long node;
        public qr_string name;
        public qr_string kind;
        public qr_string op;
        public qr_profile_counter* counters;
        public ulong counter_count;
        public qr_profile_attribute* attributes;
        public ulong attribute_count;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal unsafe struct qr_progress {
        public uint struct_size;
        public uint reserved;
        public void* self;
        public IntPtr report;
    }

    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
    internal unsafe delegate int qr_progress_report(void* self, ulong done, ulong total, qr_string what);

    [StructLayout(LayoutKind.Sequential)]
    internal unsafe struct qr_call_options {
        public uint struct_size;
        public uint reserved;
        public ulong flags;
        public IntPtr signal;
        public IntPtr profile;
        public qr_progress* progress;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal unsafe struct qr_tensor {
        public uint struct_size;
        public int dtype;
        public uint rank;
        public uint flags;
        public fixed long dims[8];
        public void* data;
        public ulong size_bytes;
        public IntPtr memory;
        public ulong memory_offset;
        public void* const_data;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal unsafe struct qr_tensor_info {
        public uint struct_size;
        public int dtype;
        public uint rank;
        public uint is_quantized;
        public fixed long dims[8];
        public ulong size_bytes;
        public qr_string name;
        public double scale;
        public long zero_point;
        public float* scales;
        public int* zero_points;
        public ulong scale_count;
        public long block_size;
        public uint quantized_axis;
        public uint reserved;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal unsafe struct qr_model_source {
        public uint struct_size;
        public uint kind;
        public qr_string path;
        public void* data;
        public ulong offset;
        public ulong size_bytes;
        public int fd;
        public int folder_fd;
        public void* self;
        public IntPtr read;
        public IntPtr external;
    }

    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
    internal unsafe delegate int qr_model_source_read(void* self, ulong offset, void* to, ulong size_bytes);

    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
    internal unsafe delegate int qr_model_source_external(void* self, qr_string name, qr_model_source* out_source);

    [StructLayout(LayoutKind.Sequential)]
    internal unsafe struct qr_network {
        public uint struct_size;
        public uint reserved;
        public IntPtr model;
        public qr_string name;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal unsafe struct qr_memory_options {
        public uint struct_size;
        public uint device_access;
        public ulong flags;
        public IntPtr runtime;
        public qr_string backend;
        public uint device;
        public uint reserved;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal unsafe struct qr_buffer_layout {
        public uint struct_size;
        public uint format;
        public uint width;
        public uint height;
        public uint plane_count;
        public uint reserved;
        public fixed ulong offset[3];
        public fixed uint row_bytes[3];
        public fixed uint pixel_bytes[3];
    }

    [StructLayout(LayoutKind.Sequential)]
    internal unsafe struct qr_memory_plan {
        public uint struct_size;
        public uint reserved;
        public ulong weights_bytes;
        public ulong arena_bytes;
        public ulong io_bytes;
        public ulong device_bytes;
        public ulong scratchpad_bytes;
        public ulong spill_fill_bytes;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal unsafe struct qr_run_options {
        public uint struct_size;
        public uint reserved;
        public ulong flags;
        public IntPtr signal;
        public IntPtr profile;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal unsafe struct qr_submit_options {
        public uint struct_size;
        public uint reserved;
        public ulong flags;
        public IntPtr signal;
        public IntPtr profile;
        public void* self;
        public IntPtr done;
    }

    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
    internal unsafe delegate void qr_submit_options_done(void* self, ulong ticket, IntPtr status);

    [StructLayout(LayoutKind.Sequential)]
    internal unsafe struct qr_state_info {
        public uint struct_size;
        public int axis;
        public qr_string input;
        public qr_string output;
        public int dtype;
        public uint rank;
        public fixed long dims[8];
        public ulong capacity;
        public ulong bytes;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal unsafe struct qr_adapter_options {
        public uint struct_size;
        public uint reserved;
        public float alpha;
        public float strength;
    }
}
