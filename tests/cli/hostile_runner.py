"""Runs commands for test_hostile_inputs.py, one per line of JSON on standard input, and prints their exit status, time and peak.

A process of its own, and a small one: the kernel counts the peak of a parent as that of the program that its child executes.
"""
import json
import os
import signal
import sys
import time

NOBODY = 65534


def start(command, out, err, environment, as_nobody):
    child = os.fork()
    if child > 0:
        return child
    try:
        os.setsid()
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        for number, path in [(1, out), (2, err)]:
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), number)
        if as_nobody:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        os.execve(command[0], command, environment)
    finally:
        os._exit(127)


def wait_for(child, seconds):
    begin = time.monotonic()
    hung = False
    while True:
        pid, status, usage = os.wait4(child, os.WNOHANG)
        spent = time.monotonic() - begin
        if pid != 0:
            return {"code": os.waitstatus_to_exitcode(status), "hung": hung, "seconds": spent,
                    "cpu": usage.ru_utime + usage.ru_stime, "peak": usage.ru_maxrss << 10}
        if spent > seconds and not hung:
            hung = True
            os.killpg(child, signal.SIGKILL)
        time.sleep(0.001 if spent < 0.1 else 0.01)


def main():
    for line in sys.stdin:
        job = json.loads(line)
        child = start(job["command"], job["out"], job["err"], job["environment"], job["as_nobody"])
        print(json.dumps(wait_for(child, job["seconds"])), flush=True)


if __name__ == "__main__":
    main()
