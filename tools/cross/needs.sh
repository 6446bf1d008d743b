# SPDX-License-Identifier: Apache-2.0
# Read by mingw.sh and zig/zig.sh: what a cross build of Quarry links, compiled for its target and kept in $QUARRY_CROSS_DIR (default ~/.cache/quarry-cross).
# Everything that is fetched is checked by its SHA-256.
#   begin_target TARGET     sets kept (the folder of all), here (of the target), prefix (what is there for it) and log
#   need_headers            those that need no library, which are the same for every target
#   need_onnx SYSTEM MACHINE CC CXX AR RANLIB    protobuf and the schema of ONNX; SYSTEM as cmake calls it; ccache is "'ccache', " or empty
begin_target() {
  mkdir -p "${QUARRY_CROSS_DIR:=$HOME/.cache/quarry-cross}/$1" && kept=$(cd "$QUARRY_CROSS_DIR" && pwd) || exit 1
  here=$kept/$1
  prefix=$here/prefix
  log=$here/log
  # ccache goes by what the compiler is, not by the time of a script.
  ccache=
  if command -v ccache >/dev/null; then ccache="'ccache', "; fi
}
fail() {
  echo "$(basename "$0"): $1; its last lines, of $log:" >&2
  tail -n 20 "$log" >&2
  exit 1
}

# pip in a venv of its own, as Debian's python3 has none.
need_pip() { [ -x "$kept/venv/bin/pip" ] || python3 -m venv "$kept/venv" >"$log" 2>&1 || fail "there is no python3-venv"; }
pip() { "$kept/venv/bin/python" -m pip --disable-pip-version-check -q "$@" >"$log" 2>&1; }

need_headers() {
  [ ! -f "$prefix/headers" ] || return 0
  mkdir -p "$prefix/include" "$prefix/lib/pkgconfig" || exit 1
  for name in flatbuffers xxhash.h CL CLI nlohmann stb doctest; do
    [ ! -e "/usr/include/$name" ] || cp -R "/usr/include/$name" "$prefix/include" || exit 1
  done
  for name in libxxhash CLI11 nlohmann_json; do
    ! version=$(pkg-config --modversion "$name") || printf 'Name: %s\nDescription: its headers\nVersion: %s\n' "$name" "$version" >"$prefix/lib/pkgconfig/$name.pc"
  done
  touch "$prefix/headers"
}

protobuf=protobuf-3.21.12 sum=930c2c3b5ecc6c9c12615cf5ad93f1cd6e12d0aba862b572e076259970ac3a53
fetch_protobuf() {  # Debian's source
  mkdir -p "$kept/sources" && (cd "$kept/sources" && "$root/tools/cross/private_apt.sh" "$kept/apt" deb-src bookworm source --download-only protobuf) >"$log" 2>&1
  echo "$sum  $archive" | sha256sum --status -c
}
make_protobuf() {  # SYSTEM MACHINE CC CXX AR RANLIB
  archive=$kept/sources/protobuf_3.21.12.orig.tar.gz
  [ -f "$archive" ] || fetch_protobuf || fail "the source of protobuf cannot be fetched, or has another sum than expected"
  [ -d "$kept/sources/$protobuf" ] || tar -xzf "$archive" -C "$kept/sources" || return 1
  cmake -S "$kept/sources/$protobuf" -B "$here/protobuf" -G Ninja -DCMAKE_SYSTEM_NAME="$1" -DCMAKE_SYSTEM_PROCESSOR="$2" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_C_COMPILER="$3" -DCMAKE_CXX_COMPILER="$4" -DCMAKE_AR="$5" -DCMAKE_RANLIB="$6" ${ccache:+-DCMAKE_CXX_COMPILER_LAUNCHER=ccache} \
    -DCMAKE_CXX_FLAGS="-w -ffunction-sections -fdata-sections -fvisibility=hidden" -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_INSTALL_LIBDIR=lib \
    -Dprotobuf_BUILD_TESTS=OFF -Dprotobuf_BUILD_PROTOC_BINARIES=OFF -Dprotobuf_BUILD_LIBPROTOC=OFF -Dprotobuf_WITH_ZLIB=OFF -Dprotobuf_BUILD_SHARED_LIBS=OFF >"$log" 2>&1 &&
    ninja -C "$here/protobuf" libprotobuf.a >"$log" 2>&1 && cp "$here/protobuf/libprotobuf.a" "$prefix/lib" && cp "$here/protobuf/protobuf.pc" "$prefix/lib/pkgconfig" &&
    (cd "$kept/sources/$protobuf/src" && find google -name '*.h' -o -name '*.inc' | xargs cp --parents -t "$prefix/include")
}
make_schema() {  # CXX AR: of the wheel, whose schema is for protobuf-lite: that cannot tell fields that it does not know
  pip download --no-deps --only-binary=:all: --platform manylinux_2_17_x86_64 --python-version 3.10 --require-hashes -r "$root/tools/cross/onnx.txt" -d "$kept/sources" &&
    mkdir -p "$here/onnx" && (cd "$here/onnx" && python3 -c 'import sys, zipfile; zipfile.ZipFile(sys.argv[1]).extract("onnx/onnx-ml.proto", "wheel")' "$kept"/sources/onnx-1.12.0-*.whl && sed -i /LITE_RUNTIME/d wheel/onnx/onnx-ml.proto && protoc -Iwheel --cpp_out=. onnx/onnx-ml.proto) >"$log" 2>&1 &&
    mkdir -p "$prefix/include/onnx" && cp "$here/onnx/onnx/onnx-ml.pb.h" /usr/include/onnx/onnx_pb.h "$prefix/include/onnx" &&
    "$1" -std=c++17 -O2 -w -fPIC -fvisibility=hidden -ffunction-sections -fdata-sections -DONNX_ML=1 -DONNX_NAMESPACE=onnx -I"$here/onnx" -I"$prefix/include" \
      -c "$here/onnx/onnx/onnx-ml.pb.cc" -o "$here/onnx/onnx-ml.o" >"$log" 2>&1 &&
    "$2" rcs "$prefix/lib/libonnx_proto.a" "$here/onnx/onnx-ml.o" >"$log" 2>&1 && rm -rf "$here/onnx"
}
need_onnx() {
  [ ! -f "$prefix/onnx" ] || return 0
  make_protobuf "$@" || fail "protobuf cannot be built for $target"
  make_schema "$4" "$5" || fail "the schema of ONNX cannot be built for $target"
  rm -rf "$here/protobuf"
  touch "$prefix/onnx"
}

write_if_new() {  # FILE: what comes in, so that a build does not begin anew for the time of a file
  cat >"$1.new"
  cmp -s "$1.new" "$1" || cp "$1.new" "$1"
  rm -f "$1.new"
}
