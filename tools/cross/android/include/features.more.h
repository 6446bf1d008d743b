// SPDX-License-Identifier: Apache-2.0
// At the end of <features.h>: the names by which bionic has what these headers have by others, and what libc++ asks of
// it.
#define __BIONIC__ 1
#define __errno_location __errno
#define _LIBCPP_PROVIDES_DEFAULT_RUNE_TABLE
#define _CTYPE_U 0x01
#define _CTYPE_L 0x02
#define _CTYPE_D 0x04
#define _CTYPE_S 0x08
#define _CTYPE_P 0x10
#define _CTYPE_C 0x20
#define _CTYPE_X 0x40
#define _CTYPE_B 0x80
#define _CTYPE_R (_CTYPE_P | _CTYPE_U | _CTYPE_L | _CTYPE_D | _CTYPE_B)
#define _CTYPE_A (_CTYPE_L | _CTYPE_U)
#define _CTYPE_N _CTYPE_D
