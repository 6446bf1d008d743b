// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Generic;
using System.IO;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Threading;

namespace Quarry {
    internal static unsafe partial class Native {
        internal const string Library = "quarry";
    }

    internal static unsafe partial class NativeGenerate {
        internal const string Library = "quarry-generate";
    }

    internal static unsafe partial class NativeTokenizer {
        internal const string Library = "quarry-tokenizer";
    }

    /// <summary>
    /// Finds the library before the first call: the file that QUARRY_LIBRARY names; else that of the package, in runtimes/RID/native or beside the program; else what the
    /// system finds by its name.
    ///
    /// A runtime's own search would not do: no file is called as DllImport says ("quarry": names differ by system and have a version), an error of the linker would be
    /// lost, and a package that was unpacked by hand would not be found. So the file is opened here by its full path, and the runtime made to take it for "quarry":
    /// .NET Core 3 and newer by NativeLibrary.SetDllImportResolver (by reflection: netstandard2.0 does not know it), Mono by its map of libraries, .NET Framework by
    /// a module of that name that is loaded already.
    /// </summary>
    internal static class LibraryLoader {
        static readonly object Lock = new object();
        static readonly HashSet<string> Parts = new HashSet<string>();
        static bool loaded;
        static IntPtr library;

        /// <summary>Where the library's file is; empty: the system found it.</summary>
        internal static string Folder { get; private set; } = "";

        /// <exception cref="DllNotFoundException">There is none that can be loaded; the message says what was tried, and the ways out.</exception>
        internal static void Load() {
            if (Volatile.Read(ref loaded)) return;
            lock (Lock) {
                if (loaded) return;
                if (IntPtr.Size != 8) throw new DllNotFoundException("quarry: found a process of 32 bits, expected one of 64: Quarry has no other libraries");
                string found = Find();
                SystemLibraries.Bind(Native.Library, library, found);
                CheckVersion(found);
                if (found.IndexOfAny(new[] {'/', '\\'}) >= 0) Folder = Path.GetDirectoryName(Path.GetFullPath(found));
                Volatile.Write(ref loaded, true);
            }
        }

        /// <summary>
        /// libquarry-PART: the file that QUARRY_PART_LIBRARY names, what lies beside libquarry, else what the system finds. A program need not have it, and may get it
        /// later. Who calls a function of it is compiled after this.
        /// </summary>
        /// <exception cref="QuarryException"><see cref="Code.Unavailable"/>: there is none that can be loaded.</exception>
        internal static void LoadBeside(string part, string subject) {
            Load();
            lock (Lock) {
                if (Parts.Contains(part)) return;
                string variable = "QUARRY_" + part.ToUpperInvariant() + "_LIBRARY", given = Environment.GetEnvironmentVariable(variable);
                var files = new List<string>();
                if (!string.IsNullOrEmpty(given)) files.Add(Path.GetFullPath(given));
                else foreach (string name in Names("-" + part)) files.AddRange(Folder.Length == 0 || !File.Exists(Path.Combine(Folder, name)) ? new[] {name} : new[] {Path.Combine(Folder, name), name});
                var tried = new List<string>();
                foreach (string file in files) {
                    if (SystemLibraries.Open(file, out IntPtr opened, out string why)) {
                        SystemLibraries.Bind("quarry-" + part, opened, file);
                        Parts.Add(part);
                        return;
                    }
                    tried.Add(file + " (" + why + ")");
                }
                throw QuarryException.Missing(subject + ": found no libquarry-" + part + " that can be loaded: tried " + string.Join(", ", tried) + "; expected one beside libquarry",
                    "ship " + Names("-" + part)[0] + " with the program, or set " + variable + " to its file");
            }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]  // Mono looks for a function when it compiles what calls it
        static void CheckVersion(string found) {
            uint version = Native.qr_abi_version(), major = version >> 16, minor = version & 0xffff;
            if (major != Native.QR_ABI_MAJOR || minor < Native.QR_ABI_MINOR)
                throw new DllNotFoundException("quarry: " + found + ": found C ABI " + major + "." + minor + ", expected " + Native.QR_ABI_MAJOR + "." + Native.QR_ABI_MINOR +
                    " or a newer " + Native.QR_ABI_MAJOR + ".x: the library is not of the release that this package is of");
        }

        /// <summary>Opens the first that can be, and gives its name.</summary>
        static string Find() {
            string given = Environment.GetEnvironmentVariable("QUARRY_LIBRARY");
            if (!string.IsNullOrEmpty(given)) {
                if (SystemLibraries.Open(Path.GetFullPath(given), out library, out string why)) return Path.GetFullPath(given);
                throw new DllNotFoundException("quarry: QUARRY_LIBRARY names '" + given + "', which cannot be loaded: " + why);
            }
            var tried = new List<string>();
            foreach (string file in Candidates()) {
                if (!File.Exists(file)) continue;
                if (SystemLibraries.Open(file, out library, out string why)) return file;
                tried.Add(file + " (" + why + ")");
            }
            foreach (string name in Names()) {
                if (SystemLibraries.Open(name, out library, out string why)) return name;
                tried.Add(name + " (" + why + ")");
            }
            throw new DllNotFoundException("quarry: found no library for " + Identifiers()[0] + ": tried " + string.Join(", ", tried) + " and runtimes/" + Identifiers()[0] + "/native below " +
                string.Join(", ", Folders()) + "; use a package that has this system and processor, install Quarry's libraries where the system looks, or set QUARRY_LIBRARY to the file " + Names()[0]);
        }

        /// <summary>What the file is called; .NET Framework takes the first alone.</summary>
        static string[] Names(string part = "") {
            string major = Native.QR_ABI_MAJOR.ToString();
            if (RuntimeInformation.IsOSPlatform(OSPlatform.Windows)) return new[] {"quarry" + part + ".dll", "libquarry" + part + "-" + major + ".dll"};
            if (RuntimeInformation.IsOSPlatform(OSPlatform.OSX)) return new[] {"libquarry" + part + "." + major + ".dylib", "libquarry" + part + ".dylib"};
            return new[] {"libquarry" + part + ".so." + major, "libquarry" + part + ".so"};
        }

        /// <summary>As NuGet names systems. A file for the other C library does not load, and the next one is tried.</summary>
        static string[] Identifiers() {
            string processor = RuntimeInformation.ProcessArchitecture.ToString().ToLowerInvariant();
            if (RuntimeInformation.IsOSPlatform(OSPlatform.Windows)) return new[] {"win-" + processor};
            if (RuntimeInformation.IsOSPlatform(OSPlatform.OSX)) return new[] {"osx-" + processor};
            return new[] {"linux-" + processor, "linux-musl-" + processor};
        }

        static IEnumerable<string> Candidates() {
            foreach (string folder in Folders())
                foreach (string name in Names()) {
                    foreach (string identifier in Identifiers()) yield return Path.Combine(folder, "runtimes", identifier, "native", name);
                    yield return Path.Combine(folder, name);
                }
        }

        /// <summary>The assembly's own, the package's where the assembly lies in lib/FRAMEWORK of one, the program's, and where .NET says that packages' files are.</summary>
        static List<string> Folders() {
            var folders = new List<string>();
            string file = typeof(LibraryLoader).Assembly.Location;  // empty in a program of one file
            if (!string.IsNullOrEmpty(file)) {
                folders.Add(Path.GetDirectoryName(file));
                folders.Add(Path.GetFullPath(Path.Combine(Path.GetDirectoryName(file), "..", "..")));
            }
            string program = AppContext.BaseDirectory.TrimEnd('/', '\\');
            if (!folders.Contains(program)) folders.Add(program);
            if (AppContext.GetData("NATIVE_DLL_SEARCH_DIRECTORIES") is string native)
                foreach (string folder in native.Split(Path.PathSeparator))
                    if (folder.Length > 0) folders.Add(folder);
            return folders;
        }
    }
}
