// SPDX-License-Identifier: Apache-2.0
namespace Quarry {
    /// <summary>
    /// Low-rank updates of weights (LoRA) that a session's runs compute with: <see cref="Session.OpenAdapter"/>, <see cref="Session.SetAdapter"/>. It may outlive the session,
    /// and serve several.
    /// </summary>
    public sealed class Adapter : QuarryObject {
        internal Adapter(Handle handle) : base(handle) { }
    }
}
