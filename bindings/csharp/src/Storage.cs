// SPDX-License-Identifier: Apache-2.0
using System;
using System.Runtime.InteropServices;

namespace Quarry {
    /// <summary>Where the data of a tensor are: in an array, in memory of this package's, or at an address of the caller's.</summary>
    internal sealed class Storage {
        const long MostBytes = 0x7fffffc7;  // of an array of bytes; one of wider elements has more

        internal readonly Array Array;
        readonly NativeRoom room;
        readonly IntPtr address;

        internal readonly long SizeBytes;

        internal Storage(Array array) {
            Array = array;
            SizeBytes = array.LongLength * Marshal.SizeOf(array.GetType().GetElementType());  // Buffer.ByteLength ends at 2 GB
        }

        internal Storage(NativeRoom room, long bytes) {
            this.room = room;
            SizeBytes = bytes;
        }

        internal Storage(IntPtr address, long bytes) {
            this.address = address;
            SizeBytes = bytes;
        }

        /// <summary>For a result: an array of what the type is in C#, so that it is collected as any other; what is too long for one lies outside.</summary>
        internal static Storage ForResult(DataType type, long bytes) {
            if (bytes > MostBytes) return new Storage(new NativeRoom(bytes), bytes);
            int size = Math.Max(type.Bits() / 8, 1), count = (int)(bytes / size);
            switch (type) {
                case DataType.F32: return new Storage(new float[count]);
                case DataType.F64: return new Storage(new double[count]);
                case DataType.I32: return new Storage(new int[count]);
                case DataType.U32: return new Storage(new uint[count]);
                case DataType.I64: return new Storage(new long[count]);
                case DataType.U64: return new Storage(new ulong[count]);
                case DataType.I16: return new Storage(new short[count]);
                case DataType.I8: return new Storage(new sbyte[count]);
                default: return size == 2 ? new Storage(new ushort[count]) : new Storage(new byte[bytes]);
            }
        }

        /// <summary>`bytes`: what the result says of itself.</summary>
        internal PinnedTensor Pin(long bytes) {
            if (Array != null) return new PinnedTensor(GCHandle.Alloc(Array, GCHandleType.Pinned), bytes);
            return room != null ? new PinnedTensor(room, bytes) : new PinnedTensor(address, bytes);
        }

        internal void Dispose() {
            if (room != null) room.Dispose();
        }
    }

    /// <summary>The address of a tensor's data; they stay there until it is disposed of.</summary>
    public sealed class PinnedTensor : IDisposable {
        GCHandle array;
        Held room;

        internal PinnedTensor(GCHandle array, long bytes) {
            this.array = array;
            Address = array.AddrOfPinnedObject();
            SizeBytes = bytes;
        }

        internal PinnedTensor(NativeRoom room, long bytes) {
            this.room = new Held(room, "Tensor");
            Address = room.Address;
            SizeBytes = bytes;
        }

        internal PinnedTensor(IntPtr address, long bytes) {
            Address = address;
            SizeBytes = bytes;
        }

        /// <summary>Of the first element.</summary>
        public IntPtr Address { get; }

        /// <summary>The bytes that are the tensor's from there on.</summary>
        public long SizeBytes { get; }

        /// <summary>Lets the collector move them again.</summary>
        public void Dispose() {
            if (array.IsAllocated) array.Free();
            room.Dispose();
            room = default(Held);
        }
    }
}
