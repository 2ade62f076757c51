#include "report/run/report_json.h"

#include <sstream>

#include "report/run/report_fields.h"
#include "sample_results.h"
#include "support/test_support.h"

namespace headroom::report {
namespace {
using testing::HasSubstr;

// Removes the fields that are only in metadata.json.
BenchResult without_file_names(BenchResult run) {
  if (run.source)
    for (SourceSequence& sequence : run.source->sequences) {
      sequence.path.clear();
      sequence.images.clear();
      sequence.objects.clear();
    }
  return run;
}

// Sets every field of the report to another value, and gives every list one element.
class FieldFiller {
 public:
  template <class T>
  void operator()(std::string_view, T& value) {
    fill(value);
  }
  template <class T>
  void unless_zero(std::string_view, T& value) {
    fill(value);
  }
  template <class Describe>
  void group(std::string_view, Describe describe_members) {
    describe_members(*this);
  }
  template <class T>
  void inlined(std::optional<T>& value, std::string_view) {
    fill(value);
  }

 private:
  template <class T>
  void fill(T& value) {
    if constexpr (is_optional<T>) {
      fill(value.emplace());
    } else if constexpr (is_list<T>) {
      value.resize(1);
      fill(value.front());
    } else if constexpr (std::same_as<T, std::string>) {
      value = std::to_string(++last_);
    } else if constexpr (std::same_as<T, Bytes> || std::same_as<T, Nanoseconds>) {
      value.count = ++last_;
    } else if constexpr (std::is_enum_v<T>) {
      value = kLast<T>;
    } else if constexpr (std::same_as<T, bool>) {
      value = true;
    } else if constexpr (std::is_arithmetic_v<T>) {
      value = static_cast<T>(++last_);
    } else {
      describe(*this, value);
    }
  }

  int last_ = 0;
};

BenchResult every_field() {
  BenchResult run;
  FieldFiller filler;
  describe(filler, run);
  return run;
}

TEST(ReportJson, ReadsBackWhatItWrote) {
  for (const auto& [name, run] : test::sample_runs()) {
    const auto back = read_report(to_text(to_json(run)));
    ASSERT_TRUE(back) << name << ": " << back.error().sentence();
    EXPECT_TRUE(*back == without_file_names(run)) << name << "\n" << to_text(to_json(*back));
  }
  const BenchResult run = every_field();
  const auto back = bench_result_from_json(to_json(run));
  ASSERT_TRUE(back) << back.error().sentence();
  EXPECT_TRUE(*back == run) << to_text(to_json(*back));
}

TEST(ReportJson, OmitsNonFiniteFiguresAndReplacesInvalidUtf8) {
  BenchResult run = test::typical_run();
  run.models[0].fps = std::numeric_limits<double>::quiet_NaN();
  run.models[0].inference->mean_ns = std::numeric_limits<double>::infinity();
  run.models[0].name = "caf\xe9";
  const std::string text = to_text(to_json(run));
  EXPECT_THAT(text, testing::Not(HasSubstr("null")));
  const auto back = read_report(text);
  ASSERT_TRUE(back);
  EXPECT_FALSE(back->models[0].fps);
  EXPECT_EQ(back->models[0].name, "caf\xef\xbf\xbd");
}

TEST(ReportJson, ToleratesUnknownAndAbsentKeysAndNull) {
  const auto run = read_report(
      R"({"schema_version": 1, "of_a_later_version": [1], "models": [{"name": "m", "fps": null, "new": {}},
          {"fps": 30}]})");
  ASSERT_TRUE(run) << run.error().sentence();
  ASSERT_EQ(run->models.size(), 2U);
  EXPECT_EQ(run->models[0].name, "m");
  EXPECT_FALSE(run->models[0].fps);
  EXPECT_EQ(run->models[1].fps, 30.0) << "an integer";
  EXPECT_FALSE(run->limit);
  EXPECT_FALSE(run->source);
}

TEST(ReportJson, NamesThePlaceOfAWrongValue) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"schema_version":1,"models":[{},{"memory":{"run_peak_bytes":"12 MB"}}]})",
       "/models/1/memory/run_peak_bytes is a string, not a whole number"},
      {R"({"schema_version":1,"models":[{"fps":"fast"}]})", "/models/0/fps is a string, not a number"},
      {R"({"schema_version":1,"models":{}})", "/models is an object, not a list"},
      {R"({"schema_version":1,"models":[7]})", "/models/0 is a whole number, not an object"},
      {R"({"schema_version":1,"models":[{"status":"dead"}]})",
       "/models/0/status is 'dead', not one of ok, oom, crashed, timeout, failed, skipped"},
      {R"({"schema_version":1,"complete":"yes"})", "/complete is a string, not true or false"},
      {R"({"schema_version":1,"image_size":3000000000})",
       "/image_size is a whole number, not a whole number in its range"},
      {R"({"schema_version":1,"models":[{"frames":18446744073709551615}]})", "/models/0/frames"},
      {R"({"schema_version":1,"models":[{"frames":1.5}]})",
       "/models/0/frames is a number, not a whole number"},
      {R"({"schema_version":1,"source":[]})", "/source is a list, not an object"},
      {R"({"schema_version":1,"models":[{"stages_ns":{"decode":{"histogram":[1,true]}}}]})",
       "/models/0/stages_ns/decode/histogram/1 is true or false"},
  };
  for (const auto& [text, problem] : cases) {
    const auto run = read_report(text);
    ASSERT_FALSE(run) << text;
    EXPECT_EQ(run.error().kind, ErrorKind::input);
    EXPECT_THAT(run.error().why, HasSubstr(problem)) << text;
  }
}

TEST(ReportJson, RejectsOtherDocumentsAndVersions) {
  EXPECT_THAT(read_report(R"({"schema_version": 2})").error().sentence(), HasSubstr("use a newer Headroom"));
  EXPECT_THAT(read_report("{}").error().why, HasSubstr("/schema_version"));
  EXPECT_FALSE(read_report("[]"));
  EXPECT_FALSE(read_report("null"));
  EXPECT_FALSE(read_report(""));
  EXPECT_FALSE(read_report(std::string(100'000, '[')));
  const std::string whole = to_text(to_json(test::typical_run()));
  EXPECT_FALSE(read_report(whole.substr(0, whole.size() / 2)));
}

TEST(ReportJson, RejectsListsThatNeedTooMuchMemory) {
  std::string text = R"({"schema_version":1,"models":[{})";
  for (int i = 0; i < 400'000; ++i) text += ",{}";
  EXPECT_THAT(read_report(text + "]}").error().why, HasSubstr("/models has 400001 elements"));
}

TEST(FootprintJson, ReadsBackAFootprint) {
  Footprint footprint;
  footprint.name = "yolo", footprint.path = "models/yolo.onnx",
  footprint.model_fingerprint = "0123456789abcdef";
  footprint.backend = "onnxruntime", footprint.backend_version = "1.29.0";
  footprint.input = "float32[1,3,416,416]", footprint.host = "bench-7, AMD EPYC 7B13";
  footprint.runtime = mebibytes(30), footprint.loaded = mebibytes(9), footprint.load_peak = mebibytes(12);
  footprint.run_mean = mebibytes(20), footprint.run_peak = mebibytes(21), footprint.frames = mebibytes(4);
  footprint.measured_at = "2026-11-21T10:30:00+01:00";
  footprint.settings.threads = 2;
  const auto back = footprint_from_json(to_json(footprint));
  ASSERT_TRUE(back) << back.error().sentence();
  EXPECT_EQ(*back, footprint);
  EXPECT_FALSE(footprint_from_json(Json::object()));
  EXPECT_THAT(footprint_from_json(Json{{"schema_version", 1}, {"runtime_bytes", -0.5}}).error().why,
              HasSubstr("/runtime_bytes"));
}

TEST(ReportJson, TakesTheLimitPeakFromTheEnforcedFigure) {
  const auto peak_in = [](const BenchResult& run, std::size_t model) {
    return get_integer(get_member(to_json(run)["models"][model], "memory"), "limit_peak_bytes");
  };
  BenchResult run = test::charged_run();
  EXPECT_EQ(peak_in(run, 1), run.models[1].memory.cgroup_peak->count);
  EXPECT_EQ(peak_in(run, 0), std::nullopt);  // a skipped model
  run.limit->mechanism = LimitMechanism::watchdog;
  EXPECT_EQ(peak_in(run, 1), run.models[1].memory.run_peak->count);
  run.models[1].memory.run_peak.reset();
  EXPECT_EQ(peak_in(run, 1), run.models[1].memory.load_peak->count);
  run.limit.reset();
  EXPECT_EQ(peak_in(run, 1), std::nullopt);
}

// Resolves a reference in the schema.
const Json& resolved(const Json& schema, const Json& part) {
  const std::string reference = get_text(part, "$ref");
  if (reference.empty()) return part;
  constexpr std::string_view kDefinitions = "#/$defs/";
  return get_member(get_member(schema, "$defs"), reference.substr(kDefinitions.size()));
}

// Appends the place of each key in `value` that is missing in `part`.
void check(const Json& schema, const Json& given, const Json& value, const std::string& place,
           std::vector<std::string>& unknown) {
  const Json& part = resolved(schema, given);
  if (value.is_array() && !value.empty())
    return check(schema, get_member(part, "items"), value.front(), place + "[]", unknown);
  if (!value.is_object()) return;
  const Json& properties = get_member(part, "properties");
  for (const auto& [key, member] : value.items()) {
    const std::string at = place + "." + key;
    if (!properties.contains(key))
      unknown.push_back(at);
    else
      check(schema, properties[key], member, at, unknown);
  }
}

// The golden reports have only the keys of their runs.
TEST(ReportSchema, NamesEveryKey) {
  BenchResult everything = every_field();
  everything.limit->mechanism = LimitMechanism::rlimit_data;  // adds the figures that depend on it
  const Json report = to_json(everything);
  const auto schema = parse_json(
      test::read_text(std::filesystem::path(test::source_path("docs/report.schema.json"))), "the schema");
  ASSERT_TRUE(schema);
  std::vector<std::string> unknown;
  check(*schema, *schema, report, "", unknown);
  EXPECT_EQ(unknown, std::vector<std::string>{});
  // Proves that the check descends: the trials of a model are three levels down.
  EXPECT_TRUE(get_member(get_member(report, "models")[0], "trials")[0].contains("within_limit"));
}

MetricsLine full_line() {
  MetricsLine line;
  line.since_start = {1'500'000'000};
  line.phase = "inference";
  line.model = "yolox";
  SystemSample& system = line.system;
  system.cpu_percent = 81.25, system.gpu_percent = 3;
  system.ram_total = Bytes{1}, system.ram_free = Bytes{2}, system.ram_available = Bytes{3};
  system.ram_cached = Bytes{4}, system.ram_shared = Bytes{5}, system.ram_used = Bytes{6};
  system.swap_total = Bytes{7}, system.swap_used = Bytes{0}, system.nvmap_used = Bytes{9};
  system.psi_some_avg10 = 0.5, system.psi_full_avg10 = 0;
  system.pages_swapped_in = 10, system.pages_swapped_out = 11, system.refaults = 12, system.oom_kills = 0;
  system.temperatures_celsius = {{"cpu-thermal", 41.5}, {"gpu/thermal \"x\"", 39}};
  system.power_watts = {{"VDD_IN", 4.75}};
  system.clocks_hz = {{"cpu0", 1.5e9}};
  system.throttled = false;
  GpuSample gpu;
  gpu.index = 0, gpu.name = "NVIDIA H200", gpu.uuid = "GPU-1", gpu.pci_bus_id = "00000000:41:00.0";
  gpu.memory_total = Bytes{100}, gpu.memory_used = Bytes{0}, gpu.memory_free = Bytes{90};
  gpu.memory_reserved = Bytes{10};
  gpu.gpu_percent = 37, gpu.memory_percent = 12.5, gpu.encoder_percent = 0, gpu.decoder_percent = 1;
  gpu.graphics_clock_hz = 1.98e9, gpu.sm_clock_hz = 1.97e9, gpu.memory_clock_hz = 3.2e9;
  gpu.power_watts = 76.5, gpu.power_limit_watts = 700, gpu.temperature_celsius = 31;
  gpu.throttled = true, gpu.throttle_reasons = {"software power cap"}, gpu.clock_limits = {"idle"};
  gpu.mig_enabled = true;
  gpu.mig_instances = {{3, "MIG 1g.18gb", "MIG-1", 7, 0, Bytes{20}, Bytes{5}, Bytes{14}, Bytes{1}}};
  gpu.processes = {{{4242, Bytes{77}, 7, 0}, {4243, std::nullopt, std::nullopt, std::nullopt}}};
  GpuSample lost;
  lost.index = 1, lost.lost = true;
  system.gpus = {gpu, lost};
  NamedProcessMemory process;
  process.model = "yolox", process.pid = 4242, process.phase = "warm";
  process.memory = {Bytes{20}, Bytes{21}, Bytes{22},       Bytes{23}, Bytes{24},
                    Bytes{25}, Bytes{26}, Nanoseconds{27}, 28};
  line.processes = {process};
  return line;
}

// A run's folder is untrusted input, and its figures are added and multiplied.
Result<std::vector<MetricsLine>> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<MetricsLine> lines;
  auto read = read_metrics(stream, [&](MetricsLine line) { lines.push_back(std::move(line)); });
  if (!read) return forward_error(read);
  return lines;
}

TEST(MetricsJson, ReadsBackALine) {
  const std::string text = to_line(to_json(full_line()));
  EXPECT_EQ(text.find('\n'), std::string::npos);
  const auto lines = lines_of(text + "\n");
  ASSERT_TRUE(lines) << lines.error().sentence();
  ASSERT_EQ(lines->size(), 1U);
  EXPECT_EQ(to_json(lines->front()), to_json(full_line()));
}

TEST(MetricsJson, SeparatesAbsentFromZero) {
  const Json line = to_json(full_line());
  EXPECT_EQ(get_integer(line, "swap_used_bytes"), 0);
  const Json bare = to_json(MetricsLine{});
  for (const char* key :
       {"cpu_percent", "ram_used_bytes", "swap_used_bytes", "temperature_celsius", "throttled", "gpus"})
    EXPECT_FALSE(bare.contains(key)) << key;
  EXPECT_TRUE(bare["processes"].empty());
  // A lost GPU has only this state. Its processes are unknown, which is different from none.
  EXPECT_EQ(line["gpus"][1], (Json{{"index", 1}, {"lost", true}}));
  EXPECT_FALSE(line["gpus"][0].contains("lost"));
  EXPECT_FALSE(line["gpus"][0]["processes"][1].contains("used_bytes"));
}

TEST(MetricsJson, SkipsAnIncompleteLastLine) {
  const std::string line = to_line(to_json(full_line()));
  for (std::size_t cut = 1; cut < line.size(); cut += 7) {
    const auto lines = lines_of(line + "\n" + line + "\n" + line.substr(0, cut));
    ASSERT_TRUE(lines) << lines.error().sentence();
    EXPECT_EQ(lines->size(), 2U) << cut;
  }
  EXPECT_EQ(lines_of(line + "\n" + line)->size(), 2U);  // the line is complete, only its newline is missing
}

TEST(MetricsJson, ReportsTheNumberOfAnInvalidLine) {
  const std::string line = to_line(to_json(full_line()));
  EXPECT_THAT(lines_of(line + "\nnot json\n" + line + "\n").error().why, HasSubstr("line 2"));
  EXPECT_THAT(lines_of("{\"a\":1}\n").error().why, HasSubstr("line 1: it has no time_ns"));
  EXPECT_THAT(lines_of("{\"time_ns\":1,\"clock_hz\":{\"cpu0\":\"fast\"}}\n").error().why,
              HasSubstr("/clock_hz/cpu0 is a string"));
  EXPECT_THAT(lines_of("[]\n").error().why, HasSubstr("not an object"));
  EXPECT_THAT(lines_of(line + "\n" + std::string(2 << 20, ' ') + "\n").error().why,
              HasSubstr("line 2: it is longer than 1 MiB"));
}

// Calculations with the figures of a log (sums, multiples, casts) must not overflow.
TEST(MetricsJson, RefusesFiguresThatAreTooLarge) {
  const auto read = [](const std::string& fields) {
    return system_sample_from_json(*parse_json("{\"time_ns\":1," + fields + "}"));
  };
  for (const char* const bearable :
       {R"("unix_time_ns":1784000000000000000)", R"("ram_total_bytes":72057594037927000)",
        R"("temperature_celsius":{"cpu":-256})", R"("psi_some_stalled_ns":90000000000000000)"})
    EXPECT_TRUE(read(bearable)) << bearable;
  const struct {
    const char *fields, *place;
  } cases[] = {
      {R"("ram_free_bytes":9223372036854775807)", "/ram_free_bytes"},
      {R"("ram_total_bytes":-9223372036854775808)", "/ram_total_bytes"},
      {R"("ram_used_bytes":72057594037927936)", "/ram_used_bytes"},
      {R"("refaults":18446744073709551615)", "/refaults"},
      {R"("cpu_percent":1e300)", "/cpu_percent"},
      {R"("power_watts":{"VDD_IN":-1e17})", "/power_watts/VDD_IN"},
      {R"("gpus":[{"index":0,"memory_used_bytes":4611686018427387904}])", "/gpus/0/memory_used_bytes"},
      {R"("unix_time_ns":4611686018427387904)", "/unix_time_ns"},
      {R"("unix_time_ns":-5)", "/unix_time_ns"},
  };
  for (const auto& each : cases) {
    const auto sample = read(each.fields);
    ASSERT_FALSE(sample) << each.fields;
    EXPECT_THAT(sample.error().why, HasSubstr(each.place));
  }
  EXPECT_FALSE(system_sample_from_json(*parse_json(R"({"time_ns":9223372036854775807})")));
  const auto line =
      metrics_line_from_json(*parse_json(R"({"time_ns":1,"processes":[{"rss_bytes":-72057594037927936}]})"));
  ASSERT_FALSE(line);
  EXPECT_THAT(line.error().why, HasSubstr("/processes/0/rss_bytes is too large for any machine"));
}

TEST(MetricsJson, ReadsAnEmptyFileAsNoLines) {
  EXPECT_TRUE(lines_of("")->empty());
  EXPECT_TRUE(lines_of("\n\n")->empty());
}

}  // namespace
}  // namespace headroom::report
