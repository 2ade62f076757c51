#include <cmath>

#include "base/json.h"
#include "report/finding/finding_views.h"

namespace headroom::report {
namespace {

// "latency_ns" of both sides, and what it changed by.
Json to_json(const TriedCure& tried) {
  Json object;
  object["model"] = tried.settings.model;
  if (!tried.settings.also.empty())
    object[tried.settings.leave_out_also ? "left_out" : "also"] = tried.settings.also;
  set_if(object, "settings", tried.settings.settings);
  set_if(object, "max_frames_in_mem", tried.settings.max_frames_in_memory);
  object["command"] = tried.command;
  object["verdict"] = name_of(tried.verdict);
  object["sentence"] = tried.sentence;
  if (!tried.figures.empty()) {
    for (const TriedFigure& figure : tried.figures) {
      object["before"][figure.name] = std::llround(figure.before);
      object["after"][figure.name] = std::llround(figure.after);
    }
    // Of after / before, in per cent; absent where it is not known.
    for (const TriedFigure& figure : tried.figures)
      if (std::isfinite(figure.high))
        object["change_percent"][figure.name] = {{"low", 100 * (figure.low - 1)},
                                                 {"high", 100 * (figure.high - 1)}};
    object["differs"] = Json::array();
    for (const TriedFigure& figure : tried.figures)
      if (figure.differs) object["differs"].push_back(figure.name);
    for (const TriedFigure& figure : tried.figures)
      if (!figure.is_judged) object["not_judged"].push_back(figure.name);
  }
  set_if(object, "saved_bytes", tried.saved);
  if (tried.latency_change) object["latency_change_percent"] = 100 * *tried.latency_change;
  return object;
}

Json to_json(const Finding& finding) {
  Json object;
  object["id"] = finding.id;
  object["severity"] = name_of(finding.severity);
  object["title"] = finding.title;
  set_if(object, "cause", finding.cause);
  object["confidence"] = name_of(finding.confidence);
  object["times"] = finding.times;
  object["evidence"] = Json::array();
  for (const Evidence& evidence : finding.evidence) {
    Json item;
    item["file"] = evidence.file;
    if (evidence.line > 0) item["line"] = evidence.line;
    set_if(item, "text", evidence.text);
    object["evidence"].push_back(std::move(item));
  }
  object["figures"] = Json::object();
  for (const headroom::Figure& figure : finding.figures) {
    if (const auto* real = std::get_if<double>(&figure.value))
      set_if(object["figures"], figure.name, std::optional(*real));
    else if (const auto* number = std::get_if<std::int64_t>(&figure.value))
      object["figures"][figure.name] = *number;
    else
      object["figures"][figure.name] = std::get<std::string>(figure.value);
  }
  object["cures"] = Json::array();
  for (const Cure& cure : finding.cures) {
    Json item;
    item["what"] = cure.what;
    set_if(item, "command", cure.command);
    set_if(item, "saves_bytes", cure.saves);
    if (cure.tried) item["tried"] = to_json(*cure.tried);
    object["cures"].push_back(std::move(item));
  }
  return object;
}

}  // namespace

Json findings_to_json(const DoctorReport& report) {
  Json document;
  document["schema_version"] = kDoctorSchemaVersion;
  document["inputs"] = report.inputs;
  if (!report.problems.empty()) document["problems"] = report.problems;
  if (!report.examined.empty()) document["examined"] = Json::array();
  for (const ExaminedInput& examined : report.examined)
    document["examined"].push_back(
        {{"input", examined.input}, {"kind", examined.kind}, {"words", examined.words}});
  document["findings"] = Json::array();
  for (const Finding& finding : report.findings) document["findings"].push_back(to_json(finding));
  if (!report.together.empty()) document["together"] = Json::array();
  for (const TriedCure& tried : report.together) document["together"].push_back(to_json(tried));
  return document;
}

}  // namespace headroom::report
