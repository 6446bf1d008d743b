// SPDX-License-Identifier: Apache-2.0
package quarry.android;

import android.hardware.HardwareBuffer;
import quarry.HardwareMemory;
import quarry.Session;

/** Buffers that the camera, a decoder or the GPU wrote, as inputs where they lie. */
public final class HardwareBuffers {
    private HardwareBuffers() {}

    /** To be read by runs: `Image.getHardwareBuffer()`, say, of an ImageReader whose usage has USAGE_CPU_READ_OFTEN. Close the memory before the image. */
    public static HardwareMemory forReading(Session session, HardwareBuffer buffer) {
        return HardwareMemory.lock(session, buffer, true, false);
    }

    /** To be written by runs, for who shows or encodes it afterwards: its usage has USAGE_CPU_READ_OFTEN and USAGE_CPU_WRITE_OFTEN. */
    public static HardwareMemory forWriting(Session session, HardwareBuffer buffer) {
        return HardwareMemory.lock(session, buffer, true, true);
    }
}
