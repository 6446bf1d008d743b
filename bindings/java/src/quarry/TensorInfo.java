// SPDX-License-Identifier: Apache-2.0
package quarry;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/** What is known of an input or output. */
public final class TensorInfo {
    /** A dimension that is symbolic or known only after the run. */
    public static final long UNKNOWN = -1;

    private final String name;
    private final DataType type;
    private final long[] shape;
    private final String[] dimensionNames;
    private final long sizeBytes, zeroPoint, blockSize;
    private final double scale;
    private final float[] scales;
    private final int[] zeroPoints;
    private final int quantizedAxis;

    private TensorInfo(Object[] row) {
        name = Native.text((byte[]) row[0]);
        int[] numbers = (int[]) row[1];
        type = DataType.of(numbers[0]);
        quantizedAxis = numbers[2] == 0 ? -1 : numbers[1];
        shape = (long[]) row[2];
        byte[][] names = (byte[][]) row[3];
        dimensionNames = new String[shape.length];
        for (int i = 0; i < shape.length; ++i) dimensionNames[i] = i < names.length ? Native.text(names[i]) : "";
        long[] sizes = (long[]) row[4];
        sizeBytes = sizes[0];
        zeroPoint = sizes[1];
        blockSize = sizes[2];
        scale = ((double[]) row[5])[0];
        scales = (float[]) row[6];
        zeroPoints = (int[]) row[7];
    }

    static List<TensorInfo> of(Object[] rows) {
        List<TensorInfo> list = new ArrayList<>();
        for (Object row : rows) list.add(new TensorInfo((Object[]) row));
        return Collections.unmodifiableList(list);
    }

    public String name() {
        return name;
    }

    public DataType type() {
        return type;
    }

    /** With {@link #UNKNOWN} where a dimension is not known. */
    public long[] shape() {
        return shape.clone();
    }

    /** The name of a symbolic dimension ("batch"); empty where it has none. */
    public String dimensionName(int axis) {
        return dimensionNames[axis];
    }

    /** 0 where a dimension is unknown. */
    public long sizeBytes() {
        return sizeBytes;
    }

    /** Of a quantised tensor: a value q means (q - zeroPoint) * scale. 0: it is not quantised; NaN: {@link #scales} hold. */
    public double scale() {
        return scale;
    }

    public long zeroPoint() {
        return zeroPoint;
    }

    /** Per channel or per block; empty: there are none. */
    public float[] scales() {
        return scales.clone();
    }

    public int[] zeroPoints() {
        return zeroPoints.clone();
    }

    /** The axis of {@link #scales}; -1: there are none. */
    public int quantizedAxis() {
        return quantizedAxis;
    }

    /** 0: no blocks. */
    public long blockSize() {
        return blockSize;
    }

    boolean isStatic() {
        for (long dimension : shape)
            if (dimension == UNKNOWN) return false;
        return true;
    }

    /** "x f32[batch,3,224,224]". */
    @Override
    public String toString() {
        StringBuilder text = new StringBuilder(name).append(' ').append(type.name().toLowerCase(java.util.Locale.ROOT)).append('[');
        for (int i = 0; i < shape.length; ++i) {
            if (i > 0) text.append(',');
            text.append(shape[i] != UNKNOWN ? Long.toString(shape[i]) : dimensionNames[i].isEmpty() ? "?" : dimensionNames[i]);
        }
        return text.append(']').toString();
    }
}
