#!/usr/bin/env python3
"""Measures the cost of scrapes for `headroom serve`: processor time and resident memory while it is scraped at a constant rate, and
whether its samples stay on time.

    benchmarks/serve_load.py --build build/release [--rates 0,1,100,1000] [--seconds 10] [--markdown FILE]

Two clients each keep a connection open. The server's figures are the kernel's (schedstat of each thread, VmHWM).
"""
import argparse
import http.client
import json
import os
import platform
import subprocess
import threading
import time


def processor_seconds(pid):
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/schedstat") as schedstat:
            total += int(schedstat.read().split()[0])
    return total / 1e9


def resident_peak_mib(pid):
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024


def scrape(port, rate, seconds, answers):
    connection = http.client.HTTPConnection("127.0.0.1", port)
    begin = time.monotonic()
    for i in range(int(rate * seconds)):
        wait = begin + i / rate - time.monotonic()
        if wait > 0:
            time.sleep(wait)
        try:
            connection.request("GET", "/metrics")
            response = connection.getresponse()
            body = response.read()
            answers.append(response.status == 200 and b"headroom_memory_total_bytes" in body)
        except (http.client.HTTPException, OSError):  # the server closes a connection after some requests
            connection = http.client.HTTPConnection("127.0.0.1", port)


def measure(binary, rate, seconds):
    server = subprocess.Popen([binary, "serve", "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        port = int(server.stdout.readline().strip().rstrip("/").rsplit(":", 1)[1])
        time.sleep(2)
        answers, before, begin = [], processor_seconds(server.pid), time.monotonic()
        clients = [threading.Thread(target=scrape, args=(port, rate / 2, seconds, answers)) for _ in range(2 if rate else 0)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        if not rate:
            time.sleep(seconds)
        passed = time.monotonic() - begin
        used = processor_seconds(server.pid) - before
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.request("GET", "/api/v1/history")
        times = json.loads(connection.getresponse().read())["unix_ms"]
        pauses = [b - a for a, b in zip(times, times[1:])]
        return {"wanted": rate, "answered": sum(answers) / passed, "refused": len(answers) - sum(answers), "cpu": 100 * used / passed,
                "rss": resident_peak_mib(server.pid), "pause": max(pauses)}
    finally:
        server.terminate()
        server.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--rates", default="0,1,100,1000")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--markdown")
    options = parser.parse_args()
    lines = ["| scrapes per second | answered per second | not answered | share of a core | peak resident | longest pause between samples of 1 s |", "|---|---|---|---|---|---|"]
    for rate in options.rates.split(","):
        row = measure(os.path.join(options.build, "bin/headroom"), int(rate), options.seconds)
        lines.append(f"| {row['wanted']} | {row['answered']:.0f} | {row['refused']} | {row['cpu']:.2f} % | {row['rss']:.1f} MiB | {row['pause']} ms |")
    table = "\n".join(lines)
    print(table)
    if options.markdown:
        with open("/proc/cpuinfo") as cpuinfo:
            model = next((line.split(":", 1)[1].strip() for line in cpuinfo if line.startswith("model name")), platform.machine())
        load = os.getloadavg()[0]
        with open(options.markdown, "w") as page:
            page.write(f"# Cost of scrapes for `headroom serve`\n\n`benchmarks/serve_load.py --rates {options.rates} --seconds {options.seconds:g} --markdown …`, "
                       f"{model}, {os.cpu_count()} cores, Linux {platform.release()}; load average at the end {load:.1f}.\n\n{table}\n")


if __name__ == "__main__":
    main()
