#include "attention/methods/window.h"

#include "attention/engine/cpu/window_strips.h"
#include "tensor/comparison.h"
#include "tensor/support/warning.h"

namespace fovea {

namespace {

/// The segments of J keys.
struct Segments {
  Tensor first, last, number;  ///< for each key, its segment's first key, last key and number, i64 [J]
  std::int64_t count;          ///< number of segments
};

/// Segments of b keys each; the last one may be shorter.
Segments segments_of(std::int64_t J, std::int64_t b) {
  std::vector<std::int64_t> first, last, number;
  for (std::int64_t j = 0; j < J; ++j) {
    number.push_back(j / b);
    first.push_back(j / b * b);
    last.push_back(std::min(J - 1, j / b * b + b - 1));
  }
  return {Tensor::from(first, {J}), Tensor::from(last, {J}), Tensor::from(number, {J}), (J + b - 1) / b};
}

/// 1 at the first maximum of each row, 0 elsewhere. A row of zeros stays zeros. Without gradients.
Tensor first_largest(const Tensor& phi) {
  std::vector<double> values = phi.to_vector<double>();
  std::int64_t J = phi.size(-1);
  for (auto row = values.begin(); row != values.end(); row += J) {
    auto largest = std::max_element(row, row + J);
    std::int64_t at = *largest > 0 ? largest - row : J;
    std::fill(row, row + J, 0);
    if (at < J) row[at] = 1;
  }
  return Tensor::from(values, phi.shape()).to(phi.dtype()).to(phi.device());
}

/// The window of one call, in plain operations.
struct Window {
  DifferentiableWindow::Options options;
  WindowProjections projections;

  /// φ^L and φ^R [B, H, I, J]
  struct Pointers {
    Variable left, right;
  };
  Pointers pointers(const AttentionContext& in) const {
    const Tensor allow = in.allow();
    Tensor left_allow = allow, right_allow = allow;
    if (options.forward_only) {
      Tensor query = in.query_positions.value().reshape({in.query.size(2), 1}), key = in.key_positions.value();
      auto both = [&](const Tensor& other) { return allow.defined() ? logical_and(allow, other) : other; };
      left_allow = both(less_equal(key, query));
      right_allow = both(less_equal(query, key));
    }
    return {pointer(in, projections.left_query, projections.left_key, left_allow),
            pointer(in, projections.right_query, projections.right_key, right_allow)};
  }

  /// m̂ [B, H, I, J]; 0 for keys that a query may not see.
  Variable mask(const AttentionContext& in) const {
    Variable mask = mask_of(pointers(in));
    Tensor allow = in.allow();
    if (!allow.defined()) return mask;
    return where(allow, mask, Tensor::zeros({1}, mask.dtype(), mask.device()));
  }

  WindowForm form(const AttentionContext& in) const {
    return {options.use == DifferentiableWindow::Use::additive,
            options.segment,
            static_cast<WindowForm::Mask>(options.mask),
            options.forward_only,
            in.scale() * options.pointer_scale,
            options.pointer_scale_by_length,
            in.scale()};
  }

 private:
  Variable pointer(const AttentionContext& in, const Variable& query, const Variable& key, const Tensor& allow) const {
    Variable logits = matmul(query, transpose(key, -1, -2), {.scale = in.scale() * options.pointer_scale});
    if (options.pointer_scale_by_length) logits = logits * unsqueeze(in.length, -1);
    return softmax(logits, allow);
  }

  Variable mask_of(const Pointers& phi) const {
    Segments segments = segments_of(phi.left.size(-1), options.segment);
    bool by_token = options.segment == 1;
    auto F = [&](const Variable& phi) {
      Variable sums = cumulative_sum(phi);
      return by_token ? sums : gather_last(sums, segments.last);
    };
    auto S = [&](const Variable& phi) {
      Variable sums = cumulative_sum(phi, true);
      return by_token ? sums : gather_last(sums, segments.first);
    };
    auto mass = [&](const Variable& phi) {  // of each key's segment
      return by_token ? phi : gather_last(scatter_last(phi, segments.number, segments.count), segments.number);
    };
    if (options.mask == DifferentiableWindow::Mask::discrete)
      return F(first_largest(phi.left.value())) * S(first_largest(phi.right.value()));
    Variable x = F(phi.left) * S(phi.right);
    if (options.forward_only) return x;
    Variable y = F(phi.right) * S(phi.left);
    switch (options.mask) {
      case DifferentiableWindow::Mask::paper:
        return x + y;
      case DifferentiableWindow::Mask::exact:
        return x + y - mass(phi.left) * mass(phi.right);
      case DifferentiableWindow::Mask::either:
        return x + y - x * y;
      case DifferentiableWindow::Mask::discrete:
        break;  // returned above
    }
    return {};
  }
};

/// The window's term: w · m̂, or s + s^loc · m̂ if local queries are defined.
class WindowTerm : public PairTerm {
 public:
  explicit WindowTerm(Window window) : window_(std::move(window)) {}

  Variable composed(const Variable& pairs, const AttentionContext& in) const override {
    Variable mask = window_.mask(in);
    const WindowProjections& p = window_.projections;
    if (!p.local_query.defined()) return pairs * mask;
    return pairs + matmul(p.local_query, transpose(p.local_key, -1, -2), {.scale = in.scale()}) * mask;
  }
  std::unique_ptr<StripTerm> strips(const AttentionContext& in) const override {
    if (window_.options.mask == DifferentiableWindow::Mask::discrete)
      return nullptr;  // for analysis only; speed does not matter
    return window_strips(window_.form(in), window_.projections);
  }
  bool is_products() const override { return true; }

 private:
  Window window_;
};

/// Divides the weights of each row by their sum, so that Σ_j w_ij = 1 again.
class Renormalize : public PairTerm {
 public:
  Variable composed(const Variable& weights, const AttentionContext&) const override {
    Variable total = sum(weights, {-1}, true);
    return weights / maximum(total, Tensor::full({1}, least, total.dtype(), total.device()));
  }
  std::unique_ptr<StripTerm> strips(const AttentionContext&) const override {
    return std::make_unique<RenormalizeStrips>();
  }

  static constexpr double least = 1e-9;

 private:
  class RenormalizeStrips : public StripTermOf<RenormalizeStrips> {
   public:
    std::vector<Variable> inputs() const override { return {}; }
    Tensor gradient_room(std::size_t, const StripShape&) const override { return {}; }

    template <class T>
    void forward_strip(const StripRows<T>& rows, const T* from, T* to, Workspace&) const {
      for_rows(rows, from, to, [](Vec<T> w, Vec<T>, Vec<T> total, Vec<T>) { return w / total; });
    }
    /// The gradient of w / Σ w: (g − Σ g w / Σ w) / Σ w, and g / least if Σ w < least.
    template <class T>
    void backward_strip(const StripRows<T>& rows, const T* from, T* gradient, std::span<Tensor>, Workspace&) const {
      for_rows(rows, from, gradient, [](Vec<T>, Vec<T> g, Vec<T> total, Vec<T> mean) { return (g - mean) / total; });
    }

   private:
    /// x = change(w, x, max(Σ w, least), Σ x w / Σ w) for the keys of all rows.
    template <class T, class Change>
    static void for_rows(const StripRows<T>& rows, const T* weights, T* x, Change&& change) {
      for (std::int64_t r = 0; r < rows.count; ++r, weights += rows.stride, x += rows.stride) {
        const std::int64_t first = rows.first[r], n = rows.end[r] - first;
        T total =
            sum_of_vectors<T>(n, [&](std::int64_t j, auto count) { return load_vector(weights + first + j, count); });
        T both = sum_of_vectors<T>(n, [&](std::int64_t j, auto count) {
          return load_vector(weights + first + j, count) * load_vector(x + first + j, count);
        });
        bool small = total < T(least);
        const Vec<T> divisor(small ? T(least) : total), mean(small ? T(0) : both / total);
        for_keys<T>(first, rows.end[r], [&](std::int64_t j, auto count) {
          store_vector(change(load_vector(weights + j, count), load_vector(x + j, count), divisor, mean), x + j, count);
        });
      }
    }
  };
};

}  // namespace

void DifferentiableWindow::visit(OptionVisitor& visitor, Options& options) {
  visitor.choice("use", options.use, {"multiplicative", "additive"}, "on the weights (MW) or on local logits (AW)");
  visitor.integer("segment", options.segment, 1, 1 << 20, "keys per segment, b; 1: by token");
  visitor.choice("mask", options.mask, {"paper", "exact", "prob_or", "discrete"},
                 "eq. 9; less its double count; x + y - x y; eq. 6");
  visitor.flag("renormalize", options.renormalize, "use=multiplicative: weights sum to 1 again");
  visitor.flag("forward_only", options.forward_only, "encoder: left pointer at or before i, right at or after");
  visitor.number("pointer_scale", options.pointer_scale, -1e3, 1e3, "multiplies the pointers' logits");
  visitor.flag("pointer_scale_by_length", options.pointer_scale_by_length, "and by the number of keys in sight");
}

DifferentiableWindow::DifferentiableWindow(const MethodShape& shape, const Options& options)
    : options_(options),
      head_dim_(shape.head_dim),
      left_query_(shape.model_dim, shape.heads * shape.head_dim),
      left_key_(shape.key_state_dim, shape.heads * shape.head_dim),
      right_query_(shape.model_dim, shape.heads * shape.head_dim),
      right_key_(shape.key_state_dim, shape.heads * shape.head_dim) {
  require(!options.forward_only || (shape.place == Place::encoder && options.mask == Mask::paper),
          "window: forward_only is for encoder self-attention with mask=paper");
  require(!options.renormalize || options.use == Use::multiplicative, "window: renormalize is for use=multiplicative");
  if (options.segment > 1 && shape.place == Place::decoder)
    warn(fmt::format(
        "window: segment={} in a decoder's self-attention: its last segments are not finished when they are "
        "pointed to; nothing later is seen, but the paper has segments in cross-attention alone",
        options.segment));
  child("left_query", left_query_);
  child("left_key", left_key_);
  child("right_query", right_query_);
  child("right_key", right_key_);
  if (options.use == Use::additive) {
    child("local_query", local_query_.emplace(shape.model_dim, shape.heads * shape.head_dim));
    child("local_key", local_key_.emplace(shape.key_state_dim, shape.heads * shape.head_dim));
  }
}

void DifferentiableWindow::add_layers(StateLayers& layers) const {
  layers.of_query.insert(layers.of_query.end(), {&left_query_, &right_query_});
  layers.of_key.insert(layers.of_key.end(), {&left_key_, &right_key_});
  if (!local_query_) return;
  layers.of_query.push_back(&*local_query_);
  layers.of_key.push_back(&*local_key_);
}

void DifferentiableWindow::add_terms(const AttentionContext& in, Terms& terms) {
  auto queries = [&](const Linear& projection) {
    return split_heads(in.project(projection, in.query_states), head_dim_);
  };
  auto keys = [&](const Linear& projection) {
    return split_heads(in.all_keys(&projection, [&] { return in.project(projection, in.key_states); }), head_dim_);
  };
  WindowProjections projections{queries(left_query_), keys(left_key_), queries(right_query_), keys(right_key_)};
  if (options_.use == Use::additive) {
    projections.local_query = queries(*local_query_);
    projections.local_key = keys(*local_key_);
  }
  Window window{options_, std::move(projections)};
  terms.quantity("left_pointer", [=] { return window.pointers(in).left; });
  terms.quantity("right_pointer", [=] { return window.pointers(in).right; });
  terms.quantity("window", [=] { return window.mask(in); });
  if (options_.use == Use::multiplicative) {
    terms.windows.push_back(std::make_unique<WindowTerm>(std::move(window)));
    if (options_.renormalize) terms.windows.push_back(std::make_unique<Renormalize>());
  } else {
    terms.biases.push_back(std::make_unique<WindowTerm>(std::move(window)));
  }
}

}  // namespace fovea
