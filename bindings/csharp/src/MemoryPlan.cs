// SPDX-License-Identifier: Apache-2.0
namespace Quarry {
    /// <summary>Bytes that a session needs; with shape buckets the largest of each figure.</summary>
    public sealed class MemoryPlan {
        internal MemoryPlan(qr_memory_plan plan) {
            WeightsBytes = (long)plan.weights_bytes;
            ArenaBytes = (long)plan.arena_bytes;
            IoBytes = (long)plan.io_bytes;
            DeviceBytes = (long)plan.device_bytes;
            ScratchpadBytes = (long)plan.scratchpad_bytes;
            SpillFillBytes = (long)plan.spill_fill_bytes;
        }

        /// <summary>Constants, mapped from the container where possible.</summary>
        public long WeightsBytes { get; }

        /// <summary>Working memory; a clone needs this much more.</summary>
        public long ArenaBytes { get; }

        /// <summary>Inputs and outputs.</summary>
        public long IoBytes { get; }

        /// <summary>On the device beside the above.</summary>
        public long DeviceBytes { get; }

        /// <summary>Fast memory on the chip.</summary>
        public long ScratchpadBytes { get; }

        /// <summary>A part of <see cref="DeviceBytes"/> that contexts of one "context.group" can share.</summary>
        public long SpillFillBytes { get; }
    }
}
