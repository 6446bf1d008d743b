// SPDX-License-Identifier: Apache-2.0
// Written by tools/generate_bindings.py from include/quarry, never by hand.
// What each means, and who owns what, say the headers.
using System;
using System.Runtime.InteropServices;

#pragma warning disable 649, 169 // fields that only the library sets, and those that nobody looks at

namespace Quarry {
    internal static unsafe partial class NativeTokenizer {
        public const uint QR_ENCODE_SPECIAL = 1;
        public const uint QR_DECODE_SKIP_SPECIAL = 1;
        public const uint QR_TEXT_STREAM_OPTIONS_FIRST_SIZE = 24;

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern int qr_tokenizer_error_code(IntPtr error);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern byte* qr_tokenizer_error_id(IntPtr error);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern byte* qr_tokenizer_error_message(IntPtr error);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern byte* qr_tokenizer_error_hint(IntPtr error);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern void qr_tokenizer_error_destroy(IntPtr error);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_tokenizer_open(qr_string path, IntPtr* out_tokenizer);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_tokenizer_open_memory(void* data, ulong size, IntPtr* out_tokenizer);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern void qr_tokenizer_destroy(IntPtr tokenizer);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern ulong qr_tokenizer_vocabulary(IntPtr tokenizer);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_tokenizer_encode(IntPtr tokenizer, qr_string text, uint flags, long** out_tokens, ulong* out_count);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern void qr_tokenizer_tokens_destroy(long* tokens, ulong count);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_tokenizer_decode(IntPtr tokenizer, long* tokens, ulong count, uint flags, byte** out_text);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern void qr_tokenizer_text_destroy(byte* text);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_tokenizer_token(IntPtr tokenizer, qr_string text, long* out_token);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern ulong qr_tokenizer_special_count(IntPtr tokenizer);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_tokenizer_special(IntPtr tokenizer, ulong index, long* out_token, qr_string* out_text);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_text_stream_create(IntPtr tokenizer, qr_text_stream_options* options, IntPtr* out_stream);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_text_stream_push(IntPtr stream, long token, qr_string* out_text, int* out_stopped);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern IntPtr qr_text_stream_finish(IntPtr stream, qr_string* out_text);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        public static extern void qr_text_stream_destroy(IntPtr stream);
    }

    [StructLayout(LayoutKind.Sequential)]
    internal unsafe struct qr_text_stream_options {
        public uint struct_size;
        public uint flags;
        public qr_string* stops;
        public ulong stop_count;
    }
}
