# Compiler settings that hold for everything, and the sanitizer switches of the presets.
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_C_FLAGS_RELEASE "-O2 -g1")
set(CMAKE_C_FLAGS_DEBUG "-O1 -g")

include(CheckCCompilerFlag)
option(DET_TESTS "build the tests" ON)
option(DET_FUZZ "build the fuzz targets (clang)" OFF)
set(DET_SANITIZE "" CACHE STRING "address,undefined or thread")

add_compile_definitions(_GNU_SOURCE)
add_compile_options(-Wall -Wextra -Wshadow -Wmissing-prototypes -Wvla -Wno-unknown-pragmas -Wno-type-limits -Wno-format-truncation
                    -Wno-unknown-warning-option
                    -fno-math-errno -fno-trapping-math -ffp-contract=fast)
# Clearing or copying a struct by `rep stos` takes longer than most operations on small tensors.
set(DET_SMALL_BLOCKS -mmemset-strategy=vector_loop:512:noalign,libcall:-1:noalign
                     -mmemcpy-strategy=vector_loop:512:noalign,libcall:-1:noalign)
check_c_compiler_flag("${DET_SMALL_BLOCKS}" DET_HAS_SMALL_BLOCKS)
if(DET_HAS_SMALL_BLOCKS)
  add_compile_options(${DET_SMALL_BLOCKS})
endif()
# Slow, but it runs what a processor with AVX-512 would run, with the same sizes of vectors and tiles.
option(DET_EMULATE_AVX512 "kernels for AVX-512 out of AVX2 instructions, to test them anywhere" OFF)
if(DET_EMULATE_AVX512)
  add_compile_definitions(DET_EMULATE_AVX512)
endif()
option(DET_LTO "optimise hot layers across files" OFF)
if(DET_LTO AND NOT CMAKE_C_COMPILER_ID STREQUAL "GNU") # only gcc can put the result into an archive
  set(DET_LTO OFF)
endif()
option(DET_WERROR "warnings are errors" OFF)
if(DET_WERROR)
  add_compile_options(-Werror)
endif()
if(DET_SANITIZE)
  add_compile_options(-fsanitize=${DET_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${DET_SANITIZE})
endif()
if(DET_COVERAGE)
  add_compile_options(--coverage)
  add_link_options(--coverage)
endif()
if(DET_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link -Wno-pass-failed)
  add_compile_definitions(__SANITIZE_ADDRESS__) # as gcc does; clang 14 says it in another way
endif()

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
