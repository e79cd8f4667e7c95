// doc/yaml_scalar.h: what a plain scalar means. Shared by the YAML reader and writer.
//   yaml_resolve  yaml_1_1_meaning
#pragma once

#include "doc/doc.h"

// Sets kind and value of out by the core schema of YAML 1.2. text must live as long as out. False
// if it is a number that does not fit.
bool yaml_resolve(struct str text, struct doc *out);

// "a boolean", "an octal number", ... if a reader of YAML 1.1 takes the text for something else;
// else NULL.
const char *yaml_1_1_meaning(struct str text);
