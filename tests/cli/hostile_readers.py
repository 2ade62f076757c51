"""The readers of Headroom that take files from others: where each file lies, what a good one is, and which commands read it.

A reader's `place` is the path of the hostile file in a folder of its own, and `tree` has the good files around it. In commands, {file}
is the hostile file, {folder} the folder and {good} the good file. `bound_mib` is the memory beyond three times the file and beyond
what the good file needs; docs/limits-of-readers.md states it for users.
"""
import dataclasses
import glob
import gzip
import os

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
EARLIER = os.path.join(ROOT, "tests/golden/earlier/9f3521f2")
FUZZ = os.path.join(ROOT, "tests/fuzz/corpus")
SHARED = os.environ.get("HEADROOM_SHARED_DATA", os.path.join(ROOT, "../shared/data"))


@dataclasses.dataclass
class Reader:
    name: str
    place: str
    seed: str  # a file, plain or gzip
    commands: list
    text: bool = True
    tree: dict = dataclasses.field(default_factory=dict)
    bound_mib: int = 8
    names_file: bool = True  # its errors name the file, or the file's absence is not an error
    also_named: list = dataclasses.field(default_factory=list)  # what an error may name instead
    all_places: bool = False  # each variant is made of every file of the tree, not only of `place`
    one_by_one: bool = False  # each variant is made of the next file of the tree
    good_codes: tuple = (0, 1)  # of the good file
    is_slow: bool = False    # more than a tenth of a second each
    is_live: bool = False    # reads pipes and devices as they come, until the user ends it
    needs: str = ""          # a plug-in next to the program


def content_of(path):
    """The seed's bytes. Seeds are stored with gzip if they are large."""
    with open(path, "rb") as file:
        content = file.read()
    return gzip.decompress(content) if path.endswith(".gz") else content


def earlier(name):
    return os.path.join(EARLIER, name)


def run_folder(folder, name, without=""):
    """The files of a run, under `folder`."""
    base = earlier(name)
    files = {os.path.relpath(path, base).removesuffix(".gz"): path for path in glob.glob(base + "/**", recursive=True) if os.path.isfile(path)}
    return {os.path.join(folder, inner): path for inner, path in files.items() if inner != without}


def pool_file():
    """What the model pool "main" of process 100 writes, of 1024 bytes."""
    figures = ["pid 100"] + [f"{name}_bytes 1000000" for name in ["budget", "used", "resident", "loading", "unaccounted", "stuck", "measured"]]
    figures += [f"{name} 3" for name in ["requests", "hits", "waits", "refusals", "loads", "load_failures", "evictions", "load_ns", "wait_ns"]]
    lines = ["headroom-pool 1 7", "name main", "device cpu", "start_ticks 4242"] + figures + ["end 7"]
    return "\n".join(lines).encode().ljust(1024, b"\n")


def machine_tree():
    """A small /proc and /sys, made of what the tests know of a Jetson with a control group."""
    return {
        "proc/meminfo": b"MemTotal: 7802740 kB\nMemFree: 512000 kB\nMemAvailable: 2310000 kB\nBuffers: 51200 kB\nCached: 1843200 kB\n"
                        b"SwapCached: 0 kB\nAnonPages: 4000000 kB\nShmem: 20480 kB\nSlab: 204800 kB\nSUnreclaim: 102400 kB\n"
                        b"SwapTotal: 3901360 kB\nSwapFree: 3000000 kB\nCmaTotal: 262144 kB\nCmaFree: 12000 kB\nNvMapMemUsed: 900000 kB\n",
        "proc/vmstat": b"pswpin 10\npswpout 20\npgmajfault 300\noom_kill 1\nallocstall_normal 4\nworkingset_refault_anon 5\n",
        "proc/stat": b"cpu  100 2 30 4000 5 0 1 0 0 0\ncpu0 50 1 15 2000 2 0 1 0 0 0\ncpu1 50 1 15 2000 3 0 0 0 0 0\nbtime 1760000000\n",
        "proc/loadavg": b"1.00 0.50 0.25 2/300 4242\n",
        "proc/uptime": b"350735.47 234388.90\n",
        "proc/buddyinfo": b"Node 0, zone   Normal   100  90  80  70  60  50  40  30  20  10  5\n",
        "proc/pressure/memory": b"some avg10=1.50 avg60=0.50 avg300=0.10 total=12345\nfull avg10=0.50 avg60=0.10 avg300=0.00 total=2345\n",
        "proc/swaps": b"Filename Type Size Used Priority\n/dev/zram0 partition 3901360 901360 5\n",
        "proc/self/cgroup": b"0::/app.slice/app.service\n",
        "proc/self/mountinfo": b"30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n",
        "proc/100/stat": b"100 (python3) S 1 100 100 0 -1 4194560 1 2 3 4 50 20 0 0 20 0 1 0 4242 100000000 25000 18446744073709551615 0 0\n",
        "proc/100/status": b"Name:\tpython3\nPid:\t100\nPPid:\t1\nUid:\t1000\t1000\t1000\t1000\nVmHWM:\t120000 kB\nVmRSS:\t100000 kB\n"
                           b"RssAnon:\t90000 kB\nRssFile:\t10000 kB\nRssShmem:\t0 kB\nVmSwap:\t50 kB\nThreads:\t4\n",
        "proc/100/cmdline": b"python3\0train.py\0--batch\x008\0",
        "proc/100/smaps_rollup": b"00400000-7fff0000 ---p 00000000 00:00 0 [rollup]\nRss: 100000 kB\nPss: 95000 kB\nPss_Anon: 90000 kB\n",
        "proc/100/oom_score": b"700\n", "proc/100/oom_score_adj": b"0\n", "proc/100/comm": b"python3\n",
        "proc/device-tree/model": b"NVIDIA Jetson Orin Nano Developer Kit\0", "proc/device-tree/compatible": b"nvidia,p3768-0000+p3767-0005\0nvidia,tegra234\0",
        "etc/passwd": b"root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\n",
        "etc/nv_tegra_release": b"# R36 (release), REVISION: 4.3, GCID: 38968081, BOARD: generic, EABI: aarch64, DATE: Wed Jan  8 01:49:37 UTC 2025\n",
        "sys/fs/cgroup/cgroup.controllers": b"cpu memory pids\n",
        "sys/fs/cgroup/app.slice/app.service/memory.current": b"100000000\n",
        "sys/fs/cgroup/app.slice/app.service/memory.max": b"200000000\n",
        "sys/fs/cgroup/app.slice/app.service/memory.stat": b"anon 90000000\nfile 10000000\n",
        "sys/fs/cgroup/app.slice/app.service/memory.events": b"low 0\nhigh 0\nmax 5\noom 1\noom_kill 1\n",
        "sys/class/thermal/thermal_zone0/type": b"CPU-therm\n", "sys/class/thermal/thermal_zone0/temp": b"45000\n",
        "sys/devices/system/cpu/online": b"0-1\n", "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq": b"1510400\n",
        "sys/kernel/debug/nvmap/iovmm/clients": b"CLIENT PROCESS PID SIZE\nuser python3 100 523644K\ntotal 549320K\n",
        "sys/devices/gpu.0/load": b"500\n",
        "dev/shm/headroom-pool.100.main": pool_file(),
    }


def readers():
    run = run_folder("run", "runs/first")
    log = "doctor {file}"
    yield Reader("recording", "input.hrec", os.path.join(FUZZ, "recording/full.hrec"), text=False, bound_mib=32, commands=[
        "report {file} --json", "report {file} --html {folder}/page.html", "report {file} --at peak", "report {file} --all",
        "export {file} --to collapsed --out -", "export {file} --to pprof --out {folder}/out", "export {file} --to heaptrack --out {folder}/out",
        "export {file} --to pytorch-snapshot --out {folder}/out", "export {file} --to timeline-json --out {folder}/out", "diff {good} {file} --json",
        "doctor {file} --json", "symbols {file} --out {folder}/symbols"])
    yield Reader("recording_gpu", "input.hrec", earlier("gpu.hrec.gz"), text=False, bound_mib=32, commands=[
        "report {file} --json", "doctor {file} --json", "export {file} --to perfetto --out {folder}/out", "diff {good} {file}"])
    yield Reader("recording_ring", "input.hrec", os.path.join(FUZZ, "recording/ring.hrec"), text=False, bound_mib=32, commands=["report {file} --json"])
    yield Reader("recording_torch", "input.hrec", earlier("torch.hrec.gz"), text=False, bound_mib=32, commands=[
        "report {file} --json", "export {file} --to speedscope --out {folder}/out"])
    yield Reader("recording_of_child", "app.hrec.d/27948-0.hrec", earlier("tree.hrec.d/27948-0.hrec.gz"), text=False, names_file=False,
                 bound_mib=32, tree={"app.hrec": earlier("tree.hrec.gz")}, commands=[
                     "report {folder}/app.hrec --all --json", "doctor {folder}/app.hrec --json"])
    profile = "onnxruntime-27980-0_2026-11-28_20-28-52_393.json"
    yield Reader("onnxruntime_profile", "app.hrec.d/" + profile, earlier("onnxruntime.hrec.d/" + profile), names_file=False, bound_mib=256, commands=[
        "report {folder}/app.hrec --json"], tree={"app.hrec": earlier("onnxruntime.hrec.gz")})
    yield Reader("snapshot", "input.pickle", earlier("snapshot.pickle.gz"), text=False, bound_mib=64, commands=[
        "report {file} --json", "report {file} --html {folder}/page.html", "doctor {file} --json"])
    yield Reader("report", "run/report.json", earlier("runs/first/report.json.gz"), bound_mib=128, tree=run, commands=[
        "report {file} --json", "report {folder}/run --html {folder}/page.html", "report {file} --markdown", "diff {good} {folder}/run --json",
        "doctor {folder}/run --json", "doctor {file}", "history add {file} --db {folder}/new.sqlite"])
    yield Reader("frame_times", "run/frames/digits.csv", os.path.join(FUZZ, "frame_times/two.csv"), tree=run, good_codes=(2,), bound_mib=64, commands=[
        "diff {folder}/run {folder}/run --json"])
    yield Reader("metrics", "run/metrics.jsonl", earlier("runs/first/metrics.jsonl.gz"), names_file=False, tree=run, bound_mib=64, commands=[
        "report {folder}/run --html {folder}/page.html", "doctor {folder}/run --json"])
    yield Reader("run_log", "run/run.log", os.path.join(FUZZ, "doctor_log/messages.log"), names_file=False, tree=run, bound_mib=64, commands=[
        "doctor {folder}/run --json"])
    yield Reader("footprint", "digits.json", earlier("runs/first/footprints/digits.json"), bound_mib=128, commands=[
        "plan {folder}/budget.toml --footprints {file} --json", "diff {good} {file} --json", "doctor {file}"],
        tree={"budget.toml": earlier("budget.toml")})
    yield Reader("budget", "budget.toml", os.path.join(FUZZ, "budget/all.toml"), bound_mib=64, commands=["plan {file} --json", "plan {file} --markdown"])
    yield Reader("bench_configuration", "bench.toml", earlier("bench.toml"), bound_mib=64, commands=["bench --config {file} --dump-config"])
    yield Reader("alert_rules", "rules.toml", os.path.join(FUZZ, "alert_rules/actions.toml"), bound_mib=64, commands=[
        "watch --from headroom:{folder}/watch.jsonl --alerts {file} --quiet", "top --once --replay {folder}/watch.jsonl --alerts {file}"],
        tree={"watch.jsonl": earlier("watch.jsonl.gz")})
    yield Reader("watch_log", "watch.jsonl", earlier("watch.jsonl.gz"), bound_mib=256, commands=[
        "top --once --replay {file}", "doctor {file} --json", "diff {good} {file} --json"])
    yield Reader("watch_log_live", "watch.jsonl", earlier("watch.jsonl.gz"), bound_mib=64, is_live=True, commands=[
        "watch --from headroom:{file} --jsonl"])
    yield Reader("log", "train.log", os.path.join(FUZZ, "doctor_log/messages.log"), bound_mib=16, commands=[log + " --json", log])
    yield Reader("log_kernel", "dmesg.log", os.path.join(ROOT, "tests/golden/doctor/oom_machine.log"), bound_mib=16, commands=[log + " --json"])
    yield Reader("tegrastats", "stats.log", os.path.join(FUZZ, "tegrastats/agx_orin_jp72"), bound_mib=64, commands=[
        "watch --from tegrastats:{file} --jsonl", "watch --from tegrastats:{file} --plot {folder}/plot.svg --quiet"], is_live=True)
    yield Reader("tegrastats_doctor", "stats.log", os.path.join(FUZZ, "tegrastats/agx_orin_jp72"), bound_mib=64, commands=["doctor {file}"])
    yield Reader("nvidia_smi_csv", "smi.csv", os.path.join(FUZZ, "nvidia_smi/csv_header"), bound_mib=64, commands=[
        "watch --from nvidia-smi:{file} --jsonl", "watch --from nvidia-smi:{file} --columns timestamp,index,memory.used --jsonl"], is_live=True)
    yield Reader("nvidia_smi_table", "smi.txt", os.path.join(FUZZ, "nvidia_smi/table_mig"), bound_mib=64, commands=[
        "watch --from nvidia-smi:{file} --jsonl"], is_live=True)
    yield Reader("nvidia_smi_doctor", "smi.txt", os.path.join(FUZZ, "nvidia_smi/table_mig"), bound_mib=64, commands=["doctor {file}"])
    yield Reader("meminfo", "meminfo.txt", os.path.join(FUZZ, "text_samples/meminfo"), bound_mib=64, commands=["watch --from meminfo:{file} --jsonl"], is_live=True)
    yield Reader("meminfo_doctor", "meminfo.txt", os.path.join(FUZZ, "text_samples/meminfo"), bound_mib=64, commands=["doctor {file}"])
    yield Reader("history", "history.sqlite", earlier("history.sqlite.gz"), text=False, bound_mib=64, commands=[
        "history list --db {file} --json", "history show run_peak --db {file}", "history diff --db {file}", "history gate --db {file} --fail-on run_peak>+50%",
        "history add {folder}/run --db {file}"], tree=run, also_named=["run 1 (", "run 2 ("])
    yield from readers_of_evaluate()
    # The address is of documentation (RFC 5737), so no server starts.
    yield Reader("token_file", "token", os.path.join(FUZZ, "gate_rules/values"), names_file=False, needs="headroom_serve_httplib", commands=[
        "serve --token-file {file} --listen 192.0.2.1:9477"], good_codes=(0, 1, 2, 3))
    yield Reader("symbols_of_modules", "symbols/mini.so", os.path.join(FUZZ, "elf_symbols/mini.so"), text=False, names_file=False, bound_mib=64, commands=[
        "report {folder}/app.hrec --symbols {folder}/symbols --json"], tree={"app.hrec": earlier("full.hrec.gz")})
    machine = ["top --once --json --sysroot {folder} --interval 100ms", "doctor --live --json --sysroot {folder}",
               "watch --sysroot {folder} --interval 100ms --duration 1s --jsonl"]
    yield Reader("machine", "proc/meminfo", "", names_file=False, tree=machine_tree(), bound_mib=128, commands=machine, all_places=True)
    yield Reader("machine_one_file", "proc/meminfo", "", names_file=False, tree=machine_tree(), bound_mib=128, commands=machine, one_by_one=True)
    yield from readers_of_bench()


def readers_of_evaluate():
    """Masks, prompts and lists of videos. What is wrong with one mask is in the JSON, not in an error."""
    mask = os.path.join(ROOT, "tests/golden/pictures/png_palette_4.png")
    needs = "headroom_media_pictures"
    clip = {f"{folder}/0000{frame}.png": mask for folder in ("data/clip/frames", "data/clip/gt", "masks/clip") for frame in range(4)}
    evaluate = ["evaluate --dataset {folder}/data --predictions {folder}/masks --json"]
    for name, place in [("mask_predicted", "masks/clip/00001.png"), ("mask_of_truth", "data/clip/gt/00001.png"), ("mask_first", "data/clip/gt/00000.png")]:
        yield Reader(name, place, mask, text=False, names_file=False, needs=needs, bound_mib=256, tree=clip, commands=evaluate)
    videos = {f"{folder}/clip/0000{frame}.png": mask for folder in ("data/JPEGImages/480p", "data/Annotations/480p", "masks") for frame in range(4)}
    yield Reader("video_list", "data/ImageSets/2017/val.txt", "", names_file=False, needs=needs, bound_mib=128, commands=evaluate,
                 tree=videos | {"data/ImageSets/2017/val.txt": b"clip\nother\n"})
    frames = {"data/00000.png": mask, "masks/00000.png": mask}
    for name in ("two.csv", "two.json"):  # a folder with prompts has no ground truth to score
        place = "data/prompts." + name.split(".")[1]
        yield Reader("prompts_" + name.split(".")[1], place, os.path.join(FUZZ, "vos_prompts", name), names_file=False, needs=needs, bound_mib=128,
                     commands=evaluate, tree=frames, good_codes=(2,))


def readers_of_bench():
    """What `headroom bench` reads. Each command starts several processes, so these take half a second each."""
    pictures = os.path.join(ROOT, "tests/golden/pictures")
    photo = os.path.join(pictures, "jpeg_420.jpg")
    model = os.path.join(SHARED, "models/mnist.onnx")
    bench = "bench --skip-inference --quiet --max-frames 2 --output-dir {folder}/out --prepared-dir {folder}/prepared "
    dummy = {"dummy.onnx": b"not a model"}  # the frames are read before it
    kinds = {"jpeg": "jpeg_420.jpg", "png": "png_24.png", "tiff": "tiff_lzw.tiff", "webp": "webp_lossy.webp", "bmp": "bmp_24.bmp"}
    for kind, name in kinds.items():
        yield Reader("picture_" + kind, "photos/picture." + name.split(".")[1], os.path.join(pictures, name), text=False, names_file=False,
                     needs="headroom_media_pictures", bound_mib=256, is_slow=True, tree=dummy, commands=[
                         bench + "--source image_dir={folder}/photos --model m={folder}/dummy.onnx"])
    yield Reader("frames_of_raw", "frames.raw", os.path.join(pictures, "bmp_32.bmp"), text=False, names_file=False, is_slow=True, bound_mib=256,
                 is_live=True, needs="headroom_backend_onnxruntime", tree=dummy, commands=[bench + "--source raw={file},8x8,rgb --model m={folder}/dummy.onnx"])
    yield Reader("prepared_data", "prepared/setup.json", os.path.join(FUZZ, "metadata_json/images.json"), commands=[
        "bench --skip-setup --output-dir {folder}/out --prepared-dir {folder}/prepared --source image_dir={folder}/photos --model m={folder}/dummy.onnx"],
        tree=dummy | {"photos/a.jpg": photo}, bound_mib=128, good_codes=(2,), also_named=["/prepared"])
    if os.path.exists(model):
        yield Reader("model_onnx", "model.onnx", model, text=False, is_slow=True, needs="headroom_backend_onnxruntime", bound_mib=256,
                     tree={"photos/a.jpg": photo}, names_file=False, commands=[bench + "--source image_dir={folder}/photos --model m={file}"])
    yield Reader("model_torchscript", "model.torchscript", os.path.join(FUZZ, "torch_archive/module.pt"), text=False, is_slow=True,
                 needs="headroom_backend_libtorch", bound_mib=512, tree={"photos/a.jpg": photo}, names_file=False, commands=[
                     bench + "--source image_dir={folder}/photos --model m={file}"])
