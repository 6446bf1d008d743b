// SPDX-License-Identifier: Apache-2.0
package android.content.res;

import java.io.IOException;
import java.io.InputStream;

/** What the package uses of Android's class. */
public abstract class AssetManager {
    /** Of an entry that is stored as it is; FileNotFoundException for one that is compressed, and for one that is not there. */
    public abstract AssetFileDescriptor openFd(String name) throws IOException;

    public abstract InputStream open(String name) throws IOException;
}
