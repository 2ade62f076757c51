/* One model in 128 MiB, from C: model_pool_c_example FACE.onnx */
#include <headroom/model_pool_c.h>
#include <stdio.h>

static float picture[128 * 128 * 3];

static int fail(const char* message) {
  fprintf(stderr, "%s\n", message);
  return 1;
}

int main(int count, char** arguments) {
  headroom_pool_options options = HEADROOM_POOL_OPTIONS_INIT;
  headroom_pool_model model = HEADROOM_POOL_MODEL_INIT;
  const int64_t dims[] = {1, 128, 128, 3};
  headroom_pool_error error;
  headroom_pool_tensor scores;
  if (count != 2) return 2;

  options.budget_bytes = 128 << 20;
  headroom_pool* pool = headroom_pool_create(&options, sizeof options, &error);
  if (pool == NULL) return fail(error.message);
  model.name = "face";
  model.path = arguments[1];
  if (headroom_pool_add(pool, &model, sizeof model, &error)) return fail(error.message);

  headroom_pool_session* session = headroom_pool_acquire(pool, "face", -1, 0);
  if (session == NULL || !headroom_pool_session_is_ready(session))
    return fail(session == NULL ? "out of memory" : headroom_pool_session_message(session));
  if (headroom_pool_session_set_input(session, 0, picture, sizeof picture, dims, 4, &error) ||
      headroom_pool_session_run(session, &error) ||
      headroom_pool_session_output(session, 0, &scores, &error))
    return fail(error.message);
  printf("face: %d dimensions, the first score is %f\n", (int)scores.rank,
         (double)((const float*)scores.data)[0]);
  headroom_pool_session_end(session);
  headroom_pool_destroy(pool);
  return 0;
}
