// runner/run.h: the program det-run: trains a trial on this machine, without a master.
#pragma once

// What main() returns.
int run_main(int argc, char **argv);
