# SPDX-License-Identifier: Apache-2.0
# Read by demo.sh and test.sh: says what it does, and installs the packages of packages.txt that are missing.
root=$(cd "$(dirname "$0")/.." && pwd)
say() { printf '\033[1m== %s\033[0m\n' "$*" | { [ -t 1 ] && cat || sed 's/\x1b\[[0-9]*m//g'; }; }

# install_packages [GROUP]: all but those of a group (cross, browser), or those of that group alone.
install_packages() {
  if [ -n "${1-}" ]; then invert= lines="# $1:"; else invert=-v lines='# \(cross\|browser\):'; fi
  wanted=$(grep $invert "$lines" "$root/tools/packages.txt" | sed 's/#.*//' | tr -s ' \n' ' ')
  missing=
  for package in $wanted; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing="$missing $package"
  done
  [ -z "$missing" ] && return 0
  say "installing$missing"
  as_root=
  [ "$(id -u)" = 0 ] || as_root=sudo
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq &&
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
}

# configure BUILD_DIR [meson options]: once; a re-run only builds what changed.
configure() {
  dir=$1
  shift
  if [ -f "$dir/build.ninja" ]; then return 0; fi
  meson setup "$dir" "$root" "$@" >"$dir.log" 2>&1 || { cat "$dir.log"; return 1; }
}
