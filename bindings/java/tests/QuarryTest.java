// SPDX-License-Identifier: Apache-2.0
package quarry;

import java.io.File;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;

/**
 * Tests of the package, in it: java quarry.QuarryTest DIGITS_FOLDER SHARED_FOLDER [NAME...]. Each method test...() of this class and of GeneratorTest is one; no framework is
 * needed to run them.
 */
public final class QuarryTest {
    static Path digits, shared, scratch;

    public static void main(String[] arguments) throws Exception {
        digits = Paths.get(arguments[0]);
        shared = Paths.get(arguments[1]);
        scratch = Files.createTempDirectory("quarry-java-test");
        int passed = 0, failed = 0;
        List<String> wanted = Arrays.asList(arguments).subList(2, arguments.length);
        TreeMap<String, Method> tests = new TreeMap<>();
        for (Class<?> of : new Class<?>[] {QuarryTest.class, GeneratorTest.class})
            for (Method method : of.getDeclaredMethods())
                if (method.getName().startsWith("test") && (wanted.isEmpty() || wanted.contains(method.getName()))) tests.put(method.getName(), method);
        for (Method test : tests.values()) {
            try {
                test.invoke(test.getDeclaringClass().getDeclaredConstructor().newInstance());
                ++passed;
            } catch (InvocationTargetException thrown) {
                ++failed;
                System.out.println("FAILED: " + test.getName());
                thrown.getCause().printStackTrace(System.out);
            }
        }
        System.out.println(passed + " tests passed, " + failed + " failed");
        System.exit(failed == 0 ? 0 : 1);
    }

    static void check(boolean is, String what) {
        if (!is) throw new AssertionError(what);
    }

    static void same(Object found, Object expected) {
        if (!expected.equals(found)) throw new AssertionError("found " + found + ", expected " + expected);
    }

    interface Body {
        void run() throws Exception;
    }

    static QuarryException fails(Code code, Body body) throws Exception {
        try {
            body.run();
        } catch (QuarryException error) {
            same(error.code(), code);
            return error;
        }
        throw new AssertionError("it did not fail, expected " + code);
    }

    private static Model model() {
        return Model.open(digits.resolve("digits.onnx").toString());
    }

    private static Tensor image(int index) throws Exception {
        byte[] file = Files.readAllBytes(digits.resolve("test_images.npy"));
        float[] image = new float[64];
        for (int i = 0; i < 64; ++i) image[i] = (file[128 + index * 64 + i] & 0xff) / 255f;
        return Tensor.of(image, 1, 1, 8, 8);
    }

    // What ONNX Runtime gave for an image: float[n, 10].
    private static float[] expected(int index) throws Exception {
        ByteBuffer file = ByteBuffer.wrap(Files.readAllBytes(digits.resolve("ort_scores.npy"))).order(ByteOrder.LITTLE_ENDIAN);
        file.position(10 + file.getShort(8) + index * 40);
        float[] row = new float[10];
        file.asFloatBuffer().get(row);
        return row;
    }

    private static void near(float[] found, float[] expected) {
        same(found.length, expected.length);
        for (int i = 0; i < found.length; ++i) check(Math.abs(found[i] - expected[i]) <= 1e-3f * Math.max(1, Math.abs(expected[i])), i + ": found " + found[i] + ", expected " + expected[i]);
    }

    void testScoresAreThoseOfOnnxRuntime() throws Exception {
        for (String backend : new String[] {"cpu", "cpu-reference"})
            try (Model model = model(); Session session = model.session(Collections.singletonMap("backend", backend))) {
                for (int i = 0; i < 20; ++i) near(session.run(image(i))[0].toFloats(), expected(i));
            }
    }

    void testNamesShapesAndMaps() throws Exception {
        try (Model model = model(); Session session = model.session()) {
            same(model.inputs().size(), 1);
            TensorInfo input = session.inputs().get(0);
            same(input.type(), DataType.F32);
            same(Arrays.toString(input.shape()), "[1, 1, 8, 8]");
            check(input.toString().startsWith(input.name() + " f32["), input.toString());
            Map<String, Tensor> out = session.run(Collections.singletonMap(input.name(), image(3)));
            near(out.get(session.outputs().get(0).name()).toFloats(), expected(3));
            QuarryException error = fails(Code.INVALID_ARGUMENT, () -> session.run(Collections.singletonMap("nobody", image(0))));
            check(error.getMessage().contains("nobody") && error.getMessage().contains(input.name()), error.getMessage());
            check(model.inspect().contains("\"operators\""), model.inspect());
            check(model.check(null, null, null).contains("\"refused\": 0"), "check");
            model.verify();
            check(model.plan(null).weightsBytes > 0, "plan");
            check(session.report().contains("\"backend\""), session.report());
        }
    }

    void testResultsInGivenRoom() throws Exception {
        try (Model model = model(); Session session = model.session()) {
            Tensor room = Tensor.allocate(DataType.F32, 1, 10);
            Tensor[] made = session.run(new Tensor[] {image(5)}, new Tensor[] {room}, null);
            near(room.toFloats(), expected(5));
            near(made[0].toFloats(), expected(5));
            // A tensor is where it was put: what is written there later is seen.
            ByteBuffer mine = ByteBuffer.allocateDirect(300).order(ByteOrder.nativeOrder());
            mine.position(44);
            Tensor input = Tensor.of(mine, DataType.F32, 1, 1, 8, 8);
            for (int i : new int[] {1, 2}) {
                input.floats().put(image(i).toFloats());
                near(session.run(input)[0].toFloats(), expected(i));
            }
            fails(Code.OUT_OF_RANGE, () -> session.run(new Tensor[] {image(0)}, new Tensor[] {Tensor.allocate(DataType.F32, 9)}, null));
        }
    }

    void testErrorsSayWhatToDo() throws Exception {
        QuarryException error = fails(Code.NOT_FOUND, () -> Model.open(scratch.resolve("größe, ☃.onnx").toString()));
        same(error.id(), "QR-F0001");
        check(error.getMessage().contains("größe, ☃.onnx"), error.getMessage());
        try (Model model = model()) {
            error = fails(Code.NOT_FOUND, () -> model.session(Collections.singletonMap("backnd", "cpu")));
            check(error.getMessage().contains("backend"), error.getMessage());
            error = fails(Code.NOT_FOUND, () -> model.session(Collections.singletonMap("backend", "tpu")));
            check(!error.hint().isEmpty() || !error.details().isEmpty(), error.getMessage());
            try (Session session = model.session()) {
                fails(Code.INVALID_ARGUMENT, () -> session.run(Tensor.of(new float[63], 1, 1, 7, 9)));
                fails(Code.INVALID_ARGUMENT, () -> session.run());
                fails(Code.INVALID_ARGUMENT, () -> session.run(Tensor.of(new double[64], 1, 1, 8, 8)));
                fails(Code.INVALID_ARGUMENT, () -> session.run((Tensor) null));
            }
        }
        fails(Code.INVALID_ARGUMENT, () -> Tensor.of(new float[3], 2, 2));
        fails(Code.INVALID_ARGUMENT, () -> Tensor.of(ByteBuffer.allocate(16), DataType.F32, 2, 2));
        fails(Code.INVALID_ARGUMENT, () -> Tensor.of(ByteBuffer.allocateDirect(15), DataType.F32, 2, 2));
        fails(Code.INVALID_ARGUMENT, () -> Tensor.allocate(DataType.F32, 1L << 40, 1L << 40));
        fails(Code.INVALID_ARGUMENT, () -> Tensor.allocate(DataType.F32, -1));
    }

    void testContainersAndModelsInMemory() throws Exception {
        String path = scratch.resolve("digits ü.qrm").toString();
        List<String> steps = new ArrayList<>();
        try (Model model = model()) {
            model.compile(path, Collections.singletonMap("backend", "cpu"), null, (done, total, what) -> steps.add(what));
        }
        check(!steps.isEmpty(), "no progress was reported");
        for (Model model : new Model[] {Model.open(path), QuarryRuntime.shared().open(Files.readAllBytes(Paths.get(path))), QuarryRuntime.shared().open(Files.readAllBytes(digits.resolve("digits.onnx")))}) {
            Session session = model.session();
            model.close();
            System.gc();
            near(session.run(image(7))[0].toFloats(), expected(7));
            session.close();
        }
        try (Model model = Model.open(path)) {
            same(model.compatibility(Collections.singletonMap("backend", "cpu")), Model.Compatibility.OPTIMAL);
        }
        byte[] cut = Arrays.copyOf(Files.readAllBytes(Paths.get(path)), 5000);
        fails(Code.CORRUPT, () -> QuarryRuntime.shared().open(cut));
    }

    void testProgressStopsAndThrows() throws Exception {
        String path = scratch.resolve("never.qrm").toString();
        try (Model model = model()) {
            fails(Code.CANCELLED, () -> model.compile(path, null, null, (done, total, what) -> false));
            try {
                model.compile(path, null, null, (done, total, what) -> {
                    throw new UnsupportedOperationException("mine");
                });
                throw new AssertionError("it did not throw");
            } catch (UnsupportedOperationException thrown) {
                same(thrown.getMessage(), "mine");
            }
            check(!new File(path).exists(), "a file was left");
        }
    }

    void testSignals() throws Exception {
        try (Model model = model(); Session session = model.session(); Signal signal = new Signal()) {
            signal.abort();
            fails(Code.CANCELLED, () -> session.run(new Tensor[] {image(0)}, null, signal));
            signal.reset();
            near(session.run(new Tensor[] {image(0)}, null, signal)[0].toFloats(), expected(0));
            signal.setTimeout(Duration.ZERO);
            fails(Code.DEADLINE_EXCEEDED, () -> session.run(new Tensor[] {image(0)}, null, signal));
            signal.setTimeout(null);
            near(session.run(new Tensor[] {image(0)}, null, signal)[0].toFloats(), expected(0));
        }
    }

    void testSubmittedRunsEndInOrder() throws Exception {
        try (Model model = model(); Session session = model.session(Collections.singletonMap("queue_depth", "4"))) {
            for (int round = 0; round < 20; ++round) {
                List<CompletableFuture<Tensor[]>> runs = new ArrayList<>();
                for (int i = 0; i < 4; ++i) runs.add(session.submit(image(i)));
                for (int i = 0; i < 4; ++i) near(runs.get(i).get()[0].toFloats(), expected(i));
            }
            try (Signal signal = new Signal()) {
                signal.abort();
                try {
                    session.submit(new Tensor[] {image(0)}, null, signal).get();
                    throw new AssertionError("it did not fail");
                } catch (ExecutionException error) {
                    same(((QuarryException) error.getCause()).code(), Code.CANCELLED);
                }
            }
            CompletableFuture<Tensor[]> given = session.submit(image(0));
            if (given.cancel(true)) {
                try {
                    given.get();
                    throw new AssertionError("it was not cancelled");
                } catch (CancellationException expected) {
                    // as it should
                }
            }
            near(session.run(image(9))[0].toFloats(), expected(9));
        }
        Session closed = model().session(Collections.singletonMap("queue_depth", "4"));
        List<CompletableFuture<Tensor[]>> runs = new ArrayList<>();
        for (int i = 0; i < 4; ++i) runs.add(closed.submit(image(i)));
        closed.close();
        for (CompletableFuture<Tensor[]> run : runs) {
            try {
                check(run.get().length == 1, "a run");
            } catch (ExecutionException error) {
                same(((QuarryException) error.getCause()).code(), Code.CANCELLED);
            }
        }
        try {
            closed.run(image(0));
            throw new AssertionError("a closed session ran");
        } catch (IllegalStateException error) {
            same(error.getMessage(), "Session is closed");
        }
    }

    void testThreadsWithASessionEach() throws Exception {
        AtomicInteger right = new AtomicInteger();
        try (Model model = model(); Session first = model.session()) {
            List<Thread> threads = new ArrayList<>();
            for (int t = 0; t < 4; ++t) {
                int own = t;
                Session session = first.copy();
                threads.add(new Thread(() -> {
                    try (Session mine = session) {
                        for (int i = 0; i < 200; ++i) near(mine.run(image((own * 7 + i) % 50))[0].toFloats(), expected((own * 7 + i) % 50));
                        right.incrementAndGet();
                    } catch (Exception error) {
                        error.printStackTrace(System.out);
                    }
                }));
            }
            for (Thread thread : threads) thread.start();
            for (Thread thread : threads) thread.join();
        }
        same(right.get(), 4);
    }

    // What nobody closes is freed with the garbage, and what is closed while it runs is freed behind the run.
    void testNothingIsKept() throws Exception {
        long before = -1;
        for (int i = 0; i < 3000; ++i) {
            Session session = model().session();
            if (i % 3 == 0) session.run(image(0));
            if (i % 500 == 499) {
                System.gc();
                Thread.sleep(50);
            }
            if (i == 999) before = resident();
        }
        // The collector takes its time, and so does malloc: 2,000 sessions that stay take 1.4 GB.
        for (int i = 0; i < 20 && resident() - before > 32 << 20; ++i) {
            System.gc();
            Thread.sleep(100);
        }
        check(resident() - before < 128 << 20, "found " + (resident() - before) / 1000 + " kB more, expected none");
        for (int i = 0; i < 200; ++i) {
            Session session = model().session();
            Tensor image = image(0);
            Thread runner = new Thread(() -> {
                try {
                    for (int k = 0; k < 50; ++k) session.run(image);
                } catch (IllegalStateException closed) {
                    // it was closed meanwhile
                }
            });
            runner.start();
            if (i % 2 == 0) Thread.sleep(0, 200000);
            session.close();
            runner.join();
        }
    }

    private static long resident() throws Exception {
        return Long.parseLong(new String(Files.readAllBytes(Paths.get("/proc/self/statm"))).split(" ")[1]) * 4096;
    }

    void testRuntimesAndTheLog() throws Exception {
        List<String> lines = Collections.synchronizedList(new ArrayList<>());
        QuarryRuntime runtime = new QuarryRuntime.Builder().log((level, topic, message) -> lines.add(level + " " + topic + " " + message), LogSink.Level.TRACE).build();
        boolean found = false;
        for (QuarryRuntime.Backend backend : runtime.backends()) found |= backend.id.equals("cpu") && backend.usable && !backend.devices.isEmpty();
        check(found, "no backend cpu");
        Model model = runtime.open(digits.resolve("digits.onnx"));
        runtime.close();
        Session session = model.session(Collections.singletonMap("threads", "2"));
        near(session.run(image(0))[0].toFloats(), expected(0));
        fails(Code.FAILED_PRECONDITION, () -> session.setOption("profiling_level", "off"));
        check(!lines.isEmpty(), "nothing was logged");
        model.close();
        session.close();
        check(QuarryRuntime.version().matches("\\d+\\.\\d+\\.\\d+"), QuarryRuntime.version());
    }

    // Outputs whose shapes only a run knows are of the caller's own.
    void testShapesThatChange() throws Exception {
        Path file = shared.resolve("models/tashkeel_transformer_f32/model.onnx");
        if (!Files.exists(file)) {
            System.out.println("skipped: testShapesThatChange: there is no " + file);
            return;
        }
        try (Model model = Model.open(file.toString()); Session session = model.session(Collections.singletonMap("threads", "1"))) {
            same(model.inputs().get(0).dimensionName(1), "seq");
            Tensor[] first = null;
            for (int length : new int[] {5, 12, 5}) {
                long[] letters = new long[length];
                Arrays.fill(letters, 3);
                Tensor[] made = session.run(Tensor.of(letters, 1, length), Tensor.of(new long[] {length}, 1));
                same(Arrays.toString(made[0].shape()), "[1, " + length + "]");
                same(made[1].toFloats().length, 15 * length);
                if (first == null) first = made;
                else if (length == 5) check(Arrays.equals(first[1].toFloats(), made[1].toFloats()), "a result did not stay, or is another");
            }
        }
    }

    private static Session keeping(Model model, String... more) {
        Map<String, String> options = new TreeMap<>();
        for (int i = 0; i < more.length; i += 2) options.put(more[i], more[i + 1]);
        options.put("threads", "1");
        options.put("state", "past:present");
        options.put("state.capacity", "4");
        return model.session(options);
    }

    private static String added(Session session, float... x) {
        return Arrays.toString(session.run(Tensor.of(x, 1, 1, 2))[0].toFloats());
    }

    void testWindow() throws Exception {
        try (Model model = Model.open(digits.resolve("../cache.onnx").toString()); Session session = keeping(model, "state.window", "1", "state.sink", "1")) {
            for (int i = 0; i < 9; i++) added(session, 1, 2);
            same(added(session, 5, 5), "[7.0, 9.0]"); // the first and the last before it
            State state = session.state();
            same(state.length() + " " + state.dropped(), "2 8");
        }
    }

    // y = x [[1, 2], [3, 4]], and with the adapter y += (x0 + x1) [1, -1].
    void testAdapters() throws Exception {
        String file = digits.resolve("../product.safetensors").toString();
        Map<String, String> options = new TreeMap<>();
        options.put("threads", "1");
        options.put("adapter.targets", "q");
        try (Model model = Model.open(digits.resolve("../product.onnx").toString()); Session session = model.session(options)) {
            Supplier<String> product = () -> Arrays.toString(session.run(Tensor.of(new float[] {1, 10}, 1, 2))[0].toFloats());
            same(product.get(), "[31.0, 42.0]");
            try (Adapter whole = session.openAdapter(file, 1, 1); Adapter twice = session.openAdapter(file, 1, 2)) {
                session.setAdapter(twice);
                same(product.get(), "[53.0, 20.0]");
                session.setAdapter(whole);
            }
            same(product.get(), "[42.0, 31.0]");
            session.setAdapter(null);
            same(product.get(), "[31.0, 42.0]");
        }
    }

    // present = past and x behind it, y its sum.
    void testState() throws Exception {
        try (Model model = Model.open(digits.resolve("../cache.onnx").toString()); Session session = keeping(model); Session second = keeping(model)) {
            same(session.inputs().size(), 1);
            same(added(session, 1, 2), "[1.0, 2.0]");
            same(added(session, 3, 4), "[4.0, 6.0]");
            State state = session.state();
            same(state.length(), 2L);
            State.Pair pair = state.pairs().get(0);
            same(pair.toString() + " " + pair.axis + " " + pair.capacity + " " + pair.type, "past <- present [1, 2, 2] 1 4 F32");
            byte[] saved = state.save();
            try (State fork = state.fork()) {
                state.rewind(1);
                same(added(session, 10, 10), "[11.0, 12.0]");
                session.setState(fork);
                same(added(session, 10, 10), "[14.0, 16.0]");
            }
            session.state().reset();
            same(added(session, 5, 5), "[5.0, 5.0]");

            State other = second.state();
            other.load(saved);
            same(Arrays.toString(other.read("past").toFloats()), "[1.0, 2.0, 3.0, 4.0]");
            other.write("present", Tensor.of(new float[] {7, 8}, 1, 1, 2));
            same(added(second, 1, 1), "[8.0, 9.0]");
            String file = scratch.resolve("kept.state").toString();
            other.saveTo(file);
            state.load(Files.readAllBytes(Paths.get(file)));
            same(state.length(), 2L);
            saved[20] ^= 1;
            fails(Code.CORRUPT, () -> other.load(saved));
            fails(Code.OUT_OF_RANGE, () -> other.rewind(9));
            fails(Code.INVALID_ARGUMENT, () -> other.read("future"));
            for (int i = 0; i < 2; ++i) added(second, 1, 1);
            fails(Code.RESOURCE_EXHAUSTED, () -> added(second, 1, 1));
            other.close();
            try {
                other.length();
                check(false, "a closed state has a length");
            } catch (IllegalStateException closed) {
                // as it should
            }
        }
    }
}
