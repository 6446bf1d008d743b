#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints a folder with the headers that Quarry includes of others (no library of theirs is linked with -Dprepare=false), for builds by the NDK, which must not see /usr/include.
#   tools/cross/android/headers.sh
root=$(cd "$(dirname "$0")/../../.." && pwd)
. "$root/tools/cross/needs.sh"
begin_target linux-android
need_headers
echo "$prefix/include"
