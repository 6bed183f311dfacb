add_library(codecfs_options INTERFACE)
target_include_directories(codecfs_options INTERFACE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include
                                                     ${PROJECT_BINARY_DIR}/generated)
target_compile_options(codecfs_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wimplicit-fallthrough)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 sees uninitialized members in any optional that is copied at -O2, and with precompiled headers it no longer hides
  # what it sees wrong in std::string::find.
  target_compile_options(codecfs_options INTERFACE -Wno-maybe-uninitialized -Wno-stringop-overread)
else()
  # The annotations of base/mutex.h. GCC does not know them.
  target_compile_options(codecfs_options INTERFACE -Wthread-safety)
  # std::stable_sort of libstdc++ 12 calls a deprecated function; libfuse's FUSE_BUFVEC_INIT is a compound literal.
  target_compile_options(codecfs_options INTERFACE -Wno-deprecated-declarations -Wno-c99-extensions)
endif()
# base/lock_order.h
target_compile_definitions(codecfs_options INTERFACE $<$<CONFIG:Debug>:CODECFS_CHECK_LOCKS>)
if(CODECFS_SANITIZE)
  target_compile_definitions(codecfs_options INTERFACE CODECFS_CHECK_LOCKS)
  target_compile_options(codecfs_options INTERFACE -fsanitize=${CODECFS_SANITIZE} -fno-omit-frame-pointer
                                                   -fno-sanitize-recover=all)
  target_link_options(codecfs_options INTERFACE -fsanitize=${CODECFS_SANITIZE})
  if(CODECFS_NO_SANITIZE)
    target_compile_options(codecfs_options INTERFACE -fno-sanitize=${CODECFS_NO_SANITIZE})
  endif()
endif()

# With precompiled headers, ccache finds nothing unless it is told that these are no reason to miss.
foreach(language C CXX)
  if(CMAKE_${language}_COMPILER_LAUNCHER MATCHES "(^|/)ccache$")
    list(PREPEND CMAKE_${language}_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros)
  endif()
endforeach()

# Several sources at a time are compiled in half of the time, as they share headers and instances of templates; with these,
# precompiled headers save nothing. More at a time take less in all, and longer after an edit of one.
option(CODECFS_UNITY "compile several sources at a time, of the program and of its unit tests" ON)
set(CMAKE_UNITY_BUILD_BATCH_SIZE 16 CACHE STRING "sources of the program that are compiled at a time")

# One static library a floor. Sources are found, not listed: a new file needs no edit here. ALONE are the sources that are
# compiled alone, because tests replace them. COLD are those in which no time is spent that users notice: -O1 takes three
# quarters of the time to compile them.
function(codecfs_floor name)
  cmake_parse_arguments(ARG "" "" "SOURCES;ALONE;COLD;PUBLIC;PRIVATE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${ARG_SOURCES})
  add_library(codecfs_${name} STATIC)
  set(targets codecfs_${name})
  if(ARG_COLD)
    file(GLOB_RECURSE cold CONFIGURE_DEPENDS ${ARG_COLD})
    list(REMOVE_ITEM sources ${cold})
    add_library(codecfs_${name}_cold OBJECT ${cold})
    target_compile_options(codecfs_${name}_cold PRIVATE $<$<CONFIG:Release,RelWithDebInfo>:-O1>)
    target_sources(codecfs_${name} PRIVATE $<TARGET_OBJECTS:codecfs_${name}_cold>)
    list(APPEND targets codecfs_${name}_cold)
  endif()
  target_sources(codecfs_${name} PRIVATE ${sources})
  foreach(target ${targets})
    target_compile_options(${target} PRIVATE -Wconversion -Wold-style-cast)
    target_link_libraries(${target} PUBLIC codecfs_options ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE})
    set_target_properties(${target} PROPERTIES UNITY_BUILD ${CODECFS_UNITY})
  endforeach()
  if(ARG_ALONE)
    file(GLOB alone CONFIGURE_DEPENDS ${ARG_ALONE})
    set_source_files_properties(${alone} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()
