// Where clients come from, and which addresses count as one.
#include "http/peer.h"
#include "support/test.h"

#include <arpa/inet.h>

static struct peer read4(const char *text)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct peer peer;
    assert_int_equal(inet_pton(AF_INET, text, &in.sin_addr), 1);
    peer_read(&peer, (struct sockaddr *)&in);
    return peer;
}

static struct peer read6(const char *text)
{
    struct sockaddr_in6 in = {.sin6_family = AF_INET6};
    struct peer peer;
    assert_int_equal(inet_pton(AF_INET6, text, &in.sin6_addr), 1);
    peer_read(&peer, (struct sockaddr *)&in);
    return peer;
}

static void test_peer__of_ipv4_is_one_address(void **state)
{
    (void)state;
    struct peer p = read4("192.0.2.7");
    assert_string_equal(p.address, "192.0.2.7");
    assert_string_equal(p.network, "192.0.2.7");
}

static void test_peer__of_ipv6_is_its_network(void **state)
{
    (void)state;
    struct peer a = read6("2001:db8:1:2:3:4:5:6"), b = read6("2001:db8:1:2::9");
    assert_string_equal(a.address, "2001:db8:1:2:3:4:5:6");
    assert_string_equal(a.network, "2001:db8:1:2::");
    assert_string_equal(b.network, a.network);
    assert_string_not_equal(read6("2001:db8:1:3::9").network, a.network);
    assert_string_equal(read6("::1").network, "::1");
}

// All clients would be one if the first half of such an address counted.
static void test_peer__of_ipv4_on_a_socket_for_both_is_ipv4(void **state)
{
    (void)state;
    struct peer p = read6("::ffff:192.0.2.7");
    assert_string_equal(p.address, "192.0.2.7");
    assert_string_equal(p.network, "192.0.2.7");
}

static void test_peer__may_be_unknown(void **state)
{
    (void)state;
    struct peer p;
    peer_read(&p, NULL);
    assert_string_equal(p.network, "local");
}

RUN_TESTS(cmocka_unit_test(test_peer__of_ipv4_is_one_address),
          cmocka_unit_test(test_peer__of_ipv6_is_its_network),
          cmocka_unit_test(test_peer__of_ipv4_on_a_socket_for_both_is_ipv4),
          cmocka_unit_test(test_peer__may_be_unknown))
