#include "nn/embedding.h"

#include <algorithm>
#include <cmath>

#include "autograd/map.h"
#include "autograd/operations.h"

namespace fovea {

namespace {

Initializer embedding_initializer(std::int64_t dim) {
  return Initializer::normal(1 / std::sqrt(static_cast<double>(dim)));
}

/// An element of the vector of a token: that of the table's row, scaled, and 0 for padding. An output layer that shares
/// the table may have given padding's row other numbers.
struct OfToken {
  static constexpr const char* name = "of_token";
  double scale, padding;
  template <class T>
  FOVEA_HD FOVEA_INLINE T operator()(T element, T token) const {
    return select(token == T(padding), T(0), element * T(scale));
  }
};

/// OfToken of all rows. It is linear, and so the formula of its own gradient.
Variable of_tokens(const OfToken& formula, const Variable& rows, const Tensor& tokens) {
  return record("of_token", map(formula, rows.value(), tokens), {rows},
                [=](const Variable& g) { return of_tokens(formula, g, tokens); });
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
  const Variable rows = gather_rows(weight_, index);
  if (!options_.padding && !options_.scale) return rows;
  constexpr double no_token = -1;
  const OfToken formula{options_.scale ? std::sqrt(static_cast<double>(weight_.size(1))) : 1,
                        options_.padding ? static_cast<double>(*options_.padding) : no_token};
  return of_tokens(formula, rows, index.to(rows.dtype()).unsqueeze(-1));
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
  require(end <= weight_.size(0),
          "position encoding: a text has {} tokens, more than the {} positions that the model has learned; cut it", end,
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
