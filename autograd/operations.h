/// The differentiable operations. Shapes broadcast as in NumPy; negative dimensions count from the end. Every
/// operation's backward pass can itself be differentiated (BackwardOptions::create_graph), at least once.
#pragma once
#include <initializer_list>
#include <span>
#include <vector>

#include "autograd/variable.h"
#include "tensor/formula/philox.h"

namespace fovea {

// ---- Arithmetic: differentiable any number of times ----
Variable operator+(const Variable& a, const Variable& b);
Variable operator-(const Variable& a, const Variable& b);
Variable operator*(const Variable& a, const Variable& b);
Variable operator/(const Variable& a, const Variable& b);
Variable operator-(const Variable& a);
/// Returns slope · x + offset.
Variable affine(const Variable& x, double slope, double offset);
inline Variable operator+(const Variable& a, double b) { return affine(a, 1, b); }
inline Variable operator-(const Variable& a, double b) { return affine(a, 1, -b); }
inline Variable operator*(const Variable& a, double b) { return affine(a, b, 0); }
inline Variable operator+(double a, const Variable& b) { return affine(b, 1, a); }
inline Variable operator-(double a, const Variable& b) { return affine(b, -1, a); }
inline Variable operator*(double a, const Variable& b) { return affine(b, a, 0); }
Variable operator/(const Variable& a, double b);
Variable operator/(double a, const Variable& b);

// ---- Element-wise functions: each is map() of the functor of the same name ----
// Where a function has no derivative, the gradient is: of abs and relu at 0, 0; of maximum and minimum of two equal
// numbers, half for each, as maximum_over() shares it; of sqrt at 0, +inf, but 0 where the gradient of its result is.
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
/// Returns `a` where the condition (bool or u8, without a gradient) is true, and `b` elsewhere.
Variable where(const Tensor& condition, const Variable& a, const Variable& b);

// ---- Products ----
struct MatmulOptions {
  double scale = 1;  ///< the product is multiplied by this
  /// The result's dimensions from the slowest-varying in memory to the fastest; if empty, the result is row-major. With
  /// matmul(weights, value, {.memory_order = {0, 2, 1, 3}}) [B, H, I, D], merging the heads needs no copy.
  std::initializer_list<int> memory_order = {};
};
/// Returns the matrix product, [..., m, n], of a [..., m, k] and b [..., k, n]. Batch dimensions broadcast.
Variable matmul(const Variable& a, const Variable& b, const MatmulOptions& options = {});
/// Returns x · weight + bias, [..., n]. x is [..., k], weight [k, n], bias [n] or undefined.
Variable linear(const Variable& x, const Variable& weight, const Variable& bias = {});
/// The gradients of weight [k, n] and bias [n], for the rule of an operation that contains x · weight + bias: x is
/// [rows, k], and g, the gradient of that sum, [rows, n]. A gradient that is not needed is undefined.
struct LinearGradients {
  Variable weight, bias;
};
LinearGradients linear_gradients(const Variable& g, const Variable& x, const Variable& weight, bool needs_weight,
                                 bool needs_bias);

// ---- Reductions and sums along an axis ----
/// Sum or mean over the dimensions `dims`, or over all if `dims` is empty. With `keep` these dimensions stay, with size
/// 1; otherwise they are removed.
Variable sum(const Variable& x, std::vector<int> dims = {}, bool keep = false);
Variable mean(const Variable& x, std::vector<int> dims = {}, bool keep = false);
/// The maximum over dimension `dim`. If several elements are equal to it, they share the gradient equally.
Variable maximum_over(const Variable& x, int dim, bool keep = false);
/// Sums x over the dimensions that broadcasting `shape` to x's shape would add or expand. This is the backward pass of
/// broadcast_to().
Variable sum_to(const Variable& x, const Shape& shape);
Variable broadcast_to(const Variable& x, const Shape& shape);
/// Prefix sums along the last dimension, or suffix sums if `reverse`; both include the element itself.
Variable cumulative_sum(const Variable& x, bool reverse = false);

// ---- Shapes ----
Variable reshape(const Variable& x, const Shape& shape);
Variable permute(const Variable& x, std::vector<int> order);
Variable transpose(const Variable& x, int a, int b);
Variable unsqueeze(const Variable& x, int dim);
Variable squeeze(const Variable& x, int dim);
Variable slice(const Variable& x, int dim, std::int64_t begin, std::int64_t end);
/// Splits x into its slices of size 1 along `dim`. The backward pass concatenates the gradients of the slices once;
/// with slice(), each slice would allocate a gradient as large as x.
std::vector<Variable> slices(const Variable& x, int dim);
/// The slice at one index, without dimension `dim`.
Variable select(const Variable& x, int dim, std::int64_t index);
/// Concatenates the pieces along `dim`.
Variable concat(const std::vector<Variable>& pieces, int dim);
/// Converts x to another floating-point type; throws Error for other types. The backward pass converts the gradient to
/// x's type.
Variable cast(const Variable& x, DType dtype);

// ---- Picking by index ----
/// Embedding lookup: the rows of table [N, D] with the numbers index [...], i32 or i64. Returns [..., D].
Variable gather_rows(const Variable& table, const Tensor& index);
/// Returns a table [rows_in_table, D] of zeros, to which each of rows [..., D] was added at the row that index [...],
/// i32 or i64, gives for it. This is the backward pass of gather_rows(). Throws Error for an index outside
/// 0 … rows_in_table − 1; on a GPU, when the host next waits.
Variable scatter_rows(const Variable& rows, const Tensor& index, std::int64_t rows_in_table);
/// Picks elements along the last dimension: out[..., j] = x[..., index[..., j]]. The leading dimensions of index
/// broadcast to those of x.
Variable gather_last(const Variable& x, const Tensor& index);
/// Adds elements along the last dimension: out[..., index[..., j]] += x[..., j], where `out` [..., size] starts as
/// zeros. This is the backward pass of gather_last().
Variable scatter_last(const Variable& x, const Tensor& index, std::int64_t size);

// ---- Rows: softmax and norms ----
/// Softmax over the last dimension. Elements for which `allow` (bool, broadcast to x) is false get weight 0; a row in
/// which `allow` is false everywhere is all 0 and has gradient 0. An undefined `allow` allows every element.
Variable softmax(const Variable& x, const Tensor& allow = {});
Variable log_softmax(const Variable& x);
/// (x − mean) / sqrt(variance + epsilon) · gain + bias over the last dimension [n]; gain, bias [n].
Variable layer_norm(const Variable& x, const Variable& gain, const Variable& bias, double epsilon = 1e-5);
/// The sum of a residual connection and its layer norm, [..., n] each.
struct AddedAndNormed {
  Variable sum, normed;
};
/// The sum of a residual connection, residual + dropout(update + number), and its layer norm, in one kernel forward and
/// one backward. `number` [...] has one number for each row of `update` and gets no gradient; undefined: 0. With a
/// probability of 0 no random numbers are drawn.
AddedAndNormed add_norm(const Variable& update, const Variable& residual, const Tensor& number, double probability,
                        const Variable& gain, const Variable& bias, double epsilon = 1e-5);

// ---- Regularisation and losses ----
/// Zeroes each element with the given probability and scales the rest by 1 / (1 − probability). The random mask is
/// determined by the thread's RandomScope (tensor/random.h) and the number of the call in it. The backward pass
/// computes the mask again, so it is not stored. Throws Error outside of a RandomScope, unless the probability is 0.
Variable dropout(const Variable& x, double probability);
/// Dropout with a given mask, without a RandomScope.
Variable dropout(const Variable& x, const DropoutMask& mask);
/// Returns residual + dropout(x, probability), in one pass over memory.
Variable dropout_add(const Variable& x, const Variable& residual, double probability);
struct CrossEntropyOptions {
  double label_smoothing = 0;   ///< ε: (1 − ε) · nll + (ε / V) · Σ_v −log p_v, v over all classes
  std::int64_t ignored = -100;  ///< rows with this target have loss 0
};
/// Returns the loss of each row, [N], which is −log softmax(logits)[target] without label smoothing. logits are [N, V],
/// targets [N] are i32 or i64.
Variable cross_entropy(const Variable& logits, const Tensor& targets, const CrossEntropyOptions& options = {});
/// Returns −t log σ(x) − (1 − t) log σ(−x), element by element, where x is a logit and t in [0, 1] its target. Targets
/// have the shape of the logits, otherwise it throws Error, and get no gradient.
Variable binary_cross_entropy(const Variable& logits, const Tensor& targets);

// ---- Recurrence ----
struct LstmState {
  Variable hidden, cell;  // [B, n]
};
/// The element-wise part of one LSTM step. gates [B, 4 n] are the sums of the matrix products and the bias, before the
/// activation functions, in the order input, forget, candidate, output; cell [B, n] is the previous step's cell.
LstmState lstm_cell(const Variable& gates, const Variable& cell);

}  // namespace fovea
