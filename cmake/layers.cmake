# det_layer(), det_kernels(), det_library(): how the table in CMakeLists.txt becomes libraries.

# One static library from src/<name>/; det_unit_tests() makes its tests.
function(det_layer name)
  cmake_parse_arguments(L "PURE" "" "USES;LIBS;LOADS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.c)
  list(FILTER sources EXCLUDE REGEX "/main(_[a-z]+)?\\.c$") # belongs to a program
  add_library(${name} STATIC ${sources})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${name} PUBLIC ${L_USES} m)
  if(NOT L_PURE)
    target_link_libraries(${name} PUBLIC Threads::Threads ${CMAKE_DL_LIBS})
  endif()
  foreach(lib ${L_LIBS})
    det_module(${lib})
    target_link_libraries(${name} PUBLIC PkgConfig::${lib})
    set_property(GLOBAL APPEND PROPERTY det_libs_${name} PkgConfig::${lib})
  endforeach()
  foreach(lib ${L_LOADS}) # only the headers
    det_module(${lib})
    target_include_directories(${name} PRIVATE ${${lib}_INCLUDE_DIRS})
  endforeach()
  set_property(GLOBAL APPEND PROPERTY det_layers ${name})
  set_property(GLOBAL PROPERTY det_loads_${name} ${L_LOADS})
endfunction()

# Kernels are compiled once per instruction set from the same sources, in src/<name>/kernels/; the
# program picks a set when it starts. DET_ISA in the code is the suffix of every symbol.
function(det_kernels name)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/kernels/*.c)
  set(isa_flags_plain "")
  set(isa_flags_avx2 -mavx2 -mfma -mf16c -mbmi2)
  set(isa_flags_avx512 ${isa_flags_avx2} -mavx512f -mavx512bw -mavx512dq -mavx512vl
      -mprefer-vector-width=512)
  if(DET_EMULATE_AVX512)
    set(isa_flags_avx512 ${isa_flags_avx2} -Wno-psabi)
  endif()
  set(vectorize "")
  if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
    set(vectorize -fvect-cost-model=dynamic)
  endif()
  set(isas plain)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    list(APPEND isas avx2 avx512)
  endif()
  foreach(isa ${isas})
    add_library(${name}_${isa} OBJECT ${sources})
    target_include_directories(${name}_${isa} PRIVATE ${PROJECT_SOURCE_DIR}/include
                               ${PROJECT_SOURCE_DIR}/src)
    target_compile_definitions(${name}_${isa} PRIVATE DET_ISA=${isa} DET_ISA_${isa}=1)
    target_compile_options(${name}_${isa} PRIVATE -O2 -ftree-vectorize ${vectorize} ${isa_flags_${isa}})
    # Long to build. No file is parsed there; and threads do the same with every instruction set, so
    # that they are watched with one (see DET_ISA in tests.cmake).
    if(DET_FUZZ OR (DET_SANITIZE STREQUAL "thread" AND NOT isa STREQUAL "plain"))
      target_compile_options(${name}_${isa} PRIVATE -fno-sanitize=all)
    endif()
    target_sources(${name} PRIVATE $<TARGET_OBJECTS:${name}_${isa}>)
  endforeach()
endfunction()

# Layers in which small steps spend their time: with DET_LTO their functions are inlined across files.
# A step of a tiny model is a fifth faster for that.
function(det_hot)
  if(DET_LTO)
    foreach(name ${ARGN})
      set_property(TARGET ${name} PROPERTY INTERPROCEDURAL_OPTIMIZATION ON)
      target_compile_options(${name} PRIVATE -O3)
    endforeach()
  endif()
endfunction()

# det_library(name LAYERS ... [PARTS ...]): lib<name>.so and lib<name>.a: all of the LAYERS, and of the PARTS
# what these need. Everything is compiled hidden; only DET_API shows. The archive holds one object whose
# hidden names were made local, so they cannot clash with a user's.
function(det_library name)
  cmake_parse_arguments(L "" "" "LAYERS;PARTS" ${ARGN})
  set_property(GLOBAL PROPERTY det_library_layers_${name} ${L_LAYERS})
  list(TRANSFORM L_LAYERS REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE whole)
  list(TRANSFORM L_PARTS REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE parts)
  set(archives -Wl,--whole-archive ${whole} -Wl,--no-whole-archive ${parts})
  set(libs "")
  foreach(layer ${L_LAYERS})
    get_property(layer_libs GLOBAL PROPERTY det_libs_${layer})
    list(APPEND libs ${layer_libs})
  endforeach()
  list(REMOVE_DUPLICATES libs)
  list(TRANSFORM libs REPLACE "PkgConfig::" "" OUTPUT_VARIABLE requires)
  set_property(GLOBAL PROPERTY det_library_requires_${name} ${requires}) # of pkg-config, to link statically

  file(WRITE ${PROJECT_BINARY_DIR}/lib${name}.c "// lib${name} is made of its layers.\n")
  add_library(${name}_shared SHARED ${PROJECT_BINARY_DIR}/lib${name}.c)
  set_target_properties(${name}_shared PROPERTIES OUTPUT_NAME ${name} VERSION ${PROJECT_VERSION}
                        SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  target_link_libraries(${name}_shared PRIVATE ${archives} ${libs} Threads::Threads m ${CMAKE_DL_LIBS} -Wl,--no-undefined)
  target_include_directories(${name}_shared INTERFACE ${PROJECT_SOURCE_DIR}/include)
  add_dependencies(${name}_shared ${L_LAYERS} ${L_PARTS})

  set(out ${PROJECT_BINARY_DIR}/lib${name}.a)
  set(lto "")
  if(DET_LTO)
    set(lto -flto=auto -flinker-output=nolto-rel)
  endif()
  add_custom_command(OUTPUT ${out}
    COMMAND ${CMAKE_C_COMPILER} -r -nostdlib ${lto} ${archives} -o lib${name}.o
    COMMAND ${CMAKE_OBJCOPY} --localize-hidden lib${name}.o
    COMMAND ${CMAKE_COMMAND} -E rm -f ${out}
    COMMAND ${CMAKE_AR} rcs ${out} lib${name}.o
    DEPENDS ${L_LAYERS} ${L_PARTS} WORKING_DIRECTORY ${PROJECT_BINARY_DIR} VERBATIM)
  add_custom_target(${name}_static ALL DEPENDS ${out})
  set_property(GLOBAL APPEND PROPERTY det_libraries ${name})
endfunction()
