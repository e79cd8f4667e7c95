// Unit environment.c: what surrounds a task: images, variables, ports, bind mounts.
#include "config/tables.h"

#include "base/assert.h"

#define E(member) offsetof(struct environment_config, member)
#define A(member) offsetof(struct registry_auth, member)
#define P(member) offsetof(struct proxy_port, member)
#define B(member) offsetof(struct bind_mount, member)

const struct field string_item = {.name = "", .type = FIELD_STR};

// One value for every kind of device is short for a map.
static const struct doc *for_all_devices(struct field_ctx *ctx, const struct doc *value,
                                         enum doc_kind kind)
{
    static const char *const devices[] = {"cpu", "cuda", "rocm"};
    if (value->kind != kind) return value;
    struct doc *map = doc_new(ctx->arena, DOC_MAP);
    map->pos = value->pos;
    for (size_t i = 0; i < STATIC_LEN(devices); i++)
        doc_set(map, str_from(devices[i]), doc_share(ctx->arena, value));
    return map;
}

static const struct doc *convert_image(struct field_ctx *ctx, const struct doc *value)
{
    return for_all_devices(ctx, value, DOC_STR);
}

static void check_variable(struct field_ctx *ctx, const struct doc *value, const void *member)
{
    (void)member;
    bool good = value->kind == DOC_STR && strchr(value->text.ptr, '=') && value->text.ptr[0] != '=';
    if (!good) field_error(ctx, value, "must be NAME=VALUE, found %s", field_show(ctx, value));
}

// Checked here, because a mistake in a list for all devices is one mistake, not three.
static const struct doc *convert_variables(struct field_ctx *ctx, const struct doc *value)
{
    int n_wrong = ctx->n_wrong;
    size_t index = 0;
    for (const struct doc *e = value->kind == DOC_LIST ? value->first : NULL; e; e = e->next) {
        struct field_path path = field_at_index(ctx, index++);
        ctx->path = &path;
        check_variable(ctx, e, NULL);
        ctx->path = path.up;
    }
    return ctx->n_wrong == n_wrong ? for_all_devices(ctx, value, DOC_LIST) : NULL;
}

// The name of a file is short for its contents.
static const struct doc *convert_requirements(struct field_ctx *ctx, const struct doc *value)
{
    if (value->kind != DOC_STR) return value;
    struct doc *list = doc_new(ctx->arena, DOC_LIST);
    struct doc *line = doc_new_str(ctx->arena, arena_printf(ctx->arena, "-r %s", value->text.ptr));
    list->pos = line->pos = value->pos;
    doc_append(list, line);
    return list;
}

static void check_requirement(struct field_ctx *ctx, const struct doc *value, const void *member)
{
    const char *line = *(const char *const *)member;
    if (!*line || strchr(line, '\n'))
        field_error(ctx, value, "must be one line of a file of requirements, found %s",
                    field_show(ctx, value));
}

static const struct field requirement_item = {
    .name = "", .type = FIELD_STR, .check = check_requirement};

static void check_python(struct field_ctx *ctx, const struct doc *value, const void *member)
{
    const char *python = *(const char *const *)member;
    if (python[0] != '/')
        field_error(ctx, value,
                    "must be the absolute path of an interpreter or of a virtual environment, "
                    "found %s",
                    field_show(ctx, value));
}

static const struct field variable_item = {.name = "", .type = FIELD_STR, .check = check_variable};

static void check_ports(struct field_ctx *ctx, const struct doc *value, const void *member)
{
    (void)member;
    for (const struct doc *e = value->first; e; e = e->next) {
        struct field_path path = field_at_key(ctx, e->key);
        ctx->path = &path;
        if (e->kind != DOC_INT || e->integer < 1 || e->integer > 65535)
            field_error(ctx, e, "must be a port from 1 to 65535, found %s", field_show(ctx, e));
        ctx->path = path.up;
    }
}

static void check_container_path(struct field_ctx *ctx, const struct doc *value, const void *member)
{
    const char *path = *(const char *const *)member;
    if (!*path || !strcmp(path, "."))
        field_error(ctx, value, "must not be the working directory itself");
}

// clang-format off
#define OLD_GPU {"gpu", FIELD_OLD, .into = "cuda", .help = "The old name of cuda."}

static const struct field image_rows[] = {
    {"cpu", FIELD_STR, E(image.cpu), .help = "The image for tasks without accelerators."},
    {"cuda", FIELD_STR, E(image.cuda), .help = "The image for tasks on CUDA devices."},
    {"rocm", FIELD_STR, E(image.rocm), .help = "The image for tasks on ROCm devices."},
    OLD_GPU,
};

#define VARIABLES_ROW(device, where)                                                               \
    {#device, FIELD_LIST, E(variables.device), .item = &variable_item,                             \
     .merge = field_merge_append,                                                                  \
     .help = "Variables for tasks " where ", as NAME=VALUE; the last of a name wins."}

static const struct field variable_rows[] = {
    VARIABLES_ROW(cpu, "without accelerators"),
    VARIABLES_ROW(cuda, "on CUDA devices"),
    VARIABLES_ROW(rocm, "on ROCm devices"),
    OLD_GPU,
};

static const struct field auth_rows[] = {
    {"username", FIELD_STR, A(username), .help = "The user name at the registry."},
    {"password", FIELD_STR, A(password), .secret = true, .help = "The password at the registry."},
    {"auth", FIELD_STR, A(auth), .secret = true, .help = "User name and password, encoded."},
    {"email", FIELD_STR, A(email), .help = "The e-mail address of the account."},
    {"serveraddress", FIELD_STR, A(server_address), .help = "The registry."},
    {"identitytoken", FIELD_STR, A(identity_token), .secret = true,
     .help = "A token instead of a password."},
    {"registrytoken", FIELD_STR, A(registry_token), .secret = true,
     .help = "A token sent to the registry."},
};

static const struct field proxy_port_rows[] = {
    {"proxy_port", FIELD_INT, P(proxy_port), .required = true, FIELD_RANGE(1, 65535),
     .help = "The port of the task that is reachable through the master."},
    {"proxy_tcp", FIELD_BOOL, P(proxy_tcp), .def = "false",
     .help = "Whether it speaks plain TCP, not HTTP."},
    {"unauthenticated", FIELD_BOOL, P(unauthenticated), .def = "false",
     .help = "Whether it is reachable without signing in."},
    {"default_service_id", FIELD_BOOL, P(default_service_id), .def = "false",
     .help = "Whether it is reachable under the id of the task alone."},
};
// clang-format on

static const struct field_table image_table = {.size = sizeof(struct environment_config),
                                               FIELD_ROWS(image_rows)};
static const struct field_table variables_table = {.size = sizeof(struct environment_config),
                                                   FIELD_ROWS(variable_rows)};
static const struct field_table auth_table = {.size = sizeof(struct registry_auth),
                                              FIELD_ROWS(auth_rows)};
static const struct field_table proxy_port_table = {.size = sizeof(struct proxy_port),
                                                    FIELD_ROWS(proxy_port_rows)};
static const struct field proxy_port_item = {
    .name = "", .type = FIELD_TABLE, .table = &proxy_port_table};

// clang-format off
#define NO_CONTAINERS "Tasks run without containers."

static const struct field environment_rows[] = {
    {"image", FIELD_TABLE, 0, .table = &image_table, .convert = convert_image,
     .no_effect = NO_CONTAINERS,
     .help = "The container image, one for all or one for each kind of device."},
    {"environment_variables", FIELD_TABLE, 0, .table = &variables_table,
     .convert = convert_variables,
     .help = "Environment variables, a list of NAME=VALUE, or one list for each kind of device. "
             "The values are shown to the owner and to administrators only."},
    {"force_pull_image", FIELD_BOOL, E(force_pull_image), .def = "false",
     .no_effect = NO_CONTAINERS,
     .help = "Whether the image is fetched even if it is there already."},
    {"registry_auth", FIELD_TABLE, E(registry_auth), .table = &auth_table,
     .no_effect = NO_CONTAINERS,
     .help = "How to sign in at the image registry."},
    {"ports", FIELD_MAP, E(ports), .def = "{}", .check = check_ports,
     .no_effect = "A task opens ports by itself; they are those of the machine.",
     .help = "Ports to open, by name."},
    {"proxy_ports", FIELD_LIST, E(proxy_ports), .item = &proxy_port_item,
     .merge = field_merge_union, .merge_key = "proxy_port",
     .no_effect = "The master does not forward connections to tasks.",
     .help = "Ports of the task that are reachable through the master."},
    {"add_capabilities", FIELD_LIST, E(add_capabilities), .item = &string_item,
     .no_effect = NO_CONTAINERS,
     .help = "Linux capabilities that the container gets."},
    {"drop_capabilities", FIELD_LIST, E(drop_capabilities), .item = &string_item,
     .no_effect = NO_CONTAINERS,
     .help = "Linux capabilities that the container loses."},
    {"pod_spec", FIELD_MAP, E(pod_spec), .no_effect = "Tasks do not run on Kubernetes.",
     .help = "A Kubernetes pod specification."},
    {"python", FIELD_STR, E(python), .check = check_python,
     .help = "Which Python the task has: the path of an interpreter, or of a virtual environment. "
             "By default the one that det was called from, if it is on the machine of the master."},
    {"requirements", FIELD_LIST, E(requirements), .item = &requirement_item,
     .convert = convert_requirements,
     .help = "Packages of Python that the task needs, as lines of a file of requirements, or the "
             "name of such a file in the code. A virtual environment with them, on top of those of "
             "python, is made before the first task that needs it, and kept. The user and password of an "
             "address are shown to the owner and to administrators only."},
};

static const struct field bind_mount_rows[] = {
    {"host_path", FIELD_STR, B(host_path), .required = true, .check = check_absolute,
     .help = "The directory on the host."},
    {"container_path", FIELD_STR, B(container_path), .required = true,
     .check = check_container_path,
     .help = "Where the task sees it. Relative paths are below the working directory."},
    {"read_only", FIELD_BOOL, B(read_only), .def = "false",
     .help = "Whether the task may only read it."},
    {"propagation", FIELD_STR, B(propagation), .def = "rprivate", .no_effect = "Mounts are private.",
     .help = "The mount propagation."},
};
// clang-format on

static bool has_variable(const char *const *items, size_t n, const char *text)
{
    for (size_t i = 0; i < n; i++)
        if (items[i] && text && !strcmp(items[i], text)) return true;
    return false;
}

// All slots are processors: what is set for another kind of device alone is never used.
static void check_environment(struct field_ctx *ctx, const struct doc *map, void *self)
{
    const struct environment_config *e = self;
    bool lost = false;
    for (size_t i = 0; i < e->variables.cuda.n; i++)
        lost |=
            !has_variable(e->variables.cpu.items, e->variables.cpu.n, e->variables.cuda.items[i]);
    for (size_t i = 0; i < e->variables.rocm.n; i++)
        lost |=
            !has_variable(e->variables.cpu.items, e->variables.cpu.n, e->variables.rocm.items[i]);
    if (!lost) return;
    struct field_path path = field_at_key(ctx, STR("environment_variables"));
    ctx->path = &path;
    field_warn(ctx, doc_find(map, "environment_variables"),
               "variables for CUDA and ROCm devices have no effect. All slots are processors: set "
               "those of cpu, or one list for all.");
    ctx->path = path.up;
}

const struct field_table environment_table = {.size = sizeof(struct environment_config),
                                              FIELD_ROWS(environment_rows),
                                              .check = check_environment};
const struct field_table bind_mount_table = {.size = sizeof(struct bind_mount),
                                             FIELD_ROWS(bind_mount_rows)};
