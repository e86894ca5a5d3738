// The choice of an engine.
#include "attention/engine/attend.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "attention/engine/blockwise.h"
#include "attention/engine/composed.h"
#include "attention/engine/fused.h"
#include "autograd/operations.h"
#include "tensor/support/warning.h"

namespace fovea {

namespace {

thread_local AttentionEngine engine_of_thread = AttentionEngine::fastest;
thread_local std::int64_t block_queries_of_thread = 0;

/// Up to this many keys the composed engine is faster: for a single query, and for methods that do little but matrix
/// products (plain attention and windows). Measured by `benchmark attention --small`.
constexpr std::int64_t few_of_one_query = 24, few_of_products = 16;

bool is_faster_composed(const AttentionContext& in, const Plan& plan) {
  if (plan.focus || std::any_of(plan.scores.begin(), plan.scores.end(), [](auto& s) { return !s.is_default; }))
    return false;
  auto is_products = [](const PairTerm& term) { return std::holds_alternative<PointerWindow>(term.what); };
  const bool products = plan.score_changes.empty() &&
                        std::all_of(plan.biases.begin(), plan.biases.end(), is_products) &&
                        std::all_of(plan.windows.begin(), plan.windows.end(), is_products) && plan.values.empty();
  return in.key.size(2) <= (in.query.size(2) == 1 ? few_of_one_query : products ? few_of_products : 0);
}

/// From so many elements on, a matrix of all pairs (16 MiB in f32) is not made where it can be avoided.
constexpr std::int64_t many_pairs = std::int64_t{1} << 22;

bool is_too_large_composed(const AttentionContext& in) {
  return in.query.size(0) * in.query.size(1) * in.query.size(2) * in.key.size(2) > many_pairs;
}

void warn_of_blocks(const AttentionContext& in) {
  static std::atomic_flag said;
  if (said.test_and_set()) return;
  warn(
      fmt::format("attention: {} queries and {} keys: a part of this method has no fused form on {}, so that blocks of "
                  "queries are computed one after the other (engine blockwise)",
                  in.query.size(2), in.key.size(2), name(in.query.device())));
}

}  // namespace

AttentionEngine attention_engine() { return engine_of_thread; }
std::int64_t attention_block_queries() { return block_queries_of_thread; }

AttentionEngineScope::AttentionEngineScope(AttentionEngine engine, std::int64_t block_queries)
    : engine_before_(std::exchange(engine_of_thread, engine)),
      block_queries_before_(std::exchange(block_queries_of_thread, block_queries)) {}

AttentionEngineScope::~AttentionEngineScope() {
  engine_of_thread = engine_before_;
  block_queries_of_thread = block_queries_before_;
}

namespace {

/// The output of the engine that attention_engine() asks for.
AttentionOutput output_of_engine(const AttentionContext& in, const std::shared_ptr<const Plan>& plan,
                                 const AttentionDropout& dropout, AttentionTrace* trace) {
  const AttentionEngine engine = attention_engine();
  if (engine == AttentionEngine::fused || (engine == AttentionEngine::fastest && !is_faster_composed(in, *plan))) {
    AttentionOutput made = attend_fused(in, plan, dropout, trace);
    if (made.out.defined()) return made;
    require(engine != AttentionEngine::fused,
            "attention: a term of this method has no form for the fused engine on {}; use the blockwise engine",
            name(in.query.device()));
  }
  if (engine == AttentionEngine::blockwise || (engine == AttentionEngine::fastest && is_too_large_composed(in))) {
    if (engine == AttentionEngine::fastest) warn_of_blocks(in);
    return attend_blockwise(in, plan, dropout, trace);
  }
  return attend_composed(in, *plan, dropout, trace);
}

/// x [B, H, ...] with the heads of each mixer, which are in order, replaced by `made`. x may be undefined if mixers
/// have all heads.
Variable with_mixed_heads(const Variable& x, const std::vector<HeadMixer>& mixers, const std::vector<Variable>& made) {
  std::vector<Variable> pieces;
  std::int64_t next = 0;
  auto fill_up_to = [&](std::int64_t end) {
    if (next < end) pieces.push_back(slice(x, 1, next, end));
  };
  for (std::size_t k = 0; k < mixers.size(); ++k) {
    fill_up_to(mixers[k].heads.first);
    pieces.push_back(made[k]);
    next = mixers[k].heads.first + mixers[k].heads.count;
  }
  if (x.defined()) fill_up_to(x.size(1));
  return pieces.size() == 1 ? pieces[0] : concat(pieces, 1);
}

/// The output of a plan with mixers, which replace the rest of the plan on their heads.
Variable attend_with_mixers(const AttentionContext& in, Plan plan, double dropout, AttentionTrace* trace) {
  const std::int64_t H = in.query.size(1);
  std::vector<HeadMixer> mixers = std::exchange(plan.mixers, {});
  std::int64_t mixed = 0;
  for (HeadMixer& part : mixers) mixed += (part.heads = resolved(part.heads, H)).count;
  std::sort(mixers.begin(), mixers.end(), [](auto& a, auto& b) { return a.heads.first < b.heads.first; });
  Variable others;
  if (mixed < H)
    others = attend(in, plan, dropout, trace);
  else if (trace)
    fill_trace(in, plan, {}, {}, *trace);
  std::vector<Variable> outputs, weights;
  for (const HeadMixer& part : mixers) {
    const AttentionContext own = context_of_heads(in, part.heads);
    std::vector<Variable> captured;
    for (const Capture& capture : part.captures) captured.push_back(capture.value);
    outputs.push_back(part.mixer->output(own, captured));
    if (!trace) continue;
    Variable w = part.mixer->weights(own, captured);
    if (trace->weights.defined() && trace->weights.rank() == 5) {  // other heads have weights per dimension
      Shape shape = w.shape();
      shape.push_back(trace->weights.size(4));
      w = broadcast_to(unsqueeze(w, -1), shape);
    }
    weights.push_back(w);
  }
  if (trace) trace->weights = with_mixed_heads(trace->weights, mixers, weights);
  return with_mixed_heads(others, mixers, outputs);
}

}  // namespace

Variable attend(const AttentionContext& in, Plan plan, double dropout, AttentionTrace* trace) {
  if (!plan.mixers.empty()) return attend_with_mixers(in, std::move(plan), dropout, trace);
  AttentionDropout drop{dropout, {}};
  if (dropout > 0) drop.at = RandomScope::next_call("attention: dropout");
  auto shared = std::make_shared<const Plan>(std::move(plan));
  const AttentionOutput made = output_of_engine(in, shared, drop, trace);
  if (shared->focus && in.memory)
    in.memory->step_state(shared->focus->owner) = select(made.focus, 2, made.focus.size(2) - 1);
  return made.out;
}

}  // namespace fovea
