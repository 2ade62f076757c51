#!/usr/bin/env python3
"""Measures the memory of `headroom serve`: at rest, with a long history, and while 64 clients request all of it without reading the
response. The limits in packaging/systemd/headroom-serve.service are based on this.

    benchmarks/serve_memory.py --build build/release [--fill-minutes 1] [--markdown FILE]

The server runs in its own control group (`headroom run --limit 512MiB`). Its program files are not in the page cache, so the group is
charged for their pages, as after a boot. The group's figure includes memory that the process's figure does not: sockets, page tables,
the file cache.
"""
import argparse
import os
import platform
import shutil
import socket
import subprocess
import tempfile
import time

CLIENTS = 64


def drop_from_cache(path):
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def child_of(pid):
    for _ in range(200):
        with open(f"/proc/{pid}/task/{pid}/children") as children:
            if found := children.read().split():
                return int(found[0])
        time.sleep(0.05)
    raise SystemExit("headroom serve did not start")


def group_file(pid):
    """The files with the charge of the process's group, and of its sockets (separate in version 1)."""
    with open(f"/proc/{pid}/cgroup") as groups:
        for line in groups:
            _, controllers, path = line.strip().split(":", 2)
            if "memory" in controllers.split(","):
                return [f"/sys/fs/cgroup/memory{path}/{name}" for name in ("memory.usage_in_bytes", "memory.kmem.tcp.usage_in_bytes")]
            if not controllers and os.path.exists(f"/sys/fs/cgroup{path}/memory.current"):
                return [f"/sys/fs/cgroup{path}/memory.current"]
    return []


class Watched:
    def __init__(self, pid):
        self.pid, self.group = pid, group_file(pid)

    def now(self):
        fields = {}
        with open(f"/proc/{self.pid}/status") as status:
            for line in status:
                key, value = line.split(":", 1)
                fields[key] = value.split()[0] if value.split() else ""
        charged = 0
        for name in self.group:
            with open(name) as file:
                charged += int(file.read())
        return {"resident": int(fields["VmRSS"]) / 1024, "anonymous": int(fields["RssAnon"]) / 1024, "locked": int(fields["VmLck"]) / 1024,
                "threads": int(fields["Threads"]), "group": charged / 2**20}

    def most(self, seconds):
        """The largest value of each figure."""
        end, most = time.monotonic() + seconds, self.now()
        while time.monotonic() < end:
            time.sleep(0.02)
            most = {key: max(value, most[key]) for key, value in self.now().items()}
        return most


def ask_and_do_not_read(port):
    clients = []
    for _ in range(CLIENTS):
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", port))
        client.sendall(b"GET /api/v1/history HTTP/1.1\r\nHost: localhost\r\n\r\n")
        clients.append(client)
    return clients


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--fill-minutes", type=float, default=1)
    parser.add_argument("--markdown")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name in ("headroom", "libheadroom_serve_httplib.so"):
            shutil.copy(os.path.join(options.build, "bin", name), folder)
            drop_from_cache(os.path.join(folder, name))
        headroom = os.path.join(folder, "headroom")
        run = subprocess.Popen([os.path.join(options.build, "bin/headroom"), "run", "--limit", "512MiB", "--", headroom, "serve", "--listen", "127.0.0.1:0",
                                "--interval", "100ms", "--history", "10h"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            port = int(run.stdout.readline().strip().rstrip("/").rsplit(":", 1)[1])
            serve = Watched(child_of(run.pid))
            time.sleep(5)
            rows = [("at rest, 5 s after its start", serve.now())]
            time.sleep(60 * options.fill_minutes)
            points = min(36000, int(600 * options.fill_minutes))
            rows.append((f"with a history of {points:,} points", serve.now()))
            clients = ask_and_do_not_read(port)
            rows.append((f"{CLIENTS} clients that request all of it and do not read", serve.most(4)))
            for client in clients:
                client.close()
            time.sleep(40)
            subprocess.run(["curl", "-s", "-o", "/dev/null", f"http://127.0.0.1:{port}/metrics"], check=True)
            rows.append(("40 s after they disconnected", serve.now()))
        finally:
            run.terminate()
            run.wait()
    table = "\n".join(f"| {what} | {row['resident']:.1f} MiB | {row['anonymous']:.1f} MiB | {row['locked']:.0f} MiB | {row['group']:.1f} MiB | {row['threads']} |"
                      for what, row in rows)
    text = (f"`benchmarks/serve_memory.py --fill-minutes {options.fill_minutes:g}`, {os.cpu_count()} cores, Linux {platform.release()}.\n\n"
            f"| | resident | not file-backed | VmLck | group | threads |\n|---|---|---|---|---|---|\n{table}\n")
    print(text)
    if options.markdown:
        with open(options.markdown, "a") as file:
            file.write(text)


if __name__ == "__main__":
    main()
