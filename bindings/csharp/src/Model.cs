// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Generic;
using System.Threading;

namespace Quarry {
    /// <summary>
    /// An opened .onnx or .qrm: immutable, for any number of threads and sessions. Of the arguments of its calls all but the first may be left out: options
    /// (docs/options.md), a signal and a token that stop the call, and who watches how far it is.
    /// </summary>
    public sealed unsafe class Model : QuarryObject {
        readonly Shared runtime, data;  // which the handle keeps; data: of a model in memory
        readonly Lazy<IReadOnlyList<TensorInfo>> inputs, outputs;

        Model(IntPtr made, Shared runtime, Shared data) : base(new Handle(made, Native.qr_model_destroy, runtime, data)) {
            this.runtime = runtime;
            this.data = data;
            inputs = new Lazy<IReadOnlyList<TensorInfo>>(ReadInputs);
            outputs = new Lazy<IReadOnlyList<TensorInfo>>(ReadOutputs);
        }

        /// <summary>Opens a file with the shared runtime: <see cref="QuarryRuntime.Open(string, IReadOnlyDictionary{string, string}, Signal, Progress, CancellationToken)"/>.</summary>
        /// <exception cref="QuarryException">The file is not there or no model; see the runtime's.</exception>
        public static Model Open(string path, IReadOnlyDictionary<string, string> options = null, Signal signal = null, Progress progress = null,
                                 CancellationToken stop = default(CancellationToken)) {
            return QuarryRuntime.Shared.Open(path, options, signal, progress, stop);
        }

        /// <summary>Opens a model in memory with the shared runtime; the bytes are copied.</summary>
        /// <exception cref="QuarryException">They are no model; see the runtime's.</exception>
        public static Model Open(byte[] data, IReadOnlyDictionary<string, string> options = null, Signal signal = null, Progress progress = null,
                                 CancellationToken stop = default(CancellationToken)) {
            return QuarryRuntime.Shared.Open(data, options, signal, progress, stop);
        }

        internal static qr_model_source Source(uint kind) {
            return new qr_model_source {struct_size = (uint)sizeof(qr_model_source), kind = kind, fd = -1, folder_fd = -1};
        }

        internal static Model Opened(QuarryRuntime from, qr_model_source source, Shared data, IReadOnlyDictionary<string, string> options, Signal signal, Progress progress,
                                     CancellationToken stop) {
            using (Held held = from.Hold())
            using (var call = new Call(held.Pointer, options, signal, progress, stop)) {
                IntPtr made;
                call.Check(Native.qr_model_open(held.Pointer, &source, call.Settings, call.Options, &made));
                return new Model(made, from.Own, data);
            }
        }

        /// <summary>What it takes, in order.</summary>
        /// <exception cref="ObjectDisposedException">It is disposed of.</exception>
        public IReadOnlyList<TensorInfo> Inputs {
            get { return inputs.Value; }
        }

        /// <summary>What it gives, in order.</summary>
        /// <exception cref="ObjectDisposedException">It is disposed of.</exception>
        public IReadOnlyList<TensorInfo> Outputs {
            get { return outputs.Value; }
        }

        IReadOnlyList<TensorInfo> ReadInputs() {
            using (Held held = Hold()) return TensorInfo.All(held.Pointer, Native.qr_model_input_count(held.Pointer), Native.qr_model_input, Native.qr_model_input_dim_name);
        }

        IReadOnlyList<TensorInfo> ReadOutputs() {
            using (Held held = Hold()) return TensorInfo.All(held.Pointer, Native.qr_model_output_count(held.Pointer), Native.qr_model_output, Native.qr_model_output_dim_name);
        }

        /// <summary>What the model carries: ONNX's metadata_props, "metadata.KEY" of a container.</summary>
        public IReadOnlyDictionary<string, string> Properties {
            get {
                var found = new Dictionary<string, string>();
                using (Held held = Hold()) {
                    ulong count = Native.qr_model_property_count(held.Pointer);
                    for (ulong i = 0; i < count; ++i) {
                        qr_string key, value;
                        QuarryException.Check(Native.qr_model_property(held.Pointer, i, &key, &value));
                        found[Text.Of(key)] = Text.Of(value);
                    }
                }
                return found;
            }
        }

        /// <summary>Everything the model says of itself, as JSON (docs/formats/inspect.md).</summary>
        /// <exception cref="QuarryException"><see cref="Code.Cancelled"/>, <see cref="Code.DeadlineExceeded"/>, <see cref="Code.ResourceExhausted"/></exception>
        public string Inspect(Signal signal = null, CancellationToken stop = default(CancellationToken)) {
            using (Held held = Hold())
            using (var call = new Call(runtime.Pointer, null, signal, null, stop)) {
                byte* json;
                call.Check(Native.qr_model_inspect(held.Pointer, call.Options, &json));
                return Text.Take(json);
            }
        }

        /// <summary>Asks a backend about every node, and compiles nothing: JSON, as qr_model_check describes it.</summary>
        /// <exception cref="QuarryException"><see cref="Code.InvalidArgument"/>, <see cref="Code.NotFound"/>, <see cref="Code.Unsupported"/>: the model has no graph</exception>
        public string Check(IReadOnlyDictionary<string, string> options = null, Signal signal = null, Progress progress = null, CancellationToken stop = default(CancellationToken)) {
            using (Held held = Hold())
            using (var call = new Call(runtime.Pointer, options, signal, progress, stop)) {
                byte* json;
                call.Check(Native.qr_model_check(held.Pointer, call.Settings, call.Options, &json));
                return Text.Take(json);
            }
        }

        /// <summary>Reads every byte and checks all sums and rules.</summary>
        /// <exception cref="QuarryException"><see cref="Code.Corrupt"/>, <see cref="Code.NotFound"/> (external data), <see cref="Code.Unsupported"/></exception>
        public void Verify(Signal signal = null, Progress progress = null, CancellationToken stop = default(CancellationToken)) {
            using (Held held = Hold())
            using (var call = new Call(runtime.Pointer, null, signal, progress, stop)) call.Check(Native.qr_model_verify(held.Pointer, call.Options));
        }

        /// <summary>How well a container fits the backend that the options name; nothing is loaded. <paramref name="reason"/>: one line, found and expected.</summary>
        /// <exception cref="QuarryException"><see cref="Code.NotFound"/>: there is no such backend, or the container has nothing for it</exception>
        public Compatibility GetCompatibility(out string reason, IReadOnlyDictionary<string, string> options = null, Signal signal = null,
                                              CancellationToken stop = default(CancellationToken)) {
            using (Held held = Hold())
            using (var call = new Call(runtime.Pointer, options, signal, null, stop)) {
                int grade;
                byte* why;
                call.Check(Native.qr_model_compatibility(held.Pointer, call.Settings, call.Options, &grade, &why));
                reason = Text.Take(why);
                return (Compatibility)Math.Min(Math.Max(grade, (int)Compatibility.Optimal), (int)Compatibility.Incompatible);
            }
        }

        /// <summary>The same without the reason.</summary>
        /// <exception cref="QuarryException"><see cref="Code.NotFound"/>: there is no such backend, or the container has nothing for it</exception>
        public Compatibility GetCompatibility(IReadOnlyDictionary<string, string> options = null, Signal signal = null, CancellationToken stop = default(CancellationToken)) {
            return GetCompatibility(out _, options, signal, stop);
        }

        /// <summary>Compiles into a container, or, where the path ends in ".onnx", into what ONNX Runtime loads. The file appears whole or not at all.</summary>
        /// <exception cref="QuarryException"><see cref="Code.Unsupported"/> (nodes that the backend refuses, a "reason" detail for each), <see cref="Code.InvalidArgument"/>,
        /// <see cref="Code.NotFound"/>, <see cref="Code.Cancelled"/>, <see cref="Code.DeadlineExceeded"/>, <see cref="Code.PermissionDenied"/>, <see cref="Code.ResourceExhausted"/></exception>
        public void Compile(string path, IReadOnlyDictionary<string, string> options = null, Signal signal = null, Progress progress = null,
                            CancellationToken stop = default(CancellationToken)) {
            WriteTo(Native.qr_model_compile, path, options, signal, progress, stop);
        }

        /// <summary>Compiles into a container in memory.</summary>
        /// <exception cref="QuarryException">As for a file; <see cref="Code.InvalidArgument"/>: it has more bytes than an array</exception>
        public byte[] CompileToBytes(IReadOnlyDictionary<string, string> options = null, Signal signal = null, Progress progress = null, CancellationToken stop = default(CancellationToken)) {
            using (Held held = Hold())
            using (var call = new Call(runtime.Pointer, options, signal, progress, stop)) {
                qr_target to = Target.Of(Native.QR_TARGET_MEMORY);
                void* bytes = null;
                ulong size = 0;
                to.out_data = &bytes;
                to.out_size_bytes = &size;
                call.Check(Native.qr_model_compile(held.Pointer, call.Settings, &to, call.Options));
                return Target.Take(bytes, size);
            }
        }

        /// <summary>Writes the graph as it is after the passes that all backends share: the path ends in ".onnx", ".onnx.data" (constants in that file) or ".json".</summary>
        /// <exception cref="QuarryException">As <see cref="Compile"/>; <see cref="Code.Unsupported"/>: ONNX has no form for a node</exception>
        public void Export(string path, IReadOnlyDictionary<string, string> options = null, Signal signal = null, Progress progress = null,
                           CancellationToken stop = default(CancellationToken)) {
            WriteTo(Native.qr_model_export, path, options, signal, progress, stop);
        }

        delegate IntPtr Writer(IntPtr model, IntPtr options, qr_target* target, qr_call_options* call);

        void WriteTo(Writer writer, string path, IReadOnlyDictionary<string, string> options, Signal signal, Progress progress, CancellationToken stop) {
            byte[] name = Text.Bytes(path);
            using (Held held = Hold())
            using (var call = new Call(runtime.Pointer, options, signal, progress, stop))
                fixed (byte* at = name) {
                    qr_target to = Target.Of(Native.QR_TARGET_PATH);
                    to.path = Text.View(at, name);
                    call.Check(writer(held.Pointer, call.Settings, &to, call.Options));
                }
        }

        /// <summary>An execution state on the backend that the options name, or cpu. Nothing falls back: a node that the backend refuses is an error with its reason.</summary>
        /// <exception cref="QuarryException"><see cref="Code.NotFound"/> (backend, context), <see cref="Code.Incompatible"/>, <see cref="Code.Unsupported"/>,
        /// <see cref="Code.InvalidArgument"/>, <see cref="Code.Cancelled"/>, <see cref="Code.DeadlineExceeded"/>, <see cref="Code.Unavailable"/>, <see cref="Code.ResourceExhausted"/></exception>
        public Session CreateSession(IReadOnlyDictionary<string, string> options = null, Signal signal = null, Progress progress = null,
                                     CancellationToken stop = default(CancellationToken)) {
            using (Held held = Hold())
            using (var call = new Call(runtime.Pointer, options, signal, progress, stop)) {
                IntPtr made;
                call.Check(Native.qr_session_create(held.Pointer, call.Settings, call.Options, &made));
                return new Session(made, runtime, data);
            }
        }

        /// <summary>Bytes that such a session would need; none is created.</summary>
        /// <exception cref="QuarryException">As <see cref="CreateSession"/></exception>
        public MemoryPlan Plan(IReadOnlyDictionary<string, string> options = null, Signal signal = null, Progress progress = null, CancellationToken stop = default(CancellationToken)) {
            using (Held held = Hold())
            using (var call = new Call(runtime.Pointer, options, signal, progress, stop)) {
                var plan = new qr_memory_plan {struct_size = (uint)sizeof(qr_memory_plan)};
                call.Check(Native.qr_session_plan(held.Pointer, call.Settings, call.Options, &plan));
                return new MemoryPlan(plan);
            }
        }
    }
}
