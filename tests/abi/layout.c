/* SPDX-License-Identifier: Apache-2.0 */
/* Prints size and offsets of every struct of the public and plugin headers; compared with layout.txt, which changes
 * only by appending. */
#include <quarry/backend.h>
#include <quarry/quarry.h>
#include <stddef.h>
#include <stdio.h>

#define SIZE(type) printf("%s %zu\n", #type, sizeof(type))
#define AT(type, field) printf("  %s.%s %zu\n", #type, #field, offsetof(type, field))

int main(void) {
  SIZE(qr_string);
  SIZE(qr_allocator), AT(qr_allocator, self), AT(qr_allocator, alloc), AT(qr_allocator, resize), AT(qr_allocator, free);
  SIZE(qr_log_sink), AT(qr_log_sink, level), AT(qr_log_sink, self), AT(qr_log_sink, write);
  SIZE(qr_thread_pool), AT(qr_thread_pool, worker_count), AT(qr_thread_pool, self), AT(qr_thread_pool, parallel_for);
  SIZE(qr_runtime_options), AT(qr_runtime_options, flags), AT(qr_runtime_options, allocator),
      AT(qr_runtime_options, log);
  AT(qr_runtime_options, thread_pool), AT(qr_runtime_options, backend_path), AT(qr_runtime_options, prepare_path);
  SIZE(qr_backend_info), AT(qr_backend_info, device_count), AT(qr_backend_info, id), AT(qr_backend_info, hint);
  SIZE(qr_device_info), AT(qr_device_info, memory_bytes), AT(qr_device_info, features), AT(qr_device_info, why_not);
  SIZE(qr_option_info), AT(qr_option_info, changes_at_run_time), AT(qr_option_info, key), AT(qr_option_info, help);
  SIZE(qr_tensor), AT(qr_tensor, dtype), AT(qr_tensor, rank), AT(qr_tensor, dims), AT(qr_tensor, data),
      AT(qr_tensor, size_bytes), AT(qr_tensor, memory);
  AT(qr_tensor, memory_offset);
  SIZE(qr_tensor_info), AT(qr_tensor_info, dims), AT(qr_tensor_info, size_bytes), AT(qr_tensor_info, name),
      AT(qr_tensor_info, scale);
  AT(qr_tensor_info, zero_point);
  SIZE(qr_progress), AT(qr_progress, self), AT(qr_progress, report);
  SIZE(qr_memory_plan), AT(qr_memory_plan, weights_bytes), AT(qr_memory_plan, scratchpad_bytes);
  SIZE(qr_run_options), AT(qr_run_options, flags), AT(qr_run_options, signal), AT(qr_run_options, profile);
  SIZE(qr_profile_event), AT(qr_profile_event, begin), AT(qr_profile_event, thread);
  SIZE(qr_plugin_note), AT(qr_plugin_note, abi_major), AT(qr_plugin_note, flavour), AT(qr_plugin_note, id),
      AT(qr_plugin_note, target);
  SIZE(qr_plugin_note_section), AT(qr_plugin_note_section, name), AT(qr_plugin_note_section, note);
  SIZE(qr_host), AT(qr_host, magic), AT(qr_host, self), AT(qr_host, alloc), AT(qr_host, get_extension);
  SIZE(qr_error_sink), SIZE(qr_plugin_signal), AT(qr_plugin_signal, deadline_ns), SIZE(qr_plugin_event),
      SIZE(qr_profile_sink), SIZE(qr_host_threads);
  SIZE(qr_plugin_option_info), SIZE(qr_plugin_device_info), SIZE(qr_compile_request), AT(qr_compile_request, threads),
      SIZE(qr_verdict_sink);
  SIZE(qr_plugin_plan), SIZE(qr_blob_sink), AT(qr_blob_sink, plan), SIZE(qr_blob), AT(qr_blob, key),
      SIZE(qr_load_request), AT(qr_load_request, signal);
  SIZE(qr_plugin_tensor_info), SIZE(qr_io_buffer), AT(qr_io_buffer, memory), AT(qr_io_buffer, dims),
      SIZE(qr_run_request), AT(qr_run_request, threads);
  SIZE(qr_plugin_device_api), SIZE(qr_plugin_option_api), SIZE(qr_plugin_compiler_api),
      AT(qr_plugin_compiler_api, supports);
  SIZE(qr_plugin_context_api), AT(qr_plugin_context_api, destroy), SIZE(qr_plugin_execution_api),
      AT(qr_plugin_execution_api, destroy);
  SIZE(qr_plugin_memory_api), AT(qr_plugin_memory_api, release), SIZE(qr_plugin), AT(qr_plugin, device),
      AT(qr_plugin, get_extension);
  return 0;
}
