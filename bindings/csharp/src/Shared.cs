// SPDX-License-Identifier: Apache-2.0
using System;
using System.Threading;

namespace Quarry {
    /// <summary>
    /// What several objects stand on: a runtime, or memory that a model was opened in. Each of them counts, and the last one frees it. (A SafeHandle that its owner has
    /// closed takes no more users, but a session may be made of a model whose runtime is closed.)
    /// </summary>
    internal sealed class Shared {
        readonly Handle.Destroy free;
        int users = 1;

        internal IntPtr Pointer { get; }

        internal Shared(IntPtr pointer, Handle.Destroy free) {
            Pointer = pointer;
            this.free = free;
        }

        /// <summary>One user more; called by who knows that there is one.</summary>
        internal Shared Keep() {
            Interlocked.Increment(ref users);
            return this;
        }

        internal void Drop() {
            if (Interlocked.Decrement(ref users) == 0) free(Pointer);
        }
    }
}
