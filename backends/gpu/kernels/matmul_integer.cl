// Of stored integers, without their zero points, summed in integers (WIDE: of 64 bits).
#if WIDE
#define SUM long
#else
#define SUM int
#endif
#define LEFT(i) ((int)LOAD0(i) - A_ZERO)
#define RIGHT(i) ((int)LOAD1(i) - B_ZERO)
#include "matmul_rows.cl"
