#include "doctor/inputs/examine.h"

#include <fmt/format.h>

#include <utility>

#include "base/log.h"
#include "doctor/inputs/folder_inputs.h"
#include "doctor/inputs/input_reader.h"
#include "doctor/inputs/readers.h"

namespace headroom::doctor {
namespace fs = std::filesystem;
namespace {

class Examiner {
 public:
  void add(const std::string& path) {
    std::error_code code;
    if (!fs::is_directory(path, code) || fs::exists(fs::path(path) / "report.json", code))
      read(path, IfBinary::error);
    else
      add_folder(path);
  }

  void add_machine(const fs::path& root) {
    const std::string name = root == "/" ? "this machine" : root.string();
    auto words = read_live_machine(root, name, examination_.findings);
    if (words)
      examination_.examined.push_back({name, "machine", std::move(*words)});
    else
      note(words.error());
  }

  Examined finish() {
    report::DoctorReport& report = result_.report;
    report.findings = std::move(examination_.findings);
    report.examined = std::move(examination_.examined);
    for (Finding& finding : examination_.logs.findings()) report.findings.push_back(std::move(finding));
    return std::move(result_);
  }

 private:
  void note(const Error& error) {
    result_.report.problems.push_back(error.sentence());
    if (result_.first_error)
      log::warning("{}", error.sentence());
    else
      result_.first_error = error;
  }

  void read(const std::string& path, IfBinary if_binary) {
    if (path != "-" && !examination_.is_new(path)) return;
    if (auto done = read_input(path, if_binary, examination_); !done) note(done.error());
  }

  void add_words(const std::string& folder, std::string words) {
    examination_.examined.push_back({folder, "folder", std::move(words)});
  }

  void add_folder(const std::string& folder) {
    const auto inside = inputs_of_folder(folder);
    if (!inside) return note(inside.error());
    if (inside->left_out > 0) {
      const std::string words =
          fmt::format("more than {} files; {} were not read", FolderInputs::kMostFiles, inside->left_out);
      log::warning("{} has {}", folder, words);
      add_words(folder, "it has " + words);
    }
    for (const std::string& run : inside->unfinished)
      examination_.examined.push_back(
          {run, "run", "a run of headroom bench that ended before it wrote a report; only its log was read"});
    const std::size_t left_out_before = examination_.left_out.size();
    for (const std::string& path : inside->paths) read(path, IfBinary::leave_out);
    const std::size_t left_out = examination_.left_out.size() - left_out_before;
    if (left_out == 0) return;
    const std::string names =
        fs::path(examination_.left_out.back()).filename().string() + (left_out > 1 ? ", …" : "");
    if (left_out < inside->paths.size())
      return add_words(folder, fmt::format("{} of its files {} skipped: not text ({})", left_out,
                                           left_out == 1 ? "was" : "were", names));
    note(Error{ErrorKind::input, fmt::format("nothing to read in {}", folder),
               fmt::format("none of its files is text or a file of Headroom or PyTorch ({})", names),
               "name logs, recordings, snapshots or runs of headroom bench"});
  }

  Examination examination_;
  Examined result_;
};

}  // namespace

Examined examine(const DoctorInputs& inputs) {
  Examiner examiner;
  for (const std::string& file : inputs.files) examiner.add(file);
  if (inputs.sysroot) examiner.add_machine(*inputs.sysroot);
  return examiner.finish();
}

}  // namespace headroom::doctor
