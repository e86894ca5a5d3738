/// Computes one attention call with one of several engines.
#pragma once
#include <cstdint>

#include "attention/plan.h"
#include "tensor/random.h"

namespace fovea {

/// The ways in which attend() can compute attention. All give the same result.
///
/// composed: plain differentiable operations on matrices of all query-key pairs, in O(I J) memory. Any plan.
///
/// blockwise: the same operations, one block of queries after the other, in O(I + J) memory beside one block's
/// matrices. The backward pass recomputes each block. Any plan.
///
/// fused: all terms are applied to a few queries and keys at a time, in O(I + J) memory: on the CPU to strips that fit
/// the cache, on a GPU to tiles, by kernels that are compiled for the plan. attend() throws Error if a part of the plan
/// has no form for this engine.
///
/// fastest: fused if every part of the plan has a form for it, except for a few keys on the CPU, where composed is
/// faster: at most 16 for plain attention and windows, at most 24 for a single query; and except for second maps with
/// at most four million query-key pairs. If a part has no form for fused: composed or, for more than about four million
/// query-key pairs, blockwise. The first use of the blockwise engine by `fastest` prints a warning.
///
/// Weights that the fused and blockwise engines write to a trace are constants: no gradient flows through them.
enum class AttentionEngine { fastest, fused, blockwise, composed };

/// Thrown by attend() where the fused engine is chosen and a part of the method has no form for it.
class NoFusedForm : public Error {
 public:
  explicit NoFusedForm(const char* part)
      : Error(fmt::format("attention: {} has no form for the fused engine; use the engine fastest or blockwise", part)),
        part(part) {}
  const char* part;  ///< such as "mixing of heads"; a string literal
};

/// The engine of the calling thread: that of its innermost AttentionEngineScope, `fastest` outside of all scopes.
AttentionEngine attention_engine();

/// The number of queries in a block of the blockwise engine, in the calling thread. 0: chosen so that a block has about
/// a million query-key pairs, at least 16 queries.
std::int64_t attention_block_queries();

/// Chooses the engine of the calling thread, and the block size of the blockwise engine, for the lifetime of this
/// object. Other threads are not affected.
class AttentionEngineScope {
 public:
  explicit AttentionEngineScope(AttentionEngine engine, std::int64_t block_queries = 0);
  ~AttentionEngineScope();
  AttentionEngineScope(const AttentionEngineScope&) = delete;
  AttentionEngineScope& operator=(const AttentionEngineScope&) = delete;

 private:
  AttentionEngine engine_before_;
  std::int64_t block_queries_before_;
};

/// While an object of this class lives, the traces of the calling thread also get the parts of the equation (plan.h)
/// for all pairs, as quantities of [B, H, I, J], or [B, H, I, J, D] if each dimension of the values has weights of its
/// own:
///   "scores"         s_ij, unless the trace has them anyway
///   "logits"         z_ij, with a focus also its penalty; −inf where query i does not see key j
///   "bias"           z_ij − s_ij
///   "seen"           1 where query i sees key j, otherwise 0
///   "window_factor"  Π m_t(i, j), if the plan has windows, and each of them is a formula linear in the weight or a
///                    PointerWindow; a Renormalization is not part of it
class TracedEquationScope {
 public:
  TracedEquationScope();
  ~TracedEquationScope();
  TracedEquationScope(const TracedEquationScope&) = delete;
  TracedEquationScope& operator=(const TracedEquationScope&) = delete;
  /// Whether the calling thread is in such a scope.
  static bool is_open();

 private:
  bool before_;
};

/// Computes the output [B, H, I, D_v] of one call with attention_engine(). `dropout` is the probability in [0, 1) with
/// which a weight is set to 0. Fills `trace` unless it is null. Throws Error if the plan does not pass
/// check_plan(), and if the engine `fused` cannot compute it.
Variable attend(const AttentionContext& in, Plan plan, double dropout, AttentionTrace* trace);

/// Dropout of the attention weights. The mask is a function of the weight's index, so that all engines drop the same
/// weights.
struct AttentionDropout {
  double probability = 0;
  RandomPosition at = {};  ///< position of this call in the random stream
  /// If the call has only some heads of an attention: its rows are first_row ≤ r < first_row + rows of the `all_rows` =
  /// H I rows that the attention has for each sentence. 0: the call has all.
  std::int64_t all_rows = 0, first_row = 0, rows = 0;

  /// The mask of weights [..., J], J = `keys`. Random numbers are drawn in groups, and each row starts a new group: an
  /// engine need only draw the groups with keys that the query sees.
  DropoutMask mask(std::int64_t keys) const {
    const DropoutMask whole(probability, at, keys > 1 ? keys : 1);
    return all_rows > 0 ? whole.of_rows(all_rows, first_row, rows) : whole;
  }
};

}  // namespace fovea
