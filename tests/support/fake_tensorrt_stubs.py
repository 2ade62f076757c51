#!/usr/bin/env python3
"""Writes stub classes for TensorRT's pure virtual interfaces, from the installed NvInferImpl.h.

These interfaces grow with each TensorRT version. The fake library, which builds against any version, overrides what it needs
and inherits the rest from the stubs.

    fake_tensorrt_stubs.py NvInferImpl.h OUT.h         the classes of NvInferImpl.h
    fake_tensorrt_stubs.py NvOnnxParser.h OUT.h        nvonnxparser::IParser, the parser's interface itself
"""
import re
import sys

CLASSES = ("VRuntime", "VCudaEngine", "VExecutionContext", "VBuilder", "VBuilderConfig", "VNetworkDefinition",
           "VOptimizationProfile", "VHostMemory", "VTensor", "VLayer")


def without_comments(text):
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    return "\n".join(line for line in re.sub(r"//[^\n]*", "", text).splitlines() if not line.lstrip().startswith("#"))


def stub_of(declaration):
    text = " ".join(declaration.split())
    match = re.match(r"^(?:TRT_\w+ )?virtual (.*?)\s*=\s*0$", text)
    if match is None:
        return None
    signature = match.group(1)
    returned = signature.split("(")[0].rsplit(" ", 1)[0].replace("TRT_NODISCARD", "").strip()
    if returned.endswith("&"):
        body = "{ __builtin_trap(); }"
    elif returned == "void":
        body = "{}"
    else:
        body = "{ return {}; }"
    return f"  {signature.replace('TRT_NODISCARD ', '')} override {body}"


def stubs_of(text, pattern, source):
    found = re.search(pattern + r"\s*\{(.*?)\n\};", text, flags=re.S)
    if found is None:
        sys.exit(f"{source} has no {pattern}")
    body = re.sub(r"\bpublic:", "", found.group(1))
    return [stub for stub in (stub_of(part) for part in body.split(";")) if stub]


def main():
    source, out = sys.argv[1:]
    text = without_comments(open(source, encoding="utf-8").read())
    lines = ["// Made by tests/support/fake_tensorrt_stubs.py.", "#pragma once",
             "#pragma GCC diagnostic ignored \"-Wdeprecated-declarations\"",
             "#pragma GCC diagnostic ignored \"-Wunused-parameter\""]
    if source.endswith("NvOnnxParser.h"):
        lines += ["#include <NvOnnxParser.h>", "namespace nvonnxparser {", "class StubIParser : public IParser {", " public:",
                  *stubs_of(text, r"class IParser", source), "};", "}  // namespace nvonnxparser", ""]
    else:
        lines += ["#include <NvInfer.h>", "namespace nvinfer1::apiv {"]
        for name in CLASSES:
            lines += [f"class Stub{name} : public {name} {{", " public:",
                      *stubs_of(text, rf"class {name}\s*:\s*public VRoot", source), "};"]
        lines += ["}  // namespace nvinfer1::apiv", ""]
    open(out, "w", encoding="utf-8").write("\n".join(lines))


if __name__ == "__main__":
    main()
