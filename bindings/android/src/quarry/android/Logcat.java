// SPDX-License-Identifier: Apache-2.0
package quarry.android;

import android.util.Log;
import quarry.LogSink;

/** The system's log: {@code new QuarryRuntime.Builder().log(new Logcat(), LogSink.Level.INFO)}; {@code adb logcat -s quarry} shows it. */
public final class Logcat implements LogSink {
    private final String tag;

    public Logcat() {
        this("quarry");
    }

    public Logcat(String tag) {
        this.tag = tag;
    }

    @Override
    public void write(Level level, String topic, String message) {
        Log.println(priority(level), tag, topic + ": " + message);
    }

    private static int priority(Level level) {
        switch (level) {
            case ERROR: return Log.ERROR;
            case WARN: return Log.WARN;
            case INFO: return Log.INFO;
            case DEBUG: return Log.DEBUG;
            default: return Log.VERBOSE;
        }
    }
}
