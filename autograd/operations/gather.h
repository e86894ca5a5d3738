/// Gathering elements or rows by index, and the scatter-additions that are the backward passes of gathering: the
/// functions of tensors. The differentiable functions are declared in autograd/operations.h.
///
/// All functions check that the index is in range. The CPU throws at once. With tensors on a GPU, the Error is thrown
/// by the next operation that waits for the GPU, so that the check itself need not wait.
#pragma once
#include "tensor/tensor.h"

namespace fovea {

/// Picks rows of a table, as for embeddings: out[..., :] = table[index[...], :]. `table` is [N, D], `index` [...], i32
/// or i64; the result is [..., D]. Throws Error naming the first index outside 0 … N − 1.
Tensor gather_rows(const Tensor& table, const Tensor& index);
/// Writes the result of gather_rows into the existing tensor `out`, of shape [..., D] and any strides.
void gather_rows_into(const Tensor& table, const Tensor& index, Tensor out);
/// Adds rows to rows of a table: table[index[...], :] += rows[..., :], which is the backward pass of gather_rows. Rows
/// with the same index are added in row order, so the result does not depend on the number of threads; many such rows
/// are added up in f64. f32 or f64.
void scatter_add_rows(Tensor& table, const Tensor& index, const Tensor& rows);

/// Picks elements along the last dimension: out[..., j] = x[..., index[..., j]]. `x` is [..., N], `index` [..., J], i32
/// or i64; the result is [..., J]. The leading dimensions of `x` and `index` broadcast. Throws Error naming the first
/// index outside 0 … N − 1.
Tensor gather_last(const Tensor& x, const Tensor& index);
/// Returns the tensor [..., size] of sums over equal indices along the last dimension: it starts as 0, and then
/// out[..., index[..., j]] += x[..., j]. It is the backward pass of gather_last. `x` is [..., J], f32 or f64; `index`
/// [..., J] broadcasts to the leading dimensions of `x`.
Tensor scatter_add_last(const Tensor& x, const Tensor& index, std::int64_t size);

}  // namespace fovea
