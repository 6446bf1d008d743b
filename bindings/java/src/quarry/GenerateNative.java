// SPDX-License-Identifier: Apache-2.0
package quarry;

/** The functions of jni/generate.c. Whoever calls one has a generator, and so the library: {@link NativeLibrary#beside}. */
final class GenerateNative {
    private GenerateNative() {}

    /** reals: temperature, top_p, min_p, repetition_penalty; numbers: top_k, repetition_window, seed, max_new_tokens, prompt_chunk. */
    static native long create(long session, float[] reals, long[] numbers, long[] stopTokens, byte[] names, long signal);

    static native void destroy(long generator);

    static native void prompt(long generator, long[] tokens, long signal);

    /** The token, and why tokens end. */
    static native long[] step(long generator, long signal);

    /** How many tokens, and why they ended. */
    static native long[] run(long generator, TokenSink sink, long signal);

    static native float[] logits(long generator, long signal);

    static native void accept(long generator, long token);

    static native void rewind(long generator, long length);

    /** run, reused, capacity, vocabulary, then the tokens. */
    static native long[] sequence(long generator);

    static native long state(long generator);

    static native void restore(long generator, long[] tokens);
}
