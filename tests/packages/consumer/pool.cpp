// pool MODEL: runs a model once in a pool of 256 MiB, and prints the number of loads.
#include <headroom/model_pool.h>
#include <headroom/scope.h>

#include <cstdio>
#include <exception>
#include <vector>

int main(int count, char** arguments) try {
  if (count != 2) return 2;
  const headroom::Scope scope("pool");
  headroom::ModelPool pool({.budget_bytes = 256 << 20});
  pool.add({.name = "model", .path = arguments[1], .image_size = 128});
  std::vector<float> picture;  // outlives the session, which reads it
  headroom::PoolSession session = pool.acquire("model", {.deadline = std::chrono::seconds(30)});
  if (!session) {
    std::fprintf(stderr, "%s\n", session.message().c_str());
    return 1;
  }
  const std::vector<std::int64_t> dims = session.inputs()[0].dims;
  std::size_t elements = 1;
  for (const std::int64_t dim : dims) elements *= static_cast<std::size_t>(dim);
  picture.assign(elements, 0.5F);
  session.set_input(0, picture.data(), elements * sizeof(float), dims);
  session.run();
  std::printf("%lld loads\n", static_cast<long long>(pool.metrics().loads));
} catch (const std::exception& exception) {
  std::fprintf(stderr, "%s\n", exception.what());
  return 1;
}
