// SPDX-License-Identifier: Apache-2.0
using System;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;

namespace Quarry {
    /// <summary>
    /// Texts to tokens and back, by a model's tokenizer.json. It needs libquarry-tokenizer, which a program may lack. Any thread may call it. It knows no chat templates: a
    /// program writes the roles of its model around its texts itself; special tokens that a text names are found.
    /// </summary>
    public sealed unsafe class Tokenizer : QuarryObject {
        Tokenizer(Handle handle) : base(handle) { }

        internal static void Check(IntPtr error) {
            QuarryException failed = QuarryException.TakeOfTokenizer(error);
            if (failed != null) throw failed;
        }

        /// <summary>Opens a file tokenizer.json.</summary>
        /// <exception cref="QuarryException"><see cref="Code.NotFound"/>, <see cref="Code.Corrupt"/> (QR-T0001), <see cref="Code.PermissionDenied"/>,
        /// <see cref="Code.Unavailable"/> (the file, or libquarry-tokenizer)</exception>
        public static Tokenizer Open(string path) {
            byte[] name = Text.Bytes(path);
            LibraryLoader.LoadBeside("tokenizer", "tokenizer");
            return Opened(name, false);
        }

        /// <summary>Opens what a tokenizer.json holds.</summary>
        /// <exception cref="QuarryException"><see cref="Code.Corrupt"/> (QR-T0001), <see cref="Code.Unavailable"/>: there is no libquarry-tokenizer</exception>
        public static Tokenizer Open(byte[] data) {
            if (data == null) throw new ArgumentNullException("data");
            LibraryLoader.LoadBeside("tokenizer", "tokenizer");
            return Opened(data, true);
        }

        [MethodImpl(MethodImplOptions.NoInlining)]  // Mono looks for a function when it compiles what calls it
        static Tokenizer Opened(byte[] given, bool isContent) {
            IntPtr made;
            fixed (byte* at = given)
                Check(isContent ? NativeTokenizer.qr_tokenizer_open_memory(at, (ulong)given.Length, &made) : NativeTokenizer.qr_tokenizer_open(Text.View(at, given), &made));
            return new Tokenizer(new Handle(made, NativeTokenizer.qr_tokenizer_destroy));
        }

        /// <summary>The number of tokens, those that were added included.</summary>
        public long Vocabulary {
            get {
                using (Held held = Hold()) return (long)NativeTokenizer.qr_tokenizer_vocabulary(held.Pointer);
            }
        }

        /// <summary>A text as tokens. <paramref name="special"/>: with those that the model wants around a text, as "&lt;s&gt;".</summary>
        /// <exception cref="QuarryException"><see cref="Code.InvalidArgument"/></exception>
        public long[] Encode(string text, bool special = true) {
            byte[] words = Text.Bytes(text);
            using (Held held = Hold())
                fixed (byte* at = words) {
                    long* tokens;
                    ulong count;
                    Check(NativeTokenizer.qr_tokenizer_encode(held.Pointer, Text.View(at, words), special ? NativeTokenizer.QR_ENCODE_SPECIAL : 0, &tokens, &count));
                    try {
                        return Generator.Copied(tokens, count);
                    } finally {
                        NativeTokenizer.qr_tokenizer_tokens_destroy(tokens, count);
                    }
                }
        }

        /// <summary>Tokens as a text; those that it does not know are left out. <paramref name="skipSpecial"/>: special ones too.</summary>
        /// <exception cref="QuarryException"><see cref="Code.InvalidArgument"/>: a token under 0</exception>
        public string Decode(long[] tokens, bool skipSpecial = true) {
            if (tokens == null) throw new ArgumentNullException("tokens");
            using (Held held = Hold())
                fixed (long* at = tokens) {
                    byte* text;
                    Check(NativeTokenizer.qr_tokenizer_decode(held.Pointer, at, (ulong)tokens.Length, skipSpecial ? NativeTokenizer.QR_DECODE_SKIP_SPECIAL : 0, &text));
                    try {
                        return Text.Of(text);
                    } finally {
                        NativeTokenizer.qr_tokenizer_text_destroy(text);
                    }
                }
        }

        /// <summary>The number of a token by its own text, "&lt;/s&gt;".</summary>
        /// <exception cref="QuarryException"><see cref="Code.NotFound"/> (QR-T0002): there is none</exception>
        public long Token(string text) {
            byte[] words = Text.Bytes(text);
            using (Held held = Hold())
                fixed (byte* at = words) {
                    long token;
                    Check(NativeTokenizer.qr_tokenizer_token(held.Pointer, Text.View(at, words), &token));
                    return token;
                }
        }

        /// <summary>Tokens one by one, their text as far as it is certain; <paramref name="stops"/>: texts that end it. It may outlive the tokenizer.</summary>
        /// <exception cref="QuarryException"><see cref="Code.InvalidArgument"/>: an empty stop text</exception>
        public TextStream CreateStream(bool skipSpecial = true, params string[] stops) {
            if (stops == null) throw new ArgumentNullException("stops");
            var pins = new GCHandle[stops.Length];
            var views = new qr_string[stops.Length + 1];
            try {
                for (int i = 0; i < stops.Length; ++i) {
                    byte[] words = Text.Bytes(stops[i]);
                    pins[i] = GCHandle.Alloc(words, GCHandleType.Pinned);
                    views[i] = Text.View((byte*)pins[i].AddrOfPinnedObject(), words);
                }
                using (Held held = Hold())
                    fixed (qr_string* at = views) {
                        var options = new qr_text_stream_options {struct_size = (uint)sizeof(qr_text_stream_options), flags = skipSpecial ? NativeTokenizer.QR_DECODE_SKIP_SPECIAL : 0, stops = at,
                            stop_count = (ulong)stops.Length};
                        IntPtr made;
                        Check(NativeTokenizer.qr_text_stream_create(held.Pointer, &options, &made));
                        return new TextStream(new Handle(made, NativeTokenizer.qr_text_stream_destroy));
                    }
            } finally {
                foreach (GCHandle pin in pins)
                    if (pin.IsAllocated) pin.Free();
            }
        }
    }

    /// <summary>Text of tokens that come one by one: <see cref="Tokenizer.CreateStream"/>. Half a character is held back, and so is what may be the beginning of a stop text.</summary>
    public sealed unsafe class TextStream : QuarryObject {
        readonly object one = new object();

        internal TextStream(Handle handle) : base(handle) { }

        /// <summary>Whether a stop text is complete; it is no part of the texts, and nothing follows.</summary>
        public bool Stopped { get; private set; }

        /// <summary>Takes a token and gives the text that is certain now; it may be empty.</summary>
        /// <exception cref="QuarryException"><see cref="Code.InvalidArgument"/>: a token under 0</exception>
        public string Push(long token) {
            lock (one)
                using (Held held = Hold()) {
                    qr_string text;
                    int stopped;
                    Tokenizer.Check(NativeTokenizer.qr_text_stream_push(held.Pointer, token, &text, &stopped));
                    Stopped = stopped != 0;
                    return Text.Of(text);
                }
        }

        /// <summary>No token follows: gives what was held back, and begins anew.</summary>
        public string Finish() {
            lock (one)
                using (Held held = Hold()) {
                    qr_string text;
                    Tokenizer.Check(NativeTokenizer.qr_text_stream_finish(held.Pointer, &text));
                    Stopped = false;
                    return Text.Of(text);
                }
        }
    }
}
