/// Picks and launches a call's kernels: those that NVRTC compiles for it or, on the host, the C++ compiler's.
#pragma once
#include "cuda/attention/spec.h"
#include "cuda/compiled.h"
#include "cuda/grid.h"

namespace fovea::cuda {

/// The largest width of queries, keys and values; and the largest number of captures with Index::offset.
std::int64_t widest();
inline constexpr int most_slots = 2;

/// The tiles of a call's kernel. On a GPU they are known when the kernel is compiled, which this does if need be.
BlockShape block_of(const Kernel& kernel, const TileCall& call);
/// The most shared memory that a block of the call's kernel has, in bytes. Nothing is compiled.
int shared_bytes_of(const Kernel& kernel, const TileCall& call);

/// Appends a kernel to the stream; `bytes` is the least that it moves.
template <class T>
void run_kernel(const Kernel& kernel, const TileCall& call, std::int64_t bytes, const AttentionCall<T>& arguments);

/// TileKernels::compile.
extern std::vector<TileKernelReport> (*const compiles_kernels)(const TileCall& call, int architecture);

/// The number of blocks of a kernel.
template <class T>
unsigned blocks_of(Pass pass, const BlockShape& block, const AttentionCall<T>& call) {
  const bool owns_keys = pass == Pass::key_gradients;
  const int rows = owns_keys ? call.keys : call.queries, step = owns_keys ? block.key_step(block.rows()) : block.rows();
  const int tiles = pass == Pass::focus ? 1 : pass == Pass::query_gradients ? call.parts : (rows + step - 1) / step;
  return static_cast<unsigned>(call.sentences) * static_cast<unsigned>(call.heads) * static_cast<unsigned>(tiles);
}

inline const char* name_of(const Kernel& kernel) {
  if (kernel.pass == Pass::focus) return "attention_focus";
  if (kernel.pass == Pass::forward) return "attention_forward";
  if (kernel.focus) return "attention_focus_gradients";
  if (kernel.pass == Pass::query_gradients)
    return kernel.score ? "attention_query_gradients" : "attention_query_source_gradients";
  return kernel.score    ? "attention_key_gradients"
         : kernel.values ? "attention_value_gradients"
                         : "attention_key_source_gradients";
}

/// Calls launch_compiled() for a kernel's text, and returns what it returns.
template <class T>
bool launch_text(const Kernel& one, const KernelOfCall& kernel, std::int64_t bytes, const AttentionCall<T>& call) {
  const BlockShape& block = kernel.spec.block;
  const std::vector<T> constants(kernel.constants.begin(), kernel.constants.end());
  const Grid grid{blocks_of(one.pass, block, call), static_cast<unsigned>(32 * block.warps),
                  static_cast<std::size_t>(shared_bytes(one.pass, block))};
  return launch_compiled(
      {name_of(one), bytes, kernel.text, kernel_of_text, grid, {argument(call), argument(constants)}});
}

}  // namespace fovea::cuda
