/// Products of bf16 pairs in the tiles of a processor's matrix unit (Intel AMX): matrices of at most 16 rows of 64
/// bytes.
#pragma once
#include "tensor/cpu/register_tile.h"

#if (defined(__AMX_BF16__) || defined(__AMXBF16__)) && defined(__AVX512F__) && defined(__linux__)
#define FOVEA_HAS_MATRIX_UNIT 1
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace fovea {

inline constexpr int unit_rows = 16;     ///< of a tile, at most
inline constexpr int unit_columns = 16;  ///< numbers, or pairs, in a row of a tile

/// The sizes of the eight tiles, as the unit's instruction reads them.
struct alignas(64) UnitTiles {
  std::uint8_t palette = 0;  ///< 0: the unit is not in use
  std::uint8_t start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};

  void set(int tile, int tile_rows, int columns) {
    rows[tile] = static_cast<std::uint8_t>(tile_rows);
    row_bytes[tile] = static_cast<std::uint16_t>(columns * 4);
  }
};
static_assert(sizeof(UnitTiles) == 64);

/// A product in the unit: sums in tiles 0 to 2, a in 3, b in 4 and 5, and what is left of k in 6 and 7.
class UnitProduct {
 public:
  static constexpr int widest = 3;  ///< vectors of columns

  /// c = alpha a b + beta c for at most unit_rows rows; a's pairs lie side by side. Unit is MatrixUnit, or stands in
  /// for it.
  template <class Unit>
  static void multiply(Unit& unit, const RegisterTile<float, Bf16Pair>& product, int rows) {
    set_tiles(unit, rows, static_cast<int>(product.k % unit_columns));
    float sums[unit_rows][widest * unit_columns];
    switch ((product.columns + unit_columns - 1) / unit_columns) {
      case 1:
        add_up<0>(unit, product, sums[0]);
        break;
      case 2:
        add_up<0, 1>(unit, product, sums[0]);
        break;
      default:
        add_up<0, 1, 2>(unit, product, sums[0]);
    }
    for (int i = 0; i < rows; ++i) {
      float* c = product.c + i * product.c_row;
      for_vectors<float>(product.columns, [&](std::int64_t j, auto count) {
        Vec<float> value = Vec<float>(product.alpha) * Vec<float>::load(&sums[i][j]);
        if (product.beta != 0) value = fma(Vec<float>(product.beta), load_vector(c + j, count), value);
        store_vector(value, c + j, count);
      });
    }
  }

 private:
  template <class Unit>
  static void set_tiles(Unit& unit, int rows, int pairs_left) {
    UnitTiles tiles{.palette = 1};
    for (int tile : {0, 1, 2, 3}) tiles.set(tile, rows, unit_columns);
    for (int tile : {4, 5}) tiles.set(tile, unit_rows, unit_columns);
    if (pairs_left > 0) {
      tiles.set(6, rows, pairs_left);
      tiles.set(7, pairs_left, unit_columns);
    }
    unit.set(tiles);
  }

  /// v: the vectors' numbers.
  template <int... v, class Unit>
  static void add_up(Unit& unit, const RegisterTile<float, Bf16Pair>& product, float* sums) {
    (unit.template clear<v>(), ...);
    const Bf16Pair *a = product.a, *b = product.b;
    std::int64_t k = product.k;
    auto add = [&]<int tile>(std::integral_constant<int, tile>, auto of_a, auto of_b) {
      constexpr int a_tile = decltype(of_a)::value, b_tile = decltype(of_b)::value;
      unit.template load<b_tile>(b + tile * unit_columns, product.b_row * 4);
      unit.template add_products<tile, a_tile, b_tile>();
    };
    for (; k >= unit_columns; k -= unit_columns, a += unit_columns, b += unit_columns * product.b_row) {
      unit.template load<3>(a, product.a_row * 4);
      (add(std::integral_constant<int, v>{}, std::integral_constant<int, 3>{},
           std::integral_constant<int, 4 + v % 2>{}),
       ...);
    }
    if (k > 0) {
      unit.template load<6>(a, product.a_row * 4);
      (add(std::integral_constant<int, v>{}, std::integral_constant<int, 6>{}, std::integral_constant<int, 7>{}), ...);
    }
    (unit.template store<v>(sums + v * unit_columns, widest * unit_columns * 4), ...);
  }
};

#ifndef FOVEA_HAS_MATRIX_UNIT
class MatrixUnit {
 public:
  static constexpr bool exists = false;
  static bool available() { return false; }
};
#else
/// The processor's. At the end of its life tiles are set as they were before, by oneDNN perhaps.
class MatrixUnit {
 public:
  static constexpr bool exists = true;
  /// The system lets a process have the unit that asks for it.
  static bool available() {
    constexpr int request_permission = 0x1023, tile_data = 18;
    static const bool granted = syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
    return granted;
  }

  MatrixUnit() { asm volatile("sttilecfg %0" : "=m"(before_)); }
  ~MatrixUnit() {
    if (before_.palette == 0)
      asm volatile("tilerelease");
    else
      asm volatile("ldtilecfg %0" ::"m"(before_));
  }
  MatrixUnit(const MatrixUnit&) = delete;
  MatrixUnit& operator=(const MatrixUnit&) = delete;

  /// It clears all tiles, and takes a while: not again for the same sizes.
  void set(const UnitTiles& tiles) {
    if (tiles.rows[0] == now_.rows[0] && tiles.rows[7] == now_.rows[7]) return;
    now_ = tiles;
    asm volatile("ldtilecfg %0" ::"m"(now_));
  }
  template <int tile>
  void clear() {
    asm volatile("tilezero %%tmm%c0" ::"i"(tile));
  }
  /// stride: bytes from row to row.
  template <int tile>
  void load(const Bf16Pair* from, std::int64_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(tile) : "memory");
  }
  template <int sum, int a, int b>
  void add_products() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(sum), "i"(a), "i"(b));
  }
  template <int tile>
  void store(float* to, std::int64_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(tile) : "memory");
  }

 private:
  UnitTiles before_, now_;
};
#endif

}  // namespace fovea
