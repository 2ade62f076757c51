#!/usr/bin/env python3
"""Tests python/export_vos.py: its options, and with torch the graphs of small random nets.

    export_vos_test.py            (options; needs no torch)
    export_vos_test.py --export   (exits with 77 where torch, transformers, timm, onnx or onnxruntime is missing)
"""
import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "python" / "export_vos.py"
NEEDS = ("torch", "transformers", "timm", "onnx", "onnxruntime")
EXPORT = "--export" in sys.argv


def export(*words):
    return subprocess.run([sys.executable, "-B", str(SCRIPT), *words], capture_output=True, text=True)


class Options(unittest.TestCase):
    def rejects(self, message, *words):
        result = export("--source", "transformers", "--checkpoint", "random", "--output", "/nowhere", *words)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn(message, result.stderr)

    def test_help_names_each_option(self):
        result = export("--help")
        self.assertEqual(result.returncode, 0, result.stderr)
        for option in ("--source", "--checkpoint", "--model", "--format", "--size", "--fp16", "--uint8", "--static",
                       "--attention-chunks", "--verify", "--output"):
            self.assertIn(option, result.stdout)

    def test_rejects_unknown_source(self):
        result = export("--source", "sam3", "--checkpoint", "random", "--output", "/nowhere")
        self.assertEqual(result.returncode, 2)
        self.assertIn("sam3", result.stderr)

    def test_rejects_missing_checkpoint(self):
        result = export("--source", "sam2", "--checkpoint", "/nowhere/sam2.pt", "--output", "/nowhere")
        self.assertEqual(result.returncode, 2)
        self.assertIn("--checkpoint /nowhere/sam2.pt: no such file or folder", result.stderr)

    def test_rejects_sizes(self):
        self.rejects("--size 1000: not a multiple of 32", "--size", "1000")
        self.rejects("'768x': not a number above 0", "--size", "768x")
        self.rejects("--size 640: not a multiple of 256", "--size", "640", "--model", "edgetam")

    def test_rejects_fixed_sizes_that_hold_no_bank(self):
        self.rejects("'7': not M,K", "--static", "7")
        self.rejects("--static 6,16: one prompt needs 7 memories and 16 pointers", "--static", "6,16")

    def test_rejects_devices_where_they_have_no_effect(self):
        self.rejects("--device cuda:0: needs --source transformers and --format torchscript", "--device", "cuda:0")

    def test_rejects_no_chunks(self):
        self.rejects("'0': not a number above 0", "--attention-chunks", "0")


class Exports(unittest.TestCase):
    """`--verify` compares each stage and the tracked frames with the Python predictor of transformers."""

    def verified(self, *words):
        with tempfile.TemporaryDirectory() as folder:
            result = export("--source", "transformers", "--checkpoint", "random:1", "--verify", "--verify-frames", "6",
                            "--output", folder, *words)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            return json.loads((pathlib.Path(folder) / "manifest.json").read_text())

    def test_sam2(self):
        manifest = self.verified("--model", "narrow", "--size", "128")
        self.assertEqual((manifest["headroom.vos"], manifest["family"], manifest["size"]), (1, "sam2.1", 128))
        self.assertEqual(len(manifest["mask_downsample"]), 17)
        self.assertTrue(manifest["ptr_tpos"])

    def test_edgetam(self):
        manifest = self.verified("--model", "edgetam-narrow", "--size", "256")
        self.assertEqual(manifest["family"], "edgetam")
        self.assertFalse(manifest["ptr_tpos"])

    def test_fixed_sizes_and_chunks(self):
        manifest = self.verified("--model", "narrow", "--size", "128", "--static", "8,18", "--attention-chunks", "4")
        self.assertEqual(manifest["static"], {"memories": 8, "pointers": 18})

    def test_torchscript(self):
        manifest = self.verified("--model", "narrow", "--size", "128", "--format", "torchscript")
        self.assertEqual(manifest["graphs"]["mask_decoder"]["file"], "mask_decoder.pt")

    def test_fused_attention(self):
        self.verified("--model", "narrow", "--size", "128", "--format", "torchscript", "--static", "7,16", "--fused-attention")

    def test_torchscript_stays_on_its_device(self):
        import torch
        with tempfile.TemporaryDirectory() as folder:
            result = export("--source", "transformers", "--checkpoint", "random:1", "--model", "edgetam-narrow", "--size",
                            "256", "--format", "torchscript", "--output", folder)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            graph = torch.jit.load(str(pathlib.Path(folder) / "image_encoder.pt")).inlined_graph
        moves = [node for node in graph.findAllNodes("aten::to") if "Device" in str(node.inputsAt(1).type())]
        self.assertEqual(moves, [])

    def test_bytes(self):
        for words in ((), ("--format", "torchscript")):
            self.assertTrue(self.verified("--model", "narrow", "--size", "128", "--uint8", *words)["uint8"])


class GraphsForGpus(unittest.TestCase):
    """A traced graph must not move tensors to the CPU of the trace, nor read them on the host."""

    def graph_of(self, forward, *given):
        import torch

        class Module(torch.nn.Module):
            def forward(self, x):
                return forward(x)

        return torch.jit.trace(Module().eval(), given, check_trace=False)

    def test_devices_of_the_trace_go(self):
        import torch
        traced = torch.jit.freeze(self.graph_of(lambda x: x.to(x.device, torch.float64) * 2, torch.ones(3)))
        write.without_devices(traced.graph)
        self.assertNotIn("Device", str(traced.graph))
        self.assertEqual(traced(torch.ones(3)).dtype, torch.float64)
        self.assertEqual(traced(torch.ones(3)).tolist(), [2, 2, 2])

    def test_tensors_on_the_device_of_the_trace_are_an_error(self):
        import torch
        traced = torch.jit.freeze(self.graph_of(lambda x: x + torch.rand(3, device=x.device), torch.ones(3)))
        with self.assertRaisesRegex(ValueError, "aten::rand"):
            write.without_devices(traced.graph)

    def test_arithmetic_on_sizes_goes(self):
        import torch
        pads = lambda x: torch.nn.functional.pad(x, (0, (4 - x.shape[0] % 4) % 4)).reshape(-1, 4)
        traced = self.graph_of(pads, torch.ones(6))
        with self.assertRaisesRegex(ValueError, "aten::Int"):
            write.require_no_reads(torch.jit.freeze(traced).graph)
        traced = self.graph_of(pads, torch.ones(6))
        write.with_known_sizes(traced)
        frozen = torch.jit.freeze(traced)
        write.require_no_reads(frozen.graph)
        self.assertEqual(frozen(torch.ones(6)).sum(), 6)

    def test_the_flash_kernel_gets_one_query_for_each_batch(self):
        """It does not broadcast, unlike a product, and the picture's query may serve several objects."""
        import torch
        from unittest import mock

        def kernel(q, k, v, scale):
            self.assertEqual((q.shape[:2], q.shape[3]), (k.shape[:2], v.shape[3]))
            return torch.softmax(q @ k.transpose(-2, -1) * scale, dim=-1) @ v

        q, k, v = torch.randn(1, 6, 8), torch.randn(3, 10, 8), torch.randn(3, 10, 8)
        plain = graphs.attend(q, k, v, 8)
        with mock.patch.multiple(graphs, fused_attention=True, has_flash_kernel=lambda *_: True,
                                 flash_operator=lambda: kernel):
            self.assertTrue(torch.allclose(graphs.attend(q, k, v, 8), plain, atol=1e-6))


if __name__ == "__main__":
    if EXPORT:
        missing = [name for name in NEEDS if importlib.util.find_spec(name) is None]
        if missing:
            print("skipped: the Python packages " + ", ".join(missing) + " are missing; "
                  "install python/requirements-export.txt")
            sys.exit(77)
        sys.path.insert(0, str(SCRIPT.parent))
        sys.dont_write_bytecode = True
        from vos_export import graphs, write
    unittest.main(argv=[sys.argv[0]], defaultTest=["Exports", "GraphsForGpus"] if EXPORT else "Options")
