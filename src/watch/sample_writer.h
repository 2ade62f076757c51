// Samples as text: JSON lines, CSV, or a line for a person.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "model/alert.h"
#include "model/sample.h"
#include "watch/watch_options.h"

namespace headroom::watch {

// An object on a line, with the alerts that began or ended. unknown_tokens is always there: that there are
// none is a result.
std::string json_line(const SystemSample& sample, std::span<const AlertEvent> alerts = {});

// "12.0 s  RAM 6.8/7.4 GiB (92 %)  swap 2.6 GiB  CPU 94 %  GPU 84 %  65.6 °C  17.9 W": what the sample has.
std::string line_for_person(const SystemSample& sample);

}  // namespace headroom::watch
