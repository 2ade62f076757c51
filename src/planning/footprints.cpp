#include "planning/footprints.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/text.h"

namespace headroom::planning {
namespace fs = std::filesystem;
namespace {

using Settings = std::map<std::string, std::string>;

Settings settings_of(const Footprint& footprint) {
  Settings settings{{"backend", footprint.backend}, {"input", footprint.input}};
  if (footprint.settings.precision != Precision::automatic)
    settings["precision"] = name_of(footprint.settings.precision);
  return settings;
}

bool has_settings(const Footprint& footprint, const Settings& wanted) {
  const Settings known = settings_of(footprint);
  return std::ranges::all_of(wanted, [&](const auto& setting) {
    const auto found = known.find(setting.first);
    return found == known.end() || equals_ignoring_case(found->second, setting.second);
  });
}

bool has_name(const Footprint& footprint, const std::string& name) {
  const fs::path path = footprint.path;
  return footprint.name == name || path.filename() == name || path.stem() == name;
}

// True if `place` is the footprint's file or its run folder: "RUN/footprints/a.json" matches itself and
// "RUN".
bool is_from(const MeasuredFootprint& measured, const std::string& place) {
  const fs::path file = fs::path(measured.file).lexically_normal();
  const fs::path wanted = (fs::path(place) / "").lexically_normal();
  return file == fs::path(place).lexically_normal() || file.parent_path() / "" == wanted ||
         file.parent_path().parent_path() / "" == wanted;
}

// True for two measurements of the same model, runtime, settings and input.
bool is_repetition(const Footprint& a, const Footprint& b) {
  return a.path == b.path && a.model_fingerprint == b.model_fingerprint && a.backend == b.backend &&
         a.backend_version == b.backend_version && a.input == b.input && a.host == b.host &&
         a.settings == b.settings && a.frames == b.frames;
}

// True for the same model with another setup: the same file, or a file of the same name for another precision
// or runtime. The name alone is no evidence, because many models are called model.onnx.
bool is_other_setup(const Footprint& other, const Footprint& own) {
  if (other.host != own.host || fs::path(other.path).stem() != fs::path(own.path).stem()) return false;
  return other.model_fingerprint == own.model_fingerprint || other.backend != own.backend ||
         other.settings.precision != own.settings.precision;
}

// The memory on a discrete GPU; empty if the model did not run on one.
std::optional<MemoryNeed> gpu_need_of(const MeasuredFootprint& measured) {
  if (!measured.footprint.gpu) return std::nullopt;
  MemoryNeed need;
  need.load_peak = measured.footprint.gpu->load_peak;
  need.run_mean = need.run_peak = measured.footprint.gpu->run_peak;
  need.origin.kind = FigureOrigin::Kind::measured;
  return need;
}

// Chooses one of several repeated measurements. Host memory varies by a few MiB between runs, so take the
// median (of an even number, the larger of the two in the middle). On a GPU take the largest: the runtime may
// choose other convolution algorithms in each process, with other workspaces (ResNet-50 with ONNX Runtime's
// heuristic: 0 or 128 MiB, benchmarks/results/gpu_plan.md), and a plan must not be below the real use.
const MeasuredFootprint& representative_of(std::vector<const MeasuredFootprint*> repeated, bool is_gpu) {
  const auto size = [&](const MeasuredFootprint* each) {
    const MemoryNeed need = is_gpu ? gpu_need_of(*each).value_or(MemoryNeed{}) : need_of(*each);
    return std::max(need.load_peak.value_or(Bytes{}), need.run_peak.value_or(Bytes{}) + need.frame_bytes());
  };
  std::ranges::stable_sort(repeated, [&](const auto* a, const auto* b) { return size(a) < size(b); });
  return is_gpu ? *repeated.back() : *repeated[repeated.size() / 2];
}

class Resolver {
 public:
  Resolver(const Budget& budget, const std::vector<MeasuredFootprint>& measured)
      : name_(budget.name), device_(budget.device), measured_(measured) {}

  Status resolve(MemoryNeed& need, const std::string& component, const Settings& settings) const {
    const bool is_known = need.run_peak.has_value();  // set by --what-if
    if (is_known || (need.model.empty() && need.footprint.empty())) return {};
    const std::string wanted = need.model.empty() ? component : need.model;
    std::vector<const MeasuredFootprint*> found;
    for (const MeasuredFootprint& each : measured_) {
      if (!need.footprint.empty() && !is_from(each, need.footprint)) continue;
      const bool is_that_file = !need.footprint.empty() && fs::path(need.footprint).extension() == ".json";
      if (is_that_file || has_name(each.footprint, wanted)) found.push_back(&each);
    }
    if (found.empty()) return missing(need, wanted);
    if (device_.is_gpu) {
      const std::string file = found.front()->file;
      std::erase_if(found, [](const auto* each) { return !each->footprint.gpu; });
      if (found.empty())
        return usage_error(
            fmt::format("{}:{}: no GPU measurement of {}", name_, need.line, wanted),
            fmt::format("{} contains host memory only, but {} has its own memory", file, device_.name),
            "measure it with headroom bench --device cuda:0, or write sizes");
    }
    // Prefer footprints with exactly this name over those with this file name.
    const auto is_named = [&](const auto* each) { return each->footprint.name == wanted; };
    if (std::ranges::any_of(found, is_named))
      std::erase_if(found, [&](const auto* each) { return !is_named(each); });
    std::vector<const MeasuredFootprint*> alike;
    for (const MeasuredFootprint* each : found)
      if (has_settings(each->footprint, settings)) alike.push_back(each);
    if (alike.empty()) return missing(need, fmt::format("{} with {}", wanted, words_for(settings)));
    const auto newest = *std::ranges::max_element(alike, [](const auto* a, const auto* b) {
      return a->footprint.measured_at < b->footprint.measured_at;
    });
    std::erase_if(alike,
                  [&](const auto* each) { return !is_repetition(each->footprint, newest->footprint); });
    fill(need, representative_of(std::move(alike), device_.is_gpu));
    return {};
  }

  // Adds other measurements of the same model file as variants.
  void add_variants(BudgetComponent& component) const {
    if (component.need.origin.kind != FigureOrigin::Kind::measured) return;
    const auto own = std::ranges::find_if(measured_, [&](const MeasuredFootprint& each) {
      return source_of(each) == component.need.origin.source;
    });
    if (own == measured_.end()) return;
    const Settings now = settings_of(own->footprint);
    std::vector<const MeasuredFootprint*> others;
    for (const MeasuredFootprint& each : measured_)
      if (is_other_setup(each.footprint, own->footprint) && (!device_.is_gpu || each.footprint.gpu))
        others.push_back(&each);
    std::ranges::stable_sort(others, [](const auto* a, const auto* b) {
      return a->footprint.measured_at > b->footprint.measured_at;
    });
    for (const auto& [key, value] : now) component.settings.try_emplace(key, value);
    for (const MeasuredFootprint* other : others) {
      BudgetVariant variant;
      for (const auto& [key, value] : settings_of(other->footprint))
        if (const auto known = now.find(key); known == now.end() || known->second != value)
          variant.settings[key] = value;
      const auto is_known = [&](const BudgetVariant& known) { return known.settings == variant.settings; };
      if (variant.settings.empty() || std::ranges::any_of(component.variants, is_known)) continue;
      variant.need = component.need;
      fill(variant.need, *other);
      component.variants.push_back(std::move(variant));
    }
  }

 private:
  static std::string source_of(const MeasuredFootprint& measured) {
    const Footprint& footprint = measured.footprint;
    return fmt::format("{}, measured {}{}", measured.file, footprint.measured_at.substr(0, 10),
                       footprint.host.empty() ? "" : fmt::format(" on {}", footprint.host));
  }
  static std::string words_for(const Settings& settings) {
    std::string words;
    for (const auto& [key, value] : settings)
      words += fmt::format("{}{} = {}", words.empty() ? "" : ", ", key, value);
    return words;
  }
  void fill(MemoryNeed& need, const MeasuredFootprint& measured) const {
    MemoryNeed full = device_.is_gpu ? gpu_need_of(measured).value_or(MemoryNeed{}) : need_of(measured);
    full.transient = need.transient;
    full.frames = need.frames;
    full.model = need.model;
    full.footprint = need.footprint;
    full.line = need.line;
    full.origin.source = source_of(measured);
    need = std::move(full);
  }
  Status missing(const MemoryNeed& need, const std::string& wanted) const {
    return usage_error(fmt::format("{}:{}: no footprint of {}{}", name_, need.line, wanted,
                                   need.footprint.empty() ? "" : fmt::format(" in {}", need.footprint)),
                       "", "measure it with headroom bench --model NAME=FILE, then use --footprints outputs");
  }

  std::string name_;
  DeviceProfile device_;
  const std::vector<MeasuredFootprint>& measured_;
};

}  // namespace

MemoryNeed need_of(const MeasuredFootprint& measured) {
  const Footprint& footprint = measured.footprint;
  const Bytes load = footprint.runtime + footprint.load_peak;
  const Bytes run = footprint.runtime + footprint.run_peak;  // without frames
  const Bytes resident_peak = std::max(load, run + footprint.frames);
  // Reports of earlier versions do not contain file pages. Resident minus charged memory is an estimate of
  // them, because the group is not charged for file pages that are already in the page cache.
  Bytes files = footprint.file_backed.value_or(Bytes{});
  if (!footprint.file_backed && footprint.charged_peak)
    files = std::max(Bytes{}, resident_peak - *footprint.charged_peak);
  MemoryNeed need;
  if (footprint.file_backed && footprint.charged_peak)
    need.kernel = std::max(Bytes{}, *footprint.charged_peak - (resident_peak - files));
  const auto own = [&](Bytes resident) { return std::max(Bytes{}, resident - files) + need.kernel; };
  need.load_peak = own(load);
  need.run_peak = own(run);
  need.run_mean = own(footprint.runtime + footprint.run_mean);
  need.measured_frames = footprint.frames;
  need.shared = files;
  need.shared_key = fmt::format("{} {}", footprint.backend, footprint.backend_version);
  need.origin.kind = FigureOrigin::Kind::measured;
  if (footprint.gpu) need.gpu_apart = footprint.gpu->run_peak;
  return need;
}

Result<Budget> resolve_footprints(Budget budget, const std::vector<MeasuredFootprint>& measured) {
  const Resolver resolver(budget, measured);
  for (BudgetComponent& component : budget.components) {
    if (auto done = resolver.resolve(component.need, component.name, component.settings); !done)
      return forward_error(done);
    for (BudgetVariant& variant : component.variants) {
      std::map<std::string, std::string> settings = component.settings;
      for (const auto& [key, value] : variant.settings) settings[key] = value;
      if (auto done = resolver.resolve(variant.need, component.name, settings); !done)
        return forward_error(done);
    }
    resolver.add_variants(component);
  }
  return budget;
}

}  // namespace headroom::planning
