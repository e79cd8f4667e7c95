// Unit main.c: the program det-run.
#include "runner/runner.h"

int main(int argc, char **argv)
{
    return run_main(argc, argv);
}
