// Of numbers that are summed in their own type.
#define SUM T0
#define LEFT(i) LOAD0(i)
#define RIGHT(i) LOAD1(i)
#include "matmul_rows.cl"
