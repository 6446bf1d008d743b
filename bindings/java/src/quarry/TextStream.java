// SPDX-License-Identifier: Apache-2.0
package quarry;

/** Text of tokens that come one by one: {@link Tokenizer#stream}. Half a character is held back, and so is what may be the beginning of a stop text. */
public final class TextStream extends NativeObject {
    private boolean stopped;

    TextStream(long handle) {
        super(TEXT_STREAM, handle);
    }

    /** Takes a token and gives the text that is certain now; it may be empty. */
    public synchronized String push(long token) {
        long handle = enter();
        try {
            boolean[] complete = new boolean[1];
            byte[] text = TokenizerNative.push(handle, token, complete);
            stopped = complete[0];
            return Native.text(text);
        } finally {
            exit();
        }
    }

    /** Whether a stop text is complete; it is no part of the texts, and nothing follows. */
    public synchronized boolean stopped() {
        return stopped;
    }

    /** No token follows: gives what was held back, and begins anew. */
    public synchronized String finish() {
        long handle = enter();
        try {
            stopped = false;
            return Native.text(TokenizerNative.finish(handle));
        } finally {
            exit();
        }
    }
}
