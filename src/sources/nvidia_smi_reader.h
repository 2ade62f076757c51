// What nvidia-smi printed, as data: its CSV (--query-gpu, --query-compute-apps), its table, its lists (-L,
// mig -lgip). Pure functions of text, for logs, for other machines and for tests. Nothing here starts
// nvidia-smi: docs/gpu-metrics.md says why.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/gpu_sample.h"

namespace headroom::sources {

struct SmiProcess {
  std::optional<std::int64_t> gpu;  // its number, in the table
  std::string gpu_uuid;             // in CSV
  GpuProcess process;
  std::string type;  // "C" computes, "G" draws, "C+G"; empty in CSV
  std::string name;  // as printed: the table cuts it
};

// A way to divide a GPU under MIG, of `nvidia-smi mig -lgip`.
struct SmiMigProfile {
  std::int64_t gpu = 0, id = 0;
  std::string name;  // "1g.10gb"
  std::int64_t free_instances = 0, instances = 0;
  Bytes memory;
};

struct SmiOutput {
  std::string driver_version, cuda_version;          // empty if not printed
  std::vector<GpuSample> gpus;                       // one for each row: a log has a GPU many times
  std::optional<std::vector<SmiProcess>> processes;  // absent: nothing was printed about processes
  std::vector<SmiMigProfile> mig_profiles;
  std::vector<std::string> messages;  // what it said in place of figures: "No devices were found"
  std::int64_t unread_lines = 0;      // that are none of nvidia-smi's, or do not fit their header
};

// Reads any of the outputs, also several after each other. `columns` are the names of the query of a CSV
// without a header ("index", "memory.used"); a header in the text takes their place. "[N/A]", "Not
// Supported", "ERR!" and the like are absent figures, and "[GPU is lost]" marks the GPU as lost. A row of CSV
// with more or fewer cells than columns, with a word where a number belongs, or with a figure whose unit is
// not of its column ("97 %" of memory) is no row: it is counted in unread_lines. Never fails: the worst text
// gives nothing.
SmiOutput read_nvidia_smi(std::string_view text, const std::vector<std::string>& columns = {});

// True for what the queries of nvidia-smi take as the name of a column, read here or not.
bool is_nvidia_smi_column(std::string_view name);
// The nearest of those that are written out in the list; empty if none is near.
std::string closest_nvidia_smi_column(std::string_view name);

}  // namespace headroom::sources
