// SPDX-License-Identifier: Apache-2.0
package quarry;

/** Gets each token of a {@link Generator#run} as it is picked, but for a stop token, on the thread of the call. It calls nothing of the generator. */
public interface TokenSink {
    /** False ends the run ({@link Generator.End#CALLBACK}); so does an exception, which the run then throws. */
    boolean token(long token);
}
