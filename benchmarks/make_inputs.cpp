// Writes the input tensors that a model gets from a source, as raw numbers. A bare runtime loop can then use
// exactly the inputs of Headroom's worker (benchmarks/truth.py).
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
#include "source_frames.h"

namespace {

using namespace headroom;

int complain(const Error& error) {
  std::fprintf(stderr, "make_inputs: %s\n", error.sentence().c_str());
  return 1;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 5) {
    std::fprintf(stderr, "usage: make_inputs MODEL SOURCE FRAMES OUTPUT [IMGSZ]\n");
    return 2;
  }
  auto file = inference::choose_backend(arguments[1], "", "cpu");
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
  const auto wanted = static_cast<std::size_t>(std::atoi(arguments[3]));
  auto frames = bench_support::first_frames(arguments[2], wanted);
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
