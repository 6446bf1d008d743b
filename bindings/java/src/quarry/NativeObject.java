// SPDX-License-Identifier: Apache-2.0
package quarry;

import java.lang.ref.PhantomReference;
import java.lang.ref.ReferenceQueue;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** An object of the library's. Closing waits for no call: what is inside goes on, and the last one out frees it. What is not closed is freed with the garbage. */
abstract class NativeObject implements AutoCloseable {
    static final int RUNTIME = 0, MODEL = 1, SESSION = 2, SIGNAL = 3, OPTIONS = 4, STATE = 5, ADAPTER = 6, GENERATOR = 7, TOKENIZER = 8, TEXT_STREAM = 9, MEMORY = 10;

    private static final Set<State> LIVING = ConcurrentHashMap.newKeySet();
    private static final ReferenceQueue<NativeObject> QUEUE = new ReferenceQueue<>();

    static {
        Thread reaper = new Thread(NativeObject::reap, "quarry-reaper");
        reaper.setDaemon(true);
        reaper.start();
    }

    private static void reap() {
        while (true) {
            try {
                ((State) QUEUE.remove()).close();
            } catch (InterruptedException nobodysBusiness) {
                // goes on: it has no other end
            }
        }
    }

    private static final class State extends PhantomReference<NativeObject> {
        private final int kind;
        private final long handle;
        private final NativeObject parent;
        @SuppressWarnings("unused")
        private final Object keeps;
        private int users;
        private boolean closed;

        State(NativeObject of, int kind, long handle, NativeObject parent, Object keeps) {
            super(of, QUEUE);
            this.kind = kind;
            this.handle = handle;
            this.parent = parent;
            this.keeps = keeps;
        }

        // Of a child: whoever made it has entered its parent.
        private void destroy() {
            switch (kind) {
                case GENERATOR:
                    GenerateNative.destroy(handle);
                    break;
                case TOKENIZER:
                    TokenizerNative.destroy(handle);
                    break;
                case TEXT_STREAM:
                    TokenizerNative.destroyStream(handle);
                    break;
                default:
                    Native.destroy(kind, handle);
            }
            if (parent != null) parent.exit();
        }

        synchronized boolean enter() {
            if (closed) return false;
            ++users;
            return true;
        }

        synchronized void exit() {
            if (--users == 0 && closed) destroy();
        }

        void close() {
            LIVING.remove(this);
            clear();
            synchronized (this) {
                if (closed) return;
                closed = true;
                if (users == 0) destroy();
            }
        }
    }

    private final State state;

    NativeObject(int kind, long handle) {
        this(kind, handle, null, null);
    }

    /** {@code parent}: was entered, and is left when this object is freed; {@code keeps}: memory that the library works on until then. Both may be null. */
    NativeObject(int kind, long handle, NativeObject parent, Object keeps) {
        state = new State(this, kind, handle, parent, keeps);
        LIVING.add(state);
    }

    /** The handle, which stays until {@link #exit}. */
    final long enter() {
        if (!state.enter()) throw new IllegalStateException(getClass().getSimpleName() + " is closed");
        return state.handle;
    }

    /** The handle, of an object that was entered before and not left. */
    final long held() {
        return state.handle;
    }

    final void exit() {
        state.exit();
    }

    @Override
    public void close() {
        state.close();
    }
}
