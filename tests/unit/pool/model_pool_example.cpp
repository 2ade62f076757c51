// Two models in 128 MiB: model_pool_example FACE.onnx TEXT.onnx
#include <headroom/model_pool.h>

#include <cstdio>
#include <exception>
#include <vector>

int main(int count, char** arguments) try {
  if (count != 3) return 2;
  headroom::ModelPool pool({.budget_bytes = 128 << 20, .events_to = "pool-events.jsonl"});
  pool.add({.name = "face", .path = arguments[1], .image_size = 128});
  pool.add({.name = "text", .path = arguments[2], .image_size = 160});
  std::vector<float> picture;  // made before the sessions that read it, so it ends after them
  for (int frame = 0; frame < 4; ++frame) {
    for (const char* name : {"face", "text"}) {
      headroom::PoolSession session = pool.acquire(name, {.deadline = std::chrono::seconds(30)});
      if (!session) {
        std::fprintf(stderr, "%s\n", session.message().c_str());
        continue;
      }
      const long long side = session.inputs()[0].dims[2] > 0 ? session.inputs()[0].dims[2] : 160;
      const bool is_last = session.inputs()[0].dims[3] == 3;  // face: [1,128,128,3]; text: [1,3,160,160]
      picture.assign(static_cast<std::size_t>(3 * side * side), 0.5F);
      const std::vector<std::int64_t> dims =
          is_last ? std::vector<std::int64_t>{1, side, side, 3} : std::vector<std::int64_t>{1, 3, side, side};
      session.set_input(0, picture.data(), picture.size() * sizeof(float), dims);
      session.run();
      const headroom::PoolTensor scores = session.output(0);
      std::printf("%s: %f\n", name, static_cast<double>(static_cast<const float*>(scores.data)[0]));
    }
  }
  const headroom::PoolMetrics metrics = pool.metrics();
  std::printf("%lld requests, %lld hits, %lld loads\n", static_cast<long long>(metrics.requests),
              static_cast<long long>(metrics.hits), static_cast<long long>(metrics.loads));
} catch (const std::exception& exception) {
  std::fprintf(stderr, "%s\n", exception.what());
  return 1;
}
