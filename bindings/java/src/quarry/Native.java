// SPDX-License-Identifier: Apache-2.0
package quarry;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Map;

/** The functions of jni. Texts are UTF-8; handles stay valid by NativeObject.enter. */
final class Native {
    static {
        NativeLibrary.load();
    }

    private Native() {}

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }

    /** A set of options for one call; to be destroyed. 0: none are given. */
    static long options(long runtime, Map<String, String> options) {
        if (options == null || options.isEmpty()) return 0;
        byte[][] pairs = new byte[options.size() * 2][];
        int at = 0;
        for (Map.Entry<String, String> option : options.entrySet()) {
            pairs[at++] = bytes(option.getKey());
            pairs[at++] = bytes(option.getValue());
        }
        return optionsCreate(runtime, pairs);
    }

    // Called by the native part.
    static boolean report(Progress progress, long done, long total, byte[] what) {
        return progress.report(done, total, text(what));
    }

    static void log(LogSink sink, int level, byte[] topic, byte[] message) {
        LogSink.Level[] levels = LogSink.Level.values();
        sink.write(levels[Math.min(Math.max(level, 1), levels.length) - 1], text(topic), text(message));
    }

    static native byte[] version();

    static native int abiVersion();

    static native void destroy(int kind, long handle);

    static native long runtimeCreate(byte[] backendPath, byte[] preparePath, boolean onlyGiven, LogSink log, int level);

    static native Object[] backends(long runtime);

    static native long optionsCreate(long runtime, byte[][] pairs);

    static native long signalCreate(long runtime);

    static native void signalTell(long signal, int what, long value);

    static native long modelOpen(long runtime, byte[] path, ByteBuffer data, int descriptor, long offset, long size, long options, long signal, Progress progress);

    static native Object[] tensors(int kind, long handle, boolean outputs);

    static native byte[][] properties(long model);

    static final int INSPECT = 0, CHECK = 1, VERIFY = 2;

    static native byte[] modelText(int what, long model, long options, long signal, Progress progress);

    static native void modelCompile(long model, long options, byte[] path, long signal, Progress progress);

    static native Object[] compatibility(long model, long options, long signal);

    static native long sessionCreate(long model, long options, long signal, Progress progress);

    static native long sessionClone(long session, long signal, Progress progress);

    static native long[] sessionPlan(long model, long options, long signal, Progress progress);

    /** Per output: dtype, bytes, whether it is in memory of the session's (which is put into `room`, and stays until the next run), then the shape. */
    static native long[][] run(long session, long signal, ByteBuffer[] inputs, int[] types, long[][] shapes, ByteBuffer[] room, boolean[] wanted);

    static native long submit(long session, long signal, ByteBuffer[] inputs, int[] types, long[][] shapes, ByteBuffer[] room, boolean[] wanted);

    /** Waits for a submitted run, which stays until {@link #release}. */
    static native long[][] await(long run);

    static native void release(long run);

    static native void abort(long run);

    static native void warmUp(long session, long signal);

    static native void setOption(long session, byte[] key, byte[] value);

    static native void recover(long session, long signal, Progress progress);

    static native byte[] report(long session);

    /** Format, width, height, number of planes, and of each three numbers go into `layout`. 0: there are no hardware buffers here. */
    static native long memoryImport(long session, Object buffer, int access, long[] layout);

    static native ByteBuffer memoryData(long memory);

    static native long sessionState(long session);

    static native void sessionSetState(long session, long state);

    static native long openAdapter(long session, byte[] path, float alpha, float strength);

    static native void setAdapter(long session, long adapter);

    /** Of each pair: names of the input and the output, then axis, dtype, capacity, bytes and the shape. */
    static native Object[] statePairs(long state);

    static native long stateLength(long state);

    static native long stateDropped(long state);

    static native void stateReset(long state);

    static native void stateRewind(long state, long length);

    static native long stateFork(long state);

    /** Bytes, where there is no path. */
    static native byte[] stateSave(long state, byte[] path);

    static native void stateLoad(long state, byte[] saved);

    /** dtype, bytes, shape; without room these alone. */
    static native long[] stateRead(long state, int index, ByteBuffer room);

    static native void stateWrite(long state, int index, ByteBuffer data, int type, long[] shape);
}
