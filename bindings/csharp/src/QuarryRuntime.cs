// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Generic;
using System.IO;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Threading;

namespace Quarry {
    /// <summary>
    /// The plugins that were found, and the log. Models and sessions hold their runtime: it may be disposed of at any time. Most programs need no more than
    /// <see cref="Shared"/>, which <see cref="Model.Open(string, IReadOnlyDictionary{string, string}, Signal, Progress, CancellationToken)"/> uses.
    /// </summary>
    public sealed unsafe class QuarryRuntime : QuarryObject {
        static readonly Lazy<QuarryRuntime> shared = new Lazy<QuarryRuntime>(() => new Builder().Build());
        // Kept here: the library has its address.
        static readonly qr_log_sink_write WriteDelegate = Write;
        static readonly IntPtr WriteAddress = Marshal.GetFunctionPointerForDelegate(WriteDelegate);

        readonly object scanning = new object();

        QuarryRuntime(Shared own) : base(new Handle(own.Pointer, null, own)) {
            own.Drop();  // the handle keeps it
            Own = own;
        }

        /// <summary>For what is made from it, which may be used when this is closed.</summary>
        internal Shared Own { get; }

        /// <summary>The one that is used where none is given. Nobody disposes of it.</summary>
        /// <exception cref="DllNotFoundException">The library cannot be loaded.</exception>
        public static QuarryRuntime Shared {
            get { return shared.Value; }
        }

        /// <summary>The version of the library, "major.minor.patch".</summary>
        /// <exception cref="DllNotFoundException">The library cannot be loaded.</exception>
        public static string Version {
            get {
                LibraryLoader.Load();
                return OwnVersion();
            }
        }

        // Mono looks for a function when it compiles what calls it: Load has a caller of its own.
        [MethodImpl(MethodImplOptions.NoInlining)]
        static string OwnVersion() {
            return Text.Of(Native.qr_version());
        }

        /// <summary>What a runtime is made with.</summary>
        public sealed class Builder {
            string backendPath = "", preparePath = "";
            bool onlyGiven;
            LogSink log;
            LogLevel least = LogLevel.Warn;

            /// <summary>Folders to look for plugins in, before the others, with <see cref="Path.PathSeparator"/> between.</summary>
            public Builder BackendPath(string folders) {
                backendPath = folders ?? "";
                return this;
            }

            /// <summary>Neither QUARRY_BACKEND_PATH nor the folders of the library's own are searched for plugins.</summary>
            public Builder OnlyGivenPaths() {
                onlyGiven = true;
                return this;
            }

            /// <summary>The file of the compiler library, libquarry-prepare; empty: it lies beside libquarry.</summary>
            public Builder PreparePath(string file) {
                preparePath = file ?? "";
                return this;
            }

            /// <summary>Where log lines of this level and the more important ones go. The sink lives as long as the program: what was made from a runtime may log later.</summary>
            public Builder Log(LogSink sink, LogLevel level) {
                log = sink;
                least = level;
                return this;
            }

            /// <summary>Starts no thread and opens no plugin.</summary>
            /// <exception cref="DllNotFoundException">The library cannot be loaded.</exception>
            /// <exception cref="QuarryException"><see cref="Code.InvalidArgument"/>, <see cref="Code.ResourceExhausted"/></exception>
            public QuarryRuntime Build() {
                LibraryLoader.Load();
                return Create();
            }

            [MethodImpl(MethodImplOptions.NoInlining)]
            QuarryRuntime Create() {
                CallbackThread.Prepare();
                byte[] folders = Text.Bytes(onlyGiven ? backendPath : WithPackage(backendPath)), prepare = Text.Bytes(preparePath);
                var sink = new qr_log_sink {struct_size = (uint)sizeof(qr_log_sink), level = (int)least, write = WriteAddress};
                var options = new qr_runtime_options {struct_size = (uint)sizeof(qr_runtime_options), flags = onlyGiven ? Native.QR_RUNTIME_ONLY_GIVEN_PATHS : 0};
                GCHandle self = default(GCHandle);
                if (log != null) {
                    self = GCHandle.Alloc(log);
                    sink.self = (void*)GCHandle.ToIntPtr(self);
                    options.log = &sink;
                }
                IntPtr made, status;
                fixed (byte* foldersAt = folders, prepareAt = prepare) {
                    options.backend_path = Text.View(foldersAt, folders);
                    options.prepare_path = Text.View(prepareAt, prepare);
                    status = Native.qr_runtime_create(&options, &made);
                }
                if (status != IntPtr.Zero && self.IsAllocated) self.Free();
                QuarryException.Check(status);
                return new QuarryRuntime(new Shared(made, Native.qr_runtime_destroy));
            }

            // NuGet puts all native files of a package into one folder: plugins lie beside the library, where it does not look by itself.
            static string WithPackage(string given) {
                string folder = LibraryLoader.Folder;
                if (folder.Length == 0 || Directory.GetFiles(folder, "quarry-backend-*").Length == 0) return given;
                return given.Length == 0 ? folder : given + Path.PathSeparator + folder;
            }
        }

        static void Write(void* self, int level, uint flags, qr_string topic, qr_string message) {
            CallbackThread.Enter();
            try {
                ((LogSink)GCHandle.FromIntPtr((IntPtr)self).Target)((LogLevel)Math.Min(Math.Max(level, (int)LogLevel.Error), (int)LogLevel.Trace), Text.Of(topic), Text.Of(message));
            } catch (Exception) {
                // No exception may cross the library's frames, and there is nobody to give it to.
            }
        }

        /// <summary>Looks for plugins; opens the usable ones.</summary>
        /// <exception cref="QuarryException"><see cref="Code.ResourceExhausted"/></exception>
        public IReadOnlyList<BackendInfo> Backends() {
            lock (scanning)
                using (Held held = Hold()) {
                    ulong count;
                    QuarryException.Check(Native.qr_runtime_scan(held.Pointer, &count));
                    var found = new List<BackendInfo>();
                    for (ulong i = 0; i < count; ++i) {
                        var info = new qr_backend_info {struct_size = (uint)sizeof(qr_backend_info)};
                        QuarryException.Check(Native.qr_runtime_backend(held.Pointer, i, &info));
                        found.Add(new BackendInfo(info, Devices(held.Pointer, i, info.device_count)));
                    }
                    return found.AsReadOnly();
                }
        }

        static IReadOnlyList<DeviceInfo> Devices(IntPtr runtime, ulong backend, ulong count) {
            var devices = new List<DeviceInfo>();
            for (ulong i = 0; i < count; ++i) {
                var info = new qr_device_info {struct_size = (uint)sizeof(qr_device_info)};
                QuarryException.Check(Native.qr_runtime_device(runtime, backend, i, &info));
                devices.Add(new DeviceInfo(info));
            }
            return devices.AsReadOnly();
        }

        /// <summary>Opens an .onnx or .qrm file. Options of use: "verify", "container.map", of ONNX "shape" and "model.folder". All but the path may be left out.</summary>
        /// <exception cref="QuarryException"><see cref="Code.NotFound"/>, <see cref="Code.PermissionDenied"/>, <see cref="Code.Corrupt"/>, <see cref="Code.Incompatible"/>,
        /// <see cref="Code.Unsupported"/>, <see cref="Code.Cancelled"/>, <see cref="Code.DeadlineExceeded"/>, <see cref="Code.ResourceExhausted"/></exception>
        /// <exception cref="OperationCanceledException">By <paramref name="stop"/>.</exception>
        public Model Open(string path, IReadOnlyDictionary<string, string> options = null, Signal signal = null, Progress progress = null,
                          CancellationToken stop = default(CancellationToken)) {
            byte[] name = Text.Bytes(path);
            fixed (byte* at = name) {
                var source = Model.Source(Native.QR_SOURCE_PATH);
                source.path = Text.View(at, name);
                return Model.Opened(this, source, null, options, signal, progress, stop);
            }
        }

        /// <summary>Opens a model that is in memory. The bytes are copied once, to where the library works on them: the array is the caller's again.</summary>
        /// <exception cref="QuarryException">As for a file.</exception>
        public Model Open(byte[] data, IReadOnlyDictionary<string, string> options = null, Signal signal = null, Progress progress = null,
                          CancellationToken stop = default(CancellationToken)) {
            if (data == null) throw new ArgumentNullException("data");
            Shared room = NativeRoom.Copy(data, out IntPtr at);
            try {
                var source = Model.Source(Native.QR_SOURCE_MEMORY);
                source.data = (void*)at;
                source.size_bytes = (ulong)data.Length;
                return Model.Opened(this, source, room, options, signal, progress, stop);
            } finally {
                room.Drop();  // the model keeps it
            }
        }

        /// <summary>Opens a model in memory that is not the collector's, where it lies: it must stay and not change as long as the model or a session of it lives.</summary>
        /// <exception cref="QuarryException">As for a file.</exception>
        public Model Open(IntPtr data, long sizeBytes, IReadOnlyDictionary<string, string> options = null, Signal signal = null, Progress progress = null,
                          CancellationToken stop = default(CancellationToken)) {
            if (sizeBytes < 0) throw QuarryException.Refused("sizeBytes: found " + sizeBytes + ", expected 0 or more");
            var source = Model.Source(Native.QR_SOURCE_MEMORY);
            source.data = (void*)data;
            source.size_bytes = (ulong)sizeBytes;
            return Model.Opened(this, source, null, options, signal, progress, stop);
        }
    }
}
