# make package: a tarball and a package for Debian of what make install installs.
set(CPACK_GENERATOR "TGZ;DEB")
set(CPACK_PACKAGE_NAME det)
set(CPACK_PACKAGE_VENDOR "the authors of det")
set(CPACK_PACKAGE_CONTACT "the authors of det <det@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "trains deep-learning models: engine, loop, search, master")
set(CPACK_PACKAGE_DESCRIPTION "det trains deep-learning models on Linux: a library with tensors, gradients, modules and
optimizers, a training loop with exact resume, hyperparameter search, and a master that schedules,
restarts and records experiments. Trials are programs of C, which det-run compiles.")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES OFF) # installing strips

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON) # and runs ldconfig
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "gcc, libc6-dev") # det-run calls a compiler

# What is linked is found by dpkg-shlibdeps; what is loaded when it is needed is not.
function(det_loaded_packages out)
  set(packages "")
  get_property(layers GLOBAL PROPERTY det_layers)
  foreach(layer ${layers})
    get_property(loads GLOBAL PROPERTY det_loads_${layer})
    foreach(module ${loads})
      get_target_property(file PkgConfig::${module} INTERFACE_LINK_LIBRARIES)
      list(GET file 0 file)
      get_filename_component(file ${file} REALPATH)
      execute_process(COMMAND dpkg-query --search ${file} OUTPUT_VARIABLE owner ERROR_QUIET)
      if(owner MATCHES "^([^:]+):") # else not installed by Debian's packages
        list(APPEND packages ${CMAKE_MATCH_1})
      endif()
    endforeach()
  endforeach()
  list(REMOVE_DUPLICATES packages)
  list(JOIN packages ", " packages)
  set(${out} "${packages}" PARENT_SCOPE)
endfunction()
find_program(DET_DPKG_QUERY dpkg-query)
if(DET_DPKG_QUERY)
  det_loaded_packages(CPACK_DEBIAN_PACKAGE_DEPENDS)
endif()

include(CPack)
