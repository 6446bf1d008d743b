// SPDX-License-Identifier: Apache-2.0
package quarry;

import java.time.Duration;

/** Stops calls that are under way, from another thread or by a timeout. One signal may serve many calls. */
public final class Signal extends NativeObject {
    public Signal() {
        this(QuarryRuntime.shared());
    }

    public Signal(QuarryRuntime runtime) {
        super(SIGNAL, created(runtime));
    }

    private static long created(QuarryRuntime runtime) {
        long handle = runtime.enter();
        try {
            return Native.signalCreate(handle);
        } finally {
            runtime.exit();
        }
    }

    /** The calls that use it end with {@link Code#CANCELLED} as soon as they can, now and until {@link #reset}. */
    public void abort() {
        tell(0, 0);
    }

    /** Takes an abort back. */
    public void reset() {
        tell(1, 0);
    }

    /** Each later call that uses it has this long; null: no limit. */
    public void setTimeout(Duration timeout) {
        if (timeout != null && timeout.isNegative()) throw QuarryException.refused("timeout: found " + timeout + ", expected none below zero", "");
        tell(2, timeout == null ? -1 : timeout.toNanos());
    }

    private void tell(int what, long value) {
        long handle = enter();
        try {
            Native.signalTell(handle, what, value);
        } finally {
            exit();
        }
    }
}
