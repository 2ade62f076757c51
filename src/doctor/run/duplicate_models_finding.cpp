#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "doctor/new_finding.h"
#include "doctor/run/model_cures.h"
#include "doctor/run/run_finding.h"

namespace headroom::doctor {

namespace {

// What a model's process held at its peak that others cannot share: all but pages of files. Of the run of all
// at once, where there is one; the file's size where that was not measured.
Bytes private_peak(const BenchResult& result, const ModelResult& model) {
  const ModelResult* measured = &model;
  if (result.parallel)
    for (const ModelResult& together : result.parallel->together)
      if (together.name == model.name) measured = &together;
  const ModelMemory& memory = measured->memory;
  // What loading took may not have gone back while others were there: the larger of the peaks.
  const Bytes most = std::max(memory.load_peak.value_or(Bytes{}), memory.run_peak.value_or(Bytes{}));
  const Bytes shared = memory.file_backed_peak.value_or(memory.runtime.value_or(most));
  return shared < most ? most - shared : model.file_size.value_or(Bytes{});
}

Bytes private_peaks(const BenchResult& result, const std::vector<const ModelResult*>& models) {
  Bytes sum;
  for (const ModelResult* model : models) sum += private_peak(result, *model);
  return sum;
}

// By blocks: such files have gigabytes.
bool has_same_bytes(const std::string& a, const std::string& b) {
  std::ifstream one(a, std::ios::binary), other(b, std::ios::binary);
  if (!one || !other) return false;
  constexpr std::streamsize kBlock = 1 << 20;
  std::string of_one(kBlock, '\0'), of_other(kBlock, '\0');
  while (true) {
    one.read(of_one.data(), kBlock);
    other.read(of_other.data(), kBlock);
    const auto got = static_cast<std::size_t>(one.gcount());
    if (one.gcount() != other.gcount() || std::memcmp(of_one.data(), of_other.data(), got) != 0) return false;
    if (got < kBlock) return one.eof() && other.eof();
  }
}

// The same path, another name of one file, or a copy of it.
bool is_same_file(const ModelResult& a, const ModelResult& b) {
  namespace fs = std::filesystem;
  if (a.path == b.path) return true;
  if (!a.file_size || a.file_size != b.file_size) return false;
  std::error_code code;
  if (fs::equivalent(a.path, b.path, code)) return true;
  if (code) return false;  // the run is of another machine, or they are gone
  return has_same_bytes(a.path, b.path);
}

std::string names_of(const std::vector<const ModelResult*>& models) {
  std::string names;
  for (std::size_t i = 0; i < models.size(); ++i)
    names += fmt::format("{}{}", i == 0 ? "" : i + 1 == models.size() ? " and " : ", ", models[i]->name);
  return names;
}

}  // namespace

// Of models that were in memory at once: one for each file that several of them are.
std::vector<Finding> duplicate_models(const BenchResult& result) {
  std::vector<Finding> found;
  if (!result.parallel && !result.pipeline) return found;
  std::vector<std::vector<const ModelResult*>> groups;
  for (const ModelResult& model : result.models) {
    auto same = std::find_if(groups.begin(), groups.end(),
                             [&](const auto& group) { return is_same_file(*group.front(), model); });
    if (same == groups.end()) same = groups.emplace(groups.end());
    same->push_back(&model);
  }
  for (const auto& models : groups) {
    const auto& size = models.front()->file_size;
    if (models.size() < 2 || !size || size->count < kWorthTellingOfModels / 16) continue;
    const bool share_pages = std::all_of(models.begin(), models.end(),
                                         [](const ModelResult* model) { return model->settings.mapped; });
    if (share_pages) continue;
    Finding finding = new_finding("duplicate-models", Severity::warning,
                                  fmt::format("{} are the same file: its weights are in memory {} times",
                                              names_of(models), models.size()),
                                  "Each session has its own copy of the weights.");
    finding.figures = {{"model", models.front()->path}, {"file_bytes", size->count}};
    // Re-packed copies and arenas are in it, too.
    const std::vector<const ModelResult*> others(models.begin() + 1, models.end());
    const Bytes saved = private_peaks(result, others), all = private_peaks(result, models);
    // Weights are what mapping shares, and no activations or arenas: as they are read, re-packed, and while
    // they are converted.
    constexpr std::int64_t kMostCopies = 3;
    const Bytes weights{static_cast<std::int64_t>(models.size()) * kMostCopies * size->count};
    // --try measures it as the run with one of them alone, which is what all would share.
    CureSettings shared{models.front()->name, ""};
    for (std::size_t i = 1; i < models.size(); ++i) shared.also.push_back(models[i]->name);
    shared.leave_out_also = true;
    Cure share{"let all users share one session, as headroom/model_pool.h does", "", saved};
    share.settings = shared;
    finding.cures = {std::move(share)};
    if (std::all_of(models.begin(), models.end(), [](const ModelResult* model) { return can_map(*model); })) {
      const char* const words = "mapped=on,prepack=off";
      Cure map{"map the weights: all sessions share the pages of one prepared file",
               fmt::format("--model NAME=PATH,{}", words), std::min(all, weights) - std::min(all, *size)};
      map.settings = CureSettings{shared.model, words};
      map.settings->also = shared.also;
      finding.cures.push_back(std::move(map));
    }
    found.push_back(std::move(finding));
  }
  return found;
}

}  // namespace headroom::doctor
