// SPDX-License-Identifier: Apache-2.0
// The tiles of AMX in C, after the pseudocode of Intel's manual: included before the sources of the instruction set
// amx, which then run on processors without. What a processor answers with a fault ends the program here. For tests
// alone.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define QR_EMULATED_AMX 1

namespace emulated_amx {

struct Tiles {
  struct Shapes {  // as ldtilecfg reads them
    std::uint8_t palette, start, reserved[14];
    std::uint16_t columns[16];
    std::uint8_t rows[16];
  } shapes = {};
  alignas(64) std::uint8_t data[8][16][64] = {};
  // A thread that ends with its tiles configured has lost somebody's state, or costs the system 8 KiB at each change of
  // task.
  ~Tiles() {
    if (shapes.palette) std::fputs("AMX: a thread ended with tiles configured\n", stderr), std::abort();
  }
};
inline thread_local Tiles tiles;

[[noreturn]] inline void fault(const char *instruction, const char *why) {
  std::fprintf(stderr, "AMX: %s: %s\n", instruction, why);
  std::abort();
}
inline void demand(bool holds, const char *instruction, const char *why) {
  if (!holds) fault(instruction, why);
}
inline bool there(int tile) {
  return tiles.shapes.palette == 1 && tiles.shapes.rows[tile] > 0 && tiles.shapes.columns[tile] > 0;
}

inline void tile_shapes_load(const void *from) {
  Tiles::Shapes s;
  static_assert(sizeof s == 64);
  std::memcpy(&s, from, sizeof s);
  demand(s.palette <= 1 && s.start == 0, "ldtilecfg", "a palette that there is not");
  for (const std::uint8_t byte : s.reserved) demand(byte == 0, "ldtilecfg", "reserved bytes");
  for (int i = 0; i < 16; ++i) {
    demand(s.rows[i] <= 16 && s.columns[i] <= 64 && (s.rows[i] == 0) == (s.columns[i] == 0), "ldtilecfg", "a shape");
    demand(i < 8 || s.rows[i] == 0, "ldtilecfg", "a tile that there is not");
  }
  if (s.palette == 0) s = {};
  tiles.shapes = s;
  std::memset(tiles.data, 0, sizeof tiles.data);
}
inline void tile_shapes_store(void *to) { std::memcpy(to, &tiles.shapes, sizeof tiles.shapes); }
inline void tile_shapes_release() {
  tiles.shapes = {};
  std::memset(tiles.data, 0, sizeof tiles.data);
}
template <int Tile>
void tile_load(const void *from, std::int64_t stride) {
  demand(there(Tile), "tileloadd", "a tile without a shape");
  std::memset(tiles.data[Tile], 0, sizeof tiles.data[Tile]);
  for (int r = 0; r < tiles.shapes.rows[Tile]; ++r)
    std::memcpy(tiles.data[Tile][r], static_cast<const std::uint8_t *>(from) + r * stride, tiles.shapes.columns[Tile]);
}
template <int Tile>
void tile_store(void *to, std::int64_t stride) {
  demand(there(Tile), "tilestored", "a tile without a shape");
  for (int r = 0; r < tiles.shapes.rows[Tile]; ++r)
    std::memcpy(static_cast<std::uint8_t *>(to) + r * stride, tiles.data[Tile][r], tiles.shapes.columns[Tile]);
}
inline void check_product(const char *instruction, int sum, int a, int b) {
  demand(sum != a && sum != b && a != b, instruction, "a tile twice");
  demand(there(sum) && there(a) && there(b), instruction, "a tile without a shape");
  const Tiles::Shapes &s = tiles.shapes;
  demand(s.columns[sum] % 4 == 0 && s.columns[a] % 4 == 0 && s.columns[b] % 4 == 0, instruction, "part of a lane");
  demand(s.rows[sum] == s.rows[a] && s.columns[a] / 4 == s.rows[b] && s.columns[sum] == s.columns[b], instruction,
         "shapes that do not fit");
}
template <int Sum, int A, int B>
void tile_add_bytes() {
  check_product("tdpbusd", Sum, A, B);
  const Tiles::Shapes &s = tiles.shapes;
  for (int r = 0; r < s.rows[Sum]; ++r)
    for (int lane = 0; lane < s.columns[Sum] / 4; ++lane) {
      std::uint32_t sum;
      std::memcpy(&sum, &tiles.data[Sum][r][4 * lane], 4);
      for (int k = 0; k < s.rows[B]; ++k)
        for (int i = 0; i < 4; ++i)
          sum += static_cast<std::uint32_t>(std::int32_t{tiles.data[A][r][4 * k + i]} *
                                            static_cast<std::int8_t>(tiles.data[B][k][4 * lane + i]));
      std::memcpy(&tiles.data[Sum][r][4 * lane], &sum, 4);
    }
}
// Denormals are zeros, as factors and as sums; every product is rounded by itself, the even ones of a pair first.
inline float no_denormal(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }
inline float of_bf16(const std::uint8_t *at) {
  std::uint16_t half;
  std::memcpy(&half, at, 2);
  const std::uint32_t bits = std::uint32_t{half} << 16;
  float x;
  std::memcpy(&x, &bits, 4);
  return no_denormal(x);
}
template <int Sum, int A, int B>
void tile_add_bf16() {
  check_product("tdpbf16ps", Sum, A, B);
  const Tiles::Shapes &s = tiles.shapes;
  for (int r = 0; r < s.rows[Sum]; ++r)
    for (int lane = 0; lane < s.columns[Sum] / 4; ++lane) {
      float even = 0, odd = 0, sum;
      for (int k = 0; k < s.rows[B]; ++k) {
        even = no_denormal(std::fma(of_bf16(&tiles.data[A][r][4 * k]), of_bf16(&tiles.data[B][k][4 * lane]), even));
        odd =
            no_denormal(std::fma(of_bf16(&tiles.data[A][r][4 * k + 2]), of_bf16(&tiles.data[B][k][4 * lane + 2]), odd));
      }
      std::memcpy(&sum, &tiles.data[Sum][r][4 * lane], 4);
      sum = no_denormal(no_denormal(sum) + no_denormal(even + odd));
      std::memcpy(&tiles.data[Sum][r][4 * lane], &sum, 4);
    }
}

}  // namespace emulated_amx
