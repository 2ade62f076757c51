// report.html: the page of web/ with the run's data put in.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/files.h"
#include "base/json.h"
#include "report/page.h"
#include "report/run/report_json.h"
#include "report/run/run_words.h"
#include "report/run/views.h"
#include "types/enum_names.h"

namespace headroom::report {
namespace {
namespace fs = std::filesystem;

// A browser parses 4 MB of JSON lines in well under a second; that is 4 hours of samples every 0.5 s.
constexpr std::size_t kMetricsBudget = 4'000'000;
// Pictures are in the file as base64 (4/3 of their size). Annotated samples are JPEGs of about 100 KiB; the
// bounds keep a run over huge frames from making a page that no browser opens.
constexpr Bytes kLargestImage = mebibytes(4);
constexpr Bytes kImageBudget = mebibytes(32);

std::string base64(std::string_view bytes) {
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t left = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k)
      group = group << 8 | (k < left ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    for (std::size_t k = 0; k < 4; ++k) text += k <= left ? kDigits[group >> (18 - 6 * k) & 63u] : '=';
  }
  return text;
}

// By the first bytes, not by the name, because the page contains only pictures that a browser can show.
std::string_view picture_type(std::string_view bytes) {
  if (bytes.starts_with("\xff\xd8\xff")) return "image/jpeg";
  if (bytes.starts_with("\x89PNG\r\n\x1a\n")) return "image/png";
  if (bytes.starts_with("RIFF") && bytes.substr(0, 12).ends_with("WEBP")) return "image/webp";
  return {};
}

// A report.json from elsewhere may name any path; only files below the run folder are put into the page.
bool stays_inside(const fs::path& relative) {
  const fs::path normal = relative.lexically_normal();
  return !normal.empty() && normal.is_relative() && *normal.begin() != "..";
}

void embed_images(const std::vector<ModelResult>& models, const fs::path& run_folder, Bytes& budget,
                  Json& images) {
  for (const ModelResult& model : models) {
    for (const std::string& name : model.annotated_images) {
      if (images.contains(name) || !stays_inside(name)) continue;
      const Result<std::string> bytes = read_file(run_folder / name, std::min(kLargestImage, budget));
      if (!bytes) continue;  // the page says that the picture is not in the file
      const std::string_view type = picture_type(*bytes);
      if (type.empty()) continue;
      budget = budget - Bytes{static_cast<std::int64_t>(bytes->size())};
      images[name] = fmt::format("data:{};base64,{}", type, base64(*bytes));
    }
  }
}

// Words that the page shares with the other views.
Json words_of(const BenchResult& result) {
  const Verdict verdict = verdict_of(result);
  Json words{{"tone", name_in({"good", "neutral", "bad"}, verdict.tone)},
             {"sentence", verdict.sentence},
             {"details", verdict.details},
             {"runtimes", words_for_runtimes(result)}};
  const auto words_for = [](const Limit& limit, const std::string& notes) -> Json {
    return {{"type", type_with_reason(limit)}, {"meaning", meaning_of(limit)}, {"notes", notes}};
  };
  if (result.limit) words["limit"] = words_for(*result.limit, notes_on(*result.limit, result.host));
  if (result.gpu_limit) words["gpu_limit"] = words_for(*result.gpu_limit, result.gpu_limit->note);
  return words;
}

struct Metrics {
  std::string lines;
  std::size_t every = 1;  // 1 of this many lines was kept
};

// A long series is thinned evenly: every n-th line, and the last, so that the chart spans the whole run. A
// line that is longer than a whole page's share is no sample.
Metrics thinned(std::string_view jsonl) {
  if (jsonl.size() <= kMetricsBudget) return {std::string(jsonl), 1};
  Metrics kept{{}, (jsonl.size() + kMetricsBudget - 1) / kMetricsBudget};
  kept.lines.reserve(kMetricsBudget);
  std::size_t number = 0;
  for (std::size_t at = 0; at < jsonl.size(); ++number) {
    const std::size_t end = std::min(jsonl.find('\n', at), jsonl.size() - 1) + 1;
    constexpr std::size_t kLongestLine = 1 << 20;
    if ((number % kept.every == 0 || end == jsonl.size()) && end - at <= kLongestLine)
      kept.lines += jsonl.substr(at, end - at);
    at = end;
  }
  return kept;
}

}  // namespace

std::string to_html(const BenchResult& result, const fs::path& run_folder, std::string_view metrics_jsonl) {
  Json images = Json::object();
  Bytes image_budget = kImageBudget;
  embed_images(result.models, run_folder, image_budget, images);
  if (result.parallel) embed_images(result.parallel->together, run_folder, image_budget, images);
  Metrics metrics = thinned(metrics_jsonl);

  return page_with_data(Page::report, {{"report", to_line(to_json(result))},
                                       {"verdict", to_line(words_of(result))},
                                       {"images", to_line(images)},
                                       {"metrics", std::move(metrics.lines),
                                        fmt::format(" data-every=\"{}\"", metrics.every)}});
}

}  // namespace headroom::report
