// What several lines tell of one thing: messages that are broken over lines, figures that were printed
// before, and what was near in the same file.
#include <fmt/format.h>

#include "base/json.h"
#include "base/text.h"
#include "doctor/log/log_findings.h"
#include "doctor/log/log_retry.h"
#include "doctor/log/message_text.h"
#include "log_lines.h"
#include "support/test_support.h"

namespace headroom::test {
namespace {

using doctor::LogFindings;
using testing::HasSubstr;

TEST(LogEvents, AMessageBrokenAnywhereIsOneWithAllItsFigures) {
  const auto whole = findings_of({kTorch});
  ASSERT_EQ(whole.size(), 1U);
  for (std::size_t at = std::string("torch.OutOfMemoryError: CUDA out of memory.").size();
       at < kTorch.size() - 60; ++at) {
    const auto broken = findings_of({kTorch.substr(0, at), kTorch.substr(at), "    at model.py"});
    ASSERT_EQ(broken.size(), 1U) << kTorch.substr(at);
    EXPECT_EQ(broken[0].id, whole[0].id) << kTorch.substr(at);
    EXPECT_EQ(broken[0].times, 1) << kTorch.substr(at);
    EXPECT_EQ(figure(broken[0], "requested_bytes"), 324 << 20) << kTorch.substr(at);
    EXPECT_EQ(figure(broken[0], "allocated_bytes"), figure(whole[0], "allocated_bytes")) << kTorch.substr(at);
    EXPECT_EQ(broken[0].evidence[0].line, 1);
  }
}

TEST(LogEvents, AsATerminalOfEightyColumnsBreaksIt) {
  std::vector<std::string> lines{"Traceback (most recent call last):"};
  for (std::size_t at = 0; at < kTorch.size(); at += 80) lines.push_back(kTorch.substr(at, 80));
  const auto broken = findings_of(lines), whole = findings_of({kTorch});
  ASSERT_EQ(broken.size(), 1U);
  EXPECT_EQ(broken[0].title, whole[0].title);
  EXPECT_EQ(broken[0].times, 1);
}

TEST(LogEvents, TwoMessagesInARowStayTwo) {
  const std::string cut = "RuntimeError: CUDA out of memory. Tried to allocate 1.00 GiB";
  const auto findings = findings_of({cut, kTorch, cut});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].times, 3);
  EXPECT_EQ(figure(findings[0], "requested_bytes"), 324 << 20);
}

TEST(LogEvents, OneEventInTheWordsOfSeveralLinesIsOne) {
  const std::vector<std::string> kOnce[] = {
      {"terminate called after throwing an instance of 'std::bad_alloc'", "  what():  std::bad_alloc"},
      {"ggml_backend_cuda_buffer_type_alloc_buffer: allocating 345.72 MiB on device 0: cudaMalloc failed: "
       "out "
       "of memory",
       "alloc_tensor_range: failed to allocate CUDA0 buffer of size 362517888"},
      {"2024-05-01 10:00:00.1 [E:onnxruntime:, sequential_executor.cc:516 ExecuteKernel] Non-zero status "
       "code "
       "returned while running Conv node. Name:'/conv' Status Message: bfc_arena.cc:376 BFCArena::"
       "AllocateRawInternal Failed to allocate memory for requested buffer of size 1073741824",
       "Traceback (most recent call last):", "  File \"run.py\", line 3, in <module>",
       "onnxruntime.capi.onnxruntime_pybind11_state.RuntimeException: [ONNXRuntimeError] : 6 : "
       "RUNTIME_EXCEPTION : Non-zero status code returned while running Conv node. Name:'/conv' Status "
       "Message: "
       "bfc_arena.cc:376 BFCArena::AllocateRawInternal Failed to allocate memory for requested buffer of "
       "size "
       "1073741824"},
      {"[TRT] [W] Requested amount of GPU memory (1073741824 bytes) could not be allocated. There may not be "
       "enough free memory for allocation to succeed.",
       "[TRT] [E] 2: [virtualMemoryBuffer.cpp::resizePhysical::160] Error Code 2: OutOfMemory (no further "
       "information)"}};
  for (const auto& lines : kOnce) {
    const auto findings = findings_of(lines);
    ASSERT_EQ(findings.size(), 1U) << lines[0];
    EXPECT_EQ(findings[0].times, 1) << lines[0];
    EXPECT_EQ(findings[0].evidence.size(), 2U) << lines[0];
    std::vector<std::string> twice = lines;
    twice.insert(twice.end(), lines.begin(), lines.end());
    EXPECT_EQ(findings_of(twice)[0].times, 2) << lines[0];
  }
}

TEST(LogEvents, NvMapIsSevereBesideAFailureOfItsOwnFileOnly) {
  const std::string nvmap = "NvMapMemAllocInternalTagged: 1075072515 error 12";
  const auto severity = [&](const std::string& file, std::int64_t line, bool survived) {
    LogFindings logs;
    logs.read_line("a", 10, nvmap);
    if (file != "a") logs.end_file();
    logs.read_line(file, line, kTorch);
    if (survived) {
      logs.read_line(file, line + 1, "Decreasing batch size to: 4.");
      logs.read_line(file, line + 2, "epoch 1");
    }
    for (const Finding& finding : logs.findings())
      if (finding.id == "nvmap-allocation-failed") return finding.severity;
    return Severity::benign;
  };
  EXPECT_EQ(severity("a", 12, false), Severity::severe);
  EXPECT_EQ(severity("b", 12, false), Severity::warning);
  EXPECT_EQ(severity("a", 12 + doctor::MessageGroups::kNear, false), Severity::warning);
  EXPECT_EQ(severity("a", 12, true), Severity::warning);
}

// llama.cpp's own lines, as it loads a model of 33 layers.
TEST(LogEvents, CuresOfLlamaCppAreComputedFromItsOwnFigures) {
  const auto findings =
      findings_of({"llama_model_load_from_file_impl: using device CUDA0 (Orin) - 5120 MiB free",
                   "print_info: n_layer          = 32", "load_tensors: offloaded 33/33 layers to GPU",
                   "load_tensors:        CUDA0 model buffer size =  3300.00 MiB",
                   "llama_context: n_ctx         = 8192", "llama_context: n_ubatch      = 512",
                   "llama_kv_cache_unified:      CUDA0 KV buffer size =  1024.00 MiB",
                   "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 560.00 MiB on device 0: "
                   "cudaMalloc failed: out of "
                   "memory",
                   "ggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size 587202560"});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].times, 1);
  const auto commands = commands_of(findings[0]);
  // 560 MiB of 100 MiB a layer: 6 of the 33 leave.
  EXPECT_THAT(commands, testing::Contains("-ngl 27"));
  EXPECT_THAT(commands, testing::Contains("-c 4096"));
  EXPECT_THAT(commands, testing::Contains("-ub 256"));
}

// "7605.33 MiB" is a rounded figure; the next line of the event has all of its digits, also where a third one
// comes in between.
TEST(LogEvents, TheExactSizeOfAnEventStands) {
  const std::string rounded =
      "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 7605.33 MiB on device 0: cudaMalloc failed: "
      "out "
      "of memory";
  const std::string load = "llama_model_load: error loading model: unable to allocate CUDA0 buffer";
  const std::string exact = "alloc_tensor_range: failed to allocate CUDA0 buffer of size 7974779904";
  for (const auto& lines :
       {std::vector{rounded, exact, load}, {rounded, load, exact}, {exact, rounded, load}}) {
    const auto findings = findings_of(lines);
    ASSERT_EQ(findings.size(), 1U);
    EXPECT_EQ(findings[0].times, 1);
    EXPECT_EQ(figure(findings[0], "requested_bytes"), 7974779904);
  }
  // Of the next event it is not.
  const auto two = findings_of({rounded, rounded, exact});
  ASSERT_EQ(two.size(), 1U);
  EXPECT_EQ(two[0].times, 2);
  EXPECT_EQ(figure(two[0], "requested_bytes"), 7974766510);
}

// As Ollama's server logs it, before and in the words of its runner.
TEST(LogEvents, OllamasCuresAreItsOwnSettings) {
  const auto findings = findings_of(
      {"time=2025-09-10T10:11:10.000Z level=INFO source=server.go:431 msg=\"starting llama server\" "
       "cmd=\"/usr/bin/ollama runner --model /blobs/sha256-81 --ctx-size 8192 --batch-size 512 "
       "--n-gpu-layers 33 --parallel 4 --port 44533\"",
       "load_tensors: offloaded 33/33 layers to GPU",
       "load_tensors:        CUDA0 model buffer size =  3300.00 MiB", "llama_context: n_ctx         = 8192",
       "llama_kv_cache_unified:      CUDA0 KV buffer size =  1024.00 MiB",
       "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 560.00 MiB on device 0: cudaMalloc failed: "
       "out "
       "of memory",
       "ggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size 587202560",
       "time=2025-09-10T10:11:12.123Z level=ERROR source=sched.go:455 msg=\"error loading llama server\" "
       "error=\"llama runner process has terminated: cudaMalloc failed: out of "
       "memory\\nggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size 587202560\""});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].times, 1);
  EXPECT_EQ(findings[0].evidence.size(), 3U);
  EXPECT_EQ(findings[0].title, "Ollama (ggml) could not allocate a buffer of 560.0 MiB on the GPU");
  const auto commands = commands_of(findings[0]);
  // Three of four contexts of 256 MiB; the context of one is 2048.
  EXPECT_EQ(findings[0].cures.at(0).command, "OLLAMA_NUM_PARALLEL=1 ollama serve");
  EXPECT_EQ(findings[0].cures.at(0).saves, mebibytes(768));
  EXPECT_THAT(commands,
              testing::Contains("/set parameter num_gpu 27  # API: \"options\": {\"num_gpu\": 27}"));
  EXPECT_THAT(commands,
              testing::Contains("/set parameter num_ctx 1024  # API: \"options\": {\"num_ctx\": 1024}"));
  EXPECT_THAT(commands, testing::Contains("OLLAMA_FLASH_ATTENTION=1 OLLAMA_KV_CACHE_TYPE=q8_0 ollama serve"));
  EXPECT_THAT(commands, testing::Each(testing::Not(testing::HasSubstr("-ngl"))));
}

TEST(LogEvents, OllamasRefusalIsOneEventWithTheHostsFigures) {
  const auto findings = findings_of(
      {"time=2026-03-25T09:45:06.861Z level=INFO source=sched.go:484 msg=\"system memory\" total=\"10.0 "
       "GiB\" "
       "free=\"4.8 GiB\" free_swap=\"0 B\"",
       "time=2026-03-25T09:45:06.861Z level=INFO source=memory.go:326 msg=\"offload to cpu\" "
       "layers.requested=-1 layers.model=29 layers.offload=0 layers.split=\"\" memory.available=\"[4.8 "
       "GiB]\" "
       "memory.required.full=\"5.3 GiB\" memory.required.kv=\"896.0 MiB\"",
       "time=2026-03-25T09:45:06.861Z level=WARN source=server.go:1044 msg=\"model request too large for "
       "system\" requested=\"5.3 GiB\" available=\"4.8 GiB\" total=\"10.0 GiB\" free=\"4.8 GiB\" swap=\"0 "
       "B\"",
       "time=2026-03-25T09:45:06.861Z level=INFO source=sched.go:511 msg=\"Load failed\" "
       "model=/blobs/sha256-66 error=\"model requires more system memory (5.3 GiB) than is available (4.8 "
       "GiB)\"",
       "Error: 500 Internal Server Error: model requires more system memory (5.3 GiB) than is available (4.8 "
       "GiB)"});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].id, "ollama-out-of-memory");
  EXPECT_EQ(findings[0].times, 1);
  EXPECT_THAT(findings[0].cause, testing::HasSubstr("512.0 MiB more than the host's free memory"));
  EXPECT_EQ(findings[0].cures.at(0).saves, mebibytes(448));
  EXPECT_THAT(commands_of(findings[0]), testing::Contains(testing::HasSubstr("fallocate -l 5G")));
}

TEST(LogEvents, TheJournalsAndDockersNameOfOllamaTellsWhoseGgmlItIs) {
  const std::string ggml = "ggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size 587202560";
  for (const char* prefix :
       {"Feb 21 01:41:02 orin ollama[402476]: ", "ollama  | ", "[pod/ollama-7d/ollama] "}) {
    const auto findings = findings_of({prefix + ggml});
    ASSERT_EQ(findings.size(), 1U) << prefix;
    EXPECT_THAT(commands_of(findings[0]), testing::Contains(testing::HasSubstr("num_ctx"))) << prefix;
  }
  EXPECT_THAT(commands_of(findings_of({ggml}).at(0)),
              testing::Each(testing::Not(testing::HasSubstr("num_"))));
}

TEST(LogEvents, LayersThatFitWhenTheWeightsDidNot) {
  const auto findings =
      findings_of({"llama_model_load_from_file_impl: using device CUDA0 (Orin) - 2048 MiB free",
                   "print_info: n_layer          = 32",
                   "alloc_tensor_range: failed to allocate CUDA0 buffer of size 4294967296"});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_THAT(commands_of(findings[0]), testing::Contains("-ngl 16"));
}

TEST(LogEvents, FiguresOfAnotherFileAreNotTaken) {
  LogFindings logs;
  logs.read_line("a", 1, "llama_context: n_ctx         = 8192");
  logs.end_file();
  logs.read_line("b", 1, "ggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size 587202560");
  const auto findings = logs.findings();
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(figure(findings[0], "context_length"), -1);
}

TEST(LogEvents, CuresOfVllmAreComputedFromItsOwnFigures) {
  const auto cures = [](const std::string& line) {
    const auto findings = findings_of(
        {"INFO 04-20 10:11:12 [core.py:58] Initializing a V1 LLM engine (v0.8.5) with config: model='m', "
         "max_seq_len=32768, download_dir=None",
         line});
    return findings.empty() ? std::vector<std::string>{} : commands_of(findings[0]);
  };
  EXPECT_THAT(
      cures("ValueError: Free memory on device (3.21/7.44 GiB) on startup is less than desired GPU memory "
            "utilization (0.9, 6.7 GiB)."),
      testing::Contains("--gpu-memory-utilization 0.43"));
  EXPECT_THAT(cures("ValueError: No available memory for the cache blocks."),
              testing::Contains("--max-model-len 16384"));
  EXPECT_THAT(
      cures("RuntimeError: CUDA out of memory occurred when warming up sampler with 256 dummy requests."),
      testing::Contains("--max-num-seqs 128"));
  EXPECT_EQ(
      cures(
          "ValueError: The model's max seq len (32768) is larger than the maximum number of tokens that can "
          "be stored in KV cache (12480).")
          .front(),
      "--max-model-len 12480");
}

TEST(LogEvents, PyTorchsFirstCureIsThatOfTheCause) {
  const auto first = [](const std::string& line) { return findings_of({line}).at(0).cures.at(0).command; };
  const std::string v1 = "RuntimeError: CUDA out of memory. Tried to allocate ";
  // Fragmentation: 1.5 GiB lie idle, and half of what is allocated would be more.
  EXPECT_EQ(
      first(v1 +
            "200.00 MiB (GPU 0; 8.00 GiB total capacity; 6.00 GiB already allocated; 20.00 MiB free; 7.50 "
            "GiB reserved in total by PyTorch)"),
      "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:100");
  // Larger than the GPU: 6 GiB are free and 0.5 idle, of 16.
  EXPECT_EQ(
      first(v1 + "16.00 GiB (GPU 0; 8.00 GiB total capacity; 1.00 GiB already allocated; 6.00 GiB free; 1.50 "
                 "GiB reserved in total by PyTorch)"),
      "batch_size = max(1, int(0.40 * batch_size))");
  // The rest of the system.
  EXPECT_EQ(
      first(v1 +
            "2.00 MiB (GPU 0; 3.79 GiB total capacity; 654.97 MiB already allocated; 6.00 MiB free; 666.00 "
            "MiB reserved in total by PyTorch)"),
      "headroom top");
}

// As in public threads of TensorRT 8.5: the builder goes on without the tactic.
TEST(LogEvents, ABuildThatLeavesATacticOutWentOn) {
  const std::vector<std::string> lines{
      "[11/23/2026-10:00:00] [E] Error[2]: [virtualMemoryBuffer.cpp::resizePhysical::145] Error Code 2: "
      "OutOfMemory "
      "(no further information)",
      "[11/23/2026-10:00:00] [W] [TRT] Requested amount of GPU memory (17179869184 bytes) could not be "
      "allocated. "
      "There may not be enough free memory for allocation to succeed.",
      "[11/23/2026-10:00:00] [W] [TRT] Skipping tactic 8 due to insufficient memory on requested size of "
      "17179869184 detected for tactic 0x000000000000003c.",
      "[11/23/2026-10:00:34] [I] Engine built in 34.2 sec."};
  for (const Finding& finding : findings_of(lines))
    EXPECT_NE(finding.severity, Severity::severe) << finding.title;
  const auto died = findings_of({lines[0], lines[1]});
  ASSERT_EQ(died.size(), 1U);
  EXPECT_EQ(died[0].severity, Severity::severe);
  EXPECT_EQ(died[0].times, 1);
}

TEST(LogEvents, ARecordWithAWholeTracebackIsReadByItsLines) {
  const auto findings = findings_of(
      {R"({"time":"2026-11-23T10:00:00Z","log":"Traceback (most recent call last):\n  File \"a.py\", line 3, in <module>\n)"
       R"(    x = bytearray(1 << 40)\nMemoryError\n","stream":"stderr"})"});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].id, "host-out-of-memory");
  EXPECT_EQ(findings[0].evidence.at(0).text, "MemoryError");
}

TEST(LogEvents, FieldsBesideTheMessageAreReadToo) {
  const auto findings = findings_of(
      {R"({"level":"error","msg":"inference failed","error":"CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a )"
       R"(total capacity of 7.44 GiB of which 210.00 MiB is free."})"});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].id, "pytorch-out-of-memory");
}

// journald gives text with escape characters as an array of bytes.
TEST(LogEvents, ColouredTextOfTheJournalIsRead) {
  std::string bytes;
  for (const char c : std::string("\x1b[31mMemoryError\x1b[0m"))
    bytes += fmt::format("{}{}", bytes.empty() ? "" : ",", static_cast<int>(static_cast<unsigned char>(c)));
  const auto findings = findings_of({R"({"_COMM":"python3","MESSAGE":[)" + bytes + "]}"});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].evidence.at(0).text, "MemoryError");
}

TEST(LogEvents, TheKernelsReportInTheJournalsJsonKeepsItsFigures) {
  std::vector<std::string> lines;
  const std::string text = read_text(std::filesystem::path(HEADROOM_DOCTOR_GOLDEN) / "oom_machine.log");
  for (const std::string_view line : split(text, '\n'))
    if (!line.empty())
      lines.push_back(R"({"_TRANSPORT":"kernel","MESSAGE":)" + Json(std::string(line)).dump() + "}");
  const auto plain = findings_of([&] {
    std::vector<std::string> all;
    for (const std::string_view line : split(text, '\n')) all.emplace_back(line);
    return all;
  }());
  const auto wrapped = findings_of(lines);
  ASSERT_EQ(wrapped.size(), plain.size());
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_EQ(wrapped[i].title, plain[i].title);
    EXPECT_EQ(wrapped[i].figures.size(), plain[i].figures.size());
  }
}

// Nodes of one launch that fail for reasons of their own are two findings.
TEST(LogEvents, ProgramsOfOneLogAreToldApart) {
  const auto findings = findings_of(
      {"[camera-2] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a "
       "total "
       "capacity of 7.99 GiB of which 5.25 MiB is free.",
       "[planner-3] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 500.00 MiB. GPU 0 has a "
       "total capacity of 7.99 GiB of which 105.25 MiB is free."});
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_THAT(findings[0].title, HasSubstr("20.0 MiB"));
  EXPECT_THAT(findings[1].title, HasSubstr("500.0 MiB"));
}

TEST(LogEvents, ALineTellsWhichProgramItIsOf) {
  EXPECT_EQ(doctor::source_of("[detector-1] text"), "detector-1");
  EXPECT_EQ(doctor::source_of("[ERROR] [1732353600.1] [camera_node-12]: text"), "camera_node-12");
  EXPECT_EQ(doctor::source_of("detector-1  | text"), "detector-1");
  EXPECT_EQ(doctor::source_of("app | text"), "app");
  EXPECT_EQ(doctor::source_of("[2026-11-23 10:00:00] text"), "");
  EXPECT_EQ(doctor::source_of("[2026-11-23] text"), "");
  EXPECT_EQ(doctor::source_of("[TRT] text"), "");
  EXPECT_EQ(doctor::source_of("a sentence of words | and more"), "");
  EXPECT_EQ(doctor::source_of(""), "");
}

TEST(LogEvents, HundredsOfWarningsHideNothingSevere) {
  std::vector<std::string> lines;
  for (int i = 0; i < 250; ++i)
    lines.push_back(fmt::format("bash: line 1: {} Killed                  python3 job{}.py", 1000 + i, i));
  lines.emplace_back("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.");
  const auto findings = findings_of(lines);
  ASSERT_EQ(findings.size(), LogFindings::kMostGroups + 2);
  EXPECT_EQ(findings.front().id, "pytorch-out-of-memory");
  EXPECT_EQ(findings.back().id, "messages-left-out");
  EXPECT_EQ(findings.back().times, 50);
  EXPECT_THAT(findings.back().evidence.at(0).text, HasSubstr("job200.py"));
}

// The allocator of CUDA itself tells its figures on lines of their own.
TEST(LogEvents, FiguresOfTheAsyncAllocatorStandOnTheirOwnLines) {
  const auto findings = findings_of(
      {"torch.OutOfMemoryError: Allocation on device 0 would exceed allowed memory. (out of memory)",
       "Currently allocated     : 5.00 GiB", "Requested               : 58.00 MiB",
       "Device limit            : 7.44 GiB", "Free (according to CUDA): 20.00 MiB"});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(figure(findings[0], "requested_bytes"), 58 << 20);
  EXPECT_EQ(figure(findings[0], "free_bytes"), 20 << 20);
  EXPECT_EQ(figure(findings[0], "allocated_bytes"), std::int64_t{5} << 30);
  EXPECT_EQ(findings[0].times, 1);
}

TEST(LogEvents, TheProgramsOwnShareIsNoWantOfMemory) {
  const auto findings =
      findings_of({"RuntimeError: CUDA out of memory. Tried to allocate 200.00 MiB (GPU 0; 7.79 GiB total "
                   "capacity; 3.50 GiB already "
                   "allocated; 3.20 GiB free; 3.72 GiB allowed; 3.60 GiB reserved in total by PyTorch)"});
  EXPECT_THAT(findings.at(0).cause,
              HasSubstr("allowed itself was used up (3.72 GiB), while 3.20 GiB were free"));
  // 3.60 GiB reserved, 0.20 wanted, of 7.79; 3.60 + 3.20 are there.
  EXPECT_EQ(findings[0].cures.at(0).command, "torch.cuda.set_per_process_memory_fraction(0.49)");
  EXPECT_THAT(findings[0].cures[0].what,
              HasSubstr("needs 0.49 of the GPU, up to 0.87 are there (it has 0.48)"));
}

// PyTorch takes 20 MiB at once for a request of 1 to 10 MiB, 2 MiB for a smaller one: 1.97 GiB and that,
// of 4.
TEST(LogEvents, ASharesRequestIsTheBlockThatPyTorchTakes) {
  const auto command = [](const char* requested) {
    return findings_of(
               {fmt::format("RuntimeError: CUDA out of memory. Tried to allocate {} (GPU 0; 4.00 GiB total "
                            "capacity; 1.95 GiB already allocated; 1.90 GiB free; 1.97 GiB allowed; 1.97 "
                            "GiB reserved in total by PyTorch)",
                            requested)})
        .at(0)
        .cures.at(0)
        .command;
  };
  EXPECT_EQ(command("8.00 MiB"), "torch.cuda.set_per_process_memory_fraction(0.51)");
  EXPECT_EQ(command("512.00 KiB"), "torch.cuda.set_per_process_memory_fraction(0.50)");
}

TEST(LogEvents, ASmallerBatchHasTheRoomThatIsAllowedOnly) {
  const auto findings = findings_of(
      {"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 256.00 MiB. GPU 0 has a total "
       "capacity of 15.77 GiB of which 11.00 GiB is free. 4.00 GiB allowed; Of the allocated memory "
       "3.80 GiB is allocated by PyTorch, and 10.00 MiB is reserved by PyTorch but unallocated."});
  EXPECT_EQ(findings.at(0).cures.at(0).command, "torch.cuda.set_per_process_memory_fraction(0.26)");
  // 4.00 - 3.80 GiB are 80 % of it.
  EXPECT_THAT(commands_of(findings[0]), testing::Contains("batch_size = max(1, int(0.80 * batch_size))"));
}

// 7.00 GiB reserved and 552 MiB wanted of 7.60 GiB, of which 560 MiB are free: 0.99 is what there is.
TEST(LogEvents, AShareIsNoLargerThanWhatIsFree) {
  const auto findings = findings_of(
      {"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 552.00 MiB. GPU 0 has a total "
       "capacity of 7.60 GiB of which 560.00 MiB is free. 7.20 GiB allowed; Of the allocated memory "
       "7.00 GiB is allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated."});
  EXPECT_THAT(findings.at(0).cause, HasSubstr("allowed itself was used up"));
  EXPECT_EQ(findings[0].cures.at(0).command, "torch.cuda.set_per_process_memory_fraction(0.99)");
  EXPECT_THAT(findings[0].cures[0].what, HasSubstr("0.99 of the GPU at most"));
}

// Cut off where a log was: by its end, by a logger's longest line.
TEST(LogEvents, AMessageThatIsCutOffTellsWhatItStillTells) {
  const std::string head =
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 392.00 MiB. GPU 0 has a total capacity "
      "of "
      "29.97 GiB of which 201.12 MiB is free. ";
  const std::string one = "Process 2345 has 10.25 GiB memory in use. ",
                    other = "Process 34567 has 4.50 GiB memory in use. ";
  const auto finding = [&](const std::string& tail) { return findings_of({head + tail}).at(0); };
  // 29.97 GiB less 201.12 MiB less 14.75 GiB.
  const Finding of_both = finding(one + other + "Including non-Py");
  EXPECT_THAT(of_both.cause, HasSubstr("15.02 GiB at most, as other processes held 14.75 GiB"));
  EXPECT_EQ(of_both.confidence, Confidence::possible);
  EXPECT_EQ(figure(of_both, "other_processes_bytes"), 15837691904);
  EXPECT_EQ(of_both.cures.at(0).saves, Bytes{15837691904});
  const Finding of_many = finding(one + one + other + "Including non-PyTorch memory, this pro");
  EXPECT_THAT(of_many.cause,
              HasSubstr("Other processes held 25.00 GiB of the GPU, this one 4.77 GiB at most"));
  // One of them may be the program itself: not to be ended, and nothing to save.
  const Finding named = finding(one + other);
  EXPECT_THAT(named.cause, HasSubstr("names held 14.75 GiB, and one of them may be this program"));
  EXPECT_EQ(figure(named, "other_processes_bytes"), -1);
  EXPECT_EQ(figure(named, "named_processes_bytes"), 15837691904);
  EXPECT_THAT(named.cures.at(0).what, HasSubstr("see which of them is this program"));
  EXPECT_FALSE(named.cures[0].saves);
  // Its own is told, what of it are tensors is not.
  const std::string own = "Including non-PyTorch memory, this process has ";
  EXPECT_THAT(finding(other + own + "25.10 GiB memory in use. Of the allo").cause,
              HasSubstr("The program itself filled the memory: it held 25.10 GiB of 29.97 GiB"));
  EXPECT_THAT(finding(one + one + own + "9.20 GiB memory in use. Of the allo").cause,
              HasSubstr("Other processes held 20.50 GiB of the GPU, this one 9.20 GiB."));
  EXPECT_THAT(commands_of(of_both), testing::Contains("batch_size = max(1, int(0.51 * batch_size))"));
}

// The cure by what is there for it: 51.23 GiB free, of a request of 124.68 GiB on a GPU of 80.
TEST(LogEvents, AMuchSmallerBatchGoesByWhatIsFree) {
  const auto findings =
      findings_of({"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 124.68 GiB. GPU 0 has a "
                   "total capacity of 79.25 GiB of "
                   "which 51.23 GiB is free. Of the allocated memory 24.00 GiB is allocated by PyTorch, and "
                   "3.14 GiB is reserved by "
                   "PyTorch but unallocated."});
  EXPECT_EQ(findings.at(0).cures.at(0).command, "batch_size = max(1, int(0.43 * batch_size))");
}

TEST(LogEvents, WhatTheHostLackedIsNotCuredByTheGpu) {
  const auto findings =
      findings_of({"ggml_gallocr_reserve_n: failed to allocate CPU buffer of size 84940800"});
  EXPECT_THAT(findings.at(0).title, HasSubstr("in the host's memory"));
  for (const Cure& cure : findings[0].cures) EXPECT_THAT(cure.command, testing::Not(HasSubstr("-ngl")));
}

// TensorFlow's allocator asks the driver for a tenth less until it is given some.
TEST(LogEvents, TensorFlowsSmallerRequestsGoOn) {
  const auto refused = [](const char* size, std::int64_t bytes) {
    return fmt::format(
        "E cuda_driver.cc:936] failed to allocate {} ({} bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out "
        "of memory",
        size, bytes);
  };
  const std::vector<std::string> start{refused("3.90G", 4187987968), refused("3.51G", 3769189376),
                                       refused("3.16G", 3392270336)};
  auto findings = findings_of(start);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].severity, Severity::warning);
  EXPECT_EQ(findings_of({start[0]}).at(0).severity, Severity::severe) << "nothing was asked for after it";
  std::vector<std::string> failed = start;
  failed.emplace_back(
      "ResourceExhaustedError: OOM when allocating tensor with shape[32,256,256,64] and type float on GPU:0");
  EXPECT_EQ(findings_of(failed).at(0).severity, Severity::severe);
}

TEST(LogEvents, TheEvidenceOfALongLineHasTheMessageInIt) {
  const std::string line =
      std::string(3000, 'x') + " torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.";
  const std::string text = findings_of({line}).at(0).evidence.at(0).text;
  EXPECT_THAT(text, HasSubstr("Tried to allocate 2.00 GiB"));
  EXPECT_LE(text.size(), LogFindings::kMostText + 3);
}

TEST(LogEvents, FiguresOfAnotherNotationAreNotReadByHalves) {
  EXPECT_EQ(doctor::leading_size("1e3 MiB"), std::nullopt);
  EXPECT_EQ(doctor::leading_size("1,5"), std::nullopt);
  EXPECT_EQ(doctor::leading_size("1,5 GiB"), mebibytes(1536));
  EXPECT_EQ(doctor::leading_size("1900,00 MiB"), mebibytes(1900));
  EXPECT_EQ(doctor::leading_size("1,5 of 2"), std::nullopt);
  EXPECT_EQ(doctor::leading_size("1,024 MiB"), mebibytes(1024));
  EXPECT_EQ(doctor::leading_size("12, of which"), Bytes{12});
  EXPECT_EQ(doctor::leading_size("9223372036854775807"), std::nullopt);
}

TEST(LogEvents, HostileFiguresOverflowNothing) {
  const std::string most = "4000000.00 TiB";
  const auto findings =
      findings_of({"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate " + most +
                   ". GPU 0 has a total capacity of " + most + " of which " + most +
                   " is free. Process 1 has " + most + " memory in use. Of the allocated memory " + most +
                   " is allocated by PyTorch, and " + most + " is reserved by PyTorch but unallocated."});
  ASSERT_EQ(findings.size(), 1U);
}

TEST(LogEvents, AHostileKernelReportOverflowsNothing) {
  const std::string most = "70368744177664";  // pages, of 64 KiB: 2^62 bytes each
  const auto findings = findings_of(
      {"python3 invoked oom-killer: gfp_mask=0x100cca(GFP_HIGHUSER_MOVABLE), order=0, oom_score_adj=0",
       fmt::format("active_anon:{0} inactive_anon:{0} isolated_anon:0", most),
       fmt::format("active_file:{0} inactive_file:{0} unevictable:{0}", most),
       fmt::format("slab_reclaimable:{0} slab_unreclaimable:{0}", most),
       fmt::format("free:{0} free_pcp:0 free_cma:0", most), "DMA: 1*64kB (U) = 64kB", "1 pages RAM",
       fmt::format("{} pages reserved", most),
       "Out of memory: Killed process 7 (python3) total-vm:9kB, anon-rss:1kB, file-rss:0kB, shmem-rss:0kB"});
  EXPECT_EQ(findings.size(), 1U);
}

TEST(LogEvents, TwoGroupsTwoVictimsAndTwoCausesAreTwoFindings) {
  const auto kill = [](const std::string& group, int pid) {
    return fmt::format(
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),oom_memcg={0},task_memcg={0},task=python3,pid={"
        "1},"
        "uid=0",
        group, pid);
  };
  EXPECT_EQ(findings_of({kill("/docker/a", 1), kill("/docker/b", 2)}).size(), 2U);
  const auto earlyoom = [](const std::string& name) {
    return "sending SIGTERM to process 4321 uid 1000 \"" + name + "\": badness 800, VmRSS 3456 MiB";
  };
  EXPECT_EQ(findings_of({earlyoom("python3.10 -m"), earlyoom("Isolated Web Co")}).size(), 2U);
  const std::string own =
      "RuntimeError: CUDA out of memory. Tried to allocate 64.00 MiB (GPU 0; 4.00 GiB total capacity; 3.35 "
      "GiB "
      "already allocated; 0 bytes free; 3.41 GiB reserved in total by PyTorch)";
  const std::string other =
      "RuntimeError: CUDA out of memory. Tried to allocate 8.13 GiB (GPU 0; 10.76 GiB total capacity; 643.57 "
      "MiB "
      "already allocated; 8.20 GiB free; 1.00 GiB reserved in total by PyTorch)";
  EXPECT_EQ(findings_of({own, "x", other}).size(), 2U);
  EXPECT_EQ(findings_of({own, "x", own}).size(), 1U);
}

TEST(LogEvents, OfTwoKillsOfOneNameTheLargerStands) {
  const auto killed = [](int pid, const std::string& size) {
    return fmt::format(
        "Out of memory: Killed process {} (python3) total-vm:9000000kB, anon-rss:{}kB, file-rss:0kB", pid,
        size);
  };
  const auto findings = findings_of({killed(100, "10"), killed(200, "8000000")});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].times, 2);
  EXPECT_EQ(figure(findings[0], "anonymous_bytes"), 8000000LL * 1024);
}

// A kill, and what the kernel says of it besides.
TEST(LogEvents, TheReaperAndTheGroupAddNoKill) {
  const auto findings = findings_of(
      {"Memory cgroup out of memory: Killed process 8 (app) total-vm:1000kB, anon-rss:900kB, file-rss:0kB",
       "Tasks in /kubepods/pod1 are going to be killed due to memory.oom.group set",
       "oom_reaper: reaped process 8 (app), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB"});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].times, 1);
}

TEST(LogEvents, AnOldKernelsGroupIsTheReports) {
  const auto findings = findings_of(
      {"python3 invoked oom-killer: gfp_mask=0x0", "memory: usage 2097152kB, limit 2097152kB, failcnt 1",
       "memory+swap: usage 2500000kB, limit 4194304kB, failcnt 0",
       "Memory cgroup out of memory: Kill process 8 (app) score 1000 or sacrifice child",
       "Killed process 8 (app) total-vm:1000kB, anon-rss:900kB, file-rss:0kB"});
  ASSERT_EQ(findings.size(), 1U);
  // Two GiB of swap stay beside half a GiB more of memory.
  EXPECT_THAT(commands_of(findings[0]),
              testing::Contains("docker update --memory=2560m --memory-swap=4608m CONTAINER"));
}

// What a log holds is one word of a command, whatever is in it.
TEST(LogEvents, NamesFromLogsAreQuotedInCommands) {
  EXPECT_THAT(
      commands_of(findings_of({"oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),oom_memcg=/a; rm -rf "
                               "~;#/b,task_memcg=/x,task=evil,pid=77,uid=0"})
                      .at(0)),
      testing::Contains("echo SIZE | sudo tee '/sys/fs/cgroup/a; rm -rf ~;#/b/memory.max'"));
  EXPECT_THAT(
      commands_of(findings_of({"systemd-oomd[612]: Killed /system.slice/a\\x2db.service due to memory "
                               "pressure for /system.slice being 62.10% > 50.00% for > 20s"})
                      .at(0)),
      testing::Contains("sudo systemctl set-property 'a\\x2db.service' ManagedOOMPreference=avoid"));
  EXPECT_THAT(
      commands_of(
          findings_of({"sending SIGTERM to process 4 uid 1000 \"a'; rm -rf ~; '\": badness 800"}).at(0)),
      testing::Contains("earlyoom --avoid '^a'\\''; rm -rf ~; '\\''$'"));
  EXPECT_THAT(
      commands_of(findings_of({"sending SIGTERM to process 4 uid 1000 \"python3.10\": badness 800"}).at(0)),
      testing::Contains("earlyoom --avoid '^python3\\.10$'"));
  EXPECT_THAT(
      commands_of(
          findings_of({"ImportError: /opt/x y/libgomp.so.1: cannot allocate memory in static TLS block"})
              .at(0)),
      testing::Contains("LD_PRELOAD='/opt/x y/libgomp.so.1'"));
}

// RAM less a reserve of 15 %, the other processes and what belongs to none.
TEST(LogEvents, TheLimitOfWhoHeldMostIsWhatTheOthersLeave) {
  const auto findings = findings_of(
      {"python3 invoked oom-killer: gfp_mask=0x0", "active_anon:0 inactive_anon:180000 isolated_anon:0",
       " active_file:0 inactive_file:0 isolated_file:0", " unevictable:0 dirty:0 writeback:0",
       " slab_reclaimable:0 slab_unreclaimable:0", " free:20000 free_pcp:0 free_cma:0", "1000000 pages RAM",
       "0 pages reserved",
       "[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name",
       "[   4242]  1000  4242  5000000   150000  4096000        0             0 python3",
       "[   4300]  1000  4300   200000    30000   204800        0             0 gnome-shell",
       "Out of memory: Killed process 4242 (python3) total-vm:20000000kB, anon-rss:600000kB, file-rss:0kB"});
  ASSERT_EQ(findings.size(), 1U);
  // Of 850,000 pages 30,000 are the others' and 800,000 nobody's.
  EXPECT_THAT(commands_of(findings[0]), testing::Contains("headroom run --limit 78MiB -- COMMAND"));
  EXPECT_EQ(findings[0].cures.at(0).saves, Bytes{800'000LL * 4096});
}

// A record of JSON has several lines and one number.
TEST(LogEvents, AMessageOfSeveralLinesInOneRecordIsWhole) {
  const auto findings = findings_of(
      {R"({"level": "error", "msg": "Allocation on device 0 would exceed allowed memory. (out of memory)\nCurrently allocated : 14.81 GiB\nRequested : 320.00 MiB\nDevice limit : 15.92 GiB\nFree (according to CUDA): 0 bytes\n"})"});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(figure(findings[0], "requested_bytes"), 320 << 20);
  EXPECT_EQ(figure(findings[0], "free_bytes"), 0);
}

TEST(LogEvents, WhatPyTorchUpTo13CalledCachedLiesIdle) {
  const auto findings =
      findings_of({"RuntimeError: CUDA out of memory. Tried to allocate 32.00 MiB (GPU 0; 7.79 GiB total "
                   "capacity; 6.04 GiB "
                   "already allocated; 21.00 MiB free; 1.25 GiB cached)"});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_THAT(findings[0].cause, HasSubstr("Fragmentation"));
  EXPECT_EQ(findings[0].cures.at(0).command, "torch.cuda.empty_cache()");
}

TEST(LogEvents, ComfyUisShortMessageIsOneFailure) {
  const auto findings =
      findings_of({"!!! Exception during processing !!! Allocation on device ",
                   "Traceback (most recent call last):", "  File \"execution.py\", line 317, in execute",
                   "torch.OutOfMemoryError: Allocation on device ", "",
                   "Got an OOM, unloading all loaded models.", "Prompt executed in 12.04 seconds"});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].severity, Severity::severe);
  EXPECT_EQ(findings[0].times, 1);
}

TEST(LogEvents, GgmlsCacheIsWhereItsBufferIs) {
  const auto host =
      findings_of({"ggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer of size "
                   "17179869216",
                   "llama_kv_cache_init: failed to allocate buffer for kv cache"});
  ASSERT_EQ(host.size(), 1U);
  EXPECT_EQ(host[0].times, 1);
  EXPECT_THAT(host[0].title, HasSubstr("in the host's memory"));
  // Its growing pool speaks in the driver's words.
  const auto pool =
      findings_of({"CUDA error: out of memory",
                   "  current device: 0, in function alloc at ggml/src/ggml-cuda/ggml-cuda.cu:514",
                   "  cuMemCreate(&handle, reserve_size, &prop, 0)"});
  ASSERT_EQ(pool.size(), 1U);
  EXPECT_EQ(pool[0].id, "ggml-out-of-memory");
}

}  // namespace
}  // namespace headroom::test
