// SPDX-License-Identifier: Apache-2.0
using System;

namespace Quarry {
    /// <summary>
    /// An object of the library's. It may be disposed of at any time and in any order, also while a call is inside: that goes on, and later ones throw
    /// <see cref="ObjectDisposedException"/>. What nobody disposes of is freed with the garbage.
    /// </summary>
    public abstract class QuarryObject : IDisposable {
        internal readonly Handle Handle;

        internal QuarryObject(Handle handle) {
            Handle = handle;
        }

        /// <summary>Lets go of it. A second time does nothing.</summary>
        public virtual void Dispose() {
            Handle.Dispose();
        }

        internal Held Hold() {
            return new Held(Handle, GetType().Name);
        }
    }
}
