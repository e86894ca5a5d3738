/// Relative positions in two dimensions, for tokens on a grid such as the patches of an image.
/// Bello et al. 2019, "Attention Augmented Convolutional Networks", section 3.
///
///   z_ij = q_i · (k_j + R_{row(j) − row(i)} + C_{column(j) − column(i)}) / sqrt(D)
///
/// The row and column of each token come with the call (AttentionInput::grid). Without them all tokens are in one row,
/// and the method is `relative` without values. R and C are [2 clip + 1, D], shared by all heads. Distances are clipped
/// to −clip ... clip; the paper has an entry for each distance in an image of fixed size. No tensor of size I · J · D
/// is computed: the products q_i · R and q_i · C are tables [I, 2 clip + 1], from which pairs read.
#pragma once
#include "attention/method.h"
#include "tensor/constant.h"
#include "tensor/formula/arithmetic.h"
#include "tensor/map.h"

namespace fovea {

/// The bias. The captures are the products q · R / sqrt(D) and q · C / sqrt(D), [B, H, I, 2 clip + 1], and the grids of
/// queries [B or 1, 1, I, 2] and keys [B or 1, 1, J, 2].
class GridBias : public CustomTerm {
 public:
  Variable composed(const Variable& pairs, const AttentionContext&, const Captured& captured) const override {
    return pairs + of_axis(captured, 0) + of_axis(captured, 1);
  }
  bool is_of_seen_pairs() const override { return true; }

 private:
  static Variable of_axis(const Captured& captured, int axis) {
    const Variable& products = captured[static_cast<std::size_t>(axis)];
    const Tensor of_query = captured[2].value().slice(-1, axis, axis + 1),
                 of_key = captured[3].value().slice(-1, axis, axis + 1).transpose(-1, -2);
    const auto clip = static_cast<double>((products.size(-1) - 1) / 2);
    auto number = [&](double x) { return constant_like(of_key, x); };
    const Tensor distance = map(Subtract{}, of_key, of_query);  // [B or 1, 1, I, J]
    const Tensor near = map(Minimum{}, map(Maximum{}, distance, number(-clip)), number(clip));
    return gather_last(products, map(Affine{1, clip}, near).to(DType::i64));
  }
};

class Relative2d : public LocalnessMethod {
 public:
  struct Options {
    std::int64_t clip = 16;  ///< largest distance with a vector of its own, in rows or columns
  };
  static constexpr MethodCard card = {
      "relative_2d", "learned vectors of the relative row and column, added to keys", "Bello et al. 2019, section 3",
      "z_ij = q_i . (k_j + rows_r + columns_c) / sqrt(D), r = min(max(row(j) - row(i), -clip), clip) + clip, c "
      "likewise\n"
      "row and column of each token are the input grid; without it all tokens are in one row",
      "grid"};
  static void visit(OptionVisitor& visitor, Options& options) {
    visitor.integer("clip", options.clip, 1, 65536, "largest distance with a vector of its own, in rows or columns");
  }

  Relative2d(const MethodShape& shape, const Options& options)
      : rows_(parameter("rows", {2 * options.clip + 1, shape.head_dim}, Initializer::xavier_uniform())),
        columns_(parameter("columns", {2 * options.clip + 1, shape.head_dim}, Initializer::xavier_uniform())) {
    require(shape.place != Place::cross,
            "relative_2d: queries and keys must be tokens of one grid, so it is not defined in cross-attention");
  }
  void add_terms(const AttentionContext& in, Plan& plan) override {
    auto products = [&](const Variable& table) -> Capture {
      return {Per::query_vector, matmul(in.query, transpose(table, 0, 1)) * in.scale()};
    };
    auto on_grid = [](const Variable& grid, const Variable& positions) {
      if (grid.defined()) return grid;
      const Variable column = reshape(positions, {1, 1, positions.size(0), 1});
      return concat({column * 0.0, column}, -1);
    };
    plan.biases.push_back({std::make_shared<const GridBias>(),
                           {products(rows_),
                            products(columns_),
                            {Per::query_vector, on_grid(in.query_grid, in.query_positions)},
                            {Per::key_vector, on_grid(in.key_grid, in.key_positions)}}});
  }

 private:
  Variable rows_, columns_;  // R, C [2 clip + 1, D]
};

}  // namespace fovea
