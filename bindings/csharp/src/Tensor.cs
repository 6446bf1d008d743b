// SPDX-License-Identifier: Apache-2.0
using System;

namespace Quarry {
    /// <summary>
    /// A type, a shape and data: dense, row by row. The data lie in an array of the program's, which the library reads and writes in place (it is pinned for the call), or in
    /// memory that is not the collector's.
    /// </summary>
    public sealed partial class Tensor : IDisposable {
        readonly Storage storage;
        readonly long[] shape;

        Tensor(DataType type, long[] shape, Storage storage) {
            Type = type;
            this.shape = shape;
            this.storage = storage;
        }

        /// <summary>The type of its elements.</summary>
        public DataType Type { get; }

        /// <summary>A copy of its dimensions.</summary>
        public long[] Shape {
            get { return (long[])shape.Clone(); }
        }

        /// <summary>The number of its elements.</summary>
        public long ElementCount {
            get { return Elements(shape); }
        }

        /// <summary>The bytes of its elements.</summary>
        public long SizeBytes {
            get { return Type.Bytes(ElementCount); }
        }

        internal long[] Dimensions {
            get { return shape; }
        }

        internal Storage Storage {
            get { return storage; }
        }

        /// <summary>Zeros in memory that is not the collector's, aligned to 64 bytes: of any size, and quick to read for every kernel. Freed by <see cref="Dispose"/>, or with the garbage.</summary>
        /// <exception cref="QuarryException"><see cref="Code.InvalidArgument"/>: the shape is none.</exception>
        /// <exception cref="OutOfMemoryException">There is not so much.</exception>
        public static Tensor Allocate(DataType type, params long[] shape) {
            return new Tensor(type, Copy(shape), Room(BytesOf(type, shape)));
        }

        /// <summary>What lies at an address, and is not copied: it must stay there as long as the tensor is used, and what is written there later is seen by later runs.</summary>
        /// <exception cref="QuarryException"><see cref="Code.InvalidArgument"/>: there are too few bytes for the shape.</exception>
        public static Tensor Of(IntPtr data, long sizeBytes, DataType type, params long[] shape) {
            long bytes = BytesOf(type, shape);
            if (sizeBytes < bytes) throw TooSmall(sizeBytes + " bytes", bytes + " bytes", type, shape);
            return new Tensor(type, Copy(shape), new Storage(data, sizeBytes));
        }

        /// <summary>An array, in place: what is written there later is seen by later runs.</summary>
        /// <exception cref="QuarryException"><see cref="Code.InvalidArgument"/>: it has not as many elements as the shape.</exception>
        public static Tensor Of(float[] values, params long[] shape) {
            return Over(values, DataType.F32, shape);
        }

        /// <inheritdoc cref="Of(float[], long[])"/>
        public static Tensor Of(double[] values, params long[] shape) {
            return Over(values, DataType.F64, shape);
        }

        /// <inheritdoc cref="Of(float[], long[])"/>
        public static Tensor Of(int[] values, params long[] shape) {
            return Over(values, DataType.I32, shape);
        }

        /// <inheritdoc cref="Of(float[], long[])"/>
        public static Tensor Of(uint[] values, params long[] shape) {
            return Over(values, DataType.U32, shape);
        }

        /// <inheritdoc cref="Of(float[], long[])"/>
        public static Tensor Of(long[] values, params long[] shape) {
            return Over(values, DataType.I64, shape);
        }

        /// <inheritdoc cref="Of(float[], long[])"/>
        public static Tensor Of(ulong[] values, params long[] shape) {
            return Over(values, DataType.U64, shape);
        }

        /// <inheritdoc cref="Of(float[], long[])"/>
        public static Tensor Of(short[] values, params long[] shape) {
            return Over(values, DataType.I16, shape);
        }

        /// <inheritdoc cref="Of(float[], long[])"/>
        public static Tensor Of(sbyte[] values, params long[] shape) {
            return Over(values, DataType.I8, shape);
        }

        /// <summary>An array, in place: numbers of <see cref="DataType.U16"/>, or the bits of <see cref="DataType.F16"/> and <see cref="DataType.BF16"/>.</summary>
        /// <exception cref="QuarryException"><see cref="Code.InvalidArgument"/>: the type has not 16 bits, or the array not as many elements as the shape.</exception>
        public static Tensor Of(ushort[] values, DataType type, params long[] shape) {
            if (type.Bits() != 16) throw QuarryException.Refused("type: found " + type.Word() + ", expected one of 16 bits for ushort[]");
            return Over(values, type, shape);
        }

        /// <summary>An array, in place: the bytes of elements of any type, those of less than 8 bits packed, the first in the low bits.</summary>
        /// <exception cref="QuarryException"><see cref="Code.InvalidArgument"/>: it has not as many bytes as the shape.</exception>
        public static Tensor Of(byte[] values, DataType type, params long[] shape) {
            if (values == null) throw new ArgumentNullException("values");
            long bytes = BytesOf(type, shape);
            if (values.Length != bytes) throw TooSmall(values.Length + " bytes", bytes + " bytes", type, shape);
            return new Tensor(type, Copy(shape), new Storage(values));
        }

        /// <summary>A copy of an array, a byte each.</summary>
        /// <exception cref="QuarryException"><see cref="Code.InvalidArgument"/>: it has not as many elements as the shape.</exception>
        public static Tensor Of(bool[] values, params long[] shape) {
            if (values == null) throw new ArgumentNullException("values");
            var bytes = new byte[values.Length];
            for (int i = 0; i < bytes.Length; ++i) bytes[i] = (byte)(values[i] ? 1 : 0);
            return Over(bytes, DataType.Bool, shape);
        }

        static Storage Room(long bytes) {
            return new Storage(new NativeRoom(bytes), bytes);
        }

        static Tensor Over(Array values, DataType type, long[] shape) {
            if (values == null) throw new ArgumentNullException("values");
            if (values.Length != Elements(shape)) throw TooSmall(values.Length + " elements", Elements(shape) + "", type, shape);
            return new Tensor(type, Copy(shape), new Storage(values));
        }

        /// <summary>As a run made it.</summary>
        internal static Tensor Made(DataType type, long[] shape, Storage storage) {
            return new Tensor(type, shape, storage);
        }

        static QuarryException TooSmall(string found, string expected, DataType type, long[] shape) {
            return QuarryException.Refused("data: found " + found + ", expected " + expected + " for " + Describe(type, shape));
        }

        static long[] Copy(long[] shape) {
            return (long[])shape.Clone();
        }

        static long Elements(long[] shape) {
            if (shape == null) throw new ArgumentNullException("shape");
            long count = 1;
            foreach (long dimension in shape) {
                if (dimension < 0) throw QuarryException.Refused("shape: found " + Dims(shape) + ", expected dimensions of 0 or more");
                try {
                    count = checked(count * dimension);
                } catch (OverflowException) {
                    throw QuarryException.Refused("shape: found " + Dims(shape) + ", expected a number of elements below 2^63");
                }
            }
            return count;
        }

        internal static long BytesOf(DataType type, long[] shape) {
            try {
                return type.Bytes(Elements(shape));
            } catch (OverflowException) {
                throw QuarryException.Refused("shape: found " + Dims(shape) + ", expected a number of bytes below 2^63");
            }
        }

        static string Dims(long[] shape) {
            return "[" + string.Join(",", shape) + "]";
        }

        static string Describe(DataType type, long[] shape) {
            return type.Word() + Dims(shape);
        }

        /// <summary>Frees memory that is not the collector's. A run that uses it ends first; of an array nothing happens.</summary>
        public void Dispose() {
            storage.Dispose();
        }

        /// <summary>"f32[1,10]".</summary>
        public override string ToString() {
            return Describe(Type, shape);
        }
    }
}
