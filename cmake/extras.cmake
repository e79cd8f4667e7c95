# Programs, benchmarks and fuzz targets.

# Comparison of the engine with torch (python3-torch), see tests/parity/.
if(DET_TESTS)
  add_executable(op_parity tests/parity/op_parity.c tests/support/op_cases.c)
  target_include_directories(op_parity PRIVATE tests)
  target_link_libraries(op_parity PRIVATE tensor)
  add_test(NAME op_parity COMMAND /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/parity/op_parity.py
           $<TARGET_FILE:op_parity> 3)
  set_tests_properties(op_parity PROPERTIES LABELS parity TIMEOUT 600)
endif()
