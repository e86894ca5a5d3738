/// The gradients of a focus, which flow from each query to the one before.
#pragma once
#include <cstdint>

namespace fovea::cuda {

/// The arrays that carry_focus() reads and writes. p_i is the focus after query i of a head.
template <class T>
struct FocusGradients {
  const T* slope;   ///< dp_i / dp_{i−1}, [heads, I]
  const T* by_out;  ///< the gradient that p_{i−1} gets from the output of query i, [heads, I]
  const T* given;   ///< the gradient that p_i has as a result of the call, [heads, I]; null: 0
  T* gradient;      ///< written: the gradient of p_i, [heads, I]
  T* of_previous;   ///< written: the gradient of the focus before the first query, [heads]
};

/// Appends to the stream the kernel that computes the gradients of `heads` heads with I queries each.
template <class T>
void carry_focus(const FocusGradients<T>& of, std::int64_t heads, std::int64_t I);

}  // namespace fovea::cuda
