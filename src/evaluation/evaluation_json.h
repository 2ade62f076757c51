// The result of an evaluation as JSON (docs/evaluate.md). `bench` uses the same keys.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "evaluation/predictions.h"

namespace headroom::evaluation {

// Major version: raised when a key changes its meaning or goes; keys may be added without.
inline constexpr int kEvaluationSchemaVersion = 1;

// j_and_f, j_mean, j_recall, j_decay, f_mean, f_recall, f_decay.
nlohmann::ordered_json score_to_json(const ObjectScore& score);
nlohmann::ordered_json score_to_json(const MeanScore& score);

nlohmann::ordered_json evaluation_to_json(const Evaluation& evaluation);

}  // namespace headroom::evaluation
