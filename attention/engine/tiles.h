/// The fused engine on a GPU: kernels that are compiled for a plan compute attention tile by tile, without a matrix of
/// all query-key pairs. The kernels are in cuda/attention/; here is their interface.
#pragma once
#include <string>
#include <vector>

#include "attention/engine/attend.h"
#include "attention/engine/fused.h"
#include "attention/engine/lowered.h"
#include "tensor/gemm.h"

namespace fovea {

/// The input of the kernels.
struct TileCall {
  LoweredCall lowered;
  AttentionDropout dropout;
  Precision products = Precision::f32;  ///< bf16: the factors of products are rounded
  std::vector<bool> wants;              ///< for each of lowered.captures(), whether its gradient may be needed
  bool records = false;                 ///< whether the backward pass may follow
  bool only_totals = false;             ///< the forward pass makes the maximum and total of each query, and no output
  bool traces_rows = false;             ///< the forward pass makes row quantities
};

/// The focus of a call with LoweredCall::focus.
struct FocusOfTiles {
  Tensor before, after;  ///< p before and after each query, [B, H, I]
  Tensor slope;          ///< dp_i / dp_{i−1} [B, H, I], if the call records and gradients flow through the focus
  KeyRange near;         ///< with a threshold, the visible keys near the focus
};

/// The result of the forward pass, with the tensors that the backward pass reads.
struct TileResult {
  Tensor out;               ///< [B, H, I, D]
  Tensor maximum, inverse;  ///< [B, H, I]: the largest logit, and 1 / Σ_j exp(z_ij − maximum)
  Tensor weight = {};       ///< with LoweredCall::renormalizes, the sum of the weights before, [B, H, I]
  Tensor tiles = {};        ///< which tiles of pairs are seen; undefined: all
  std::vector<Tensor> source_queries = {};  ///< the queries of each source, with the factors of their logits
  std::vector<TileResult> pointers =
      {};  ///< the softmax of each pointer of a window; `out` is the mean key, if gradients are recorded
  FocusOfTiles focus = {};
  Tensor offset_weights = {};  ///< with relative values, the weights summed by distance, [B, H, I, 2 clip + 1]
  RowQuantities rows = {};     ///< where the call traces them
};

/// Gradients, each in a shape that broadcasts from that of its variable.
struct TileGradients {
  Tensor queries, keys, values, sink;
  Tensor hidden_weight;
  std::vector<Tensor> source_queries, source_keys;
  Tensor extra_queries, extra_keys, extra_values;
  Tensor relative;               ///< of the table
  Tensor previous_focus;         ///< of FocusedSoftmax::previous, [B, H]
  std::vector<Tensor> captures;  ///< undefined where the call does not want one
};

/// The size of one of a call's kernels, as the compiler reports it.
struct TileKernelReport {
  std::string kernel;         ///< such as "attention_forward"
  int rows = 0, columns = 0;  ///< of the pairs that a block computes at a time
  int registers = 0, spilled_bytes = 0, shared_bytes = 0;
  double seconds = 0;  ///< of compilation
  std::string code;    ///< machine code (cubin)
};

/// The kernels of a device.
struct TileKernels {
  /// A part of the call for which there is no kernel, a string literal; null if there is none.
  const char* (*missing)(const TileCall& call);
  TileResult (*forward)(const TileCall& call);
  /// The gradient of the focus is undefined where it is 0.
  TileGradients (*backward)(const TileCall& call, const TileResult& result, const Tensor& out_gradient,
                            const Tensor& focus_gradient);
  /// Compiles the call's kernels for GPUs of this architecture, 10 · major + minor, of which none is needed. Null where
  /// the kernels are not compiled while the program runs.
  std::vector<TileKernelReport> (*compile)(const TileCall& call, int architecture);
};
/// The GPU's kernels, all null where CUDA was not built. The CUDA backend fills this in.
TileKernels& attention_kernels();

/// The calls that attention with this plan makes, one for each group of heads with equal terms.
struct TileCalls {
  std::vector<TileCall> calls;
  const char* missing = nullptr;  ///< the part of the plan that has no such form; `calls` is empty then
};
TileCalls tile_calls(const AttentionContext& in, const std::shared_ptr<const Plan>& plan,
                     const AttentionDropout& dropout, bool traces_rows);

/// Collects the calls of attend() on this thread, for as long as the object lives: to look at the kernels that a method
/// would have on a GPU. The tensors may be on the CPU.
class CollectedTileCalls {
 public:
  CollectedTileCalls();
  ~CollectedTileCalls();
  CollectedTileCalls(const CollectedTileCalls&) = delete;
  CollectedTileCalls& operator=(const CollectedTileCalls&) = delete;
  /// The innermost object of this thread; null if there is none.
  static CollectedTileCalls* current();

  std::vector<TileCalls> of_attend;  ///< one for each call of attend() that mixers do not replace

 private:
  CollectedTileCalls* before_;
};

/// attend_fused() of a call whose tensors are on the GPU.
FusedOutput attend_on_tiles(const AttentionContext& in, const std::shared_ptr<const Plan>& plan,
                            const AttentionDropout& dropout, AttentionTrace* trace);

}  // namespace fovea
