/// Matrix products on register tiles: for any strides, for small matrices, and for f64.
#pragma once
#include <cstdint>

#include "tensor/cpu/packing.h"

namespace fovea {

/// The sizes and factors of c = alpha a b + beta c; a [m, k], b [k, n], c [m, n].
template <class T>
struct Product {
  std::int64_t m, n, k;
  T alpha, beta;
};

/// One product, f32 or f64, on the calling thread; c's column stride is 1. beta = 0 does not read c.
///
/// Every element is summed over k in one order, in blocks of a fixed length: a product cut into parts of at least
/// `smallest_part` rows and columns gives the same bits as the whole.
template <class T>
void tiled_gemm(const Product<T>& product, MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> c);

inline constexpr std::int64_t smallest_part = 8;

}  // namespace fovea
