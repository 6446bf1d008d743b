// Of numbers that are summed in their own type.
#define SUM T0
#define LEFT(i) LOAD0(i)
#include "conv_transpose_taps.cl"
