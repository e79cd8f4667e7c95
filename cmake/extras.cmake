# Programs and benchmarks.

target_compile_definitions(cli PRIVATE DET_VERSION="${PROJECT_VERSION}")
add_executable(det src/cli/main.c)
target_link_libraries(det PRIVATE cli)
install(TARGETS det RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})

# det-run exports what is public in it (DET_API) to the trials that it loads, so all of libdet is in it.
if(NOT DET_FUZZ)
  get_property(layers GLOBAL PROPERTY det_library_layers)
  list(TRANSFORM layers REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE archives)
  add_executable(det-run src/run/main.c)
  target_link_libraries(det-run PRIVATE -Wl,--whole-archive ${archives} -Wl,--no-whole-archive run ${layers})
  set_target_properties(det-run PROPERTIES ENABLE_EXPORTS ON)
  add_executable(det-launch src/run/main_launch.c)
  target_link_libraries(det-launch PRIVATE run)
  install(TARGETS det-run det-launch RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})

  # Manual pages and completion are what the programs say about themselves.
  foreach(program det det-run det-launch)
    add_custom_command(OUTPUT ${program}.1 COMMAND ${program} --man > ${program}.1 VERBATIM)
    install(FILES ${PROJECT_BINARY_DIR}/${program}.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  endforeach()
  add_custom_command(OUTPUT det.bash COMMAND det completion bash > det.bash VERBATIM)
  add_custom_target(man ALL DEPENDS det.1 det-run.1 det-launch.1 det.bash)
  install(FILES ${PROJECT_BINARY_DIR}/det.bash RENAME det
          DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
endif()

# What tests compile themselves, as users do, must be sanitized like the library.
set(like_users TIMEOUT 600)
if(DET_SANITIZE)
  file(WRITE ${PROJECT_BINARY_DIR}/compiler/cc
       "#!/bin/sh\nexec '${CMAKE_C_COMPILER}' \"$@\" '-fsanitize=${DET_SANITIZE}'\n")
  file(CHMOD ${PROJECT_BINARY_DIR}/compiler/cc PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
  set(like_users TIMEOUT 1800 ENVIRONMENT_MODIFICATION
      "PATH=path_list_prepend:${PROJECT_BINARY_DIR}/compiler")
endif()

# Tests of the real programs: each script gets the path of det; det-run is next to it.
if(DET_TESTS)
  file(GLOB scripts CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/e2e/*.sh
       ${PROJECT_SOURCE_DIR}/tests/e2e/*.py)
  list(FILTER scripts EXCLUDE REGEX "/(lib\\.sh|check_outputs\\.py|interrupt\\.py)$") # called by tests
  if(DET_FUZZ) # there is no library
    list(FILTER scripts EXCLUDE REGEX "/(install\\.sh|examples_local\\.sh|master_inference\\.py)$")
  endif()
  foreach(script ${scripts})
    get_filename_component(test ${script} NAME_WE)
    add_test(NAME e2e_${test} COMMAND ${script} $<TARGET_FILE:det>)
    set_tests_properties(e2e_${test} PROPERTIES LABELS e2e ${like_users})
  endforeach()
  add_test(NAME e2e_kill_long COMMAND ${PROJECT_SOURCE_DIR}/tests/e2e/kill/kill.py
           $<TARGET_FILE:det-run> 200 all)
  add_test(NAME e2e_kill_slots COMMAND ${PROJECT_SOURCE_DIR}/tests/e2e/kill/kill.py
           $<TARGET_FILE:det-run> 100 2)
  set_tests_properties(e2e_kill_long e2e_kill_slots PROPERTIES LABELS long TIMEOUT 3600)
  add_test(NAME e2e_master_kills COMMAND ${PROJECT_SOURCE_DIR}/tests/e2e/master_durable.py
           $<TARGET_FILE:det> 1000)
  set_tests_properties(e2e_master_kills PROPERTIES LABELS long TIMEOUT 3600)
  add_test(NAME e2e_master_connections_long COMMAND ${PROJECT_SOURCE_DIR}/tests/e2e/master_connections.py
           $<TARGET_FILE:det> many)
  set_tests_properties(e2e_master_connections_long PROPERTIES LABELS long TIMEOUT 3600)
  add_test(NAME e2e_search_kills_long COMMAND ${PROJECT_SOURCE_DIR}/tests/e2e/search_kills.py
           $<TARGET_FILE:det> 50)
  set_tests_properties(e2e_search_kills_long PROPERTIES LABELS long TIMEOUT 3600)
endif()

# Comparison of the engine with torch (python3-torch), see tests/parity/. The threads of torch spin
# while they wait, which two tests at a time do not stand.
set(one_thread OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1)
if(DET_TESTS)
  add_executable(op_parity tests/parity/op_parity.c tests/parity/op_calls.c)
  target_link_libraries(op_parity PRIVATE tensor)
  add_test(NAME op_parity COMMAND /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/parity/op_parity.py
           $<TARGET_FILE:op_parity>)
  set_tests_properties(op_parity PROPERTIES LABELS parity TIMEOUT 600 ENVIRONMENT "${one_thread}")

  add_executable(write_parity tests/parity/write_parity.c tests/support/wire.c)
  target_include_directories(write_parity PRIVATE tests)
  target_link_libraries(write_parity PRIVATE tensor)
  set(write_parity /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/parity/write_parity.py
      $<TARGET_FILE:write_parity>)
  add_test(NAME write_parity COMMAND ${write_parity} 3000)
  set_tests_properties(write_parity PROPERTIES LABELS parity TIMEOUT 600 ENVIRONMENT "${one_thread}")
  add_test(NAME write_parity_long COMMAND ${write_parity} 60000)
  set_tests_properties(write_parity_long PROPERTIES LABELS long TIMEOUT 3600 ENVIRONMENT "${one_thread}")

  add_executable(format_parity tests/parity/format_parity.c)
  target_link_libraries(format_parity PRIVATE format)
  add_test(NAME format_parity COMMAND /usr/bin/python3
           ${PROJECT_SOURCE_DIR}/tests/parity/format_parity.py $<TARGET_FILE:format_parity> 60)
  set_tests_properties(format_parity PROPERTIES LABELS parity TIMEOUT 600 ENVIRONMENT "${one_thread}")
endif()

# Unit tests that loop over the operation table.
if(DET_TESTS)
  foreach(test test_tensor_errors test_tensor_grad)
    target_sources(${test} PRIVATE tests/support/op_cases.c)
  endforeach()
endif()

# A master without processes, for tests that talk to it.
if(DET_TESTS)
  target_sources(test_master_requests PRIVATE tests/support/requests.c tests/support/fake_rm.c)
endif()

# Comparison of modules, optimizers, schedules and whole models with torch.
if(DET_TESTS)
  add_executable(nn_parity tests/parity/nn_parity.c tests/support/models.c tests/support/wire.c)
  target_include_directories(nn_parity PRIVATE tests)
  target_link_libraries(nn_parity PRIVATE optim)
  add_test(NAME nn_parity COMMAND /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/parity/nn_parity.py
           $<TARGET_FILE:nn_parity>)
  set_tests_properties(nn_parity PROPERTIES LABELS parity TIMEOUT 600 ENVIRONMENT "${one_thread}")

  add_executable(accuracy tests/parity/accuracy.c tests/support/models.c tests/support/wire.c)
  target_include_directories(accuracy PRIVATE tests)
  target_link_libraries(accuracy PRIVATE optim)
  add_test(NAME accuracy COMMAND /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/parity/accuracy.py
           $<TARGET_FILE:accuracy> short)
  set_tests_properties(accuracy PROPERTIES LABELS parity TIMEOUT 600 ENVIRONMENT "${one_thread}")
endif()

# Benchmarks, see bench/. Part of the release build, so that what is measured is what is installed.
if(DET_BENCH)
  add_executable(bench-engine bench/engine.c tests/support/models.c)
  target_include_directories(bench-engine PRIVATE tests)
  target_link_libraries(bench-engine PRIVATE optim)
  add_executable(bench-ingest bench/ingest.c)
  target_link_libraries(bench-ingest PRIVATE sys)
  add_executable(bench-fill bench/fill.c)
  target_link_libraries(bench-fill PRIVATE db)
  add_executable(bench-search bench/search.c)
  target_link_libraries(bench-search PRIVATE search sys)

  add_executable(bench-trial bench/trial.c tests/support/models.c)
  target_include_directories(bench-trial PRIVATE tests)
  target_link_libraries(bench-trial PRIVATE train)
  add_executable(bench-ranks bench/ranks.c tests/support/models.c)
  target_include_directories(bench-ranks PRIVATE tests)
  target_link_libraries(bench-ranks PRIVATE train)
  add_executable(bench-loader bench/loader.c)
  target_link_libraries(bench-loader PRIVATE data)
endif()

# The example that needs nothing but the engine; the others are compiled by det-run.
if(NOT DET_FUZZ)
  add_executable(mnist examples/plain/mnist.c)
  target_link_libraries(mnist PRIVATE optim data)
endif()

# Sums over ranks are loops over memory.
target_compile_options(dist PRIVATE -O3)

# The same seed gives the same trials on any processor.
target_compile_options(search PRIVATE -ffp-contract=off)

# The long forms of tests that scripts/check runs with fewer events.
if(DET_TESTS)
  add_test(NAME sched_million_events COMMAND test_sched_random 1000000)
  set_tests_properties(sched_million_events PROPERTIES LABELS long TIMEOUT 600)
  add_test(NAME search_properties_all COMMAND test_search_properties 10000)
  set_tests_properties(search_properties_all PROPERTIES LABELS long TIMEOUT 36000)
endif()

# The examples, as a user would build them: with the installed headers and the shared library.
if(DET_TESTS AND NOT DET_FUZZ)
  add_executable(example_onevar examples/onevar/train.c examples/onevar/model_def.c)
  add_executable(example_mnist examples/mnist/train.c examples/mnist/model_def.c
                 examples/mnist/tutorial.c)
  add_executable(example_accelerated_mnist examples/accelerated_mnist/model.c)
  add_executable(example_predict examples/batch_inference/predict.c examples/mnist/model_def.c)
  add_custom_command(OUTPUT docs_accelerated.c DEPENDS docs/accelerated.md scripts/doc-code
    COMMAND scripts/doc-code docs/accelerated.md ${PROJECT_BINARY_DIR}/docs_accelerated.c
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} VERBATIM)
  add_executable(docs_accelerated ${PROJECT_BINARY_DIR}/docs_accelerated.c)
  foreach(example example_onevar example_mnist example_accelerated_mnist example_predict docs_accelerated)
    target_link_libraries(${example} PRIVATE det_shared m)
  endforeach()
  add_test(NAME example_onevar COMMAND example_onevar)
  set_tests_properties(example_onevar PROPERTIES LABELS e2e TIMEOUT 60
                       PASS_REGULAR_EXPRESSION "trained 20 batches, w is 0.038286")
endif()

# The examples of the Generic API, and a test that plays the master for them.
if(DET_TESTS AND NOT DET_FUZZ)
  add_executable(example_generic examples/generic/train.c)
  target_link_libraries(example_generic PRIVATE det_shared)
  add_dependencies(test_client_examples example_generic)
  target_compile_definitions(test_client_examples PRIVATE EXAMPLE_C="$<TARGET_FILE:example_generic>")
endif()

# Checkpoints of the accelerated trainer, to torch and back.
if(DET_TESTS)
  add_executable(accel_parity tests/parity/accel_parity.c)
  target_link_libraries(accel_parity PRIVATE accel)
  add_test(NAME accel_parity COMMAND /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/parity/accel_parity.py
           $<TARGET_FILE:accel_parity>)
  set_tests_properties(accel_parity PROPERTIES LABELS parity TIMEOUT 300 ENVIRONMENT "${one_thread}")
endif()

# Checkpoints of trainings, opened by torch and continued, and the other way round.
if(DET_TESTS)
  add_executable(train_parity tests/parity/train_parity.c)
  target_link_libraries(train_parity PRIVATE train)
  add_test(NAME train_parity COMMAND /usr/bin/python3
           ${PROJECT_SOURCE_DIR}/tests/parity/train_parity.py $<TARGET_FILE:train_parity>)
  set_tests_properties(train_parity PROPERTIES LABELS parity TIMEOUT 300 ENVIRONMENT "${one_thread}")
endif()

# The MNIST example beside torch, on the real digits.
if(DET_TESTS AND NOT DET_FUZZ)
  add_executable(mnist_parity tests/parity/mnist_parity.c examples/mnist/model_def.c)
  target_link_libraries(mnist_parity PRIVATE det_shared)
  set(script /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/parity/mnist_parity.py)
  add_test(NAME mnist_parity COMMAND ${script} losses $<TARGET_FILE:mnist_parity>)
  add_test(NAME mnist_parity_errors COMMAND ${script} errors $<TARGET_FILE:mnist_parity>)
  set_tests_properties(mnist_parity PROPERTIES LABELS parity TIMEOUT 600 ENVIRONMENT "${one_thread}")
  set_tests_properties(mnist_parity_errors PROPERTIES LABELS long TIMEOUT 3600 ENVIRONMENT "${one_thread}")
endif()

# What documents say is done, and comes out as they say.
if(DET_TESTS AND NOT DET_FUZZ)
  foreach(document README docs/tutorial-mnist docs/generic-api docs/guide-porting docs/guide-debugging
          docs/guide-data docs/config)
    string(REGEX REPLACE "^docs/" "" name ${document})
    add_test(NAME docs_${name} COMMAND ${PROJECT_SOURCE_DIR}/tests/docs/run.py ${PROJECT_BINARY_DIR}
             ${PROJECT_SOURCE_DIR}/${document}.md)
    set_tests_properties(docs_${name} PROPERTIES LABELS e2e ${like_users})
  endforeach()
endif()

if(DET_SANITIZE STREQUAL "thread") # the only kernels that are sanitized: see layers.cmake
  get_property(tests DIRECTORY PROPERTY TESTS)
  set_property(TEST ${tests} APPEND PROPERTY ENVIRONMENT DET_ISA=plain)
endif()
