// Unit main_launch.c: the program det-launch.
#include "runner/launch.h"

int main(int argc, char **argv)
{
    return launch_main(argc, argv);
}
