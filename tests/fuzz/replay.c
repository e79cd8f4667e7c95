// Program replay: calls a fuzz target with every file of the folders given, one after another. A
// crash is a failure, and so is a folder without files.
#include "fuzz.h"

#include "sys/fs.h"
#include <dirent.h>

enum { INPUT_MAX = 1 << 20 };

static int replay_file(const char *path)
{
    det_err err = {0};
    struct buf input = BUF_INIT(INPUT_MAX);
    int rc = fs_read(path, &input, &err);
    if (rc)
        fprintf(stderr, "%s\n", err.msg);
    else
        LLVMFuzzerTestOneInput((const uint8_t *)buf_str(&input).ptr, input.len);
    buf_done(&input);
    return rc;
}

// Returns the number of files, or -1.
static int replay_folder(const char *folder)
{
    int n = 0;
    DIR *dir = opendir(folder);
    if (!dir) {
        perror(folder);
        return -1;
    }
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (entry->d_name[0] == '.') continue;
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (replay_file(path)) {
            n = -1;
            break;
        }
        n++;
    }
    closedir(dir);
    return n;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        int n = replay_folder(argv[i]);
        if (n <= 0) {
            fprintf(stderr, "replay: nothing to replay in '%s'\n", argv[i]);
            return 1;
        }
        printf("%s: %d inputs\n", argv[i], n);
    }
    return argc < 2;
}
