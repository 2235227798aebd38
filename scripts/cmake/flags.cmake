# One INTERFACE target carries every flag, so that each rule is written once.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

find_program(TAPROOT_CCACHE ccache)
if(TAPROOT_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${TAPROOT_CCACHE})
endif()

add_library(taproot_flags INTERFACE)
target_include_directories(taproot_flags INTERFACE ${CMAKE_SOURCE_DIR})
# -ffp-contract=off: a compiler that fuses a*b+c where the source did not write fma() would change
# bits between instruction sets; kernels spell every fma themselves.
target_compile_options(taproot_flags INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion
    -Werror -ffp-contract=off -fno-omit-frame-pointer)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC 12 reports false positives inside the standard library and coroutine frames at -O2.
    target_compile_options(taproot_flags INTERFACE -Wno-maybe-uninitialized -Wno-restrict
        -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread -Wno-mismatched-new-delete)
endif()

set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1")
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1 -DNDEBUG")

if(TAPROOT_SANITIZE)
    target_compile_options(taproot_flags INTERFACE -fsanitize=${TAPROOT_SANITIZE} -fno-sanitize-recover=all)
    target_link_options(taproot_flags INTERFACE -fsanitize=${TAPROOT_SANITIZE})
endif()
if(TAPROOT_FUZZ)
    target_compile_options(taproot_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

find_program(TAPROOT_MOLD mold)
if(TAPROOT_MOLD)
    target_link_options(taproot_flags INTERFACE -fuse-ld=mold)
endif()
