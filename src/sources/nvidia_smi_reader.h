// Parses the output of nvidia-smi: CSV (--query-gpu, --query-compute-apps), tables, and the list of -L.
// make_text_reader("nvidia-smi") joins the parts. Headroom never starts nvidia-smi: docs/gpu-metrics.md
// explains why.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "types/sample.h"

namespace headroom::sources {

// Why text of another tool could not be parsed.
struct ParseProblem {
  std::string why;  // a phrase for a message, safe for a terminal; empty: unknown
  std::string fix;
};

struct SmiProcess {
  std::optional<std::int64_t> gpu;  // the GPU's index, in tables
  std::string gpu_uuid;             // in CSV output
  GpuProcess process;
};

struct SmiOutput {
  std::vector<GpuSample> gpus;
  std::vector<SmiProcess> processes;
};

// True for a column name that nvidia-smi queries accept, used by Headroom or not.
bool is_nvidia_smi_column(std::string_view name);
// The most similar column name of the list; empty if none is similar.
std::string closest_nvidia_smi_column(std::string_view name);

}  // namespace headroom::sources

// "[N/A]", "Not Supported", "ERR!" and similar texts are absent figures, and "[GPU is lost]" marks the GPU as
// lost. A CSV row is rejected if it has a wrong number of cells, a text instead of a number, or a unit that
// does not fit its column ("97 %" of memory). The parts of the reader: figures and messages
// (nvidia_smi_reader.cpp), CSV (nvidia_smi_csv.cpp) and tables (nvidia_smi_table.cpp).
namespace headroom::sources::smi {

// True for "[N/A]", "Not Supported", "ERR!" and other texts that replace a missing figure.
bool is_absent(std::string_view text);
// True for the text that replaces every figure of a GPU that is lost.
bool is_lost(std::string_view text);

enum class Quantity { bytes, percent, watts, hertz, celsius };

// Parses a figure into base units: "7462 MiB", "7462MiB" and, with `unit` "MiB", "7462" give 7824474112.
// Nothing if it is not a finite number or has a unit of another quantity: "97 %" is not memory.
std::optional<double> figure(std::string_view text, Quantity quantity, std::string_view unit = {});
// Parses a figure in bytes. Nothing if it is negative or above 2^62.
std::optional<Bytes> bytes_figure(std::string_view text, std::string_view unit = {});
// True for a number without a unit, or with a unit of any quantity.
bool is_figure(std::string_view text);

// The line of a CSV without the quotation marks around its cells, which other programs add. `buffer` keeps
// it.
std::string_view without_quotes(std::string_view line, std::string& buffer);

// Recognizes a message that nvidia-smi or its libraries print instead of figures ("No devices were found"),
// with its fix. Nothing for any other line.
std::optional<ParseProblem> message_of(std::string_view line);

// Reads rows of CSV by the current columns.
class CsvReader {
 public:
  explicit CsvReader(const std::vector<std::string>& columns);
  // True if the line is a header, whose columns apply from then on, or a row that fits the columns.
  bool read(std::string_view line, SmiOutput& output);
  // Explains why read() rejected the line.
  ParseProblem problem_of_line(std::string_view line) const;
  // True if the rows are processes instead of GPUs; nvidia-smi has no query of both. Without a "pid"
  // column, process rows are read and dropped.
  bool has_processes() const;

 private:
  struct Column {
    std::string name, unit;
  };
  using Fields = std::vector<std::string_view>;

  bool has_pids() const;
  static std::optional<std::vector<Column>> header_of(std::string_view line, char separator);
  bool read_header(std::string_view line);
  // Stores a cell in `gpu` or `row`. Returns false if it does not fit its column.
  static bool read_cell(const Column& column, std::string_view text, GpuSample& gpu);
  static bool read_cell(const Column& column, std::string_view text, SmiProcess& row);
  bool read_gpu(const Fields& fields, SmiOutput& output) const;
  bool read_process(const Fields& fields, SmiOutput& output) const;
  std::optional<Fields> fields_of(std::string_view line) const;
  ParseProblem problem_of_columns(std::string_view line) const;
  ParseProblem problem_of_row(const Fields& fields) const;

  std::vector<Column> columns_;
  char separator_ = ',';     // spreadsheets of many countries write ";"
  bool has_header_ = false;  // the columns come from a header, not from the constructor
};

// Reads the tables with lines between bars, and the lists of -L. A GPU takes three lines of its table.
class TableReader {
 public:
  // True if the line is part of a table or list, with or without data.
  bool read(std::string_view line, SmiOutput& output);

 private:
  bool read_list(std::string_view line, SmiOutput& output);
  void read_gpu_row(const std::vector<std::string_view>& cells, SmiOutput& output);

  int row_ = 0;  // which of the GPU's three lines was read last (1 or 2); 0: outside a GPU
};

}  // namespace headroom::sources::smi
