// Files of video object segmentation as other projects export them. Headroom recognises them by their
// signatures and runs them for time and memory. Their masks are not those of the reference algorithm, and the
// label says why.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "inference/backend.h"
#include "types/tensor.h"

namespace headroom::inference::vos {

// One graph of a family, and the names that it is recognised by.
struct FamilyGraph {
  std::string_view name;
  std::vector<std::string_view> inputs, outputs;
  bool needs_memories = false;  // does not run in the first frame
};

// Where an input gets its value from: an output of another graph (`last` 0: of this frame; n: the last n
// frames that there are, joined), or zeros with as many elements as other inputs of the same graph have
// together. The first feed that has a value is used. An input without one gets synthetic values.
struct FamilyFeed {
  std::string_view graph, input;
  std::string_view from, output;
  std::size_t last = 0;
  std::vector<std::string_view> zeros_like{};
};

struct Family {
  std::string_view id, title;
  std::vector<FamilyGraph> graphs;  // in the order in which they run
  std::vector<FamilyFeed> feeds;
  std::string_view faults;  // why its masks are not the reference's
};
const std::vector<Family>& families();

// A file and its signature.
struct NamedSignature {
  std::string file;
  ModelDescription description;
};
struct RecognisedFamily {
  const Family* family = nullptr;
  std::vector<std::size_t> files;  // index of the signature of each of the family's graphs
};
// The family to which the files belong. Errors (ErrorKind::input): the files segment single pictures, or are
// unknown.
Result<RecognisedFamily> recognise_family(std::span<const NamedSignature> files, const std::string& folder);

// "not the reference algorithm: …".
std::string label_of(const Family& family);

// Runs a family's graphs frame by frame, for time and memory. The image encoder runs once a frame, the other
// graphs once for each object.
class FamilyRun {
 public:
  // `model`: a folder, or the file of a family with one graph.
  static Result<FamilyRun> load(Backend& backend, const std::filesystem::path& model,
                                const RuntimeSettings& settings);
  FamilyRun(FamilyRun&&) noexcept;
  FamilyRun& operator=(FamilyRun&&) noexcept;
  ~FamilyRun();

  const Family& family() const;
  int side() const;  // S, pixels of the square input
  // Forgets all memories and keeps their memory.
  void start_video(std::size_t objects);
  // Runs the graphs on RGB planes [3,S,S] of bytes.
  Status step(std::span<const std::uint8_t> image);
  // The same with normalised values in half precision.
  Status step(std::span<const std::uint16_t> halves);
  Status end_video();
  Bytes bank_bytes() const;     // outputs of earlier frames
  Bytes scratch_bytes() const;  // inputs

 private:
  struct State;
  explicit FamilyRun(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace headroom::inference::vos
