// SPDX-License-Identifier: Apache-2.0
package android.hardware;

/** What the package uses of Android's class; the tests' own library reads the address, as Android's does. */
public class HardwareBuffer implements AutoCloseable {
    public long address;

    @Override
    public void close() {}
}
