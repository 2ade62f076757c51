#include "samples.h"

#include <fmt/format.h>

#include <stdexcept>

#include "page_text.h"
#include "support/recording_builder.h"
#include "support/test_support.h"

namespace headroom::test {
namespace {

constexpr std::uint64_t kBase = 0x400000, kMillisecond = 1'000'000, kHeap = 0x500000;

// Return addresses in the program and their functions.
enum Place : std::uint64_t {
  main_function = kBase + 0x100,
  load,
  run,
  convolve,
  keep_log,
  allocate,
  hostile
};

std::vector<std::string> names_of(std::uint64_t address) {
  switch (address) {
    case main_function:
      return {"main"};
    case load:
      return {"detector::read_file(std::filesystem::path const&)", "detector::Model::load()"};  // inlined
    case run:
      return {"detector::Model::run(std::span<float const, 18446744073709551615ul>)"};
    case convolve:
      return {"void detector::convolve<float, (Layout)2>(float*, int (*)(int))"};
    case keep_log:
      return {"detector::Log::keep(std::basic_string_view<char>)"};
    case allocate:
      return {"operator new(unsigned long)"};
    case hostile:
      return {kHostileName};
    default:
      return {fmt::format("libdetector.so+{:#x}", address)};
  }
}

// The runtime's profile of two nodes and its arena, on a thread without other events, so that nothing is
// matched by time.
constexpr const char* kProfile = R"([
{"cat":"Node","tid":1,"dur":5,"ts":20,"name":"conv_0_kernel_time","args":{"op_name":"Conv","output_size":"2097152",
 "activation_size":"1048576","parameter_size":"3000","mem_bytes_in_use":"3145728","mem_bytes_requested_in_use":"3000000",
 "mem_arena_held":"4194304"}},
{"cat":"Node","tid":1,"dur":5,"ts":30,"name":"conv_19_kernel_time","args":{"op_name":"Relu","output_size":"2097152",
 "activation_size":"2097152","mem_bytes_in_use":"4194304","mem_bytes_requested_in_use":"4194304","mem_arena_held":"4194304"}}
])";

void run_model(RecordingBuilder& builder, const std::string& profile) {
  builder.thread(0, 4242, "main");
  builder.thread(1, 4243, kHostileName);
  const auto session = builder.scope("detector.onnx", 0, recording::ScopeSource::session);
  builder.profile(profile, 0, session);
  const auto load_scope = builder.scope("load", session, recording::ScopeSource::load);
  const auto run_scope = builder.scope("Run", session, recording::ScopeSource::run);
  std::vector<std::uint32_t> nodes;
  for (int i = 0; i < 20; ++i)
    nodes.push_back(builder.scope(fmt::format("conv_{}", i), run_scope, recording::ScopeSource::node));
  nodes.push_back(builder.scope(kHostileName, run_scope, recording::ScopeSource::node));

  std::uint64_t time = kMillisecond;
  builder.allocate(1, time, kHeap, 90'000, {allocate, hostile, main_function});
  builder.enter_scope(0, time, load_scope);
  builder.allocate(0, time += kMillisecond, 0x7f0000000010, 12 << 20, {allocate, load, main_function});
  builder.map(0, time, 0x7d0000000000, 32 << 20, {load, main_function});
  builder.enter_scope(0, time += kMillisecond, 0);
  std::uint64_t address = kHeap + 0x100000;
  for (int cycle = 0; cycle < 12; ++cycle) {
    builder.enter_scope(0, time += kMillisecond, run_scope);
    for (const auto node : nodes) {
      builder.enter_scope(0, time += kMillisecond / 50, node);
      const std::uint64_t workspace = address += 0x50000;
      builder.allocate(0, time += kMillisecond / 20, workspace, 200'000 + 1000 * node,
                       {allocate, convolve, run, main_function});
      builder.allocate(0, time += kMillisecond / 20, address += 0x40000, 1000 + 100 * node,
                       {allocate, keep_log, run, kBase + 0x200 + node, main_function});
      builder.release(0, time += kMillisecond / 20, workspace);
    }
    builder.enter_scope(0, time += kMillisecond, 0);
  }
  builder.map(1, time += kMillisecond, 0x7e0000000000, 64 << 20, {hostile});
}

void die_in_default_mode(RecordingBuilder& builder) {
  builder.note("the program was killed");
  builder.allocate(0, kMillisecond, 0x10010, 1 << 20, {load, main_function});
  builder.sample(0, 2 * kMillisecond, 0x200010, 600, {allocate, run, main_function});
  builder.counters(0, 3 * kMillisecond, 0, 4000, 900'000, 3100);
  builder.gap(1, 4 * kMillisecond, 250);
}

void fill_gpus(RecordingBuilder& builder) {
  builder.thread(0, 4242, "main");
  recording::DeviceRecord record{};
  record.total_bytes = std::uint64_t{16} << 30;
  builder.device(0, record, "Test GPU A");
  record.limit_bytes = std::uint64_t{1} << 30;
  record.flags = recording::kDeviceLimited;
  builder.device(1, record, kHostileName);
  const auto load_scope = builder.scope("load"), run_scope = builder.scope("run");
  const auto conv = builder.scope(kHostileName, run_scope, recording::ScopeSource::nvtx);
  std::uint64_t time = kMillisecond, handle = kHeap;
  builder.enter_scope(0, time, load_scope);
  for (int i = 0; i < 6; ++i)
    builder.device_allocate(0, time += 20 * kMillisecond, 0, DeviceMemoryKind::device, handle += 0x1000,
                            96 << 20, {load, main_function});
  builder.device_allocate(0, time, 0, DeviceMemoryKind::pinned_host, handle += 0x1000, 64 << 20,
                          {hostile, load, main_function});
  builder.device_allocate(0, time, 1, DeviceMemoryKind::physical, handle += 0x1000, 900 << 20,
                          {load, main_function});
  for (int cycle = 0; cycle < 12; ++cycle) {
    builder.enter_scope(0, time += 10 * kMillisecond, run_scope);
    builder.enter_scope(0, time += kMillisecond, conv);
    builder.device_allocate(0, time += kMillisecond, 0, DeviceMemoryKind::pool, handle += 0x1000,
                            static_cast<std::uint64_t>(40 + 10 * cycle) << 20,
                            {convolve, run, main_function});
    builder.device_release(0, time += 5 * kMillisecond, 0, DeviceMemoryKind::pool, handle);
    builder.enter_scope(0, time += kMillisecond, 0);
  }
  builder.device_figure(0, time, 0, DeviceMemoryKind::pool_reserved, 192 << 20);
  builder.device_refused(0, time += kMillisecond, 1, DeviceMemoryKind::device, 200 << 20, 950 << 20, 1 << 30,
                         {hostile, run, main_function});
  builder.device_holder(0, time, 1, 0, 905 << 20);  // this process, including its pools
  builder.device_holder(0, time, 1, 911, 40 << 20);
  builder.process_name(911, "segmenter <b>");
  builder.enter_scope(0, time + 100 * kMillisecond, load_scope);
}

}  // namespace

report::RecordingReport AnalysedRecording::report() const {
  return {"detector.hrec", recording.info(), recording.stacks(), analysis, names_of, {}, false};
}

std::string AnalysedRecording::page() {
  const report::PageMoments moments = report::take_page_moments(recording, analysis);
  return report::recording_to_html(report(), moments);
}

AnalysedRecording sample_recording(SampleRecording kind, const std::filesystem::path& folder) {
  RecordingOptions options;
  options.command = {"/opt/app/bin/detector", "--model", "detector.onnx", kHostileName};
  options.full = options.closed = kind != SampleRecording::sampled;
  if (kind == SampleRecording::gpu) options.host = options.full = false;
  RecordingBuilder builder(folder / "detector.hrec", options);
  if (kind == SampleRecording::model) {
    const std::string profile = (folder / "profile.json").string();
    write_text(profile, kProfile);
    run_model(builder, profile);
  }
  if (kind == SampleRecording::sampled) die_in_default_mode(builder);
  if (kind == SampleRecording::gpu) fill_gpus(builder);
  auto recording = recording::Recording::open(builder.finish());
  if (!recording) throw std::runtime_error(recording.error().sentence());
  auto analysis = attribution::analyze_recording(*recording, {});
  return {std::move(*recording), std::move(analysis)};
}

}  // namespace headroom::test
