// SPDX-License-Identifier: Apache-2.0
using System;
using System.Runtime.InteropServices;

namespace Quarry {
    /// <summary>Where a call writes what it makes.</summary>
    internal static unsafe class Target {
        internal static qr_target Of(uint kind) {
            return new qr_target {struct_size = (uint)sizeof(qr_target), kind = kind, fd = -1, folder_fd = -1};
        }

        /// <summary>What the library wrote into memory, which is freed.</summary>
        internal static byte[] Take(void* data, ulong size) {
            try {
                if (size > int.MaxValue) throw QuarryException.Refused("memory: found " + size + " bytes, expected at most " + int.MaxValue + ", which is what an array has", "write to a file");
                var bytes = new byte[size];
                Marshal.Copy((IntPtr)data, bytes, 0, bytes.Length);
                return bytes;
            } finally {
                Native.qr_string_destroy((byte*)data);
            }
        }
    }
}
