// Adds up the figures of the end summary while the command runs, in a thread with the lowest priority. So the
// prompt returns at once, however many events were recorded.
#pragma once

#include <condition_variable>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "attribution/heap_summary.h"
#include "recording/recording_follower.h"

namespace headroom::trace {

class LiveFigures {
 public:
  // `root`: the recording of the command's first process; the other ones are in its folder. `can_follow`:
  // they are in full mode without a ring. Otherwise this does nothing.
  LiveFigures(std::filesystem::path root, bool can_follow);
  LiveFigures(const LiveFigures&) = delete;
  LiveFigures& operator=(const LiveFigures&) = delete;
  ~LiveFigures();

  // Call after the command's end, before the recordings are changed: reads what is left.
  void finish();
  // After finish().
  bool has_figures_of(const std::filesystem::path& file) const {
    const auto found = followed_.find(file);
    return found != followed_.end() && found->second.summary;
  }
  // After finish(). Nothing if the recording has to be analysed: it is of another mode, or has memory of a
  // GPU or of a runtime's profile.
  std::optional<attribution::RecordingAnalysis> analysis_of(const std::filesystem::path& file,
                                                            const recording::Recording& recording) const;

 private:
  struct Followed {
    std::optional<recording::RecordingFollower>
        follower;  // nothing after the end, and if it cannot be followed
    std::optional<attribution::HeapSummary> summary;
    bool was_opened = false;
    bool was_closed = false;  // at the last read; a failed exec opens a recording again
  };

  void follow_until_end();
  void read_all(bool to_the_end);
  static void read(Followed& followed, bool to_the_end);

  std::filesystem::path root_;
  std::map<std::filesystem::path, Followed> followed_;
  std::mutex mutex_;
  std::condition_variable wakes_;
  bool has_ended_ = false;
  std::thread thread_;
};

}  // namespace headroom::trace
