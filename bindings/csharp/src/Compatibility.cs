// SPDX-License-Identifier: Apache-2.0
namespace Quarry {
    /// <summary>How well what was compiled fits this machine.</summary>
    public enum Compatibility {
        /// <summary>It was compiled for such a machine.</summary>
        Optimal = Native.QR_COMPATIBILITY_OPTIMAL,
        /// <summary>It runs, but another compilation would be better.</summary>
        Usable = Native.QR_COMPATIBILITY_USABLE,
        /// <summary>It does not run; the kept graph can be compiled again.</summary>
        Recompile = Native.QR_COMPATIBILITY_RECOMPILE,
        /// <summary>It does not run, and there is no graph to compile.</summary>
        Incompatible = Native.QR_COMPATIBILITY_INCOMPATIBLE
    }
}
