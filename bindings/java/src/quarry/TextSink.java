// SPDX-License-Identifier: Apache-2.0
package quarry;

/** Gets the text of a run piece by piece, as far as it is certain, on the thread of the call. It calls nothing of the generator. */
public interface TextSink {
    /** False ends the run ({@link Generator.End#CALLBACK}); so does an exception, which the run then throws. */
    boolean text(String piece);
}
