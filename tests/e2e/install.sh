#!/bin/sh
# What is installed is complete: programs of others are built with it, by pkg-config and by CMake, wherever it was put.
. "$(dirname "$0")/lib.sh"
sources=$(realpath "$golden/../..")
prefix=$tmp/some/where

run cmake --install "$(dirname "$det")" --prefix "$prefix"
expect_status 0
for file in bin/det bin/det-run include/det/det.h share/man/man1/det.1 share/man/man1/det-run.1 \
    share/bash-completion/completions/det share/doc/det/copyright share/doc/det/examples/mnist.tgz; do
    [ -s "$prefix/$file" ] || fail "$file should be installed"
done
library=$(dirname "$(find "$prefix" -name libdet.so)")
for file in "$prefix"/bin/* "$library"/libdet.so "$library"/libdet.a "$library"/libdet-engine.so "$library"/libdet-engine.a; do
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

# --- one that needs the engine only: nothing but libc, libm and threads

cat >small.c <<'SMALL'
#include <det/optim.h>
#include <det/version.h>
#include <stdio.h>

int main(void)
{
    det_module *net = det_nn_sequential(det_nn_linear(4, 8), det_nn_relu(), det_nn_linear(8, 1));
    det_optimizer *opt = det_optim_sgd(net, .lr = 0.1);
    double last = 0;
    for (int i = 0; i < 200; i++) {
        det_scope_begin();
        det_tensor *x = det_randn(DET_F32, DET_DIMS(16, 4));
        det_tensor *loss = det_mse_loss(det_forward(net, x), det_sum_over(x, DET_DIMS(1), true));
        det_backward(loss);
        det_optim_step(opt);
        det_optim_zero_grad(opt);
        last = det_item(loss);
        det_scope_end();
    }
    det_optim_free(opt);
    det_module_free(net);
    det_err err;
    if (det_check(&err)) return fprintf(stderr, "%s\n", err.msg), 1;
    printf("det %s learned: %d\n", det_version(), last < 0.1);
}
SMALL
learns() { # learns PROGRAM
    run "$1"
    expect_status 0
    expect_out "det $("$det" version | sed 's/det //') learned: 1"
}

run cc -o small small.c $(pkg-config --cflags --libs det-engine)
expect_status 0
LD_LIBRARY_PATH=$library learns ./small
run env LD_LIBRARY_PATH="$library" ldd ./small
expect_status 0
if ! [ -d "$(dirname "$det")/compiler" ]; then # with sanitizers there are more, and nothing is static
    if sed 's/^[[:space:]]*//; s/ .*//' out | grep -Ev '^(linux-vdso|libdet-engine|libm|libc|libpthread|/lib)'; then
        fail "libdet-engine should need libc, libm and threads only"
    fi
    run cc -static -o small-static small.c $(pkg-config --static --cflags --libs det-engine)
    expect_status 0
    learns ./small-static
fi

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

# --- what installing has written can be removed again

run env DESTDIR="$tmp/stage" cmake --install "$(dirname "$det")" --prefix /usr
expect_status 0
[ -s stage/usr/bin/det ] || fail "DESTDIR should be obeyed"
mkdir -p stage/usr/include/other
run env DESTDIR="$tmp/stage" cmake -P "$(dirname "$det")/uninstall.cmake"
expect_status 0
run find stage -not -type d
expect_no_out
run find stage -type d -name det
expect_no_out
[ -d stage/usr/include/other ] || fail "folders of others should stay"
run env DESTDIR="$tmp/stage" cmake -P "$(dirname "$det")/uninstall.cmake"
expect_status 1
expect_err "nothing to uninstall"

# --- a trial, compiled with the installed headers

cp "$sources/examples/onevar/model_def.c" .
run env HOME="$tmp" "$prefix/bin/det-run" model_def --config "$sources/examples/onevar/const.yaml" -b 2
expect_status 0
expect_out "finished after 2 batches"
