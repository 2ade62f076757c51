#include "bench/conductor/annotate.h"

#include <fmt/format.h>

#include <fstream>
#include <memory>

#include "base/files.h"
#include "base/json.h"
#include "base/run_folder.h"
#include "bench/conductor/helper_process.h"
#include "bench/sample_lines.h"
#include "media/media_engine.h"
#include "media/source_json.h"

namespace headroom::bench {
namespace fs = std::filesystem;
namespace {

// The most recently read video. The samples of a video come in order, so it is decoded in one pass.
struct OpenVideo {
  std::size_t sequence = 0;
  std::int64_t next_frame = 0;
  std::unique_ptr<media::VideoReader> reader;
};

Status read_frame(media::MediaEngine& engine, const SourceMetadata& source, std::size_t sequence_index,
                  std::int64_t frame, OpenVideo& video, media::Picture& picture) {
  if (sequence_index >= source.sequences.size()) return input_error("the sample's sequence does not exist");
  const SourceSequence& sequence = source.sequences[sequence_index];
  if (source.spec.kind == SourceKind::image_dir) {
    if (frame < 0 || frame >= static_cast<std::int64_t>(sequence.images.size()))
      return input_error("the sample's image does not exist");
    const fs::path path = fs::path(sequence.path) / sequence.images[static_cast<std::size_t>(frame)];
    return engine.decode_image(path.string(), picture);
  }
  if (!video.reader || video.sequence != sequence_index || video.next_frame > frame) {
    auto opened = engine.open_video(sequence.path);
    if (!opened) return forward_error(opened);
    video = {sequence_index, 0, std::move(*opened)};
  }
  for (; video.next_frame <= frame; ++video.next_frame) {
    auto more = video.reader->next(picture);
    if (more && !*more) return input_error("the video ended before the sample's frame");
  }
  return {};
}

std::string image_name(const std::string& model, std::int64_t number) {
  return fmt::format("{}_{}.jpg", model, number);
}

// Writes the findings to samples/MODEL.json before the first image is drawn, because drawing may crash this
// process.
Result<std::int64_t> list_samples(const Json& job) {
  std::ifstream lines(get_text(job, "samples"));
  Json found = Json::array();
  while (const auto sample = read_sample(lines)) {
    Json entry;
    entry["name"] = sample->name;
    entry["frame"] = sample->frame;
    entry["image"] =
        "samples/" + image_name(get_text(job, "model"), static_cast<std::int64_t>(found.size()) + 1);
    entry["findings"] = to_json(sample->findings);
    found.push_back(std::move(entry));
  }
  const fs::path path = fs::path(get_text(job, "folder")) / (get_text(job, "model") + ".json");
  if (auto written = write_file_atomically(path, to_text(found)); !written) return forward_error(written);
  return static_cast<std::int64_t>(found.size());
}

Result<Json> draw(const Json& job) {
  auto text = read_file(get_text(job, "metadata"));
  if (!text) return forward_error(text);
  auto document = parse_json(*text, "metadata.json");
  if (!document) return forward_error(document);
  auto source = media::source_from_json(*document);
  if (!source) return forward_error(source);
  auto count = list_samples(job);
  if (!count) return forward_error(count);
  Json answer;
  answer["samples"] = *count;
  answer["drawn"] = Json::array();
  answer["problems"] = Json::array();
  if (source->spec.kind == SourceKind::camera) return answer;  // a camera's frames cannot be read again
  auto engine = media::load_media_engine();
  if (!engine) return forward_error(engine);
  std::vector<std::string> class_names;
  for (const Json& name : get_member(job, "class_names"))
    class_names.push_back(name.is_string() ? name.get<std::string>() : std::string());
  OpenVideo video;
  std::ifstream lines(get_text(job, "samples"));
  for (std::int64_t number = 1; const auto sample = read_sample(lines); ++number) {
    media::Picture picture;
    const fs::path output = fs::path(get_text(job, "folder")) / image_name(get_text(job, "model"), number);
    auto read = read_frame(**engine, *source, static_cast<std::size_t>(sample->sequence), sample->frame,
                           video, picture);
    if (read) read = (*engine)->write_annotated(picture, sample->findings, class_names, output.string());
    if (read)
      answer["drawn"].push_back(output.filename().string());
    else
      answer["problems"].push_back(read.error().sentence());
    Json alive;
    alive["event"] = "alive";
    send_helper_event(alive);
  }
  return answer;
}

}  // namespace

Result<DrawnSamples> draw_samples(const std::string& model, const fs::path& samples,
                                  const std::vector<std::string>& class_names, const fs::path& metadata,
                                  const fs::path& run_folder, Interrupt& interrupt) {
  DrawnSamples drawn;
  std::error_code code;
  if (!fs::exists(samples, code)) return drawn;
  const fs::path folder = run_folder / "samples";
  if (auto made = make_folder(folder); !made) return forward_error(made);
  Json job;
  job["metadata"] = metadata.string();
  job["class_names"] = class_names;
  job["samples"] = samples.string();
  job["folder"] = folder.string();
  job["model"] = file_name_of(model);
  HelperPlan plan;
  plan.verb = "_annotate";
  plan.purpose = "drawing sample images";
  auto done = run_helper(plan, job, interrupt);
  fs::remove(samples, code);
  if (!done) return forward_error(done);
  for (const Json& name : get_member(*done, "drawn"))
    if (name.is_string()) drawn.images.push_back("samples/" + name.get<std::string>());
  const Json& problems = get_member(*done, "problems");
  if (!problems.empty() && problems.front().is_string())
    drawn.problem =
        fmt::format("{} of {} annotated samples could not be made: {}", problems.size(),
                    get_integer(*done, "samples").value_or(0), problems.front().get<std::string>());
  return drawn;
}

int run_annotate_process() { return serve_helper(draw); }

}  // namespace headroom::bench
