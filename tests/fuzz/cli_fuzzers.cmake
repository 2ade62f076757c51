headroom_fuzzer(config_toml_fuzzer
  SOURCES config_toml_fuzzer.cpp
  LINK headroom_cli
  CORPUS ${CMAKE_CURRENT_SOURCE_DIR}/corpus/config_toml)
headroom_fuzzer(alert_rules_fuzzer
  SOURCES alert_rules_fuzzer.cpp
  LINK headroom_watch
  CORPUS ${CMAKE_CURRENT_SOURCE_DIR}/corpus/alert_rules)
headroom_fuzzer(budget_fuzzer
  SOURCES budget_fuzzer.cpp
  LINK headroom_planning
  CORPUS ${CMAKE_CURRENT_SOURCE_DIR}/corpus/budget)
