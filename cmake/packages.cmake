# det_module(), det_require_modules(): libraries that are found by pkg-config. All that are missing are
# named at once, with the command that installs them.

# As pkg_check_modules(... IMPORTED_TARGET), but what is missing is only written down.
macro(det_module name)
  pkg_check_modules(${name} IMPORTED_TARGET ${name})
  if(NOT ${name}_FOUND)
    set_property(GLOBAL APPEND PROPERTY det_missing_modules ${name})
  endif()
endmacro()

# The row of scripts/packages.txt for a module: out_group and out_package, or nothing.
function(det_package_of module out_group out_package)
  set(${out_group} "" PARENT_SCOPE)
  file(STRINGS ${PROJECT_SOURCE_DIR}/scripts/packages.txt rows REGEX "^[a-z]")
  foreach(row ${rows})
    if(row MATCHES "^([a-z]+) +([^ ]+) +pc:(.+)$" AND CMAKE_MATCH_3 STREQUAL module)
      set(${out_group} ${CMAKE_MATCH_1} PARENT_SCOPE)
      set(${out_package} ${CMAKE_MATCH_2} PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

# Ends here if det_module() has missed something.
function(det_require_modules)
  get_property(modules GLOBAL PROPERTY det_missing_modules)
  if(NOT modules)
    return()
  endif()
  list(REMOVE_DUPLICATES modules)
  set(packages "")
  set(command "make deps")
  set(hint "")
  foreach(module ${modules})
    det_package_of(${module} group package)
    if(group)
      list(APPEND packages ${package})
    endif()
    if(group STREQUAL "test")
      set(command "make deps-test")
      set(hint "\n -DDET_TESTS=OFF builds without the tests.")
    endif()
  endforeach()
  list(JOIN modules ", " modules)
  list(JOIN packages " " packages)
  # Lines that begin with a space are not broken anew.
  message(FATAL_ERROR "Libraries are missing (or their headers): ${modules}.\n"
          " '${command}' installs them, or on Debian: apt-get install ${packages}${hint}")
endfunction()
