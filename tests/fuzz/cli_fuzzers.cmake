headroom_fuzzer(config_toml_fuzzer
  SOURCES config_toml_fuzzer.cpp
  LINK headroom_cli
  CORPUS ${CMAKE_CURRENT_SOURCE_DIR}/corpus/config_toml)
