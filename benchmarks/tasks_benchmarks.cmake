# Pre-processing, suppression and scores of masks; docs/tasks.md and docs/evaluate.md have the results.
find_package(benchmark REQUIRED)
foreach(name preprocess nms)
  add_executable(${name}_benchmark ${CMAKE_CURRENT_LIST_DIR}/${name}_benchmark.cpp)
  target_link_libraries(${name}_benchmark PRIVATE headroom_flags headroom_tasks benchmark::benchmark)
endforeach()
target_link_libraries(preprocess_benchmark PRIVATE headroom_opencv)
add_executable(mask_metrics_benchmark ${CMAKE_CURRENT_LIST_DIR}/mask_metrics_benchmark.cpp)
target_link_libraries(mask_metrics_benchmark PRIVATE headroom_flags headroom_evaluation benchmark::benchmark)
