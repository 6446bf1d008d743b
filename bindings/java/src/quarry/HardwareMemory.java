// SPDX-License-Identifier: Apache-2.0
package quarry;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * A buffer of Android's (a picture of the camera, of a decoder or the GPU, or bytes), locked for the processor from {@link #lock} to {@link #close}, where it lies: nothing is
 * copied. Close it before the producer gets the buffer back, and when the runs that read it have ended: its memory, tensors on it too, must not be touched from then on.
 */
public final class HardwareMemory extends NativeObject {
    /** One of AHARDWAREBUFFER_FORMAT_* that has no pixels. */
    public static final int BLOB = 0x21;
    private static final int HEAD = 4;

    private final ByteBuffer data;
    private final long[] layout;  // format, width, height, planes; of each plane: offset, bytes of a row, bytes of a pixel

    private HardwareMemory(long handle, ByteBuffer data, long[] layout) {
        super(MEMORY, handle);
        this.data = data;
        this.layout = layout;
    }

    /**
     * For runs on the device of a session. {@code buffer} is an {@code android.hardware.HardwareBuffer} whose producer has written it (a fence of its Image was waited for),
     * and whose usage has CPU_READ for {@code reads}, CPU_WRITE for {@code writes}. It may be closed before this memory is.
     */
    public static HardwareMemory lock(Session session, Object buffer, boolean reads, boolean writes) {
        if (buffer == null) throw QuarryException.refused("buffer: found null, expected a HardwareBuffer", "");
        if (!reads && !writes) throw QuarryException.refused("access: found neither reads nor writes, expected one of them", "");
        long device = session.enter();
        try {
            long[] layout = new long[HEAD + 9];
            long handle = Native.memoryImport(device, buffer, (reads ? 1 : 0) | (writes ? 2 : 0), layout);
            if (handle == 0)
                throw QuarryException.refused("buffer: found a system without hardware buffers, expected Android, API 29", "give the data as a direct buffer: Tensor.of(buffer, type, shape)");
            return new HardwareMemory(handle, Native.memoryData(handle).order(ByteOrder.nativeOrder()), layout);
        } finally {
            session.exit();
        }
    }

    /** Number of the format, as Android has it. */
    public int format() {
        return (int) layout[0];
    }

    public int width() {
        return (int) layout[1];
    }

    public int height() {
        return (int) layout[2];
    }

    /** 1, or 3: Y, Cb, Cr, the last two of half the width and height. */
    public int planes() {
        return (int) layout[3];
    }

    /** All of it: bytes, or the planes with what lies between them. */
    public ByteBuffer bytes() {
        return data.duplicate().order(ByteOrder.nativeOrder());
    }

    /** What begins at a plane; its rows lie {@link #rowBytes} apart, its pixels {@link #pixelBytes}. */
    public ByteBuffer plane(int number) {
        ByteBuffer view = data.duplicate();
        view.position((int) of(number, 0));
        return view.slice().order(ByteOrder.nativeOrder());
    }

    public int rowBytes(int plane) {
        return (int) of(plane, 1);
    }

    /** 2 of Cb and Cr where they are interleaved (NV12, NV21). */
    public int pixelBytes(int plane) {
        return (int) of(plane, 2);
    }

    /** What lies there from a byte on as a tensor, where it is dense: whole rows without room between them. */
    public Tensor tensor(int offset, DataType type, long... shape) {
        if (offset < 0 || offset > data.capacity()) throw QuarryException.refused("offset: found " + offset + ", expected at most " + data.capacity(), "");
        ByteBuffer view = bytes();
        view.position(offset);
        return Tensor.of(view, type, shape);
    }

    private long of(int plane, int what) {
        if (plane < 0 || plane >= planes()) throw QuarryException.refused("plane: found " + plane + ", expected one of " + planes(), "");
        return layout[HEAD + 3 * plane + what];
    }
}
