#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes the Debian packages libquarry0, libquarry-dev, quarry-backends, quarry-tools and python3-quarry (docs/packages.md), and libquarry-tokenizer0 where there is a
# cargo of Rust 1.85 or newer and the crates can be had (Debian 12 has an older one): the last line says so where it is not.
#   tools/make_deb.sh [--build DIR] [FOLDER]     FOLDER: where they go (default: dist); --build: pack this build, finished and for release, and make none
root=$(cd "$(dirname "$0")/.." && pwd)
build=
if [ "${1-}" = --build ]; then
  build=$(cd "$2" && pwd) || exit 2
  shift 2
fi
case "${1-}" in -*) echo "usage: tools/make_deb.sh [--build DIR] [FOLDER]" >&2; exit 2 ;; esac
folder=${1:-$root/dist}
for program in dpkg-buildpackage dh dh_python3 chrpath; do
  command -v "$program" >/dev/null || { echo "tools/make_deb.sh: there is no $program: install dpkg-dev, debhelper, dh-python and chrpath" >&2; exit 3; }
done
mkdir -p "$folder" && folder=$(cd "$folder" && pwd) && work=$(mktemp -d) && scratch=$(mktemp -d) || exit 1 # two: see installed_tree() of the wheel's build
trap 'rm -rf "$work" "$scratch"' EXIT
version=$(awk '/define QR_VERSION_(MAJOR|MINOR|PATCH)/{v=v (v==""?"":".") $3} END{print v}' "$root/include/quarry/version.h")
date=$(git -C "$root" log -1 --format=%aD 2>/dev/null || date -R)
source=$work/quarry-$version
mkdir "$source" && cp -r "$root/packaging/debian" "$source/" || exit 1
cat >"$source/debian/changelog" <<END
quarry ($version-1) unstable; urgency=medium

  * Release $version: CHANGELOG.md tells what is new.

 -- The Quarry Authors <quarry@localhost.localdomain>  $date
END
log=$folder/make_deb.log
# Cargo goes on with what a build's tests have made (tests/integration/check_tokenizer.py).
tokenizer=$work/tokenizer profiles= without=
if said=$(python3 "$root/bindings/tokenizer/build.py" "$tokenizer" --work "${build:-$scratch}/tokenizer/cargo" --licenses "$tokenizer/licenses.txt" 2>&1); then :
elif [ $? -eq 77 ]; then profiles=pkg.quarry.notokenizer without=$(echo "$said" | tail -n 1)
else echo "$said" | tail -n 30 >&2; exit 1
fi
# With a build that is there, what would make one is not asked for.
(cd "$source" && QUARRY_SOURCE=$root QUARRY_BUILD=$build QUARRY_SCRATCH=$scratch QUARRY_TOKENIZER=$tokenizer dpkg-buildpackage -b -us -uc ${build:+-d} ${profiles:+-P$profiles}) >"$log" 2>&1 || {
  tail -n 30 "$log" >&2
  echo "tools/make_deb.sh: $log has the whole" >&2
  exit 1
}
rm -f "$folder"/libquarry*.deb "$folder"/quarry-*.deb "$folder"/python3-quarry*.deb
mv "$work"/*.deb "$folder/" && ls "$folder"/*.deb || exit 1
[ -z "$without" ] || echo "without libquarry-tokenizer0: $without"
