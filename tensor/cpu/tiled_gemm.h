/// fovea's own matrix products, computed in tiles that stay in registers. They serve where oneDNN is slower or has no
/// kernel: small matrices, arbitrary strides, and f64.
#pragma once
#include <cstdint>

#include "tensor/cpu/packing.h"

namespace fovea {

/// The sizes and factors of a product c = alpha a b + beta c, where a is [m, k], b is [k, n] and c is [m, n].
template <class T>
struct Product {
  std::int64_t m, n, k;
  T alpha, beta;
};

/// Computes one product, f32 or f64, on the calling thread. c's column stride is 1; a and b have any strides. beta = 0
/// does not read c.
///
/// The sum over k of every element is taken in one order, in blocks of a fixed length: a product that is divided into
/// parts of at least `smallest_part` rows and columns gives the same bits as the undivided product.
template <class T>
void tiled_gemm(const Product<T>& product, MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> c);

inline constexpr std::int64_t smallest_part = 8;

}  // namespace fovea
