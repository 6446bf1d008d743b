// SPDX-License-Identifier: Apache-2.0
package quarry;

import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;

/** One execution state of a model on one backend: one run at a time; {@link #copy} gives another thread its own, which shares weights and programs. */
public final class Session extends NativeObject {
    private final Model model;
    private final List<TensorInfo> inputs, outputs;
    private final ArrayDeque<Pending> queue = new ArrayDeque<>();  // submitted runs, the first that ends first
    private Thread waiter;

    Session(Model model, long handle) {
        super(SESSION, handle, null, model.data);
        this.model = model;
        try {
            inputs = TensorInfo.of(Native.tensors(SESSION, handle, false));
            outputs = TensorInfo.of(Native.tensors(SESSION, handle, true));
        } catch (RuntimeException | Error failed) {
            close();
            throw failed;
        }
    }

    public List<TensorInfo> inputs() {
        return inputs;
    }

    public List<TensorInfo> outputs() {
        return outputs;
    }

    /** Inputs and outputs in the order of {@link #inputs} and {@link #outputs}. */
    public Tensor[] run(Tensor... given) {
        return run(given, null, null);
    }

    public Map<String, Tensor> run(Map<String, Tensor> given) {
        Tensor[] in = new Tensor[inputs.size()];
        int found = 0;
        for (int i = 0; i < in.length; ++i) {
            in[i] = given.get(inputs.get(i).name());
            if (in[i] != null) ++found;
        }
        if (found != in.length || found != given.size())
            throw QuarryException.refused("inputs: found " + given.keySet() + ", expected " + names(inputs), "");
        Tensor[] out = run(in);
        Map<String, Tensor> made = new LinkedHashMap<>();
        for (int i = 0; i < out.length; ++i) made.put(outputs.get(i).name(), out[i]);
        return made;
    }

    private static List<String> names(List<TensorInfo> of) {
        List<String> list = new java.util.ArrayList<>();
        for (TensorInfo info : of) list.add(info.name());
        return list;
    }

    /**
     * Runs the network. {@code room}: tensors for the outputs, of any shape that is large enough, and of whose memory the results are; null, or an entry null:
     * there is new memory. {@code signal} may be null.
     */
    public Tensor[] run(Tensor[] given, Tensor[] room, Signal signal) {
        Arguments all = new Arguments(given, room, false);
        long handle = enter();
        try {
            long stop = signal == null ? 0 : signal.enter();
            try {
                long[][] rows = Native.run(handle, stop, all.data, all.types, all.shapes, all.room, all.wanted);
                return all.results(rows);
            } finally {
                if (signal != null) signal.exit();
            }
        } finally {
            exit();
        }
    }

    /**
     * Queues a run, of at most "queue_depth" (an option); one more is refused with {@link Code#BUSY}, by the future too. The future ends on a thread of this session, in the order of the submissions; cancelling it aborts the run.
     * Results lie in {@code room}, or, where it is null, in new memory, for outputs whose shapes are known.
     */
    public CompletableFuture<Tensor[]> submit(Tensor[] given, Tensor[] room, Signal signal) {
        Arguments all = new Arguments(given, room, true);
        Pending pending = new Pending(all);
        long handle = enter();
        try {
            long stop = signal == null ? 0 : signal.enter();
            try {
                synchronized (queue) {
                    pending.run = Native.submit(handle, stop, all.data, all.types, all.shapes, all.room, all.wanted);
                    queue.add(pending);
                    if (waiter == null) {
                        waiter = new Thread(this::waitForRuns, "quarry-session");
                        waiter.setDaemon(true);
                        waiter.start();
                    }
                }
            } finally {
                if (signal != null) signal.exit();
            }
        } catch (QuarryException failed) {
            exit();
            pending.over = true;
            pending.completeExceptionally(failed);
        } catch (RuntimeException | Error failed) {
            exit();
            throw failed;
        }
        return pending;  // waitForRuns leaves
    }

    public CompletableFuture<Tensor[]> submit(Tensor... given) {
        return submit(given, null, null);
    }

    private final class Pending extends CompletableFuture<Tensor[]> {
        private final Arguments all;
        private long run;
        private boolean over;

        Pending(Arguments all) {
            this.all = all;
        }

        @Override
        public boolean cancel(boolean mayInterrupt) {
            boolean did = super.cancel(mayInterrupt);
            synchronized (queue) {
                if (did && !over) Native.abort(run);
            }
            return did;
        }
    }

    // Ends when the queue is empty; the next submission starts another. It keeps the session alive meanwhile.
    private void waitForRuns() {
        while (true) {
            Pending first;
            synchronized (queue) {
                first = queue.peek();
                if (first == null) {
                    waiter = null;
                    return;
                }
            }
            Tensor[] made = null;
            Throwable failed = null;
            try {
                made = first.all.results(Native.await(first.run));
            } catch (RuntimeException | Error error) {
                failed = error;
            }
            synchronized (queue) {
                first.over = true;  // from here on nobody aborts it
                queue.poll();
                Native.release(first.run);
            }
            exit();
            if (failed != null) first.completeExceptionally(failed);
            else first.complete(made);
        }
    }

    // What a run reads and writes, as the native part wants it.
    private final class Arguments {
        final ByteBuffer[] data, room;
        final int[] types;
        final long[][] shapes;
        final boolean[] wanted;

        Arguments(Tensor[] given, Tensor[] into, boolean queued) {
            if (given.length != inputs.size())
                throw QuarryException.refused("inputs: found " + given.length + " tensors, expected " + inputs.size() + ": " + inputs, "");
            if (into != null && into.length != outputs.size())
                throw QuarryException.refused("outputs: found room for " + into.length + ", expected " + outputs.size() + ": " + outputs, "");
            data = new ByteBuffer[given.length];
            types = new int[given.length];
            shapes = new long[given.length][];
            for (int i = 0; i < given.length; ++i) {
                if (given[i] == null) throw QuarryException.refused("input " + inputs.get(i) + ": found null", "");
                data[i] = given[i].data;
                types[i] = given[i].type().number;
                shapes[i] = given[i].dimensions();
            }
            room = new ByteBuffer[outputs.size()];
            wanted = new boolean[room.length];
            for (int i = 0; i < room.length; ++i) {
                wanted[i] = true;
                TensorInfo info = outputs.get(i);
                if (into != null && into[i] != null) room[i] = into[i].data;
                else if (info.isStatic()) room[i] = Tensor.room(info.sizeBytes());
                else if (queued) throw QuarryException.refused("output " + info + ": found no room, expected some for a queued run whose shapes are not known before", "give Tensor.allocate of the largest");
            }
        }

        Tensor[] results(long[][] rows) {
            Tensor[] made = new Tensor[rows.length];
            for (int i = 0; i < rows.length; ++i) {
                long[] row = rows[i];
                ByteBuffer from = room[i];
                if (!outputs.get(i).isStatic() && from != null && row[2] != 0) {  // the session's, until its next run
                    ByteBuffer copy = Tensor.room(row[1]);
                    copy.put(from.duplicate());
                    from = copy;
                }
                made[i] = Tensor.made(DataType.of((int) row[0]), java.util.Arrays.copyOfRange(row, 3, row.length), from == null ? Tensor.room(0) : from);
            }
            return made;
        }
    }

    /** Queued runs end with {@link Code#CANCELLED}; what is inside goes on. */
    @Override
    public void close() {
        synchronized (queue) {
            for (Pending pending : queue)
                if (!pending.over) Native.abort(pending.run);
        }
        super.close();
    }

    /** Another execution state that shares weights and programs. */
    public Session copy() {
        long handle = enter();
        try {
            return new Session(model, Native.sessionClone(handle, 0, null));
        } finally {
            exit();
        }
    }

    /** Runs once on zeros, so that the next run takes as long as those after it. */
    public void warmUp() {
        long handle = enter();
        try {
            Native.warmUp(handle, 0);
        } finally {
            exit();
        }
    }

    /** Changes an option that may change while the session lives. */
    public void setOption(String key, String value) {
        long handle = enter();
        try {
            Native.setOption(handle, Native.bytes(key), Native.bytes(value));
        } finally {
            exit();
        }
    }

    /** Brings the device back after {@link Code#DEVICE_LOST}. */
    public void recover() {
        long handle = enter();
        try {
            Native.recover(handle, 0, null);
        } finally {
            exit();
        }
    }

    /** The state that the next run goes on from. An exception where the session keeps none. */
    public State state() {
        long handle = enter();
        try {
            return new State(Native.sessionState(handle));
        } finally {
            exit();
        }
    }

    /**
     * Reads an adapter (safetensors or ONNX) for this session, its copies, and others of the same weights (option "adapter.targets"). {@code alpha}: lora_alpha; 0: as
     * adapter_config.json beside the file, or its metadata, say. {@code strength} scales it once more.
     */
    public Adapter openAdapter(String path, float alpha, float strength) {
        long handle = enter();
        try {
            return new Adapter(Native.openAdapter(handle, Native.bytes(path), alpha, strength));
        } finally {
            exit();
        }
    }

    /** Has the runs from now on compute with an adapter, or with none (null). */
    public void setAdapter(Adapter adapter) {
        long handle = enter();
        try {
            long other = adapter == null ? 0 : adapter.enter();
            try {
                Native.setAdapter(handle, other);
            } finally {
                if (adapter != null) adapter.exit();
            }
        } finally {
            exit();
        }
    }

    /**
     * Makes tokens of this session, which is a decoder with the option "state", on a copy of it: weights are shared, the state is the generator's own. One without state is
     * given all tokens in each run. {@code options} and {@code signal} may be null. {@link Code#UNSUPPORTED} (QR-R0032) says what is no decoder of it; {@link Code#UNAVAILABLE}
     * that the app has no libquarry-generate.
     */
    public Generator generator(Generator.Options options, Signal signal) {
        NativeLibrary.beside("generate", "text generation");
        long handle = enter();
        try {
            return new Generator(handle, options == null ? new Generator.Options() : options, signal, model.data);
        } finally {
            exit();
        }
    }

    public Generator generator(Generator.Options options) {
        return generator(options, null);
    }

    /** Has runs go on from another state, of this session or of a copy of it. */
    public void setState(State state) {
        long handle = enter();
        try {
            long other = state.enter();
            try {
                Native.sessionSetState(handle, other);
            } finally {
                state.exit();
            }
        } finally {
            exit();
        }
    }

    /** What the session is, as JSON. */
    public String report() {
        long handle = enter();
        try {
            return Native.text(Native.report(handle));
        } finally {
            exit();
        }
    }
}
