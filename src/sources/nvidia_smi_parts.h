// The parts of the reader of nvidia-smi's output, a file each: words and figures, CSV, tables.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "sources/nvidia_smi_reader.h"
#include "sources/unread.h"

namespace headroom::sources::smi {

// True for "[N/A]", "Not Supported", "ERR!" and all else that stands for a figure that there is not.
bool is_absent(std::string_view text);
// True for what is printed for every figure of a GPU that cannot be reached any more.
bool is_lost(std::string_view text);

enum class Quantity { bytes, percent, watts, hertz, celsius };

// A figure in base units: "7462 MiB", "7462MiB" and, with `unit` "MiB", "7462" are 7824474112. Nothing if it
// is no finite number, or its unit is none of the quantity's: "97 %" is no memory.
std::optional<double> figure(std::string_view text, Quantity quantity, std::string_view unit = {});
// A figure of bytes; nothing too if it is negative or above 2^62.
std::optional<Bytes> bytes_figure(std::string_view text, std::string_view unit = {});
// True for a number alone, or with a unit of any quantity.
bool is_figure(std::string_view text);

// What nvidia-smi or its libraries say in place of figures ("No devices were found"), with what helps;
// nothing for any other line.
std::optional<Unread> message_of(std::string_view line);

// The columns of a CSV as they are now; its rows.
class CsvReader {
 public:
  explicit CsvReader(const std::vector<std::string>& columns);
  // True if the line is a header, whose columns count from now on, or a row that fits them.
  bool read(std::string_view line, SmiOutput& output);
  // Of a line that read() did not take.
  Unread why_unread(std::string_view line) const;
  // True if the rows are of processes, not of GPUs: nvidia-smi has no query of both. Without the column "pid"
  // its rows are read and left out.
  bool has_processes() const;

 private:
  struct Column {
    std::string name, unit;
  };
  using Fields = std::vector<std::string_view>;

  bool has_pids() const;
  static std::optional<std::vector<Column>> header_of(std::string_view line);
  bool read_header(std::string_view line);
  // Whether each fits its column: the figures go into `gpu` or `row`.
  static bool read_cell(const Column& column, std::string_view text, GpuSample& gpu, std::string& driver);
  static bool read_cell(const Column& column, std::string_view text, SmiProcess& row);
  bool read_gpu(const Fields& fields, SmiOutput& output) const;
  bool read_process(const Fields& fields, SmiOutput& output) const;
  std::optional<Fields> fields_of(std::string_view line) const;
  Unread why_no_columns(std::string_view line) const;
  Unread why_no_row(const Fields& fields) const;

  std::vector<Column> columns_;
  bool has_header_ = false;  // the columns are of a header, and not those that were named beforehand
};

// The tables that begin and end their lines with a bar, and the lists of -L. A GPU is three lines of its
// table.
class TableReader {
 public:
  // True if the line is part of a table or a list, whether or not it holds something.
  bool read(std::string_view line, SmiOutput& output);

 private:
  bool read_list(std::string_view line, SmiOutput& output);
  void read_gpu_row(const std::vector<std::string_view>& cells, SmiOutput& output);

  int row_ = 0;  // of the GPU's lines the one that was last; 0 outside of a GPU
};

}  // namespace headroom::sources::smi
