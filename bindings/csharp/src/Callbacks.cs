// SPDX-License-Identifier: Apache-2.0
namespace Quarry {
    /// <summary>
    /// How far a long call has come: <paramref name="done"/> of <paramref name="total"/> steps (total 0: not known), and what it is doing. Called on whichever
    /// thread is inside Quarry, one call at a time.
    /// </summary>
    /// <returns>False stops the call, which then throws a <see cref="QuarryException"/> of <see cref="Code.Cancelled"/>. So does an exception, which the call then
    /// throws in its place.</returns>
    public delegate bool Progress(long done, long total, string what);

    /// <summary>Where log lines go, on whichever thread is inside Quarry. What it throws is dropped.</summary>
    public delegate void LogSink(LogLevel level, string topic, string message);

    /// <summary>How important a log line is; each level holds those before it.</summary>
    public enum LogLevel {
        /// <summary>Something failed.</summary>
        Error = Native.QR_LOG_ERROR,
        /// <summary>Something is not as one would want it.</summary>
        Warn = Native.QR_LOG_WARN,
        /// <summary>What was chosen, and why.</summary>
        Info = Native.QR_LOG_INFO,
        /// <summary>For who looks for a mistake.</summary>
        Debug = Native.QR_LOG_DEBUG,
        /// <summary>Everything.</summary>
        Trace = Native.QR_LOG_TRACE
    }
}
