# Symbol look-ups; docs/symbols.md has the results.
if(TARGET headroom_symbols)
  add_executable(symbolizer_benchmark ${CMAKE_CURRENT_LIST_DIR}/symbolizer_benchmark.cpp)
  target_link_libraries(symbolizer_benchmark PRIVATE headroom_flags headroom_symbols)
endif()
