/// Picking by index, and its adjoint.
#pragma once
#include "tensor/tensor.h"

namespace fovea {

/// Rows of a table: out[..., :] = table[index[...], :]. table [N, D], index [...] i32 or i64 → [..., D].
/// Throws naming the first index outside 0 … N − 1.
Tensor gather_rows(const Tensor& table, const Tensor& index);
/// The same into out [index..., D], whose rows need not lie side by side.
void gather_rows_into(const Tensor& table, const Tensor& index, Tensor out);
/// table[index[...], :] += rows[..., :], in row order for every thread count. The adjoint of gather_rows.
void scatter_add_rows(Tensor& table, const Tensor& index, const Tensor& rows);

/// Along the last dimension: out[..., j] = x[..., index[..., j]]. index [..., J] broadcasts against x's leading
/// dimensions; x [..., N] → [..., J].
Tensor gather_last(const Tensor& x, const Tensor& index);
/// The adjoint of gather_last: out [..., size], out[..., index[..., j]] += x[..., j].
Tensor scatter_add_last(const Tensor& x, const Tensor& index, std::int64_t size);

}  // namespace fovea
