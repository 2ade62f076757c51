#!/usr/bin/env python3
"""Measures the cost of recording the layers of PyTorch modules, on one CPU thread (or --device cuda):

- A call: a Sequential of 100 Identity modules, and one of 100 Linear modules of 4 x 4 (each call allocates). In one traced process,
  Headroom's replacement of nn.Module.__call__ alternates with PyTorch's own function, 20 passes at a time.
- The layers of a model: resnet18, batch 1 of 224 x 224, in the same way, --passes-a-turn at a time.
- Tracing in total: the same model in a process under `headroom trace` (default mode, layers on) and in one without it. Both start
  together and alternate (turns.py).

    benchmarks/torch_layers.py --build build/release --rounds 15 --output benchmarks/results/torch_layers

A ratio is that of the two sides of one round. Its median has a distribution-free 95 % confidence interval (order statistics of a
sign test). Needs PyTorch in the Python named by --python, and nothing else.
"""
import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time


# --- in the measured process

def resnet18(torch):
    nn = torch.nn

    def convolution(inside, outside, size, stride):
        return nn.Conv2d(inside, outside, size, stride, size // 2, bias=False)

    class Block(nn.Module):
        def __init__(self, inside, outside, stride):
            super().__init__()
            self.conv1, self.bn1 = convolution(inside, outside, 3, stride), nn.BatchNorm2d(outside)
            self.conv2, self.bn2 = convolution(outside, outside, 3, 1), nn.BatchNorm2d(outside)
            self.relu = nn.ReLU(inplace=True)
            self.downsample = None
            if inside != outside:
                self.downsample = nn.Sequential(convolution(inside, outside, 1, stride), nn.BatchNorm2d(outside))

        def forward(self, x):
            y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
            return self.relu(y + (x if self.downsample is None else self.downsample(x)))

    class ResNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.bn1, self.relu = convolution(3, 64, 7, 2), nn.BatchNorm2d(64), nn.ReLU(inplace=True)
            self.maxpool = nn.MaxPool2d(3, 2, 1)
            widths = [64, 64, 128, 256, 512]
            for i in range(1, 5):
                setattr(self, f"layer{i}", nn.Sequential(Block(widths[i - 1], widths[i], 1 + (i > 1)), Block(widths[i], widths[i], 1)))
            self.avgpool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(512, 1000)

        def forward(self, x):
            x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
            x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
            return self.fc(torch.flatten(self.avgpool(x), 1))

    return ResNet().eval()


def prepared(options):
    import torch

    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    model = resnet18(torch).to(options.device)
    x = torch.rand(1, 3, 224, 224, device=options.device)
    wait = torch.cuda.synchronize if options.device != "cpu" else lambda: None

    def run():
        model(x)
        wait()

    return torch, run


def nanoseconds(run, passes):
    """Nanoseconds of each pass."""
    found = []
    for _ in range(passes):
        start = time.perf_counter_ns()
        run()
        found.append(time.perf_counter_ns() - start)
    return found


def measure_alone(options):
    _, run = prepared(options)
    nanoseconds(run, 10)
    return {"p50_ns": statistics.median(nanoseconds(run, options.passes))}


def measure_toggled(options):
    """Both sides in one process. A round is replacement, own, own, replacement; a side's value is its median pass."""
    torch, run = prepared(options)
    module = torch.nn.Module
    replacement = module.__call__
    own = getattr(module, replacement.__name__)
    if own is replacement:
        raise SystemExit("torch_layers: nn.Module.__call__ is not replaced; is this run traced?")
    identities = torch.nn.Sequential(*[torch.nn.Identity() for _ in range(100)])
    linears = torch.nn.Sequential(*[torch.nn.Linear(4, 4) for _ in range(100)])
    x = torch.zeros(1, 4)

    def turn(call, of, passes):
        module.__call__ = call
        of()  # Python's caches are reset when a class changes
        return nanoseconds(of, passes)

    def rounds(of, passes, count):
        for call in (replacement, own):
            turn(call, of, passes)
        found = []
        for _ in range(count):
            sides = [turn(call, of, passes) for call in (replacement, own, own, replacement)]
            found.append({"layers_ns": statistics.median(sides[0] + sides[3]), "own_ns": statistics.median(sides[1] + sides[2])})
        return found

    result = {"calls": 101, "identities": rounds(lambda: identities(x), 20, options.passes),
              "linears": rounds(lambda: linears(x), 20, options.passes), "model": rounds(run, options.passes_a_turn, options.passes)}
    module.__call__ = replacement
    return dict(result, torch=torch.__version__, python=platform.python_version())


# --- the measurement

def run_measured(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"torch_layers: {' '.join(command)} ended with {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout.splitlines()[-1])


def interval(values):
    from medians import confidence_of_median
    low, high = confidence_of_median(values)
    return statistics.median(values), low, high


def measure(options, folder):
    from turns import run_in_turns, slice_for

    def measured(name):
        return [options.python, os.path.abspath(__file__), "--measured", name, "--passes", str(options.passes), "--device", options.device]

    trace = [f"{options.build}/bin/headroom", "trace", "--force", "--out", f"{folder}/a.hrec", "--"]
    toggled = run_measured(trace + measured("toggled"))
    sides = {"alone": measured("alone"), "traced": trace + measured("alone")}
    rounds = []
    for index in range(options.rounds):
        order = list(sides) if index % 2 == 0 else list(reversed(sides))
        outputs = run_in_turns([sides[side] for side in order], slice_for(0.05))
        rounds.append({side: json.loads(output.splitlines()[-1])["p50_ns"] for side, output in zip(order, outputs)})
        print(f"torch_layers: round {index + 1} of {options.rounds}", file=sys.stderr)
    return dict(toggled, rounds=rounds)


def table(options, found, load):
    ratios = [r["layers_ns"] / r["own_ns"] for r in found["model"]]
    in_all = [r["traced"] / r["alone"] for r in found["rounds"]]
    model = statistics.median(r["own_ns"] for r in found["model"]) / 1e6
    alone = statistics.median(r["alone"] for r in found["rounds"]) / 1e6
    lines = ["# What the layers of PyTorch's modules cost", "",
             f"Command: `benchmarks/torch_layers.py --rounds {options.rounds} --passes {options.passes} --device {options.device}`. Machine: "
             f"{os.cpu_count()} processors, {platform.machine()}, Linux {platform.release()}; load when it began {load:.1f}. PyTorch {found['torch']}, "
             f"Python {found['python']}, one thread.", "",
             "| question | without | with layers | 95 % of the median | rounds |", "|---|--:|--:|--:|--:|"]
    for of, words in (("identities", "Identity"), ("linears", "Linear of 4 x 4")):
        call = statistics.median(r["own_ns"] for r in found[of]) / found["calls"]
        added = [(r["layers_ns"] - r["own_ns"]) / found["calls"] for r in found[of]]
        median, low, high = interval(added)
        lines.append(f"| one module call ({words}, 100 in a Sequential) | {call:.0f} ns | {median:+.0f} ns | {low:+.0f} to {high:+.0f} ns | {len(added)} |")
    median, low, high = interval(ratios)
    lines.append(f"| resnet18 b1, traced, layers off and on in one process | {model:.2f} ms | × {median:.4f} | {low:.4f}–{high:.4f} | {len(ratios)} |")
    median, low, high = interval(in_all)
    lines.append(f"| resnet18 b1, `headroom trace` compared with untraced, two alternating processes | {alone:.2f} ms | × {median:.4f} | {low:.4f}–{high:.4f} | {len(in_all)} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--passes", type=int, default=100, help="passes of the model by each side in a round (default: 100)")
    parser.add_argument("--passes-a-turn", type=int, default=3, help="passes of the model per turn, in one process (default: 3)")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--python", default="/usr/bin/python3", help="a Python with PyTorch (default: /usr/bin/python3, Debian's)")
    parser.add_argument("--output", default="build/bench/torch_layers")
    parser.add_argument("--measured", choices=["alone", "toggled"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measured:
        print(json.dumps({"alone": measure_alone, "toggled": measure_toggled}[options.measured](options)))
        return
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        found = measure(options, folder)
    text = table(options, found, load)
    os.makedirs(os.path.dirname(options.output) or ".", exist_ok=True)
    with open(options.output + ".md", "w", encoding="utf-8") as file:
        file.write(text)
    with open(options.output + ".json", "w", encoding="utf-8") as file:
        json.dump(found, file)
        file.write("\n")
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
