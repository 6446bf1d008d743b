#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Sets up a cross build by zig, which brings the C library and libc++ of every target that it knows: fetches zig, compiles what Quarry links (protobuf, the
# schema of ONNX) for TARGET, and prints the folder with cross.ini for `FOLDER/meson setup --cross-file`. Everything is checked by its SHA-256, and kept.
#   tools/cross/zig/zig.sh [--no-onnx] TARGET        such as x86_64-linux-musl, aarch64-linux-musl; --no-onnx: what -Dprepare=false builds need
# It is kept in $QUARRY_CROSS_DIR (default ~/.cache/quarry-cross): 600 MB, most of it zig's. The first target takes minutes, as libc++ is compiled too.
# Wants the packages of tools/packages.txt, those of the group cross too (tools/install_packages.sh cross).
root=$(cd "$(dirname "$0")/../../.." && pwd)
onnx=1
[ "${1-}" != --no-onnx ] || { onnx=''; shift; }
target=${1-}
case $target in
  x86_64-linux-musl | aarch64-linux-musl) system=linux ;;
  *) echo "usage: tools/cross/zig/zig.sh [--no-onnx] TARGET: found '$target', expected x86_64-linux-musl or aarch64-linux-musl" >&2; exit 2 ;;
esac
machine=${target%%-*}
mkdir -p "${QUARRY_CROSS_DIR:=$HOME/.cache/quarry-cross}/$target/bin" && kept=$(cd "$QUARRY_CROSS_DIR" && pwd) || exit 1
here=$kept/$target
prefix=$here/prefix
log=$here/log
fail() {
  echo "zig.sh: $1; its last lines, of $log:" >&2
  tail -n 20 "$log" >&2
  exit 1
}

# pip in a venv of its own, as Debian's python3 has none.
[ -x "$kept/venv/bin/pip" ] || python3 -m venv "$kept/venv" >"$log" 2>&1 || fail "there is no python3-venv"
pip() { "$kept/venv/bin/python" -m pip --disable-pip-version-check -q "$@" >"$log" 2>&1; }
if ! cmp -s "$root/tools/cross/zig/tools.txt" "$kept/tools.txt"; then
  pip install --require-hashes -r "$root/tools/cross/zig/tools.txt" || fail "zig and meson cannot be installed"
  cp "$root/tools/cross/zig/tools.txt" "$kept/tools.txt"
fi
ln -sfn "$(echo "$kept"/venv/lib/python3*/site-packages/ziglang/zig)" "$kept/zig"
ln -sfn venv/bin/meson "$kept/meson"
cmp -s "$root/tools/cross/zig/tool.sh" "$here/bin/tool.sh" || cp "$root/tools/cross/zig/tool.sh" "$here/bin/tool.sh" || exit 1
for tool in cc c++ ar ranlib; do ln -sfn tool.sh "$here/bin/$tool"; done
# ccache goes by what the compiler is, not by the time of the script.
ccache=
if command -v ccache >/dev/null; then ccache="'ccache', "; fi

# Headers alone are the same for every target.
if [ ! -f "$prefix/headers" ]; then
  mkdir -p "$prefix/include" "$prefix/lib/pkgconfig" || exit 1
  for name in flatbuffers xxhash.h CL CLI nlohmann stb doctest; do
    [ ! -e "/usr/include/$name" ] || cp -R "/usr/include/$name" "$prefix/include" || exit 1
  done
  for name in libxxhash CLI11 nlohmann_json; do
    ! version=$(pkg-config --modversion "$name") || printf 'Name: %s\nDescription: its headers\nVersion: %s\n' "$name" "$version" >"$prefix/lib/pkgconfig/$name.pc"
  done
  touch "$prefix/headers"
fi

protobuf=protobuf-3.21.12 sum=930c2c3b5ecc6c9c12615cf5ad93f1cd6e12d0aba862b572e076259970ac3a53
archive=$kept/sources/protobuf_3.21.12.orig.tar.gz
fetch_protobuf() {  # Debian's source
  mkdir -p "$kept/sources" && (cd "$kept/sources" && "$root/tools/cross/private_apt.sh" "$kept/apt" deb-src bookworm source --download-only protobuf) >"$log" 2>&1
  echo "$sum  $archive" | sha256sum --status -c
}
make_protobuf() {
  [ -f "$archive" ] || fetch_protobuf || fail "the source of protobuf cannot be fetched, or has another sum than expected"
  [ -d "$kept/sources/$protobuf" ] || tar -xzf "$archive" -C "$kept/sources" || return 1
  cmake -S "$kept/sources/$protobuf" -B "$here/protobuf" -G Ninja -DCMAKE_SYSTEM_NAME="$system" -DCMAKE_SYSTEM_PROCESSOR="$machine" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_C_COMPILER="$here/bin/cc" -DCMAKE_CXX_COMPILER="$here/bin/c++" -DCMAKE_AR="$here/bin/ar" -DCMAKE_RANLIB="$here/bin/ranlib" ${ccache:+-DCMAKE_CXX_COMPILER_LAUNCHER=ccache} \
    -DCMAKE_CXX_FLAGS="-w -ffunction-sections -fdata-sections -fvisibility=hidden" -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_INSTALL_LIBDIR=lib \
    -Dprotobuf_BUILD_TESTS=OFF -Dprotobuf_BUILD_PROTOC_BINARIES=OFF -Dprotobuf_BUILD_LIBPROTOC=OFF -Dprotobuf_WITH_ZLIB=OFF -Dprotobuf_BUILD_SHARED_LIBS=OFF >"$log" 2>&1 &&
    ninja -C "$here/protobuf" libprotobuf.a >"$log" 2>&1 && cp "$here/protobuf/libprotobuf.a" "$prefix/lib" && cp "$here/protobuf/protobuf.pc" "$prefix/lib/pkgconfig" &&
    (cd "$kept/sources/$protobuf/src" && find google -name '*.h' -o -name '*.inc' | xargs cp --parents -t "$prefix/include")
}
make_schema() {  # of the wheel, whose schema is for protobuf-lite: that cannot tell fields that it does not know
  pip download --no-deps --only-binary=:all: --platform manylinux_2_17_x86_64 --python-version 3.10 --require-hashes -r "$root/tools/cross/zig/schema.txt" -d "$kept/sources" &&
    mkdir -p "$here/onnx" && (cd "$here/onnx" && python3 -c 'import sys, zipfile; zipfile.ZipFile(sys.argv[1]).extract("onnx/onnx-ml.proto", "wheel")' "$kept"/sources/onnx-1.12.0-*.whl && sed -i /LITE_RUNTIME/d wheel/onnx/onnx-ml.proto && protoc -Iwheel --cpp_out=. onnx/onnx-ml.proto) >"$log" 2>&1 &&
    mkdir -p "$prefix/include/onnx" && cp "$here/onnx/onnx/onnx-ml.pb.h" /usr/include/onnx/onnx_pb.h "$prefix/include/onnx" &&
    "$here/bin/c++" -std=c++17 -O2 -w -fPIC -fvisibility=hidden -ffunction-sections -fdata-sections -DONNX_ML=1 -DONNX_NAMESPACE=onnx -I"$here/onnx" -I"$prefix/include" \
      -c "$here/onnx/onnx/onnx-ml.pb.cc" -o "$here/onnx/onnx-ml.o" >"$log" 2>&1 &&
    "$here/bin/ar" rcs "$prefix/lib/libonnx_proto.a" "$here/onnx/onnx-ml.o" >"$log" 2>&1 && rm -rf "$here/onnx"
}
if [ -n "$onnx" ] && [ ! -f "$prefix/onnx" ]; then
  make_protobuf || fail "protobuf cannot be built for $target"
  make_schema || fail "the schema of ONNX cannot be built for $target"
  rm -rf "$here/protobuf"
  touch "$prefix/onnx"
fi

# Nothing that is built is run by the build: its loader need not be there.
strip=$machine-linux-gnu-strip
cat >"$here/cross.ini.new" <<END
# Written by tools/cross/zig/zig.sh.
[binaries]
c = [$ccache'$here/bin/cc']
cpp = [$ccache'$here/bin/c++']
ar = '$here/bin/ar'
ranlib = '$here/bin/ranlib'
pkg-config = 'pkg-config'
strip = '$strip'

[properties]
needs_exe_wrapper = true
pkg_config_libdir = '$prefix/lib/pkgconfig'

[built-in options]
b_pch = false
c_args = ['-isystem', '$prefix/include']
cpp_args = ['-isystem', '$prefix/include']
cpp_link_args = ['-L$prefix/lib']

[host_machine]
system = '$system'
cpu_family = '$machine'
cpu = '$machine'
endian = 'little'
END
cmp -s "$here/cross.ini.new" "$here/cross.ini" || cp "$here/cross.ini.new" "$here/cross.ini"
rm -f "$here/cross.ini.new"
echo "$here"
