#include "attention/methods/flexible.h"

#include <algorithm>
#include <cmath>

#include "attention/engine/composed.h"
#include "attention/engine/cpu/focus_strips.h"
#include "attention/methods/score.h"
#include "autograd/operations.h"
#include "tensor/comparison.h"

namespace fovea {

namespace {

/// The bound of a KeyRange at (b, h, i); `otherwise` if there is none.
std::int64_t at(const Tensor& bound, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t otherwise) {
  if (!bound.defined()) return otherwise;
  auto offset = [&](int dim, std::int64_t index) { return bound.size(dim) > 1 ? index * bound.strides()[dim] : 0; };
  return bound.data<std::int32_t>()[offset(0, b) + offset(1, h) + offset(2, i)];
}

/// Results of a forward pass for traces and for the decoder's memory.
struct Steps {
  std::vector<double> windows;  ///< first and last key of each query's window, [I, B, H, 2]
  Variable focus;               ///< after each query, [B, H, I]
};

/// Gathers rows of x [B, H, J, n], different ones for each sentence and head. Without gradients.
class KeyRows {
 public:
  explicit KeyRows(const Variable& x) : heads_(x.size(1)), length_(x.size(2)) {
    rows_ = x.value().reshape({x.size(0) * heads_ * length_, x.size(3)});
  }
  /// index i64 [B, H, 1, W], in 0 … J − 1 → [B, H, W, n]
  Variable at(const Tensor& index) const {
    Tensor flat = index.clone();
    std::int64_t B = index.size(0), H = index.size(1), W = index.size(3);
    auto* place = flat.mutable_data<std::int64_t>();
    for (std::int64_t b = 0; b < B; ++b)
      for (std::int64_t h = 0; h < H; ++h)
        for (std::int64_t w = 0; w < W; ++w) *place++ += (b * heads_ + h) * length_;
    return gather_rows(rows_, flat.reshape({B, H, W}));
  }

 private:
  std::int64_t heads_, length_;
  Tensor rows_;
};

class FocusRecurrence : public Recurrence {
 public:
  /// `owner` is the key of the focus in the decoder's memory. `testing` switches the threshold on.
  FocusRecurrence(const void* owner, const FlexibleAttention::Options& options, bool testing, const Variable& gate,
                  const Variable& previous_focus, std::shared_ptr<Steps> steps)
      : owner_(owner),
        options_(options),
        has_windows_(testing && std::isfinite(options.threshold)),
        gate_(gate),
        previous_(previous_focus),
        steps_(std::move(steps)) {}

  Variable composed(const Variable& logits, const Tensor& allow, const AttentionContext& in) override {
    require(logits.rank() == 4,
            "flexible: a score with weights per dimension of the values (fine_grained) has no single focus; use "
            "another score");
    start();
    std::vector<Variable> rows = slices(logits, 2);
    for (std::int64_t t = 0; t < logits.size(2); ++t) {
      Variable& row = rows[static_cast<std::size_t>(t)];
      Tensor seen = allow.defined() && allow.size(2) > 1 ? allow.slice(2, t, t + 1) : allow;
      KeyRange window = step_window(in, t);
      if (has_windows_) {
        Tensor near = allowed_pairs(window, logits.size(3));
        if (near.defined()) near = near.to(logits.device());
        seen = seen.defined() && near.defined() ? logical_and(seen, near) : seen.defined() ? seen : near;
      }
      row = softmax(row - penalty(t, in.key_positions), seen);
      move_to(sum(row * in.key_positions, {-1}));
    }
    steps_->focus = concat(focus_of_queries_, 2);
    return concat(rows, 2);
  }

  Variable skipping(const AttentionContext& in, const Plan& plan, AttentionTrace* trace) override {
    const std::vector<Score> scores = scores_of_all_heads(plan, in);
    const Score& score = scores[0];
    const bool score_alone = scores.size() == 1 && plan.score_changes.empty() && plan.biases.empty() &&
                             plan.windows.empty() && plan.values.empty() && plan.masks.empty() && plan.always.empty() &&
                             plan.mixings.empty();
    if (!has_windows_ || grad_enabled() || !score_alone || in.key.size(2) == 0) return {};
    start();
    KeyRows keys(score.keys), values(in.value);
    std::vector<Variable> outputs, weights;
    for (std::int64_t t = 0; t < in.query.size(2); ++t) {
      auto [index, seen] = keys_of(step_window(in, t), plan, in, t);
      Variable positions = index.to(in.query.dtype());
      Variable logits =
          score_logits(score, slice(score.queries, 2, t, t + 1), keys.at(index), index) - penalty(t, positions);
      Variable row = softmax(logits, seen);
      move_to(sum(row * positions, {-1}));
      outputs.push_back(matmul(row, values.at(index)));
      if (trace) weights.push_back(scatter_last(row, index, in.key.size(2)));
    }
    steps_->focus = concat(focus_of_queries_, 2);
    if (trace) fill_trace(in, plan, concat(weights, 2), *trace);
    return concat(outputs, 2);
  }

  std::unique_ptr<StripRecurrence> strips(const AttentionContext&) override {
    steps_->windows.assign(static_cast<std::size_t>(2 * gate_.shape().elements()), 0);
    return focus_strips({options_.sigma, has_windows_ ? options_.threshold : std::numeric_limits<double>::infinity(),
                         !has_first_focus(), first_focus(), options_.detach_focus, gate_, previous_, &steps_->windows});
  }
  Variable carried() const override { return steps_->focus; }
  void set_carried(const Variable& focus) override { steps_->focus = focus; }
  void keep_carried(DecoderMemory& memory, const Variable& focus) const override {
    memory.step_state(owner_) = select(focus, 2, focus.size(2) - 1);
  }

 private:
  /// Whether the first query of a sentence has a penalty.
  bool has_first_focus() const { return options_.p_init != FlexibleAttention::FirstFocus::none; }
  double first_focus() const { return options_.p_init == FlexibleAttention::FirstFocus::before_first_word ? -1 : 0; }

  /// Sets the state before the first query.
  void start() {
    *steps_ = {};
    focus_of_queries_.clear();
    if (gates_.empty()) gates_ = slices(gate_, 2);
    has_focus_ = previous_.defined() || has_first_focus();
    focus_ = previous_.defined() ? unsqueeze(previous_, -1)
                                 : Variable(Tensor::full({1, 1, 1}, first_focus(), gate_.dtype(), gate_.device()));
    if (options_.detach_focus) focus_ = focus_.detach();
  }

  /// Carries the focus [B, H, 1] to the next query.
  void move_to(const Variable& focus) {
    focus_of_queries_.push_back(focus);
    focus_ = options_.detach_focus ? focus.detach() : focus;
    has_focus_ = true;
  }

  const Variable& gate_at(std::int64_t t) const { return gates_[static_cast<std::size_t>(t)]; }

  /// The penalty g_t (s − p)² / (2 sigma²) at positions s, [K] or [B, H, 1, K] → [B, H, 1, K]
  Variable penalty(std::int64_t t, const Variable& positions) const {
    if (!has_focus_) return Tensor::zeros({1}, positions.dtype(), positions.device());
    Variable distance = positions - unsqueeze(focus_, -1);
    return unsqueeze(gate_at(t), -1) * square(distance) * (1 / (2 * options_.sigma * options_.sigma));
  }

  /// The keys that the threshold leaves to step t, [B, H, 1]. Appends them to steps_->windows.
  KeyRange step_window(const AttentionContext& in, std::int64_t t) {
    std::int64_t B = in.query.size(0), H = in.query.size(1);
    std::vector<double> gates = gate_at(t).value().to_vector<double>(),
                        focus = focus_.value().expand({B, H, 1}).to_vector<double>();
    std::vector<std::int64_t> first, end;
    for (std::int64_t b = 0; b < B; ++b)
      for (std::int64_t h = 0; h < H; ++h) {
        auto k = static_cast<std::size_t>(b * H + h);
        double threshold = has_windows_ && has_focus_ ? options_.threshold : std::numeric_limits<double>::infinity();
        FocusWindow window =
            focus_window(focus[k], gates[k], options_.sigma, threshold, at(in.visible.end, b, h, t, in.key.size(2)));
        first.push_back(window.first);
        end.push_back(window.last + 1);
        steps_->windows.push_back(static_cast<double>(window.first));
        steps_->windows.push_back(static_cast<double>(window.last));
      }
    return {Tensor::from(first, {B, H, 1}).to(DType::i32), Tensor::from(end, {B, H, 1}).to(DType::i32)};
  }

  struct NearKeys {
    Tensor index;  ///< keys of the window, padded to the widest window W with any key, i64 [B, H, 1, W]
    Tensor seen;   ///< whether a key is in the window, bool [B, H, 1, W]
  };
  static NearKeys keys_of(const KeyRange& window, const Plan& plan, const AttentionContext& in, std::int64_t t) {
    std::int64_t B = in.query.size(0), H = in.query.size(1), last_key = in.key.size(2) - 1, widest = 1;
    std::vector<std::int64_t> firsts, ends;
    for (std::int64_t b = 0; b < B; ++b)
      for (std::int64_t h = 0; h < H; ++h) {
        std::int64_t first = at(window.first, b, h, 0, 0), end = at(window.end, b, h, 0, 0);
        for (const HeadKeys& range : plan.ranges) {
          const HeadRange heads = resolved(range.heads, H);
          if (h < heads.first || heads.first + heads.count <= h) continue;
          first = std::max(first, at(range.keys.first, b, h - heads.first, t, 0));
          end = std::min(end, at(range.keys.end, b, h - heads.first, t, last_key + 1));
        }
        firsts.push_back(first);
        ends.push_back(end);
        widest = std::max(widest, end - first);
      }
    Tensor index = Tensor::empty({B, H, 1, widest}, DType::i64),
           seen = Tensor::empty({B, H, 1, widest}, DType::boolean);
    auto* key = index.mutable_data<std::int64_t>();
    bool* is_seen = seen.mutable_data<bool>();
    for (std::size_t k = 0; k < firsts.size(); ++k)
      for (std::int64_t w = 0; w < widest; ++w) {
        *key++ = std::min(firsts[k] + w, last_key);
        *is_seen++ = firsts[k] + w < ends[k];
      }
    return {index, seen};
  }

  const void* owner_;
  FlexibleAttention::Options options_;
  bool has_windows_;
  Variable gate_;      // [B, H, I]
  Variable previous_;  // [B, H or 1], or undefined
  std::shared_ptr<Steps> steps_;

  // state of the loop over queries in composed() and skipping()
  std::vector<Variable> gates_;             // gate of each query, [B, H, 1]
  std::vector<Variable> focus_of_queries_;  // focus after each query so far, [B, H, 1]
  Variable focus_;                          // focus before the next query, [B or 1, H or 1, 1]
  bool has_focus_ = false;
};

}  // namespace

void FlexibleAttention::visit(OptionVisitor& visitor, Options& options) {
  visitor.number("sigma", options.sigma, 1e-3, 1e6, "in tokens");
  visitor.number("threshold", options.threshold, 0, std::numeric_limits<double>::infinity(),
                 "tau: at test time only keys with a smaller penalty; inf: all");
  visitor.choice("p_init", options.p_init, {"0", "-1", "nopen"},
                 "focus before the first step; nopen: no penalty there");
  visitor.flag("detach_focus", options.detach_focus, "no gradient through the focus");
  visitor.integer("hidden", options.hidden, 0, 1 << 16,
                  "width of the layer that makes the gate; 0: that of the queries");
}

FlexibleAttention::FlexibleAttention(const MethodShape& shape, const Options& options)
    : options_(options), step_dim_(shape.step_dim) {
  require(shape.place == Place::cross,
          "flexible: a focus on the source is for cross-attention; it is not defined in self-attention");
  std::int64_t a = options.hidden > 0 ? options.hidden : shape.query_dim;
  gate_projection_ = parameter("gate_projection", shape_of_heads(shape, {shape.query_dim + shape.step_dim, a}),
                               Initializer::xavier_uniform());
  gate_vector_ = parameter("gate_vector", shape_of_heads(shape, {a}), vector_initializer(a));
  gate_bias_ = parameter("gate_bias", {shape.heads}, Initializer::zeros());
}

Variable FlexibleAttention::gate(const AttentionContext& in) const {
  Variable state = in.query;
  if (step_dim_ > 0) {
    require(in.step_input.defined() && in.step_input.size(2) == step_dim_,
            "flexible: the step input must have width {}; it is {}", step_dim_, in.step_input);
    Shape shape = in.query.shape();
    shape[3] = step_dim_;
    state = concat({state, broadcast_to(unsqueeze(in.step_input, 1), shape)}, 3);
  }
  Variable number = project_to_number(tanh(project(state, gate_projection_)), gate_vector_);  // [B, H, I]
  return sigmoid(number + unsqueeze(gate_bias_, -1));
}

void FlexibleAttention::add_terms(const AttentionContext& in, Plan& plan) {
  Variable focus = in.previous_focus;
  if (!focus.defined() && in.memory) focus = in.memory->step_state(this);
  require(focus.defined() || in.query_offset == 0,
          "flexible: step {} has no previous focus; set previous_focus or decode with a memory", in.query_offset);
  Variable g = gate(in);
  auto steps = std::make_shared<Steps>();
  plan.recurrence = std::make_shared<FocusRecurrence>(this, options_, !training(), g, focus, steps);
  bool open = options_.p_init == FirstFocus::none && !focus.defined();
  plan.quantity("gate", [g, open] {
    if (!open) return g;
    Tensor zero = Tensor::zeros({g.size(0), g.size(1), 1}, g.dtype(), g.device());
    return concat({zero, slice(g, 2, 1, g.size(2))}, 2);
  });
  plan.quantity("focus", [steps] { return steps->focus; });
  plan.quantity("range", [steps, B = g.size(0), H = g.size(1), I = g.size(2)]() -> Variable {
    return Tensor::from(steps->windows, {I, B, H, 2}).permute({1, 2, 0, 3}).contiguous();
  });
}

FocusWindow focus_window(double focus, double gate, double sigma, double threshold, std::int64_t length) {
  auto last_key = static_cast<double>(length - 1);
  if (length == 0) return {0, -1};
  if (!(gate > 0) || std::isinf(threshold)) return {0, length - 1};
  double radius = sigma * std::sqrt(2 * threshold / gate);
  double first = std::max(0.0, std::floor(focus - radius) + 1);  // the interval is open
  double last = std::min(last_key, std::ceil(focus + radius) - 1);
  if (first > last) first = last = std::clamp(std::floor(focus + 0.5), 0.0, last_key);
  return {static_cast<std::int64_t>(first), static_cast<std::int64_t>(last)};
}

Variable focus_fine_tuning_loss(const Variable& nll, const Variable& gates, const Tensor& lengths, double beta,
                                FocusLoss normalisation) {
  require(nll.rank() == 2 && nll.shape() == gates.shape(), "focus_fine_tuning_loss: nll is {}, gates {}; both [B, T]",
          nll, gates);
  std::int64_t B = nll.size(0), T = nll.size(1);
  Tensor count = lengths.defined() ? lengths.to(nll.dtype()).reshape({B, 1})
                                   : Tensor::full({B, 1}, static_cast<double>(T), nll.dtype(), nll.device());
  Tensor counts = less(Tensor::arange(T, nll.dtype(), nll.device()), count);  // [B, T]
  Variable zero = Tensor::zeros({1}, nll.dtype(), nll.device());
  Variable total = sum(where(counts, nll, zero));
  Variable mean_gates = sum(where(counts, gates, zero), {-1}, true) / maximum(count, zero + 1);
  if (normalisation == FocusLoss::per_sentence) return total - beta * sum(mean_gates);
  return total / sum(count).item() - beta * mean(mean_gates);
}

}  // namespace fovea
