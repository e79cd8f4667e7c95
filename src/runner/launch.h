// runner/launch.h: the program det-launch: runs any program once for each slot.
#pragma once

// What main() returns.
int launch_main(int argc, char **argv);
