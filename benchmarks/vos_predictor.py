#!/usr/bin/env python3
"""Times the video predictor of transformers (eager PyTorch, random weights): the other side of gpu_vos.py and vos_cpu.py.

    vos_predictor.py --model edgetam --pictures FOLDER --device cuda:0 --precision fp16 --objects 1,3

Tracks the pictures of FOLDER with a point for each object, as SAM 2's example does: frames loaded before, propagation to the end.
Prints a line of JSON for each number of objects, and one of the machine. Time counts after --warm frames. `runtime` is anonymous
host memory after the imports and the first use of the device; `anonymous` is the highest value of a frame.
"""
import argparse
import json
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))


def anonymous():
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("RssAnon:"))


def make_model(name, side, seed):
    import transformers
    from transformers.models.edgetam_video import modeling_edgetam_video as edgetam_package
    from transformers.models.sam2_video import modeling_sam2_video as sam2_package
    from vos_export import hugging, sources
    edgetam = name.startswith("edgetam")
    config = hugging.configuration("narrow" if name.endswith("narrow") else name, edgetam)
    hugging.set_side(config, side)
    model = (edgetam_package.EdgeTamVideoModel if edgetam else sam2_package.Sam2VideoModel)(config).eval()
    sources.randomise(model, seed)
    session = edgetam_package.EdgeTamVideoInferenceSession if edgetam else sam2_package.Sam2VideoInferenceSession
    return model, session, transformers.__version__


def read_pictures(folder, count, side, dtype):
    """[count,3,side,side], normalised."""
    import numpy
    import torch
    from PIL import Image
    files = sorted(pathlib.Path(folder).glob("*.jpg"))[:count]
    frames = torch.empty(len(files), 3, side, side, dtype=dtype)
    mean, std = (torch.tensor(value).view(3, 1, 1) for value in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    for index, file in enumerate(files):
        picture = numpy.asarray(Image.open(file).convert("RGB").resize((side, side), Image.BICUBIC))
        frames[index] = (torch.from_numpy(picture.copy()).permute(2, 0, 1) / 255 - mean) / std
    return frames


def track(model, session_type, frames, objects, options, dtype):
    import torch
    on_gpu = options.device != "cpu"

    def synchronized():
        if on_gpu:
            torch.cuda.synchronize()
        return time.perf_counter()

    side, count = frames.shape[-1], frames.shape[0]
    session = session_type(video=frames, video_height=side, video_width=side, inference_device=options.device,
                           inference_state_device=options.device, video_storage_device="cpu", dtype=dtype)
    for index in range(objects):
        place = session.obj_id_to_idx(index + 1)
        at = [side * (index + 1.0) / (objects + 1), side * 0.5]
        session.add_point_inputs(place, 0, {"point_coords": torch.tensor([[[at]]], device=options.device),
                                            "point_labels": torch.tensor([[[1]]], dtype=torch.int32, device=options.device)})
        session.remove_mask_inputs(place, 0)
    session.obj_with_new_inputs = list(session.obj_ids)
    host, gpu, times, visible, begin = [], [], [], 0, 0.0
    with torch.inference_mode():
        model(inference_session=session, frame_idx=0)
        for index, output in enumerate(model.propagate_in_video_iterator(session)):
            if index == options.warm:
                begin = synchronized()
            times.append(time.perf_counter())
            host.append(anonymous())
            gpu.append(torch.cuda.memory_allocated() if on_gpu else 0)
            if index + 1 == count:
                visible = int((output.object_score_logits > 0).sum())
        seconds = synchronized() - begin
    late = min(options.warm + 5, len(gpu) - 2)
    steps = len(gpu) - 1 - late
    frames_of = [after - before for before, after in zip(times[options.warm:], times[options.warm + 1:])]
    return {"p50": None if on_gpu else statistics.median(frames_of), "objects": objects, "frames": len(gpu), "fps": (len(gpu) - 1 - options.warm) / seconds, "visible_at_the_end": visible,
            "anonymous": max(host), "growth_a_frame": (host[-1] - host[late]) / steps, "gpu_growth_a_frame": (gpu[-1] - gpu[late]) / steps}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="edgetam, tiny, …, or a narrow one of export_vos.py")
    parser.add_argument("--pictures", required=True)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", default="fp32", choices=["fp32", "fp16", "bf16"])
    parser.add_argument("--objects", default="1")
    parser.add_argument("--frames", type=int, default=60)
    parser.add_argument("--warm", type=int, default=20)
    parser.add_argument("--threads", type=int, default=0, help="0: PyTorch's default")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    import torch
    if options.threads:
        torch.set_num_threads(options.threads)
    dtype = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[options.precision]
    on_gpu = options.device != "cpu"
    import transformers.models.edgetam_video.modeling_edgetam_video  # noqa: F401  part of the runtime
    import transformers.models.sam2_video.modeling_sam2_video  # noqa: F401
    import timm  # noqa: F401
    (torch.ones(256, 256, device=options.device) @ torch.ones(256, 256, device=options.device)).sum().item()
    runtime = anonymous()
    model, session, version = make_model(options.model, options.size, options.seed)
    model = model.to(options.device, dtype)
    frames = read_pictures(options.pictures, options.frames, options.size, dtype)
    print(json.dumps({"torch": torch.__version__, "transformers": version, "threads": torch.get_num_threads(), "runtime": runtime,
                      "gpu": torch.cuda.get_device_name(0) if on_gpu else None, "weights_on_gpu": torch.cuda.memory_allocated() if on_gpu else 0,
                      "frames_bytes": frames.numel() * frames.element_size()}), flush=True)
    for objects in map(int, options.objects.split(",")):
        if on_gpu:
            torch.cuda.reset_peak_memory_stats()
        found = track(model, session, frames, objects, options, dtype)
        if on_gpu:
            found.update(gpu_peak=torch.cuda.max_memory_allocated(), gpu_reserved=torch.cuda.max_memory_reserved())
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
