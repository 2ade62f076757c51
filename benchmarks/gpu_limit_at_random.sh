#!/usr/bin/env bash
# gpu_limit_at_random.sh BUILD [RUNS]: checks that a GPU limit holds for random calls of three threads. Needs no GPU: it uses the fake
# driver of the tests, which interrupts its callers and delays some work. The driver stops at the first byte beyond the limit and prints the
# stack. RUNS (100) of each kind, each with its own seed: memory by the byte and in granules of 2 MiB, 1 in 4 or 1 in 16 calls interrupted,
# with and without a recording. Two runs at a time. Prints the runs that exceeded the limit, and the totals.
set -uo pipefail
build=$(realpath "${1:?usage: gpu_limit_at_random.sh BUILD [RUNS]}")
runs=${2:-100}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
limit=1000341504  # a multiple of both granules
run() {  # KIND GRANULE ONE_IN RECORDS SEED
  local options="ledger=1,device=$limit" file=""
  if [ "$4" = yes ]; then
    options="gpu,stacks=off,device=$limit" file="$work/$1.$5.hrec"
  fi
  if LD_PRELOAD=$build/bin/libheadroom_trace_gpu.so LD_LIBRARY_PATH=$build/tests/fake_cuda HEADROOM_TRACE_FILE=$file HEADROOM_TRACE_OPTIONS=$options \
    FAKE_CUDA_GRANULE=$2 FAKE_CUDA_PREEMPT=$3 FAKE_CUDA_MOST=$limit FAKE_CUDA_LEDGER_SLACK=0 TEST_SEED=$5 timeout 120 "$build/tests/traced_cuda" dlsym random "$limit" 7340032 >"$work/$1.$5.out" 2>&1; then
    echo sound >>"$work/$1.sum"
  else
    echo "$1, seed $5: $(tail -n 12 "$work/$1.$5.out" | cut -c 1-150)"
    echo wrong >>"$work/$1.sum"
  fi
  rm -rf "$work/$1.$5".hrec*
}
export -f run
export build work limit
for kind in "bytes 0 16 no" "often 0 4 no" "granules 2097152 16 no" "recorded 2097152 4 yes"; do
  for seed in $(seq "$runs"); do printf '%s %s\n' "$kind" "$seed"; done
done | xargs -P 2 -L 1 bash -c 'run "$@"' run
wrong=$(cat "$work"/*.sum | grep -c wrong)
echo "$(cat "$work"/*.sum | grep -c sound) sound, $wrong wrong"
[ "$wrong" -eq 0 ]
