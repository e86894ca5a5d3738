/// The sizes of a block's tiles, and where they lie in its shared memory: for the kernels, and for the host that
/// launches them.
#pragma once
#include "tensor/formula/target.h"

namespace fovea::cuda {

/// The kernels. That of key gradients also makes those of values, unless rows are so wide that two kernels must.
enum class Pass { forward, query_gradients, key_gradients, value_gradients };

/// A block has 16 · warps rows, queries or keys, and takes `columns` of the others at a time.
struct BlockShape {
  int warps, columns;
  int width, value_width;          ///< of rows of queries and keys, and of values, rounded up to multiples of 16
  int factor_bytes, number_bytes;  ///< sizes of Spec::Factor and Spec::Number
  int slots;                       ///< captures with Index::offset that want a gradient

  constexpr int rows() const { return 16 * warps; }
  constexpr int query_tile(int count) const { return count * (width * factor_bytes + 16); }
  constexpr int value_tile(int count) const { return count * (value_width * factor_bytes + 16); }
};

/// The bits of dropout for so many queries: see KeptWeights.
FOVEA_HD constexpr int kept_bytes(int queries) { return 16 * queries; }

struct ForwardMemory {
  int keys_at, values_at, kept_at, bytes;
  constexpr explicit ForwardMemory(const BlockShape& s)
      : keys_at(s.query_tile(s.rows())),
        values_at(keys_at + s.query_tile(s.columns)),
        kept_at(values_at + s.value_tile(s.columns)),
        bytes(kept_at + kept_bytes(s.rows())) {}
};

struct QueryOwnedMemory {
  int gradient_at, keys_at, values_at, kept_at, slots_at, slot_stride, slot_bytes, ends_at, bytes;
  constexpr explicit QueryOwnedMemory(const BlockShape& s)
      : gradient_at(s.query_tile(s.rows())),
        keys_at(gradient_at + s.value_tile(s.rows())),
        values_at(keys_at + s.query_tile(s.columns)),
        kept_at(values_at + s.value_tile(s.columns)),
        slots_at(kept_at + kept_bytes(s.rows())),
        slot_stride(s.columns + 1),
        slot_bytes(s.rows() * slot_stride * s.number_bytes),
        ends_at(slots_at + s.slots * slot_bytes),
        bytes(ends_at + (s.slots > 0 ? 64 * s.warps * s.number_bytes : 0)) {}
};

struct KeyOwnedMemory {
  int values_at, queries_at, gradient_at, kept_at, numbers_at, bytes;
  constexpr explicit KeyOwnedMemory(const BlockShape& s)
      : values_at(s.query_tile(s.rows())),
        queries_at(values_at + s.value_tile(s.rows())),
        gradient_at(queries_at + s.query_tile(s.columns)),
        kept_at(gradient_at + s.value_tile(s.columns)),
        numbers_at(kept_at + kept_bytes(s.columns)),
        bytes(numbers_at + 5 * s.columns * s.number_bytes) {}
};

constexpr int shared_bytes(Pass pass, const BlockShape& shape) {
  return pass == Pass::forward           ? ForwardMemory(shape).bytes
         : pass == Pass::query_gradients ? QueryOwnedMemory(shape).bytes
                                         : KeyOwnedMemory(shape).bytes;
}

}  // namespace fovea::cuda
