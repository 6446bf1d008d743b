#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs what a build of Quarry needs on Debian (tools/packages.txt has the list), as root or by sudo.
# install_packages.sh [--list] [GROUP...]     --list: prints the names and installs nothing; GROUP: what stands before the colon there, as 'Debian packages': those too
. "$(dirname "$0")/setup.sh"
list=
[ "${1-}" != --list ] || { list=1; shift; }
for group in "$@"; do
  case $group in -*) group= ;; esac
  [ -n "$group" ] && [ -n "$(package_names "$group")" ] && continue
  echo "install_packages.sh: expected [--list] and groups of tools/packages.txt, as 'Debian packages'; found: $*" >&2
  exit 2
done
for group in build "$@"; do
  if [ -n "$list" ]; then package_names "$group"
  else install_packages "$group" || { echo "cannot install the packages of tools/packages.txt" >&2; exit 1; }
  fi
done
[ -z "$list" ] || echo
