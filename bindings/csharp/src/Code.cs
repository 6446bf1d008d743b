// SPDX-License-Identifier: Apache-2.0
namespace Quarry {
    /// <summary>What kind of failure it was: the codes of quarry/types.h. Programs branch on these.</summary>
    public enum Code {
        /// <summary>A code of a library that is newer than this package.</summary>
        Unknown = -1,
        /// <summary>The call is wrong whatever the state of the system.</summary>
        InvalidArgument = Native.QR_INVALID_ARGUMENT,
        /// <summary>Right call, wrong time: the object is not in the state for it.</summary>
        FailedPrecondition = Native.QR_FAILED_PRECONDITION,
        /// <summary>A file, backend, tensor or option of that name does not exist.</summary>
        NotFound = Native.QR_NOT_FOUND,
        /// <summary>An index, size or offset past the end.</summary>
        OutOfRange = Native.QR_OUT_OF_RANGE,
        /// <summary>Valid, but this backend or version cannot do it.</summary>
        Unsupported = Native.QR_UNSUPPORTED,
        /// <summary>Versions, targets or formats that do not fit together.</summary>
        Incompatible = Native.QR_INCOMPATIBLE,
        /// <summary>A file that does not keep its own rules.</summary>
        Corrupt = Native.QR_CORRUPT,
        /// <summary>Out of memory, address space, handles or a stated budget.</summary>
        ResourceExhausted = Native.QR_RESOURCE_EXHAUSTED,
        /// <summary>The device or service cannot be used now; the hint says what would help.</summary>
        Unavailable = Native.QR_UNAVAILABLE,
        /// <summary>The signal's timeout ran out.</summary>
        DeadlineExceeded = Native.QR_DEADLINE_EXCEEDED,
        /// <summary>The signal was aborted, or a progress function stopped the call.</summary>
        Cancelled = Native.QR_CANCELLED,
        /// <summary>The operating system said no.</summary>
        PermissionDenied = Native.QR_PERMISSION_DENIED,
        /// <summary>Quarry's fault: please report it with its id.</summary>
        Internal = Native.QR_INTERNAL,
        /// <summary>A queue is full or a device is taken: the same call may succeed later.</summary>
        Busy = Native.QR_BUSY,
        /// <summary>The device fell away: see <see cref="Session.Recover"/>.</summary>
        DeviceLost = Native.QR_DEVICE_LOST
    }
}
