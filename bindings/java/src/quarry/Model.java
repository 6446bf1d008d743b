// SPDX-License-Identifier: Apache-2.0
package quarry;

import java.nio.ByteBuffer;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** An opened .onnx or .qrm: immutable, for any number of threads and sessions. */
public final class Model extends NativeObject {
    /** How well what was compiled fits this machine. */
    public enum Compatibility { OPTIMAL, USABLE, RECOMPILE, INCOMPATIBLE }

    final QuarryRuntime runtime;
    final ByteBuffer data;  // of a model in memory
    private List<TensorInfo> inputs, outputs;

    /** Calls modelOpen of a source with a runtime, options and a signal. */
    interface Opening {
        long open(long runtime, long settings, long stop);
    }

    Model(QuarryRuntime runtime, ByteBuffer data, Map<String, String> options, Signal signal, Opening opening) {
        super(MODEL, opened(runtime, options, signal, opening), runtime, data);
        this.runtime = runtime;
        this.data = data;
    }

    /** Opens a model with the shared runtime. */
    public static Model open(String path) {
        return QuarryRuntime.shared().open(path);
    }

    private static long opened(QuarryRuntime runtime, Map<String, String> options, Signal signal, Opening opening) {
        long handle = runtime.enter();
        try {
            return Call.with(handle, options, signal, opening::open);
        } catch (RuntimeException | Error failed) {
            runtime.exit();
            throw failed;
        }
    }

    private <T> T call(Map<String, String> options, Signal signal, Call.Body<T> body) {
        long handle = enter();
        try {
            return Call.with(runtime.held(), options, signal, (of, settings, stop) -> body.run(handle, settings, stop));
        } finally {
            exit();
        }
    }

    public synchronized List<TensorInfo> inputs() {
        if (inputs == null) inputs = TensorInfo.of(call(null, null, (model, settings, stop) -> Native.tensors(MODEL, model, false)));
        return inputs;
    }

    public synchronized List<TensorInfo> outputs() {
        if (outputs == null) outputs = TensorInfo.of(call(null, null, (model, settings, stop) -> Native.tensors(MODEL, model, true)));
        return outputs;
    }

    /** What the model carries: ONNX's metadata_props, "metadata.KEY" of a container. */
    public Map<String, String> properties() {
        byte[][] pairs = call(null, null, (model, settings, stop) -> Native.properties(model));
        Map<String, String> map = new LinkedHashMap<>();
        for (int i = 0; i + 1 < pairs.length; i += 2) map.put(Native.text(pairs[i]), Native.text(pairs[i + 1]));
        return Collections.unmodifiableMap(map);
    }

    /** Everything the model says of itself, as JSON (docs/formats/inspect.md). */
    public String inspect() {
        return Native.text(call(null, null, (model, settings, stop) -> Native.modelText(Native.INSPECT, model, 0, stop, null)));
    }

    /** Asks a backend about every node, and compiles nothing: JSON, as qr_model_check describes it. Arguments but the first may be null. */
    public String check(Map<String, String> options, Signal signal, Progress progress) {
        return Native.text(call(options, signal, (model, settings, stop) -> Native.modelText(Native.CHECK, model, settings, stop, progress)));
    }

    /** Reads every byte and checks all sums and rules. */
    public void verify() {
        call(null, null, (model, settings, stop) -> Native.modelText(Native.VERIFY, model, 0, stop, null));
    }

    /** How well a container fits the backend that the options name. */
    public Compatibility compatibility(Map<String, String> options) {
        Object[] found = call(options, null, Native::compatibility);
        return Compatibility.values()[Math.min(Math.max(((int[]) found[0])[0], 1), 4) - 1];
    }

    public void compile(String path, Map<String, String> options) {
        compile(path, options, null, null);
    }

    /** Compiles into a container. The last three may be null. */
    public void compile(String path, Map<String, String> options, Signal signal, Progress progress) {
        call(options, signal, (model, settings, stop) -> {
            Native.modelCompile(model, settings, Native.bytes(path), stop, progress);
            return null;
        });
    }

    /** On the default backend, cpu. */
    public Session session() {
        return session(null, null, null);
    }

    public Session session(Map<String, String> options) {
        return session(options, null, null);
    }

    /** Nothing falls back: a node that the backend refuses is an error with its reason. */
    public Session session(Map<String, String> options, Signal signal, Progress progress) {
        long made = call(options, signal, (model, settings, stop) -> Native.sessionCreate(model, settings, stop, progress));
        return new Session(this, made);
    }

    /** Bytes that a session would need. */
    public MemoryPlan plan(Map<String, String> options) {
        return new MemoryPlan(call(options, null, (model, settings, stop) -> Native.sessionPlan(model, settings, stop, null)));
    }

    public static final class MemoryPlan {
        public final long weightsBytes, arenaBytes, ioBytes, deviceBytes, scratchpadBytes, spillFillBytes;

        MemoryPlan(long[] numbers) {
            weightsBytes = numbers[0];
            arenaBytes = numbers[1];
            ioBytes = numbers[2];
            deviceBytes = numbers[3];
            scratchpadBytes = numbers[4];
            spillFillBytes = numbers[5];
        }
    }
}
