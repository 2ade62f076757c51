// Writes the input tensors that a model gets from a source, as raw numbers, so that a bare runtime loop can
// be given exactly the inputs that Headroom's worker gives (bench/truth.py).
//
//   make_inputs MODEL SOURCE FRAMES OUTPUT [IMGSZ]
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "inference/backend.h"
#include "inference/preprocessor.h"
#include "inference/task.h"
#include "media/media_engine.h"
#include "media/source_scan.h"

namespace {

using namespace headroom;

int complain(const Error& error) {
  std::fprintf(stderr, "make_inputs: %s\n", error.sentence().c_str());
  return 1;
}

Result<std::vector<media::Picture>> first_frames(media::MediaEngine& engine, const SourceMetadata& source,
                                                 std::size_t count) {
  std::vector<media::Picture> frames;
  for (const SourceSequence& sequence : source.sequences) {
    for (const std::string& image : sequence.images) {
      if (frames.size() == count) return frames;
      media::Picture picture;
      if (engine.decode_image(sequence.path + "/" + image, picture)) frames.push_back(std::move(picture));
    }
    if (!sequence.images.empty()) continue;
    auto video = engine.open_video(sequence.path);
    if (!video) return forward_error(video);
    while (frames.size() < count) {
      media::Picture picture;
      auto more = (*video)->next(picture);
      if (!more || !*more) break;
      frames.push_back(std::move(picture));
    }
  }
  return frames;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 5) {
    std::fprintf(stderr, "usage: make_inputs MODEL SOURCE FRAMES OUTPUT [IMGSZ]\n");
    return 2;
  }
  auto file = inference::choose_backend(arguments[1], "");
  if (!file) return complain(file.error());
  auto backend = inference::Backend::open(*file);
  if (!backend) return complain(backend.error());
  if (auto started = backend->start(); !started) return complain(started.error());
  auto session = backend->load(arguments[1], RuntimeSettings{});
  if (!session) return complain(session.error());
  inference::TaskOptions options;
  if (count > 5) options.image_size = std::atoi(arguments[5]);
  auto task = inference::create_task(session->description(), options);
  if (!task) return complain(task.error());
  if (*task == nullptr) {
    std::fprintf(stderr, "make_inputs: the model has no vision task, so it takes no frames\n");
    return 1;
  }
  auto engine = media::load_media_engine();
  if (!engine) return complain(engine.error());
  auto spec = media::parse_source(arguments[2]);
  if (!spec) return complain(spec.error());
  const auto wanted = static_cast<std::size_t>(std::atoi(arguments[3]));
  auto source = media::scan_source(**engine, *spec, {0, 0, static_cast<std::int64_t>(wanted)});
  if (!source) return complain(source.error());
  auto frames = first_frames(**engine, *source, wanted);
  if (!frames) return complain(frames.error());
  const inference::InputSpec& input = (*task)->input();
  inference::Preprocessor preprocessor(input);
  const auto elements = static_cast<std::size_t>(element_count((*task)->input_dims()[input.input_index]));
  std::vector<char> tensor(elements * size_of(input.type));
  std::ofstream output(arguments[4], std::ios::binary);
  for (const media::Picture& frame : *frames) {
    preprocessor.run(frame.bgr.data(), frame.width, frame.height, static_cast<std::size_t>(frame.width) * 3,
                     tensor.data());
    output.write(tensor.data(), static_cast<std::streamsize>(tensor.size()));
  }
  std::printf("%zu frames of %zu bytes\n", frames->size(), tensor.size());
  return output ? 0 : 1;
}
