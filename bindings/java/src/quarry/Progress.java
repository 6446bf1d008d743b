// SPDX-License-Identifier: Apache-2.0
package quarry;

/** How far a long call has come, on whichever thread is inside Quarry. */
public interface Progress {
    /**
     * {@code done} of {@code total} steps (total 0: not known), and what it is doing. False stops the call, with {@link Code#CANCELLED}; so does an
     * exception, which the call then throws.
     */
    boolean report(long done, long total, String what);
}
