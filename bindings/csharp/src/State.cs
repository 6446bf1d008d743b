// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Generic;

namespace Quarry {
    /// <summary>
    /// What a session keeps from run to run (option "state"): <see cref="Session.GetState"/>, or a fork of one. It may outlive the session. A session runs one state at a
    /// time; <see cref="Session.SetState"/> has it go on from another, of a beam or of another conversation. Its calls wait for each other; none may be made while a run goes
    /// on from it.
    /// </summary>
    public sealed unsafe class State : QuarryObject {
        readonly object one = new object();

        internal State(Handle handle) : base(handle) { }

        /// <summary>In the order of the model's inputs.</summary>
        public IReadOnlyList<StatePair> Pairs {
            get {
                lock (one)
                    using (Held held = Hold()) return All(held.Pointer).AsReadOnly();
            }
        }

        static List<StatePair> All(IntPtr state) {
            var found = new List<StatePair>();
            ulong count = Native.qr_state_count(state);
            for (ulong i = 0; i < count; ++i) {
                var info = new qr_state_info {struct_size = (uint)sizeof(qr_state_info)};
                QuarryException.Check(Native.qr_state_tensor(state, i, &info));
                found.Add(new StatePair(info));
            }
            return found;
        }

        /// <summary>How many entries the pairs that grow have: the tokens so far, of a decoder. 0 where none grows.</summary>
        public long Length {
            get {
                lock (one)
                    using (Held held = Hold()) {
                        ulong length;
                        QuarryException.Check(Native.qr_state_length(held.Pointer, &length));
                        return (long)length;
                    }
            }
        }

        /// <summary>How many entries the option "state.window" has dropped: the next token's position is this and the length.</summary>
        public long Dropped {
            get {
                lock (one)
                    using (Held held = Hold()) {
                        ulong dropped;
                        QuarryException.Check(Native.qr_state_dropped(held.Pointer, &dropped));
                        return (long)dropped;
                    }
            }
        }

        /// <summary>Empties it: no entries, and zeros. Memory is kept.</summary>
        public void Reset() {
            lock (one)
                using (Held held = Hold()) QuarryException.Check(Native.qr_state_reset(held.Pointer));
        }

        /// <summary>Forgets the entries from <paramref name="length"/> on.</summary>
        /// <exception cref="QuarryException"><see cref="Code.OutOfRange"/> (past the length), <see cref="Code.Unsupported"/> (a pair that keeps its size goes back to 0 alone)</exception>
        public void Rewind(long length) {
            if (length < 0) throw QuarryException.Refused("length: found " + length + ", expected 0 or more");
            lock (one)
                using (Held held = Hold()) QuarryException.Check(Native.qr_state_rewind(held.Pointer, (ulong)length));
        }

        /// <summary>A copy, which goes on by itself.</summary>
        /// <exception cref="QuarryException"><see cref="Code.ResourceExhausted"/></exception>
        public State Fork() {
            lock (one)
                using (Held held = Hold()) {
                    IntPtr made;
                    QuarryException.Check(Native.qr_state_fork(held.Pointer, &made));
                    return new State(new Handle(made, Native.qr_state_destroy));
                }
        }

        /// <summary>Its bytes, for <see cref="Load"/>.</summary>
        /// <exception cref="QuarryException"><see cref="Code.ResourceExhausted"/>; <see cref="Code.InvalidArgument"/>: it has more bytes than an array</exception>
        public byte[] Save() {
            lock (one)
                using (Held held = Hold()) {
                    qr_target to = Target.Of(Native.QR_TARGET_MEMORY);
                    void* bytes = null;
                    ulong size = 0;
                    to.out_data = &bytes;
                    to.out_size_bytes = &size;
                    QuarryException.Check(Native.qr_state_save(held.Pointer, &to, null));
                    return Target.Take(bytes, size);
                }
        }

        /// <summary>Writes it to a file, for <see cref="Load"/>. The file appears whole or not at all.</summary>
        /// <exception cref="QuarryException"><see cref="Code.PermissionDenied"/>, <see cref="Code.NotFound"/>, <see cref="Code.ResourceExhausted"/></exception>
        public void SaveTo(string path) {
            byte[] name = Text.Bytes(path);
            lock (one)
                using (Held held = Hold())
                    fixed (byte* at = name) {
                        qr_target to = Target.Of(Native.QR_TARGET_PATH);
                        to.path = Text.View(at, name);
                        QuarryException.Check(Native.qr_state_save(held.Pointer, &to, null));
                    }
        }

        /// <summary>Makes it what was saved, by a session of the same model. On failure nothing has changed.</summary>
        /// <exception cref="QuarryException"><see cref="Code.Corrupt"/>, <see cref="Code.Incompatible"/>, <see cref="Code.ResourceExhausted"/> (more entries than "state.capacity")</exception>
        public void Load(byte[] saved) {
            if (saved == null) throw new ArgumentNullException("saved");
            lock (one)
                using (Held held = Hold())
                    fixed (byte* at = saved) QuarryException.Check(Native.qr_state_load(held.Pointer, at, (ulong)saved.Length));
        }

        /// <summary>A copy of one pair's values, by its name as an input or as an output.</summary>
        /// <exception cref="QuarryException"><see cref="Code.InvalidArgument"/> (there is no such pair), <see cref="Code.FailedPrecondition"/> (no run has said its shape)</exception>
        public Tensor Read(string name) {
            lock (one)
                using (Held held = Hold()) {
                    ulong index = Place(held.Pointer, name);
                    var tensor = new qr_tensor {struct_size = (uint)sizeof(qr_tensor)};
                    QuarryException.Check(Native.qr_state_read(held.Pointer, index, &tensor));
                    DataType type = DataTypes.Of(tensor.dtype);
                    Storage room = Storage.ForResult(type, (long)tensor.size_bytes);
                    using (PinnedTensor pinned = room.Pin(room.SizeBytes)) {
                        tensor.data = (void*)pinned.Address;
                        tensor.size_bytes = (ulong)pinned.SizeBytes;
                        QuarryException.Check(Native.qr_state_read(held.Pointer, index, &tensor));
                        return Tensor.Made(type, Arguments.Shape(&tensor), room);
                    }
                }
        }

        /// <summary>Replaces one pair's values. One that grows may get another length: before the next run all have the same.</summary>
        /// <exception cref="QuarryException"><see cref="Code.InvalidArgument"/> (no such pair, type or shape), <see cref="Code.ResourceExhausted"/> (more entries than
        /// "state.capacity")</exception>
        public void Write(string name, Tensor values) {
            if (values == null) throw new ArgumentNullException("values");
            lock (one)
                using (Held held = Hold())
                using (PinnedTensor pinned = values.Pin()) {
                    var tensor = new qr_tensor {struct_size = (uint)sizeof(qr_tensor), const_data = (void*)pinned.Address, size_bytes = (ulong)pinned.SizeBytes};
                    Arguments.Describe(values, &tensor);
                    QuarryException.Check(Native.qr_state_write(held.Pointer, Place(held.Pointer, name), &tensor));
                }
        }

        static ulong Place(IntPtr state, string name) {
            List<StatePair> pairs = All(state);
            var known = new List<string>();
            for (int i = 0; i < pairs.Count; ++i) {
                if (pairs[i].Input == name || pairs[i].Output == name) return (ulong)i;
                known.Add(pairs[i].Input);
            }
            throw QuarryException.Refused("state: found no pair '" + name + "', expected one of [" + string.Join(", ", known) + "]");
        }
    }
}
