// Collectives over several nodes: the bits of one node, and failures that are heard everywhere.
#include "support/ranks.h"

#include "base/mem.h"
#include <arpa/inet.h>
#include <math.h>
#include <netinet/in.h>
#include <sys/socket.h>

enum { LARGE = 900001, N = RANKS_MAX }; // more pieces than are on their way at a time

// --- sums

// Values whose sum depends on the order in which they are added.
static float value_of(int rank, size_t i)
{
    static const float scale[] = {1e8F, 1, -1e8F, 3e-5F, 7, 1e4F, -2e3F, 0.1F};
    return scale[rank % 8] * (float)(i % 1013 + 1) / 7;
}

static uint64_t hash_of(const void *bytes, size_t n)
{
    uint64_t h = 1469598103934665603U;
    for (size_t i = 0; i < n; i++)
        h = (h ^ ((const unsigned char *)bytes)[i]) * 1099511628211U;
    return h;
}

static int sums(struct dist *d, int rank, struct rank_result *mine, void *user)
{
    float *x = xmalloc(LARGE * sizeof *x);
    double y[3] = {value_of(rank, 1), 1e300, value_of(rank, 2)};
    uint16_t *b = xmalloc(LARGE * sizeof *b);
    uint64_t hash;
    (void)user;
    for (size_t i = 0; i < LARGE; i++) {
        x[i] = value_of(rank, i);
        memcpy(&b[i], (char *)&x[i] + 2, 2); // bf16 is the first half of f32
    }
    RANK_CHECK(!dist_all_reduce(d, "x", x, LARGE, DIST_F32, DIST_MEAN, &mine->err));
    RANK_CHECK(!dist_all_reduce(d, "y", y, 3, DIST_F64, DIST_SUM, &mine->err));
    RANK_CHECK(!dist_all_reduce(d, "b", b, LARGE, DIST_BF16, DIST_MEAN, &mine->err));
    RANK_CHECK(!dist_all_reduce(d, "none", NULL, 0, DIST_F32, DIST_SUM, &mine->err));
    hash = hash_of(x, LARGE * sizeof *x) ^ hash_of(y, sizeof y) ^ hash_of(b, LARGE * sizeof *b);
    memcpy(&mine->number[0], &hash, sizeof hash);
    free(x);
    free(b);
    return 0;
}

static void test_sum__has_the_bits_of_one_node(void **state)
{
    static const int shapes[][2] = {{2, 4}, {4, 2}, {8, 1}};
    struct rank_result *one = ranks_run(N, sums, NULL);
    (void)state;
    assert_ranks_fine(one, N);
    for (size_t i = 0; i < 3; i++) {
        struct rank_result *all = ranks_run_nodes(shapes[i][0], shapes[i][1], sums, NULL);
        assert_ranks_fine(all, N);
        for (int k = 0; k < N; k++)
            assert_memory_equal(&all[k].number[0], &one[0].number[0], sizeof(uint64_t));
    }
}

// --- everything else

static int mix(struct dist *d, int rank, struct rank_result *mine, void *user)
{
    int size = dist_size(d);
    (void)user;
    RANK_CHECK(dist_rank(d) == rank);
    for (int i = 0; i < 200; i++) {
        int64_t number = rank == i % size ? i : -1;
        double sum = rank + i;
        struct dist_parts parts;
        if (!rank) dist_set_note(d, (uint64_t)i + 1);
        RANK_CHECK(!dist_broadcast(d, "number", i % size, &number, sizeof number, &mine->err));
        RANK_CHECK(number == i && dist_note(d) == (uint64_t)i + 1);
        RANK_CHECK(!dist_barrier(d, "here", &mine->err));
        RANK_CHECK(!dist_all_reduce(d, "sum", &sum, 1, DIST_F64, DIST_SUM, &mine->err));
        RANK_CHECK(sum == i * size + size * (size - 1) / 2.0);
        RANK_CHECK(!dist_all_gather(d, "text", (struct str){"abcdefgh", (size_t)(rank + i) % 9},
                                    &parts, &mine->err));
        for (int k = 0; k < size; k++)
            RANK_CHECK(str_eq(parts.part[k], (struct str){"abcdefgh", (size_t)(k + i) % 9}));
        dist_parts_done(&parts);
    }
    return 0;
}

static void test_operations__of_all_kinds_in_a_row(void **state)
{
    (void)state;
    assert_ranks_fine(ranks_run_nodes(2, 2, mix, NULL), 4);
    assert_ranks_fine(ranks_run_nodes(3, 1, mix, NULL), 3);
    assert_ranks_fine(ranks_run_nodes(4, 2, mix, NULL), 8);
}

static int large_bytes(struct dist *d, int rank, struct rank_result *mine, void *user)
{
    const size_t n = (5 << 20) + 3;
    unsigned char *bytes = xcalloc(n, 1);
    struct dist_parts parts;
    (void)user;
    for (int root = 0; root < 4; root += 3) {
        for (size_t i = 0; i < n; i++)
            bytes[i] = rank == root ? (unsigned char)(i * 31 + (size_t)root) : 0;
        RANK_CHECK(!dist_broadcast(d, "bytes", root, bytes, n, &mine->err));
        for (size_t i = 0; i < n; i++)
            RANK_CHECK(bytes[i] == (unsigned char)(i * 31 + (size_t)root));
    }
    RANK_CHECK(!dist_all_gather(d, "parts", (struct str){(char *)bytes, n / (size_t)(rank + 1)},
                                &parts, &mine->err));
    for (int k = 0; k < 4; k++) {
        RANK_CHECK(parts.part[k].len == n / (size_t)(k + 1));
        RANK_CHECK(!memcmp(parts.part[k].ptr, bytes, parts.part[k].len));
    }
    dist_parts_done(&parts);
    free(bytes);
    return 0;
}

static void test_bytes__of_any_length(void **state)
{
    (void)state;
    assert_ranks_fine(ranks_run_nodes(2, 2, large_bytes, NULL), 4);
    assert_ranks_fine(ranks_run_nodes(4, 1, large_bytes, NULL), 4);
}

// --- failures

static void assert_says(const struct rank_result *r, int code, const char *text)
{
    assert_int_equal(r->status, 0);
    assert_int_equal(r->err.code, code);
    if (!strstr(r->err.msg, text)) fail_msg("'%s' is not in '%s'", text, r->err.msg);
}

static int one_dies(struct dist *d, int rank, struct rank_result *mine, void *user)
{
    const int *victim = user;
    float *x = xcalloc(LARGE, sizeof *x);
    int rc = 0;
    RANK_CHECK(!dist_barrier(d, "x", &mine->err));
    for (int i = 0; !rc && i < 100; i++) {
        if (rank == *victim && i == 3) raise(SIGKILL);
        rc = dist_all_reduce(d, "x", x, LARGE, DIST_F32, DIST_SUM, &mine->err);
    }
    free(x);
    return rc ? 0 : 1;
}

static void test_death__of_a_rank_is_noticed_on_all_nodes(void **state)
{
    (void)state;
    for (int victim = 0; victim < 6; victim++) {
        struct rank_result *all = ranks_run_nodes(3, 2, one_dies, &victim);
        char other[64];
        snprintf(other, sizeof other, "rank %d (process ", victim);
        for (int i = 0; i < 6; i++) {
            if (i == victim) continue;
            assert_int_equal(all[i].status, 0);
            assert_int_equal(all[i].err.code, DET_EUNREACHABLE);
        }
        int beside = victim ^ 1; // on the same node: it always knows who it was
        assert_says(&all[beside], DET_EUNREACHABLE, other);
        for (int i = 0; i < 6; i++) // a leader cannot say that it has died
            if (i != victim && victim % 2) assert_says(&all[i], DET_EUNREACHABLE, other);
    }
}

static int one_fails(struct dist *d, int rank, struct rank_result *mine, void *user)
{
    const int *who = user;
    if (rank == *who) {
        dist_fail(d, DET_EHPARAM, "the learning rate is too large");
        return 0;
    }
    RANK_CHECK(dist_barrier(d, "x", &mine->err));
    return 0;
}

static void test_failure__is_heard_on_all_nodes_with_its_reason(void **state)
{
    char text[64];
    (void)state;
    for (int who = 0; who < 6; who++) {
        struct rank_result *all = ranks_run_nodes(3, 2, one_fails, &who);
        snprintf(text, sizeof text, "rank %d: the learning rate is too large", who);
        for (int i = 0; i < 6; i++)
            if (i != who) assert_says(&all[i], DET_EHPARAM, text);
    }
}

static int leave_together(struct dist *d, int rank, struct rank_result *mine, void *user)
{
    (void)rank, (void)user;
    RANK_CHECK(!dist_barrier(d, "the last", &mine->err));
    return 0;
}

static int node_leaves(struct dist *d, int rank, struct rank_result *mine, void *user)
{
    (void)user;
    RANK_CHECK(!dist_barrier(d, "x", &mine->err));
    if (rank >= 2) return 0;
    RANK_CHECK(dist_barrier(d, "y", &mine->err));
    return 0;
}

static void test_leaving__too_early_is_an_error(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++)
        assert_ranks_fine(ranks_run_nodes(3, 1, leave_together, NULL), 3);
    struct rank_result *all = ranks_run_nodes(2, 2, node_leaves, NULL);
    for (int i = 0; i < 2; i++)
        assert_says(&all[i], DET_EUNREACHABLE, "left before the others were done");
}

static int deviate(struct dist *d, int rank, struct rank_result *mine, void *user)
{
    float x[2] = {0};
    (void)user;
    return dist_all_reduce(d, "x", x, rank < 2 ? 1 : 2, DIST_F32, DIST_SUM, &mine->err) ? 0 : 1;
}

static void test_order__of_operations_must_be_the_same_on_all_nodes(void **state)
{
    (void)state;
    struct rank_result *all = ranks_run_nodes(2, 2, deviate, NULL);
    for (int i = 0; i < 4; i++) {
        assert_says(&all[i], DET_ESTATE, "ranks do not do the same");
        assert_says(&all[i], DET_ESTATE, "all-reduce of 'x', 8 bytes");
    }
}

// --- meeting

// Connects to the first node, and does not know the key.
static int with_strangers(struct dist *d, int rank, struct rank_result *mine, void *user)
{
    (void)rank, (void)user;
    RANK_CHECK(d && !dist_barrier(d, "x", &mine->err));
    return 0;
}

static pid_t start_stranger(int port)
{
    pid_t pid = fork();
    if (pid) return pid;
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char noise[512] = "GET / HTTP/1.1\r\n\r\n";
    for (int n = 0; n < 3;) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (!connect(fd, (const struct sockaddr *)&to, sizeof to)) {
            n += send(fd, noise, sizeof noise, MSG_NOSIGNAL) > 0;
            while (recv(fd, noise, sizeof noise, 0) > 0) // until it is hung up on
                ;
        }
        close(fd);
    }
    _exit(0);
}

static void test_strangers__are_hung_up_on(void **state)
{
    struct port port;
    char nodes[64];
    (void)state;
    assert_int_equal(port_take(&port, NULL), 0);
    snprintf(nodes, sizeof nodes, "127.0.0.1:%d,127.0.0.1:1", port.number);
    pid_t stranger = start_stranger(port.number);
    struct rank_result *all = ranks_memory();
    struct rank_start s = {
        .size = 2, .n_nodes = 2, .nodes = nodes, .fn = with_strangers, .key = "the key"};
    pid_t pid[2];
    for (int i = 0; i < 2; i++) {
        pid[i] = fork();
        if (!pid[i]) _exit(rank_main(&s, i, &all[i]));
        if (!i) assert_int_equal(waitpid(stranger, NULL, 0), stranger); // it was there first
    }
    ranks_wait(pid, 2, all);
    assert_ranks_fine(all, 2);
    port_return(&port);
}

static void test_join__says_who_did_not_come(void **state)
{
    struct port ports[2];
    char nodes[64];
    struct dist *d;
    det_err err;
    (void)state;
    for (int i = 0; i < 2; i++)
        assert_int_equal(port_take(&ports[i], NULL), 0);
    snprintf(nodes, sizeof nodes, "127.0.0.1:%d,127.0.0.1:%d", ports[0].number, ports[1].number);
    struct dist_opts opts = {
        .key = "nobody comes", .size = 2, .local_size = 1, .timeout_us = 100000};
    assert_int_equal(dist_join(&opts, &d, &err), DET_EINVAL);
    assert_non_null(strstr(err.msg, "there is no DET_RANKS_NODES"));
    opts.nodes = nodes;
    assert_int_equal(dist_join(&opts, &d, &err), DET_ETIMEOUT);
    assert_non_null(strstr(err.msg, "node 1 did not come"));
    opts.rank = opts.node = 1;
    assert_int_equal(dist_join(&opts, &d, &err), DET_ETIMEOUT);
    assert_non_null(strstr(err.msg, "node 0 does not answer at 127.0.0.1:"));
    opts.nodes = "127.0.0.1,nonsense";
    assert_int_equal(dist_join(&opts, &d, &err), DET_EINVAL);
    assert_non_null(strstr(err.msg, "DET_RANKS_NODES must be HOST:PORT"));
    opts.node = 7;
    assert_int_equal(dist_join(&opts, &d, &err), DET_EINVAL);
    assert_non_null(strstr(err.msg, "DET_RANKS_NODES names 2 nodes"));
    for (int i = 0; i < 2; i++)
        port_return(&ports[i]);
}

RUN_TESTS(cmocka_unit_test(test_sum__has_the_bits_of_one_node),
          cmocka_unit_test(test_operations__of_all_kinds_in_a_row),
          cmocka_unit_test(test_bytes__of_any_length),
          cmocka_unit_test(test_death__of_a_rank_is_noticed_on_all_nodes),
          cmocka_unit_test(test_failure__is_heard_on_all_nodes_with_its_reason),
          cmocka_unit_test(test_leaving__too_early_is_an_error),
          cmocka_unit_test(test_order__of_operations_must_be_the_same_on_all_nodes),
          cmocka_unit_test(test_strangers__are_hung_up_on),
          cmocka_unit_test(test_join__says_who_did_not_come))
