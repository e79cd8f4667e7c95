#!/bin/sh
# What is installed is complete: programs of others are built with it, by pkg-config and by CMake, wherever it was put.
. "$(dirname "$0")/lib.sh"
sources=$(realpath "$golden/../..")
prefix=$tmp/some/where

run cmake --install "$(dirname "$det")" --prefix "$prefix"
expect_status 0
for file in bin/det bin/det-run include/det/det.h share/man/man1/det.1 share/man/man1/det-run.1 \
    share/bash-completion/completions/det; do
    [ -s "$prefix/$file" ] || fail "$file should be installed"
done
library=$(dirname "$(find "$prefix" -name libdet.so)")
for file in "$prefix"/bin/* "$library"/libdet.so "$library"/libdet.a; do
    run readelf --sections --wide "$file"
    expect_status 0
    expect_out .text
    expect_out_without .debug_ # stripped
done

# --- the pages and the completion are what their readers understand

grep -q '^\.SS det experiment create' "$prefix/share/man/man1/det.1" || fail "det.1 should have the commands"
run bash -c '. "$1" && COMP_WORDS=(det experiment crea) COMP_CWORD=2 && _det && echo "${COMPREPLY[@]}"' - \
    "$prefix/share/bash-completion/completions/det"
expect_status 0
expect_out create

# --- a program of somebody else

run python3 "$sources/tests/support/make-mnist.py" digits 640 100
trains() { # trains PROGRAM
    run "$1" digits 2
    expect_status 0
    expect_out "test error"
}

export PKG_CONFIG_PATH="$library/pkgconfig"
run cc -o by-pkg-config "$sources/examples/plain/mnist.c" $(pkg-config --cflags --libs det)
expect_status 0
LD_LIBRARY_PATH=$library trains ./by-pkg-config

run cc -o static "$sources/examples/plain/mnist.c" $(pkg-config --cflags det) "$library/libdet.a" \
    $(pkg-config --libs zlib libjpeg libpng jansson yaml-0.1 libmicrohttpd gnutls) -lm
expect_status 0
trains ./static

mkdir project
cat >project/CMakeLists.txt <<'CMAKE'
cmake_minimum_required(VERSION 3.16)
project(somebody LANGUAGES C)
find_package(det 0.1 REQUIRED)
add_executable(by-cmake ${MNIST})
target_link_libraries(by-cmake PRIVATE det::det)
CMAKE
run cmake -S project -B project/build -DMNIST="$sources/examples/plain/mnist.c" -DCMAKE_PREFIX_PATH="$prefix"
expect_status 0
run cmake --build project/build
expect_status 0
trains project/build/by-cmake

# --- a trial, compiled with the installed headers

cp "$sources/examples/onevar/model_def.c" .
run env HOME="$tmp" "$prefix/bin/det-run" model_def --config "$sources/examples/onevar/const.yaml" -b 2
expect_status 0
expect_out "finished after 2 batches"
