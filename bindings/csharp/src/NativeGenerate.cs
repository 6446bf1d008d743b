// SPDX-License-Identifier: Apache-2.0
// Written by tools/generate_bindings.py from include/quarry, never by hand.
// What each means, and who owns what, say the headers.
using System;
using System.Runtime.InteropServices;

#pragma warning disable 649, 169 // fields that only the library sets, and those that nobody looks at

namespace Quarry {
    internal static unsafe partial class NativeGenerate {
        public const uint QR_SAMPLER_OPTIONS_FIRST_SIZE = 40;
        public const uint QR_GENERATOR_OPTIONS_FIRST_SIZE = 64;
        public const int QR_END_NONE = 0;
        public const int QR_END_STOP_TOKEN = 1;
        public const int QR_END_LENGTH = 2;
        public const int QR_END_CAPACITY = 3;
        public const int QR_END_CALLBACK = 4;
        public const int QR_END_ABORTED = 5;
        public const int QR_END_DEADLINE = 6;
        public const uint QR_TOKEN_SINK_FIRST_SIZE = 24;
        public const uint QR_SEQUENCE_INFO_FIRST_SIZE = 56;

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_sampler_create(qr_sampler_options* options, IntPtr* out_sampler);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_sampler_pick(IntPtr sampler, float* logits, ulong count, long* out_token);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_sampler_accept(IntPtr sampler, long* tokens, ulong count);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_sampler_reset(IntPtr sampler);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern void qr_sampler_destroy(IntPtr sampler);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_generator_create(IntPtr session, qr_generator_options* options, qr_call_options* call, IntPtr* out_generator);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_generator_prompt(IntPtr generator, long* tokens, ulong count, qr_run_options* options);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_generator_step(IntPtr generator, qr_run_options* options, long* out_token, int* out_end);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_generator_run(IntPtr generator, qr_run_options* options, qr_token_sink* sink, ulong* out_count, int* out_end);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_generator_logits(IntPtr generator, qr_run_options* options, float** out_logits, ulong* out_count);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_generator_accept(IntPtr generator, long token);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_generator_rewind(IntPtr generator, ulong length);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_generator_sequence(IntPtr generator, qr_sequence_info* out_info);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_generator_state(IntPtr generator, IntPtr* out_state);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_generator_restore(IntPtr generator, long* tokens, ulong count);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern void qr_generator_destroy(IntPtr generator);
    }

    [StructLayout(LayoutKind.Sequential)]
    internal unsafe struct qr_sampler_options {
        public uint struct_size;
        public uint top_k;
        public float temperature;
        public float top_p;
        public float min_p;
        public float repetition_penalty;
        public ulong repetition_window;
        public ulong seed;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal unsafe struct qr_generator_options {
        public uint struct_size;
        public uint reserved;
        public qr_sampler_options* sampler;
        public long* stop_tokens;
        public ulong stop_token_count;
        public ulong max_new_tokens;
        public ulong prompt_chunk;
        public qr_string names;
    }

    [StructLayout(LayoutKind.Sequential)]
    internal unsafe struct qr_token_sink {
        public uint struct_size;
        public uint reserved;
        public void* self;
        public IntPtr token;
    }

    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
    internal unsafe delegate int qr_token_sink_token(void* self, long token);

    [StructLayout(LayoutKind.Sequential)]
    internal unsafe struct qr_sequence_info {
        public uint struct_size;
        public uint reserved;
        public long* tokens;
        public ulong count;
        public ulong run;
        public ulong reused;
        public ulong capacity;
        public ulong vocabulary;
    }
}
