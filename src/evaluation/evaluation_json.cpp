#include "evaluation/evaluation_json.h"

#include "base/json.h"

namespace headroom::evaluation {
namespace {

template <class Score>
void add_figures(Json& object, const Score& score) {
  object["j_and_f"] = score.j_and_f();
  object["j_mean"] = score.j.mean;
  object["j_recall"] = score.j.recall;
  object["j_decay"] = score.j.decay;
  object["f_mean"] = score.f.mean;
  object["f_recall"] = score.f.recall;
  object["f_decay"] = score.f.decay;
}

Json object_to_json(const ObjectEvaluation& object) {
  Json json = {{"video", object.video}, {"object", object.object}};
  json.update(score_to_json(object.score));
  if (object.reference) json["reference"] = score_to_json(*object.reference);
  return json;
}

Json left_out_to_json(const VosLeftOut& item) {
  Json json = {{"video", item.video}};
  set_if(json, "object", item.object);
  json["why"] = item.why;
  return json;
}

}  // namespace

Json score_to_json(const ObjectScore& score) {
  Json json = {{"frames", score.frames}, {"missing_frames", score.missing_frames}};
  add_figures(json, score);
  return json;
}

Json score_to_json(const MeanScore& score) {
  Json json = {{"objects", score.objects}};
  add_figures(json, score);
  return json;
}

Json evaluation_to_json(const Evaluation& evaluation) {
  Json json = {{"schema_version", kEvaluationSchemaVersion},
               {"task", "vos"},
               {"dataset", evaluation.dataset},
               {"predictions", evaluation.predictions},
               {"layout", name_of(evaluation.layout)},
               {"protocol", name_of(evaluation.protocol)}};
  json["mean"] = score_to_json(mean_score(evaluation.objects));
  if (const MeanScore reference = mean_reference_score(evaluation.objects); reference.objects > 0)
    json["reference"] = score_to_json(reference);
  json["objects"] = json_list(evaluation.objects, object_to_json);
  json["left_out"] = json_list(evaluation.left_out, left_out_to_json);
  return json;
}

}  // namespace headroom::evaluation
