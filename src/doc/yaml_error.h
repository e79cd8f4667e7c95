// doc/yaml_error.h: says what libyaml means. Called by the YAML reader.
#pragma once

#include "doc/diag.h"
#include <yaml.h>

// Adds one error that explains why the parser stopped.
void yaml_explain(const yaml_parser_t *parser, struct str text, const char *source,
                  struct diag_list *diags);
