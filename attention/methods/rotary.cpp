#include "attention/methods/rotary.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "autograd/node.h"
#include "autograd/operations/gather.h"
#include "tensor/formula/arithmetic.h"
#include "tensor/map.h"

namespace fovea {

namespace {

/// One component x of a pair after the pair's rotation: x cos + partner sin. The sine in the table is negative for the
/// first component of a pair and positive for the second. direction = −1 rotates by the opposite angle.
struct RotatePair {
  static constexpr const char* name = "rotate_pair";
  double direction;
  template <class T>
  FOVEA_HD FOVEA_INLINE T operator()(T x, T partner, T cosine, T sine) const {
    using S = typename ScalarOf<T>::type;
    return x * cosine + partner * (T(S(direction)) * sine);
  }
};

/// x [B, H, T, D] rotated by the angles of `table`, whose rows belong to the T positions. A rotation is orthogonal, so
/// the gradient with respect to x is the gradient of the output, rotated by the opposite angles.
Variable rotate(const Variable& x, const RotaryTable& table, double direction) {
  Tensor partners = gather_last(x.value(), table.partner);
  return record(
      "rotate_pairs", map(RotatePair{direction}, x.value(), partners, table.cosine, table.sine), {x},
      [table, direction](const Gradients& g, const Node&) { return Gradients{rotate(g[0], table, -direction)}; });
}

}  // namespace

void RotaryPositions::visit(OptionVisitor& visitor, Options& options) {
  visitor.choice("pairs", options.pairs, {"neighbours", "halves"},
                 "pair k is (x_2k, x_2k+1), as in the paper, or (x_k, x_k+D/2)");
  visitor.number("base", options.base, 1 + 1e-6, 1e12,
                 "pair k rotates by the angle base^(-2 k / D) per token; for odd D: D - 1");
}

RotaryPositions::RotaryPositions(const MethodShape& shape, const Options& options)
    : options_(options), head_dim_(shape.head_dim) {
  require(shape.query_dim == shape.key_dim,
          "rotary: queries have width {}, keys have width {}; they must be equal, because one table rotates both",
          shape.query_dim, shape.key_dim);
}

RotaryTable RotaryPositions::make_table(std::int64_t first, std::int64_t positions, DType dtype, Device device) const {
  const std::int64_t half = head_dim_ / 2, paired = 2 * half;
  const bool neighbours = options_.pairs == Pairs::neighbours;
  std::vector<std::int64_t> partner;
  std::vector<double> step, cosine, sine;  // step: each dimension's angle per token, negative for the first of a pair
  for (std::int64_t c = 0; c < paired; ++c) {
    const bool is_first = neighbours ? c % 2 == 0 : c < half;
    const std::int64_t pair = neighbours ? c / 2 : c % half;
    const double angle = std::pow(options_.base, -static_cast<double>(pair) / static_cast<double>(half));
    partner.push_back(neighbours ? c ^ 1 : (c + half) % paired);
    step.push_back(is_first ? -angle : angle);
  }
  if (head_dim_ > paired) partner.push_back(paired), step.push_back(0);  // the last dimension of an odd D
  for (std::int64_t t = first; t < first + positions; ++t)
    for (const double angle : step) {
      cosine.push_back(std::cos(static_cast<double>(t) * angle));
      sine.push_back(std::sin(static_cast<double>(t) * angle));
    }
  auto table = [&](const std::vector<double>& values) {
    return Tensor::from(values, {positions, head_dim_}).to(dtype).to(device);
  };
  return {first, Tensor::from(partner, {head_dim_}).to(device), table(cosine), table(sine)};
}

RotaryTable RotaryPositions::table_of(const Variable& x, std::int64_t first) {
  const std::int64_t end = first + x.size(2);
  auto fits = [&](const RotaryTable& table) {
    return table.first <= first && end <= table.first + table.cosine.size(0) && table.cosine.dtype() == x.dtype() &&
           table.cosine.device() == x.device();
  };
  std::shared_ptr<const RotaryTable> found = table_.get(fits, [&](const RotaryTable*) {
    constexpr std::int64_t near = 1 << 16;  // for positions beyond this, the table does not begin at position 0
    const std::int64_t begin = end <= near ? 0 : first;
    const auto positions = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(end - begin)));
    return make_table(begin, std::max<std::int64_t>(64, positions), x.dtype(), x.device());
  });
  const std::int64_t row = first - found->first, end_row = end - found->first;
  return {first, found->partner, found->cosine.slice(0, row, end_row), found->sine.slice(0, row, end_row)};
}

Variable RotaryPositions::positioned(const Variable& x, const TokenPositions& at) {
  if (!at.document_start.defined()) return rotate(x, table_of(x, at.first), 1);
  RotaryTable table = table_of(x, 0);  // positions in documents are at most x's positions in the row
  const Tensor in_row = Tensor::arange(x.size(2), x.dtype(), x.device(), at.first);
  const Tensor row = map(Subtract{}, in_row, at.document_start).to(DType::i64);  // [B, 1, T]
  table.cosine = gather_rows(table.cosine, row);                                 // [B, 1, T, D]
  table.sine = gather_rows(table.sine, row);
  return rotate(x, table, 1);
}

}  // namespace fovea
