// Fuzz target task_log: anything is a line of a log, and as our writer would write it, it reads
// back the same.
#include "fuzz.h"

#include "base/assert.h"
#include "base/mem.h"
#include "task/log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *bytes = xmalloc(size); // of this size exactly, so that reading beyond it is noticed
    if (size) memcpy(bytes, data, size);
    char head[LOG_HEAD_BYTES];
    struct buf text = BUF_INIT(size + sizeof head);
    struct task_line line = log_parse_line((struct str){bytes, size});
    ASSERT(line.text.len <= size);
    buf_add(&text, head, log_format_head(&line, head));
    buf_add(&text, line.text.ptr, line.text.len);
    ASSERT(buf_ok(&text));
    struct task_line again = log_parse_line(buf_str(&text));
    ASSERT(again.time_us == line.time_us && again.rank == line.rank);
    ASSERT(again.stream == line.stream && again.partial == line.partial);
    ASSERT(str_eq(again.text, line.text));
    buf_done(&text);
    free(bytes);
    return 0;
}
