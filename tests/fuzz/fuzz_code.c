// Fuzz target code: archives of the code of experiments. Whatever is in one, it is looked through
// within the limits; what passes unpacks below a directory, as files and directories only.
#include "fuzz.h"

#include "base/assert.h"
#include "base/mem.h"
#include "master/code.h"
#include <ftw.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

static int check_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)type, (void)ftw;
    ASSERT(S_ISREG(st->st_mode) || S_ISDIR(st->st_mode));
    ASSERT(!(st->st_mode & (S_ISUID | S_ISGID)));
    return remove(path);
}

static char root[64];

static void clean(void)
{
    nftw(root, check_one, 16, FTW_DEPTH | FTW_PHYS);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char kept[128], work[128], archive[256];
    struct code_info info;
    if (!*root) {
        snprintf(root, sizeof root, "/tmp/det-fuzz-code-XXXXXX");
        ASSERT(mkdtemp(root) && sodium_init() >= 0);
        atexit(clean);
    }
    snprintf(kept, sizeof kept, "%s/kept", root);
    snprintf(work, sizeof work, "%s/work", root);
    mkdir(kept, 0700);
    char *bytes = xmalloc(size); // of this size exactly, so that reading beyond it is noticed
    if (size) memcpy(bytes, data, size);
    if (!code_keep((struct str){bytes, size}, kept, &info, NULL)) {
        snprintf(archive, sizeof archive, "%s/%s", kept, info.name);
        code_unpack(archive, work, NULL);
        unlink(archive);
        nftw(work, check_one, 16, FTW_DEPTH | FTW_PHYS);
    }
    free(bytes);
    return 0;
}
