// SPDX-License-Identifier: Apache-2.0
import android.hardware.HardwareBuffer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.Arrays;
import quarry.DataType;
import quarry.HardwareMemory;
import quarry.Model;
import quarry.QuarryException;
import quarry.QuarryRuntime;
import quarry.Session;
import quarry.Tensor;
import quarry.android.HardwareBuffers;

/** Hardware buffers on Linux, by the tests' own libnativewindow. java HardwareTest MODELS [none]      none: there is no such library */
public final class HardwareTest {
    static final int BLOB = 0x21, YUV = 0x23, READS = 3, WRITES = 3 << 4;

    static native long allocate(int format, int width, int height, long usage, int rowAlign, int gap);

    static native void release(long buffer);

    static native ByteBuffer memory(long buffer, int size);

    static native int count(int what);

    private static HardwareBuffer made(int format, int width, int height, long usage, int rowAlign, int gap) {
        HardwareBuffer out = new HardwareBuffer();
        out.address = allocate(format, width, height, usage, rowAlign, gap);
        return out;
    }

    private static void check(boolean holds, String what) {
        if (!holds) throw new AssertionError(what);
    }

    private static void equal(long found, long expected, String what) {
        check(found == expected, what + ": found " + found + ", expected " + expected);
    }

    private interface Call {
        void run();
    }

    private static void refused(String says, Call call) {
        try {
            call.run();
        } catch (QuarryException refused) {
            check(refused.getMessage().contains(says), "found '" + refused.getMessage() + "', expected '" + says + "' in it");
            return;
        }
        throw new AssertionError("nothing was refused, expected '" + says + "'");
    }

    public static void main(String[] arguments) throws Exception {
        Path models = Paths.get(arguments[0]);
        try (QuarryRuntime runtime = new QuarryRuntime.Builder().build(); Model model = runtime.open(models.resolve("digits.qrm").toString()); Session session = model.session()) {
            if (arguments.length > 1) {
                refused("without hardware buffers", () -> HardwareBuffers.forReading(session, new HardwareBuffer()));
                System.out.println("all passed");
                return;
            }
            System.load(System.getProperty("quarry.test.library"));
            byte[] file = Files.readAllBytes(models.resolve("test_images.npy"));
            float[] image = new float[64];
            for (int i = 0; i < 64; ++i) image[i] = (file[128 + i] & 0xff) / 255f;
            float[] expected = session.run(Tensor.of(image, 1, 1, 8, 8))[0].toFloats();
            run(session, image, expected);
            picture(session);
            refuse(session);
        }
        for (int what = 0; what < 3; ++what) equal(count(what), 0, "what is left of " + new String[] {"buffers", "locks", "mistakes"}[what]);
        System.out.println("all passed");
    }

    /** Bytes as an input where they lie, and as an output. */
    private static void run(Session session, float[] image, float[] expected) {
        HardwareBuffer in = made(BLOB, 512, 1, READS, 0, 0), out = made(BLOB, 40, 1, READS | WRITES, 0, 0);
        memory(in.address, 512).order(ByteOrder.nativeOrder()).asFloatBuffer().put(image);
        try (HardwareMemory input = HardwareBuffers.forReading(session, in); HardwareMemory output = HardwareBuffers.forWriting(session, out)) {
            equal(count(1), 2, "locks");
            equal(input.format(), HardwareMemory.BLOB, "format");
            equal(input.bytes().capacity(), 512, "bytes");
            session.run(new Tensor[] {input.tensor(0, DataType.F32, 1, 1, 8, 8)}, new Tensor[] {output.tensor(0, DataType.F32, 1, 10)}, null);
            refused("found 508 bytes", () -> input.tensor(4, DataType.F32, 128));
            refused("offset", () -> input.tensor(513, DataType.U8, 1));
        }
        equal(count(1), 0, "locks of what is closed");
        float[] scores = new float[10];
        memory(out.address, 40).order(ByteOrder.nativeOrder()).asFloatBuffer().get(scores);
        check(Arrays.equals(scores, expected), "found " + Arrays.toString(scores) + ", expected " + Arrays.toString(expected));
        release(in.address);
        release(out.address);
    }

    /** The planes of a picture, with room between its rows and before its colours. */
    private static void picture(Session session) {
        HardwareBuffer picture = made(YUV, 100, 6, READS, 64, 256);
        ByteBuffer written = memory(picture.address, 128 * 9 + 256);
        for (int y = 0; y < 6; ++y)
            for (int x = 0; x < 100; ++x) written.put(y * 128 + x, (byte) (10 * y + x));
        for (int at = 0; at < 3 * 128; ++at) written.put(6 * 128 + 256 + at, (byte) (at % 2 == 0 ? 200 : 100));
        try (HardwareMemory memory = HardwareBuffers.forReading(session, picture)) {
            equal(memory.width(), 100, "width");
            equal(memory.height(), 6, "height");
            equal(memory.planes(), 3, "planes");
            equal(memory.rowBytes(0), 128, "bytes of a row");
            equal(memory.pixelBytes(0), 1, "bytes of a pixel");
            equal(memory.pixelBytes(1), 2, "bytes of a colour");
            equal(memory.plane(0).get(5 * memory.rowBytes(0) + 99) & 0xff, 149, "the last pixel");
            equal(memory.plane(1).get(2 * memory.rowBytes(1) + 49 * 2) & 0xff, 200, "the last Cb");
            equal(memory.plane(2).get(2 * memory.rowBytes(2) + 49 * 2) & 0xff, 100, "the last Cr");
            refused("plane", () -> memory.plane(3));
        }
        release(picture.address);
    }

    private static void refuse(Session session) {
        HardwareBuffer unread = made(BLOB, 64, 1, 1 << 8, 0, 0);
        refused("usage 0x100", () -> HardwareBuffers.forReading(session, unread));
        refused("null", () -> HardwareBuffers.forReading(session, null));
        refused("neither", () -> HardwareMemory.lock(session, unread, false, false));
        release(unread.address);
        // What nobody closes is unlocked with the garbage.
        HardwareBuffer left = made(BLOB, 64, 1, READS, 0, 0);
        HardwareBuffers.forReading(session, left);
        for (int i = 0; i < 100 && count(1) > 0; ++i) {
            System.gc();
            try {
                Thread.sleep(20);
            } catch (InterruptedException stopped) {
                return;
            }
        }
        release(left.address);
    }
}
