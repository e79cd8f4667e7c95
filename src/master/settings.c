// Unit settings.c: the rows of what the person who runs a master decides; see MASTER_SETTINGS.
#include "master/master.h"

#define AT(member) offsetof(struct master_settings, member)
#define NUMBER_ROW(member, option, otherwise, least, most, text) \
    {#member, FIELD_INT, AT(member), .def = otherwise, FIELD_RANGE(least, most), .help = text},
#define FLAG_ROW(member, option, text) \
    {#member, FIELD_BOOL, AT(member), .def = "false", .help = text},

static const struct field rows[] = {MASTER_SETTINGS(NUMBER_ROW, FLAG_ROW)};

const struct field_table master_settings_table = {.size = sizeof(struct master_settings),
                                                  FIELD_ROWS(rows)};
