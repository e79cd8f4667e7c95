// runner/exec.h: 'det-run exec', see exec.c. Private to the layer.
#pragma once

int exec_main(int argc, char **argv);
