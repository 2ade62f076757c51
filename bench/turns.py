"""Two programs that take turns: each runs for a slice of time while the other is stopped.

A machine that others use too is faster in one second than in the next, by far more than two programs of interest differ.
Whole runs in turn meet different seconds; slices of a quarter of a second meet the same ones. What a program does in a
slice, it does as if it were alone; a measurement that a stop falls into is one in a dozen or more, which a median hardly sees.
"""
import os
import signal
import subprocess
import tempfile
import time


def session_members(leader):
    """All processes of a session: the programs start children with process groups of their own."""
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
    """Of a quarter of a second, or a dozen measurements."""
    return max(0.25, 12 * seconds_of_one_measurement)


def run_in_turns(commands, slice_seconds):
    """The standard outputs of the commands, in their order. When one has ended the other goes on alone."""
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
