# det_unit_tests(), det_test(), det_parity(), det_fuzz(): how tests/ becomes programs and tests of ctest.

# One program from each tests/unit/test_<layer>*.c that links the whole layer and its USES, and nothing
# more: a call to a forbidden layer does not link.
function(det_unit_tests layer)
  file(GLOB tests CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/unit/test_${layer}.c
       ${PROJECT_SOURCE_DIR}/tests/unit/test_${layer}_*.c)
  foreach(source ${tests})
    get_filename_component(test ${source} NAME_WE)
    det_unit_test(${test} LAYER ${layer} SOURCES ${source})
  endforeach()
endfunction()

# det_unit_test(name LAYER layer SOURCES ...): one of them.
function(det_unit_test test)
  cmake_parse_arguments(U "" "LAYER" "SOURCES" ${ARGN})
  get_property(loads GLOBAL PROPERTY det_loads_${U_LAYER})
  add_executable(${test} ${U_SOURCES})
  target_include_directories(${test} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${test} PRIVATE $<LINK_LIBRARY:WHOLE_ARCHIVE,${U_LAYER}> PkgConfig::cmocka)
  foreach(lib ${loads}) # a test may make with it what the layer has to read
    target_link_libraries(${test} PRIVATE PkgConfig::${lib})
  endforeach()
  det_test(${test} LABEL unit TIMEOUT 300 FOLDER ${PROJECT_SOURCE_DIR} COMMAND ${test})
endfunction()

# det_test(name LABEL unit|e2e|parity|fuzz|long TIMEOUT seconds COMMAND ... [ENV NAME=VALUE ...]
#          [FOLDER to run in] [PASS regular expression that the output has] [SERIAL] [COMPILES])
# SERIAL: nothing else runs at the same time. COMPILES: it calls the compiler, as users do.
function(det_test name)
  cmake_parse_arguments(T "SERIAL;COMPILES" "LABEL;TIMEOUT;FOLDER;PASS" "COMMAND;ENV" ${ARGN})
  if(T_COMPILES AND DET_SANITIZE)
    math(EXPR T_TIMEOUT "${T_TIMEOUT} * 3")
  endif()
  if(DET_SANITIZE STREQUAL "thread") # the only kernels that are sanitized: see det_kernels()
    list(APPEND T_ENV DET_ISA=plain)
  endif()
  if(NOT T_FOLDER)
    set(T_FOLDER ${PROJECT_BINARY_DIR})
  endif()
  add_test(NAME ${name} COMMAND ${T_COMMAND} WORKING_DIRECTORY ${T_FOLDER})
  set_tests_properties(${name} PROPERTIES LABELS ${T_LABEL} TIMEOUT ${T_TIMEOUT})
  if(T_PASS)
    set_tests_properties(${name} PROPERTIES PASS_REGULAR_EXPRESSION ${T_PASS})
  endif()
  if(T_ENV)
    set_tests_properties(${name} PROPERTIES ENVIRONMENT "${T_ENV}")
  endif()
  if(T_SERIAL)
    set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
  endif()
  if(T_COMPILES AND DET_SANITIZE)
    set_tests_properties(${name} PROPERTIES ENVIRONMENT_MODIFICATION
                         "PATH=path_list_prepend:${PROJECT_BINARY_DIR}/compiler")
  endif()
endfunction()

# What tests compile themselves, as users do, must be sanitized like the library.
function(det_sanitized_compiler)
  if(DET_SANITIZE)
    file(WRITE ${PROJECT_BINARY_DIR}/compiler/cc
         "#!/bin/sh\nexec '${CMAKE_C_COMPILER}' \"$@\" '-fsanitize=${DET_SANITIZE}'\n")
    file(CHMOD ${PROJECT_BINARY_DIR}/compiler/cc PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
  endif()
endfunction()

# det_parity(name LAYER layer [SOURCES more.c ...]): a program from tests/parity/<name>.c, to which
# tests/parity/<name>.py talks.
function(det_parity name)
  cmake_parse_arguments(P "" "LAYER" "SOURCES" ${ARGN})
  add_executable(${name} ${PROJECT_SOURCE_DIR}/tests/parity/${name}.c ${P_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE ${P_LAYER})
endfunction()

# det_parity_test(test LABEL parity|long TIMEOUT seconds PROGRAM name [ARGS ...]): runs <name>.py with the
# program. The threads of torch spin while they wait, which two tests at a time do not stand.
function(det_parity_test test)
  cmake_parse_arguments(P "" "LABEL;TIMEOUT;PROGRAM" "ARGS" ${ARGN})
  det_test(${test} LABEL ${P_LABEL} TIMEOUT ${P_TIMEOUT} ENV OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
           COMMAND /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/parity/${P_PROGRAM}.py
                   $<TARGET_FILE:${P_PROGRAM}> ${P_ARGS})
endfunction()

# det_fuzz(name LAYERS...): a program from tests/fuzz/fuzz_<name>.c. Preset fuzz makes it a fuzzer; every
# other one makes it replay tests/fuzz/corpus/<name>/ as a test, which needs no special compiler.
function(det_fuzz name)
  set(program fuzz_${name})
  set(folder ${PROJECT_SOURCE_DIR}/tests/fuzz)
  add_executable(${program} ${folder}/${program}.c)
  target_include_directories(${program} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${program} PRIVATE ${ARGN})
  if(DET_FUZZ)
    target_link_options(${program} PRIVATE -fsanitize=fuzzer)
  else()
    target_sources(${program} PRIVATE ${folder}/replay.c)
    target_link_libraries(${program} PRIVATE sys)
    det_test(${program} LABEL fuzz TIMEOUT 300 COMMAND ${program} ${folder}/corpus/${name})
  endif()
endfunction()

# det_python_test(name LABEL label TIMEOUT seconds ARGS ...): pytest of python/tests with both versions of torch that are supported:
# Debian's, and the one of scripts/python-env.
function(det_python_test name)
  cmake_parse_arguments(P "" "LABEL;TIMEOUT" "ARGS" ${ARGN})
  foreach(version debian today)
    set(python /usr/bin/python3)
    if(version STREQUAL "today")
      set(python ${PROJECT_SOURCE_DIR}/scripts/python-env-run)
    endif()
    det_test(${name}_${version} LABEL ${P_LABEL} TIMEOUT ${P_TIMEOUT} FOLDER ${PROJECT_SOURCE_DIR}
             ENV PYTHONPATH=${PROJECT_BINARY_DIR}/python OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
             COMMAND ${python} -m pytest -c python/pyproject.toml --rootdir python ${P_ARGS})
  endforeach()
endfunction()
