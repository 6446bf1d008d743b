// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Generic;
using System.Runtime.ExceptionServices;
using System.Runtime.InteropServices;
using System.Threading;

namespace Quarry {
    /// <summary>What goes with a call that may take long: options that live as long as it, what stops it, and who watches how far it is.</summary>
    internal sealed unsafe class Call : IDisposable {
        // Kept here: the library has its address.
        static readonly qr_progress_report ReportDelegate = Report;
        static readonly IntPtr ReportAddress = Marshal.GetFunctionPointerForDelegate(ReportDelegate);

        readonly Stopper stopper;
        readonly Progress progress;
        GCHandle self;
        ExceptionDispatchInfo thrown;
        byte* block;

        /// <summary>The set of options; zero: none are given.</summary>
        internal IntPtr Settings { get; private set; }

        internal qr_call_options* Options { get; private set; }

        /// <summary>`runtime`: stays as long as this. The others may be null.</summary>
        internal Call(IntPtr runtime, IReadOnlyDictionary<string, string> options, Signal signal, Progress progress, CancellationToken stop) {
            stopper = new Stopper(runtime, signal, stop);
            this.progress = progress;
            try {
                block = (byte*)Marshal.AllocHGlobal(sizeof(qr_call_options) + sizeof(qr_progress));
                Options = (qr_call_options*)block;
                *Options = new qr_call_options {struct_size = (uint)sizeof(qr_call_options), signal = stopper.Pointer};
                if (progress != null) {
                    self = GCHandle.Alloc(this);
                    Options->progress = (qr_progress*)(block + sizeof(qr_call_options));
                    *Options->progress = new qr_progress {struct_size = (uint)sizeof(qr_progress), self = (void*)GCHandle.ToIntPtr(self), report = ReportAddress};
                }
                if (options != null && options.Count > 0) Set(runtime, options);
            } catch {
                Dispose();
                throw;
            }
        }

        void Set(IntPtr runtime, IReadOnlyDictionary<string, string> options) {
            IntPtr made;
            QuarryException.Check(Native.qr_options_create(runtime, &made));
            Settings = made;
            foreach (KeyValuePair<string, string> option in options) {
                byte[] key = Text.Bytes(option.Key), value = Text.Bytes(option.Value);
                fixed (byte* keyAt = key, valueAt = value) QuarryException.Check(Native.qr_options_set(made, Text.View(keyAt, key), Text.View(valueAt, value)));
            }
        }

        // What it throws waits until the call is back: no exception may cross the library's frames.
        static int Report(void* self, ulong done, ulong total, qr_string what) {
            CallbackThread.Enter();
            var call = (Call)GCHandle.FromIntPtr((IntPtr)self).Target;
            try {
                return call.progress((long)done, (long)total, Text.Of(what)) ? (int)Native.QR_GO_ON : (int)Native.QR_STOP;
            } catch (Exception error) {
                if (call.thrown == null) call.thrown = ExceptionDispatchInfo.Capture(error);
                return (int)Native.QR_STOP;
            }
        }

        /// <summary>The call's end: throws what its progress threw, or what the status says.</summary>
        internal void Check(IntPtr status) {
            if (thrown == null) {
                stopper.Check(status);
                return;
            }
            Native.qr_status_destroy(status);
            thrown.Throw();
        }

        public void Dispose() {
            if (Settings != IntPtr.Zero) Native.qr_options_destroy(Settings);
            Settings = IntPtr.Zero;
            if (self.IsAllocated) self.Free();
            if (block != null) Marshal.FreeHGlobal((IntPtr)block);
            block = null;
            stopper.Dispose();
        }
    }
}
