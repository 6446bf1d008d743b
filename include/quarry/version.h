/* SPDX-License-Identifier: Apache-2.0 */
#ifndef QUARRY_VERSION_H
#define QUARRY_VERSION_H

/* The release (semantic version). The build reads these lines: they are the only place of the number. */
#define QR_VERSION_MAJOR 0
#define QR_VERSION_MINOR 1
#define QR_VERSION_PATCH 0

/* The C ABI's major number: the soname is libquarry.so.<QR_ABI_MAJOR>. See COMPATIBILITY.md. */
#define QR_ABI_MAJOR 0
/* One more with each addition to the C ABI; qr_abi_version gives both at run time. */
#define QR_ABI_MINOR 3

#endif
