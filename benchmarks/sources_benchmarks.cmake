# Parsers of other tools' output, and the cost of a sample.
find_package(benchmark REQUIRED)
add_executable(tegrastats_benchmark ${CMAKE_CURRENT_LIST_DIR}/tegrastats_benchmark.cpp)
target_link_libraries(tegrastats_benchmark PRIVATE headroom_flags headroom_sources benchmark::benchmark)
target_compile_definitions(tegrastats_benchmark PRIVATE HEADROOM_TEGRASTATS_CORPUS="${CMAKE_SOURCE_DIR}/tests/fuzz/corpus/tegrastats")
add_executable(sources_benchmark ${CMAKE_CURRENT_LIST_DIR}/sources_benchmark.cpp ${CMAKE_SOURCE_DIR}/tests/support/counting_new.cpp)
target_include_directories(sources_benchmark PRIVATE ${CMAKE_SOURCE_DIR}/tests)
target_link_libraries(sources_benchmark PRIVATE headroom_flags headroom_sources benchmark::benchmark)
