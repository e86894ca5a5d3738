#include "attention/rotary.h"

#include <cmath>

namespace fovea {

void RotaryPositions::visit(OptionVisitor& visitor, Options& options) {
  visitor.choice("pairs", options.pairs, {"neighbours", "halves"}, "(x_2k, x_2k+1) or (x_k, x_k+D/2)");
  visitor.number("base", options.base, 1 + 1e-6, 1e12, "pair k turns by base^(-2 k / D) per token");
}

RotaryPositions::RotaryPositions(const MethodShape& shape, const Options& options)
    : options_(options), head_dim_(shape.head_dim) {
  std::int64_t half = head_dim_ / 2;
  std::vector<std::int64_t> partner;
  for (std::int64_t c = 0; c < 2 * half; ++c)
    partner.push_back(options.pairs == Pairs::neighbours ? c ^ 1 : (c + half) % (2 * half));
  if (head_dim_ % 2) partner.push_back(head_dim_ - 1);
  partner_ = Tensor::from(partner, {head_dim_});
}

void RotaryPositions::ensure_tables(const Variable& x, std::int64_t positions) {
  if (cosine_.defined() && cosine_.size(0) >= positions && cosine_.dtype() == x.dtype() &&
      cosine_.device() == x.device())
    return;
  std::int64_t half = head_dim_ / 2;
  std::vector<double> cosine, sine;
  for (std::int64_t t = 0; t < positions; ++t)
    for (std::int64_t c = 0; c < head_dim_; ++c) {
      if (c == 2 * half) {  // no partner
        cosine.push_back(1);
        sine.push_back(0);
        continue;
      }
      bool neighbours = options_.pairs == Pairs::neighbours, first = neighbours ? c % 2 == 0 : c < half;
      std::int64_t pair = neighbours ? c / 2 : c % half;
      double angle =
          static_cast<double>(t) * std::pow(options_.base, -static_cast<double>(pair) / static_cast<double>(half));
      cosine.push_back(std::cos(angle));
      sine.push_back(first ? -std::sin(angle) : std::sin(angle));
    }
  auto table = [&](const std::vector<double>& values) {
    return Tensor::from(values, {positions, head_dim_}).to(x.dtype()).to(x.device());
  };
  cosine_ = table(cosine);
  sine_ = table(sine);
  partner_ = partner_.to(x.device());
}

Variable RotaryPositions::turned(const Variable& x, std::int64_t first) {
  std::int64_t end = first + x.size(2);
  ensure_tables(x, end);
  return x * cosine_.slice(0, first, end) + gather_last(x, partner_) * sine_.slice(0, first, end);
}

void RotaryPositions::prepare(AttentionContext& in) {
  in.query = turned(in.query, in.query_offset);
  in.key = turned(in.key, 0);
}

}  // namespace fovea
