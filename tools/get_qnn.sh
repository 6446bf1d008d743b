#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fetches Qualcomm's QNN libraries, which the htp backend opens at run time, and prints the folder that has them:
#   export QUARRY_QNN_PATH=$(tools/get_qnn.sh)
# They come with the Python package onnxruntime-qnn (about 100 MB), unpacked into the build folder: nothing is installed, and any Python will
# do. They are Qualcomm's, under the licence that lies beside them (Qualcomm_LICENSE.pdf): for use, not for passing on.
#   tools/get_qnn.sh [--machine x86_64|aarch64] [--system linux|windows] [FOLDER]     default: of this machine and Linux, into build/qnn-MACHINE (or build/qnn-windows-MACHINE)
# x86_64 has the compiler and an emulator of every SoC; aarch64 what a Linux device, or a laptop with Windows, needs. A folder that has them already is left alone.
root=$(cd "$(dirname "$0")/.." && pwd)
machine=$(uname -m) system=linux
while :; do
  case "${1-}" in
    --machine) machine=${2-} ;;
    --system) system=${2-} ;;
    *) break ;;
  esac
  shift 2 || exit 2
done
case "${1-}" in -*) echo "usage: tools/get_qnn.sh [--machine x86_64|aarch64] [--system linux|windows] [FOLDER]" >&2; exit 2 ;; esac
# Where in the package they lie.
case $system-$machine in
  linux-x86_64) platform=manylinux_2_35_x86_64 place= ;;
  linux-aarch64) platform=manylinux_2_34_aarch64 place= ;;
  windows-x86_64) platform=win_amd64 place=/libs/amd64 ;;
  windows-aarch64) platform=win_arm64 place= ;;
  linux-* | windows-*) echo "get_qnn.sh: machine: found '$machine', expected x86_64 or aarch64" >&2; exit 2 ;;
  *) echo "get_qnn.sh: system: found '$system', expected linux or windows" >&2; exit 2 ;;
esac
case $system in linux) file=libQnnHtp.so name=qnn-$machine ;; *) file=QnnHtp.dll name=qnn-windows-$machine ;; esac
folder=${1:-${QUARRY_BUILD_DIR:-$root/build}/$name}
package=$folder/onnxruntime_qnn
libraries=$package$place
if [ ! -f "$libraries/$file" ]; then
  mkdir -p "$folder" || exit 1
  # Debian's python3 has no pip; its venv (python3-venv) brings one.
  python=python3
  if ! python3 -m pip --version >/dev/null 2>&1; then
    python=$folder/venv/bin/python
    [ -x "$python" ] || python3 -m venv "$folder/venv" >"$folder/pip.log" 2>&1 || {
      echo "get_qnn.sh: python3 has neither pip nor venv: apt install python3-venv" >&2
      exit 1
    }
  fi
  # The package's version is the same for all Pythons; the tag is only what pip asks for.
  if ! "$python" -m pip download -q --disable-pip-version-check --no-deps --only-binary=:all: --implementation cp --python-version 311 \
    --platform "$platform" --dest "$folder" onnxruntime-qnn >"$folder/pip.log" 2>&1; then
    echo "get_qnn.sh: the package onnxruntime-qnn cannot be fetched: $(tail -n 1 "$folder/pip.log")" >&2
    exit 1
  fi
  # Unpacked beside its place and moved there, so that a folder is whole or not there.
  rm -rf "$folder/new"
  for wheel in "$folder"/onnxruntime_qnn-*.whl; do
    python3 -m zipfile -e "$wheel" "$folder/new" || exit 1
    rm -f "$wheel"
  done
  rm -rf "$package" "$folder/onnxruntime_qnn.libs"
  [ ! -d "$folder/new/onnxruntime_qnn.libs" ] || mv "$folder/new/onnxruntime_qnn.libs" "$folder" || exit 1
  mv "$folder/new/onnxruntime_qnn" "$folder" && rm -rf "$folder/new" "$folder/venv"
fi
[ -f "$libraries/$file" ] || { echo "get_qnn.sh: $libraries has no $file" >&2; exit 1; }
echo "$libraries"
