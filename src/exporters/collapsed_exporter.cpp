// Collapsed stacks, the input of flamegraph.pl and inferno: one line per stack, outermost frame first, then
// its bytes.
#include <map>

#include "attribution/live_map.h"
#include "exporters/exporter_list.h"
#include "exporters/named_stacks.h"

namespace headroom::exporters {

Status write_collapsed(const ExportInput& input, OutputSink& sink) {
  const Metric metric = input.metric.value_or(Metric::peak);
  const NamedStacks named = name_stacks(input);
  if (metric == Metric::temporary && !named.has_temporary) return no_temporary_allocations(input);
  // Functions with the same name in several files are merged.
  std::map<std::string, std::int64_t> lines;
  for (const NamedStack& stack : named.stacks)
    if (stack[metric].bytes > 0)
      attribution::add_wrapping(lines[joined(named, stack.frames)], stack[metric].bytes);
  for (const auto& [line, bytes] : lines) sink.print("{} {}\n", line, bytes);
  return {};
}

}  // namespace headroom::exporters
