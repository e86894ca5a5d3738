#include "attention/rotary.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "autograd/node.h"
#include "tensor/gather.h"

namespace fovea {

namespace {

/// x cos + partner sin; the sine has the sign of the place in the pair. direction −1 turns back.
struct TurnPair {
  static constexpr const char* name = "turn_pair";
  double direction;
  template <class T>
  FOVEA_HD FOVEA_INLINE T operator()(T x, T partner, T cosine, T sine) const {
    using S = typename ScalarOf<T>::type;
    return x * cosine + partner * (T(S(direction)) * sine);
  }
};

struct Angles {
  Tensor partner;       // [D]
  Tensor cosine, sine;  // [T, D]
};

/// Turning is orthogonal: its gradient is turned back.
Variable turn(const Variable& x, const Angles& angles, double direction) {
  Tensor partners = gather_last(x.value(), angles.partner);
  return record(
      "turn_pairs", map(TurnPair{direction}, x.value(), partners, angles.cosine, angles.sine), {x},
      [angles, direction](const Gradients& g, const Node&) { return Gradients{turn(g[0], angles, -direction)}; });
}

}  // namespace

void RotaryPositions::visit(OptionVisitor& visitor, Options& options) {
  visitor.choice("pairs", options.pairs, {"neighbours", "halves"}, "(x_2k, x_2k+1) or (x_k, x_k+D/2)");
  visitor.number("base", options.base, 1 + 1e-6, 1e12,
                 "pair k turns by base^(-2 k / D) per token; D: without the last of an odd width");
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

void RotaryPositions::ensure_tables(const Variable& x, std::int64_t first, std::int64_t end) {
  if (cosine_.defined() && first_ <= first && end <= first_ + cosine_.size(0) && cosine_.dtype() == x.dtype() &&
      cosine_.device() == x.device())
    return;
  constexpr std::int64_t from_start = 1 << 16;  // far away the tables begin where they are read
  first_ = end <= from_start ? 0 : first;
  std::int64_t positions =
      std::max<std::int64_t>(64, static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(end - first_))));
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
      double angle = static_cast<double>(first_ + t) *
                     std::pow(options_.base, -static_cast<double>(pair) / static_cast<double>(half));
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

Variable RotaryPositions::positioned(const Variable& x, std::int64_t first) {
  std::int64_t end = first + x.size(2);
  ensure_tables(x, first, end);
  return turn(
      x, {partner_, cosine_.slice(0, first - first_, end - first_), sine_.slice(0, first - first_, end - first_)}, 1);
}

}  // namespace fovea
