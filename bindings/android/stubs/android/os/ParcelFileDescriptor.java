// SPDX-License-Identifier: Apache-2.0
package android.os;

/** What the package uses of Android's class. */
public abstract class ParcelFileDescriptor {
    public abstract int getFd();
}
