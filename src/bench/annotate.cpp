#include "bench/annotate.h"

#include <fmt/format.h>

#include <memory>

#include "base/files.h"
#include "base/json.h"
#include "base/run_folder.h"
#include "bench/helper_process.h"
#include "bench/worker_protocol.h"
#include "media/media_engine.h"
#include "media/source_json.h"

namespace headroom::bench {
namespace fs = std::filesystem;
namespace {

// The video that was read last, so that the samples of one, which come in order, take one pass over it.
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

Result<Json> draw(const Json& job) {
  auto text = read_file(get_text(job, "metadata"));
  if (!text) return forward_error(text);
  auto document = parse_json(*text, "metadata.json");
  if (!document) return forward_error(document);
  auto source = media::source_from_json(*document);
  if (!source) return forward_error(source);
  auto engine = media::load_media_engine();
  if (!engine) return forward_error(engine);
  std::vector<std::string> class_names;
  for (const Json& name : get_member(job, "class_names"))
    class_names.push_back(name.is_string() ? name.get<std::string>() : std::string());
  Json answer;
  answer["drawn"] = Json::array();
  answer["problems"] = Json::array();
  if (source->spec.kind == SourceKind::camera) return answer;  // its frames cannot be had again
  OpenVideo video;
  for (const Json& item : get_member(job, "items")) {
    media::Picture picture;
    const std::string output = get_text(item, "output");
    auto read =
        read_frame(**engine, *source, static_cast<std::size_t>(get_integer(item, "sequence").value_or(0)),
                   get_integer(item, "frame").value_or(0), video, picture);
    if (read)
      read = (*engine)->write_annotated(picture, findings_from_json(get_member(item, "findings")),
                                        class_names, output);
    if (read)
      answer["drawn"].push_back(output);
    else
      answer["problems"].push_back(read.error().sentence());
    Json alive;
    alive["event"] = "alive";
    send_helper_event(alive);
  }
  return answer;
}

}  // namespace

Result<DrawnSamples> draw_samples(const std::string& model, const std::vector<SampleFrame>& samples,
                                  const std::vector<std::string>& class_names, const fs::path& metadata,
                                  const fs::path& run_folder, Interrupt& interrupt) {
  DrawnSamples drawn;
  if (samples.empty()) return drawn;
  const fs::path folder = run_folder / "samples";
  if (auto made = make_folder(folder); !made) return forward_error(made);
  const std::string name = file_name_of(model);
  Json job;
  job["metadata"] = metadata.string();
  job["class_names"] = class_names;
  Json found = Json::array();
  for (std::size_t i = 0; i < samples.size(); ++i) {
    Json item;
    item["sequence"] = samples[i].sequence;
    item["frame"] = samples[i].frame;
    item["findings"] = to_json(samples[i].findings);
    item["output"] = (folder / fmt::format("{}_{}.jpg", name, i + 1)).string();
    Json entry;
    entry["name"] = samples[i].name;
    entry["frame"] = samples[i].frame;
    entry["image"] = fmt::format("samples/{}_{}.jpg", name, i + 1);
    entry["findings"] = item["findings"];
    if (entry["findings"].contains("masks"))  // pictures show masks; their pixels would swamp the file
      for (Json& mask : entry["findings"]["masks"]) mask.erase("values");
    found.push_back(std::move(entry));
    job["items"].push_back(std::move(item));
  }
  if (auto written = write_file_atomically(folder / (name + ".json"), to_text(found)); !written)
    return forward_error(written);
  HelperPlan plan;
  plan.verb = "_annotate";
  plan.purpose = "drawing sample images";
  auto done = run_helper(plan, job, interrupt);
  if (!done) return forward_error(done);
  for (const Json& path : get_member(*done, "drawn"))
    if (path.is_string())
      drawn.images.push_back("samples/" + fs::path(path.get<std::string>()).filename().string());
  const Json& problems = get_member(*done, "problems");
  if (!problems.empty() && problems.front().is_string())
    drawn.problem = fmt::format("{} of {} annotated samples could not be made: {}", problems.size(),
                                samples.size(), problems.front().get<std::string>());
  return drawn;
}

int run_annotate_process() { return serve_helper(draw); }

}  // namespace headroom::bench
