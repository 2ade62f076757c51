"""Encodes and decodes documents in two threads, for tests that attach to it. It runs until its standard input ends,
and then prints what it counted."""
import json
import sys
import threading

stopping = False
done = [0, 0]
wrong = [0, 0]


def work(which):
    number = 0
    while not stopping:
        number += 1
        document = {"number": number, "items": [{"name": f"item {i}", "values": list(range(i % 17))} for i in range(50)]}
        text = json.dumps(document)
        if json.loads(text) != document or len(bytearray(text, "utf-8") * 2) != 2 * len(text):
            wrong[which] += 1
        done[which] += 1


threads = [threading.Thread(target=work, args=(which,)) for which in range(2)]
for thread in threads:
    thread.start()
print("ready", flush=True)
while byte := sys.stdin.read(1):
    if byte == "?":
        print(sum(done), flush=True)
stopping = True
for thread in threads:
    thread.join()
print(json.dumps({"done": sum(done), "wrong": sum(wrong), "interrupted": 0}), flush=True)
