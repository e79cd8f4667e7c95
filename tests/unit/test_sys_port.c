#include "sys/port.h"
#include "support/files.h"
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MANY = 50 };

static int listen_on(int number)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)number),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (!bind(fd, (struct sockaddr *)&a, sizeof a) && !listen(fd, 1)) return fd;
    close(fd);
    return -1;
}

static void test_take__gives_ports_that_can_be_listened_on(void **state)
{
    (void)state;
    struct port port;
    det_err err = {0};
    assert_ok(port_take(&port, &err), &err);
    int fd = listen_on(port.number);
    assert_true(fd >= 0);
    close(fd);
    port_return(&port);
    assert_int_equal(port.lock, -1);
    port_return(&port);
}

static bool is_among(const struct port *ports, int n, int number)
{
    for (int i = 0; i < n; i++)
        if (ports[i].number == number) return true;
    return false;
}

static void test_take__gives_a_port_once_until_it_is_returned(void **state)
{
    (void)state;
    struct port ports[MANY];
    det_err err = {0};
    for (int i = 0; i < MANY; i++) {
        assert_ok(port_take(&ports[i], &err), &err);
        assert_false(is_among(ports, i, ports[i].number));
    }
    for (int i = 0; i < MANY; i++)
        port_return(&ports[i]);
}

// What another process has, while it lives.
static void test_take__gives_no_port_that_another_process_was_given(void **state)
{
    (void)state;
    struct port theirs[MANY], port;
    det_err err = {0};
    int result[2], go_on[2];
    assert_int_equal(pipe(result), 0);
    assert_int_equal(pipe(go_on), 0);
    pid_t pid = fork();
    if (pid == 0) {
        char byte;
        for (int i = 0; i < MANY; i++)
            if (port_take(&theirs[i], NULL)) _exit(1);
        if (write(result[1], theirs, sizeof theirs) != sizeof theirs) _exit(1);
        _exit(read(go_on[0], &byte, 1) != 1);
    }
    assert_int_equal(read(result[0], theirs, sizeof theirs), sizeof theirs);
    for (int i = 0; i < MANY; i++) {
        assert_ok(port_take(&port, &err), &err);
        assert_false(is_among(theirs, MANY, port.number));
        port_return(&port);
    }
    int status;
    assert_int_equal(write(go_on[1], "", 1), 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

// What a program listens on that has asked nobody.
static void test_take__passes_over_what_is_in_use(void **state)
{
    (void)state;
    struct port port;
    det_err err = {0};
    assert_ok(port_take(&port, &err), &err);
    int number = port.number, fd = listen_on(number);
    assert_true(fd >= 0);
    port_return(&port); // nobody has the name any more, but the port is in use
    for (int i = 0; i < MANY; i++) {
        assert_ok(port_take_from(number, 2, &port, &err), &err);
        assert_int_equal(port.number, number + 1);
        port_return(&port);
    }
    assert_int_equal(port_take_from(number, 1, &port, &err), DET_ELIMIT);
    assert_failed_with(&err, DET_ELIMIT, "is free");
    close(fd);
}

RUN_TESTS(cmocka_unit_test(test_take__gives_ports_that_can_be_listened_on),
          cmocka_unit_test(test_take__gives_a_port_once_until_it_is_returned),
          cmocka_unit_test(test_take__gives_no_port_that_another_process_was_given),
          cmocka_unit_test(test_take__passes_over_what_is_in_use))
