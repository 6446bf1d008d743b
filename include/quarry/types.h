/* SPDX-License-Identifier: Apache-2.0 */
/* Words used by every other header: macros, codes, data types, flags. */
#ifndef QUARRY_TYPES_H
#define QUARRY_TYPES_H

#include <stddef.h>
#include <stdint.h>

#include <quarry/version.h>

#if UINTPTR_MAX != 0xffffffffffffffffu
#error "Quarry's ABI is defined for 64-bit targets only"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* On Windows a program that has the library linked in defines QR_STATIC; QR_BUILDING is for Quarry's own build. */
#if defined(_WIN32) && defined(QR_BUILDING)
#define QR_API __declspec(dllexport)
#elif defined(_WIN32) && !defined(QR_STATIC)
#define QR_API __declspec(dllimport)
#elif defined(__GNUC__) && !defined(_WIN32)
#define QR_API __attribute__((visibility("default")))
#else
#define QR_API
#endif
#if defined(__GNUC__)
#define QR_MUST_USE __attribute__((warn_unused_result))
#else
#define QR_MUST_USE
#endif

/* ---------------------------------------------------------------------------------------------------------------
 * Words in the comments
 *
 * Ownership, one word on every pointer:
 *   borrows  the callee (or, for a returned pointer, the caller) may use it until the named event, by default the
 *            call's return, and never frees it;
 *   takes    the callee owns it from the call on, even on failure;
 *   gives    the caller owns it and must pass it to the named destroy function.
 *
 * Thread tag, one on every function:
 *   [thread-safe]          may be called from any thread at any time;
 *   [exclusive:<object>]   from any thread, but one call at a time on that object. Calls that overlap are detected
 *                          and refused with QR-C0006. A `const qr_options *` may be in any number of calls at a time,
 *                          as long as none changes or destroys it;
 *   [in-callback]          may also be called from inside Quarry's callbacks;
 *   [blocking]             may take long (reads files, compiles, runs a network).
 *
 * Structs grow: `struct_size` is set by the caller (use the _INIT macro), zero in a field always means the earlier
 * behaviour, a non-zero byte or flag that this library does not know is an error that names it. QR_..._FIRST_SIZE is
 * the size of the first release: nothing smaller is a struct of that type.
 * ------------------------------------------------------------------------------------------------------------- */

/* The largest number of dimensions of a tensor. */
#define QR_MAX_RANK 8

/* A dimension that is not known before the run (an output of NonZero, say). */
#define QR_DIM_UNKNOWN (-1ll)

/* `size` of a qr_string whose data ends at a NUL byte. */
#define QR_NUL_TERMINATED 0xffffffffffffffffull

/* FROZEN. UTF-8 text, but where a field or argument says that it may have other bytes (names of files). As an argument
 * `size` may be QR_NUL_TERMINATED; as a result it is always explicit and `data` is never promised to be NUL-terminated.
 */
typedef struct qr_string {
  const char *data;
  uint64_t size;
} qr_string;

/* Status codes: programs branch on these, people read the message, search engines find the id. */
typedef int32_t qr_code;
#define QR_OK 0
#define QR_INVALID_ARGUMENT 1    /* the call is wrong whatever the state of the system */
#define QR_FAILED_PRECONDITION 2 /* right call, wrong time: the object is not in the state for it */
#define QR_NOT_FOUND 3           /* a file, backend, tensor or option of that name does not exist */
#define QR_OUT_OF_RANGE 4        /* an index, size or offset past the end */
#define QR_UNSUPPORTED 5         /* valid, but this backend or version cannot do it */
#define QR_INCOMPATIBLE 6        /* versions, targets or formats that do not fit together */
#define QR_CORRUPT 7             /* a file that does not keep its own rules */
#define QR_RESOURCE_EXHAUSTED 8  /* out of memory, address space, handles or a stated budget */
#define QR_UNAVAILABLE 9         /* the device or service cannot be used now; the hint says what would help */
#define QR_DEADLINE_EXCEEDED 10  /* the signal's timeout ran out */
#define QR_CANCELLED 11          /* the signal was aborted */
#define QR_PERMISSION_DENIED 12  /* the operating system said no */
#define QR_INTERNAL 13           /* our fault: please report it with its id */
#define QR_BUSY 14               /* a queue is full or a device is taken: the same call may succeed later */
#define QR_DEVICE_LOST 15        /* the device fell away: see qr_session_recover */

/* Element types. The numbers are those of ONNX's TensorProto.DataType. Types under 8 bits are packed, the first
 * element in the low bits. */
typedef int32_t qr_dtype;
#define QR_DTYPE_UNKNOWN 0
#define QR_DTYPE_F32 1
#define QR_DTYPE_U8 2
#define QR_DTYPE_I8 3
#define QR_DTYPE_U16 4
#define QR_DTYPE_I16 5
#define QR_DTYPE_I32 6
#define QR_DTYPE_I64 7
#define QR_DTYPE_BOOL 9
#define QR_DTYPE_F16 10
#define QR_DTYPE_F64 11
#define QR_DTYPE_U32 12
#define QR_DTYPE_U64 13
#define QR_DTYPE_BF16 16
#define QR_DTYPE_F8E4M3FN 17
#define QR_DTYPE_F8E4M3FNUZ 18
#define QR_DTYPE_F8E5M2 19
#define QR_DTYPE_F8E5M2FNUZ 20
#define QR_DTYPE_U4 21
#define QR_DTYPE_I4 22
#define QR_DTYPE_F4E2M1 23
#define QR_DTYPE_F8E8M0 24
#define QR_DTYPE_U2 25
#define QR_DTYPE_I2 26

/* Log levels. */
typedef int32_t qr_log_level;
#define QR_LOG_ERROR 1
#define QR_LOG_WARN 2
#define QR_LOG_INFO 3
#define QR_LOG_DEBUG 4
#define QR_LOG_TRACE 5

/* Flags of a log line: its level is QR_LOG_ERROR, and it says that somebody broke the contract. */
#define QR_LOG_CALLER_MISBEHAVES 1u
#define QR_LOG_PLUGIN_MISBEHAVES 2u

/* Opaque objects, each with its header. */
typedef struct qr_status qr_status;
typedef struct qr_runtime qr_runtime;
typedef struct qr_options qr_options;
typedef struct qr_model qr_model;
typedef struct qr_session qr_session;
typedef struct qr_state qr_state;
typedef struct qr_adapter qr_adapter;
typedef struct qr_memory qr_memory;
typedef struct qr_signal qr_signal;
typedef struct qr_profile qr_profile;

/* Returns the run-time version, "major.minor.patch".
 * @return  borrows: static, NUL-terminated.
 * @thread  [thread-safe] [in-callback]
 * @errors  none
 * @since   0.1 */
QR_API const char *qr_version(void);

/* Returns the version of the C ABI that the library has, for who opens it at run time: QR_ABI_MAJOR * 65536 +
 * QR_ABI_MINOR. A program built with these headers runs with a library of the same major and at least this minor.
 * @thread  [thread-safe] [in-callback]
 * @errors  none
 * @since   0.1 */
QR_API uint32_t qr_abi_version(void);

/* Names a data type as ONNX's C++ users write it ("f32", "u8", "bf16"); "unknown" for a number that is none.
 * @return  borrows: static, NUL-terminated.
 * @thread  [thread-safe] [in-callback]
 * @errors  none
 * @since   0.1 */
QR_API const char *qr_dtype_name(qr_dtype dtype);

/* The bits of one element (4 for QR_DTYPE_I4), 0 for a number that is no data type.
 * @thread  [thread-safe] [in-callback]
 * @errors  none
 * @since   0.1 */
QR_API uint32_t qr_dtype_bits(qr_dtype dtype);

#ifdef __cplusplus
}
#endif
#endif
