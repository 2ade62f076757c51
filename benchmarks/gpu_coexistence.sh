#!/usr/bin/env bash
# gpu_coexistence.sh BIN TOOLS OUT: checks that `headroom trace` works together with other tools that hook CUDA. Each is tested if
# installed: torch.profiler, compute-sanitizer and cuda-gdb around the traced program and around Headroom, ncu, and programs that share
# the GPU with MPS. BIN has headroom; TOOLS is build/gpu/bin (traced_cuda is in the folder tests next to it). Writes
# OUT/coexistence.md with a line for each: the exit code, the ledger's figures, and the last line of output. Complete logs are in OUT.
set -uo pipefail
bin=$(realpath "${1:?usage: gpu_coexistence.sh BIN TOOLS OUT}")
tests=$(realpath "${2:?usage: gpu_coexistence.sh BIN TOOLS OUT}/../tests")
out=${3:?usage: gpu_coexistence.sh BIN TOOLS OUT}
mkdir -p "$out"
out=$(realpath "$out")
limit=1073741824
program=("$tests/traced_cuda" proc plain "$limit" 39845888)  # allocates until a request is refused
calls=("$tests/../bin/gpu_call_cost" 1 20)  # also without a limit
work=$(mktemp -d)
mps=
cleanup() {
  [ -n "$mps" ] && echo quit | nvidia-cuda-mps-control >/dev/null 2>&1
  rm -rf "$work"
}
trap cleanup EXIT

cat >"$work/passes.py" <<'PY'
import sys
import torch
model = torch.nn.Sequential(torch.nn.Conv2d(3, 64, 3), torch.nn.ReLU(), torch.nn.Conv2d(64, 64, 3)).cuda().eval()
data = torch.randn(8, 3, 128, 128, device="cuda")
def passes():
    with torch.inference_mode():
        for _ in range(5):
            model(data)
    torch.cuda.synchronize()
if "profiler" in sys.argv:
    with torch.profiler.profile(profile_memory=True) as profile:
        passes()
    kernels = sum(1 for event in profile.events() if "conv" in event.name.lower())
    print("the profiler saw", kernels, "events of convolutions")
    sys.exit(kernels == 0)
passes()
print("sound: PyTorch reserved", torch.cuda.memory_reserved(), "bytes")
PY

# tracing NAME COMMAND…: sets `command`; the word TRACE is replaced by Headroom's command line. The
# recording is $work/NAME.hrec.
tracing() {
  local name=$1 word
  shift
  command=()
  for word; do
    if [ "$word" = TRACE ]; then
      command+=("$bin/headroom" trace --force --out "$work/$name.hrec" --gpu-mem-limit 1GiB --)
    else
      command+=("$word")
    fi
  done
}
rows=()
try() {
  local name=$1 begin=$SECONDS code saw
  shift
  tracing "$name" "$@"
  timeout --kill-after=5 "${TOOL_SECONDS:-60}" "${command[@]}" >"$out/$name.log" 2>&1 </dev/null
  code=$?
  [ $code = 124 ] && code="124 (ended after ${TOOL_SECONDS:-60} s)"
  saw=$("$bin/headroom" report "$work/$name.hrec" --json 2>/dev/null | python3 -c '
import json, sys
try:
    devices = json.load(sys.stdin).get("devices") or []
    print("; ".join("device %s: peak %.1f MiB, %d refused" % (one["device"], one.get("peak_bytes", 0) / 2**20, one.get("refused_count", 0)) for one in devices) or "no device")
except ValueError:
    print("no recording")' 2>/dev/null)
  rows+=("| $name | $code | $saw | $((SECONDS - begin)) s | $(grep -v '^ *$' "$out/$name.log" | tail -n 1 | cut -c1-160 | tr '|' '/') |")
  echo "$name: $code; $saw" >&2
}
torch=
python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null && torch=yes

try alone TRACE "${program[@]}"
try alone_calls TRACE "${calls[@]}"
if [ -n "$torch" ]; then
  try torch TRACE python3 "$work/passes.py"
  try torch_profiler TRACE python3 "$work/passes.py" profiler
fi
if command -v compute-sanitizer >/dev/null; then
  for tool in memcheck initcheck; do
    try sanitizer_alone_$tool compute-sanitizer --tool $tool "${calls[@]}"
    try trace_of_sanitizer_$tool TRACE compute-sanitizer --tool $tool "${program[@]}"
    try sanitizer_of_trace_$tool compute-sanitizer --tool $tool --target-processes all TRACE "${program[@]}"
  done
fi
if command -v cuda-gdb >/dev/null; then
  run=(-ex 'set pagination off' -ex 'set confirm off' -ex run -ex bt)
  try gdb_alone cuda-gdb -batch "${run[@]}" --args "${calls[@]}"
  try trace_of_gdb_calls TRACE cuda-gdb -batch "${run[@]}" --args "${calls[@]}"
  try trace_of_gdb TRACE cuda-gdb -batch "${run[@]}" --args "${program[@]}"
  try gdb_of_trace cuda-gdb -batch -ex 'set follow-fork-mode child' -ex 'set detach-on-fork off' "${run[@]}" --args TRACE "${program[@]}"
  try gdb_sets_the_library cuda-gdb -batch -ex "set environment LD_PRELOAD $bin/libheadroom_trace.so" -ex "set environment HEADROOM_TRACE_FILE $work/gdb_sets_the_library.hrec" \
    -ex "set environment HEADROOM_TRACE_OPTIONS full=0,device=$limit" -ex 'set startup-with-shell off' "${run[@]}" --args "${program[@]}"
  if [ -n "$torch" ]; then
    try gdb_torch_alone cuda-gdb -batch "${run[@]}" --args python3 "$work/passes.py"
    try trace_of_gdb_torch TRACE cuda-gdb -batch "${run[@]}" --args python3 "$work/passes.py"
  fi
fi
if command -v ncu >/dev/null && [ -n "$torch" ]; then
  try trace_of_ncu TRACE ncu --clock-control none --launch-count 2 python3 "$work/passes.py"
fi
if command -v nvidia-cuda-mps-control >/dev/null; then
  export CUDA_MPS_PIPE_DIRECTORY=$work/mps CUDA_MPS_LOG_DIRECTORY=$work/mps
  mkdir -p "$work/mps"
  if nvidia-cuda-mps-control -d >"$out/mps_start.log" 2>&1; then
    mps=yes
    try mps_alone "${calls[@]}"
    try mps TRACE "$tests/traced_cuda" proc all "$limit" 39845888
    [ -n "$torch" ] && try mps_torch TRACE python3 "$work/passes.py"
    echo get_server_list | timeout 10 nvidia-cuda-mps-control >"$out/mps_servers.log" 2>&1
    echo quit | timeout 20 nvidia-cuda-mps-control >/dev/null 2>&1
    mps=
    cp "$work"/mps/*.log "$out/" 2>/dev/null
  else
    rows+=("| mps | – | cannot start the daemon | – | $(tail -n 1 "$out/mps_start.log") |")
  fi
  unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
fi
for tool in compute-sanitizer cuda-gdb ncu nvidia-cuda-mps-control; do
  command -v $tool >/dev/null || rows+=("| $tool | not found | | | |")
done
{
  echo "# Together with other tools"
  echo
  echo "$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -n 1), $(date +%F). Command: \`benchmarks/gpu_coexistence.sh\`, which also writes this file."
  echo
  echo "| what ran | exit code | the recording | time | last line |"
  echo "|---|---|---|---|---|"
  printf '%s\n' "${rows[@]}"
} | tee "$out/coexistence.md"
