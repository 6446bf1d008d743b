// What scatter_winner found: each element of the result is the update of that number, or stays where there is none.
__kernel GROUP void KERNEL(ARGUMENTS) {
  uint g = (uint)get_global_id(0);
  if (g >= COUNT) return;
  COORDINATES
  const int winner = LOAD1(AT1);
  T0 value;
  if (winner >= 0 && winner < UPDATES) value = LOAD2(AT2 + winner * U_STEP);
  else value = LOAD0(AT0);
  FINISH;
}
