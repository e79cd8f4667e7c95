# The entry points. What they do is in CMakePresets.json and scripts/. 'make' installs nothing on the machine; what is
# missing is named, and 'make deps' installs it.
.PHONY: all deps deps-test demo check check-long bench lint fmt asan tsan wide cov fuzz install clean

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

clean:
	rm -rf build
