// Unit petname.c: names for experiments that were given none.
#include "config/config.h"

#include "base/rng.h"

static const char *const adverbs[] = {
    "barely",   "boldly",  "calmly",  "clearly",  "cleverly", "daily",   "deeply",   "duly",
    "early",    "easily",  "evenly",  "fairly",   "firmly",   "freely",  "fully",    "gently",
    "gladly",   "happily", "highly",  "kindly",   "lightly",  "lively",  "loudly",   "merrily",
    "mildly",   "nearly",  "neatly",  "newly",    "nicely",   "openly",  "plainly",  "promptly",
    "proudly",  "quickly", "quietly", "rarely",   "readily",  "rightly", "safely",   "sharply",
    "silently", "simply",  "slowly",  "smoothly", "softly",   "solely",  "steadily", "strongly",
    "surely",   "swiftly", "truly",   "vastly",   "vividly",  "warmly",  "wholly",   "widely",
    "wildly",   "wisely",  "wryly",   "yearly",   "briskly",  "keenly",  "purely",   "tidily",
};

static const char *const adjectives[] = {
    "able",    "amber",  "ample",   "brave",  "brief",  "bright",  "brisk",   "bronze",
    "careful", "cheery", "civil",   "clean",  "cosmic", "crisp",   "curious", "daring",
    "eager",   "early",  "exact",   "fair",   "fluent", "fond",    "frank",   "fresh",
    "gentle",  "golden", "grand",   "handy",  "hardy",  "humble",  "ideal",   "jolly",
    "keen",    "lucid",  "lucky",   "mellow", "modest", "native",  "noble",   "novel",
    "patient", "placid", "polite",  "prime",  "proud",  "quick",   "quiet",   "rapid",
    "rare",    "robust", "scarlet", "sharp",  "silver", "sincere", "sleek",   "smart",
    "snug",    "steady", "sturdy",  "sunny",  "tidy",   "vivid",   "warm",    "witty",
};

static const char *const animals[] = {
    "alpaca",  "badger",  "beaver", "bison",   "buzzard", "camel",  "condor",  "coyote",
    "crane",   "cricket", "curlew", "dingo",   "dolphin", "egret",  "eland",   "falcon",
    "ferret",  "finch",   "gannet", "gazelle", "gecko",   "gibbon", "grouse",  "hamster",
    "hare",    "heron",   "hornet", "ibex",    "iguana",  "jackal", "jaguar",  "kestrel",
    "koala",   "lemur",   "lizard", "lynx",    "magpie",  "marmot", "marten",  "mole",
    "moose",   "newt",    "ocelot", "osprey",  "otter",   "panda",  "pelican", "pigeon",
    "plover",  "puffin",  "quail",  "rabbit",  "raven",   "robin",  "salmon",  "seal",
    "sparrow", "stoat",   "swift",  "tapir",   "toad",    "trout",  "walrus",  "wombat",
};

#define PICK(words, seed, index) \
    (words)[rng_below((seed), 0, (index), sizeof(words) / sizeof *(words))]

const char *config_petname(struct arena *arena, uint64_t seed)
{
    return arena_printf(arena, "%s-%s-%s", PICK(adverbs, seed, 0), PICK(adjectives, seed, 1),
                        PICK(animals, seed, 2));
}
