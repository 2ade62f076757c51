#include "watch/run_watch.h"

#include <fmt/format.h>

#include "base/log.h"
#include "base/terminal.h"
#include "bench/interrupt.h"
#include "watch/alert_watch.h"
#include "watch/sample_writer.h"
#include "watch/text_input.h"

namespace headroom::watch {

Result<int> run_watch(const WatchOptions& options) {
  auto interrupt = bench::Interrupt::listen();
  if (!interrupt) return forward_error(interrupt);
  std::optional<AlertWatch> alerts;
  if (options.alerts) alerts.emplace(*options.alerts, options.interval);
  std::int64_t samples = 0, unknown = 0;
  const auto on_sample = [&](SystemSample& sample) {
    ++samples;
    unknown += static_cast<std::int64_t>(sample.unknown_tokens.size());
    const auto events = alerts ? alerts->add(sample) : std::span<const AlertEvent>();
    print_output(options.format == Format::jsonl ? json_line(sample, events) : line_for_person(sample));
  };
  auto read = read_text_input(
      *options.from, options.interval, on_sample, [&] { return interrupt->requested(); }, interrupt->fd());
  if (alerts) alerts->finish();
  if (unknown > 0)
    log::warning("{} words in {} samples were not understood; --jsonl keeps them in unknown_tokens", unknown,
                 samples);
  if (!read) return forward_error(read);
  if (samples == 0)
    return input_error(fmt::format("{} has no sample", options.from->file.string()), "it is empty");
  return 0;
}

}  // namespace headroom::watch
