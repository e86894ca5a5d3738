/// Where cuda/ leaves its kernels for map.h to find.
#pragma once
#include <array>

#include "tensor/tensor.h"

namespace fovea {

/// The CUDA kernel of functor F on n inputs; null until cuda/ has registered it (it does so for the listed functors).
template <class F, int n>
inline void (*cuda_map)(const F& f, Tensor& out, const std::array<const Tensor*, n>& in) = nullptr;

}  // namespace fovea
