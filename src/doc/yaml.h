// doc/yaml.h: YAML text to documents and back.
//   yaml_parse  yaml_write
//
// Plain scalars follow the core schema of YAML 1.2: `no`, `on` and `1_000` are text (with a
// warning, because readers of YAML 1.1 disagree), 010 is ten. Tags other than those of the core
// schema are errors, so is a second document. Merge keys (<<) work as in YAML 1.1. Aliases are
// expanded, within limits: a bomb is refused.
#pragma once

#include "doc/diag.h"
#include "doc/doc.h"

enum {
    YAML_MAX_BYTES = 1 << 20,
    YAML_MAX_DEPTH = 64,
    YAML_MAX_ANCHORS = 1000,
    YAML_MAX_ALIASES = 1000,
    YAML_MAX_NODES = 100000,       // after expansion
    YAML_MAX_TEXT_BYTES = 4 << 20, // after expansion
};

// On failure NULL, and one error in diags. An empty text is a null. source is borrowed by the
// document.
struct doc *yaml_parse(struct arena *arena, struct str text, const char *source,
                       struct diag_list *diags);

// Block style, two spaces per level, quotes only where they are needed. yaml_parse() gives back an
// equal document.
void yaml_write(const struct doc *doc, struct buf *out);
