#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes docs/pictures: the page of `quarry view` with a profile, as Chromium shows it. On a machine that does nothing else, for the page tells times.
#   tools/pictures.sh [BUILD]     BUILD: a release build (default: build); the model is of $QUARRY_SHARED (default ../shared)
root=$(cd "$(dirname "$0")/.." && pwd) || exit 1
quarry=${1:-$root/build}/tools/quarry
model=${QUARRY_SHARED:-$root/../shared}/models/yolox_nano_416/model.onnx
for browser in chromium chromium-browser google-chrome ''; do command -v "$browser" >/dev/null && break; done
[ -n "$browser" ] || { echo "tools/pictures.sh: there is no Chromium" >&2; exit 3; }
[ -f "$model" ] || { echo "tools/pictures.sh: there is no $model (set QUARRY_SHARED)" >&2; exit 3; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
mkdir -p "$root/docs/pictures" &&
  "$quarry" bench "$model" --threads 1 --duration 1 --profile="$work/events.csv" >/dev/null &&
  "$quarry" view "$model" --profile "$work/events.csv" -o "$work/view.html" &&
  "$browser" --headless=new --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$work/browser" --window-size=1400,900 --virtual-time-budget=8000 \
    --screenshot="$work/view.png" "file://$work/view.html#node=Conv_73&tab=node" >/dev/null 2>&1 &&
  cp "$work/view.png" "$root/docs/pictures/view.png" && ls -l "$root/docs/pictures/view.png"
