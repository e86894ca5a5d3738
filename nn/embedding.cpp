#include "nn/embedding.h"

#include <algorithm>
#include <cmath>

#include "autograd/operations.h"
#include "tensor/comparison.h"
#include "tensor/constant.h"
#include "tensor/gather.h"
#include "tensor/range.h"

namespace fovea {

namespace {

Initializer embedding_initializer(std::int64_t dim) {
  return Initializer::normal(1 / std::sqrt(static_cast<double>(dim)));
}

/// gather_rows() with zeros in place of row `padding` of the table. An output layer that shares the table may have
/// given that row other numbers.
Tensor rows_except(const Tensor& table, const Tensor& index, std::int64_t padding) {
  Tensor rows = gather_rows(table, index);
  if (table.device() == Device::cpu && are_within(table.select(0, padding), 0)) return rows;
  const Tensor is_padding = equal(index, constant_like(index, static_cast<double>(padding)));
  return where(is_padding.unsqueeze(-1), constant_like(rows, 0), rows);
}

/// g with 0 in the rows that belong to the padding.
Tensor without_padding(const Tensor& g, const Tensor& index, std::int64_t padding) {
  const Tensor is_padding = equal(index, constant_like(index, static_cast<double>(padding)));
  return where(is_padding.unsqueeze(-1), constant_like(g, 0), g);
}

/// rows_except() with its gradient, which is 0 for row `padding` of the table. A table that is read in several places,
/// or is an output layer too, already has a gradient: the rows are added to it, and the table is not walked again.
Variable gather_rows_except(const Variable& table, const Tensor& index, std::int64_t padding) {
  return record(
      "gather_rows", rows_except(table.value(), index, padding), {table},
      [index = SavedTensor(index, "index"), padding, rows = table.size(0)](const Gradients& g, const Node& node) {
        if (!grad_enabled())
          if (Variable arrived = node.take_arrived(0); arrived.defined()) {
            Tensor total =
                arrived.is_sole_owner() && arrived.value().is_dense() ? arrived.value() : arrived.value().clone();
            const Tensor& tokens = index.get(node);
            scatter_add_rows(total, tokens, without_padding(g[0].value(), tokens, padding));
            return Gradients{Variable(total)};
          }
        Variable gradient = scatter_rows(g[0], index.get(node), rows);
        if (!gradient.requires_grad()) {
          gradient.value().select(0, padding).fill(0);
          return Gradients{gradient};
        }
        Tensor keep = Tensor::full({rows, 1}, 1, gradient.dtype(), gradient.device());
        keep.select(0, padding).fill(0);
        return Gradients{gradient * Variable(keep)};
      });
}

}  // namespace

Embedding::Embedding(std::int64_t vocabulary, std::int64_t dim, const Options& options) : options_(options) {
  Initializer initializer = options.deviation > 0 ? Initializer::normal(options.deviation) : embedding_initializer(dim);
  require(options.deviation >= 0, "Embedding: the standard deviation is {}; it must be positive, or 0 for d^-1/2",
          options.deviation);
  if (options.padding) {
    require(0 <= *options.padding && *options.padding < vocabulary,
            "Embedding: the padding token is {}; it must be in 0 ... {}", *options.padding, vocabulary - 1);
    initializer = initializer.with_zero_row(*options.padding);
  }
  weight_ = parameter("weight", {vocabulary, dim}, initializer);
}

Variable Embedding::forward(const Tensor& tokens) const {
  Scope scope = enter();
  const Tensor index = tokens.to(weight_.device());
  Variable rows =
      options_.padding ? gather_rows_except(weight_, index, *options_.padding) : gather_rows(weight_, index);
  return options_.scale ? rows * std::sqrt(static_cast<double>(weight_.size(1))) : rows;
}

Tensor sinusoidal_positions(std::int64_t T, std::int64_t dim, std::int64_t begin) {
  std::int64_t half = dim / 2;
  Tensor table = Tensor::zeros({T, dim}, DType::f64);
  double* out = table.mutable_data<double>();
  double step = std::log(10000.0) / static_cast<double>(std::max<std::int64_t>(half - 1, 1));
  for (std::int64_t k = 0; k < half; ++k) {
    double inverse_timescale = std::exp(-static_cast<double>(k) * step);
    for (std::int64_t t = 0; t < T; ++t) {
      double angle = static_cast<double>(begin + t) * inverse_timescale;
      out[t * dim + k] = std::sin(angle);
      out[t * dim + half + k] = std::cos(angle);
    }
  }
  return table;
}

PositionEncoding::PositionEncoding(Positions kind, std::int64_t dim, std::int64_t longest) : kind_(kind) {
  if (kind == Positions::learned) weight_ = parameter("weight", {longest, dim}, embedding_initializer(dim));
}

Variable PositionEncoding::forward(const Variable& x, std::int64_t begin) {
  if (kind_ == Positions::none) return x;
  Scope scope = enter();
  std::int64_t end = begin + x.size(1);
  if (kind_ == Positions::sinusoidal) return x + Variable(sinusoids(x, end).slice(0, begin, end));
  require(end <= weight_.size(0), "position encoding: a sentence has {} tokens; there are {} learned positions", end,
          weight_.size(0));
  return x + slice(weight_, 0, begin, end);
}

Tensor PositionEncoding::sinusoids(const Variable& x, std::int64_t end) {
  auto fits = [&](const Tensor& table) {
    return table.size(0) >= end && table.dtype() == x.dtype() && table.device() == x.device();
  };
  return *sinusoids_.get(fits, [&](const Tensor* table) {
    // A new table is at least twice as long as the old one, so that step-by-step decoding seldom computes a table.
    std::int64_t positions = table ? std::max(end, 2 * table->size(0)) : end;
    return sinusoidal_positions(positions, x.size(-1)).to(x.dtype()).to(x.device());
  });
}

}  // namespace fovea
