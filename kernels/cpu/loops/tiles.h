// SPDX-License-Identifier: Apache-2.0
// The tiles of AMX: eight registers of up to 16 rows of 64 bytes, whose shapes are configured. Instructions are written
// as such, since compilers' intrinsics do not say that they read memory.
#pragma once

#include "kernels/cpu/vector/isa_kernels.h"

namespace quarry::kernels::QR_ISA {

struct alignas(64) TileShapes {
  std::uint8_t palette = 1, start = 0, reserved[14] = {};
  std::uint16_t columns[16] = {};  // bytes
  std::uint8_t rows[16] = {};
};
static_assert(sizeof(TileShapes) == 64);

#if defined(QR_EMULATED_AMX)  // tests/kernels/emulated_amx.h
using emulated_amx::tile_add_bf16, emulated_amx::tile_add_bytes, emulated_amx::tile_load, emulated_amx::tile_store;
using emulated_amx::tile_shapes_load, emulated_amx::tile_shapes_release, emulated_amx::tile_shapes_store;
#else
QR_INLINE void tile_shapes_load(const void *shapes) noexcept {
  asm volatile("ldtilecfg %0" : : "m"(*static_cast<const TileShapes *>(shapes)) : "memory");
}
QR_INLINE void tile_shapes_store(void *shapes) noexcept {
  asm volatile("sttilecfg %0" : "=m"(*static_cast<TileShapes *>(shapes)));
}
QR_INLINE void tile_shapes_release() noexcept { asm volatile("tilerelease" : : : "memory"); }
template <int Tile>
QR_INLINE void tile_load(const void *from, std::int64_t stride) noexcept {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(Tile) : "memory");
}
template <int Tile>
QR_INLINE void tile_store(void *to, std::int64_t stride) noexcept {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride), "i"(Tile) : "memory");
}
// Sum [row][lane] += a [row][4 u8, 4 u8 ..] times b [step of 4][lane][4 s8]; wraps around.
template <int Sum, int A, int B>
QR_INLINE void tile_add_bytes() noexcept {
  asm volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(Sum), "i"(A), "i"(B));
}
// The same of f32 and pairs of bf16.
template <int Sum, int A, int B>
QR_INLINE void tile_add_bf16() noexcept {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(Sum), "i"(A), "i"(B));
}
#endif

// The shapes while this lives. Tiles are registers that a called function may change, but their shapes are state of the
// thread: whoever called us has his again afterwards.
class TileScope {
 public:
  TileScope() noexcept { tile_shapes_store(&before_); }
  ~TileScope() noexcept {
    if (before_.palette) tile_shapes_load(&before_);
    else tile_shapes_release();
  }
  TileScope(const TileScope &) = delete;
  TileScope &operator=(const TileScope &) = delete;
  void set(const TileShapes &shapes) noexcept { tile_shapes_load(&shapes); }

 private:
  TileShapes before_;
};

}  // namespace quarry::kernels::QR_ISA
