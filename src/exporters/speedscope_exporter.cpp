// speedscope's own format (https://www.speedscope.app/file-format-schema.json): one sampled profile per
// metric, with bytes as weights.
#include <array>

#include "base/json.h"
#include "exporters/exporter_list.h"
#include "exporters/named_stacks.h"

namespace headroom::exporters {
namespace {

constexpr std::array<std::pair<Metric, std::string_view>, kMetrics> kProfiles{{
    {Metric::peak, "live at the peak"},
    {Metric::leaked, "live at the end"},
    {Metric::temporary, "temporary allocations"},
    {Metric::allocated, "total allocated"},
}};

void write_frames(const std::vector<NamedFrame>& frames, OutputSink& sink) {
  sink.write("\"shared\":{\"frames\":[");
  for (std::size_t i = 0; i < frames.size(); ++i) {
    Json frame{{"name", frames[i].name}};
    if (!frames[i].file.empty()) frame["file"] = frames[i].file;
    sink.print("{}\n{}", i == 0 ? "" : ",", to_line(frame));
  }
  sink.write("]}");
}

void write_profile(const std::vector<NamedStack>& stacks, Metric metric, std::string_view name,
                   OutputSink& sink) {
  std::int64_t total = 0;
  std::vector<std::int64_t> weights;
  sink.print("{{\"type\":\"sampled\",\"name\":{},\"unit\":\"bytes\",\"startValue\":0,\n\"samples\":[",
             to_line(Json(name)));
  for (const NamedStack& stack : stacks) {
    if (stack[metric].bytes <= 0) continue;
    total += stack[metric].bytes;
    sink.print("{}\n[{}]", weights.empty() ? "" : ",", fmt::join(stack.frames, ","));
    weights.push_back(stack[metric].bytes);
  }
  sink.print("],\n\"weights\":[{}],\n\"endValue\":{}}}", fmt::join(weights, ","), total);
}

}  // namespace

Status write_speedscope(const ExportInput& input, OutputSink& sink) {
  const NamedStacks named = name_stacks(input);
  if (input.metric == Metric::temporary && !named.has_temporary) return no_temporary_allocations(input);
  sink.print(
      "{{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"exporter\":\"headroom\",\n"
      "\"name\":{},\n",
      to_line(Json(input.file)));
  write_frames(named.frames, sink);
  sink.write(",\n\"profiles\":[");
  std::size_t written = 0, active = 0;
  for (const auto& [metric, name] : kProfiles) {
    if (metric == Metric::temporary && !named.has_temporary) continue;
    if (input.metric == metric) active = written;
    sink.write(written++ == 0 ? "\n" : ",\n");
    write_profile(named.stacks, metric, name, sink);
  }
  sink.print("],\n\"activeProfileIndex\":{}}}\n", active);
  return {};
}

}  // namespace headroom::exporters
