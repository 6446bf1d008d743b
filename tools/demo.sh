#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# From nothing to a real model that reads handwritten digits: installs what is needed, builds it (4 to 8 minutes on two cores), compiles the model into a
# container, runs it from ONNX and from the container, and shows what it saw. Re-runs take seconds, and tools/test.sh goes on in the same build folder.
set -e
. "$(dirname "$0")/setup.sh"
cd "$root"
install_packages build
say "building the library, the program and three backends in $build: at most $(minutes 700) on $processors processors the first time, then seconds"
# A folder that test.sh has set up stays as it is.
[ -f "$build/build.ninja" ] || release_build "$best_isa" false
ninja_in "$build" demo
quarry=$build/tools/quarry

say "quarry doctor: what is here"
"$quarry" doctor

say "quarry compile: models/digits/digits.onnx -> digits.qrm"
"$quarry" compile models/digits/digits.onnx -o "$build/digits.qrm"

say "quarry run: two of the held-out images, from the container"
"$quarry" run "$build/digits.qrm" models/digits/images/digit_3.png models/digits/images/digit_8.png --picture --softmax --top 3

say "bindings/cpp/digits.cpp: all held-out images through qr_session_create and qr_session_run, from ONNX and from the container"
"$build/bindings/cpp/digits" models/digits models/digits/digits.onnx "$build/digits.qrm"

if [ -d "${QUARRY_SHARED:-../shared}/models" ]; then
  shared=${QUARRY_SHARED:-../shared}
  say "MobileNetV2 on photographs"
  "$quarry" run "$shared/models/mobilenetv2_1.0_224_google_f32/model.onnx" "$shared/images/goldfish.jpg" "$shared/images/coral_parrot.jpg" \
    --labels "$shared/images/imagenet_labels_1001.txt" --mean 0.50196 --std 0.50196 --top 3
fi
# Qualcomm's libraries are fetched, not shipped: without a network, or on another processor, this part is left out.
if [ "$(uname -m)" = x86_64 ]; then
  say "the same model for a phone's NPU: Qualcomm's libraries (100 MB, once), a container for the SM8650, run in their emulator"
  if libraries=$(tools/get_qnn.sh 2>"$build/get_qnn.log"); then
    export QUARRY_QNN_PATH="$libraries"
    "$quarry" compile models/digits/digits.onnx --backend htp -O soc_model=SM8650 -o "$build/digits-sm8650.qrm"
    "$quarry" run "$build/digits-sm8650.qrm" models/digits/images/digit_3.png --backend htp --softmax --top 3
  else
    echo "left out: $(cat "$build/get_qnn.log")"
  fi
fi
say "done: the program is $quarry"
