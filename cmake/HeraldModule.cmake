# How Herald's parts are declared. Sources are listed, never globbed: a file
# that is in the tree but in no list is a mistake that a reviewer can see.

set(HERALD_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual
  $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety>
  $<$<BOOL:${HERALD_WERROR}>:-Werror>)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 warns of overlap in plain std::string concatenation (its bug 105651).
  list(APPEND HERALD_WARNINGS -Wno-restrict)
endif()

# What every target of ours is compiled with.
function(herald_compile target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_compile_options(${target} PRIVATE ${HERALD_WARNINGS})
  set_target_properties(${target} PROPERTIES
    CXX_EXTENSIONS OFF
    POSITION_INDEPENDENT_CODE ON
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON)
endfunction()

# Maps short names to targets: fmt as HeraldDependencies.cmake knows it, api to
# herald::api. CMake itself refuses a herald:: target that nobody declares.
function(herald_targets out)
  set(targets "")
  foreach(name IN LISTS ARGN)
    get_property(target GLOBAL PROPERTY herald_${name}_target)
    if(NOT target)
      set(target herald::${name})
    endif()
    list(APPEND targets ${target})
  endforeach()
  set(${out} ${targets} PARENT_SCOPE)
endfunction()

# The same for whoever reaches into what a shared library hides: tests, fuzzers
# and benchmarks link a static twin that is made of the same objects.
function(herald_internal_targets out)
  set(targets "")
  foreach(name IN LISTS ARGN)
    if(TARGET herald-${name}-internal)
      list(APPEND targets herald-${name}-internal)
    else()
      herald_targets(target ${name})
      list(APPEND targets ${target})
    endif()
  endforeach()
  set(${out} ${targets} PARENT_SCOPE)
endfunction()

# herald_library(<name> SOURCES <file>... [PUBLIC_DEPS <short name>...]
#                [PRIVATE_DEPS <short name>...] [INTERNAL])
#
# The module src/<name>: target herald-<name>, alias herald::<name>. Its
# installed headers are include/herald/<name>/. An INTERNAL module has none: it is
# always static, goes into whatever links it, and is installed only where a static
# library that is installed needs it.
function(herald_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "INTERNAL" "" "SOURCES;PUBLIC_DEPS;PRIVATE_DEPS")
  herald_targets(public ${arg_PUBLIC_DEPS})
  herald_targets(private ${arg_PRIVATE_DEPS})

  set(kind "")
  if(arg_INTERNAL)
    set(kind STATIC)
  endif()
  add_library(herald-${name} ${kind} ${arg_SOURCES})
  add_library(herald::${name} ALIAS herald-${name})
  herald_compile(herald-${name})
  target_include_directories(herald-${name}
    PUBLIC
      $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
      $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
    PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(herald-${name} PUBLIC ${public} PRIVATE ${private})
  # While the version is 0.x every minor release may break the C++ ABI. An installed
  # library finds those it stands on beside itself, wherever that is.
  set_target_properties(herald-${name} PROPERTIES
    INSTALL_RPATH "$ORIGIN"
    EXPORT_NAME ${name}
    VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  if(NOT BUILD_SHARED_LIBS)
    target_compile_definitions(herald-${name} PRIVATE HERALD_STATIC)
  endif()

  if(arg_INTERNAL)
    set_property(GLOBAL APPEND PROPERTY herald_internal_components ${name})
  else()
    set_property(GLOBAL APPEND PROPERTY herald_components ${name})
  endif()
  set_property(GLOBAL PROPERTY herald_${name}_public_deps ${arg_PUBLIC_DEPS})
  set_property(GLOBAL PROPERTY herald_${name}_private_deps ${arg_PRIVATE_DEPS})

  if(BUILD_SHARED_LIBS)
    herald_internal_targets(internal ${arg_PUBLIC_DEPS} ${arg_PRIVATE_DEPS})
    add_library(herald-${name}-internal STATIC EXCLUDE_FROM_ALL $<TARGET_OBJECTS:herald-${name}>)
    target_include_directories(herald-${name}-internal INTERFACE ${PROJECT_SOURCE_DIR}/include)
    target_link_libraries(herald-${name}-internal INTERFACE ${internal})
  endif()
endfunction()

# An executable that may use the insides of the modules it links.
function(herald_internal_executable target folder sources deps)
  herald_internal_targets(links ${deps})
  add_executable(${target} ${sources})
  herald_compile(${target})
  # The root itself, for "test/golden.h" and the like.
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR})
  target_compile_definitions(${target} PRIVATE
    HERALD_TESTDATA_DIR="${PROJECT_SOURCE_DIR}/test/testdata")
  target_link_libraries(${target} PRIVATE ${links})
  set_target_properties(${target} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/${folder})
endfunction()

# herald_test([<folder>/]<name> DEPS <module>... [SOURCES <file>...] [LABELS <label>...]
#             [TIMEOUT <seconds>] [SINGLE_THREADED])
#
# One GoogleTest program and one ctest, called <name>. SOURCES defaults to
# [<folder>/]<name>.cc, LABELS to unit. Labels: unit conformance integration interop
# install bench fuzz. SINGLE_THREADED: nothing in it runs on a second thread, so
# ThreadSanitizer can find nothing and its preset leaves the test out.
function(herald_test path)
  cmake_parse_arguments(PARSE_ARGV 1 arg "SINGLE_THREADED" "TIMEOUT" "SOURCES;DEPS;LABELS")
  if(NOT HERALD_TESTS OR (arg_SINGLE_THREADED AND HERALD_THREADED_TESTS_ONLY))
    return()
  endif()
  get_filename_component(name ${path} NAME)
  if(NOT arg_SOURCES)
    set(arg_SOURCES ${path}.cc)
  endif()
  if(NOT arg_LABELS)
    set(arg_LABELS unit)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  herald_internal_executable(${name} test "${arg_SOURCES}" "${arg_DEPS}")
  target_link_libraries(${name} PRIVATE GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name} --gtest_brief=1)
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT})
endfunction()

if(HERALD_BENCHMARKS)
  add_custom_target(benchmarks)
endif()

# herald_bench(<name> DEPS <module>... [SOURCES <file>...])
#
# A Google Benchmark program; tools/bench runs it and compares it with its peer.
function(herald_bench name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPS")
  if(NOT arg_SOURCES)
    set(arg_SOURCES ${name}.cc)
  endif()
  herald_internal_executable(${name} bench "${arg_SOURCES}" "${arg_DEPS}")
  # Only the target `benchmarks` builds them, so that make build stays short.
  set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
  add_dependencies(benchmarks ${name})
  target_link_libraries(${name} PRIVATE benchmark::benchmark_main)
endfunction()

# herald_fuzz(<name> DEPS <module>... [SOURCES <file>...])
#
# A libFuzzer entry point, <name>_fuzz.cc, with its corpus in corpus/<name>/. Ordinary
# builds link replay_main.cc instead of libFuzzer and replay the corpus as a test, so
# that a fuzzer can neither rot nor forget what it once found.
function(herald_fuzz name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPS")
  if(NOT arg_SOURCES)
    set(arg_SOURCES ${name}_fuzz.cc)
  endif()
  herald_internal_executable(fuzz_${name} fuzz "${arg_SOURCES}" "${arg_DEPS}")
  if(HERALD_LIBFUZZER)
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
  else()
    target_link_libraries(fuzz_${name} PRIVATE herald-fuzz-replay)
    add_test(NAME fuzz_${name}_replay
      COMMAND fuzz_${name} ${CMAKE_CURRENT_SOURCE_DIR}/corpus/${name})
    set_tests_properties(fuzz_${name}_replay PROPERTIES LABELS fuzz TIMEOUT 300)
  endif()
endfunction()
