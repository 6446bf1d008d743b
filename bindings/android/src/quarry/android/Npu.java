// SPDX-License-Identifier: Apache-2.0
package quarry.android;

import android.content.Context;
import java.util.HashMap;
import java.util.Map;

/** What the backend htp is to know of an app. */
public final class Npu {
    private Npu() {}

    /** Options for sessions on htp: the app's folder of libraries, which has Qualcomm's (docs/android.md); those that are given stay. */
    public static Map<String, String> options(Context context, Map<String, String> given) {
        String folder = context.getApplicationInfo().nativeLibraryDir;
        Map<String, String> all = new HashMap<>();
        all.put("backend", "htp");
        all.put("htp.library_path", folder);
        all.put("htp.skel_path", folder);
        if (given != null) all.putAll(given);
        return all;
    }
}
