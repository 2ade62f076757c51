#include "bench/setup_phase.h"

#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "base/timestamp.h"
#include "bench/gpu_limit.h"
#include "bench/helper_process.h"
#include "bench/inference_phase.h"
#include "bench/model_preparation.h"
#include "bench/run_plans.h"
#include "bench/setup_job.h"
#include "media/media_engine.h"
#include "media/source_json.h"
#include "media/source_scan.h"
#include "sources/process_memory.h"

namespace headroom::bench {
namespace fs = std::filesystem;
namespace {

constexpr Nanoseconds kProgressInterval{500'000'000};
// Where the scan leaves the source's description: in the folder of the run, which no other run writes to;
// where that takes no file, in the folder of the prepared data.
constexpr const char* kMetadataKey = "metadata_path";
constexpr const char* kPreparedKey = "prepared";
constexpr const char* kNameASource = "name one with --source image_dir=DIR, video=FILE or camera=N";

// A step of the setup, which is kept in the log.
void say(const std::string& text) {
  Json event;
  event["event"] = "progress";
  event["text"] = text;
  send_helper_event(event);
}

// A model that will not be measured.
void say_failure(const std::string& text) {
  Json event;
  event["event"] = "failure";
  event["text"] = text;
  send_helper_event(event);
}

void report_model(const PreparedModel& model) {
  Json event;
  event["event"] = "model";
  event["model"] = to_json(model);
  send_helper_event(event);
}

// Where a step stands, which the next such event replaces. Also the sign of life that a long scan gives.
void report_frames(std::int64_t frames, const std::string& sequence) {
  static Nanoseconds last;
  const Nanoseconds now = monotonic_now();
  if (now - last < kProgressInterval) return;
  last = now;
  Json event;
  event["event"] = "scanning";
  event["frames"] = frames;
  event["sequence"] = sequence;
  send_helper_event(event);
}

// Before each image and video, so that one that ends the scan can be named.
void report_item(const std::string& name) {
  Json event;
  event["event"] = "reading";
  event["name"] = name;
  send_helper_event(event);
}

// What one picture may take: the workspace without what the process has by now, and some for the kernel's own
// accounts of it and the pages of small things.
Bytes left_for_a_picture(Bytes workspace) {
  constexpr Bytes kReserve = mebibytes(8);
  const ProcessMemory now = sources::read_process_memory(::getpid(), sources::ProcessDetail::status);
  return std::max(Bytes{}, workspace - now.anonymous.value_or(now.rss.value_or(Bytes{})) - kReserve);
}

// A folder that takes no files is a wrong --prepared-dir: nothing was measured yet.
tl::unexpected<Error> not_writable(Error error) {
  error.kind = ErrorKind::input;
  error.fix = "make room there, or choose another --prepared-dir";
  return tl::unexpected<Error>(std::move(error));
}

Result<fs::path> write_metadata(const SourceMetadata& source, const fs::path& own, const fs::path& prepared) {
  const std::string text = to_text(media::to_json(source));
  if (write_file_atomically(own, text)) return own;
  if (auto written = write_file_atomically(prepared, text); !written) return not_writable(written.error());
  return prepared;
}

// --- scanning
// -----------------------------------------------------------------------------------------------

Result<Json> scan(const Json& job) {
  auto options = bench_options_from_json(job);
  if (!options) return forward_error(options);
  auto engine = media::load_media_engine();
  if (!engine) return forward_error(engine);
  // By default glibc takes up to 32 MiB from its heap and keeps it when it is freed; here each large buffer
  // goes back at once, so that every picture meets the same room.
  ::mallopt(M_MMAP_THRESHOLD, 1 << 20);
  (*engine)->bound_memory(left_for_a_picture(options->workspace));
  auto metadata = media::scan_source(**engine, *options->source,
                                     {options->limit_videos, options->limit_objects, options->max_frames},
                                     report_frames, report_item);
  if (!metadata) return forward_error(metadata);
  auto written = write_metadata(*metadata, get_text(job, kMetadataKey), metadata_path(options->prepared_dir));
  if (!written) return forward_error(written);
  Json answer;
  answer[kMetadataKey] = written->string();
  return answer;
}

Result<SourceMetadata> scan_in_child(const BenchOptions& options, const std::string& metadata,
                                     Interrupt& interrupt) {
  std::string note;
  // --workspace bounds the scratch memory of the setup phase: decoding happens here and nowhere else in it.
  auto limit = limits::make_memory_limit("scan", options.workspace, options.limit_mechanism, note);
  if (!limit) return forward_error(limit);
  HelperPlan plan;
  plan.verb = "_scan";
  plan.purpose = "scanning " + options.source->describe();
  plan.limit = limit->get();
  plan.timeout = options.timeout;
  std::string item;
  plan.under_way = [&] { return item.empty() ? item : "reading " + item; };
  plan.on_event = [&](const Json& event) {
    if (get_text(event, "event") == "reading")
      item = get_text(event, "name");
    else
      send_helper_event(event);
  };
  Json job = to_json(options);
  job[kMetadataKey] = metadata;
  auto done = run_helper(plan, job, interrupt);
  if (!done) return forward_error(done);
  auto text = read_file(get_text(*done, kMetadataKey));
  if (!text) return forward_error(text);
  auto document = parse_json(*text, "metadata.json");
  if (!document) return forward_error(document);
  return media::source_from_json(*document);
}

// --- the whole
// ----------------------------------------------------------------------------------------------

Result<Json> set_up(const Json& job) {
  auto options = bench_options_from_json(job);
  if (!options) return forward_error(options);
  auto interrupt = Interrupt::listen();
  if (!interrupt) return forward_error(interrupt);
  if (auto made = make_folder(options->prepared_dir); !made) return forward_error(made);

  // Until all is done, nothing here may look prepared.
  std::error_code ignored;
  std::filesystem::remove(setup_path(options->prepared_dir), ignored);
  PreparedData data;
  if (options->source) {
    say("scanning " + options->source->describe());
    auto source = scan_in_child(*options, get_text(job, kMetadataKey), *interrupt);
    if (!source) return forward_error(source);
    say(fmt::format("{} frames in {} sequences, {} left out", source->total_frames, source->sequences.size(),
                    source->skipped.size()));
    data.source = std::move(*source);
  } else {
    say("no source: models that take no frames run on inputs made from their signatures");
  }

  const Bytes frames_held = data.source ? choose_frame_window(*data.source, *options).arena : Bytes{};
  auto device_account = open_device_account(*options);
  if (!device_account) return forward_error(device_account);
  const PreparationContext context{
      *options, frames_held, *interrupt, *device_account ? &**device_account : nullptr, say, report_model};
  for (const ModelSpec& spec : options->models) {
    say(fmt::format("trying {}", spec.name));
    auto model = prepare_model(spec, context);
    if (!model) return forward_error(model);
    if (model->status == ModelStatus::ok)
      say(fmt::format("{}: {} on {} {}, input {}", model->name, model->task, model->backend,
                      model->backend_version, model->input));
    else
      say_failure(fmt::format("{}: {}: {}", model->name, name_of(model->status), model->error));
    report_model(*model);
    data.models.push_back(std::move(*model));
  }
  const auto lacks_frames = [](const PreparedModel& model) { return model.takes_frames; };
  if (!data.source && std::all_of(data.models.begin(), data.models.end(), lacks_frames))
    return usage_error("no source was given", "every model given takes frames", kNameASource);
  data.headroom_version = HEADROOM_VERSION;
  data.created_at = timestamp_now();
  data.host = this_host();
  data.max_frames = options->max_frames;
  data.limit_videos = options->limit_videos;
  data.limit_objects = options->limit_objects;
  data.image_size = options->image_size;
  data.threads = options->threads;
  data.device = options->device;
  data.tuned = options->tune;
  data.memory_limit = options->memory_limit;
  data.gpu_memory_limit = options->gpu_memory_limit;
  data.conv_search = options->conv_search;
  data.capture_graph = options->capture_graph;
  data.limit_mechanism = options->limit_mechanism;
  data.timeout = options->timeout;
  if (auto written = write_prepared_data(options->prepared_dir, data); !written)
    return not_writable(written.error());
  Json answer;
  answer[kPreparedKey] = to_json(data);
  return answer;
}

}  // namespace

Result<PreparedData> run_setup_phase(const BenchOptions& options, const fs::path& metadata,
                                     Interrupt& interrupt, const SetupProgress& progress) {
  HelperPlan plan;
  plan.verb = "_setup";
  plan.repeats_errors = true;  // a limit that is exceeded
  plan.purpose = "the setup phase";
  // Its own children are watched with --timeout each; this one is only the net below them.
  plan.timeout = Nanoseconds{options.timeout.count * 12};
  plan.on_event = [&](const Json& event) {
    const std::string kind = get_text(event, "event");
    if (kind == "scanning") {
      progress.frames_scanned(get_integer(event, "frames").value_or(0), get_text(event, "sequence"));
    } else if (kind == "model") {
      if (const auto model = prepared_model_from_json(get_member(event, "model"))) progress.model(*model);
    } else if (kind == "failure") {
      progress.failure(get_text(event, "text"));
    } else {
      progress.step(get_text(event, "text"));
    }
  };
  Json job = to_json(options);
  job[kMetadataKey] = metadata.string();
  auto done = run_helper(plan, job, interrupt);
  if (!done) return forward_error(done);
  return prepared_data_from_json(get_member(*done, kPreparedKey), options.prepared_dir);
}

int run_setup_process() { return serve_helper(set_up); }
int run_scan_process() { return serve_helper(scan); }

}  // namespace headroom::bench
