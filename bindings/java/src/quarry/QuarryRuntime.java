// SPDX-License-Identifier: Apache-2.0
package quarry;

import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;

/** The plugins that were found, and the log. Models and sessions hold their runtime: it may be closed at any time. Most programs need no more than {@link #shared}. */
public final class QuarryRuntime extends NativeObject {
    private static QuarryRuntime shared;

    /** The one that is used where none is given; it is never closed. */
    public static synchronized QuarryRuntime shared() {
        if (shared == null) shared = new QuarryRuntime(new Builder());
        return shared;
    }

    /** The version of the library, "major.minor.patch". */
    public static String version() {
        return Native.text(Native.version());
    }

    public static final class Builder {
        private String backendPath = "", preparePath = "";
        private boolean onlyGiven;
        private LogSink log;
        private LogSink.Level level = LogSink.Level.WARN;

        /** Folders to look for plugins in, before the others, with the system's separator between. */
        public Builder backendPath(String folders) {
            backendPath = folders;
            return this;
        }

        /** Neither QUARRY_BACKEND_PATH nor the folders of the library's own. */
        public Builder onlyGivenPaths() {
            onlyGiven = true;
            return this;
        }

        /** The file of the compiler library, libquarry-prepare. */
        public Builder preparePath(String file) {
            preparePath = file;
            return this;
        }

        public Builder log(LogSink sink, LogSink.Level least) {
            log = sink;
            level = least;
            return this;
        }

        public QuarryRuntime build() {
            return new QuarryRuntime(this);
        }
    }

    private QuarryRuntime(Builder from) {
        super(RUNTIME, Native.runtimeCreate(Native.bytes(from.backendPath), Native.bytes(from.preparePath), from.onlyGiven, from.log, from.level.ordinal() + 1));
    }

    /** A candidate for a backend, and why it is usable or not. */
    public static final class Backend {
        public final String id, path, version, verdict, hint;
        public final boolean usable;
        public final List<Device> devices;

        Backend(Object[] row) {
            id = Native.text((byte[]) row[0]);
            path = Native.text((byte[]) row[1]);
            version = Native.text((byte[]) row[2]);
            verdict = Native.text((byte[]) row[3]);
            hint = Native.text((byte[]) row[4]);
            usable = ((long[]) row[5])[0] != 0;
            List<Device> list = new ArrayList<>();
            for (Object device : (Object[]) row[6]) list.add(new Device((Object[]) device));
            devices = Collections.unmodifiableList(list);
        }

        @Override
        public String toString() {
            return id + (usable ? " " + devices : ": " + verdict);
        }
    }

    public static final class Device {
        public final String name, target, whyNot;
        public final boolean usable;
        /** 0: not known. */
        public final long memoryBytes;

        Device(Object[] row) {
            name = Native.text((byte[]) row[0]);
            target = Native.text((byte[]) row[1]);
            whyNot = Native.text((byte[]) row[2]);
            usable = ((long[]) row[3])[0] != 0;
            memoryBytes = ((long[]) row[3])[1];
        }

        @Override
        public String toString() {
            return usable ? name : name + ": " + whyNot;
        }
    }

    /** Looks for plugins; opens the usable ones. */
    public List<Backend> backends() {
        long handle = enter();
        try {
            List<Backend> list = new ArrayList<>();
            for (Object row : Native.backends(handle)) list.add(new Backend((Object[]) row));
            return Collections.unmodifiableList(list);
        } finally {
            exit();
        }
    }

    public Model open(String path) {
        return open(path, null, null, null);
    }

    public Model open(Path path) {
        return open(path.toString(), null, null, null);
    }

    /** An .onnx or .qrm file. Options of use: "verify", "container.map", of ONNX "shape" and "model.folder". The last three may be null. */
    public Model open(String path, Map<String, String> options, Signal signal, Progress progress) {
        byte[] name = Native.bytes(path);
        return new Model(this, null, options, signal, (of, settings, stop) -> Native.modelOpen(of, name, null, -1, 0, 0, settings, stop, progress));
    }

    /**
     * A part of an open file, as an entry of an Android package that is not compressed (quarry.android.Assets). A .qrm is mapped where it lies if `offset` is a multiple of 64, else
     * read into memory. `descriptor` (ParcelFileDescriptor.getFd) may be closed when this returns; a `size` of 0 is all the rest of the file. Not on Windows. The last three may be null.
     */
    public Model open(int descriptor, long offset, long size, Map<String, String> options, Signal signal, Progress progress) {
        if (offset < 0 || size < 0)
            throw QuarryException.refused("open: found the offset " + offset + " and the size " + size + ", expected none below 0", "a size of 0 is all the rest of the file");
        return new Model(this, null, options, signal, (of, settings, stop) -> Native.modelOpen(of, null, null, descriptor, offset, size, settings, stop, progress));
    }

    /** A model in a direct buffer, from its position to its limit, used where it lies: it must not change as long as the model or a session of it lives. */
    public Model open(ByteBuffer data, Map<String, String> options, Signal signal, Progress progress) {
        if (!data.isDirect()) {
            ByteBuffer copy = ByteBuffer.allocateDirect(data.remaining());
            copy.put(data.duplicate());
            copy.flip();
            return inMemory(copy, options, signal, progress);
        }
        return inMemory(data.slice(), options, signal, progress);
    }

    private Model inMemory(ByteBuffer data, Map<String, String> options, Signal signal, Progress progress) {
        return new Model(this, data, options, signal, (of, settings, stop) -> Native.modelOpen(of, null, data, -1, 0, data.remaining(), settings, stop, progress));
    }

    public Model open(byte[] data) {
        return open(ByteBuffer.wrap(data), null, null, null);
    }
}
