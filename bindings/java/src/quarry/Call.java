// SPDX-License-Identifier: Apache-2.0
package quarry;

import java.util.Map;

/** What goes with a call: a runtime, options that live as long as it, a signal. */
final class Call {
    interface Body<T> {
        T run(long handle, long options, long signal);
    }

    private Call() {}

    /** `signal` and `options` may be null. */
    static <T> T with(long runtime, Map<String, String> options, Signal signal, Body<T> body) {
        long stop = signal == null ? 0 : signal.enter();
        try {
            long settings = Native.options(runtime, options);
            try {
                return body.run(runtime, settings, stop);
            } finally {
                if (settings != 0) Native.destroy(NativeObject.OPTIONS, settings);
            }
        } finally {
            if (signal != null) signal.exit();
        }
    }
}
