// The formats of `headroom export`. To add a format: write <name>_exporter.cpp, add a line here and in the
// list, a golden test, and a paragraph in docs/export.md.
#pragma once

#include <vector>

#include "exporters/export_input.h"

namespace headroom::exporters {

const std::vector<Exporter>& exporter_list();
const Exporter* find_exporter(std::string_view name);

Status write_speedscope(const ExportInput& input, OutputSink& sink);
Status write_collapsed(const ExportInput& input, OutputSink& sink);
Status write_pprof(const ExportInput& input, OutputSink& sink);
Status write_csv(const ExportInput& input, OutputSink& sink);
Status write_timeline_json(const ExportInput& input, OutputSink& sink);
Status write_heaptrack(const ExportInput& input, OutputSink& sink);
Status write_perfetto(const ExportInput& input, OutputSink& sink);
Status write_pytorch_snapshot(const ExportInput& input, OutputSink& sink);

// The error for --metric temporary if the recording contains samples.
tl::unexpected<Error> no_temporary_allocations(const ExportInput& input);

}  // namespace headroom::exporters
