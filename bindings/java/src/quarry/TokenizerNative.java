// SPDX-License-Identifier: Apache-2.0
package quarry;

/** The functions of jni/tokenizer.c. Whoever calls one but {@link #open} has a tokenizer, and so the library: {@link NativeLibrary#beside}. */
final class TokenizerNative {
    private TokenizerNative() {}

    /** Of a file, or of what one holds where there is no path. */
    static native long open(byte[] path, byte[] data);

    static native void destroy(long tokenizer);

    static native void destroyStream(long stream);

    static native long vocabulary(long tokenizer);

    static native long[] encode(long tokenizer, byte[] text, boolean special);

    static native byte[] decode(long tokenizer, long[] tokens, boolean skipSpecial);

    static native long token(long tokenizer, byte[] text);

    static native long stream(long tokenizer, byte[][] stops, boolean skipSpecial);

    /** The text that is certain now; {@code stopped}, of one element: whether a stop text is complete. */
    static native byte[] push(long stream, long token, boolean[] stopped);

    static native byte[] finish(long stream);
}
