// Unit unpickle.c: runs the opcodes of a pickle (protocols 2 to 5) that data consists of. Called by
// pth_read.c. Does not recurse; all it allocates is bounded by the size of the pickle.
//
// The machine: a stack of objects, a stack of marks (heights of the former), a memo of numbered
// objects.
#include "format/pickle.h"

#include "base/assert.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "format/bytes.h"

struct machine {
    struct pickle *p;
    struct str bytes;
    size_t at;    // next byte
    uint64_t arg; // of the opcode being run
    uint32_t *stack, n_stack, cap_stack;
    uint32_t *marks, n_marks, cap_marks;
    uint32_t *memo, n_memo, cap_memo; // NO_OBJECT where there is none
    uint32_t n_memorised;
    bool stopped;
    det_err *err;
};

static const uint32_t NO_OBJECT = UINT32_MAX;

// --- stack, bytes

static void push_id(struct machine *m, uint32_t id)
{
    m->stack = pickle_grow(m->stack, m->n_stack, &m->cap_stack, sizeof *m->stack);
    m->stack[m->n_stack++] = id;
}

static int push(struct machine *m, struct object object)
{
    push_id(m, pickle_add(m->p, object));
    return 0;
}

// Objects below the newest mark are out of reach.
static bool has_on_stack(struct machine *m, uint32_t n)
{
    uint32_t floor = m->n_marks ? m->marks[m->n_marks - 1] : 0;
    if (m->n_stack - floor >= n) return true;
    det_fail(m->err, DET_ECORRUPT, "it needs %u objects on the stack, there are %u", n,
             m->n_stack - floor);
    return false;
}

// The object that is depth below the top. NULL (and an error) if it is of another kind.
static struct object *peek(struct machine *m, uint32_t depth, uint8_t kind)
{
    if (!has_on_stack(m, depth + 1)) return NULL;
    struct object *o = &m->p->objects[m->stack[m->n_stack - 1 - depth]];
    if (o->kind == kind) return o;
    det_fail(m->err, DET_ECORRUPT, "it needs a %s, there is a %s", object_kind_name(kind),
             object_kind_name(o->kind));
    return NULL;
}

// Removes the newest mark; *n is the number of objects above it.
static bool pop_mark(struct machine *m, uint32_t *n)
{
    if (!m->n_marks) {
        det_fail(m->err, DET_ECORRUPT, "it needs a mark on the stack, there is none");
        return false;
    }
    *n = m->n_stack - m->marks[--m->n_marks];
    return true;
}

static const char *take(struct machine *m, uint64_t n)
{
    if (n > m->bytes.len - m->at) {
        det_fail(m->err, DET_ECORRUPT, "it is %llu bytes long, the pickle ends after %zu",
                 (unsigned long long)n, m->bytes.len - m->at);
        return NULL;
    }
    const char *p = m->bytes.ptr + m->at;
    m->at += n;
    return p;
}

// --- plain values

static int run_constant(struct machine *m)
{
    return push(m, (struct object){.kind = (uint8_t)m->arg}); // None or an empty container
}

static int run_bool(struct machine *m)
{
    return push(m, (struct object){.kind = OBJECT_BOOL, .b = m->arg != 0});
}

static int run_unsigned(struct machine *m)
{
    return push(m, (struct object){.kind = OBJECT_INT, .i = (int64_t)m->arg});
}

static int run_signed(struct machine *m)
{
    return push(m, (struct object){.kind = OBJECT_INT, .i = (int32_t)(uint32_t)m->arg});
}

// Two's complement of any length; the empty one is 0.
static int run_long(struct machine *m)
{
    if (m->arg > sizeof(int64_t))
        return det_fail(m->err, DET_EUNSUPPORTED, "an integer of %llu bytes; det has 64 bits",
                        (unsigned long long)m->arg);
    const char *p = take(m, m->arg);
    if (!p) return DET_ECORRUPT;
    int64_t i = m->arg && (p[m->arg - 1] & 0x80) ? -1 : 0;
    memcpy(&i, p, m->arg);
    return push(m, (struct object){.kind = OBJECT_INT, .i = i});
}

static int run_float(struct machine *m)
{
    uint64_t bits = __builtin_bswap64(m->arg); // the one number that is big-endian
    struct object o = {.kind = OBJECT_FLOAT};
    memcpy(&o.f, &bits, sizeof o.f);
    return push(m, o);
}

static int run_str(struct machine *m)
{
    const char *p = take(m, m->arg);
    if (!p) return DET_ECORRUPT;
    struct str s = {p, (size_t)m->arg};
    if (memchr(p, 0, s.len))
        return det_fail(m->err, DET_EUNSUPPORTED, "a string with a NUL character");
    if (!utf8_valid(s)) return det_fail(m->err, DET_EUNSUPPORTED, "a string that is not UTF-8");
    return push(m, (struct object){.kind = OBJECT_STR, .s = s});
}

// --- containers

static void object_push(struct object *list, uint32_t item)
{
    list->list.items =
        pickle_grow(list->list.items, list->list.n, &list->list.cap, sizeof *list->list.items);
    list->list.items[list->list.n++] = item;
}

// Moves the top n objects of the stack into a container.
static void move_top(struct machine *m, uint32_t n, struct object *to)
{
    m->n_stack -= n;
    for (uint32_t i = 0; i < n; i++)
        object_push(to, m->stack[m->n_stack + i]);
}

static int tuple_of(struct machine *m, uint32_t n)
{
    struct object tuple = {.kind = OBJECT_TUPLE};
    move_top(m, n, &tuple);
    return push(m, tuple);
}

static int run_tuple_n(struct machine *m)
{
    uint32_t n = (uint32_t)m->arg;
    return has_on_stack(m, n) ? tuple_of(m, n) : DET_ECORRUPT;
}

static int run_tuple(struct machine *m)
{
    uint32_t n;
    return pop_mark(m, &n) ? tuple_of(m, n) : DET_ECORRUPT;
}

static int extend_list(struct machine *m, uint32_t n)
{
    struct object *list = peek(m, n, OBJECT_LIST);
    if (!list) return DET_ECORRUPT;
    move_top(m, n, list);
    return 0;
}

static int run_append(struct machine *m)
{
    return extend_list(m, 1);
}

static int run_appends(struct machine *m)
{
    uint32_t n;
    return pop_mark(m, &n) ? extend_list(m, n) : DET_ECORRUPT;
}

static int extend_dict(struct machine *m, uint32_t n)
{
    struct object *dict = peek(m, n, OBJECT_DICT);
    if (!dict) return DET_ECORRUPT;
    if (n % 2) return det_fail(m->err, DET_ECORRUPT, "a key without a value");
    for (uint32_t i = n; i > 0; i -= 2) {
        uint8_t kind = m->p->objects[m->stack[m->n_stack - i]].kind;
        if (kind != OBJECT_STR && kind != OBJECT_INT)
            return det_fail(m->err, DET_EUNSUPPORTED,
                            "a dict with a key of type %s; det has strings and integers",
                            object_kind_name(kind));
    }
    move_top(m, n, dict);
    return 0;
}

static int run_setitem(struct machine *m)
{
    return extend_dict(m, 2);
}

static int run_setitems(struct machine *m)
{
    uint32_t n;
    return pop_mark(m, &n) ? extend_dict(m, n) : DET_ECORRUPT;
}

static int run_mark(struct machine *m)
{
    m->marks = pickle_grow(m->marks, m->n_marks, &m->cap_marks, sizeof *m->marks);
    m->marks[m->n_marks++] = m->n_stack;
    return 0;
}

// --- memo

static int memorise(struct machine *m, uint64_t number)
{
    if (!has_on_stack(m, 1)) return DET_ECORRUPT;
    if (number >= MIN(m->bytes.len, (size_t)PICKLE_MAX_OBJECTS)) // Python counts from 0
        return det_fail(m->err, DET_ELIMIT, "memo number %llu in a pickle of %zu bytes",
                        (unsigned long long)number, m->bytes.len);
    while (m->n_memo <= number) {
        m->memo = pickle_grow(m->memo, m->n_memo, &m->cap_memo, sizeof *m->memo);
        m->memo[m->n_memo++] = NO_OBJECT;
    }
    m->n_memorised += m->memo[number] == NO_OBJECT;
    m->memo[number] = m->stack[m->n_stack - 1];
    return 0;
}

static int run_put(struct machine *m)
{
    return memorise(m, m->arg);
}

static int run_memoize(struct machine *m)
{
    return memorise(m, m->n_memorised);
}

static int run_get(struct machine *m)
{
    if (m->arg >= m->n_memo || m->memo[m->arg] == NO_OBJECT)
        return det_fail(m->err, DET_ECORRUPT, "memo number %llu was never set",
                        (unsigned long long)m->arg);
    push_id(m, m->memo[m->arg]);
    return 0;
}

// --- names and calls

static int push_global(struct machine *m, struct str module, struct str name)
{
    int row = global_find(module, name, m->err);
    if (row < 0) return DET_EUNSUPPORTED;
    return push(m, (struct object){.kind = OBJECT_GLOBAL, .index = (uint32_t)row});
}

static int run_global(struct machine *m)
{
    struct str rest = {m->bytes.ptr + m->at, m->bytes.len - m->at};
    struct str module = str_cut(&rest, '\n'), name = str_cut(&rest, '\n');
    if (!rest.ptr) return det_fail(m->err, DET_ECORRUPT, "its two lines do not end");
    m->at = (size_t)(rest.ptr - m->bytes.ptr);
    return push_global(m, module, name);
}

static int run_stack_global(struct machine *m)
{
    const struct object *name = peek(m, 0, OBJECT_STR);
    const struct object *module = name ? peek(m, 1, OBJECT_STR) : NULL;
    if (!module) return DET_ECORRUPT;
    m->n_stack -= 2;
    return push_global(m, module->s, name->s);
}

static int run_reduce(struct machine *m)
{
    const struct object *args = peek(m, 0, OBJECT_TUPLE);
    const struct object *global = args ? peek(m, 1, OBJECT_GLOBAL) : NULL;
    if (!global) return DET_ECORRUPT;
    uint32_t result;
    int rc = global_call(m->p, global->index, *args, &result, m->err);
    if (rc) return rc;
    m->n_stack -= 2;
    push_id(m, result);
    return 0;
}

static int run_persistent(struct machine *m)
{
    const struct object *id = peek(m, 0, OBJECT_TUPLE);
    if (!id) return DET_ECORRUPT;
    uint32_t storage;
    int rc = global_storage(m->p, *id, &storage, m->err);
    if (rc) return rc;
    m->n_stack--;
    push_id(m, storage);
    return 0;
}

// The attributes of an OrderedDict (torch keeps version numbers of modules there) are not data.
static int run_build(struct machine *m)
{
    const struct object *state = peek(m, 0, OBJECT_DICT);
    const struct object *target = state ? peek(m, 1, OBJECT_DICT) : NULL;
    if (!target) return DET_ECORRUPT;
    if (!target->ordered) return det_fail(m->err, DET_ECORRUPT, "attributes for a plain dict");
    m->n_stack--;
    return 0;
}

// --- begin and end

static int run_proto(struct machine *m)
{
    if (m->at != 2) return det_fail(m->err, DET_ECORRUPT, "in the middle of the pickle");
    if (m->arg < 2 || m->arg > 5)
        return det_fail(m->err, DET_EUNSUPPORTED, "pickle protocol %llu; det knows 2 to 5",
                        (unsigned long long)m->arg);
    return 0;
}

// A frame tells how much to read at once; everything is here already.
static int run_frame(struct machine *m)
{
    if (m->arg <= m->bytes.len - m->at) return 0;
    return det_fail(m->err, DET_ECORRUPT, "a frame of %llu bytes, the pickle ends after %zu",
                    (unsigned long long)m->arg, m->bytes.len - m->at);
}

static int run_stop(struct machine *m)
{
    if (m->n_marks || m->n_stack != 1 || m->at != m->bytes.len)
        return det_fail(
            m->err, DET_ECORRUPT,
            "%u objects and %u marks on the stack, %zu bytes to come; it should leave 1, "
            "0 and 0",
            m->n_stack, m->n_marks, m->bytes.len - m->at);
    m->p->root = m->stack[0];
    m->stopped = true;
    return 0;
}

struct opcode {
    const char *name;
    int (*run)(struct machine *m); // NULL: known, but not needed for data
    uint8_t n_arg;                 // bytes of its argument, little-endian
    uint8_t arg;                   // its argument if there are none
};

#define REFUSED(name)    \
    {                    \
        name, NULL, 0, 0 \
    }

// clang-format off
static const struct opcode opcodes[256] = {
    [0x80] = {"PROTO", run_proto, 1, 0},
    [0x95] = {"FRAME", run_frame, 8, 0},
    ['.'] = {"STOP", run_stop, 0, 0},
    ['N'] = {"NONE", run_constant, 0, OBJECT_NONE},
    [0x88] = {"NEWTRUE", run_bool, 0, true},
    [0x89] = {"NEWFALSE", run_bool, 0, false},
    ['J'] = {"BININT", run_signed, 4, 0},
    ['K'] = {"BININT1", run_unsigned, 1, 0},
    ['M'] = {"BININT2", run_unsigned, 2, 0},
    [0x8a] = {"LONG1", run_long, 1, 0},
    [0x8b] = {"LONG4", run_long, 4, 0},
    ['G'] = {"BINFLOAT", run_float, 8, 0},
    ['X'] = {"BINUNICODE", run_str, 4, 0},
    [0x8c] = {"SHORT_BINUNICODE", run_str, 1, 0},
    [0x8d] = {"BINUNICODE8", run_str, 8, 0},
    [']'] = {"EMPTY_LIST", run_constant, 0, OBJECT_LIST},
    [')'] = {"EMPTY_TUPLE", run_constant, 0, OBJECT_TUPLE},
    ['}'] = {"EMPTY_DICT", run_constant, 0, OBJECT_DICT},
    ['a'] = {"APPEND", run_append, 0, 0},
    ['e'] = {"APPENDS", run_appends, 0, 0},
    ['s'] = {"SETITEM", run_setitem, 0, 0},
    ['u'] = {"SETITEMS", run_setitems, 0, 0},
    ['t'] = {"TUPLE", run_tuple, 0, 0},
    [0x85] = {"TUPLE1", run_tuple_n, 0, 1},
    [0x86] = {"TUPLE2", run_tuple_n, 0, 2},
    [0x87] = {"TUPLE3", run_tuple_n, 0, 3},
    ['('] = {"MARK", run_mark, 0, 0},
    ['q'] = {"BINPUT", run_put, 1, 0},
    ['r'] = {"LONG_BINPUT", run_put, 4, 0},
    [0x94] = {"MEMOIZE", run_memoize, 0, 0},
    ['h'] = {"BINGET", run_get, 1, 0},
    ['j'] = {"LONG_BINGET", run_get, 4, 0},
    ['c'] = {"GLOBAL", run_global, 0, 0},
    [0x93] = {"STACK_GLOBAL", run_stack_global, 0, 0},
    ['R'] = {"REDUCE", run_reduce, 0, 0},
    ['Q'] = {"BINPERSID", run_persistent, 0, 0},
    ['b'] = {"BUILD", run_build, 0, 0},
    ['0'] = REFUSED("POP"), ['1'] = REFUSED("POP_MARK"), ['2'] = REFUSED("DUP"),
    ['B'] = REFUSED("BINBYTES"), ['C'] = REFUSED("SHORT_BINBYTES"), ['F'] = REFUSED("FLOAT"),
    ['I'] = REFUSED("INT"), ['L'] = REFUSED("LONG"), ['P'] = REFUSED("PERSID"),
    ['S'] = REFUSED("STRING"), ['T'] = REFUSED("BINSTRING"), ['U'] = REFUSED("SHORT_BINSTRING"),
    ['V'] = REFUSED("UNICODE"), ['d'] = REFUSED("DICT"), ['g'] = REFUSED("GET"),
    ['i'] = REFUSED("INST"), ['l'] = REFUSED("LIST"), ['o'] = REFUSED("OBJ"),
    ['p'] = REFUSED("PUT"), [0x81] = REFUSED("NEWOBJ"), [0x82] = REFUSED("EXT1"),
    [0x83] = REFUSED("EXT2"), [0x84] = REFUSED("EXT4"), [0x8e] = REFUSED("BINBYTES8"),
    [0x8f] = REFUSED("EMPTY_SET"), [0x90] = REFUSED("ADDITEMS"), [0x91] = REFUSED("FROZENSET"),
    [0x92] = REFUSED("NEWOBJ_EX"), [0x96] = REFUSED("BYTEARRAY8"), [0x97] = REFUSED("NEXT_BUFFER"),
    [0x98] = REFUSED("READONLY_BUFFER"),
};
// clang-format on

static int run_opcode(struct machine *m, const struct opcode *op, unsigned char byte)
{
    if (!op->name) return det_fail(m->err, DET_ECORRUPT, "no opcode has the number 0x%02x", byte);
    if (!op->run)
        return det_fail(
            m->err, DET_EUNSUPPORTED,
            "not needed for None, bool, int, float, str, list, tuple, dict and tensors, "
            "so not supported");
    if (MAX(m->p->n_objects, MAX(m->n_stack, m->n_marks)) >= PICKLE_MAX_OBJECTS)
        return det_fail(m->err, DET_ELIMIT, "more than %d objects", PICKLE_MAX_OBJECTS);
    m->arg = op->arg;
    if (op->n_arg) {
        const char *p = take(m, op->n_arg);
        if (!p) return DET_ECORRUPT;
        m->arg = 0;
        memcpy(&m->arg, p, op->n_arg);
    }
    return op->run(m);
}

int pickle_read(struct pickle *p, struct str bytes, det_err *err)
{
    det_err local;
    struct machine m = {.p = p, .bytes = bytes, .err = err ? err : &local};
    int rc = 0;
    *p = (struct pickle){0};
    if (!bytes.len || (unsigned char)bytes.ptr[0] != 0x80)
        rc = det_fail(err, DET_ECORRUPT, "it is not a pickle of protocol 2 or later");
    while (!rc && !m.stopped) {
        size_t at = m.at;
        if (at == bytes.len) {
            rc = det_fail(err, DET_ECORRUPT, "the pickle ends at byte %zu without STOP", at);
            break;
        }
        unsigned char byte = (unsigned char)bytes.ptr[m.at++];
        const struct opcode *op = &opcodes[byte];
        rc = run_opcode(&m, op, byte);
        if (rc) det_wrap(m.err, "byte %zu (%s)", at, op->name ? op->name : "?");
    }
    free(m.stack);
    free(m.marks);
    free(m.memo);
    if (rc) pickle_done(p);
    return rc;
}
