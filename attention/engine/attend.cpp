// attend(): chooses the engine, and replaces the heads of mixers.
#include "attention/engine/attend.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "attention/engine/blocks.h"
#include "attention/engine/blockwise.h"
#include "attention/engine/check_plan.h"
#include "attention/engine/composed.h"
#include "attention/engine/fused.h"
#include "attention/engine/maps_of_weights.h"
#include "attention/engine/row_quantities.h"
#include "attention/engine/seen_keys.h"
#include "attention/engine/tiles.h"
#include "autograd/operations.h"
#include "tensor/support/warning.h"

namespace fovea {

namespace {

thread_local AttentionEngine engine_of_thread = AttentionEngine::fastest;
thread_local std::int64_t block_queries_of_thread = 0;
thread_local bool equation_is_traced = false;

/// `fastest` avoids a matrix of all query-key pairs with more elements than this (16 MiB in f32).
constexpr std::int64_t many_pairs = std::int64_t{1} << 22;

bool is_too_large_composed(const AttentionContext& in) {
  return in.query.size(0) * in.query.size(1) * in.query.size(2) * in.key.size(2) > many_pairs;
}

/// Up to this many keys the composed engine is faster: for a single query, and for methods that consist almost only of
/// matrix products (plain attention and pointer windows). Measured with `benchmark attention --keys N --engine ENGINE`.
constexpr std::int64_t few_of_one_query = 24, few_of_products = 16;

bool is_faster_fused(const AttentionContext& in, const Plan& plan) {
  if (in.query.device() != Device::cpu) return true;  // fewer kernels, and no matrix of all pairs
  if (plan.focus || std::any_of(plan.scores.begin(), plan.scores.end(), [](auto& s) { return !s.is_default; }))
    return true;
  if (!plan.second_maps.empty()) return is_too_large_composed(in);  // a pass for each map is slower, up to a quarter
  auto is_products = [](const PairTerm& term) { return std::holds_alternative<PointerWindow>(term.what); };
  const bool products = plan.score_changes.empty() &&
                        std::all_of(plan.biases.begin(), plan.biases.end(), is_products) &&
                        std::all_of(plan.windows.begin(), plan.windows.end(), is_products) && plan.values.empty();
  return in.key.size(2) > (in.query.size(2) == 1 ? few_of_one_query : products ? few_of_products : 0);
}

void warn_of_blocks(const AttentionContext& in, const char* missing) {
  static std::atomic_flag warned;
  if (warned.test_and_set()) return;
  warn(
      fmt::format("attention: with {} queries and {} keys, the slower blockwise engine is used, because {} has no form "
                  "for the fused engine",
                  in.query.size(2), in.key.size(2), missing));
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

TracedEquationScope::TracedEquationScope() : before_(std::exchange(equation_is_traced, true)) {}
TracedEquationScope::~TracedEquationScope() { equation_is_traced = before_; }
bool TracedEquationScope::is_open() { return equation_is_traced; }

namespace {

/// The output and focus, computed by the engine that attention_engine() selects.
AttentionOutput output_of_engine(const AttentionContext& in, const std::shared_ptr<const Plan>& plan,
                                 const AttentionDropout& dropout, AttentionTrace* trace) {
  const AttentionEngine engine = attention_engine();
  const char* missing = "a part of this method";
  if (engine == AttentionEngine::fused || (engine == AttentionEngine::fastest && is_faster_fused(in, *plan))) {
    FusedOutput made = attend_fused(in, plan, dropout, trace);
    if (made.out.defined()) return made;
    if (engine == AttentionEngine::fused) throw NoFusedForm(made.missing);
    missing = made.missing;
  }
  if (engine == AttentionEngine::blockwise || (engine == AttentionEngine::fastest && is_too_large_composed(in))) {
    if (engine == AttentionEngine::fastest) warn_of_blocks(in, missing);
    return attend_blockwise(in, plan, dropout, trace);
  }
  return attend_composed(in, *plan, dropout, trace);
}

Variable attend_checked(const AttentionContext& in, Plan plan, const AttentionDropout& drop, AttentionTrace* trace);

/// The mixers of a plan on H heads in the order of heads, and for the heads between them parts without a mixer.
std::vector<HeadMixer> parts_in_order(std::vector<HeadMixer> mixers, std::int64_t H) {
  for (HeadMixer& mixer : mixers) mixer.heads = resolved(mixer.heads, H);
  std::sort(mixers.begin(), mixers.end(), [](auto& a, auto& b) { return a.heads.first < b.heads.first; });
  std::vector<HeadMixer> parts;
  std::int64_t next = 0;
  auto fill_up_to = [&](std::int64_t end) {
    if (next < end) parts.push_back({nullptr, {}, {next, end - next}});
  };
  for (HeadMixer& mixer : mixers) {
    fill_up_to(mixer.heads.first);
    next = mixer.heads.first + mixer.heads.count;
    parts.push_back(std::move(mixer));
  }
  fill_up_to(H);
  return parts;
}

/// The output of a plan with mixers: mixers compute their heads, an engine computes the others from the rest of the
/// plan. If a trace is wanted, the engine computes all heads, those of the mixers too, since the quantities of the
/// plan are for heads of the whole call.
Variable attend_with_mixers(const AttentionContext& in, Plan plan, const AttentionDropout& drop,
                            AttentionTrace* trace) {
  const std::int64_t H = in.query.size(1);
  const std::vector<HeadMixer> parts = parts_in_order(std::exchange(plan.mixers, {}), H);
  const bool has_engine = std::any_of(parts.begin(), parts.end(), [](const HeadMixer&part) { return !part.mixer; }),
             traces_rows = trace && trace->rows, traces_weights = trace && !trace->rows;
  Variable all;
  if (trace && has_engine) all = attend_checked(in, plan, drop, trace);
  if (traces_weights && !has_engine) fill_trace(in, plan, {}, {}, *trace);
  std::vector<Variable> outputs, weights;
  std::vector<RowQuantities> rows;
  for (const HeadMixer& part : parts) {
    const HeadRange heads = part.heads;
    const AttentionContext own = context_of_heads(in, heads);
    if (part.mixer) {
      const std::vector<Variable> captured = values_of(part.captures);
      outputs.push_back(checked_result("a PairlessMixer", part.mixer->output(own, captured),
                                       {in.query.size(0), heads.count, in.query.size(2), in.value.size(3)}));
      if (traces_rows) rows.push_back(row_quantities({}, part.mixer->weights(own, captured).value()));
      if (traces_weights) weights.push_back(part.mixer->weights(own, captured));
      continue;
    }
    auto slice_of = [&](const Variable& x) { return slice(x, 1, heads.first, heads.first + heads.count); };
    outputs.push_back(
        trace ? slice_of(all)
              : attend_checked(own, plan_of_heads(plan, heads, H), dropout_of_heads(drop, in, heads), nullptr));
    if (traces_rows) rows.push_back(slice_heads(*trace->rows, heads));
    if (traces_weights) weights.push_back(slice_of(trace->weights));
  }
  if (traces_rows) *trace->rows = heads_side_by_side(rows);
  if (traces_weights) trace->weights = heads_side_by_side(std::move(weights));
  return heads_side_by_side(std::move(outputs));
}

/// attend() of a plan that has passed check_plan().
Variable attend_checked(const AttentionContext& in, Plan plan, const AttentionDropout& drop, AttentionTrace* trace) {
  if (!plan.mixers.empty()) return attend_with_mixers(in, std::move(plan), drop, trace);
  auto shared = std::make_shared<const Plan>(std::move(plan));
  if (CollectedTileCalls* collected = CollectedTileCalls::current())
    collected->of_attend.push_back(tile_calls(in, shared, drop, trace && trace->rows));
  const AttentionOutput made = output_of_engine(in, shared, drop, trace);
  if (shared->focus && in.memory && made.focus.size(2) > 0)
    in.memory->step_state(shared->focus->owner) = select(made.focus, 2, made.focus.size(2) - 1);
  return made.out;
}

}  // namespace

Variable attend(const AttentionContext& in, Plan plan, double dropout, AttentionTrace* trace) {
  check_plan(in, plan);
  AttentionDropout drop{dropout, {}};
  if (dropout > 0) drop.at = RandomScope::next_call("attention: dropout");
  return attend_checked(in, std::move(plan), drop, trace);
}

}  // namespace fovea
