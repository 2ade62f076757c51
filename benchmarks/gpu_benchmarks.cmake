# Programs for the benchmarks on a machine with a GPU. The target gpu_benchmarks builds them, also
# where the rest cannot be built.
add_custom_target(gpu_benchmarks)
add_executable(nvml_readings nvml_readings.cpp)
target_link_libraries(nvml_readings PRIVATE headroom_flags headroom_sources)
add_executable(gpu_call_cost gpu_call_cost.cpp ${CMAKE_SOURCE_DIR}/src/preload/loaded_objects.cpp)
target_link_libraries(gpu_call_cost PRIVATE headroom_flags ${CMAKE_DL_LIBS})
add_executable(make_account make_account.cpp)
target_link_libraries(make_account PRIVATE headroom_ledger)
add_dependencies(gpu_benchmarks nvml_readings gpu_call_cost make_account headroom_trace)
if(TARGET traced_cuda)  # from the tests
  add_dependencies(gpu_benchmarks traced_cuda)
endif()
