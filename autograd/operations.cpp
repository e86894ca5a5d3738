#include "autograd/operations.h"

#include "tensor/comparison.h"
#include "tensor/constant.h"
#include "tensor/cross_entropy.h"
#include "tensor/gather.h"
#include "tensor/gemm.h"
#include "tensor/layer_norm.h"
#include "tensor/lstm_cell.h"
#include "tensor/random.h"
#include "tensor/range.h"
#include "tensor/scan.h"
#include "tensor/softmax.h"

namespace fovea {

// ---- Arithmetic ----

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

Variable map_by_rule(const Divide&, const Variable& a, const Variable& b) {
  Tensor value = map_values(Divide{}, a, b);
  if (!should_record({&a, &b})) return value;
  return record("divide", std::move(value), {a, b}, [a = Saved(a), b = Saved(b)](const Gradients& g, const Node& node) {
    const Variable &above = a.get(node), &below = b.get(node);
    Variable over = node.needs(0) || grad_enabled() ? map(GradientOver{}, g[0], below) : Variable();
    if (!node.needs(1)) return Gradients{over, Variable()};
    if (!grad_enabled())  // one kernel computes the gradient of b
      return Gradients{over, map(differentiated(Divide{}, 1), g[0].value(), above.value(), below.value())};
    return Gradients{over, -map(GradientTimes{}, over, above / below)};
  });
}

Variable map_by_rule(const GradientTimes& f, const Variable& gradient, const Variable& slope) {
  return record_product("gradient_times", f, gradient, slope);
}

Variable map_by_rule(const GradientOver&, const Variable& gradient, const Variable& divisor) {
  Tensor value = map_values(GradientOver{}, gradient, divisor);
  if (!should_record({&gradient, &divisor})) return value;
  return record("gradient_over", std::move(value), {gradient, divisor},
                [gradient = Saved(gradient), divisor = Saved(divisor)](const Gradients& g, const Node& node) {
                  const Variable& below = divisor.get(node);
                  Variable over = map(GradientOver{}, g[0], below);
                  if (!node.needs(1)) return Gradients{over, Variable()};
                  Variable quotient = map(GradientOver{}, gradient.get(node), below);
                  return Gradients{over, -map(GradientTimes{}, over, quotient)};
                });
}

Variable map_by_rule(const Affine& f, const Variable& x) {
  return record("affine", map_values(f, x), {x},
                [slope = f.slope](const Variable& g) { return slope == 1 ? g : affine(g, slope, 0); });
}

Variable operator+(const Variable& a, const Variable& b) { return map(Add{}, a, b); }
Variable operator-(const Variable& a, const Variable& b) { return map(Subtract{}, a, b); }
Variable operator*(const Variable& a, const Variable& b) { return map(Multiply{}, a, b); }
Variable operator/(const Variable& a, const Variable& b) { return map(Divide{}, a, b); }
Variable operator/(double a, const Variable& b) {
  const Tensor& below = b.value_for("divide");
  return Variable(constant_like(below, a).reshape({})) / b;
}
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
  require(by.rank() == 2 && rows.rank() >= 1 && rows.size(-1) == by.size(0),
          "linear: x is {}, the weight {}; x's last size must be the weight's first", x, weight);
  require(!bias.defined() || (bias.rank() == 1 && bias.size(0) == weight.size(1)),
          "linear: the bias is {}, the weight {}; it must be [{}]", bias, weight, weight.size(1));
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
  return record(
      "sum", reduce_by(&formula, place_of<formula::Sum>(formula::Reductions{}), what, x.value(), dims, keep), {x},
      [kept](const Variable& g, const Node& node) { return broadcast_to(reshape(g, kept), node.inputs()[0].shape); });
}

}  // namespace

Variable sum(const Variable& x, std::vector<int> dims, bool keep) { return sum_for("sum", x, dims, keep); }

Variable mean(const Variable& x, std::vector<int> dims, bool keep) {
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
  return record("broadcast_to", value.expand(shape), {x},
                [](const Variable& g) { return g; });  // the engine sums the gradient to x's shape
}

Variable cumulative_sum(const Variable& x, bool reverse) {
  return record("cumulative_sum", cumulative_sum(x.value_for("cumulative_sum"), reverse), {x},
                [reverse](const Variable& g) { return cumulative_sum(g, !reverse); });
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
    node = make_node("slices", {x},
                     [dim, shape = x.shape(), dtype = x.dtype(), device = x.device()](const Gradients& g, const Node&) {
                       Shape one = shape;
                       one[dim] = 1;
                       Gradients pieces = g;
                       for (Variable& piece : pieces)
                         if (!piece.defined()) piece = Tensor::zeros(one, dtype, device);
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
  return record("cast", x.value().to(dtype), {x}, [before = x.dtype()](const Variable& g) { return cast(g, before); });
}

// ---- Picking by index ----

/// A table that is read in several places, or is an output layer too, may have a gradient already when the rule comes:
/// the rows are added to it, and the table is not walked again.
Variable gather_rows(const Variable& table, const Tensor& index) {
  return record("gather_rows", gather_rows(table.value_for("gather_rows"), index), {table},
                [index = SavedTensor(index, "index")](const Variable& g, const Node& node) {
                  const Tensor& places = index.get(node);
                  const Variable arrived = node.take_arrived(0);
                  if (!arrived.defined()) return scatter_rows(g, places, node.inputs()[0].shape[0]);
                  const bool is_ours = arrived.is_sole_owner() && arrived.value().is_dense();
                  Tensor total = is_ours ? arrived.value() : arrived.value().clone();
                  scatter_add_rows(total, places, g.value());
                  return Variable(total);
                });
}

Variable scatter_rows(const Variable& rows, const Tensor& index, std::int64_t rows_in_table) {
  const Tensor& added = rows.value_for("scatter_rows");
  Tensor table = Tensor::zeros({rows_in_table, added.size(-1)}, added.dtype(), added.device());
  scatter_add_rows(table, index, added);
  return record("scatter_rows", std::move(table), {rows},
                [index = SavedTensor(index, "index")](const Variable& g, const Node& node) {
                  return gather_rows(g, index.get(node));
                });
}

Variable gather_last(const Variable& x, const Tensor& index) {
  return record("gather_last", gather_last(x.value_for("gather_last"), index), {x},
                [index = SavedTensor(index, "index")](const Variable& g, const Node& node) {
                  return scatter_last(g, index.get(node), node.inputs()[0].shape[-1]);
                });
}

Variable scatter_last(const Variable& x, const Tensor& index, std::int64_t size) {
  return record("scatter_last", scatter_add_last(x.value_for("scatter_last"), index, size), {x},
                [index = SavedTensor(index, "index")](const Variable& g, const Node& node) {
                  return gather_last(g, index.get(node));
                });
}

// ---- Rows ----

Variable softmax(const Variable& x, const Tensor& allow) {
  Tensor value = softmax(x.value_for("softmax"), allow);
  if (!should_record({&x})) return value;
  auto fused = [](const SavedTensor& result, const Gradients& g, const Node& node) {
    return Gradients{softmax_backward(result.get(node), g[0].value())};
  };
  auto composed = [](const SavedTensor& result, const Gradients& g, const Node& node) {
    Variable y = node.output(0, result.get(node));
    return Gradients{map(GradientTimes{}, g[0] - sum(map(GradientTimes{}, g[0], y), {-1}, true), y)};
  };
  return record("softmax", value, {x}, fused_rule(SavedTensor(value, "result"), fused, composed));
}

Variable log_softmax(const Variable& x) {
  Tensor value = log_softmax(x.value_for("log_softmax"));
  if (!should_record({&x})) return value;
  return record("log_softmax", value, {x}, [saved = SavedTensor(value, "result")](const Variable& g, const Node& node) {
    Variable y = node.output(0, saved.get(node));
    return g - map(GradientTimes{}, sum(g, {-1}, true), exp(y));
  });
}

namespace {

/// Layer norm in differentiable operations. Gives the same result as the fused kernels, and is used for second
/// derivatives. `inverse_deviation` [...], the result's, is a constant factor of numerator and denominator, so that
/// neither overflows. The mean is subtracted twice, because the first is rounded.
Variable layer_norm_composed(const Variable& x, const Variable& gain, const Variable& bias,
                             const Tensor& inverse_deviation, double epsilon) {
  const Tensor scale = inverse_deviation.unsqueeze(-1);
  const Variable share(
      map(Affine{epsilon, 0}, map(Square{}, scale)).to(x.dtype()));  // of ε in the denominator's square
  Variable roughly = x - mean(x, {-1}, true);
  Variable centred = (roughly - mean(roughly, {-1}, true)) * Variable(scale.to(x.dtype()));
  return centred / sqrt(mean(square(centred), {-1}, true) + share) * gain + bias;
}

}  // namespace

Variable layer_norm(const Variable& x, const Variable& gain, const Variable& bias, double epsilon) {
  constexpr const char* what = "layer_norm";
  LayerNormResult result = layer_norm(x.value_for(what), gain.value_for(what), bias.value_for(what), epsilon);
  if (!should_record({&x, &gain, &bias})) return result.output;
  struct Kept {
    Saved x, gain, bias;
    Tensor mean, inverse_deviation;
    double epsilon;
  };
  auto fused = [](const Kept& kept, const Gradients& g, const Node& node) {
    const Variable arrived = node.take_arrived(0);  // usually that of the residual connection around the norm
    LayerNormGradients gradients =
        layer_norm_backward(g[0].value(), kept.x.get(node).value(), kept.gain.get(node).value(), kept.mean,
                            kept.inverse_deviation, arrived.defined() ? arrived.value() : Tensor());
    return Gradients{gradients.x, gradients.gain, gradients.bias};
  };
  auto composed = [](const Kept& kept, const Gradients& g, const Node& node) {
    const Variable &x = kept.x.get(node), &gain = kept.gain.get(node), &bias = kept.bias.get(node);
    return partial_gradients(layer_norm_composed(x, gain, bias, kept.inverse_deviation, kept.epsilon), {x, gain, bias},
                             g[0]);
  };
  Kept kept{Saved(x), Saved(gain), Saved(bias), result.mean, result.inverse_deviation, epsilon};
  return record("layer_norm", result.output, {x, gain, bias}, fused_rule(std::move(kept), fused, composed));
}

namespace {

/// A mask that keeps all elements draws no random numbers.
DropoutMask next_mask(const char* what, double probability) {
  return DropoutMask(probability, probability == 0 ? RandomPosition{} : RandomScope::next_call(what));
}

}  // namespace

AddedAndNormed add_norm(const Variable& update, const Variable& residual, const Tensor& number, double probability,
                        const Variable& gain, const Variable& bias, double epsilon) {
  const DropoutMask mask = next_mask("add_norm", probability);
  const AddNormResult result = add_norm(update.value_for("add_norm"), residual.value_for("add_norm"), number, mask,
                                        gain.value_for("add_norm"), bias.value_for("add_norm"), epsilon);
  const std::vector<Variable> inputs{update, residual, gain, bias};
  if (!should_record(inputs)) return {result.sum, result.norm.output};
  struct Kept {
    SavedTensor sum;
    Saved gain, bias;
    Tensor mean, inverse_deviation;
    DropoutMask mask;
    bool drops;
    double epsilon;
  };
  auto of_inputs = [](const Kept& kept, const Variable& of_sum, const Node& node) {
    return Gradients{node.needs(0) && kept.drops ? dropout(of_sum, kept.mask) : of_sum, of_sum, {}, {}};
  };
  auto fused = [of_inputs](const Kept& kept, const Gradients& g, const Node& node) {
    if (!g[1].defined()) return of_inputs(kept, g[0], node);
    const LayerNormGradients gradients = layer_norm_backward(
        g[1].value(), kept.sum.get(node), kept.gain.get(node).value(), kept.mean, kept.inverse_deviation,
        g[0].defined() ? g[0].value() : Tensor(), kept.drops && node.needs(0) ? &kept.mask : nullptr);
    return Gradients{gradients.dropped.defined() ? gradients.dropped : gradients.x, gradients.x, gradients.gain,
                     gradients.bias};
  };
  auto composed = [of_inputs](const Kept& kept, const Gradients& g, const Node& node) {
    if (!g[1].defined()) return of_inputs(kept, g[0], node);
    const Variable sum = node.output(0, kept.sum.get(node)), &gain = kept.gain.get(node), &bias = kept.bias.get(node);
    const Gradients of_norm = partial_gradients(
        layer_norm_composed(sum, gain, bias, kept.inverse_deviation, kept.epsilon), {sum, gain, bias}, g[1]);
    Gradients all = of_inputs(kept, g[0].defined() ? g[0] + of_norm[0] : of_norm[0], node);
    all[2] = of_norm[1], all[3] = of_norm[2];
    return all;
  };
  Kept kept{SavedTensor(result.sum, "result"), Saved(gain), Saved(bias),     result.norm.mean,
            result.norm.inverse_deviation,     mask,        probability > 0, epsilon};
  auto node = make_node("add_norm", inputs, fused_rule(std::move(kept), fused, composed));
  Variable sum = output_of(node, 0, result.sum);
  return {sum, output_of(node, 1, result.norm.output)};
}

// ---- Regularisation and losses ----

/// The backward pass applies dropout with the same mask to the gradient.
Variable dropout(const Variable& x, const DropoutMask& mask) {
  return record("dropout", dropout(x.value_for("dropout"), mask), {x},
                [mask](const Variable& g) { return dropout(g, mask); });
}

Variable dropout(const Variable& x, double probability) {
  return probability == 0 ? x : dropout(x, next_mask("dropout", probability));
}

Variable dropout_add(const Variable& x, const Variable& residual, double probability) {
  if (probability == 0) return x + residual;
  DropoutMask mask = next_mask("dropout_add", probability);
  const Tensor &dropped = x.value_for("dropout_add"), &kept = residual.value_for("dropout_add");
  return record("dropout_add", dropout_add(dropped, kept, mask), {x, residual},
                [mask](const Gradients& g, const Node& node) {
                  return Gradients{node.needs(0) ? dropout(g[0], mask) : Variable(), g[0]};
                });
}

namespace {

/// Returns the smoothed target distribution [N, V] of the cross-entropy: in each row ε / V for every class, plus 1 − ε
/// for the target. Ignored rows are all 0.
Tensor target_distribution(const Tensor& targets, const Tensor& logits, const CrossEntropyOptions& options) {
  const std::int64_t V = logits.size(1);
  const double share = options.label_smoothing / static_cast<double>(V);
  auto scalar = [&](double x, DType dtype) { return constant(x, dtype, logits.device()); };
  const Tensor label = targets.reshape({-1, 1});  // [N, 1]
  const Tensor is_ignored = equal(label, scalar(static_cast<double>(options.ignored), label.dtype()));
  const Tensor class_of_row = where(is_ignored, scalar(0, label.dtype()), label);
  const Tensor one = Tensor::full(label.shape(), 1 - options.label_smoothing, logits.dtype(), logits.device());
  const Tensor smoothed = map(Affine{1, share}, scatter_add_last(one, class_of_row, V));
  return where(is_ignored, scalar(0, logits.dtype()), smoothed);
}

}  // namespace

Variable cross_entropy(const Variable& logits, const Tensor& targets, const CrossEntropyOptions& options) {
  auto result = cross_entropy(logits.value_for("cross_entropy"), targets, options.label_smoothing, options.ignored);
  if (!should_record({&logits})) return result.loss;
  struct Kept {
    Saved logits;
    SavedTensor targets;
    Tensor log_sum_exp;
    CrossEntropyOptions options;
  };
  auto fused = [](const Kept& kept, const Gradients& g, const Node& node) {
    return Gradients{cross_entropy_backward(g[0].value(), kept.logits.get(node).value(), kept.targets.get(node),
                                            kept.log_sum_exp, kept.options.label_smoothing, kept.options.ignored)};
  };
  auto composed = [](const Kept& kept, const Gradients& g, const Node& node) {
    const Variable& x = kept.logits.get(node);
    Variable target(target_distribution(kept.targets.get(node), x.value(), kept.options));
    Variable counted = sum(target, {-1}, true);  // 1 for each row, 0 for an ignored one
    return Gradients{map(GradientTimes{}, unsqueeze(g[0], 1), softmax(x) * counted - target)};
  };
  Kept kept{Saved(logits), SavedTensor(targets, "targets"), result.log_sum_exp, options};
  return record("cross_entropy", result.loss, {logits}, fused_rule(std::move(kept), fused, composed));
}

Variable binary_cross_entropy(const Variable& logits, const Tensor& targets) {
  return softplus(logits) - logits * Variable(targets);
}

// ---- Recurrence ----

namespace {

/// lstm_cell() in differentiable operations, for second derivatives.
LstmState lstm_cell_composed(const Variable& gates, const Variable& cell) {
  std::int64_t n = cell.size(1);
  auto part = [&](int k) { return slice(gates, 1, k * n, (k + 1) * n); };
  Variable next = sigmoid(part(1)) * cell + sigmoid(part(0)) * tanh(part(2));
  return {sigmoid(part(3)) * tanh(next), next};
}

}  // namespace

LstmState lstm_cell(const Variable& gates, const Variable& cell) {
  LstmCellResult result = lstm_cell(gates.value_for("lstm_cell"), cell.value_for("lstm_cell"));
  if (!should_record({&gates, &cell})) return {result.hidden, result.cell};
  struct Kept {
    Saved gates, cell;
    SavedTensor next_cell;
    Tensor activations;
  };
  auto fused = [](const Kept& kept, const Gradients& g, const Node& node) {
    const Tensor& next = kept.next_cell.get(node);
    LstmCellGradients gradients = lstm_cell_backward(or_zeros(g[0], next).value(), or_zeros(g[1], next).value(),
                                                     kept.activations, kept.cell.get(node).value(), next);
    return Gradients{gradients.gates, gradients.previous_cell};
  };
  auto composed = [](const Kept& kept, const Gradients& g, const Node& node) {
    const Variable &gates = kept.gates.get(node), &cell = kept.cell.get(node);
    const Tensor& next = kept.next_cell.get(node);
    LstmState again = lstm_cell_composed(gates, cell);
    return partial_gradients(concat({again.hidden, again.cell}, 1), {gates, cell},
                             concat({or_zeros(g[0], next), or_zeros(g[1], next)}, 1));
  };
  Kept kept{Saved(gates), Saved(cell), SavedTensor(result.cell, "result"), result.activations};
  auto node = make_node("lstm_cell", {gates, cell}, fused_rule(std::move(kept), fused, composed));
  Variable hidden = output_of(node, 0, result.hidden);
  return {hidden, output_of(node, 1, result.cell)};
}

}  // namespace fovea
