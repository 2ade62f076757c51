# What the benchmarks on a machine with a GPU need: built by the target gpu_benchmarks, alone where the rest cannot be.
add_custom_target(gpu_benchmarks)
add_executable(nvml_readings nvml_readings.cpp)
target_link_libraries(nvml_readings PRIVATE headroom_flags headroom_sources)
add_dependencies(gpu_benchmarks nvml_readings)
