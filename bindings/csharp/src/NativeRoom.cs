// SPDX-License-Identifier: Apache-2.0
using System;
using System.Runtime.InteropServices;
using Microsoft.Win32.SafeHandles;

namespace Quarry {
    /// <summary>Memory that is not the collector's: zeros, aligned to 64 bytes, which is what the library works on without a copy.</summary>
    internal sealed unsafe class NativeRoom : SafeHandleZeroOrMinusOneIsInvalid {
        const int Alignment = 64;
        readonly long bytes;

        internal IntPtr Address { get; }

        internal NativeRoom(long bytes) : base(true) {
            this.bytes = bytes;
            SetHandle(Allocate(bytes, out IntPtr address));
            Address = address;
            byte* at = (byte*)address, end = at + bytes;
            for (; end - at >= sizeof(ulong); at += sizeof(ulong)) *(ulong*)at = 0;
            for (; at < end; ++at) *at = 0;
            // The collector sees a small object, and would let many of them wait.
            if (bytes > 0) GC.AddMemoryPressure(bytes);
        }

        /// <summary>What Marshal.FreeHGlobal takes; `address`: aligned, within.</summary>
        static IntPtr Allocate(long bytes, out IntPtr address) {
            IntPtr made = Marshal.AllocHGlobal(new IntPtr(checked(bytes + Alignment)));
            address = new IntPtr(((long)made + Alignment - 1) / Alignment * Alignment);
            return made;
        }

        /// <summary>A copy of a model's bytes, for who stands on them; `address` is where they are.</summary>
        internal static Shared Copy(byte[] data, out IntPtr address) {
            IntPtr made = Allocate(data.Length, out address);
            Marshal.Copy(data, 0, address, data.Length);
            return new Shared(made, Marshal.FreeHGlobal);
        }

        protected override bool ReleaseHandle() {
            Marshal.FreeHGlobal(handle);
            if (bytes > 0) GC.RemoveMemoryPressure(bytes);
            return true;
        }
    }
}
