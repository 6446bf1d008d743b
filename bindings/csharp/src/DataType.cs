// SPDX-License-Identifier: Apache-2.0
using System;

namespace Quarry {
    /// <summary>The type of a tensor's elements. The numbers are those of ONNX.</summary>
    public enum DataType {
        /// <summary>A type of a library that is newer than this package.</summary>
        Unknown = Native.QR_DTYPE_UNKNOWN,
        /// <summary>float</summary>
        F32 = Native.QR_DTYPE_F32,
        /// <summary>byte</summary>
        U8 = Native.QR_DTYPE_U8,
        /// <summary>sbyte</summary>
        I8 = Native.QR_DTYPE_I8,
        /// <summary>ushort</summary>
        U16 = Native.QR_DTYPE_U16,
        /// <summary>short</summary>
        I16 = Native.QR_DTYPE_I16,
        /// <summary>int</summary>
        I32 = Native.QR_DTYPE_I32,
        /// <summary>long</summary>
        I64 = Native.QR_DTYPE_I64,
        /// <summary>A byte each: 0 or 1.</summary>
        Bool = Native.QR_DTYPE_BOOL,
        /// <summary>Half precision, its bits as ushort.</summary>
        F16 = Native.QR_DTYPE_F16,
        /// <summary>double</summary>
        F64 = Native.QR_DTYPE_F64,
        /// <summary>uint</summary>
        U32 = Native.QR_DTYPE_U32,
        /// <summary>ulong</summary>
        U64 = Native.QR_DTYPE_U64,
        /// <summary>The upper half of a float, its bits as ushort.</summary>
        BF16 = Native.QR_DTYPE_BF16,
        /// <summary>8 bits, 4 of them an exponent.</summary>
        F8E4M3FN = Native.QR_DTYPE_F8E4M3FN,
        /// <summary>8 bits, 4 of them an exponent, without a negative zero.</summary>
        F8E4M3FNUZ = Native.QR_DTYPE_F8E4M3FNUZ,
        /// <summary>8 bits, 5 of them an exponent.</summary>
        F8E5M2 = Native.QR_DTYPE_F8E5M2,
        /// <summary>8 bits, 5 of them an exponent, without a negative zero.</summary>
        F8E5M2FNUZ = Native.QR_DTYPE_F8E5M2FNUZ,
        /// <summary>Two to a byte, the first in the low bits.</summary>
        U4 = Native.QR_DTYPE_U4,
        /// <summary>Two to a byte, the first in the low bits.</summary>
        I4 = Native.QR_DTYPE_I4,
        /// <summary>Two to a byte, the first in the low bits.</summary>
        F4E2M1 = Native.QR_DTYPE_F4E2M1,
        /// <summary>8 bits of exponent: a power of two.</summary>
        F8E8M0 = Native.QR_DTYPE_F8E8M0,
        /// <summary>Four to a byte, the first in the low bits.</summary>
        U2 = Native.QR_DTYPE_U2,
        /// <summary>Four to a byte, the first in the low bits.</summary>
        I2 = Native.QR_DTYPE_I2
    }

    /// <summary>Sizes of data types.</summary>
    public static class DataTypes {
        /// <summary>Bits of an element; those under 8 are packed, the first element in the low bits. 0 of <see cref="DataType.Unknown"/>.</summary>
        public static int Bits(this DataType type) {
            switch (type) {
                case DataType.F64: case DataType.I64: case DataType.U64: return 64;
                case DataType.F32: case DataType.I32: case DataType.U32: return 32;
                case DataType.F16: case DataType.BF16: case DataType.I16: case DataType.U16: return 16;
                case DataType.U4: case DataType.I4: case DataType.F4E2M1: return 4;
                case DataType.U2: case DataType.I2: return 2;
                case DataType.Unknown: return 0;
                default: return 8;
            }
        }

        /// <summary>Bytes of so many elements.</summary>
        /// <exception cref="OverflowException">They are 2^63 or more.</exception>
        public static long Bytes(this DataType type, long elements) {
            int bits = type.Bits();
            return bits >= 8 ? checked(elements * (bits / 8)) : checked(elements * bits + 7) / 8;
        }

        internal static DataType Of(int number) {
            return Enum.IsDefined(typeof(DataType), number) ? (DataType)number : DataType.Unknown;
        }

        /// <summary>"f32", as Quarry's texts have it.</summary>
        internal static string Word(this DataType type) {
            return type.ToString().ToLowerInvariant();
        }
    }
}
