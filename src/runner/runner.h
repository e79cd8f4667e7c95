// runner/runner.h: the program det-run: trains a trial on this machine, without a master or as a task of
// one.
#pragma once

// What main() returns. A trial in Python is trained by an interpreter, which is started in the place of
// this program (determined.run).
int run_main(int argc, char **argv);
