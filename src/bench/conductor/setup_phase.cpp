#include "bench/conductor/setup_phase.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/files.h"
#include "base/json.h"
#include "bench/conductor/gpu_limit.h"
#include "bench/conductor/phases.h"
#include "bench/processes.h"
#include "bench/protocol.h"
#include "bench/vos/setup.h"
#include "media/media_engine.h"
#include "media/source_scan.h"
#include "report/words.h"
#include "sources/process_table.h"

namespace headroom::bench {
namespace fs = std::filesystem;
namespace {

constexpr Nanoseconds kProgressInterval{500'000'000};
constexpr const char* kNameASource = "add --source image_dir=DIR, video=FILE, camera=N or another source";

// Reports a step of the setup, which is kept in the log.
void send_step(const std::string& text) { send_helper_event("progress", {{"text", text}}); }

// Reports a model that failed and will not be measured.
void send_failure(const std::string& text) { send_helper_event("failure", {{"text", text}}); }

void report_model(const PreparedModel& model) {
  send_helper_event("model", {{"model", message_to_json(model)}});
}

// Reports the progress of a scan; the next such event replaces it. It also shows that a long scan is alive.
void report_frames(std::int64_t frames, const std::string& sequence) {
  static Nanoseconds last;
  const Nanoseconds now = monotonic_now();
  if (now - last < kProgressInterval) return;
  last = now;
  send_helper_event("scanning", {{"frames", frames}, {"sequence", sequence}});
}

// Sent before each image and video, so that the error can name the file that ended the scan.
void report_item(const std::string& name) { send_helper_event("reading", {{"name", name}}); }

// The memory that one image may use. It is the workspace minus the current memory of the process, minus a
// reserve for the kernel's accounting and small pages.
Bytes memory_for_one_image(Bytes workspace) {
  constexpr Bytes kReserve = mebibytes(8);
  const ProcessMemory now = sources::read_process_memory(::getpid(), sources::ProcessDetail::status);
  return std::max(Bytes{}, workspace - now.anonymous.value_or(now.rss.value_or(Bytes{})) - kReserve);
}

// --- scanning

// Of --task vos: the first child finds the videos, later ones write their frames for one format.
Result<Json> scan_vos(media::MediaEngine& engine, const BenchOptions& options, const Json& job) {
  const std::string videos_file = get_text(job, kVideosKey);
  if (const Json& model = get_member(job, kModelKey); !model.is_null()) {
    auto facts = message_from_json<VosModelFacts>(model);
    if (!facts) return forward_error(facts);
    VosResult described;
    described.side = facts->side;
    described.pixel_mean = facts->pixel_mean;
    described.pixel_std = facts->pixel_std;
    std::vector<PreparedVideo> videos;
    auto lines = VideoLines::open(videos_file);
    if (!lines) return forward_error(lines);
    for (auto video = lines->next();; video = lines->next()) {
      if (!video) return forward_error(video);
      if (!*video) break;
      videos.push_back(std::move(**video));
    }
    auto written = write_frames(engine, videos, planes_format_of(described, options.vos->planes),
                                options.max_frames, planes_folder(options.prepared_dir), report_frames);
    if (!written) return forward_error(written);
    Json left_out = Json::array();
    for (const VosLeftOut& item : written->left_out) left_out.push_back({item.video, item.why});
    std::erase_if(videos, [&](const PreparedVideo& video) {
      return std::ranges::find(written->left_out, video.video.id, &VosLeftOut::video) !=
             written->left_out.end();
    });
    if (!left_out.empty())
      if (auto saved = write_videos(videos_file, videos); !saved)
        return not_writable(saved.error(), "--output-dir");
    return Json{{"decoded", written->decoded}, {"were_there", written->were_there}, {"left_out", left_out}};
  }
  auto scanned = scan_videos(engine, options, report_item);
  if (!scanned) return forward_error(scanned);
  Status saved = write_videos(videos_file, scanned->videos);
  if (saved)
    saved = write_file_atomically(get_text(job, kMetadataKey), to_text(media::to_json(scanned->metadata)));
  if (!saved) return not_writable(saved.error(), "--output-dir");
  return Json{{"layout", name_of(scanned->source.layout)}};
}

Result<Json> scan(const Json& job) {
  auto options = bench_options_from_json(job);
  if (!options) return forward_error(options);
  auto engine = media::load_media_engine();
  if (!engine) return forward_error(engine);
  // By default, glibc keeps freed buffers of up to 32 MiB in its heap. Here each large buffer is returned at
  // once, so that every image has the same memory available.
  ::mallopt(M_MMAP_THRESHOLD, 1 << 20);
  (*engine)->bound_memory(memory_for_one_image(options->workspace));
  if (options->vos) return scan_vos(**engine, *options, job);
  auto metadata = media::scan_source(**engine, *options->source,
                                     {options->limit_videos, options->limit_objects, options->max_frames},
                                     report_frames, report_item);
  if (!metadata) return forward_error(metadata);
  auto written = write_file_atomically(get_text(job, kMetadataKey), to_text(media::to_json(*metadata)));
  if (!written) return not_writable(written.error(), "--output-dir");
  return Json::object();
}

// `job`: the files that the child writes. Returns its answer.
Result<Json> run_scan(const BenchOptions& options, const std::string& purpose, const Json& files,
                      Interrupt& interrupt) {
  std::string note;
  // --workspace bounds the scratch memory of the setup phase. Only this child decodes images.
  auto limit = limits::make_memory_limit("scan", options.workspace, options.limit_mechanism, note);
  if (!limit) return forward_error(limit);
  HelperPlan plan;
  plan.verb = "_scan";
  plan.purpose = purpose;
  plan.limit = limit->get();
  plan.timeout = options.timeout;
  std::string item;
  plan.current_step = [&] { return item.empty() ? item : "reading " + item; };
  plan.on_event = [&](const Json& event) {
    if (get_text(event, "event") == "reading")
      item = get_text(event, "name");
    else
      send_helper_event(get_text(event, "event"), event);
  };
  Json job = to_json(options);
  job.update(files);
  return run_helper(plan, job, interrupt);
}

Result<SourceMetadata> scan_in_child(const BenchOptions& options, const std::string& metadata,
                                     Interrupt& interrupt) {
  auto done =
      run_scan(options, "scanning " + options.source->describe(), {{kMetadataKey, metadata}}, interrupt);
  if (!done) return forward_error(done);
  return read_metadata(metadata);
}

// --- --task vos

std::string plural(std::int64_t count, const char* noun) { return report::counted(count, noun); }

Status find_videos(const BenchOptions& options, const Json& files, PreparedData& data, Interrupt& interrupt) {
  send_step("scanning " + options.vos->dataset);
  auto done = run_scan(options, "scanning " + options.vos->dataset, files, interrupt);
  if (!done) return forward_error(done);
  auto metadata = read_metadata(get_text(files, kMetadataKey));
  if (!metadata) return forward_error(metadata);
  data.vos = VosSource{options.vos->dataset, {}};
  for (const VosLayout layout : {VosLayout::sav, VosLayout::davis, VosLayout::folder})
    if (get_text(*done, "layout") == name_of(layout)) data.vos->layout = layout;
  std::int64_t objects = 0;
  for (const SourceSequence& sequence : metadata->sequences)
    objects += static_cast<std::int64_t>(sequence.objects.size());
  send_step(fmt::format(
      "{} with {} in {}, {} left out", plural(static_cast<std::int64_t>(metadata->sequences.size()), "video"),
      plural(objects, "object"), plural(metadata->total_frames, "frame"), metadata->skipped.size()));
  data.source = std::move(*metadata);
  return {};
}

void leave_out(SourceMetadata& source, const std::string& video, const std::string& why) {
  std::erase_if(source.sequences, [&](const SourceSequence& sequence) { return sequence.name == video; });
  source.skipped.push_back({video, why});
  source.total_frames = 0;
  for (const SourceSequence& sequence : source.sequences) source.total_frames += sequence.frames;
}

// Writes the frames for each format among the models.
Status prepare_frames(const BenchOptions& options, const Json& files, PreparedData& data,
                      Interrupt& interrupt) {
  std::vector<media::vos::PlanesFormat> done_formats;
  for (const PreparedModel& model : data.models) {
    if (model.status != ModelStatus::ok || !model.vos) continue;
    const VosResult& vos = *model.vos;
    const media::vos::PlanesFormat format = planes_format_of(vos, options.vos->planes);
    if (std::ranges::find(done_formats, format) != done_formats.end()) continue;
    done_formats.push_back(format);
    send_step(fmt::format("preparing frames of {0} × {0} pixels, {1}", vos.side, name_of(format.type)));
    Json job = files;
    job[kModelKey] = message_to_json(VosModelFacts{vos.side, {}, vos.pixel_mean, vos.pixel_std});
    auto done = run_scan(options, "preparing the frames of " + options.vos->dataset, job, interrupt);
    if (!done) return forward_error(done);
    send_step(fmt::format("{} decoded, {} prepared earlier",
                          plural(get_integer(*done, "decoded").value_or(0), "frame"),
                          get_integer(*done, "were_there").value_or(0)));
    for (const Json& item : get_member(*done, "left_out"))
      if (item.is_array() && item.size() == 2)
        leave_out(*data.source, item[0].get<std::string>(), item[1].get<std::string>());
  }
  if (data.source->sequences.empty())
    return input_error(fmt::format("no video of {} can be used", options.vos->dataset),
                       data.source->skipped.back().reason);
  auto text = read_file(get_text(files, kVideosKey));
  if (!text) return forward_error(text);
  if (auto kept = write_file_atomically(videos_path(options.prepared_dir), *text); !kept)
    return not_writable(kept.error(), "--prepared-dir");
  // Videos that were left out above are still in it.
  auto saved = write_file_atomically(get_text(files, kMetadataKey), to_text(media::to_json(*data.source)));
  return saved ? Status{} : Status(not_writable(saved.error(), "--output-dir"));
}

std::vector<std::int64_t> object_counts_of(const BenchOptions& options, const SourceMetadata& source) {
  if (options.vos->objects == VosObjects::alone) return {1};
  std::set<std::int64_t> counts;
  for (const SourceSequence& sequence : source.sequences)
    counts.insert(std::clamp<std::int64_t>(std::ssize(sequence.objects), 1, kObjectsTogether));
  return {counts.begin(), counts.end()};
}

// --- the setup process

Result<Json> set_up(const Json& job) {
  auto options = bench_options_from_json(job);
  if (!options) return forward_error(options);
  auto interrupt = Interrupt::listen();
  if (!interrupt) return forward_error(interrupt);
  if (auto made = make_folder(options->prepared_dir); !made) return forward_error(made);

  // Until the setup has finished, the folder must not look prepared.
  std::error_code ignored;
  std::filesystem::remove(setup_path(options->prepared_dir), ignored);
  PreparedData data;
  const Json files{{kMetadataKey, get_text(job, kMetadataKey)}, {kVideosKey, get_text(job, kVideosKey)}};
  if (options->vos) {
    if (auto found = find_videos(*options, files, data, *interrupt); !found) return forward_error(found);
  } else if (options->source) {
    send_step("scanning " + options->source->describe());
    auto source = scan_in_child(*options, get_text(job, kMetadataKey), *interrupt);
    if (!source) return forward_error(source);
    send_step(fmt::format("{} in {}, {} skipped", report::counted(source->total_frames, "frame"),
                          report::counted(static_cast<std::int64_t>(source->sequences.size()), "sequence"),
                          source->skipped.size()));
    data.source = std::move(*source);
  } else {
    send_step("no source: models that take no frames run on inputs made from their signatures");
  }

  const Bytes frames_held =
      data.source && !options->vos ? choose_frame_window(*data.source, *options).arena : Bytes{};
  auto device_account = open_device_account(*options);
  if (!device_account) return forward_error(device_account);
  const PreparationContext context{
      *options,
      frames_held,
      *interrupt,
      *device_account ? &**device_account : nullptr,
      send_step,
      report_model,
      options->vos ? object_counts_of(*options, *data.source) : std::vector<std::int64_t>{},
      data.vos && data.vos->layout == VosLayout::davis};
  // Sent after the last model: if every model lacks a source, or is refused, the answer is one error for all
  // of them.
  std::vector<std::string> without_source, refused;
  for (const ModelSpec& spec : options->models) {
    send_step(fmt::format("trying {}", spec.name));
    auto model = prepare_model(spec, context);
    if (!model) return forward_error(model);
    if (model->status == ModelStatus::ok) {
      send_step(fmt::format("{}: {} on {} {}, input {}", model->name, model->task, model->backend,
                            model->backend_version, model->input));
      if (data.source && !options->vos && !model->takes_frames)
        send_step(fmt::format("{}: takes no frames; runs on inputs made from its signature{}{}", model->name,
                              model->without_task.empty() ? "" : ": ", model->without_task));
    } else {
      std::string line = fmt::format("{}: {}: {}", model->name, name_of(model->status), model->error);
      if (model->error == kNeedsSource)
        without_source.push_back(std::move(line));
      else if (model->is_refused)
        refused.push_back(std::move(line));
      else
        send_failure(line);
    }
    report_model(*model);
    data.models.push_back(std::move(*model));
  }
  if (!data.source && std::ranges::all_of(data.models, &PreparedModel::takes_frames))
    return usage_error("--source is missing", "all models take frames", kNameASource);
  for (const std::string& line : without_source) send_failure(line);
  if (!refused.empty() && refused.size() == data.models.size())
    return input_error(refused.size() == 1 ? "the model cannot be used" : "none of the models can be used",
                       fmt::format("{}", fmt::join(refused, "; ")));
  for (const std::string& line : refused) send_failure(line);
  if (options->vos)
    if (auto prepared = prepare_frames(*options, files, data, *interrupt); !prepared)
      return forward_error(prepared);
  data.headroom_version = HEADROOM_VERSION;
  data.created_at = timestamp_now();
  data.host = this_host();
  data.options = std::move(*options);
  if (auto written = write_prepared_data(data.options.prepared_dir, data); !written)
    return not_writable(written.error(), "--prepared-dir");
  return Json{{kPreparedKey, to_json(data)}};
}

}  // namespace

int run_setup_process() { return serve_helper(set_up); }
int run_scan_process() { return serve_helper(scan); }

}  // namespace headroom::bench
