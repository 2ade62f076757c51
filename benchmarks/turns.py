"""Runs two programs alternately: each runs for a slice of time while the other is stopped.

The speed of a shared machine changes from one second to the next, by far more than the two programs differ. Whole runs one after
another see different states; slices of a quarter of a second see the same ones. Within a slice a program runs as if it were alone.
A stop falls into one measurement of a dozen or more, so the median hardly changes.
"""
import os
import signal
import subprocess
import tempfile
import time


def session_members(leader):
    """All processes of a session, because the programs start children in other process groups."""
    members = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == leader:
            members.append(int(name))
    return members


def send(leader, number):
    for pid in session_members(leader):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def slice_for(seconds_of_one_measurement):
    """A quarter of a second, or a dozen measurements."""
    return max(0.25, 12 * seconds_of_one_measurement)


def run_in_turns(commands, slice_seconds):
    """Returns the standard outputs of the commands, in order. When one ends, the other continues alone."""
    files = [tempfile.TemporaryFile("w+") for _ in commands]
    errors = [tempfile.TemporaryFile("w+") for _ in commands]
    running = []
    for command, file, error in zip(commands, files, errors):
        process = subprocess.Popen(command, stdout=file, stderr=error, start_new_session=True)
        send(process.pid, signal.SIGSTOP)
        running.append(process)
    try:
        while all(process.poll() is None for process in running):
            for process in running:
                send(process.pid, signal.SIGCONT)
                try:
                    process.wait(slice_seconds)
                    break
                except subprocess.TimeoutExpired:
                    send(process.pid, signal.SIGSTOP)
        for process in running:
            send(process.pid, signal.SIGCONT)
            process.wait()
    finally:
        for process in running:
            if process.poll() is None:
                send(process.pid, signal.SIGKILL)
    outputs = []
    for process, file, error in zip(running, files, errors):
        file.seek(0)
        error.seek(0)
        if process.returncode != 0:
            raise SystemExit(f"{process.args[0]} failed with {process.returncode}: {error.read()}")
        outputs.append(file.read())
        file.close()
        error.close()
    return outputs
