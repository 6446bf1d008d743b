// SPDX-License-Identifier: Apache-2.0
package quarry;

/** The type of a tensor's elements. The numbers are those of ONNX. */
public enum DataType {
    F32(1, 32), U8(2, 8), I8(3, 8), U16(4, 16), I16(5, 16), I32(6, 32), I64(7, 64), BOOL(9, 8), F16(10, 16), F64(11, 64), U32(12, 32), U64(13, 64), BF16(16, 16), F8E4M3FN(17, 8),
    F8E4M3FNUZ(18, 8), F8E5M2(19, 8), F8E5M2FNUZ(20, 8), U4(21, 4), I4(22, 4), F4E2M1(23, 4), F8E8M0(24, 8), U2(25, 2), I2(26, 2),
    /** A type of a library that is newer than this package. */
    UNKNOWN(0, 0);

    final int number;
    private final int bits;

    DataType(int number, int bits) {
        this.number = number;
        this.bits = bits;
    }

    /** Bits of an element; those under 8 are packed, the first element in the low bits. */
    public int bits() {
        return bits;
    }

    /** Bytes of so many elements. */
    public long bytes(long elements) {
        return Math.addExact(Math.multiplyExact(elements, (long) bits), 7) / 8;
    }

    static DataType of(int number) {
        for (DataType type : values())
            if (type.number == number) return type;
        return UNKNOWN;
    }
}
