// sys/init.h: a program as the first process of a container.
//   init_stay_behind
#pragma once

// The first process of a pid namespace gets no signal that it does not handle, and becomes the parent
// of every process whose own has ended. If that is this process, it forks: the child returns from
// here and is the program; the first process stays behind, waits for whatever ends, passes SIGTERM,
// SIGINT, SIGQUIT and SIGHUP on to the child, and ends with its status. In any other process this
// does nothing. To be called before there are threads.
void init_stay_behind(void);
