#include "report/run/report_json.h"

#include <fmt/format.h>

#include "base/text.h"
#include "report/run/report_fields.h"
#include "report/words.h"

namespace headroom::report {

void describe(auto& field, a<FootprintGpu> auto& gpu) {
  field("device", gpu.device);
  field("name", gpu.name);
  field("load_peak_bytes", gpu.load_peak);
  field("run_peak_bytes", gpu.run_peak);
  field.unless_zero("is_integrated", gpu.is_integrated);
}

void describe(auto& field, a<Footprint> auto& footprint) {
  field("name", footprint.name);
  field("path", footprint.path);
  field("model_fingerprint", footprint.model_fingerprint);
  field("backend", footprint.backend);
  field("backend_version", footprint.backend_version);
  field("input", footprint.input);
  field("host", footprint.host);
  field("runtime_bytes", footprint.runtime);
  field("loaded_bytes", footprint.loaded);
  field("load_peak_bytes", footprint.load_peak);
  field("run_mean_bytes", footprint.run_mean);
  field("run_peak_bytes", footprint.run_peak);
  field("frames_bytes", footprint.frames);
  field("file_backed_bytes", footprint.file_backed);
  field("charged_peak_bytes", footprint.charged_peak);
  field("gpu", footprint.gpu);
  field("settings", footprint.settings);
  field("measured_at", footprint.measured_at);
}

namespace {

// Stands for the list of models in a text; no name of a key or a state is like it.
constexpr const char* kModelsGoHere = "@models go here@";

template <class T>
Json write_fields(const T& value, std::optional<int> schema_version) {
  Json document = Json::object();
  if (schema_version) document["schema_version"] = *schema_version;
  FieldWriter writer(document);
  describe(writer, value);
  return document;
}

// Figures that follow from others, for readers that would have to know how. They are not read back.
void add_derived_figures(const BenchResult& result, Json& document) {
  for (std::size_t i = 0; i < result.models.size(); ++i)
    if (const auto peak = limit_peak(result.models[i].memory, result.limit))
      document["models"][i]["memory"]["limit_peak_bytes"] = peak->count;
  if (result.pipeline)
    if (const auto peak = limit_peak(result.pipeline->memory, result.limit))
      document["pipeline"]["memory"]["limit_peak_bytes"] = peak->count;
  if (result.pool)
    if (const auto peak = limit_peak(result.pool->memory, result.limit))
      document["pool"]["memory"]["limit_peak_bytes"] = peak->count;
  for (std::size_t i = 0; i < result.system.size(); ++i)
    if (const auto total = total_of(result.system[i])) document["system"][i]["total"] = *total;
}

Status check_version(const Json& document, std::string_view name, int known) {
  const auto version = get_integer(document, "schema_version");
  if (!version)
    return input_error(fmt::format("{} is not usable", name), "/schema_version is not a whole number",
                       "use a file that headroom bench wrote");
  if (*version > known)
    return input_error(fmt::format("{} is not usable", name),
                       fmt::format("/schema_version is {}, but this Headroom supports {}", *version, known),
                       kFixOfNewerReport);
  return {};
}

template <class T>
Result<T> read_fields(const Json& document, std::string_view name) {
  T value;
  std::string problem;
  if (document.is_object()) {
    const Place root;
    FieldReader reader(document, root, problem);
    describe(reader, value);
  } else {
    problem = "the document is not an object";
  }
  if (!problem.empty()) return input_error(fmt::format("{} is not usable", name), problem);
  return value;
}

}  // namespace

Json to_json(const BenchResult& result) {
  Json document = write_fields(result, kReportSchemaVersion);
  add_derived_figures(result, document);
  return document;
}
std::string report_text(const BenchResult& result, bool is_indented) {
  BenchResult rest = result;
  rest.models.clear();
  Json document = to_json(rest);
  document["models"] = kModelsGoHere;
  const auto text_of = [&](const Json& part) { return is_indented ? to_text(part) : to_line(part); };
  std::string text = text_of(document);
  if (!is_indented) text += '\n';
  const std::string key = is_indented ? "\"models\": " : "\"models\":";
  const std::string mark = fmt::format("{}\"{}\"", key, kModelsGoHere);
  const std::size_t at = text.find(mark);
  const std::string behind = text.substr(at + mark.size());
  text.resize(at + key.size());
  text += '[';
  for (const ModelResult& model : result.models) {
    BenchResult one;
    one.limit = result.limit;
    one.models = {model};
    Json alone = to_json(one);
    if (&model != result.models.data()) text += ',';
    const std::string model_text = text_of(alone["models"][0]);
    if (!is_indented) {
      text += model_text;
      continue;
    }
    for (const std::string_view line : split(trim(model_text), '\n')) text.append("\n    ").append(line);
  }
  if (is_indented && !result.models.empty()) text += "\n  ";
  return text += ']' + behind;
}

Json to_json(const RuntimeSettings& settings) { return write_fields(settings, std::nullopt); }
Json to_json(const Footprint& footprint) { return write_fields(footprint, kFootprintSchemaVersion); }

Json to_json(const ModelResult& result) { return write_fields(result, std::nullopt); }

Result<ModelResult> model_result_from_json(const Json& document) {
  return read_fields<ModelResult>(document, "the result of a trial");
}

Json to_json(const HostInfo& host) { return write_fields(host, std::nullopt); }

Result<HostInfo> host_info_from_json(const Json& document) {
  return read_fields<HostInfo>(document, "the host information");
}

Json to_json(const LayerMemory& layers) { return write_fields(layers, std::nullopt); }

Result<BenchResult> bench_result_from_json(const Json& document, std::string_view name) {
  if (auto usable = check_version(document, name, kReportSchemaVersion); !usable)
    return forward_error(usable);
  return read_fields<BenchResult>(document, name);
}

Result<RuntimeSettings> settings_from_json(const Json& document) {
  return read_fields<RuntimeSettings>(document, "the runtime settings");
}

Result<LayerMemory> layer_memory_from_json(const Json& document) {
  return read_fields<LayerMemory>(document, "the layer memory");
}

Result<Footprint> footprint_from_json(const Json& document, std::string_view name) {
  if (auto usable = check_version(document, name, kFootprintSchemaVersion); !usable)
    return forward_error(usable);
  return read_fields<Footprint>(document, name);
}

Result<BenchResult> read_report(std::string_view text, std::string_view name) {
  const auto document = parse_json(text, name);
  if (!document) {
    Error error = document.error();
    error.fix =
        "copy the file again if it was cut off, or name a run's folder, its report.json or a recording "
        "(.hrec)";
    return tl::unexpected(std::move(error));
  }
  auto result = bench_result_from_json(*document, name);
  if (!result && result.error().fix.empty())
    result.error().fix = "copy the file again, or measure again: it was edited, or another program wrote it";
  return result;
}

}  // namespace headroom::report
