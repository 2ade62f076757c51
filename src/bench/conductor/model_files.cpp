#include "bench/conductor/setup_phase.h"

#include <fmt/format.h>
#include <algorithm>
#include <cstdint>
#include <system_error>

#include "base/files.h"
#include "base/json.h"
#include "bench/processes.h"
#include "types/external_data.h"

namespace headroom::bench {
namespace fs = std::filesystem;
namespace {

// Combines several fingerprints: a hash over their digits.
std::string joined(const std::vector<std::string>& fingerprints) {
  if (fingerprints.size() == 1) return fingerprints.front();
  Fnv1a hash;
  for (const std::string& fingerprint : fingerprints) hash.add(fingerprint);
  return hash.text();
}

Result<Bytes> size_of_file(const fs::path& path) {
  std::error_code code;
  const auto size = fs::file_size(path, code);
  if (code) return input_error(fmt::format("cannot read {}", path.string()), code.message());
  return Bytes{static_cast<std::int64_t>(size)};
}

// A model of several graphs (--task vos).
Result<ModelFiles> read_files_of_folder(const fs::path& folder, const std::function<void()>& on_piece) {
  std::vector<fs::path> files;
  std::error_code code;
  for (fs::directory_iterator file(folder, code); !code && file != fs::directory_iterator();
       file.increment(code)) {
    std::error_code unknown;
    if (file->is_regular_file(unknown)) files.push_back(file->path());
  }
  if (code) return input_error(fmt::format("cannot read {}", folder.string()), code.message());
  std::ranges::sort(files);
  ModelFiles all;
  std::vector<std::string> fingerprints;
  for (const fs::path& file : files) {
    auto fingerprint = file_fingerprint(file, [&](std::string_view) { on_piece(); });
    if (!fingerprint) return forward_error(fingerprint);
    auto bytes = size_of_file(file);
    if (!bytes) return forward_error(bytes);
    fingerprints.push_back(std::move(*fingerprint));
    all.size += *bytes;
  }
  all.fingerprint = joined(fingerprints);
  return all;
}

}  // namespace

Result<ModelFiles> read_model_files(const fs::path& path, const std::function<void()>& on_piece) {
  std::error_code unknown;
  if (fs::is_directory(path, unknown)) return read_files_of_folder(path, on_piece);
  ExternalDataFinder finder;
  auto fingerprint = file_fingerprint(path, [&](std::string_view piece) {
    finder.take(piece);
    on_piece();
  });
  if (!fingerprint) return forward_error(fingerprint);
  auto size = size_of_file(path);
  if (!size) return forward_error(size);
  ModelFiles files{{}, *size};
  std::vector<std::string> fingerprints{std::move(*fingerprint)};
  for (const std::string& name : finder.names()) {
    const fs::path file = path.parent_path() / name;
    std::error_code code;
    if (!fs::is_regular_file(file, code)) continue;  // the runtime reports a missing file
    auto one = file_fingerprint(file, [&](std::string_view) { on_piece(); });
    if (!one) return forward_error(one);
    auto bytes = size_of_file(file);
    if (!bytes) return forward_error(bytes);
    fingerprints.push_back(std::move(*one));
    files.size += *bytes;
  }
  files.fingerprint = joined(fingerprints);
  return files;
}

namespace {

constexpr Nanoseconds kSignInterval{500'000'000};

Result<Json> read_fingerprint(const Json& job) {
  Nanoseconds last = monotonic_now();
  auto files = read_model_files(get_text(job, "path"), [&] {
    if (monotonic_now() - last < kSignInterval) return;
    last = monotonic_now();
    send_helper_event("alive");
  });
  if (!files) return forward_error(files);
  return Json{{"fingerprint", files->fingerprint}, {"size_bytes", files->size.count}};
}

}  // namespace

Result<ModelFiles> fingerprint_in_child(const std::string& path, Nanoseconds timeout, Interrupt& interrupt) {
  const auto answer = run_helper({.verb = "_fingerprint", .purpose = "reading " + path, .timeout = timeout},
                                 {{"path", path}}, interrupt);
  if (!answer) return tl::unexpected<Error>(answer.error());
  return ModelFiles{get_text(*answer, "fingerprint"), get_bytes(*answer, "size_bytes").value_or(Bytes{})};
}

int run_fingerprint_process() { return serve_helper(read_fingerprint); }

}  // namespace headroom::bench
