// SPDX-License-Identifier: Apache-2.0
package quarry;

/** Where log lines go, on whichever thread is inside Quarry. What it throws is dropped. */
public interface LogSink {
    enum Level { ERROR, WARN, INFO, DEBUG, TRACE }

    void write(Level level, String topic, String message);
}
