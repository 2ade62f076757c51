// Tests of the views of a recording that the golden files do not cover.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "base/text.h"
#include "base/utf8.h"
#include "report/recording/recording_views.h"
#include "support/recording_builder.h"
#include "support/test_support.h"

namespace headroom::report {
namespace {

struct Fixture {
  test::TemporaryFolder folder;
  recording::Recording recording;
  attribution::RecordingAnalysis analysis;

  static Fixture of(const std::function<void(test::RecordingBuilder&)>& fill,
                    test::RecordingOptions options = {}) {
    test::TemporaryFolder scratch;
    test::RecordingBuilder builder(scratch / "a.hrec", options);
    fill(builder);
    auto opened = recording::Recording::open(builder.finish());
    EXPECT_TRUE(opened.has_value());
    auto figures = attribution::analyze_recording(*opened, {});
    return {.folder = {}, .recording = std::move(*opened), .analysis = std::move(figures)};
  }
  RecordingReport report(FrameNames names) const {
    return {"a.hrec", recording.info(), recording.stacks(), analysis, std::move(names), {}, false};
  }
};

std::string screen_of(const RecordingReport& report, int width = 80) {
  std::string screen = recording_to_terminal(report, false, width);
  for (const std::string_view line : split(screen, '\n')) EXPECT_LE(display_width(line), width) << line;
  return screen;
}

// "f1", "f2", …
std::vector<std::string> any_name(std::uint64_t address) { return {"f" + std::to_string(address)}; }

FrameNames numbered(std::vector<std::string> names) {
  return [names = std::move(names)](std::uint64_t address) { return std::vector{names.at(address)}; };
}

TEST(RecordingText, SuggestsHostMemoryIfNoGpuMemoryWasRequested) {
  const Fixture fixture = Fixture::of([](auto&) {}, {.full = false, .host = false});
  const std::string text = screen_of(fixture.report(numbered({""})));
  EXPECT_THAT(text, testing::HasSubstr("headroom trace -- /usr/bin/program --flag"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("--only gpu --")));
}

TEST(RecordingText, IsNeverWiderThanTheTerminal) {
  const Fixture fixture = Fixture::of([](auto& builder) {
    const auto layer = builder.scope("a layer with a long name " + std::string(200, 'x'));
    builder.enter_scope(0, 1, layer);
    for (std::uint64_t i = 0; i < 100; ++i)
      builder.allocate(0, 10 + i, 0x1010 + 0x100 * i, 8 + i, {1 + i % 3});
    for (std::uint64_t i = 0; i < 100; i += 2) builder.release(0, 200 + i, 0x1010 + 0x100 * i);
    builder.gap(0, 1000, 5);
  });
  const RecordingReport report =
      fixture.report(numbered({"", std::string(300, 'f'), "g(" + std::string(300, 'p') + ")", "h"}));
  for (const int width : {60, 80, 200}) EXPECT_THAT(screen_of(report, width), testing::HasSubstr("Leaks"));
}

// A program maps its weights: the views show the places, separately from the heap.
TEST(RecordingViews, ShowPlacesOfMappedMemory) {
  const Fixture fixture = Fixture::of([](auto& builder) {
    builder.module("/opt/app/bin/detector", "", 1, 10, 0);
    builder.module("/usr/lib/libengine.so", "", 10, 20, 0);
    builder.allocate(0, 5, 0x1000, 100, {3});
    builder.enter_scope(0, 10, builder.scope("load model"));
    builder.map(0, 20, 0x7f0000000000, 256 << 20, {3, 2});
    builder.enter_scope(0, 30, 0);
    builder.map(0, 40, 0x7e0000000000, 1 << 20, {12, 2});
    builder.unmap(0, 50, 0x7f0000000000, 128 << 20);
  });
  const FrameNames names = [](std::uint64_t address) {
    return std::vector<std::string>{address == 2   ? "main"
                                    : address == 3 ? "load_weights(char const*)"
                                                   : "Engine::start()"};
  };
  const std::string text = screen_of(fixture.report(names));
  EXPECT_THAT(text, testing::HasSubstr(R"(
Mapped by the program, not part of the heap
  At most 257.0 MiB, at 40 ns; 129.0 MiB at the end. These are whole pages,
  touched or not, without those that malloc maps for the heap.
at its peak           at end  by layer
  256.0 MiB 100 %  128.0 MiB  load model
    1.0 MiB   0 %    1.0 MiB  (outside of any layer)
at its peak           at end  by module
  256.0 MiB 100 %  128.0 MiB  detector
    1.0 MiB   0 %    1.0 MiB  libengine.so
at its peak           at end  by place
  256.0 MiB 100 %  128.0 MiB  load_weights ← main
    1.0 MiB   0 %    1.0 MiB  Engine::start ← main

)"));
  screen_of(fixture.report(names), 60);

  const Json mapped = recording_to_json(fixture.report(names))["mapped"];
  const std::int64_t mebibyte = 1 << 20;
  EXPECT_EQ(mapped["stacks"], Json::array({{{"at_peak_bytes", 256 * mebibyte},
                                            {"at_end_bytes", 128 * mebibyte},
                                            {"frames", {"load_weights(char const*)", "main"}}},
                                           {{"at_peak_bytes", mebibyte},
                                            {"at_end_bytes", mebibyte},
                                            {"frames", {"Engine::start()", "main"}}}}));
  EXPECT_EQ(mapped["layers"][0]["layer_name"], "load model");
  EXPECT_EQ(mapped["layers"][1]["layer_name"], "");
  EXPECT_EQ(mapped["modules"][1]["module"], "libengine.so");
}

TEST(RecordingText, OmitsTheSectionForLittleMappedMemory) {
  const auto has_section = [](std::uint64_t heap_bytes) {
    const Fixture fixture = Fixture::of([=](auto& builder) {
      builder.allocate(0, 5, 0x1000, heap_bytes, {1});
      builder.map(0, 20, 0x7f0000000000, 512 << 10, {1});
    });
    const std::string text = screen_of(fixture.report(numbered({"", "main"})));
    EXPECT_THAT(text, testing::HasSubstr("at most 512.0 KiB by the program's own mmap"));
    return text.find("Mapped by the program, not") != std::string::npos;
  };
  EXPECT_TRUE(has_section(8 << 20));
  EXPECT_FALSE(has_section(80 << 20));
}

TEST(RecordingText, FitsOneScreen) {
  const Fixture fixture = Fixture::of([](auto& builder) {
    std::uint64_t time = 0;
    for (std::uint64_t layer = 1; layer < 40; ++layer) {
      builder.enter_scope(0, ++time, builder.scope("layer" + std::to_string(layer)));
      for (std::uint64_t i = 0; i < 20; ++i) {
        builder.allocate(0, ++time, 0x100010 * layer, 64 * layer, {layer});
        builder.release(0, ++time, 0x100010 * layer);
      }
      builder.allocate(0, ++time, 0x100010 * layer, 64 * layer, {layer});
    }
  });
  const std::string text = screen_of(fixture.report(any_name));
  EXPECT_LE(split(text, '\n').size(), 47U) << text;
}

// The peak is estimated from half B and the end from all samples, so either can be higher for memory that
// stays. The error column of a sampled recording needs space, but the layer names must stay distinct.
TEST(RecordingText, KeepsLongLayersDistinctAtEightyColumns) {
  const Fixture fixture = Fixture::of(
      [](auto& builder) {
        const auto session =
            builder.scope("ultraface_rfb_320_simplified", 0, recording::ScopeSource::session);
        const auto run = builder.scope("run", session, recording::ScopeSource::run);
        for (std::uint64_t i = 0; i < 3; ++i) {
          const auto node =
              builder.scope("BatchNormalization_" + std::to_string(i), run, recording::ScopeSource::node);
          builder.enter_scope(0, 10 * i, node);
          builder.allocate(0, 10 * i + 1, 0x100000 * (i + 1), (8 - i) << 20);
          builder.enter_scope(0, 10 * i + 2, 0);
        }
        builder.enter_scope(0, 40, run);
        builder.allocate(0, 41, 0x10000000, 1 << 20);
        builder.sample(0, 42, 0x20000000, 600);
        builder.counters(0, 43, run, 5000, 3'000'000, 0);
        builder.release(0, 44, 0x10000000);
        builder.allocate(0, 45, 0x30000000, 1 << 19);
      },
      {.full = false});
  for (const int width : {80, 60}) {
    const std::string screen = screen_of(fixture.report(numbered({""})), width);
    EXPECT_THAT(screen, testing::HasSubstr("± ")) << "has the error column";
    for (const char* node : {"BatchNormalization_0", "BatchNormalization_1", "BatchNormalization_2"})
      EXPECT_THAT(screen, testing::HasSubstr(node)) << width << '\n' << screen;
    EXPECT_THAT(screen, testing::Not(testing::HasSubstr("own peak 8.0 MiB")))
        << "equals the share, so it is omitted";
  }
}

// The arena grew during `a`; node `b` reuses its memory, although `b` has larger tensors.
TEST(RecordingText, ShowsTensorsOfNodesAndArenaGrowth) {
  const test::TemporaryFolder folder;
  const std::string profile = (folder / "profile.json").string();
  constexpr const char* kNode =
      R"({{"cat":"Node","tid":77,"dur":8,"ts":{},"name":"{}_kernel_time","args":{{"op_name":"Conv","output_size":"{}","activation_size":"{}","parameter_size":"64","mem_bytes_in_use":"{}","mem_bytes_requested_in_use":"{}","mem_arena_held":"8388608"}}}})";
  std::string nodes;
  for (const auto& [time, name, output, input, in_use] : {std::tuple{11, "a", 1 << 20, 1 << 19, 2 << 20},
                                                          {21, "b", 3 << 20, 1 << 20, 5 << 20},
                                                          {31, "c", 256, 3 << 20, 6 << 20}})
    nodes += fmt::format(fmt::runtime(std::string(nodes.empty() ? "" : ",") + kNode), time, name, output,
                         input, in_use, in_use);
  test::write_text(profile, "[" + nodes + "]");
  Fixture fixture = Fixture::of([&](auto& builder) {
    const auto around = builder.scope("inference");
    const auto session = builder.scope("net", 0, recording::ScopeSource::session);
    const auto run_session = builder.scope("net", around, recording::ScopeSource::session);
    const auto run = builder.scope("run", run_session, recording::ScopeSource::run);
    builder.thread(0, 77, "main");
    builder.profile(profile, 0, session);
    builder.enter_scope(0, 10'000, run);
    builder.allocate(0, 12'000, 0x10000000, 8 << 20);  // in a
    builder.enter_scope(0, 60'000, 0);
  });
  const std::string screen = screen_of(fixture.report(numbered({""})));
  EXPECT_THAT(screen, testing::HasSubstr("Tensors of the nodes of net, in one run\n"
                                         "      inputs     outputs  arena grew  node\n"
                                         "     1.0 MiB     3.0 MiB              b\n"
                                         "     3.0 MiB       256 B              c  ← arena peak\n"
                                         "   512.0 KiB     1.0 MiB     8.0 MiB  a\n"))
      << screen;
  EXPECT_THAT(screen, testing::HasSubstr("A node's row shows how much the arena grew"));
  const Json rows_of_nodes = recording_to_json(fixture.report(numbered({""})))["sessions"][0]["nodes"];
  EXPECT_EQ(rows_of_nodes[0]["name"], "a");
  EXPECT_EQ(rows_of_nodes[0]["layer_at_peak_bytes"], 8 << 20);
  EXPECT_FALSE(rows_of_nodes[1].contains("layer_at_peak_bytes")) << "nothing was allocated in its time";
  const auto rows = attribution::live_rows_at(fixture.recording, fixture.analysis.peak_time);
  EXPECT_THAT(moment_to_terminal(fixture.report(numbered({""})), rows, false, 80),
              testing::HasSubstr("By layer (of a node: arena growth while the node ran)"));
}

TEST(RecordingText, ExplainsAnEstimatedPeakBelowTheEnd) {
  Fixture fixture = Fixture::of([](auto& builder) { builder.allocate(0, 10, 0x1000, 100, {1}); });
  constexpr std::string_view kWhy = "above the peak by chance";
  EXPECT_EQ(screen_of(fixture.report(any_name)).find(kWhy), std::string::npos);
  fixture.analysis.leaked_bytes.value = 101;
  EXPECT_NE(screen_of(fixture.report(any_name)).find(kWhy), std::string::npos);
}

TEST(RecordingViews, SuggestNoPoolFromSamples) {
  const Fixture fixture = Fixture::of(
      [](auto& builder) {
        for (std::uint64_t i = 0; i < 20; ++i) {
          builder.sample(0, 10 + 2 * i, 0x1000, 400, {1});
          builder.release(0, 11 + 2 * i, 0x1000);
        }
      },
      {.full = false});
  const Json candidate = recording_to_json(fixture.report(any_name))["reuse"][0];
  EXPECT_FALSE(candidate.contains("pool_bytes") || candidate.contains("most_blocks")) << candidate;
  EXPECT_THAT(screen_of(fixture.report(any_name)),
              AllOf(testing::HasSubstr(" calls, "), testing::Not(testing::HasSubstr(", pool of"))));
}

// 24 cycles; `allocate` says what cycle i leaves.
Fixture cycles(const std::function<void(test::RecordingBuilder&, std::uint64_t)>& allocate,
               const std::function<void(test::RecordingBuilder&)>& at_end = {}) {
  return Fixture::of([&](auto& builder) {
    for (std::uint64_t i = 1; i <= 24; ++i) {
      builder.enter_scope(0, 10 * i, builder.scope("Run"));
      allocate(builder, i);
      builder.enter_scope(0, 10 * i + 2, 0);
    }
    if (at_end) at_end(builder);
  });
}

TEST(RecordingText, NamesPlacesOfALeakSpreadOverMany) {
  const Fixture fixture =
      cycles([](auto& builder, std::uint64_t i) { builder.allocate(0, 10 * i + 1, 0x1000 * i, 100, {i}); });
  const RecordingReport report = fixture.report(any_name);
  EXPECT_THAT(screen_of(report),
              testing::ContainsRegex("Leak: Run leaves 100 B more memory with each of 24 cycles.\n"
                                     "      100 B late     f[0-9]+\n"));
  const Json leaks = recording_to_json(report)["leaks"];
  EXPECT_EQ(leaks["verdict"], "leak");
  EXPECT_FALSE(leaks.contains("last_step_cycle")) << "it grows in every cycle";
  EXPECT_EQ(leaks["stacks"][0]["late_bytes"], 100);
}

TEST(RecordingText, WarnsOfGrowthThatWasReleasedLater) {
  const Fixture fixture =
      cycles([](auto& builder, std::uint64_t i) { builder.allocate(0, 10 * i + 1, 0x1000 * i, 2048, {7}); },
             [](auto& builder) {
               for (std::uint64_t i = 1; i <= 24; ++i) builder.release(0, 5000, 0x1000 * i);
             });
  const RecordingReport report = fixture.report(any_name);
  EXPECT_THAT(screen_of(report),
              AllOf(testing::HasSubstr("! Memory grew and was released later: Run left 2.0 KiB more"),
                    testing::HasSubstr("    2.0 KiB a cycle  f7\n")));
  const Json leaks = recording_to_json(report)["leaks"];
  EXPECT_EQ(leaks["verdict"], "grew_then_released");
  EXPECT_DOUBLE_EQ(leaks["released_seconds"].get<double>(), 5e-6);
  EXPECT_EQ(leaks["released_bytes"], leaks["late_bytes"]);
  EXPECT_EQ(leaks["stacks"][0]["end_bytes"], 0);
  EXPECT_FALSE(leaks.contains("cut_off"));
}

TEST(RecordingText, WarnsOfLateGrowth) {
  const Fixture fixture = cycles([](auto& builder, std::uint64_t i) {
    if (i == 18) builder.allocate(0, 10 * i + 1, 0x1000, 2048, {7});
  });
  const RecordingReport report = fixture.report(any_name);
  EXPECT_THAT(screen_of(report),
              AllOf(testing::HasSubstr("! Unclear: Run holds 2.0 KiB more than after its warm-up"),
                    testing::HasSubstr("    2.0 KiB late     f7\n")));
  const Json leaks = recording_to_json(report)["leaks"];
  EXPECT_EQ(leaks["verdict"], "grew_late");
  EXPECT_EQ(leaks["last_step_cycle"], 18);
  EXPECT_EQ(leaks["late_bytes"], 2048);
}

TEST(RecordingText, ShowsTheLargestHeapAndTheLargestHoles) {
  const Fixture fixture = Fixture::of([](auto& builder) {
    std::uint64_t time = 0;
    for (std::uint64_t i = 0; i < 300; ++i) builder.allocate(0, time += 1000, 0x10010 + 1024 * i, 1016, {1});
    for (std::uint64_t i = 0; i < 300; ++i)
      if (i % 100 != 99) builder.release(0, time += 1000, 0x10010 + 1024 * i);
    for (std::uint64_t i = 99; i < 300; i += 100) builder.release(0, time += 1'000'000, 0x10010 + 1024 * i);
  });
  const std::string text = screen_of(fixture.report(numbered({"", "main"})));
  EXPECT_THAT(text,
              testing::HasSubstr("When the heap was largest (300.0 µs), 0 B of its 300.0 KiB were holes"));
  EXPECT_THAT(text, testing::HasSubstr("198.0 KiB of 201.0 KiB (98.5 %)")) << text;
}

TEST(RecordingText, SuggestsTheProcessWithTheLargestPeak) {
  const Fixture fixture = Fixture::of([](auto& builder) { builder.allocate(0, 10, 0x1000, 8, {1}); });
  RecordingReport report = fixture.report(numbered({"", "main"}));
  report.others.push_back({.file = "a b.hrec.d/7-0.hrec", .pid = 7, .peak_bytes = 1 << 20});
  EXPECT_THAT(screen_of(report), testing::HasSubstr("headroom report 'a b.hrec.d/7-0.hrec'"));
}

TEST(RecordingText, QuotesTheNextCommandForTheShell) {
  test::RecordingOptions options;
  options.full = false;
  options.command = {"python3", "-c", "print('a')\nprint(1)", "a b", "it's", "\x1b[31m"};
  const Fixture fixture = Fixture::of([](auto&) {}, options);
  const std::string text = screen_of(fixture.report(numbered({})), 100);  // a command is not cut
  EXPECT_THAT(text,
              testing::HasSubstr("headroom trace --full -- python3 -c $'print(\\'a\\')\\nprint(1)' 'a b' "
                                 "'it'\\''s' $'\\x1b[31m'"));
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

// The keys "complete" and "problems" must agree.
TEST(RecordingJson, ListsWhyARecordingIsIncomplete) {
  const auto problems_of = [](const std::function<void(test::RecordingBuilder&)>& fill,
                              test::RecordingOptions options) {
    const Fixture fixture = Fixture::of(fill, options);
    const Json json = recording_to_json(fixture.report(numbered({"", "main"})));
    EXPECT_EQ(json["complete"].get<bool>(), json["problems"].empty()) << json["problems"];
    return json["problems"].dump();
  };
  const auto allocate = [](std::uint64_t events) {
    return [events](test::RecordingBuilder& builder) {
      for (std::uint64_t i = 0; i < events; ++i) builder.allocate(0, 10 + i, 0x10010 + 0x1000 * i, 1000, {1});
    };
  };
  const test::RecordingOptions small{.segment_bytes = 4096, .segments_limit = 4};
  test::RecordingOptions ring = small, killed = small;
  ring.ring = true;
  killed.closed = false;
  EXPECT_EQ(problems_of(allocate(10), small), "[]");
  EXPECT_THAT(problems_of(allocate(10), killed), testing::HasSubstr("did not close its recording"));
  EXPECT_THAT(problems_of(allocate(10'000), small), testing::HasSubstr("events were not recorded"));
  EXPECT_THAT(problems_of(allocate(10'000), ring),
              testing::ContainsRegex("The ring has overwritten [1-9][0-9,]* segments:"));
  EXPECT_THAT(problems_of([](auto& builder) { builder.note(recording::kNoteUnrecordedLarge); }, small),
              testing::HasSubstr(recording::kNoteUnrecordedLarge));
}

// Events before the first event of the ring are unknown.
TEST(RecordingViews, MarkFiguresOfAnOverwrittenRingAsLowerBounds) {
  const auto fill = [](test::RecordingBuilder& builder) {
    for (std::uint64_t i = 0; i < 10'000; ++i) builder.allocate(0, 10 + i, 0x10010 + 0x1000 * i, 1000, {1});
  };
  const Fixture fixture = Fixture::of(fill, {.ring = true, .segment_bytes = 4096, .segments_limit = 4});
  const RecordingReport report = fixture.report(numbered({"", "main"}));
  const std::string text = screen_of(report, 200);
  EXPECT_THAT(text, testing::ContainsRegex("Peak +at least .*; older blocks are not counted"));
  EXPECT_THAT(text, testing::ContainsRegex("At the end at least .*; older blocks are not counted"));
  EXPECT_THAT(text, testing::HasSubstr("would look like holes"));
  const Json json = recording_to_json(report);
  for (const std::string key : {"peak_bytes", "peak_blocks", "leaked_bytes", "leaked_blocks"})
    EXPECT_EQ(json[key + "_at_least"], json[key]) << key;
  EXPECT_FALSE(json.contains("fragmentation"));
  EXPECT_THAT(json["fragmentation_absent"].get<std::string>(), testing::HasSubstr("ring was overwritten"));

  const Fixture whole = Fixture::of(fill, {.ring = true});
  const Json whole_json = recording_to_json(whole.report(numbered({"", "main"})));
  EXPECT_FALSE(whole_json.contains("peak_bytes_at_least"));
  EXPECT_FALSE(whole_json.contains("fragmentation_absent"));
}

TEST(RecordingViews, OmitHolesOfAForkedChild) {
  const Fixture fixture = Fixture::of(
      [](auto& builder) {
        for (std::uint64_t i = 0; i < 10; ++i) builder.allocate(0, 10 + i, 0x10010 + 0x10000 * i, 1000, {1});
      },
      {.forked = true});
  const RecordingReport report = fixture.report(numbered({"", "main"}));
  EXPECT_THAT(screen_of(report, 200), testing::HasSubstr("its parent's blocks"));
  EXPECT_TRUE(recording_to_json(report).contains("fragmentation_absent"));
}

TEST(RecordingViews, ShowTheMemoryFromBeforeAttaching) {
  const Fixture fixture = Fixture::of([](auto& builder) {
    const recording::AttachRecord record{12'000'000'000, 312 << 20};
    builder.metadata(recording::MetadataKind::attached, 0,
                     {reinterpret_cast<const char*>(&record), sizeof record});
    builder.allocate(0, 10, 0x10010, 1000, {1});
    builder.release(0, 20, 0x20010);
    builder.release(0, 30, 0x20020);
  });
  const RecordingReport report = fixture.report(numbered({"", "main"}));
  const Json json = recording_to_json(report);
  EXPECT_EQ(json["attached"]["process_age_seconds"], 12);
  EXPECT_EQ(json["attached"]["resident_bytes"], 312 << 20);
  EXPECT_EQ(json["unknown_releases"], 2);
  EXPECT_EQ(json["complete"], true);
  EXPECT_THAT(screen_of(report, 200),
              testing::HasSubstr(
                  "312.0 MiB resident before attaching, 12.000 s after the process's start; blocks from "
                  "then are not counted; 2 of the releases freed such blocks"));
}

TEST(RecordingViews, NameTheBlockAtTheEndOfTheLargestHole) {
  const Fixture fixture = Fixture::of([](auto& builder) {
    for (std::uint64_t i = 0; i < 220; ++i)
      builder.allocate(0, 10 + i, 0x10010 + 5008 * i, 5000, {i < 20 ? 1U : 2U});
    for (std::uint64_t i = 20; i < 180; ++i) builder.release(0, 1000 + i, 0x10010 + 5008 * i);
  });
  const RecordingReport report = fixture.report(numbered({"", "small", "session"}));
  EXPECT_THAT(
      screen_of(report, 200),
      testing::HasSubstr("The largest hole would be 880.3 KiB without 97.7 KiB in 20 blocks at its end:\n"
                         "   97.7 KiB in 20 blocks  small\n"));
  const Json fragmentation = recording_to_json(report)["fragmentation"];
  const Json blocker = fragmentation["moments"][fragmentation["worst"].get<std::size_t>()]["blocker"];
  EXPECT_EQ(blocker["size_bytes"], 20 * 5000);
  EXPECT_EQ(blocker["blocks"], 20);
  EXPECT_EQ(blocker["freed_if_gone_bytes"], 180 * 5008);
  EXPECT_EQ(blocker["places"][0]["frames"], Json::array({"small"}));
}

TEST(RecordingJson, OmitsCountsOfSampledNodes) {
  const auto fill = [](test::RecordingBuilder& builder) {
    const auto run = builder.scope("run", 0, recording::ScopeSource::run);
    const auto node = builder.scope("conv", run, recording::ScopeSource::node);
    builder.enter_scope(0, 1, node);
    builder.allocate(0, 10, 0x1000, 8000, {1});
    builder.counters(0, 20, run, 10, 1000, 3);
  };
  for (const bool full : {false, true}) {
    const Fixture fixture = Fixture::of(fill, {.full = full});
    const Json json = recording_to_json(fixture.report(numbered({"", "main"})));
    const Json &run = json["layers"][1], &node = json["layers"][2];
    ASSERT_EQ(node["layer_name"], "run/conv");
    EXPECT_EQ(run["total_allocations"], 11);
    for (const char* key : {"total_allocations", "total_deallocations", "total_allocated_bytes"})
      EXPECT_EQ(node.contains(key), full) << key;
    EXPECT_EQ(node["at_peak_bytes"], 8000);
  }
}

}  // namespace
}  // namespace headroom::report
