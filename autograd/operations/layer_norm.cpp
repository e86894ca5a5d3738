#include "autograd/operations/layer_norm.h"

#include "autograd/map.h"
#include "autograd/operations.h"
#include "tensor/constant.h"
#include "tensor/cpu/row.h"
#include "tensor/formula/arithmetic.h"
#include "tensor/operands.h"
#include "tensor/random.h"

namespace fovea {

namespace {

const cpu::ProvideRows provide{formula::LayerNormFormulas{}};

/// Throws unless rows of x can be normalised. Allocates the results.
LayerNormResult new_result(const char* what, const Tensor& x, double epsilon) {
  require(x.size(-1) > 0, "{}: x is {}; its rows need at least one element", what, x);
  require(epsilon >= 0, "{}: epsilon is {}; it must be at least 0", what, epsilon);
  const Shape rows = leading_shape(x.shape());
  return {Tensor::empty(x.shape(), x.dtype(), x.device()), Tensor::empty(rows, DType::f64, x.device()),
          Tensor::empty(rows, DType::f64, x.device())};
}

void require_one_row(const DropoutMask& mask) {
  require(mask.row_length() == DropoutMask::one_row, "add_norm: the dropout mask has rows of {}; it must have one row",
          mask.row_length());
}

}  // namespace

LayerNormResult layer_norm(const Tensor& x, const Tensor& gain, const Tensor& bias, double epsilon) {
  check("layer_norm", {{"x", x, "... n"}, {"the gain", gain, "n"}, {"the bias", bias, "n"}});
  LayerNormResult out = new_result("layer_norm", x, epsilon);
  run_rows(
      formula::LayerNorm{{}, epsilon},
      {leading_shape(x.shape()), x.size(-1), {&x, &gain, &bias}, {&out.output, &out.mean, &out.inverse_deviation}});
  return out;
}

AddNormResult add_norm(const Tensor& update, const Tensor& residual, const Tensor& number, const DropoutMask& mask,
                       const Tensor& gain, const Tensor& bias, double epsilon) {
  check("add_norm", {{"the update", update, "... n"},
                     {"the residual", residual, "... n"},
                     {"the numbers of the rows", number, "?..."},
                     {"the gain", gain, "n"},
                     {"the bias", bias, "n"}});
  require_one_row(mask);
  AddNormResult out{new_result("add_norm", update, epsilon), {}};
  const Shape rows = leading_shape(update.shape());
  const Tensor added = number.defined() ? number : constant_like(update, 0).reshape({}).expand(rows);
  out.sum = Tensor::empty(update.shape(), update.dtype(), update.device());
  run_rows(formula::AddNorm{{{}, epsilon}, mask},
           {rows,
            update.size(-1),
            {&update, &gain, &bias, &residual, &added},
            {&out.norm.output, &out.norm.mean, &out.norm.inverse_deviation, &out.sum}});
  return out;
}

LayerNormGradients layer_norm_backward(const Tensor& g, const Tensor& x, const Tensor& gain, const Tensor& mean,
                                       const Tensor& inverse_deviation, const Tensor& added, const DropoutMask* mask) {
  check("layer_norm_backward", {{"x", x, "... n"},
                                {"the gradient", g, "... n"},
                                {"the gain", gain, "n"},
                                {"the mean", mean, "f64 ..."},
                                {"the inverse deviation", inverse_deviation, "f64 ..."},
                                {"the added gradient", added, "?... n"}});
  const std::int64_t n = x.size(-1);
  Tensor dx = Tensor::empty(x.shape(), x.dtype(), x.device()), sums = Tensor::empty({2, n}, x.dtype(), x.device());
  LayerNormGradients out{dx, sums.select(0, 0), sums.select(0, 1), {}};
  RowOperands operands{leading_shape(x.shape()), n, {&g, &x, &gain, &mean, &inverse_deviation}, {&dx}, nullptr, &sums};
  if (added.defined()) operands.in.add(added);
  if (mask) {
    require_one_row(*mask);
    out.dropped = Tensor::empty(x.shape(), x.dtype(), x.device());
    operands.out.add(out.dropped);
    added.defined() ? run_rows(formula::LayerNormGradient<true, true>{{}, {*mask}}, operands)
                    : run_rows(formula::LayerNormGradient<false, true>{{}, {*mask}}, operands);
  } else {
    added.defined() ? run_rows(formula::LayerNormGradient<true, false>{}, operands)
                    : run_rows(formula::LayerNormGradient<false, false>{}, operands);
  }
  return out;
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

AddedAndNormed add_norm(const Variable& update, const Variable& residual, const Tensor& number, double probability,
                        const Variable& gain, const Variable& bias, double epsilon) {
  const RandomPosition position = probability == 0 ? RandomPosition{} : RandomScope::next_call("add_norm");
  const DropoutMask mask(probability, position);
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

}  // namespace fovea
