#include "tensor/layer_norm.h"

#include "tensor/constant.h"
#include "tensor/requirements.h"
#include "tensor/rows.h"

namespace fovea {

namespace {

void require_parameter(const char* which, const Tensor& parameter, const Tensor& x) {
  require(parameter.defined() && parameter.rank() == 1 && parameter.size(0) == x.size(-1) &&
              parameter.dtype() == x.dtype() && parameter.device() == x.device(),
          "layer_norm: the {} is {}, x {}; it must be {} [{}] on {}", which, parameter, x, name(x.dtype()), x.size(-1),
          name(x.device()));
}

void require_operands(const Tensor& x, const Tensor& gain) {
  require_rows("layer_norm", x);
  require_real("layer_norm", x);
  require(x.size(-1) > 0, "layer_norm: x is {}; its rows need at least one element", x);
  require_parameter("gain", gain, x);
}

/// Throws unless `statistics`, a tensor saved by the forward pass, has one f64 number for each row of `x`.
void require_statistics(const char* which, const Tensor& statistics, const Tensor& x) {
  require(statistics.defined() && statistics.shape() == leading_shape(x.shape()) && statistics.dtype() == DType::f64 &&
              statistics.device() == x.device(),
          "layer_norm: the saved {} is {}, x {}; it must be f64 {} on {}", which, statistics, x,
          leading_shape(x.shape()), name(x.device()));
}

/// Throws unless layer norm can be applied to x. Allocates the results.
LayerNormResult new_result(const Tensor& x, const Tensor& gain, const Tensor& bias, double epsilon) {
  require_operands(x, gain);
  require_parameter("bias", bias, x);
  require(epsilon >= 0, "layer_norm: epsilon is {}; it must be at least 0", epsilon);
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
  LayerNormResult out = new_result(x, gain, bias, epsilon);
  run_rows(
      formula::LayerNorm{{}, epsilon},
      {leading_shape(x.shape()), x.size(-1), {&x, &gain, &bias}, {&out.output, &out.mean, &out.inverse_deviation}});
  return out;
}

AddNormResult add_norm(const Tensor& update, const Tensor& residual, const Tensor& number, const DropoutMask& mask,
                       const Tensor& gain, const Tensor& bias, double epsilon) {
  require_one_row(mask);
  AddNormResult out{new_result(update, gain, bias, epsilon), {}};
  require_alike("add_norm", update, residual);
  const Shape rows = leading_shape(update.shape());
  require(!number.defined() ||
              (number.shape() == rows && number.dtype() == update.dtype() && number.device() == update.device()),
          "add_norm: the numbers of the rows are {}, the update {}; they must be {} {} on {}", number, update,
          name(update.dtype()), rows, name(update.device()));
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
  require_operands(x, gain);
  require_alike("layer_norm", x, g);
  if (added.defined()) require_alike("layer_norm", x, added);
  require_statistics("mean", mean, x);
  require_statistics("inverse deviation", inverse_deviation, x);
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

}  // namespace fovea
