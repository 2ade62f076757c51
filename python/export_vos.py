#!/usr/bin/env python3
"""Exports SAM2, SAM2.1 and EdgeTAM as the four graphs that `headroom bench --task vos` runs."""
import argparse
import pathlib
import sys

MODELS = ["tiny", "small", "base_plus", "large", "tiny-2.0", "small-2.0", "base_plus-2.0", "large-2.0", "edgetam",
          "narrow", "edgetam-narrow"]


def pair(text):
    parts = text.split(",")
    if len(parts) != 2 or not all(part.isdigit() and int(part) > 0 for part in parts):
        raise argparse.ArgumentTypeError(f"'{text}': not M,K, numbers of memories and pointers, such as 8,20")
    return int(parts[0]), int(parts[1])


def positive(text):
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"'{text}': not a number above 0")
    return int(text)


def parse(arguments):
    parser = argparse.ArgumentParser(
        prog="export_vos.py", description=__doc__,
        epilog="Example: export_vos.py --source sam2 --checkpoint sam2.1_hiera_tiny.pt --model tiny --output tiny")
    parser.add_argument("--source", required=True, choices=["sam2", "edgetam", "transformers"],
                        help="Python package that holds the model: sam2, edgetam-dimos (edgetam) or transformers")
    parser.add_argument("--checkpoint", required=True, metavar="FILE|DIR|random[:SEED]",
                        help="a .pt file (sam2, edgetam), a folder of save_pretrained (transformers), or random "
                             "weights")
    parser.add_argument("--model", choices=MODELS,
                        help="size; default: tiny, or edgetam for --source edgetam. A checkpoint of SAM2.0 is "
                             "recognised; NAME-2.0 is for random weights, narrow for tests")
    parser.add_argument("--format", default="onnx", choices=["onnx", "torchscript"], help="default: onnx")
    parser.add_argument("--size", type=positive, default=1024, metavar="S",
                        help="pixels of the square picture, a multiple of 32 (EdgeTAM: 256); default: 1024")
    parser.add_argument("--fp16", action="store_true", help="16-bit weights, features and memories")
    parser.add_argument("--fp16-weights", action="store_true",
                        help="only the weights in 16 bits, in the file; the graphs compute with 32 (ONNX)")
    parser.add_argument("--uint8", action="store_true",
                        help="the image encoder takes the picture's bytes and normalises them itself, which saves "
                             "Headroom work on the CPU")
    parser.add_argument("--static", type=pair, metavar="M,K",
                        help="fixed numbers of memories and pointers, with inputs mem_valid and ptr_valid (TensorRT)")
    parser.add_argument("--attention-chunks", type=positive, default=1, metavar="N",
                        help="split the queries of memory attention in N parts: less memory, the same result")
    parser.add_argument("--fused-attention", action="store_true",
                        help="PyTorch's own attention operator: less memory (--format torchscript, LibTorch 2.1 or "
                             "newer)")
    parser.add_argument("--verify", action="store_true",
                        help="compare each stage and tracked frames with the Python predictor")
    parser.add_argument("--verify-frames", type=positive, default=21, metavar="N",
                        help="frames of --verify, the prompt's included; default: 21")
    parser.add_argument("--threads", type=positive, default=1, metavar="N", help="CPU threads; default: 1")
    parser.add_argument("--device", default="cpu", metavar="NAME",
                        help="cpu or cuda:N: traces TorchScript and verifies there (--source transformers); "
                             "default: cpu")
    parser.add_argument("--output", required=True, type=pathlib.Path, metavar="DIR",
                        help="folder for the graphs and manifest.json")
    options = parser.parse_args(arguments)
    edgetam = options.source == "edgetam" or (options.model or "").startswith("edgetam")
    if options.model is None:
        options.model = "edgetam" if edgetam else "tiny"
    step = 256 if edgetam else 32
    if options.size % step != 0:
        parser.error(f"--size {options.size}: not a multiple of {step}")
    if options.static and (options.static[0] < 7 or options.static[1] < 16):
        parser.error(f"--static {options.static[0]},{options.static[1]}: one prompt needs 7 memories and 16 pointers; "
                     f"each further prompt needs one more of each")
    if options.fp16_weights and (options.fp16 or options.format != "onnx"):
        parser.error("--fp16-weights: for --format onnx without --fp16, which already has 16-bit weights")
    if options.fused_attention and options.format != "torchscript":
        parser.error("--fused-attention: needs --format torchscript")
    if options.device != "cpu" and (options.source != "transformers" or options.format != "torchscript"):
        parser.error(f"--device {options.device}: needs --source transformers and --format torchscript")
    if not options.checkpoint.startswith("random") and not pathlib.Path(options.checkpoint).exists():
        parser.error(f"--checkpoint {options.checkpoint}: no such file or folder; use random for random weights")
    return options


def main(arguments=None):
    options = parse(arguments)
    try:
        import torch
    except ImportError as error:
        print(f"export_vos.py: cannot export: {error}; install python/requirements-export.txt", file=sys.stderr)
        return 1
    torch.set_num_threads(options.threads)
    from vos_export import sources, verify, write
    try:
        source = sources.open_source(options.source, options.checkpoint, options.model, options.size)
        manifest = write.write(source, options, options.output)
    except sources.SourceError as error:
        print(f"export_vos.py: {error}", file=sys.stderr)
        return 1
    for name, graph in manifest["graphs"].items():
        print(f"{name}: {options.output / graph['file']}, {(options.output / graph['file']).stat().st_size} bytes")
    if not options.verify:
        return 0
    same = verify.verify(source, manifest, options.output, options.verify_frames, threads=options.threads,
                         device=options.device)
    print("verified" if same else "export_vos.py: the exported graphs differ from the Python predictor",
          file=sys.stdout if same else sys.stderr)
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
