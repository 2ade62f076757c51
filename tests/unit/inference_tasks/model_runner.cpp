#include "model_runner.h"

#include <algorithm>

#include "support/test_support.h"

namespace headroom::test {

std::filesystem::path plugin_path() { return built_path("bin/libheadroom_backend_onnxruntime.so"); }

Result<ModelRunner> ModelRunner::open(const std::filesystem::path& model,
                                      const inference::TaskOptions& options) {
  const inference::BackendFile plugin{"onnxruntime", plugin_path()};
  auto backend = inference::Backend::open(plugin);
  if (!backend) return forward_error(backend);
  if (auto started = backend->start(); !started) return forward_error(started);
  RuntimeSettings settings;
  settings.threads = 1;
  auto session = backend->load(model, settings);
  if (!session) return forward_error(session);
  ModelRunner runner(std::move(*session));
  auto task = inference::create_task(runner.session_.description(), options);
  if (!task) return forward_error(task);
  if (*task == nullptr) return input_error("no task recognises " + model.string());
  runner.task_ = std::move(*task);
  runner.preprocessor_ = std::make_unique<inference::Preprocessor>(runner.task_->input());
  const auto& specs = runner.session_.description().inputs;
  runner.inputs_.resize(specs.size());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const auto& dims = runner.task_->input_dims()[i];
    const auto bytes = static_cast<std::size_t>(element_count(dims)) * size_of(specs[i].type);
    runner.inputs_[i].resize(bytes);
    auto bound = runner.session_.bind_input(i, runner.inputs_[i].data(), bytes, specs[i].type, dims);
    if (!bound) return forward_error(bound);
  }
  return runner;
}

Result<const FrameFindings*> ModelRunner::find(const cv::Mat& picture) {
  transform_ = preprocessor_->run(picture.data, picture.cols, picture.rows, picture.step,
                                  inputs_[task_->input().input_index].data());
  if (auto ran = session_.run(); !ran) return forward_error(ran);
  if (auto got = session_.outputs(outputs_); !got) return forward_error(got);
  findings_.clear();
  task_->decode(outputs_, transform_, findings_);
  return &findings_;
}

float iou(const Detection& detection, const std::array<float, 4>& box) {
  const float width = std::min(detection.right, box[2]) - std::max(detection.left, box[0]);
  const float height = std::min(detection.bottom, box[3]) - std::max(detection.top, box[1]);
  if (width <= 0 || height <= 0) return 0;
  const float shared = width * height;
  return shared / ((detection.right - detection.left) * (detection.bottom - detection.top) +
                   (box[2] - box[0]) * (box[3] - box[1]) - shared);
}

}  // namespace headroom::test
