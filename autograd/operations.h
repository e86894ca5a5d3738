/// The differentiable operations. Shapes broadcast as in NumPy; negative dimensions count from the end. Every rule is
/// itself differentiable (create_graph), unless its comment says otherwise.
#pragma once
#include <initializer_list>
#include <span>
#include <vector>

#include "autograd/map.h"
#include "autograd/variable.h"
#include "tensor/formula/philox.h"
#include "tensor/reduce.h"

namespace fovea {

// ---- Arithmetic: differentiable any number of times ----
Variable operator+(const Variable& a, const Variable& b);
Variable operator-(const Variable& a, const Variable& b);
Variable operator*(const Variable& a, const Variable& b);
Variable operator/(const Variable& a, const Variable& b);
Variable operator-(const Variable& a);
/// slope · x + offset
Variable affine(const Variable& x, double slope, double offset);
inline Variable operator+(const Variable& a, double b) { return affine(a, 1, b); }
inline Variable operator-(const Variable& a, double b) { return affine(a, 1, -b); }
inline Variable operator*(const Variable& a, double b) { return affine(a, b, 0); }
inline Variable operator/(const Variable& a, double b) { return affine(a, 1 / b, 0); }
inline Variable operator+(double a, const Variable& b) { return affine(b, 1, a); }
inline Variable operator-(double a, const Variable& b) { return affine(b, -1, a); }
inline Variable operator*(double a, const Variable& b) { return affine(b, a, 0); }

// ---- Element-wise, by name: each is map() of the functor of that name ----
Variable exp(const Variable& x);
Variable log(const Variable& x);
Variable sqrt(const Variable& x);
Variable square(const Variable& x);
Variable abs(const Variable& x);
Variable sin(const Variable& x);
Variable cos(const Variable& x);
Variable tanh(const Variable& x);
Variable sigmoid(const Variable& x);
Variable softplus(const Variable& x);
Variable erf(const Variable& x);
Variable relu(const Variable& x);
Variable gelu(const Variable& x);
Variable maximum(const Variable& a, const Variable& b);
Variable minimum(const Variable& a, const Variable& b);
/// condition (bool or u8, no gradient) ? a : b
Variable where(const Tensor& condition, const Variable& a, const Variable& b);

// ---- Products ----
struct MatmulOptions {
  double scale = 1;  ///< the product is multiplied by this
  /// The result's dimensions from the slowest in memory to the fastest; empty: row-major. Merging heads is free after
  /// matmul(weights, value, {.memory_order = {0, 2, 1, 3}}).
  std::initializer_list<int> memory_order = {};
};
/// a [..., m, k], b [..., k, n] → [..., m, n]; batch dimensions broadcast.
Variable matmul(const Variable& a, const Variable& b, const MatmulOptions& options = {});
/// x W + b. x [..., k], weight [k, n], bias [n] or undefined → [..., n]
Variable linear(const Variable& x, const Variable& weight, const Variable& bias = {});

// ---- Reductions and sums along an axis ----
/// Over `dims` (empty: all); keep leaves them as size 1.
Variable sum(const Variable& x, std::vector<int> dims = {}, bool keep = false);
Variable mean(const Variable& x, std::vector<int> dims = {}, bool keep = false);
/// The largest along one dimension. Ties share the gradient equally.
Variable maximum_over(const Variable& x, int dim, bool keep = false);
/// Sums x down to `shape`: the adjoint of broadcasting.
Variable sum_to(const Variable& x, const Shape& shape);
Variable broadcast_to(const Variable& x, const Shape& shape);
/// Prefix sums along the last dimension; suffix sums with `reverse`.
Variable cumulative_sum(const Variable& x, bool reverse = false);

// ---- Shapes ----
Variable reshape(const Variable& x, const Shape& shape);
Variable permute(const Variable& x, std::vector<int> order);
Variable transpose(const Variable& x, int a, int b);
Variable unsqueeze(const Variable& x, int dim);
Variable squeeze(const Variable& x, int dim);
Variable slice(const Variable& x, int dim, std::int64_t begin, std::int64_t end);
/// x as its slices of size 1 along `dim`, whose gradients come back in one piece: each slice() would bring one as large
/// as x.
std::vector<Variable> slices(const Variable& x, int dim);
inline Variable select(const Variable& x, int dim, std::int64_t index) {
  return squeeze(slice(x, dim, index, index + 1), dim);
}
/// The pieces one after the other along `dim`.
Variable concat(const std::vector<Variable>& pieces, int dim);
/// Another floating-point type; the gradient comes back in x's.
Variable cast(const Variable& x, DType dtype);

// ---- Picking by index ----
/// Rows of table [N, D] at index [...] (i32 or i64) → [..., D]: an embedding lookup.
Variable gather_rows(const Variable& table, const Tensor& index);
/// Adds rows [..., D] into a zero table [rows_in_table, D] at index [...]: the adjoint of gather_rows.
Variable scatter_rows(const Variable& rows, const Tensor& index, std::int64_t rows_in_table);
/// Along the last dimension: out[..., j] = x[..., index[..., j]]; index broadcasts against x's leading dimensions.
Variable gather_last(const Variable& x, const Tensor& index);
/// out [..., size], out[..., index[..., j]] += x[..., j]: the adjoint of gather_last.
Variable scatter_last(const Variable& x, const Tensor& index, std::int64_t size);

// ---- Rows: softmax and norms ----
/// Softmax over the last dimension. Where `allow` (bool, broadcast to x; undefined: everywhere) is false the weight is
/// exactly 0; a row with nothing allowed is all 0 and has gradient 0.
Variable softmax(const Variable& x, const Tensor& allow = {});
Variable log_softmax(const Variable& x);
/// (x − mean) / sqrt(variance + epsilon) · gain + bias over the last dimension [n]; gain, bias [n].
Variable layer_norm(const Variable& x, const Variable& gain, const Variable& bias, double epsilon = 1e-5);

// ---- Regularisation and losses ----
/// Zeroes each element with the given probability and scales the rest by 1 / (1 − probability). The mask is that of
/// the next call in the thread's RandomScope (tensor/random.h). It is drawn again for the backward pass, not stored.
/// Outside of such scopes dropout throws Error, unless the probability is 0.
Variable dropout(const Variable& x, double probability);
/// The same, with this mask.
Variable dropout(const Variable& x, const DropoutMask& mask);
/// residual + dropout(x), in one pass.
Variable dropout_add(const Variable& x, const Variable& residual, double probability);
struct CrossEntropyOptions {
  double label_smoothing = 0;   ///< ε: (1 − ε) · nll + (ε / V) · Σ_v −log p_v, v over all classes
  std::int64_t ignored = -100;  ///< rows with this target have loss 0
};
/// Per row: −log softmax(logits)[target]. logits [N, V], targets [N] i32 or i64 → [N]
Variable cross_entropy(const Variable& logits, const Tensor& targets, const CrossEntropyOptions& options = {});
/// −t log σ(x) − (1 − t) log σ(−x), element by element; targets of x's shape in [0, 1], a constant.
Variable binary_cross_entropy(const Variable& logits, const Tensor& targets);

// ---- Recurrence ----
struct LstmState {
  Variable hidden, cell;  // [B, n]
};
/// One LSTM step after its products: gates [B, 4 n] before activation, in the order input, forget, candidate, output.
LstmState lstm_cell(const Variable& gates, const Variable& cell);

}  // namespace fovea
