#include "inference/vos/manifest.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "base/json.h"

namespace headroom::inference::vos {
namespace {

constexpr std::string_view kVersionKey = "headroom.vos";
constexpr int kLargestBank = 4096;

// Reads the values of one object; remembers the first key with a wrong value.
class ManifestReader {
 public:
  explicit ManifestReader(const Json& object, std::string prefix = {})
      : object_(object), prefix_(std::move(prefix)) {}

  void integer(std::string_view key, int least, int most, int& value) {
    if (is_absent(key)) return;
    const auto found = get_integer(object_, key);
    if (!found || *found < least || *found > most)
      return complain(key, fmt::format("an integer from {} to {}", least, most));
    value = static_cast<int>(*found);
  }
  void number(std::string_view key, float& value) {
    if (is_absent(key)) return;
    const auto found = get_number(object_, key);
    if (!found || !std::isfinite(static_cast<float>(*found))) return complain(key, "a number");
    value = static_cast<float>(*found);
  }
  void boolean(std::string_view key, bool& value) {
    if (is_absent(key)) return;
    const auto found = get_bool(object_, key);
    if (!found) return complain(key, "true or false");
    value = *found;
  }
  template <std::size_t count>
  void numbers(std::string_view key, std::array<float, count>& values) {
    if (is_absent(key)) return;
    const Json& list = get_member(object_, key);
    std::size_t read = 0;
    if (list.is_array() && list.size() == count)
      for (const Json& entry : list) {
        if (!entry.is_number() || !std::isfinite(entry.get<float>())) break;
        values[read++] = entry.get<float>();
      }
    if (read != count) complain(key, fmt::format("a list of {} numbers", count));
  }
  bool is_absent(std::string_view key) const { return get_member(object_, key).is_null(); }
  void complain(std::string_view key, std::string wanted) {
    if (problem_.empty()) problem_ = fmt::format("'{}{}' is not {}", prefix_, key, wanted);
  }
  const std::string& problem() const { return problem_; }

 private:
  const Json& object_;
  std::string prefix_, problem_;
};

}  // namespace

Result<Manifest> parse_manifest(std::string_view json, const std::string& name) {
  const std::string what = fmt::format("cannot use the manifest {}", name);
  auto document = parse_json(json, name);
  if (!document) return forward_error(document);
  if (!document->is_object()) return input_error(what, "it is not a JSON object");
  const auto version = get_integer(*document, kVersionKey);
  if (version != 1)
    return input_error(what,
                       version ? fmt::format("its contract is {}={}", kVersionKey, *version)
                               : fmt::format("it has no integer '{}'", kVersionKey),
                       fmt::format("this Headroom needs {}", kContract));
  Manifest manifest;
  manifest.family = get_text(*document, "family");
  ManifestReader reader(*document);
  reader.integer("size", 16, kLargestSide, manifest.size);
  reader.numbers("mean", manifest.mean);
  reader.numbers("std", manifest.std);
  reader.integer("num_maskmem", 1, kLargestBank, manifest.num_maskmem);
  reader.integer("max_obj_ptrs", 1, kLargestBank, manifest.max_obj_ptrs);
  reader.integer("multimask_min_points", 0, kLargestBank, manifest.multimask_min_points);
  reader.integer("multimask_max_points", 0, kLargestBank, manifest.multimask_max_points);
  reader.boolean("ptr_tpos", manifest.ptr_tpos);
  if (!reader.is_absent("mask_downsample"))
    reader.numbers("mask_downsample", manifest.mask_downsample.emplace());
  for (const float deviation : manifest.std)
    if (!(deviation > 0)) reader.complain("std", "a list of numbers above 0");
  ManifestReader stability(get_member(*document, "stability"), "stability.");
  stability.number("delta", manifest.stability_delta);
  stability.number("threshold", manifest.stability_threshold);
  for (const std::string& problem : {reader.problem(), stability.problem()})
    if (!problem.empty()) return input_error(what, problem, "export the model again");

  const Json& graphs = get_member(*document, "graphs");
  for (const Part part : kParts) {
    const std::string file = get_text(get_member(graphs, name_of(part)), "file");
    if (file.empty()) continue;
    // A manifest may come from elsewhere, so it must not name files outside its folder.
    if (file.find('/') != std::string::npos || file == "..")
      return input_error(what,
                         fmt::format("'graphs.{}.file' is not the name of a file: {}", name_of(part), file),
                         "put the graphs into the manifest's folder");
    manifest.files[part] = file;
  }
  return manifest;
}

}  // namespace headroom::inference::vos
