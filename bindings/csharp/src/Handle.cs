// SPDX-License-Identifier: Apache-2.0
using System;
using Microsoft.Win32.SafeHandles;
using System.Runtime.InteropServices;

namespace Quarry {
    /// <summary>
    /// An object of the library's. It is counted: closing waits for no call, what is inside goes on, and the last one out frees it. What nobody closes is freed by
    /// the finaliser.
    /// </summary>
    internal sealed class Handle : SafeHandleZeroOrMinusOneIsInvalid {
        internal delegate void Destroy(IntPtr handle);

        readonly Destroy destroy;
        readonly Shared runtime, data;

        /// <summary>`destroy` is null of what is shared. `runtime` and `data` (memory that the library works on) stay at least as long as this; both may be null.</summary>
        internal Handle(IntPtr made, Destroy destroy, Shared runtime = null, Shared data = null) : base(true) {
            this.destroy = destroy;
            this.runtime = runtime == null ? null : runtime.Keep();
            this.data = data == null ? null : data.Keep();
            SetHandle(made);
        }

        protected override bool ReleaseHandle() {
            if (destroy != null) destroy(handle);
            if (data != null) data.Drop();
            if (runtime != null) runtime.Drop();
            return true;
        }
    }

    /// <summary>A handle in use: it stays until Dispose, whoever closes it meanwhile.</summary>
    internal struct Held : IDisposable {
        readonly SafeHandle of;
        internal readonly IntPtr Pointer;

        /// <exception cref="ObjectDisposedException">It is closed; `name` says of what.</exception>
        internal Held(SafeHandle of, string name) {
            bool held = false;
            try {
                of.DangerousAddRef(ref held);
            } catch (ObjectDisposedException) {
                throw new ObjectDisposedException(name);
            }
            this.of = of;
            Pointer = of.DangerousGetHandle();
        }

        public void Dispose() {
            if (of != null) of.DangerousRelease();
        }
    }
}
