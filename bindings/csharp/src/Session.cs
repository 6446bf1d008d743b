// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Generic;
using System.Threading;
using System.Threading.Tasks;

namespace Quarry {
    /// <summary>
    /// One execution state of a model on one backend: one run at a time; <see cref="Clone"/> gives another thread its own, which shares weights and programs. Calls that
    /// overlap on one session are refused with <see cref="Code.FailedPrecondition"/>, but for <see cref="SubmitAsync(Tensor[])"/>.
    /// </summary>
    public sealed unsafe class Session : QuarryObject {
        readonly Shared runtime, data;  // which the handle keeps; data: of a model in memory
        readonly RunQueue queue = new RunQueue();

        internal Session(IntPtr made, Shared runtime, Shared data) : base(new Handle(made, Native.qr_session_destroy, runtime, data)) {
            this.runtime = runtime;
            this.data = data;
            try {
                using (Held held = Hold()) {
                    Inputs = TensorInfo.All(held.Pointer, Native.qr_session_input_count(held.Pointer), Native.qr_session_input, null);
                    Outputs = TensorInfo.All(held.Pointer, Native.qr_session_output_count(held.Pointer), Native.qr_session_output, null);
                }
            } catch {
                Handle.Dispose();
                throw;
            }
        }

        /// <summary>What it takes, in order.</summary>
        public IReadOnlyList<TensorInfo> Inputs { get; }

        /// <summary>What it gives, in order.</summary>
        public IReadOnlyList<TensorInfo> Outputs { get; }

        /// <summary>Runs the network on tensors in the order of <see cref="Inputs"/>; results are in that of <see cref="Outputs"/>, in new memory.</summary>
        /// <exception cref="QuarryException"><see cref="Code.InvalidArgument"/> (number, type or shape: found and expected), <see cref="Code.DeviceLost"/> (<see cref="Recover"/>),
        /// <see cref="Code.Busy"/> (try again), <see cref="Code.ResourceExhausted"/></exception>
        /// <exception cref="ObjectDisposedException">It is disposed of.</exception>
        public Tensor[] Run(params Tensor[] inputs) {
            return Run(inputs, null);
        }

        /// <summary>
        /// Runs the network. <paramref name="room"/>: tensors for the outputs, of any shape that is large enough, in whose memory the results are; null, or an entry null:
        /// there is new memory. A signal, a token or both stop it.
        /// </summary>
        /// <exception cref="QuarryException">As above; <see cref="Code.OutOfRange"/>: an output's room is too small; <see cref="Code.Cancelled"/>,
        /// <see cref="Code.DeadlineExceeded"/>: by the signal</exception>
        /// <exception cref="OperationCanceledException">By <paramref name="stop"/>.</exception>
        public Tensor[] Run(Tensor[] inputs, Tensor[] room, Signal signal = null, CancellationToken stop = default(CancellationToken)) {
            using (var all = new Arguments(Inputs, Outputs, inputs, room, false))
            using (Held held = Hold())
            using (var stopper = new Stopper(runtime.Pointer, signal, stop)) {
                var options = new qr_run_options {struct_size = (uint)sizeof(qr_run_options), signal = stopper.Pointer};
                stopper.Check(Native.qr_session_run(held.Pointer, &options, all.Inputs, all.InputCount, all.Outputs, all.OutputCount));
                return all.Results();
            }
        }

        /// <summary>Runs the network on tensors by their names.</summary>
        /// <exception cref="QuarryException">As above; <see cref="Code.InvalidArgument"/>: the names are not those of <see cref="Inputs"/></exception>
        public Dictionary<string, Tensor> Run(IReadOnlyDictionary<string, Tensor> inputs, Signal signal = null, CancellationToken stop = default(CancellationToken)) {
            if (inputs == null) throw new ArgumentNullException("inputs");
            var given = new Tensor[Inputs.Count];
            int found = 0;
            for (int i = 0; i < given.Length; ++i)
                if (inputs.TryGetValue(Inputs[i].Name, out given[i])) ++found;
            if (found != given.Length || found != inputs.Count)
                throw QuarryException.Refused("inputs: found [" + string.Join(", ", inputs.Keys) + "], expected [" + string.Join(", ", Names(Inputs)) + "]");
            Tensor[] made = Run(given, null, signal, stop);
            var results = new Dictionary<string, Tensor>();
            for (int i = 0; i < made.Length; ++i) results[Outputs[i].Name] = made[i];
            return results;
        }

        static IEnumerable<string> Names(IReadOnlyList<TensorInfo> of) {
            foreach (TensorInfo info in of) yield return info.Name;
        }

        /// <summary>Queues a run: <see cref="SubmitAsync(Tensor[], Tensor[], Signal, CancellationToken)"/>.</summary>
        public Task<Tensor[]> SubmitAsync(params Tensor[] inputs) {
            return SubmitAsync(inputs, null);
        }

        /// <summary>
        /// Queues a run and returns. At most "queue_depth" (an option) are under way: the task of one more fails with <see cref="Code.Busy"/>. Runs of a session end in the
        /// order in which they were submitted; the token aborts the one. Results lie in <paramref name="room"/>, or, where it or an entry is null, in new memory, for outputs
        /// whose shapes are known before. Any thread may call it. The tensors' data are not to be changed until the task has ended.
        /// </summary>
        /// <exception cref="QuarryException"><see cref="Code.InvalidArgument"/>: what the tensors show before they are queued. All else is the task's: what
        /// <see cref="Run(Tensor[], Tensor[], Signal, CancellationToken)"/> says, and <see cref="Code.Busy"/></exception>
        /// <exception cref="ObjectDisposedException">It is disposed of.</exception>
        public Task<Tensor[]> SubmitAsync(Tensor[] inputs, Tensor[] room, Signal signal = null, CancellationToken stop = default(CancellationToken)) {
            if (stop.IsCancellationRequested) return Task.FromCanceled<Tensor[]>(stop);
            var all = new Arguments(Inputs, Outputs, inputs, room, true);
            if (signal == null) return queue.Submit(Handle, all, IntPtr.Zero, stop);
            Held held;
            try {
                held = signal.Hold();
            } catch {
                all.Dispose();
                throw;
            }
            using (held) return queue.Submit(Handle, all, held.Pointer, stop);  // from here on the run keeps it
        }

        /// <summary>Queued runs end with <see cref="Code.Cancelled"/>; what is inside goes on.</summary>
        public override void Dispose() {
            try {
                using (Held held = Hold()) Native.qr_session_abort(held.Pointer, 0);
            } catch (ObjectDisposedException) {
                return;
            }
            base.Dispose();
        }

        /// <summary>Another execution state that shares weights and programs.</summary>
        /// <exception cref="QuarryException"><see cref="Code.ResourceExhausted"/>, <see cref="Code.Unavailable"/>, <see cref="Code.Cancelled"/>, <see cref="Code.DeadlineExceeded"/></exception>
        public Session Clone(Signal signal = null, Progress progress = null, CancellationToken stop = default(CancellationToken)) {
            using (Held held = Hold())
            using (var call = new Call(runtime.Pointer, null, signal, progress, stop)) {
                IntPtr made;
                call.Check(Native.qr_session_clone(held.Pointer, call.Options, &made));
                return new Session(made, runtime, data);
            }
        }

        /// <summary>Runs each shape bucket once on zeros, so that the next run takes as long as those after it.</summary>
        /// <exception cref="QuarryException">As <see cref="Run(Tensor[], Tensor[], Signal, CancellationToken)"/></exception>
        public void WarmUp(Signal signal = null, CancellationToken stop = default(CancellationToken)) {
            using (Held held = Hold())
            using (var stopper = new Stopper(runtime.Pointer, signal, stop)) {
                var options = new qr_run_options {struct_size = (uint)sizeof(qr_run_options), signal = stopper.Pointer};
                stopper.Check(Native.qr_session_warm_up(held.Pointer, &options));
            }
        }

        /// <summary>Changes an option that may change while the session lives.</summary>
        /// <exception cref="QuarryException"><see cref="Code.NotFound"/>, <see cref="Code.InvalidArgument"/>, <see cref="Code.FailedPrecondition"/> (it may not change),
        /// <see cref="Code.Unsupported"/></exception>
        public void SetOption(string key, string value) {
            byte[] name = Text.Bytes(key), given = Text.Bytes(value);
            using (Held held = Hold())
                fixed (byte* nameAt = name, givenAt = given) QuarryException.Check(Native.qr_session_set_option(held.Pointer, Text.View(nameAt, name), Text.View(givenAt, given)));
        }

        /// <summary>Brings the device back after <see cref="Code.DeviceLost"/>, for all sessions on it.</summary>
        /// <exception cref="QuarryException"><see cref="Code.DeviceLost"/> (still), <see cref="Code.Unsupported"/> (create a new session), <see cref="Code.Cancelled"/>,
        /// <see cref="Code.DeadlineExceeded"/></exception>
        public void Recover(Signal signal = null, Progress progress = null, CancellationToken stop = default(CancellationToken)) {
            using (Held held = Hold())
            using (var call = new Call(runtime.Pointer, null, signal, progress, stop)) call.Check(Native.qr_session_recover(held.Pointer, call.Options));
        }

        /// <summary>The state that the next run goes on from; each call gives another object for it.</summary>
        /// <exception cref="QuarryException"><see cref="Code.FailedPrecondition"/>: the session keeps none (option "state")</exception>
        public State GetState() {
            using (Held held = Hold()) {
                IntPtr made;
                QuarryException.Check(Native.qr_session_state(held.Pointer, &made));
                return new State(new Handle(made, Native.qr_state_destroy));
            }
        }

        /// <summary>Has runs go on from another state, of this session or of a clone of it.</summary>
        /// <exception cref="QuarryException"><see cref="Code.InvalidArgument"/>: it is of another model, device or session</exception>
        public void SetState(State state) {
            if (state == null) throw new ArgumentNullException("state");
            using (Held held = Hold())
            using (Held other = state.Hold()) QuarryException.Check(Native.qr_session_set_state(held.Pointer, other.Pointer));
        }

        /// <summary>
        /// Makes tokens of this session, which is a decoder with the option "state", on a clone of it: weights are shared, the state is the generator's own. One without
        /// state is given all tokens in each run. <paramref name="options"/>: null: the most probable token, until the state is full.
        /// </summary>
        /// <exception cref="QuarryException"><see cref="Code.Unsupported"/> (QR-R0032: what is no decoder of it), <see cref="Code.InvalidArgument"/> (an option),
        /// <see cref="Code.Unavailable"/> (the program has no libquarry-generate), <see cref="Code.ResourceExhausted"/></exception>
        public Generator CreateGenerator(GeneratorOptions options = null, Signal signal = null, CancellationToken stop = default(CancellationToken)) {
            LibraryLoader.LoadBeside("generate", "text generation");
            using (Held held = Hold())
            using (var call = new Call(runtime.Pointer, null, signal, null, stop)) return Generator.Created(held.Pointer, options ?? new GeneratorOptions(), call, runtime, data);
        }

        /// <summary>
        /// Reads an adapter (safetensors or ONNX) for this session, its clones, and others of the same weights (option "adapter.targets"). <paramref name="alpha"/>: lora_alpha; 0:
        /// as adapter_config.json beside the file, or its metadata, say. <paramref name="strength"/> scales it once more.
        /// </summary>
        /// <exception cref="QuarryException"><see cref="Code.FailedPrecondition"/> (no weight may change), <see cref="Code.Corrupt"/>, <see cref="Code.Incompatible"/> (names, shapes or
        /// ranks), <see cref="Code.Unsupported"/>, <see cref="Code.InvalidArgument"/> (nothing says alpha), <see cref="Code.NotFound"/></exception>
        public Adapter OpenAdapter(string path, float alpha = 0, float strength = 1, Signal signal = null, Progress progress = null,
                                   CancellationToken stop = default(CancellationToken)) {
            var how = new qr_adapter_options {struct_size = (uint)sizeof(qr_adapter_options), alpha = alpha, strength = strength};
            byte[] name = Text.Bytes(path);
            fixed (byte* at = name) {
                var source = Model.Source(Native.QR_SOURCE_PATH);
                source.path = Text.View(at, name);
                using (Held held = Hold())
                using (var call = new Call(runtime.Pointer, null, signal, progress, stop)) {
                    IntPtr made;
                    call.Check(Native.qr_adapter_open(held.Pointer, &source, &how, call.Options, &made));
                    return new Adapter(new Handle(made, Native.qr_adapter_destroy));
                }
            }
        }

        /// <summary>Has the runs from now on compute with an adapter, or with none (null).</summary>
        /// <exception cref="QuarryException"><see cref="Code.InvalidArgument"/>: it is for other weights; <see cref="Code.FailedPrecondition"/>: no weight may change</exception>
        public void SetAdapter(Adapter adapter) {
            using (Held held = Hold()) {
                if (adapter == null) QuarryException.Check(Native.qr_session_set_adapter(held.Pointer, IntPtr.Zero));
                else
                    using (Held other = adapter.Hold()) QuarryException.Check(Native.qr_session_set_adapter(held.Pointer, other.Pointer));
            }
        }

        /// <summary>What the session is, as JSON: backend, device, context, memory, options in force.</summary>
        /// <exception cref="QuarryException"><see cref="Code.ResourceExhausted"/></exception>
        public string Report() {
            using (Held held = Hold()) {
                byte* json;
                QuarryException.Check(Native.qr_session_report(held.Pointer, &json));
                return Text.Take(json);
            }
        }
    }
}
