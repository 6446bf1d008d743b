// SPDX-License-Identifier: Apache-2.0
using System.Collections.Generic;

namespace Quarry {
    /// <summary>A candidate for a backend, and why it is usable or not.</summary>
    public sealed class BackendInfo {
        internal BackendInfo(qr_backend_info info, IReadOnlyList<DeviceInfo> devices) {
            Id = Text.Of(info.id);
            Path = Text.Of(info.path);
            Version = Text.Of(info.version);
            Verdict = Text.Of(info.verdict);
            Hint = Text.Of(info.hint);
            Usable = info.usable != 0;
            Devices = devices;
        }

        /// <summary>"cpu": what the option "backend" takes.</summary>
        public string Id { get; }

        /// <summary>Its file; empty where it is linked in.</summary>
        public string Path { get; }

        /// <summary>The plugin's own; may be empty.</summary>
        public string Version { get; }

        /// <summary>One line: why it is or is not usable.</summary>
        public string Verdict { get; }

        /// <summary>What to do; may be empty.</summary>
        public string Hint { get; }

        /// <summary>Whether sessions can be made on it.</summary>
        public bool Usable { get; }

        /// <summary>None where it is not usable.</summary>
        public IReadOnlyList<DeviceInfo> Devices { get; }

        /// <summary>Its id, and its devices or why it is not usable.</summary>
        public override string ToString() {
            return Usable ? Id + " [" + string.Join(", ", Devices) + "]" : Id + ": " + Verdict;
        }
    }

    /// <summary>A device of a backend.</summary>
    public sealed class DeviceInfo {
        internal DeviceInfo(qr_device_info info) {
            Name = Text.Of(info.name);
            Target = Text.Of(info.target);
            WhyNot = Text.Of(info.why_not);
            Usable = info.usable != 0;
            MemoryBytes = (long)info.memory_bytes;
        }

        /// <summary>As its driver or the system calls it.</summary>
        public string Name { get; }

        /// <summary>What is compiled for: "x86_64", "v75".</summary>
        public string Target { get; }

        /// <summary>One line; empty where it is usable.</summary>
        public string WhyNot { get; }

        /// <summary>Whether sessions can be made on it.</summary>
        public bool Usable { get; }

        /// <summary>0: not known.</summary>
        public long MemoryBytes { get; }

        /// <summary>Its name, and why it is not usable.</summary>
        public override string ToString() {
            return Usable ? Name : Name + ": " + WhyNot;
        }
    }
}
