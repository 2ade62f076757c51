#!/usr/bin/env bash
# in_root.sh NAME STEP …: tests of the installed package inside a minimal Debian (bash, coreutils, grep and perl-base). /tests/headroom.deb is
# the package. Prints for each step `passed: NAME STEP` or `failed: NAME STEP`, after a failure with its output.
set -uo pipefail
name=$1
shift
examples=/usr/share/headroom/examples
mkdir -p /tmp/work && cd /tmp/work || exit 1

fail() { echo "$*" && return 1; }

# All files but those that dpkg rewrites for each package.
files() { find / -xdev -not -path '/proc/*' -not -path '/sys/*' -not -path '/dev/*' -not -path '/tmp/*' -not -path '/tests*' \
  -not -path '/var/lib/dpkg/*-old' -not -path /var/log/dpkg.log -not -path '/var/cache/ldconfig/*' | sort; }

# The links and files that `systemctl enable --now headroom-serve` makes. These systems have no systemd.
wants=/etc/systemd/system/multi-user.target.wants
service_files() {
  ln -s /lib/systemd/system/headroom-serve.service "$wants/headroom-serve.service" && mkdir -p /var/lib/headroom &&
    touch /var/lib/headroom/alerts.jsonl
}

step_install() {
  mkdir -p "$wants" || return 1
  files >before
  dpkg -i /tests/headroom.deb && headroom --version || return 1
  grep -x 'ExecStart=/usr/bin/headroom serve' /usr/lib/systemd/system/headroom-serve.service
}

bench() {
  headroom bench --source "$examples/pictures" --model face="$examples/face_detection.onnx" --max-frames 4 --mem-limit 512MiB \
    --prepared-dir prepared --output-dir "$1" >"$1.out" 2>&1 || { cat "$1.out"; return 1; }
  cat "$1.out"
  grep -q '"status": "ok"' "$1"/*/report.json || fail "the report has no successful model"
}

step_bench() {
  bench runs && headroom report runs/* >report.out && grep face report.out
}

# As in a container without rights: the limit is soft, and the note says why.
step_soft() {
  bench soft || return 1
  grep -q 'the memory limit is soft' soft.out || fail "bench does not say that the limit is soft" || return 1
  grep -q '"note": "cannot create a memory control group' soft/*/report.json || fail "the report does not say why the limit is soft"
}

# 32 MiB in one allocation. The line `live: BYTES` is compared between architectures.
step_trace() {
  headroom trace --full --out a.hrec -- perl -e '$n = 32 << 20; $x = "x" x $n;' || return 1
  headroom report a.hrec >report.out || return 1
  grep -q '^Peak ' report.out || fail "report does not show the peak" || return 1
  local peak
  peak=$(headroom report --json a.hrec | sed -n 's/^  "peak_bytes": \([0-9]*\),$/\1/p')
  [ "${peak:-0}" -ge $((32 << 20)) ] || fail "the peak is ${peak:-absent}, less than the program's 32 MiB" || return 1
  echo "live: $peak"
}

step_doctor() {
  echo 'Memory cgroup out of memory: Killed process 210 (python3) total-vm:265768kB, anon-rss:1000kB, file-rss:224kB, shmem-rss:0kB' >kernel.log
  headroom doctor kernel.log >doctor.out
  local status=$?
  cat doctor.out
  [ $status -le 1 ] && grep -q python3 doctor.out
}

step_plan() {
  headroom plan "$examples/budget-perception.toml" --device orin-nano-8gb >plan.out
  [ $? -le 1 ] && grep -q NanoVLM plan.out
}

step_watch() {
  headroom watch --interval 500ms --duration 2s --output watch.jsonl || return 1
  [ "$(grep -cs unix_time_ns watch.jsonl)" -ge 3 ] || fail "the log has too few samples"
}

step_top() {
  headroom top --once >top.out || return 1
  cat top.out
  grep -q Memory top.out
}

request() {
  { exec 3<>/dev/tcp/127.0.0.1/9477; } 2>/dev/null || return 1
  printf 'GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' >&3
  cat <&3
  exec 3>&-
}

step_serve() {
  headroom serve --listen 127.0.0.1:9477 >serve.out 2>&1 &
  local server=$! tries=0 status=1
  # Until the first sample, at most 30 s: an emulator starts slowly.
  while [ $tries -lt 300 ] && kill -0 $server && [ $status != 0 ]; do
    request >answer && grep -q '^headroom_' answer && status=0
    sleep 0.1
    tries=$((tries + 1))
  done
  kill $server 2>/dev/null
  wait $server 2>/dev/null
  cat serve.out && head -n 20 answer
  return $status
}

step_purge() {
  service_files || return 1
  dpkg --purge headroom || return 1
  files >after
  diff before after
}

for step in "$@"; do
  if "step_$step" >"$step.log" 2>&1; then
    grep '^live: ' "$step.log"
    echo "passed: $name $step"
  else
    sed 's/^/  | /' "$step.log" | tail -n 40
    echo "failed: $name $step"
  fi
done
