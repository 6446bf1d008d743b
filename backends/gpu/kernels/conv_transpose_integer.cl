// Of stored integers, summed in integers (WIDE: of 64 bits). Weights lie without their zero points.
#if WIDE
#define SUM long
#else
#define SUM int
#endif
#define LEFT(i) ((SUM)((int)LOAD0(i) - X_ZERO))
#include "conv_transpose_taps.cl"
