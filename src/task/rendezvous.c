// Unit rendezvous.c: where the processes of a task meet each other: ports of this machine that are
// theirs, and which machines there are. Called by the shim when it starts ranks.
#include "task/shim.h"

#include "base/assert.h"
#include "doc/json.h"

// The first is that of torch.distributed, and MASTER_PORT of ranks.
static const char *const port_names[TASK_N_PORTS] = {"C10D_PORT", "DTRAIN_SSH_PORT",
                                                     "INTER_TRAIN_PROCESS_COMM_PORT_1",
                                                     "INTER_TRAIN_PROCESS_COMM_PORT_2"};

int task_ports_take(struct port ports[TASK_N_PORTS], det_err *err)
{
    int rc = 0;
    for (int i = 0; !rc && i < TASK_N_PORTS; i++)
        rc = port_take(&ports[i], err);
    return rc;
}

void task_ports_return(struct port ports[TASK_N_PORTS])
{
    for (int i = 0; i < TASK_N_PORTS; i++)
        port_return(&ports[i]);
}

const char *task_port_variable(struct arena *arena, const struct port ports[TASK_N_PORTS], int i)
{
    return arena_printf(arena, "%s=%d", port_names[i], ports[i].number);
}

// There is one machine, and its processes reach each other without leaving it.
const char *task_rendezvous(struct arena *arena, const struct task_spec *spec)
{
    struct buf text = BUF_INIT(4096);
    struct json_writer w;
    json_init(&w, &text, 0);
    json_open_map(&w);
    json_key(&w, "container_addrs");
    json_open_list(&w);
    json_put_str(&w, TASK_ADDRESS);
    json_close(&w);
    json_key(&w, "container_rank");
    json_put_int(&w, 0);
    json_key(&w, "container_slot_counts");
    json_open_list(&w);
    json_put_int(&w, (int64_t)spec->slots.n);
    json_close(&w);
    json_close(&w);
    const char *entry = arena_printf(arena, "DET_RENDEZVOUS_INFO=%s", buf_str(&text).ptr);
    buf_done(&text);
    return entry;
}
