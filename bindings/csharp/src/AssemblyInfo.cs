// SPDX-License-Identifier: Apache-2.0
using System.Runtime.CompilerServices;

// For the layouts of structs, which the tests compare with the C ABI's record.
[assembly: InternalsVisibleTo("Quarry.Runtime.Tests")]

namespace Quarry {
    /// <summary>Where mcs compiled it, assembly_file.py takes the name of what it is for from here.</summary>
    internal static class BuiltFor {
        internal const string netstandard = "2.0";
    }
}
