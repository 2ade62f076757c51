# The model pool with real sessions; benchmarks/results/model_pool.md.
if(TARGET headroom_backend_onnxruntime)
  add_executable(model_pool ${CMAKE_CURRENT_LIST_DIR}/model_pool.cpp ${CMAKE_CURRENT_LIST_DIR}/model_pool_optimum.cpp
    ${CMAKE_CURRENT_LIST_DIR}/model_pool_simulation.cpp ${CMAKE_CURRENT_LIST_DIR}/model_pool_tables.cpp)
  target_link_libraries(model_pool PRIVATE headroom_flags headroom_pool headroom_inference headroom_limits headroom_sources)
  add_dependencies(model_pool headroom_backend_onnxruntime)
endif()
