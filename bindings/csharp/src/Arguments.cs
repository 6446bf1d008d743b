// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Generic;
using System.Runtime.InteropServices;

namespace Quarry {
    /// <summary>What a run reads and writes, as the library wants it; its data stay where they are until Dispose.</summary>
    internal sealed unsafe class Arguments : IDisposable {
        readonly IReadOnlyList<TensorInfo> outputs;
        readonly Storage[] room;  // of each output; null: the session's own
        readonly List<PinnedTensor> pins = new List<PinnedTensor>();
        readonly int inputCount;
        qr_tensor* tensors;  // inputs, then outputs
        qr_tensor** pointers;

        /// <summary>`into` and its entries may be null. `queued`: each output must have room.</summary>
        internal Arguments(IReadOnlyList<TensorInfo> inputs, IReadOnlyList<TensorInfo> outputs, Tensor[] given, Tensor[] into, bool queued) {
            if (given == null) throw new ArgumentNullException("inputs");
            if (given.Length != inputs.Count)
                throw QuarryException.Refused("inputs: found " + given.Length + " tensors, expected " + inputs.Count + ": " + string.Join(", ", inputs));
            if (into != null && into.Length != outputs.Count)
                throw QuarryException.Refused("outputs: found room for " + into.Length + ", expected " + outputs.Count + ": " + string.Join(", ", outputs));
            this.outputs = outputs;
            inputCount = given.Length;
            room = new Storage[outputs.Count];
            int count = given.Length + room.Length;
            tensors = (qr_tensor*)Marshal.AllocHGlobal(Math.Max(count, 1) * (sizeof(qr_tensor) + sizeof(qr_tensor*)));
            pointers = (qr_tensor**)(tensors + count);
            try {
                for (int i = 0; i < count; ++i) {
                    tensors[i] = new qr_tensor {struct_size = (uint)sizeof(qr_tensor)};
                    pointers[i] = tensors + i;
                }
                for (int i = 0; i < given.Length; ++i) {
                    if (given[i] == null) throw QuarryException.Refused("input " + inputs[i] + ": found null");
                    Describe(given[i], tensors + i);
                    Lay(given[i].Storage, tensors + i);
                }
                for (int i = 0; i < room.Length; ++i) MakeRoom(i, into == null ? null : into[i], queued);
            } catch {
                Dispose();
                throw;
            }
        }

        /// <summary>Type and shape of a tensor that the library reads.</summary>
        internal static void Describe(Tensor tensor, qr_tensor* to) {
            long[] shape = tensor.Dimensions;
            if (shape.Length > Native.QR_MAX_RANK) throw QuarryException.Refused("tensor: found " + tensor + ", expected at most " + Native.QR_MAX_RANK + " dimensions");
            to->dtype = (int)tensor.Type;
            to->rank = (uint)shape.Length;
            for (int d = 0; d < shape.Length; ++d) to->dims[d] = shape[d];
        }

        void Lay(Storage data, qr_tensor* to) {
            PinnedTensor pinned = data.Pin(data.SizeBytes);
            pins.Add(pinned);
            to->data = (void*)pinned.Address;
            to->size_bytes = (ulong)pinned.SizeBytes;
        }

        void MakeRoom(int index, Tensor given, bool queued) {
            TensorInfo info = outputs[index];
            if (given != null) room[index] = given.Storage;
            else if (info.IsStatic) room[index] = Storage.ForResult(info.Type, info.SizeBytes);
            else if (queued)
                throw QuarryException.Refused("output " + info + ": found no room, expected some for a queued run whose shapes are not known before", "give Tensor.Allocate of the largest");
            if (room[index] != null) Lay(room[index], tensors + inputCount + index);
        }

        internal qr_tensor** Inputs {
            get { return pointers; }
        }

        internal ulong InputCount {
            get { return (ulong)inputCount; }
        }

        internal qr_tensor** Outputs {
            get { return pointers + inputCount; }
        }

        internal ulong OutputCount {
            get { return (ulong)room.Length; }
        }

        /// <summary>After the run. What lies in the session's own memory is copied: its next run writes there.</summary>
        internal Tensor[] Results() {
            var made = new Tensor[room.Length];
            for (int i = 0; i < made.Length; ++i) {
                qr_tensor* from = tensors + inputCount + i;
                DataType type = DataTypes.Of(from->dtype);
                made[i] = Tensor.Made(type, Shape(from), room[i] ?? Copied(type, from));
            }
            return made;
        }

        internal static long[] Shape(qr_tensor* of) {
            var shape = new long[of->rank];
            for (int d = 0; d < shape.Length; ++d) shape[d] = of->dims[d];
            return shape;
        }

        static Storage Copied(DataType type, qr_tensor* from) {
            Storage to = Storage.ForResult(type, (long)from->size_bytes);
            if (from->size_bytes > 0)
                using (PinnedTensor pinned = to.Pin(to.SizeBytes)) Buffer.MemoryCopy(from->data, (void*)pinned.Address, pinned.SizeBytes, (long)from->size_bytes);
            return to;
        }

        public void Dispose() {
            foreach (PinnedTensor pinned in pins) pinned.Dispose();
            pins.Clear();
            if (tensors != null) Marshal.FreeHGlobal((IntPtr)tensors);
            tensors = null;
        }
    }
}
