// SPDX-License-Identifier: Apache-2.0
package android.util;

/** What the package uses of Android's class: it is compiled against this where there is no SDK. The device has the real one. */
public final class Log {
    public static final int VERBOSE = 2, DEBUG = 3, INFO = 4, WARN = 5, ERROR = 6;

    private Log() {}

    public static native int println(int priority, String tag, String message);
}
