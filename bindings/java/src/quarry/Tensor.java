// SPDX-License-Identifier: Apache-2.0
package quarry;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.DoubleBuffer;
import java.nio.FloatBuffer;
import java.nio.IntBuffer;
import java.nio.LongBuffer;
import java.nio.ShortBuffer;
import java.util.Arrays;

/** A tensor in memory outside of Java's heap, where the library reads and writes it: dense, row by row. */
public final class Tensor {
    private final DataType type;
    private final long[] shape;
    final ByteBuffer data;  // from 0 to its end

    private Tensor(DataType type, long[] shape, ByteBuffer data) {
        this.type = type;
        this.shape = shape;
        this.data = data;
    }

    /** With zeros. */
    public static Tensor allocate(DataType type, long... shape) {
        return new Tensor(type, shape.clone(), room(bytesOf(type, shape)));
    }

    /**
     * What lies in a direct buffer, from its position to its limit, and is not copied: what is put there later is seen by later runs. A buffer of more than one
     * byte a number is read in the machine's order.
     */
    public static Tensor of(ByteBuffer data, DataType type, long... shape) {
        if (!data.isDirect())
            throw QuarryException.refused("data: found a buffer on Java's heap, expected a direct one", "ByteBuffer.allocateDirect makes one; arrays are copied by of(float[], ...)");
        long bytes = bytesOf(type, shape);
        if (data.remaining() < bytes)
            throw QuarryException.refused("data: found " + data.remaining() + " bytes, expected " + bytes + " for " + describe(type, shape), "");
        ByteBuffer view = data.slice();
        view.limit((int) bytes);
        return new Tensor(type, shape.clone(), view.slice().order(ByteOrder.nativeOrder()));
    }

    public static Tensor of(float[] values, long... shape) {
        Tensor made = sized(DataType.F32, values.length, shape);
        made.data.asFloatBuffer().put(values);
        return made;
    }

    public static Tensor of(double[] values, long... shape) {
        Tensor made = sized(DataType.F64, values.length, shape);
        made.data.asDoubleBuffer().put(values);
        return made;
    }

    public static Tensor of(int[] values, long... shape) {
        Tensor made = sized(DataType.I32, values.length, shape);
        made.data.asIntBuffer().put(values);
        return made;
    }

    public static Tensor of(long[] values, long... shape) {
        Tensor made = sized(DataType.I64, values.length, shape);
        made.data.asLongBuffer().put(values);
        return made;
    }

    /** Bits of 16-bit elements: I16, U16, F16 or BF16. */
    public static Tensor of(short[] values, DataType type, long... shape) {
        if (type.bits() != 16) throw QuarryException.refused("type: found " + type + ", expected one of 16 bits for short[]", "");
        Tensor made = sized(type, values.length, shape);
        made.data.asShortBuffer().put(values);
        return made;
    }

    /** Bytes of elements of any type: I8, U8 and BOOL have one each. */
    public static Tensor of(byte[] values, DataType type, long... shape) {
        long bytes = bytesOf(type, shape);
        if (values.length != bytes) throw QuarryException.refused("data: found " + values.length + " bytes, expected " + bytes + " for " + describe(type, shape), "");
        Tensor made = new Tensor(type, shape.clone(), room(bytes));
        made.data.duplicate().put(values);
        return made;
    }

    public static Tensor of(boolean[] values, long... shape) {
        Tensor made = sized(DataType.BOOL, values.length, shape);
        for (int i = 0; i < values.length; ++i) made.data.put(i, (byte) (values[i] ? 1 : 0));
        return made;
    }

    private static Tensor sized(DataType type, int found, long[] shape) {
        long wanted = elements(shape);
        if (found != wanted) throw QuarryException.refused("data: found " + found + " elements, expected " + wanted + " for " + describe(type, shape), "");
        return new Tensor(type, shape.clone(), room(type.bytes(wanted)));
    }

    /** As a run made it: of those bytes, with that shape. */
    static Tensor made(DataType type, long[] shape, ByteBuffer data) {
        ByteBuffer view = data.duplicate();
        view.position(0);
        view.limit((int) type.bytes(elements(shape)));
        return new Tensor(type, shape, view.slice().order(ByteOrder.nativeOrder()));
    }

    static ByteBuffer room(long bytes) {
        if (bytes > Integer.MAX_VALUE) throw QuarryException.refused("tensor: found " + bytes + " bytes, expected at most " + Integer.MAX_VALUE + ", which is what a buffer of Java's has", "");
        return ByteBuffer.allocateDirect((int) bytes).order(ByteOrder.nativeOrder());
    }

    static long elements(long[] shape) {
        long count = 1;
        for (long dimension : shape) {
            if (dimension < 0) throw QuarryException.refused("shape: found " + Arrays.toString(shape) + ", expected dimensions of 0 or more", "");
            try {
                count = Math.multiplyExact(count, dimension);
            } catch (ArithmeticException tooLarge) {
                throw QuarryException.refused("shape: found " + Arrays.toString(shape) + ", expected a number of elements below 2^63", "");
            }
        }
        return count;
    }

    private static long bytesOf(DataType type, long[] shape) {
        try {
            return type.bytes(elements(shape));
        } catch (ArithmeticException tooLarge) {
            throw QuarryException.refused("shape: found " + Arrays.toString(shape) + ", expected a number of bytes below 2^63", "");
        }
    }

    private static String describe(DataType type, long[] shape) {
        return type.name().toLowerCase(java.util.Locale.ROOT) + Arrays.toString(shape).replace(" ", "");
    }

    public DataType type() {
        return type;
    }

    public long[] shape() {
        return shape.clone();
    }

    long[] dimensions() {
        return shape;
    }

    public long elementCount() {
        return elements(shape);
    }

    /** Its bytes, in place. */
    public ByteBuffer bytes() {
        ByteBuffer view = data.duplicate();
        return ((ByteBuffer) view.position(0)).order(ByteOrder.nativeOrder());
    }

    public FloatBuffer floats() {
        want(DataType.F32);
        return bytes().asFloatBuffer();
    }

    public DoubleBuffer doubles() {
        want(DataType.F64);
        return bytes().asDoubleBuffer();
    }

    public IntBuffer ints() {
        want(DataType.I32, DataType.U32);
        return bytes().asIntBuffer();
    }

    public LongBuffer longs() {
        want(DataType.I64, DataType.U64);
        return bytes().asLongBuffer();
    }

    public ShortBuffer shorts() {
        want(DataType.I16, DataType.U16, DataType.F16, DataType.BF16);
        return bytes().asShortBuffer();
    }

    public float[] toFloats() {
        FloatBuffer from = floats();
        float[] to = new float[from.remaining()];
        from.get(to);
        return to;
    }

    public int[] toInts() {
        IntBuffer from = ints();
        int[] to = new int[from.remaining()];
        from.get(to);
        return to;
    }

    public long[] toLongs() {
        LongBuffer from = longs();
        long[] to = new long[from.remaining()];
        from.get(to);
        return to;
    }

    private void want(DataType... wanted) {
        if (!Arrays.asList(wanted).contains(type))
            throw QuarryException.refused("tensor: found " + type + ", expected " + Arrays.toString(wanted).replaceAll("[\\[\\]]", "").replace(", ", " or "), "bytes() has the elements of every type");
    }

    /** "f32[1,10]". */
    @Override
    public String toString() {
        return describe(type, shape);
    }
}
