// SPDX-License-Identifier: Apache-2.0
package quarry;

/** What kind of failure it was: the codes of {@code quarry/types.h}. */
public enum Code {
    INVALID_ARGUMENT(1), FAILED_PRECONDITION(2), NOT_FOUND(3), OUT_OF_RANGE(4), UNSUPPORTED(5), INCOMPATIBLE(6), CORRUPT(7), RESOURCE_EXHAUSTED(8),
    UNAVAILABLE(9), DEADLINE_EXCEEDED(10), CANCELLED(11), PERMISSION_DENIED(12), INTERNAL(13), BUSY(14), DEVICE_LOST(15),
    /** A code of a library that is newer than this package. */
    UNKNOWN(-1);

    private final int number;

    Code(int number) {
        this.number = number;
    }

    static Code of(int number) {
        for (Code code : values())
            if (code.number == number) return code;
        return UNKNOWN;
    }
}
