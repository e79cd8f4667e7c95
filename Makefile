# The entry points. What they do is in CMakePresets.json and scripts/. 'make' installs nothing on the machine; what is
# missing is named, and 'make deps' installs it.
.PHONY: all deps deps-test demo check check-long bench bench-check lint fmt asan tsan wide cov fuzz install uninstall package
.PHONY: examples clean

all:
	scripts/build release

deps:
	scripts/deps build

deps-test:
	scripts/deps build test

demo:
	scripts/demo

check:
	scripts/check

check-long:
	scripts/check-long

bench:
	scripts/bench

bench-check:
	scripts/bench-check

lint:
	scripts/lint

fmt:
	scripts/format --fix

asan tsan wide cov:
	scripts/build $@
	ctest --test-dir build/$@ --output-on-failure -LE long

fuzz:
	scripts/fuzz

install: all
	cmake --install build $(if $(PREFIX),--prefix $(PREFIX))
	[ -n "$(DESTDIR)" ] || ldconfig 2>/dev/null || true

uninstall:
	cmake -P build/uninstall.cmake

# build/det-<version>-Linux.tar.gz and build/det_<version>_<architecture>.deb
package:
	scripts/build release package
	cmake --build build --target package

# build/archives/<name>.tgz
examples:
	scripts/pack-examples build/archives

clean:
	rm -rf build
