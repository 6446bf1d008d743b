// SPDX-License-Identifier: Apache-2.0
package quarry;

/**
 * Texts to tokens and back, by a model's {@code tokenizer.json}. It needs libquarry-tokenizer, which an app may lack: {@link Code#UNAVAILABLE} says so. Any thread may call it.
 * It knows no chat templates: a program writes the roles of its model around its texts itself; special tokens that a text names are found.
 */
public final class Tokenizer extends NativeObject {
    private Tokenizer(long handle) {
        super(TOKENIZER, handle);
    }

    /** Of a file tokenizer.json. */
    public static Tokenizer open(String path) {
        return made(Native.bytes(path), null);
    }

    /** Of what a tokenizer.json holds. */
    public static Tokenizer open(byte[] data) {
        return made(null, data.clone());
    }

    private static Tokenizer made(byte[] path, byte[] data) {
        NativeLibrary.beside("tokenizer", "tokenizer");
        return new Tokenizer(TokenizerNative.open(path, data));
    }

    /** The number of tokens, those that were added included. */
    public long vocabulary() {
        long handle = enter();
        try {
            return TokenizerNative.vocabulary(handle);
        } finally {
            exit();
        }
    }

    /** A text as tokens. {@code special}: with those that the model wants around a text, as "&lt;s&gt;". */
    public long[] encode(String text, boolean special) {
        long handle = enter();
        try {
            return TokenizerNative.encode(handle, Native.bytes(text), special);
        } finally {
            exit();
        }
    }

    /** Tokens as a text; those that it does not know are left out. {@code skipSpecial}: special ones too. */
    public String decode(long[] tokens, boolean skipSpecial) {
        long handle = enter();
        try {
            return Native.text(TokenizerNative.decode(handle, tokens, skipSpecial));
        } finally {
            exit();
        }
    }

    /** The number of a token by its own text, "&lt;/s&gt;". {@link Code#NOT_FOUND} (QR-T0002): there is none. */
    public long token(String text) {
        long handle = enter();
        try {
            return TokenizerNative.token(handle, Native.bytes(text));
        } finally {
            exit();
        }
    }

    /** Tokens one by one, their text as far as it is certain; {@code stops}: texts that end it. It may outlive the tokenizer. */
    public TextStream stream(boolean skipSpecial, String... stops) {
        byte[][] texts = new byte[stops.length][];
        for (int i = 0; i < stops.length; ++i) texts[i] = Native.bytes(stops[i]);
        long handle = enter();
        try {
            return new TextStream(TokenizerNative.stream(handle, texts, skipSpecial));
        } finally {
            exit();
        }
    }
}
