// SPDX-License-Identifier: Apache-2.0
// Written by tools/generate_bindings.py from include/quarry, never by hand.
namespace Quarry {
    /// <summary>Sizes and offsets as tests/abi/abi.txt has them: a struct, its size, then fields and where they begin.</summary>
    internal static class Layouts {
        internal static readonly object[][] Rows = {
            new object[] {typeof(qr_string), 16, "data", 0, "size", 8},
            new object[] {typeof(qr_allocator), 32, "struct_size", 0, "reserved", 4, "self", 8, "alloc", 16, "free", 24},
            new object[] {typeof(qr_log_sink), 24, "struct_size", 0, "level", 4, "self", 8, "write", 16},
            new object[] {typeof(qr_thread_pool), 24, "struct_size", 0, "worker_count", 4, "self", 8, "parallel_for", 16},
            new object[] {typeof(qr_runtime_options), 72, "struct_size", 0, "reserved", 4, "flags", 8, "allocator", 16, "log", 24, "thread_pool", 32, "backend_path", 40, "prepare_path", 56},
            new object[] {typeof(qr_backend_info), 120, "struct_size", 0, "usable", 4, "code", 8, "is_static", 12, "device_count", 16, "id", 24, "path", 40, "version", 56, "error_id", 72, "verdict", 88, "hint", 104},
            new object[] {typeof(qr_device_info), 88, "struct_size", 0, "usable", 4, "memory_bytes", 8, "features", 16, "name", 24, "target", 40, "why_not", 56, "details", 72},
            new object[] {typeof(qr_option_info), 96, "struct_size", 0, "changes_at_run_time", 4, "key", 8, "values", 24, "default_value", 40, "scope", 56, "help", 72, "applies", 88},
            new object[] {typeof(qr_target), 80, "struct_size", 0, "kind", 4, "path", 8, "fd", 24, "folder_fd", 28, "out_data", 32, "out_size_bytes", 40, "self", 48, "begin", 56, "write", 64, "end", 72},
            new object[] {typeof(qr_profile_counter), 40, "name", 0, "unit", 16, "value", 32},
            new object[] {typeof(qr_profile_attribute), 32, "key", 0, "value", 16},
            new object[] {typeof(qr_profile_event), 136, "struct_size", 0, "level", 4, "id", 8, "parent", 16, "clock", 24, "thread", 28, "begin", 32, "end", 40, "node", 48, "name", 56, "kind", 72, "op", 88, "counters", 104, "counter_count", 112, "attributes", 120, "attribute_count", 128},
            new object[] {typeof(qr_progress), 24, "struct_size", 0, "reserved", 4, "self", 8, "report", 16},
            new object[] {typeof(qr_call_options), 40, "struct_size", 0, "reserved", 4, "flags", 8, "signal", 16, "profile", 24, "progress", 32},
            new object[] {typeof(qr_tensor), 120, "struct_size", 0, "dtype", 4, "rank", 8, "flags", 12, "dims", 16, "data", 80, "size_bytes", 88, "memory", 96, "memory_offset", 104, "const_data", 112},
            new object[] {typeof(qr_tensor_info), 160, "struct_size", 0, "dtype", 4, "rank", 8, "is_quantized", 12, "dims", 16, "size_bytes", 80, "name", 88, "scale", 104, "zero_point", 112, "scales", 120, "zero_points", 128, "scale_count", 136, "block_size", 144, "quantized_axis", 152, "reserved", 156},
            new object[] {typeof(qr_model_source), 80, "struct_size", 0, "kind", 4, "path", 8, "data", 24, "offset", 32, "size_bytes", 40, "fd", 48, "folder_fd", 52, "self", 56, "read", 64, "external", 72},
            new object[] {typeof(qr_network), 32, "struct_size", 0, "reserved", 4, "model", 8, "name", 16},
            new object[] {typeof(qr_memory_options), 48, "struct_size", 0, "device_access", 4, "flags", 8, "runtime", 16, "backend", 24, "device", 40, "reserved", 44},
            new object[] {typeof(qr_buffer_layout), 72, "struct_size", 0, "format", 4, "width", 8, "height", 12, "plane_count", 16, "reserved", 20, "offset", 24, "row_bytes", 48, "pixel_bytes", 60},
            new object[] {typeof(qr_memory_plan), 56, "struct_size", 0, "reserved", 4, "weights_bytes", 8, "arena_bytes", 16, "io_bytes", 24, "device_bytes", 32, "scratchpad_bytes", 40, "spill_fill_bytes", 48},
            new object[] {typeof(qr_run_options), 32, "struct_size", 0, "reserved", 4, "flags", 8, "signal", 16, "profile", 24},
            new object[] {typeof(qr_submit_options), 48, "struct_size", 0, "reserved", 4, "flags", 8, "signal", 16, "profile", 24, "self", 32, "done", 40},
            new object[] {typeof(qr_state_info), 128, "struct_size", 0, "axis", 4, "input", 8, "output", 24, "dtype", 40, "rank", 44, "dims", 48, "capacity", 112, "bytes", 120},
            new object[] {typeof(qr_adapter_options), 16, "struct_size", 0, "reserved", 4, "alpha", 8, "strength", 12},
            new object[] {typeof(qr_sampler_options), 40, "struct_size", 0, "top_k", 4, "temperature", 8, "top_p", 12, "min_p", 16, "repetition_penalty", 20, "repetition_window", 24, "seed", 32},
            new object[] {typeof(qr_generator_options), 64, "struct_size", 0, "reserved", 4, "sampler", 8, "stop_tokens", 16, "stop_token_count", 24, "max_new_tokens", 32, "prompt_chunk", 40, "names", 48},
            new object[] {typeof(qr_token_sink), 24, "struct_size", 0, "reserved", 4, "self", 8, "token", 16},
            new object[] {typeof(qr_sequence_info), 56, "struct_size", 0, "reserved", 4, "tokens", 8, "count", 16, "run", 24, "reused", 32, "capacity", 40, "vocabulary", 48},
            new object[] {typeof(qr_text_stream_options), 24, "struct_size", 0, "flags", 4, "stops", 8, "stop_count", 16},
        };
    }
}
