// SPDX-License-Identifier: Apache-2.0
using System;
using System.Runtime.InteropServices;

namespace Quarry {
    /// <summary>
    /// Every callback begins with Enter. It may come on a thread of the library's, and those block all signals: Mono counts a thread that has run managed code among those
    /// that its collector stops, by a signal, and would wait for ever. Other runtimes have no need of it.
    /// </summary>
    internal static unsafe class CallbackThread {
        const int Unblock = 1;  // SIG_UNBLOCK
        const int Power = 30, ProcessorTime = 24, FirstRealTime = 34, LastRealTime = 64;  // those that Mono takes, by version

        static readonly ulong* Signals = Mask();

        [DllImport("libc", EntryPoint = "pthread_sigmask")]
        static extern int SetMask(int how, ulong* signals, void* before);

        static ulong* Mask() {
            if (Type.GetType("Mono.Runtime") == null || !RuntimeInformation.IsOSPlatform(OSPlatform.Linux)) return null;
            var mask = (ulong*)Marshal.AllocHGlobal(128);  // for ever: a sigset_t
            for (int i = 0; i < 16; ++i) mask[i] = 0;
            mask[0] = 1ul << Power - 1 | 1ul << ProcessorTime - 1;
            for (int signal = FirstRealTime; signal <= LastRealTime; ++signal) mask[0] |= 1ul << signal - 1;
            return mask;
        }

        /// <summary>Once on a thread of the program's, before the first callback: so that Enter has nothing left to do that could wait for the collector.</summary>
        internal static void Prepare() {
            Enter();
        }

        internal static void Enter() {
            if (Signals != null) SetMask(Unblock, Signals, null);
        }
    }
}
