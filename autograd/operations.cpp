#include "autograd/operations.h"

#include <cmath>

#include "autograd/map.h"
#include "tensor/comparison.h"
#include "tensor/constant.h"
#include "tensor/formula/arithmetic.h"
#include "tensor/formula/functions.h"
#include "tensor/formula/reductions.h"
#include "tensor/gemm.h"
#include "tensor/random.h"
#include "tensor/range.h"
#include "tensor/reduce.h"
#include "tensor/requirements.h"

namespace fovea {

// ---- Arithmetic ----

namespace {

/// The number as a constant [] that broadcasts with x, the other operand of a division.
Variable number_like(const Variable& x, double number) {
  return constant_like(x.value_for("divide"), number).reshape({});
}

}  // namespace

Variable map_by_rule(const Add&, const Variable& a, const Variable& b) {
  return record("add", map_values(Add{}, a, b), {a, b}, [](const Gradients& g, const Node&) {
    return Gradients{g[0], g[0]};
  });
}

Variable map_by_rule(const Subtract&, const Variable& a, const Variable& b) {
  return record("subtract", map_values(Subtract{}, a, b), {a, b}, [](const Gradients& g, const Node& node) {
    return Gradients{g[0], node.needs(1) ? -g[0] : Variable()};
  });
}

/// Records the product of a and b that the functor f computes: Multiply, or GradientTimes in a gradient's own graph.
template <class F>
Variable record_product(std::string_view name, const F& f, const Variable& a, const Variable& b) {
  Tensor value = map_values(f, a, b);
  if (!should_record({&a, &b})) return value;
  return record(name, std::move(value), {a, b}, [a = Saved(a), b = Saved(b)](const Gradients& g, const Node& node) {
    return Gradients{node.needs(0) ? map(GradientTimes{}, g[0], b.get(node)) : Variable(),
                     node.needs(1) ? map(GradientTimes{}, g[0], a.get(node)) : Variable()};
  });
}

Variable map_by_rule(const Multiply& f, const Variable& a, const Variable& b) {
  return record_product("multiply", f, a, b);
}

/// Records the quotient of a and b with the functor f: Divide, or in the graph of a gradient GradientOver, which is 0
/// where a is 0 even if b is.
template <class F>
Variable record_quotient(std::string_view name, const F& f, const Variable& a, const Variable& b) {
  Tensor value = map_values(f, a, b);
  if (!should_record({&a, &b})) return value;
  const Saved saved = b.requires_grad() ? Saved(a) : Saved();  // only the gradient of b reads a
  return record(name, std::move(value), {a, b}, [f, a = saved, b = Saved(b)](const Gradients& g, const Node& node) {
    const Variable &above = a.get(node), &below = b.get(node);
    const bool has_kernel = std::is_same_v<F, Divide> && !grad_enabled();  // one that computes the gradient of b
    Variable over = node.needs(0) || !has_kernel ? map(GradientOver{}, g[0], below) : Variable();
    if (!node.needs(1)) return Gradients{over, Variable()};
    if (has_kernel)
      return Gradients{over, map(differentiated(Divide{}, 1), g[0].value(), above.value(), below.value())};
    Variable product = map(GradientTimes{}, over, map(f, above, below));
    if constexpr (std::is_same_v<F, GradientOver>) {  // `above` is a gradient: if it is 0, `over` may be infinite
      const Tensor over_is_0 = equal(over.value(), number_like(over, 0).value());
      product = where(over_is_0, product, map(GradientTimes{}, above, map(GradientOver{}, over, below)));
    }
    return Gradients{over, -product};
  });
}

Variable map_by_rule(const Divide& f, const Variable& a, const Variable& b) {
  return record_quotient("divide", f, a, b);
}

Variable map_by_rule(const GradientTimes& f, const Variable& gradient, const Variable& slope) {
  return record_product("gradient_times", f, gradient, slope);
}

Variable map_by_rule(const GradientOver& f, const Variable& gradient, const Variable& divisor) {
  return record_quotient("gradient_over", f, gradient, divisor);
}

Variable map_by_rule(const Affine& f, const Variable& x) {
  return record("affine", map_values(f, x), {x}, [slope = f.slope](const Variable& g) {
    if (!std::isfinite(static_cast<float>(slope))) return map(GradientTimes{}, g, number_like(g, slope));
    return slope == 1 ? g : affine(g, slope, 0);
  });
}

Variable operator+(const Variable& a, const Variable& b) { return map(Add{}, a, b); }
Variable operator-(const Variable& a, const Variable& b) { return map(Subtract{}, a, b); }
Variable operator*(const Variable& a, const Variable& b) { return map(Multiply{}, a, b); }
Variable operator/(const Variable& a, const Variable& b) { return map(Divide{}, a, b); }
Variable operator/(const Variable& a, double b) { return a / number_like(a, b); }
Variable operator/(double a, const Variable& b) { return number_like(b, a) / b; }
Variable affine(const Variable& x, double slope, double offset) { return map(Affine{slope, offset}, x); }
Variable operator-(const Variable& a) { return affine(a, -1, 0); }

// ---- Element-wise functions ----

Variable exp(const Variable& x) { return map(Exp{}, x); }
Variable log(const Variable& x) { return map(Log{}, x); }
Variable sqrt(const Variable& x) { return map(Sqrt{}, x); }
Variable square(const Variable& x) { return map(Square{}, x); }
Variable abs(const Variable& x) { return map(Abs{}, x); }
Variable sin(const Variable& x) { return map(Sin{}, x); }
Variable cos(const Variable& x) { return map(Cos{}, x); }
Variable tanh(const Variable& x) { return map(Tanh{}, x); }
Variable sigmoid(const Variable& x) { return map(Sigmoid{}, x); }
Variable softplus(const Variable& x) { return map(Softplus{}, x); }
Variable erf(const Variable& x) { return map(Erf{}, x); }
Variable relu(const Variable& x) { return map(Relu{}, x); }
Variable gelu(const Variable& x) { return map(Gelu{}, x); }
Variable maximum(const Variable& a, const Variable& b) { return map(Maximum{}, a, b); }
Variable minimum(const Variable& a, const Variable& b) { return map(Minimum{}, a, b); }

Variable where(const Tensor& condition, const Variable& a, const Variable& b) {
  return record("where", where(condition, a.value_for("where"), b.value_for("where")), {a, b},
                [saved = SavedTensor(condition, "condition")](const Gradients& g, const Node& node) {
                  const Tensor& condition = saved.get(node);
                  Variable zero(constant_like(g[0], 0));
                  return Gradients{node.needs(0) ? where(condition, g[0], zero) : Variable(),
                                   node.needs(1) ? where(condition, zero, g[0]) : Variable()};
                });
}

// ---- Products ----

namespace {

/// Reshapes x to two dimensions: keeps the last one and merges all others into one.
Variable fold_rows(const Variable& x) {
  std::int64_t rows = 1;
  for (int d = 0; d < x.rank() - 1; ++d) rows *= x.size(d);
  return reshape(x, {rows, x.size(-1)});
}

/// Returns scale · a · b, which is the gradient of the operand `like`, with like's order of dimensions in memory. If
/// `like` is a transposed view or a view of split heads, the backward pass of that view then needs no copy.
Variable matmul_like(const Variable& a, const Variable& b, double scale, const Tensor& like) {
  if (grad_enabled()) return matmul(a, b, {.scale = scale});
  Shape shape = matmul_shape(a.value(), b.value());
  Tensor out = shape == like.shape() ? Tensor::empty_like(like) : Tensor::empty(shape, like.dtype(), like.device());
  gemm(a.value(), b.value(), out, scale, 0);
  return out;
}

/// x with 0 in the rows for which the row of g is 0.
Variable without_unused_rows(const Variable& x, const Variable& g) {
  const Tensor zero = constant_like(g, 0);
  const Tensor used = logical_not(equal(g.value(), zero)).to(DType::f32);
  const Tensor rows = greater(sum(used, {-1}, true), constant(0, DType::f32, g.device()));
  return where(rows, x, Variable(constant_like(x, 0)));
}

/// Corrects the gradient xᵀ g of a weight, times `scale`, for rows of x whose cotangent, the row of g, is 0: they add 0
/// to it whatever they hold, and the product has 0 · NaN = NaN. On other devices than the CPU the host would have to
/// wait to know whether there is a NaN, and the product stays as it is.
void leave_out_unused_rows(Variable& weight_gradient, const Variable& x, const Variable& g, double scale) {
  const bool is_good = weight_gradient.device() != Device::cpu || are_finite(weight_gradient.value());
  if (is_good || are_finite(x.value())) return;
  weight_gradient = matmul_like(transpose(without_unused_rows(x, g), 0, 1), g, scale, weight_gradient.value());
}

}  // namespace

Variable matmul(const Variable& a, const Variable& b, const MatmulOptions& options) {
  const Tensor &first = a.value_for("matmul"), &second = b.value_for("matmul");
  const Shape shape = matmul_shape(first, second);
  const double scale = options.scale;
  // b is a weight shared by all batches: one large product, forward and backward, is faster than many small ones.
  if (second.rank() == 2 && first.rank() > 2 && options.memory_order.size() == 0)
    return reshape(matmul(fold_rows(a), b, {.scale = scale}), shape);
  Tensor value = options.memory_order.size() == 0
                     ? Tensor::empty(shape, first.dtype(), first.device())
                     : Tensor::empty(shape, std::span(options.memory_order.begin(), options.memory_order.size()),
                                     first.dtype(), first.device());
  gemm(first, second, value, scale, 0);
  if (!should_record({&a, &b})) return value;
  return record("matmul", std::move(value), {a, b},
                [a = Saved(a), b = Saved(b), scale](const Gradients& g, const Node& node) {
                  Gradients out(2);
                  const Variable &left = a.get(node), &right = b.get(node);
                  if (node.needs(0)) out[0] = matmul_like(g[0], transpose(right, -1, -2), scale, left.value());
                  if (node.needs(1)) out[1] = matmul_like(transpose(left, -1, -2), g[0], scale, right.value());
                  if (node.needs(1) && left.rank() == 2 && right.rank() == 2)
                    leave_out_unused_rows(out[1], left, g[0], scale);
                  return out;
                });
}

Variable linear(const Variable& x, const Variable& weight, const Variable& bias) {
  const Tensor &rows = x.value_for("linear"), &by = weight.value_for("linear");
  require_real("linear", rows);
  require(by.rank() == 2 && rows.rank() >= 1 && rows.size(-1) == by.size(0),
          "linear: x is {}, the weight {}; x's last size must be the weight's first", x, weight);
  require(!bias.defined() || (bias.rank() == 1 && bias.size(0) == weight.size(1)),
          "linear: the bias is {}, the weight {}; it must be [{}]", bias, weight, weight.size(1));
  for (const Variable* other : {&weight, &bias})
    if (other->defined() && (other->dtype() != x.dtype() || other->device() != x.device()))
      fail("linear: x is {} on {}, {} {} on {}; they must be alike", x, name(x.device()),
           other == &bias ? "the bias" : "the weight", *other, name(other->device()));
  if (x.rank() != 2) {
    Shape shape = x.shape();
    shape[-1] = weight.size(1);
    return reshape(linear(fold_rows(x), weight, bias), shape);
  }
  if (!bias.defined()) return matmul(x, weight);
  Tensor value = matmul_plus_bias(x.value(), weight.value(), bias.value());
  if (!should_record({&x, &weight, &bias})) return value;
  return record("linear", std::move(value), {x, weight, bias},
                [x = Saved(x), weight = Saved(weight)](const Gradients& g, const Node& node) {
                  const Variable& by = weight.get(node);
                  auto [of_weight, of_bias] = linear_gradients(g[0], x.get(node), by, node.needs(1), node.needs(2));
                  return Gradients{node.needs(0) ? matmul(g[0], transpose(by, 0, 1)) : Variable(), of_weight, of_bias};
                });
}

LinearGradients linear_gradients(const Variable& g, const Variable& x, const Variable& weight, bool needs_weight,
                                 bool needs_bias) {
  const Variable transposed = transpose(x, 0, 1);
  LinearGradients found;
  if (needs_weight && needs_bias && !grad_enabled()) {
    Tensor of_weight = Tensor::empty_like(weight.value());
    found.bias = gemm_with_column_sums(transposed.value(), g.value(), of_weight);
    found.weight = of_weight;
  } else {
    if (needs_weight) found.weight = matmul_like(transposed, g, 1, weight.value());
    if (needs_bias) found.bias = sum(g, {0});
  }
  if (needs_weight) leave_out_unused_rows(found.weight, x, g, 1);
  return found;
}

// ---- Reductions ----

namespace {

/// Returns x.shape() with the sizes of `dims` set to 1, or all sizes if `dims` is empty. `what` begins errors.
Shape kept_shape(const char* what, const Variable& x, const std::vector<int>& dims) {
  Shape shape = x.value_for(what).shape();
  if (dims.empty())
    for (int d = 0; d < shape.rank(); ++d) shape[d] = 1;
  for (int d : dims) shape[shape.dimension(what, d)] = 1;
  return shape;
}

Variable sum_for(const char* what, const Variable& x, const std::vector<int>& dims, bool keep) {
  const Shape kept = kept_shape(what, x, dims);
  const formula::Sum formula;
  const auto& kernels = formula_kernels<formula::Sum>(&Kernels::reductions);
  return record(
      "sum", reduce_by(kernels, &formula, what, x.value(), dims, keep), {x},
      [kept](const Variable& g, const Node& node) { return broadcast_to(reshape(g, kept), node.inputs()[0].shape); });
}

}  // namespace

Variable sum(const Variable& x, std::vector<int> dims, bool keep) { return sum_for("sum", x, dims, keep); }

Variable mean(const Variable& x, std::vector<int> dims, bool keep) {
  require_real("mean", x.value_for("mean"));
  const double kept = static_cast<double>(kept_shape("mean", x, dims).elements());
  return sum_for("mean", x, dims, keep) / (static_cast<double>(x.value().elements()) / kept);
}

Variable maximum_over(const Variable& x, int dim, bool keep) {
  Tensor largest = reduce(formula::MaximumOver{}, x.value_for("maximum_over"), std::span(&dim, 1), true);
  Tensor value = keep ? largest : largest.squeeze(dim);
  if (!should_record({&x})) return value;
  Tensor is_largest = greater_equal(x.value(), largest).to(x.dtype());
  Tensor share = map(Divide{}, is_largest, reduce(formula::Sum{}, is_largest, std::span(&dim, 1), true));
  return record("maximum_over", std::move(value), {x}, [share, dim, keep](const Variable& g) {
    return map(GradientTimes{}, keep ? g : unsqueeze(g, dim), Variable(share));
  });
}

Variable sum_to(const Variable& x, const Shape& shape) {
  const Tensor& value = x.value_for("sum_to");
  if (value.shape() == shape) return x;
  return record("sum_to", sum_to(value, shape), {x},
                [](const Variable& g, const Node& node) { return broadcast_to(g, node.inputs()[0].shape); });
}

Variable broadcast_to(const Variable& x, const Shape& shape) {
  const Tensor& value = x.value_for("broadcast_to");
  if (value.shape() == shape) return x;
  require(broadcasts_to(value.shape(), shape), "broadcast_to: {} does not broadcast to {}", value.shape(), shape);
  return record("broadcast_to", value.expand(shape), {x},
                [](const Variable& g) { return g; });  // the engine sums the gradient to x's shape
}

// ---- Shapes ----

namespace {

/// The backward pass of an operation that gives the elements another shape.
Variable shaped_as_input(const Variable& g, const Node& node) { return reshape(g, node.inputs()[0].shape); }

}  // namespace

Variable reshape(const Variable& x, const Shape& shape) {
  return record("reshape", x.value_for("reshape").reshape(shape), {x}, shaped_as_input);
}

Variable permute(const Variable& x, std::vector<int> order) {
  Tensor value = x.value_for("permute").permute(order);
  std::vector<int> inverse(order.size());
  for (std::size_t d = 0; d < order.size(); ++d)
    inverse[static_cast<std::size_t>(x.shape().dimension("permute", order[d]))] = static_cast<int>(d);
  return record("permute", std::move(value), {x}, [inverse](const Variable& g) { return permute(g, inverse); });
}

Variable transpose(const Variable& x, int a, int b) {
  return record("transpose", x.value_for("transpose").transpose(a, b), {x},
                [a, b](const Variable& g) { return transpose(g, a, b); });
}

Variable unsqueeze(const Variable& x, int dim) {
  return record("unsqueeze", x.value_for("unsqueeze").unsqueeze(dim), {x}, shaped_as_input);
}

Variable squeeze(const Variable& x, int dim) {
  return record("squeeze", x.value_for("squeeze").squeeze(dim), {x}, shaped_as_input);
}

namespace {

/// Returns zeros of `shape`, with x at [begin, begin + x.size(dim)) along `dim`: the backward pass of slice().
Variable pad_slice(const Variable& x, const Shape& shape, int dim, std::int64_t begin) {
  Tensor value = Tensor::zeros(shape, x.dtype(), x.device());
  value.slice(dim, begin, begin + x.size(dim)).copy_from(x.value());
  return record("pad_slice", std::move(value), {x},
                [dim, begin, size = x.size(dim)](const Variable& g) { return slice(g, dim, begin, begin + size); });
}

}  // namespace

Variable slice(const Variable& x, int dim, std::int64_t begin, std::int64_t end) {
  return record(
      "slice", x.value_for("slice").slice(dim, begin, end), {x},
      [dim, begin](const Variable& g, const Node& node) { return pad_slice(g, node.inputs()[0].shape, dim, begin); });
}

Variable select(const Variable& x, int dim, std::int64_t index) {
  return record("select", x.value_for("select").select(dim, index), {x},
                [dim, index](const Variable& g, const Node& node) {
                  const Shape& full = node.inputs()[0].shape;
                  const int d = full.dimension("select", dim);
                  return pad_slice(unsqueeze(g, d), full, d, index);
                });
}

std::vector<Variable> slices(const Variable& x, int dim) {
  dim = x.value_for("slices").shape().dimension("slices", dim);
  std::shared_ptr<Node> node;
  if (should_record({&x}))
    node = make_node("slices", {x}, [dim, device = x.device()](const Gradients& g, const Node& node) {
      Gradients pieces = g;
      for (Variable& piece : pieces)
        if (!piece.defined()) piece = Tensor::zeros(node.output_shapes()[0], node.dtype(), device);
      return Gradients{concat(pieces, dim)};
    });
  std::vector<Variable> out;
  for (std::int64_t t = 0; t < x.size(dim); ++t) {
    Tensor slice = x.value().slice(dim, t, t + 1);
    out.push_back(node ? output_of(node, static_cast<int>(t), slice) : Variable(slice));
  }
  return out;
}

Variable concat(const std::vector<Variable>& pieces, int dim) {
  require(!pieces.empty(), "concat: nothing to concatenate");
  Shape shape = pieces[0].value_for("concat").shape();
  dim = shape.dimension("concat", dim);
  shape[dim] = 0;
  std::vector<std::int64_t> begins;
  for (const Variable& piece : pieces) {
    begins.push_back(shape[dim]);
    Shape expected = piece.value_for("concat").shape();
    require(expected.rank() == shape.rank(), "concat: {} and {} differ in rank", pieces[0], piece);
    expected[dim] = pieces[0].size(dim);
    require(expected == pieces[0].shape() && piece.dtype() == pieces[0].dtype(),
            "concat: {} and {} differ beside dimension {}", pieces[0], piece, dim);
    require(piece.device() == pieces[0].device(), "concat: {} is on {} and {} on {}; move one of them", pieces[0],
            name(pieces[0].device()), piece, name(piece.device()));
    shape[dim] += piece.size(dim);
    require_countable("concat", shape);
  }
  Tensor value = Tensor::empty(shape, pieces[0].dtype(), pieces[0].device());
  for (std::size_t k = 0; k < pieces.size(); ++k)
    value.slice(dim, begins[k], begins[k] + pieces[k].size(dim)).copy_from(pieces[k].value());
  begins.push_back(shape[dim]);
  return record("concat", std::move(value), pieces, [dim, begins](const Gradients& g, const Node& node) {
    Gradients out(begins.size() - 1);
    for (std::size_t k = 0; k < out.size(); ++k)
      if (node.needs(k)) out[k] = slice(g[0], dim, begins[k], begins[k + 1]);
    return out;
  });
}

Variable cast(const Variable& x, DType dtype) {
  if (x.value_for("cast").dtype() == dtype) return x;
  require(is_float(dtype), "cast: {} to {}; a variable is cast to a floating-point type", x, name(dtype));
  return record("cast", x.value().to(dtype), {x}, [before = x.dtype()](const Variable& g) { return cast(g, before); });
}

// ---- Regularisation and losses ----

/// The backward pass applies dropout with the same mask to the gradient.
Variable dropout(const Variable& x, const DropoutMask& mask) {
  return record("dropout", dropout(x.value_for("dropout"), mask), {x},
                [mask](const Variable& g) { return dropout(g, mask); });
}

Variable dropout(const Variable& x, double probability) {
  x.value_for("dropout");
  return probability == 0 ? x : dropout(x, DropoutMask(probability, RandomScope::next_call("dropout")));
}

Variable dropout_add(const Variable& x, const Variable& residual, double probability) {
  if (probability == 0) return x + residual;
  const DropoutMask mask(probability, RandomScope::next_call("dropout_add"));
  const Tensor &dropped = x.value_for("dropout_add"), &kept = residual.value_for("dropout_add");
  return record("dropout_add", dropout_add(dropped, kept, mask), {x, residual},
                [mask](const Gradients& g, const Node& node) {
                  return Gradients{node.needs(0) ? dropout(g[0], mask) : Variable(), g[0]};
                });
}

namespace {

/// Minus the logarithm of the probability sigmoid(x), whose target is t. Each of the two logarithms, one of which is
/// infinite at an infinite logit, is left out where its factor is 0.
struct BinaryCrossEntropy {
  static constexpr const char* name = "binary_cross_entropy";
  template <class T>
  FOVEA_HD FOVEA_INLINE T operator()(T x, T t) const {
    return gradient_times(t, softplus(-x)) + gradient_times(T(1) - t, softplus(x));
  }
};

}  // namespace

Variable binary_cross_entropy(const Variable& logits, const Tensor& targets) {
  require(logits.value_for("binary_cross_entropy").shape() == targets.shape(),
          "binary_cross_entropy: the logits are {}, the targets {}; both must have one shape", logits, targets);
  return map(BinaryCrossEntropy{}, logits, Variable(targets));
}

}  // namespace fovea
