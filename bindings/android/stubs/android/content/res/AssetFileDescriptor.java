// SPDX-License-Identifier: Apache-2.0
package android.content.res;

import android.os.ParcelFileDescriptor;
import java.io.Closeable;

/** What the package uses of Android's class. */
public abstract class AssetFileDescriptor implements Closeable {
    public abstract ParcelFileDescriptor getParcelFileDescriptor();

    public abstract long getStartOffset();

    public abstract long getLength();
}
