// search/mt.h: the Mersenne Twister MT19937 and what is drawn from it, in the order in which
// NumPy's RandomState and Determined draw. Private to the layer.
//
// Matsumoto, Nishimura: "Mersenne twister: a 623-dimensionally equidistributed uniform
// pseudo-random number generator" (1998).
#pragma once

#include <stdint.h>

enum { MT_WORDS = 624 };

struct mt {
    uint32_t words[MT_WORDS];
    int64_t at; // the next word to hand out; MT_WORDS: none left
};

void mt_init(struct mt *mt, uint32_t seed);
uint64_t mt_upto(struct mt *mt, uint64_t max); // 0 .. max; draws nothing for 0
double mt_unit(struct mt *mt);                 // [0, 1), 53 bits
double mt_uniform(struct mt *mt, double low, double high);
double mt_normal(struct mt *mt);
void mt_bytes(struct mt *mt, uint8_t *out, int n);
