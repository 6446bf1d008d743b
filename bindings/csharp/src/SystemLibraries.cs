// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Generic;
using System.Reflection;
using System.Runtime.InteropServices;

namespace Quarry {
    /// <summary>Opens a library, and has DllImport take it: each runtime has another way.</summary>
    internal static class SystemLibraries {
        // .NET Core 3 and newer; null elsewhere.
        static readonly Type NativeLibrary = typeof(object).Assembly.GetType("System.Runtime.InteropServices.NativeLibrary");
        static readonly bool Mono = Type.GetType("Mono.Runtime") != null;
        // Replaced, never changed: a runtime asks on any thread.
        static Dictionary<string, IntPtr> bound;

        const int Now = 2;  // RTLD_NOW: what is missing is said here, and by its name
        const uint BesideItself = 8;  // LOAD_WITH_ALTERED_SEARCH_PATH: what it needs lies in its own folder

        [DllImport("libdl.so.2", EntryPoint = "dlopen")]
        static extern IntPtr OpenByLibdl(byte[] file, int flags);

        [DllImport("libdl.so.2", EntryPoint = "dlerror")]
        static extern unsafe byte* ErrorByLibdl();

        [DllImport("libc", EntryPoint = "dlopen")]
        static extern IntPtr OpenByLibc(byte[] file, int flags);

        [DllImport("libc", EntryPoint = "dlerror")]
        static extern unsafe byte* ErrorByLibc();

        [DllImport("kernel32", CharSet = CharSet.Unicode, SetLastError = true, ExactSpelling = true)]
        static extern IntPtr LoadLibraryExW(string file, IntPtr reserved, uint flags);

        [DllImport("__Internal", EntryPoint = "mono_dllmap_insert")]
        static extern void InsertIntoMap(IntPtr assembly, byte[] library, IntPtr function, byte[] to, IntPtr toFunction);

        /// <summary>False: it cannot be loaded, and `why` says why.</summary>
        internal static bool Open(string file, out IntPtr library, out string why) {
            why = "";
            if (NativeLibrary != null) return OpenByRuntime(file, out library, out why);
            if (RuntimeInformation.IsOSPlatform(OSPlatform.Windows)) {
                library = LoadLibraryExW(file, IntPtr.Zero, file.IndexOf('\\') >= 0 ? BesideItself : 0);
                if (library == IntPtr.Zero) why = "Windows' error " + Marshal.GetLastWin32Error();
                return library != IntPtr.Zero;
            }
            library = OpenBySystem(file, out why);
            return library != IntPtr.Zero;
        }

        static bool OpenByRuntime(string file, out IntPtr library, out string why) {
            library = IntPtr.Zero;
            why = "";
            try {
                library = (IntPtr)NativeLibrary.GetMethod("Load", new[] {typeof(string)}).Invoke(null, new object[] {file});
                return true;
            } catch (TargetInvocationException error) {
                why = (error.InnerException ?? error).Message;
                return false;
            }
        }

        // glibc and musl have dlopen in libc, glibc before 2.34 in libdl alone.
        static unsafe IntPtr OpenBySystem(string file, out string why) {
            byte[] name = Terminated(file);
            why = "";
            try {
                IntPtr library = OpenByLibdl(name, Now);
                if (library == IntPtr.Zero) why = Text.Of(ErrorByLibdl());
                return library;
            } catch (DllNotFoundException) {
                IntPtr library = OpenByLibc(name, Now);
                if (library == IntPtr.Zero) why = Text.Of(ErrorByLibc());
                return library;
            }
        }

        /// <summary>From here on DllImport(name) is this library, which was opened as `file`. One thread at a time.</summary>
        internal static void Bind(string name, IntPtr library, string file) {
            bool isFirst = bound == null;
            bound = new Dictionary<string, IntPtr>(bound ?? new Dictionary<string, IntPtr>()) {[name] = library};
            if (NativeLibrary != null) {
                if (!isFirst) return;  // an assembly has one resolver
                MethodInfo set = NativeLibrary.GetMethod("SetDllImportResolver");
                MethodInfo resolve = typeof(SystemLibraries).GetMethod("Resolve", BindingFlags.Static | BindingFlags.NonPublic);
                set.Invoke(null, new object[] {typeof(SystemLibraries).Assembly, Delegate.CreateDelegate(set.GetParameters()[1].ParameterType, resolve)});
            } else if (Mono) {
                InsertIntoMap(IntPtr.Zero, Terminated(name), IntPtr.Zero, Terminated(file), IntPtr.Zero);
            }
        }

        static IntPtr Resolve(string name, Assembly of, DllImportSearchPath? paths) {
            return bound.TryGetValue(name, out IntPtr library) ? library : IntPtr.Zero;
        }

        static byte[] Terminated(string text) {
            return Text.Bytes(text + "\0");
        }
    }
}
