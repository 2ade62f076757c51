# Decoding and analysis of recordings, which the tests' builder generates.
if(TARGET headroom_recording_builder)
  add_executable(analysis_benchmark ${CMAKE_CURRENT_LIST_DIR}/analysis_benchmark.cpp)
  target_link_libraries(analysis_benchmark PRIVATE headroom_flags headroom_attribution headroom_recording_builder)
endif()
