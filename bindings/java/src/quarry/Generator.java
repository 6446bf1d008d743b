// SPDX-License-Identifier: Apache-2.0
package quarry;

import java.util.Arrays;

/**
 * A sequence of tokens, and a session that goes on with it: {@link Session#generator}. Calls of several threads take turns; it may be closed at any time, also while a call is
 * inside. A {@link Signal} stops any call; its timeout is of all runs of the call together.
 */
public final class Generator extends NativeObject {
    /** How tokens are picked and when they end. As made: the most probable token, until the state is full. */
    public static final class Options {
        private final float[] reals = new float[4];
        private final long[] numbers = new long[5];
        private long[] stopTokens = {};
        private String[] stopTexts = {};
        private String names = "";

        /** Logits are divided by it; 0: the largest is taken, and none is drawn. */
        public Options temperature(float value) {
            reals[0] = value;
            return this;
        }

        /** Keeps the most probable until their sum is at least this; 0 and 1: all. */
        public Options topP(float value) {
            reals[1] = value;
            return this;
        }

        /** Keeps what is at least so probable as this times the most probable; 0: all. */
        public Options minP(float value) {
            reals[2] = value;
            return this;
        }

        /** Of tokens that were there: logits over 0 are divided by it, others multiplied; 0 and 1: none. */
        public Options repetitionPenalty(float value) {
            reals[3] = value;
            return this;
        }

        /** Keeps the so many largest; 0: all. */
        public Options topK(int value) {
            return number(0, "topK", value);
        }

        /** The penalty is of how many of the last tokens; 0: of all. */
        public Options repetitionWindow(long value) {
            return number(1, "repetitionWindow", value);
        }

        /** The same seed draws the same tokens of the same logits, on every machine. */
        public Options seed(long value) {
            numbers[2] = value;
            return this;
        }

        /** Of a {@link Generator#run}; 0: until something else ends it. */
        public Options maxNewTokens(long value) {
            return number(3, "maxNewTokens", value);
        }

        /** So many tokens of a prompt are one run: logits of all of them take memory; 0: 256. */
        public Options promptChunk(long value) {
            return number(4, "promptChunk", value);
        }

        /** The tokens at which a model ends. */
        public Options stopTokens(long... tokens) {
            stopTokens = tokens.clone();
            return this;
        }

        /** Texts that end a run with a {@link Tokenizer}; they are no part of its text. */
        public Options stopTexts(String... texts) {
            stopTexts = texts.clone();
            return this;
        }

        /** Where the model's names are others: "input_ids=tokens,logits=scores". */
        public Options names(String value) {
            names = value;
            return this;
        }

        private Options number(int at, String name, long value) {
            if (value < 0) throw QuarryException.refused(name + ": found " + value + ", expected 0 or more", "");
            numbers[at] = value;
            return this;
        }
    }

    /** Why tokens end. */
    public enum End {
        /** They do not: the next step gives another. */
        NONE,
        /** A stop token was picked: it is the last of the sequence. */
        STOP_TOKEN,
        /** As many as were wanted. */
        LENGTH,
        /** The state is full (option "state.capacity"). */
        CAPACITY,
        /** The sink said so. */
        CALLBACK,
        /** The signal was aborted. */
        ABORTED,
        /** The signal's timeout ran out. */
        DEADLINE,
        /** A stop text is complete; its tokens are the last of the sequence. */
        STOP_TEXT,
        /** A reason of a library that is newer than this package. */
        UNKNOWN;

        static End of(long number) {
            return number >= 0 && number <= DEADLINE.ordinal() ? values()[(int) number] : UNKNOWN;
        }
    }

    /** What a {@link Generator#step} gave. */
    public static final class Step {
        /** -1: {@link End#CAPACITY}. */
        public final long token;
        public final End end;

        Step(long[] row) {
            token = row[0];
            end = End.of(row[1]);
        }

        @Override
        public String toString() {
            return token + " " + end;
        }
    }

    /** How a {@link Generator#run} ended. */
    public static final class Outcome {
        /** So many tokens were picked, a stop token included. */
        public final long count;
        public final End end;

        Outcome(long count, End end) {
            this.count = count;
            this.end = end;
        }

        @Override
        public String toString() {
            return count + " " + end;
        }
    }

    /** What a generator has. */
    public static final class Sequence {
        private final long[] tokens;
        /** Of the tokens, those that the state has. */
        public final long run;
        /** Of the last prompt, those that were not run again. */
        public final long reused;
        /** So many tokens have room; 0: no end is known. */
        public final long capacity;
        /** 0: before the first run, where the model does not say it. */
        public final long vocabulary;

        Sequence(long[] row) {
            run = row[0];
            reused = row[1];
            capacity = row[2];
            vocabulary = row[3];
            tokens = Arrays.copyOfRange(row, 4, row.length);
        }

        /** All of it. */
        public long[] tokens() {
            return tokens.clone();
        }
    }

    private final String[] stopTexts;

    /** {@code session} stays as long as the call. {@code data}: of a model in memory, which the generator goes on reading. */
    Generator(long session, Options options, Signal signal, Object data) {
        super(GENERATOR, created(session, options, signal), null, data);
        stopTexts = options.stopTexts;
    }

    private static long created(long session, Options options, Signal signal) {
        long stop = signal == null ? 0 : signal.enter();
        try {
            return GenerateNative.create(session, options.reals, options.numbers, options.stopTokens, Native.bytes(options.names), stop);
        } finally {
            if (signal != null) signal.exit();
        }
    }

    private interface Body<T> {
        T call(long handle, long signal);
    }

    private synchronized <T> T with(Signal signal, Body<T> body) {
        long handle = enter();
        try {
            long stop = signal == null ? 0 : signal.enter();
            try {
                return body.call(handle, stop);
            } finally {
                if (signal != null) signal.exit();
            }
        } finally {
            exit();
        }
    }

    /**
     * Makes the sequence these tokens: all of it, what was generated before included. What begins as the sequence before it did is not run again. A call that is stopped
     * ({@link Code#CANCELLED}, {@link Code#DEADLINE_EXCEEDED}) keeps what was run: the same call goes on from there. {@code signal} may be null.
     */
    public void prompt(long[] tokens, Signal signal) {
        with(signal, (handle, stop) -> {
            GenerateNative.prompt(handle, tokens, stop);
            return null;
        });
    }

    public void prompt(long... tokens) {
        prompt(tokens, null);
    }

    /** Picks one token and puts it behind the sequence. {@code signal} may be null. */
    public Step step(Signal signal) {
        return with(signal, (handle, stop) -> new Step(GenerateNative.step(handle, stop)));
    }

    public Step step() {
        return step(null);
    }

    /**
     * Picks tokens until there is a reason to end. An abort and a timeout are such reasons, and no errors: what was generated is there, and the next call goes on behind it.
     * {@code sink} (which then gets none) and {@code signal} may be null.
     */
    public Outcome run(TokenSink sink, Signal signal) {
        if (stopTexts.length > 0) throw QuarryException.refused("run: found stop texts in the options and no tokenizer, expected one that says what texts tokens are", "call run(tokenizer, sink, signal)");
        return tokens(sink, signal);
    }

    private Outcome tokens(TokenSink sink, Signal signal) {
        return with(signal, (handle, stop) -> {
            long[] row = GenerateNative.run(handle, sink, stop);
            return new Outcome(row[0], End.of(row[1]));
        });
    }

    public Outcome run(TokenSink sink) {
        return run(sink, null);
    }

    /** The same, by its text: without special tokens, until a stop text too. {@code signal} may be null. */
    public Outcome run(Tokenizer tokenizer, TextSink sink, Signal signal) {
        try (TextStream stream = tokenizer.stream(true, stopTexts)) {
            Outcome outcome = tokens(token -> {
                String piece = stream.push(token);
                return (piece.isEmpty() || sink.text(piece)) && !stream.stopped();
            }, signal);
            if (stream.stopped()) return new Outcome(outcome.count, End.STOP_TEXT);
            String rest = outcome.end == End.CALLBACK ? "" : stream.finish();
            if (!rest.isEmpty()) sink.text(rest);
            return outcome;
        }
    }

    public Outcome run(Tokenizer tokenizer, TextSink sink) {
        return run(tokenizer, sink, null);
    }

    /** The logits of the next token, for a choice of the program's own: {@link #accept} goes on with what was chosen. A copy. {@code signal} may be null. */
    public float[] logits(Signal signal) {
        return with(signal, GenerateNative::logits);
    }

    public float[] logits() {
        return logits(null);
    }

    /** Puts a token behind the sequence, as {@link #step} does with the one that it picks. */
    public void accept(long token) {
        with(null, (handle, stop) -> {
            GenerateNative.accept(handle, token);
            return null;
        });
    }

    /** Forgets the tokens from {@code length} on; 0: all, and the seed begins again. */
    public void rewind(long length) {
        if (length < 0) throw QuarryException.refused("length: found " + length + ", expected 0 or more", "");
        with(null, (handle, stop) -> {
            GenerateNative.rewind(handle, length);
            return null;
        });
    }

    /** What there is so far. */
    public Sequence sequence() {
        return with(null, (handle, stop) -> new Sequence(GenerateNative.sequence(handle)));
    }

    /** What the generator's session keeps: to save it, or to ask for its size. After its {@link State#load}, call {@link #restore}. */
    public State state() {
        return with(null, (handle, stop) -> new State(GenerateNative.state(handle)));
    }

    /** Says which tokens a state that was loaded has: the first {@link Sequence#run} of the sequence when it was saved. */
    public void restore(long... tokens) {
        with(null, (handle, stop) -> {
            GenerateNative.restore(handle, tokens);
            return null;
        });
    }
}
