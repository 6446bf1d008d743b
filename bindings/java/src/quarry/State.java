// SPDX-License-Identifier: Apache-2.0
package quarry;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;

/**
 * What a session keeps from run to run (option "state"): {@link Session#state}, or a fork of one. It may outlive the session. A session runs one state at a time;
 * {@link Session#setState} has it go on from another, of a beam or of another conversation.
 */
public final class State extends NativeObject {
    State(long handle) {
        super(STATE, handle);
    }

    /** A pair of input and output that a session keeps. */
    public static final class Pair {
        public final String input, output;
        /** Along which it grows; -1: it keeps its size. */
        public final int axis;
        public final DataType type;
        private final long[] shape;
        /** Entries along the axis that there is room for; 0: it keeps its size. */
        public final long capacity;
        /** Of memory that is held. */
        public final long bytes;

        private Pair(Object[] row) {
            input = Native.text((byte[]) row[0]);
            output = Native.text((byte[]) row[1]);
            long[] numbers = (long[]) row[2];
            axis = (int) numbers[0];
            type = DataType.of((int) numbers[1]);
            capacity = numbers[2];
            bytes = numbers[3];
            shape = Arrays.copyOfRange(numbers, 4, numbers.length);
        }

        /** Now; -1: the next run says. */
        public long[] shape() {
            return shape.clone();
        }

        @Override
        public String toString() {
            return input + " <- " + output + " " + Arrays.toString(shape);
        }
    }

    /** In the order of the model's inputs. */
    public synchronized List<Pair> pairs() {
        long handle = enter();
        try {
            List<Pair> found = new ArrayList<>();
            for (Object row : Native.statePairs(handle)) found.add(new Pair((Object[]) row));
            return Collections.unmodifiableList(found);
        } finally {
            exit();
        }
    }

    /** How many entries the pairs that grow have: the tokens so far, of a decoder. 0 where none grows. */
    public synchronized long length() {
        long handle = enter();
        try {
            return Native.stateLength(handle);
        } finally {
            exit();
        }
    }

    /** How many entries the option "state.window" has dropped: the next token's position is this and the length. */
    public synchronized long dropped() {
        long handle = enter();
        try {
            return Native.stateDropped(handle);
        } finally {
            exit();
        }
    }

    /** Empties it: no entries, and zeros. */
    public synchronized void reset() {
        long handle = enter();
        try {
            Native.stateReset(handle);
        } finally {
            exit();
        }
    }

    /** Forgets the entries from {@code length} on. */
    public synchronized void rewind(long length) {
        if (length < 0) throw QuarryException.refused("length: found " + length + ", expected 0 or more", "");
        long handle = enter();
        try {
            Native.stateRewind(handle, length);
        } finally {
            exit();
        }
    }

    /** A copy, which goes on by itself. */
    public synchronized State fork() {
        long handle = enter();
        try {
            return new State(Native.stateFork(handle));
        } finally {
            exit();
        }
    }

    /** Its bytes, for {@link #load}. */
    public byte[] save() {
        return save(null);
    }

    /** Writes it to a file, for {@link #load}. */
    public void saveTo(String path) {
        save(path);
    }

    private synchronized byte[] save(String path) {
        long handle = enter();
        try {
            return Native.stateSave(handle, path == null ? null : Native.bytes(path));
        } finally {
            exit();
        }
    }

    /** Makes it what was saved, by a session of the same model. On failure nothing has changed. */
    public synchronized void load(byte[] saved) {
        long handle = enter();
        try {
            Native.stateLoad(handle, saved);
        } finally {
            exit();
        }
    }

    /** A copy of one pair's values: that of an input, or of an output. */
    public synchronized Tensor read(String name) {
        long handle = enter();
        try {
            int index = place(handle, name);
            ByteBuffer room = Tensor.room(Native.stateRead(handle, index, null)[1]);
            long[] row = Native.stateRead(handle, index, room);
            return Tensor.made(DataType.of((int) row[0]), Arrays.copyOfRange(row, 2, row.length), room);
        } finally {
            exit();
        }
    }

    /** Replaces one pair's values. One that grows may get another length. */
    public synchronized void write(String name, Tensor values) {
        long handle = enter();
        try {
            Native.stateWrite(handle, place(handle, name), values.data, values.type().number, values.dimensions());
        } finally {
            exit();
        }
    }

    private int place(long handle, String name) {
        Object[] rows = Native.statePairs(handle);
        List<String> known = new ArrayList<>();
        for (int i = 0; i < rows.length; ++i) {
            Pair pair = new Pair((Object[]) rows[i]);
            if (pair.input.equals(name) || pair.output.equals(name)) return i;
            known.add(pair.input);
        }
        throw QuarryException.refused("state: found no pair '" + name + "', expected one of " + known, "");
    }
}
