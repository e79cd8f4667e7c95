// tests/fuzz/fuzz.h: what libFuzzer (or replay.c) calls for each input. Returns 0.
#pragma once

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
