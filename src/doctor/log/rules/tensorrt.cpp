// TensorRT and TensorRT-LLM: building an engine, loading one, and running one.
#include "doctor/log/rule_text.h"

namespace headroom::doctor {

RuleFamily tensorrt_rules() {
  return {R"rules(
cures of-built-engine
  cure build the engine with half precision: weights and activations take half (--int8: a quarter, if the
        model is calibrated) => trtexec --onnx=model.onnx --fp16 --saveEngine=model.engine
  cure @end-holder-of-rest
  cure measure the memory that the engine needs to load and to run => headroom bench --backend tensorrt
        --model NAME=model.engine --source DIR
cures smaller-llm-engine
  cure build the engine for fewer requests and tokens at once => trtllm-build --max_batch_size N
        --max_num_tokens N, below the current ones
  cure build the engine for shorter sequences => trtllm-build --max_seq_len N, below the current one
  cure store the weights in 8 or 4 bits => quantize.py --qformat fp8
  cure @see-others-on-gpu
figures of-tensorrt
  [TensorRT-LLM] => runtime=TensorRT-LLM
  Requested amount of GPU memory ({requested_bytes} || Requested amount of memory ({requested_bytes}
  requested size of {requested_bytes} || Requested size was {requested_bytes}
  ut of memory error during getBestTactic: {node}
rule tensorrt: figures_for=tensorrt-node told_better_by=tensorrt-node
  # Of CUDA's numbers, 2 alone is of memory.
  line CUDA initialization failure with error: {:int=2} -> phase=start; subject=start; is_final
  # TensorRT has this name for other exceptions as well: "FAILED_ALLOCATION: basic_string::_S_…".
  line FAILED_ALLOCATION: std::bad_alloc -> memory=host; subject=allocation; is_final
  line FAILED_ALLOCATION: std::exception -> subject=allocation; is_final
  line axTokensInPagedKvCache must be large enough -> runtime=TensorRT-LLM; subject=cache; is_final
    none ASSERT(
  # Behind a refusal it says what that was for. Alone it may have any reason.
  line ngine deserialization failed || eserialize the cuda engine failed -> phase=load; part=load; is_addition
  line "Requested amount of GPU memory (" || "Requested amount of memory (" -> figures=@of-tensorrt;
        lacked=GPU memory; part=request
  # A program that loads or runs an engine has no other tactic.
  line OutOfMemory || out of memory -> figures=@of-tensorrt; part=load; is_final; phase=load; lacked=GPU
        memory
    any eserializeEngine || eserializeCudaEngine || safeDeserialize.cpp
  line OutOfMemory || out of memory -> figures=@of-tensorrt; part=context; is_final; phase=context; lacked=GPU
        memory
    any createExecutionContext || executionContext.cpp
  line ut of memory error during getBestTactic -> figures=@of-tensorrt; part=tactic
  # The builder may leave out the tactic that asked, and so may an allocator that works for it.
  line OutOfMemory || out of memory -> figures=@of-tensorrt; part=error
    any getBestTactic || virtualMemoryBuffer || defaultAllocator || TRT…uilder || TRT…optimizer
  # "Error Code 1: Cuda Runtime" stands in trtexec's own lines.
  line OutOfMemory || out of memory -> figures=@of-tensorrt; part=error; is_final
    any TRT || TensorRT || rtSafe || Error Code 2: OutOfMemory || Error Code 1: Cuda Runtime
  finding tensorrt-out-of-memory certain when subject=start
    title TensorRT could not allocate GPU memory for its CUDA context
    cause The GPU was full before TensorRT started: CUDA itself reported out of memory (error 2).
    cure @end-holder @drop-page-cache-on-jetson
  finding tensorrt-out-of-memory when memory=host
    title TensorRT could not allocate host memory
    cause A build holds several copies of the weights in host memory, and the host had too little.
    cure @see-holders-now
    cure build in a separate process before the others start => headroom build-engine model.onnx
    cure measure how much memory it needs, on the host and on the GPU => headroom trace -- trtexec
          --onnx=model.onnx
  finding tensorrt-out-of-memory possible when subject=allocation
    title TensorRT could not allocate memory (FAILED_ALLOCATION)
    cause The message does not say whether the host's memory or the GPU's was full.
  finding tensorrt-out-of-memory when wrong_size
    title TensorRT ran out of memory: it asked for {requested}
    cause {cause_of_wrong_size}
    cure check the largest shapes that the engine supports => trtexec --onnx=model.onnx
          --minShapes=INPUT:SHAPE --optShapes=INPUT:SHAPE --maxShapes=INPUT:SHAPE
  finding tensorrt-out-of-memory certain when subject=cache
    title TensorRT-LLM's key-value cache is too small for one sequence
    cause The cache holds less than one sequence of the largest length. Weights and activations leave too
          little GPU memory, or max_tokens_in_paged_kv_cache is too small.
    cure give the cache a larger share of the free memory => kv_cache_free_gpu_mem_fraction: SHARE, above the
          current one
    cure @smaller-llm-engine
  finding tensorrt-out-of-memory when runtime=TensorRT-LLM, !wrong_size
    title TensorRT-LLM ran out of GPU memory[[: it asked for {requested}]]
    cause The weights, the activations of a batch and the key-value cache did not fit in the free memory.
    cure give the cache a smaller share of the free memory (default: 0.9) => kv_cache_free_gpu_mem_fraction:
          0.8
    cure @smaller-llm-engine
  finding tensorrt-out-of-memory when phase=load
    title TensorRT ran out of memory while it loaded a built engine[[: it asked for {requested}]]
    cause The engine's weights did not fit in the free memory.
    cure load each engine once, and create a context for each thread: contexts share the weights
    cure keep part of the weights in host memory (TensorRT 10; programs call setWeightStreamingBudgetV2(); no
          gain on a Jetson, whose GPU shares the host's memory) => trtexec --onnx=model.onnx --stronglyTyped
          --allowWeightStreaming --weightStreamingBudget=50%
    cure @of-built-engine
  finding tensorrt-out-of-memory when phase=context
    title TensorRT ran out of memory for a context of a built engine[[: it asked for {requested}]]
    cause Each execution context allocates activations for the largest shapes of the engine. They did not fit
          in the memory that was left after the weights.
    cure build the engine for a smaller batch or input: a context allocates memory for the largest => trtexec
          --onnx=model.onnx --minShapes=INPUT:SHAPE --optShapes=INPUT:SHAPE --maxShapes=INPUT:SHAPE
    cure create fewer contexts (trtexec --infStreams=1): each context holds its own activations
    cure let contexts that never run at the same time share one block of memory (before TensorRT 10:
          createExecutionContextWithoutDeviceMemory()) =>
          createExecutionContext(ExecutionContextAllocationStrategy::kUSER_MANAGED), setDeviceMemoryV2()
    cure @of-built-engine
  finding tensorrt-out-of-memory
    title TensorRT ran out of memory[[: it asked for {requested}]]
    cause The engine's weights, its activations or the build's workspace did not fit in the free memory.
    cure build with a workspace of half this request => trtexec --onnx=model.onnx
          --memPoolSize=workspace:{requested_bytes/2:mib_16} :: saves requested_bytes/2
    cure build with a smaller workspace, below what is free => trtexec --onnx=model.onnx
          --memPoolSize=workspace:MIB :: when !requested_bytes
    cure build with half precision: weights and activations take half => trtexec --onnx=model.onnx --fp16
    cure build in a separate process before the others start => headroom build-engine model.onnx
    cure measure the memory that the engine needs to load and to run => headroom bench --backend tensorrt
          --model NAME=model.engine --source DIR

# Why a program got no engine from a file. Out of memory is the rule tensorrt's, which its lines tell better.
rule tensorrt-load: is_not_of_memory told_better_by=tensorrt
  line erializ && Version tag does not match -> reason=version; part=reason
    figures Current Version: {tag:int} || Serialized Engine Version: {engine_tag:int}
  line plan file is not compatible with this version of TensorRT -> reason=version; part=reason
    figures library version {version:word} got {engine_version:word}
  line plan file is generated on an incompatible device -> reason=device; part=reason
  line erializ && Magic tag does not match -> reason=file; part=reason
  line Error loading TensorRT engine || ould not deserialize engine -> part=load; is_vague
  line has no attribute 'create_execution_context' -> part=context; is_vague
  finding tensorrt-engine-not-loaded certain when reason=version
    title TensorRT did not load the engine: another version of TensorRT built it[[ ({engine_version})]][[, this
          one is {version}]]
    cause Memory did not run out. An engine runs only with the version of TensorRT that built it.
    cure build the engine again, on this machine => headroom build-engine model.onnx
    cure or install the version that built it; see which one is here => python3 -c "import tensorrt;
          print(tensorrt.__version__)"
  finding tensorrt-engine-not-loaded certain when reason=device
    title TensorRT did not load the engine: it was built on another kind of GPU
    cause Memory did not run out. An engine runs only on the kind of GPU on which it was built.
    cure build the engine again, on this machine => headroom build-engine model.onnx
  finding tensorrt-engine-not-loaded certain when reason=file
    title TensorRT did not load the engine: the file is no engine of TensorRT, or is damaged
    cause Memory did not run out.
    cure build the engine again, on this machine => headroom build-engine model.onnx
  finding tensorrt-engine-not-loaded possible
    title A program could not load its TensorRT engine
    cause The log does not say why. Most often, another version of TensorRT or another GPU built the engine,
          the file is missing or cut off, or memory ran out.
    cure load it alone, which prints TensorRT's reason => trtexec --loadEngine=model.engine
    cure build the engine again, on this machine => headroom build-engine model.onnx
    cure measure the memory that the engine needs to load and to run => headroom bench --backend tensorrt
          --model NAME=model.engine --source DIR

figures of-tensorrt-tactic
  requested size of {requested_bytes} || Skipping tactic {tactic:int}
# The builder leaves out a tactic that needs more than the workspace allows. The build goes on.
rule tensorrt-tactic: figures_for=tensorrt-node answers=tensorrt
  line insufficient to use tactic -> part=request
    figures request: {requested_bytes} || Available: {free_bytes}
  # TensorRT 7 tries the next tactic, unless there is none (tensorrt-node).
  line GPU memory allocation error during getBestTactic: {node} -> lacked=GPU memory; part=skipped; answers
  # TensorRT 8 prints MiB without a unit: "size of 449" behind "request: 448MB". TensorRT 7 prints bytes.
  line requested size of {:int<1048576} && actic -> part=skipped; answers
    any insufficient memory || insuficient memory || (out of memory) || OutOfMemory || due to oom error
    figures requested size of {requested_bytes:MiB} || Skipping tactic {tactic:int}
  line insufficient memory || insuficient memory -> figures=@of-tensorrt-tactic; part=skipped; answers
    any tactic || Tactic
  line kipping tactic -> figures=@of-tensorrt-tactic; part=skipped; answers
    any (out of memory) || OutOfMemory || due to oom error
  finding tensorrt-tactic-skipped benign certain when lacked=GPU memory
    title TensorRT skipped a tactic of the node {node}: the GPU had no memory for it
    cause The build continues with another tactic. The engine may be slower, but it is correct. Nothing
          failed.
    cure if the engine is slow, free GPU memory before the build => headroom top
  finding tensorrt-tactic-skipped benign certain when free_bytes<requested_bytes
    title TensorRT skipped a tactic that needs {requested_bytes|more memory} while it built an engine
    cure if the engine is slow, free GPU memory before the build: only {free_bytes} were free => headroom top
          :: saves requested_bytes-free_bytes
  finding tensorrt-tactic-skipped benign certain
    cure if the engine is slow and memory is free, give the build more workspace => trtexec --onnx=model.onnx
          --memPoolSize=workspace:{requested_bytes:mib_above|MIB}

cures of-tactics
  cure build while no other process uses the GPU => headroom build-engine model.onnx
  cure build with half precision: tactics then need half of the memory => trtexec --onnx=model.onnx --fp16

# Every tactic was left out, often for want of workspace, and no engine is built. The figures are of the
# tactic that was left out last, or of what the GPU refused before.
rule tensorrt-node
  line ould not find any implementation for node {node} due to insufficient workspace -> reason=insufficient
        workspace
  line ould not find any implementation for node {node}, try increasing the workspace size
  or ould not find any implementation for node {node}.$ || ould not find any implementation for node {node}.)
  or ould not find any implementation for node {node}
  finding tensorrt-no-implementation when free_bytes<requested_bytes
    title TensorRT found no implementation for the node {node}
    cause The last skipped tactic requested {requested_bytes}, but only {free_bytes} of the GPU's memory were
          free.
    cure free GPU memory before the build[[: {requested_bytes-free_bytes} more]][[if !free_bytes,
          requested_bytes:: at least {requested_bytes}]] => headroom top :: saves requested_bytes-free_bytes
    cure @of-tactics
  finding tensorrt-no-implementation when lacked=GPU memory, !free_bytes
    cause [[The GPU had no memory for the {requested_bytes} that the last tactic requested.]][[if
          !requested_bytes:The GPU had no memory for the last skipped tactic.]]
  finding tensorrt-no-implementation certain when reason
    cause The workspace was too small for each of its tactics.
    cure give the build more workspace than the skipped tactics requested => trtexec --onnx=model.onnx
          --memPoolSize=workspace:{requested_bytes:mib_above|MIB}
    cure @of-tactics
  finding tensorrt-no-implementation possible
    cause TensorRT skipped every tactic for it. If lines before it skip tactics for memory, the workspace or
          the GPU's free memory was too small. Otherwise, TensorRT does not support the node in that type or
          shape.

# A plugin needs more workspace than the build allows: "plugin node NAME requires N bytes of scratch space,
# but only M is available". TensorRT 7 says besides "OutOfMemory Error in checkPluginScratchSize: 0".
rule tensorrt-plugin
  line in checkPluginScratchSize -> part=check; is_vague
  line "plugin node " && requires …bytes of scratch space -> subject={node}; part=node
    figures requires {requested_bytes} bytes || but only {available_bytes} || "plugin node {node}requires "
  finding tensorrt-workspace-too-small certain first_cure_meets_cause
    title [[TensorRT's plugin node {node}]][[if !node:A TensorRT plugin]] needs [[{requested_bytes} of
      workspace, more]][[if !requested_bytes:more workspace]] than the build allows[[ ({available_bytes})]]
    cause TensorRT cannot choose another implementation for a plugin. The workspace limit of the build is too
          small for it.
    cure give the build at least that much workspace => trtexec --onnx=model.onnx
          --memPoolSize=workspace:{requested_bytes:mib_16|MIB}
    cure or build for a smaller batch or input: the plugin then needs less => trtexec --onnx=model.onnx
          --maxShapes=INPUT:1x3x640x640
    cure see which processes hold GPU memory, if the GPU has less than that free => headroom top
)rules"};
}

}  // namespace headroom::doctor
