"""Runs written graphs: run(graph, inputs by name) -> outputs by name, all NumPy."""
import numpy as np

from .write import GRAPHS, HALF, INPUTS, OUTPUTS


def onnx_files(folder, manifest, threads=1):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    sessions = {name: onnxruntime.InferenceSession(str(folder / manifest["graphs"][name]["file"]), options,
                                                   providers=["CPUExecutionProvider"]) for name in GRAPHS}

    def run(graph, inputs):
        session = sessions[graph]
        given = {}
        for value in session.get_inputs():
            tensor = inputs[value.name]
            given[value.name] = tensor.astype(np.float16) if value.type == "tensor(float16)" else tensor
        return _wide(graph, session.run(OUTPUTS[graph], given))

    return run


def torchscript_files(folder, manifest, threads=1, device="cpu"):
    import torch
    torch.set_num_threads(threads)
    modules = {name: torch.jit.load(str(folder / manifest["graphs"][name]["file"]), map_location=device)
               for name in GRAPHS}
    half = manifest["precision"] == "float16"

    def run(graph, inputs):
        names = INPUTS[graph] + (["mem_valid", "ptr_valid"] if "mem_valid" in inputs else [])
        given = [torch.from_numpy(np.ascontiguousarray(inputs[name])).to(device) for name in names]
        if half:
            given = [value.half() if name in HALF and value.is_floating_point() else value
                     for name, value in zip(names, given)]
        with torch.no_grad():
            outputs = modules[graph](*given)
        return _wide(graph, [value.cpu().numpy() for value in (outputs if isinstance(outputs, tuple) else (outputs,))])

    return run


def _wide(graph, outputs):
    return {name: value.astype(np.float32) for name, value in zip(OUTPUTS[graph], outputs)}
