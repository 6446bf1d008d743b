// SPDX-License-Identifier: Apache-2.0
package quarry;

import static quarry.QuarryTest.check;
import static quarry.QuarryTest.fails;
import static quarry.QuarryTest.same;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** A small Llama goes on with a story: what is expected is ONNX Runtime's, as in the tests of Rust and Go. */
final class GeneratorTest {
    static final long[] PROMPT = {1, 3, 34, 9, 22, 4, 3, 18, 20, 7};
    static final long[] STORY = {9, 3, 5, 3, 6, 10, 16, 4, 25, 3, 6, 8, 4, 13, 4, 3, 17, 5, 12, 3, 5, 3, 14, 10};

    /** What a test does with a session of the model, which it does not do where there is none. */
    private interface Test {
        void on(Session session) throws Exception;
    }

    private static Path file() {
        return QuarryTest.shared.resolve("models/babyllama105_kv_f32/model.onnx");
    }

    private static Map<String, String> keeps(String capacity) {
        Map<String, String> options = new TreeMap<>();
        options.put("threads", "1");
        options.put("state", "auto");
        options.put("state.capacity", capacity);
        return options;
    }

    private static void with(String capacity, Test test) throws Exception {
        if (!Files.exists(file())) {
            System.out.println("skipped: a test of generators: there is no " + file());
            return;
        }
        try (Model model = Model.open(file().toString()); Session session = model.session(keeps(capacity))) {
            test.on(session);
        }
    }

    private static Generator started(Session session, Generator.Options options) {
        Generator generator = session.generator(options);
        generator.prompt(PROMPT);
        return generator;
    }

    private static Generator.Options options() {
        return new Generator.Options();
    }

    private static String text(long... tokens) {
        return Arrays.toString(tokens);
    }

    private static long[] story(int from, int to) {
        return Arrays.copyOfRange(STORY, from, to);
    }

    void testGeneratedTokens() throws Exception {
        with("2048", session -> {
            try (Generator generator = started(session, options().maxNewTokens(24))) {
                List<Long> found = new ArrayList<>();
                same(generator.run(token -> found.add(token)).toString(), "24 LENGTH");
                same(found.toString(), text(STORY));
                Generator.Sequence has = generator.sequence();
                same(text(has.tokens()), text(Arrays.copyOf(PROMPT, 10)).replace("]", ", ") + text(STORY).substring(1));
                same(has.run + " " + has.vocabulary, "33 105");
                // The same prompt again is not run again, but for its last token; a choice of one's own goes on from there.
                generator.prompt(PROMPT);
                same(generator.sequence().reused, 9L);
                float[] logits = generator.logits();
                int best = 0;
                for (int i = 0; i < logits.length; ++i)
                    if (logits[i] > logits[best]) best = i;
                same(logits.length + " " + best, "105 " + STORY[0]);
                generator.accept(STORY[0]);
                same(generator.step().toString(), STORY[1] + " NONE");
                check(fails(Code.OUT_OF_RANGE, () -> generator.rewind(99)).getMessage().contains("99"), "it does not say what it found");
                // A beginning that was saved is not run again.
                generator.rewind(10);
                try (State state = generator.state(); Generator other = session.generator(options().maxNewTokens(2)); State there = other.state()) {
                    there.load(state.save());
                    other.restore(PROMPT);
                    other.run(null);
                    same(text(Arrays.copyOfRange(other.sequence().tokens(), 10, 12)), text(story(0, 2)));
                }
            }
        });
    }

    void testReasonsToEnd() throws Exception {
        with("2048", session -> {
            try (Signal signal = new Signal(); Generator generator = started(session, options().stopTokens(77, STORY[5]))) {
                same(generator.run(null).toString(), "6 STOP_TOKEN");
                same(generator.run(token -> false).toString(), "1 CALLBACK");
                signal.abort();
                same(generator.run(null, signal).toString(), "0 ABORTED");
                fails(Code.CANCELLED, () -> session.generator(null, signal));
                signal.reset();
                signal.setTimeout(Duration.ZERO);
                same(generator.run(null, signal).toString(), "0 DEADLINE");
                fails(Code.DEADLINE_EXCEEDED, () -> generator.step(signal));
                fails(Code.DEADLINE_EXCEEDED, () -> generator.prompt(new long[] {5, 6}, signal));
                signal.setTimeout(null);
                generator.prompt(new long[] {5, 6}, signal);
                same(text(generator.sequence().tokens()), "[5, 6]");
            }
            List<String> drawn = new ArrayList<>();
            for (long seed : new long[] {3, 3, 4})
                try (Generator generator = started(session, options().temperature(1.5f).topK(50).topP(0.98f).minP(0.001f).repetitionPenalty(1.1f).repetitionWindow(8).seed(seed).maxNewTokens(12))) {
                    generator.run(null);
                    drawn.add(text(generator.sequence().tokens()));
                }
            check(drawn.get(0).equals(drawn.get(1)) && !drawn.get(0).equals(drawn.get(2)), "found " + drawn);
        });
        with("14", session -> {
            try (Generator generator = started(session, options())) {
                same(generator.run(null).toString(), "5 CAPACITY");
                same(generator.step().toString(), "-1 CAPACITY");
                same(generator.sequence().capacity, 14L);
            }
        });
    }

    // The timeout is of all steps together: each of them alone is shorter.
    void testATimeoutIsOfTheWholeRun() throws Exception {
        with("2048", session -> {
            try (Signal signal = new Signal(); Generator generator = started(session, options())) {
                signal.setTimeout(Duration.ofMillis(200));
                Generator.Outcome outcome = generator.run(token -> {
                    sleep(5);
                    return true;
                }, signal);
                check(outcome.end == Generator.End.DEADLINE && outcome.count > 0 && outcome.count < 60, outcome.toString());
                long before = generator.sequence().tokens().length;
                same(generator.step().end, Generator.End.NONE);
                same((long) generator.sequence().tokens().length, before + 1);
            }
        });
    }

    private static void sleep(int milliseconds) {
        try {
            Thread.sleep(milliseconds);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    void testASinkThatThrows() throws Exception {
        with("2048", session -> {
            try (Generator generator = started(session, options())) {
                UnsupportedOperationException mine = new UnsupportedOperationException("mine");
                List<Long> found = new ArrayList<>();
                try {
                    generator.run(token -> {
                        found.add(token);
                        if (found.size() == 3) throw mine;
                        return true;
                    });
                    check(false, "it did not throw");
                } catch (UnsupportedOperationException thrown) {
                    check(thrown == mine, "another exception");
                }
                same(found.toString(), text(story(0, 3)));
                same(generator.step().toString(), STORY[3] + " NONE");
                // A sink that calls the generator that it is called by is refused, and the run goes on.
                StringBuilder said = new StringBuilder();
                generator.run(token -> {
                    try {
                        generator.step();
                    } catch (QuarryException error) {
                        said.append(error.code());
                    }
                    return false;
                });
                same(said.toString(), "FAILED_PRECONDITION");
            }
        });
    }

    void testClosingAndAborting() throws Exception {
        with("2048", session -> {
            try (Signal signal = new Signal()) {
                // Closed while a run is inside: that goes on, and later calls are refused.
                Generator closed = started(session, options());
                List<Long> found = new ArrayList<>();
                Generator.Outcome outcome = closed.run(token -> {
                    found.add(token);
                    if (found.size() == 3) closed.close();
                    return found.size() < 10;
                });
                same(outcome + " " + found, "10 CALLBACK " + text(story(0, 10)));
                closed.close();
                for (QuarryTest.Body body : new QuarryTest.Body[] {closed::step, () -> closed.prompt(1), closed::sequence, closed::state, () -> closed.run(null), () -> closed.accept(1), () -> closed.rewind(0)}) {
                    try {
                        body.run();
                        check(false, "a closed generator answered");
                    } catch (IllegalStateException error) {
                        same(error.getMessage(), "Generator is closed");
                    }
                }
                // Another thread aborts one, and closes it at once.
                Generator other = started(session, options());
                Generator.Outcome[] ended = new Generator.Outcome[1];
                Thread runner = new Thread(() -> ended[0] = other.run(token -> {
                    sleep(1);
                    return true;
                }, signal));
                runner.start();
                Thread.sleep(50);
                signal.abort();
                other.close();
                runner.join();
                same(ended[0].end, Generator.End.ABORTED);
            }
        });
    }

    // A generator reads the weights of a model that was opened in memory, whatever became of model and session.
    void testAGeneratorOutlivesItsSession() throws Exception {
        if (!Files.exists(file())) return;  // testGeneratedTokens says so
        byte[] bytes = Files.readAllBytes(file());
        Generator generator;
        try (Model model = QuarryRuntime.shared().open(ByteBuffer.wrap(bytes), null, null, null); Session session = model.session(keeps("64"))) {
            generator = started(session, options().maxNewTokens(24));
        }
        for (int i = 0; i < 3; ++i) {
            System.gc();
            ByteBuffer.allocateDirect(bytes.length);
            Thread.sleep(20);
        }
        List<Long> found = new ArrayList<>();
        generator.run(token -> found.add(token));
        same(found.toString(), text(STORY));
        generator.close();
    }

    void testWhatIsNoDecoderIsRefused() throws Exception {
        try (Model model = Model.open(QuarryTest.digits.resolve("digits.onnx").toString())) {
            Session session = model.session();
            QuarryException error = fails(Code.UNSUPPORTED, () -> session.generator(null));
            same(error.id(), "QR-R0032");
            check(!error.hint().contains("qr_"), error.hint());
            fails(Code.INVALID_ARGUMENT, () -> session.generator(options().topP(2)));
            fails(Code.INVALID_ARGUMENT, () -> options().topK(-1));
            session.close();
            try {
                session.generator(null);
                check(false, "a closed session made a generator");
            } catch (IllegalStateException closed) {
                same(closed.getMessage(), "Session is closed");
            }
        }
        with("64", session -> {
            try (Generator generator = session.generator(null)) {
                QuarryException error = fails(Code.FAILED_PRECONDITION, generator::step);
                check(error.id().equals("QR-R0033") && error.hint().contains("Generator.prompt"), error.getMessage());
                fails(Code.INVALID_ARGUMENT, () -> generator.prompt());
                fails(Code.INVALID_ARGUMENT, () -> generator.prompt(-1));
                fails(Code.INVALID_ARGUMENT, () -> generator.prompt(105));
            }
        });
    }

    /** Words w0 to w104, one a token. */
    static String words() {
        StringBuilder vocabulary = new StringBuilder();
        for (int i = 0; i < 105; ++i) vocabulary.append(i == 0 ? "" : ", ").append("\"w").append(i).append("\": ").append(i);
        return "{\"version\": \"1.0\", \"truncation\": null, \"padding\": null, \"added_tokens\": [], \"normalizer\": null, \"pre_tokenizer\": {\"type\": \"WhitespaceSplit\"}, "
            + "\"post_processor\": null, \"decoder\": null, \"model\": {\"type\": \"WordLevel\", \"vocab\": {" + vocabulary + "}, \"unk_token\": \"w0\"}}";
    }

    private static String words(long... tokens) {
        return text(tokens).replace("[", "w").replace(", ", " w").replace("]", "");
    }

    void testTexts() throws Exception {
        byte[] data = words().getBytes(StandardCharsets.UTF_8);
        Tokenizer tokenizer;
        try {
            tokenizer = Tokenizer.open(data);
        } catch (QuarryException error) {
            check(error.code() == Code.UNAVAILABLE && error.getMessage().contains("libquarry-tokenizer-jni"), error.getMessage());
            System.out.println("skipped: testTexts: the package was built where there is no libquarry-tokenizer");
            return;
        }
        same(tokenizer.vocabulary(), 105L);
        same(text(tokenizer.encode(words(PROMPT), true)), text(PROMPT));
        same(tokenizer.decode(PROMPT, true), words(PROMPT));
        same(tokenizer.token("w77"), 77L);
        same(fails(Code.NOT_FOUND, () -> tokenizer.token("none")).id(), "QR-T0002");
        same(fails(Code.CORRUPT, () -> Tokenizer.open(new byte[] {'{'})).id(), "QR-T0001");
        fails(Code.INVALID_ARGUMENT, () -> tokenizer.stream(true, ""));
        Path saved = QuarryTest.scratch.resolve("wörter.json");
        Files.write(saved, data);
        try (Tokenizer again = Tokenizer.open(saved.toString()); TextStream stream = again.stream(true, "w6 w10")) {
            StringBuilder said = new StringBuilder();
            for (long token : story(0, 4)) said.append(stream.push(token));
            same(said + stream.finish(), words(story(0, 4)));
            said.setLength(0);
            int count = 0;
            while (!stream.stopped()) said.append(stream.push(STORY[count++]));
            same(count + " " + said, "6 " + words(story(0, 4)) + " ");
        }
        with("2048", session -> {
            StringBuilder said = new StringBuilder();
            TextSink sink = piece -> said.append(piece) != null;
            try (Generator generator = started(session, options().maxNewTokens(24))) {
                same(generator.run(tokenizer, sink).toString(), "24 LENGTH");
                same(said.toString(), words(STORY));
                generator.rewind(10);
                said.setLength(0);
                same(generator.run(tokenizer, piece -> said.append(piece).length() < 9).toString(), "4 CALLBACK");
            }
            said.setLength(0);
            try (Generator generator = started(session, options().stopTexts("w6 w10", "never"))) {
                same(generator.run(tokenizer, sink).toString(), "6 STOP_TEXT");
                same(said.toString(), words(story(0, 4)) + " ");
                fails(Code.INVALID_ARGUMENT, () -> generator.run(null));
                fails(Code.INVALID_ARGUMENT, () -> generator.run(tokenizer, piece -> {
                    throw QuarryException.refused("mine", "");
                }));
            }
        });
        tokenizer.close();
        try {
            tokenizer.encode("w1", true);
            check(false, "a closed tokenizer answered");
        } catch (IllegalStateException closed) {
            same(closed.getMessage(), "Tokenizer is closed");
        }
    }
}
