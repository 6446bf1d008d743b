// SPDX-License-Identifier: Apache-2.0
using System;
using System.Text;

namespace Quarry {
    /// <summary>Texts on their way to the library and back: UTF-8 there. Never marshalled: what a runtime takes for the system's encoding differs.</summary>
    internal static unsafe class Text {
        static readonly Encoding Utf8 = new UTF8Encoding(false);

        internal static byte[] Bytes(string text) {
            if (text == null) throw new ArgumentNullException("text");
            return Utf8.GetBytes(text);
        }

        /// <summary>Of bytes that are pinned at `at`.</summary>
        internal static qr_string View(byte* at, byte[] bytes) {
            return new qr_string {data = at, size = (ulong)bytes.Length};
        }

        internal static string Of(qr_string text) {
            return text.size == 0 ? "" : Utf8.GetString(text.data, checked((int)text.size));
        }

        /// <summary>Of what ends at a NUL byte.</summary>
        internal static string Of(byte* text) {
            if (text == null) return "";
            int size = 0;
            while (text[size] != 0) ++size;
            return size == 0 ? "" : Utf8.GetString(text, size);
        }

        /// <summary>Of what the library gave; frees it.</summary>
        internal static string Take(byte* text) {
            try {
                return Of(text);
            } finally {
                Native.qr_string_destroy(text);
            }
        }
    }
}
