# det_program(): a program with its manual page.

# det_program(name SOURCE main.c LAYER layer [EXPORTS]): EXPORTS puts all of libdet into it and shows
# what is public (DET_API) to the code that it loads.
function(det_program name)
  cmake_parse_arguments(P "EXPORTS" "SOURCE;LAYER" "" ${ARGN})
  add_executable(${name} ${P_SOURCE})
  if(P_EXPORTS)
    get_property(layers GLOBAL PROPERTY det_library_layers_det)
    list(TRANSFORM layers REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE archives)
    target_link_libraries(${name} PRIVATE -Wl,--whole-archive ${archives} -Wl,--no-whole-archive)
    set_target_properties(${name} PROPERTIES ENABLE_EXPORTS ON)
  endif()
  target_link_libraries(${name} PRIVATE ${P_LAYER})
  if(P_EXPORTS)
    target_link_libraries(${name} PRIVATE ${layers})
  endif()
  install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  # Manual pages are what the programs say about themselves.
  add_custom_command(OUTPUT ${name}.1 COMMAND ${name} --man > ${name}.1 VERBATIM)
  add_custom_target(man_${name} ALL DEPENDS ${name}.1)
  install(FILES ${PROJECT_BINARY_DIR}/${name}.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endfunction()

# Completion of command lines, from the program's own table of commands.
function(det_completion name)
  add_custom_command(OUTPUT ${name}.bash COMMAND ${name} completion bash > ${name}.bash VERBATIM)
  add_custom_target(completion_${name} ALL DEPENDS ${name}.bash)
  install(FILES ${PROJECT_BINARY_DIR}/${name}.bash RENAME ${name}
          DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
endfunction()
