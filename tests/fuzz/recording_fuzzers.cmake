# The recording reader. Included by CMakeLists.txt.
headroom_fuzzer(recording_fuzzer SOURCES ${CMAKE_CURRENT_LIST_DIR}/recording_fuzzer.cpp LINK headroom_recording
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/recording)
# The ledger of GPU memory, with sequences of calls.
headroom_fuzzer(ledger_fuzzer SOURCES ${CMAKE_CURRENT_LIST_DIR}/ledger_fuzzer.cpp LINK headroom_ledger
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/ledger)
# The ledger through the hooks of the CUDA driver, in front of the fake driver.
headroom_fuzzer(device_hooks_fuzzer SOURCES ${CMAKE_CURRENT_LIST_DIR}/device_hooks_fuzzer.cpp LINK headroom_preload_device_hooks
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/device_hooks)
target_include_directories(device_hooks_fuzzer PRIVATE ${CMAKE_SOURCE_DIR}/tests)
target_compile_definitions(device_hooks_fuzzer PRIVATE HEADROOM_FAKE_CUDA="${fake_cuda}")
add_dependencies(device_hooks_fuzzer fake_cuda_driver)
