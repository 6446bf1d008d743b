// SPDX-License-Identifier: Apache-2.0
package quarry.android;

import android.content.res.AssetFileDescriptor;
import android.content.res.AssetManager;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.Map;
import quarry.Model;
import quarry.Progress;
import quarry.QuarryRuntime;
import quarry.Signal;

/** Models in an app's package, where they lie: nothing is copied to a file first. */
public final class Assets {
    private Assets() {}

    /** Opens `name` of the folder assets. The last three arguments may be null. */
    public static Model open(QuarryRuntime runtime, AssetManager assets, String name, Map<String, String> options, Signal signal, Progress progress) throws IOException {
        try (AssetFileDescriptor found = descriptor(assets, name)) {
            if (found.getLength() <= 0) throw new IOException("asset '" + name + "': found " + found.getLength() + " bytes, expected a model");
            return runtime.open(found.getParcelFileDescriptor().getFd(), found.getStartOffset(), found.getLength(), options, signal, progress);
        }
    }

    public static Model open(QuarryRuntime runtime, AssetManager assets, String name) throws IOException {
        return open(runtime, assets, name, null, null, null);
    }

    private static AssetFileDescriptor descriptor(AssetManager assets, String name) throws IOException {
        try {
            return assets.openFd(name);
        } catch (FileNotFoundException failed) {
            try {
                assets.open(name).close();  // one that is not there fails once more
            } catch (FileNotFoundException none) {
                throw new FileNotFoundException("asset '" + name + "': there is none of that name in the package, expected it in src/main/assets");
            }
            String ending = name.substring(name.lastIndexOf('.') + 1);
            throw new FileNotFoundException("asset '" + name + "': found it compressed in the package, expected it stored as it is, to be read where it lies. In the module's Gradle file: "
                + "android { androidResources { noCompress += \"" + ending + "\" } }");
        }
    }
}
