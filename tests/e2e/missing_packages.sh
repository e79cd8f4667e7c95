#!/bin/sh
# A build installs nothing: it names the packages that are missing and the command that installs them.
. "$(dirname "$0")/lib.sh"
sources=$(realpath "$golden/../..")

# A machine on which some libraries and programs are not installed.
mkdir tree bin
for part in CMakeLists.txt CMakePresets.json Makefile cmake scripts src include; do
    cp -r "$sources/$part" tree/
done
lacks() { # lacks MODULE...: pkg-config does not know them
    modules=$(echo "$*" | sed 's/ /*|*/g')
    printf '#!/bin/sh\ncase "$*" in *%s*) exit 1 ;; esac\nexec %s "$@"\n' "$modules" "$real" >"$tmp/bin/pkg-config"
    chmod +x "$tmp/bin/pkg-config"
}
real=$(command -v pkg-config)
export PATH="$tmp/bin:$PATH"
cd tree

lacks jansson libzstd
run make
expect_status 2
expect_err "missing Debian packages: libjansson-dev libzstd-dev"
expect_err "'make deps' installs them"
expect_err_without cmocka

lacks cmocka
run scripts/build dev
expect_status 1
expect_err "missing Debian packages: libcmocka-dev"
expect_err "'make deps-test' installs them"

# --- those who call cmake themselves are told the same

lacks jansson libzstd
run cmake -S . -B ../build -DDET_TESTS=OFF
expect_status 1
expect_err "jansson, libzstd"
expect_err "'make deps' installs them"
expect_err "apt-get install libjansson-dev libzstd-dev"

lacks cmocka
run cmake -S . -B ../build -DDET_TESTS=ON
expect_status 1
expect_err "'make deps-test' installs them"
expect_err "apt-get install libcmocka-dev"
expect_err "DET_TESTS=OFF"

# --- what a demonstration needs is not what tests need

run scripts/deps --missing nonsense
expect_status 2
expect_err "packages.txt has no group 'nonsense'"
for package in torch optuna clang cmocka; do
    if grep -E "^(build|demo) .*$package" scripts/packages.txt; then fail "'make demo' should not need $package"; fi
done
