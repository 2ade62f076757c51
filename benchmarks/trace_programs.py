"""The real programs for benchmarks/trace_peers.py, set up to do the same work every time: fixed seeds, one thread, own input
files."""
import os
import shlex
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

PYTHON_PROGRAM = """
import json, re
records = [{"id": i, "name": "item %d" % i, "tags": ["a%d" % (i % 7), "b%d" % (i % 11)], "price": i * 0.25} for i in range(RECORDS)]
text = json.dumps(records)
again = json.loads(text)
words = re.findall(r"item (\\d+)", text)
index = {}
for record in again:
    index.setdefault(record["tags"][0], []).append(record)
print(len(text), len(words), sum(len(group) for group in index.values()))
"""

NODE_PROGRAM = """
const records = [];
for (let i = 0; i < 20000; ++i) records.push({id: i, name: `item ${i}`, data: Buffer.allocUnsafeSlow(64 + i % 512)});
const text = JSON.stringify(records.map(({id, name}) => ({id, name})));
const again = JSON.parse(text);
let sum = 0;
for (const {data} of records) sum += data.length;
console.log(text.length, again.length, sum, require('crypto').createHash('sha256').update(text).digest('hex'));
"""

SQLITE_PROGRAM = """
CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, kind INTEGER, price REAL);
CREATE TABLE kind(id INTEGER PRIMARY KEY, label TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40000)
  INSERT INTO item SELECT i, printf('item %d', i), i % 97, i * 0.25 FROM n;
WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 96)
  INSERT INTO kind SELECT i, printf('kind %d', i) FROM n;
CREATE INDEX by_kind ON item(kind);
SELECT label, count(*), sum(price) FROM item JOIN kind ON kind.id = item.kind GROUP BY label ORDER BY 3 DESC LIMIT 5;
SELECT count(*) FROM item a JOIN item b ON a.kind = b.kind AND a.id + 97 = b.id;
"""


class Program:
    def __init__(self, name, command, what, environment=None, stdin=os.devnull, dhat=False):
        self.name, self.command, self.what = name, command, what
        self.environment, self.stdin, self.dhat = environment or {}, stdin, dhat


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def python_programs(path, folder, records=6000):
    script = write(os.path.join(folder, "work.py"), PYTHON_PROGRAM.replace("RECORDS", str(records)))
    environment = {"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    return [Program("python3", [path, script], f"json and re over {records:,} records", environment, dhat=True),
            Program("python3, PYTHONMALLOC=malloc", [path, script], "the same, each object from malloc",
                    {**environment, "PYTHONMALLOC": "malloc"})]


def node_programs(path, folder):
    script = write(os.path.join(folder, "work.js"), NODE_PROGRAM)
    return [Program("node", [path, "--single-threaded", "--predictable", script], "20,000 buffers, JSON, SHA-256")]


def git_programs(path, folder):
    """300 commits over 40 text files, the same each time."""
    repository = os.path.join(folder, "repository")
    environment = {"GIT_CONFIG_NOSYSTEM": "1", "HOME": folder}
    git = lambda *words, **more: subprocess.run([path, *words], check=True, env={**os.environ, **environment}, **more)
    git("init", "-q", "-b", "main", repository)
    stream = []
    for commit in range(300):
        message = f"change {commit}"
        stream.append(f"commit refs/heads/main\ncommitter A <a@example.org> {1700000000 + commit * 60} +0000\n"
                      f"data {len(message)}\n{message}\n")
        for number in (n % 40 for n in range(commit, commit + 3)):
            text = "".join(f"line {line} of file {number} as of {commit if line % 9 == commit % 9 else number}\n"
                           for line in range(200))
            stream.append(f"M 644 inline folder{number % 5}/file{number}.txt\ndata {len(text)}\n{text}\n")
    git("-C", repository, "fast-import", "--quiet", input="".join(stream).encode())
    packing = ["pack-objects", "--all", "--threads=1", "--no-reuse-delta", "--no-reuse-object", "--quiet", "--stdout"]
    return [Program("git log", [path, "-C", repository, "--no-pager", "log", "--stat", "-p", "--no-color"],
                    "300 commits as patches", environment, dhat=True),
            Program("git pack-objects", [path, "-C", repository, *packing],
                    "the working part of `git gc`, on the same 300 commits", environment)]


def sqlite_programs(path, folder):
    script = write(os.path.join(folder, "work.sql"), SQLITE_PROGRAM)
    return [Program("sqlite3", [path, "-batch", "-init", os.devnull, ":memory:"], "40,000 rows in memory, an index, joins",
                    {"HOME": folder}, stdin=script, dhat=True)]


def compiler_programs(path, folder):
    """The compiler proper, as g++ starts it, because heaptrack does not trace child processes."""
    preprocessed = os.path.join(folder, "recording.ii")
    subprocess.run([path, "-std=c++20", f"-I{ROOT}/src", "-E", os.path.join(ROOT, "src/recording/recording.cpp"), "-o",
                    preprocessed], check=True)
    steps = subprocess.run([path, "-std=c++20", "-O1", "-c", preprocessed, "-o", os.path.join(folder, "recording.o"), "-###"],
                           capture_output=True, text=True, check=True).stderr.splitlines()
    command = next(shlex.split(line) for line in steps if "cc1plus" in line.split("-quiet")[0])
    command[command.index("-o") + 1] = os.path.join(folder, "recording.s")
    return [Program("g++ (its cc1plus)", command, "src/recording/recording.cpp, preprocessed, -O1")]


def compressor_programs(path, folder):
    numbers = write(os.path.join(folder, "numbers.txt"), "".join(f"{i * i % 65521}\n" for i in range(200_000)))
    name = os.path.basename(path)
    return [Program(name, [path, *(["-T1", "-6"] if name == "xz" else []), "-k", "-c", numbers], "1 MB of numbers", dhat=True)]


def sort_programs(path, folder):
    lines = write(os.path.join(folder, "lines.txt"), "".join(f"{i * 7919 % 1000003} some text of line {i}\n" for i in range(400_000)))
    return [Program("sort", [path, "--parallel=1", lines], "400,000 lines", {"LC_ALL": "C.UTF-8"})]


def message_programs(build):
    """Like a ROS 2 node (message_node.cpp)."""
    path = os.path.realpath(os.path.join(build, "tests/message_node"))
    return [Program("node with small messages", [path], "300,000 messages of four topics, three threads")] if os.path.exists(path) else []


def inference_programs(build):
    loop = os.path.join(build, "bin/bare_onnxruntime_loop")
    model = os.path.join(ROOT, ".deps/models/face_detection_front_128x128_barracuda.onnx")
    if not os.path.exists(loop) or not os.path.exists(model):
        return []
    command = [os.path.realpath(loop), "--model", model, "--threads", "1", "--iterations", "200", "--warmup", "5"]
    return [Program("ONNX Runtime (bare_onnxruntime_loop)", command, "BlazeFace, 205 inferences on one thread")]


def find_programs(build, folder):
    """The programs on this machine, and the names of missing ones."""
    found, absent = [], []
    for tool, make in ((sys.executable, python_programs), ("node", node_programs), ("git", git_programs),
                       ("sqlite3", sqlite_programs), ("g++", compiler_programs), ("xz", compressor_programs),
                       ("gzip", compressor_programs)):
        path = shutil.which(tool)
        if path is None:
            absent.append(tool)
        else:
            found += make(os.path.realpath(path), folder)
    inference = inference_programs(build)
    return found + inference, absent + ([] if inference else ["bare_onnxruntime_loop with BlazeFace"])
