// Parses the output of nvidia-smi: CSV (--query-gpu, --query-compute-apps), tables, and lists (-L, mig
// -lgip). These are pure functions of text, for logs, other machines and tests. Headroom never starts
// nvidia-smi: docs/gpu-metrics.md explains why.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "types/gpu_sample.h"

namespace headroom::sources {

struct SmiProcess {
  std::optional<std::int64_t> gpu;  // the GPU's index, in tables
  std::string gpu_uuid;             // in CSV output
  GpuProcess process;
  std::string type;  // "C" compute, "G" graphics, "C+G" both; empty in CSV
  std::string name;  // as printed: tables shorten it
};

// A MIG profile of `nvidia-smi mig -lgip`.
struct SmiMigProfile {
  std::int64_t gpu = 0, id = 0;
  std::string name;  // "1g.10gb"
  std::int64_t free_instances = 0, instances = 0;
  Bytes memory;
};

struct SmiOutput {
  std::string driver_version, cuda_version;          // empty if not printed
  std::vector<GpuSample> gpus;                       // one per row: a log contains each GPU many times
  std::optional<std::vector<SmiProcess>> processes;  // absent: the output does not list processes
  std::vector<SmiMigProfile> mig_profiles;
  std::vector<std::string> messages;  // printed instead of figures: "No devices were found"
  std::int64_t unparsed_lines = 0;    // lines that are not nvidia-smi output, or do not fit their header
};

// Reads any of the outputs, also several in sequence. `columns` are the names of the query for a CSV
// without a header ("index", "memory.used"); a header in the text replaces them. "[N/A]", "Not Supported",
// "ERR!" and similar texts are absent figures, and "[GPU is lost]" marks the GPU as lost. Never fails:
// unusable text gives empty output.
//
// A CSV row is rejected, and counted in unparsed_lines, in these cases: it has a wrong number of cells, a
// text instead of a number, or a unit that does not fit its column ("97 %" of memory).
SmiOutput read_nvidia_smi(std::string_view text, const std::vector<std::string>& columns = {});

// True for a column name that nvidia-smi queries accept, used by Headroom or not.
bool is_nvidia_smi_column(std::string_view name);
// The most similar column name of the list; empty if none is similar.
std::string closest_nvidia_smi_column(std::string_view name);

}  // namespace headroom::sources
