// base/banned.h: functions that overflow, or cannot say that they failed, do not compile here.
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC poison strcpy strcat strncpy strncat sprintf vsprintf strtok atoi atol atoll atof gets
