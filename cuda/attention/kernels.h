/// Picks and launches a call's kernels: those that NVRTC compiles for it or, on the host, the C++ compiler's.
#pragma once
#include <functional>

#include "cuda/attention/spec.h"

namespace fovea::cuda {

/// The largest width of queries, keys and values; and the largest number of captures with Index::offset.
std::int64_t widest();
inline constexpr int most_slots = 2;

/// The tiles of a call's kernel.
BlockShape block_of(const Kernel& kernel, const TileCall& call);
/// The shared memory of a block of the call's kernel, in bytes.
int shared_bytes_of(const Kernel& kernel, const TileCall& call);

/// Appends a kernel to the stream; `bytes` is the least that it moves.
template <class T>
void run_kernel(const Kernel& kernel, const TileCall& call, std::int64_t bytes, const AttentionCall<T>& arguments);

/// TileKernels::compile.
extern std::vector<TileKernelReport> (*const compiles_kernels)(const TileCall& call, int architecture);

/// On the host: if it is set, it may run a kernel from its text in place of the C++ compiler's, and returns whether it
/// did. `arguments` is an AttentionCall. For tests.
struct KernelOnHost {
  const KernelOfCall& kernel;
  const void* arguments;
  unsigned blocks;
};
extern std::function<bool(const KernelOnHost&)> runs_text;

/// The number of blocks of a kernel.
template <class T>
unsigned blocks_of(Pass pass, const BlockShape& block, const AttentionCall<T>& call) {
  const bool owns_keys = pass == Pass::key_gradients;
  const int rows = owns_keys ? call.keys : call.queries, step = owns_keys ? block.key_step(block.rows()) : block.rows();
  const int tiles = pass == Pass::query_gradients ? call.parts : (rows + step - 1) / step;
  return static_cast<unsigned>(call.sentences) * static_cast<unsigned>(call.heads) * static_cast<unsigned>(tiles);
}

inline const char* name_of(const Kernel& kernel) {
  if (kernel.pass == Pass::forward) return "attention_forward";
  if (kernel.pass == Pass::query_gradients)
    return kernel.score ? "attention_query_gradients" : "attention_query_source_gradients";
  return kernel.score    ? "attention_key_gradients"
         : kernel.values ? "attention_value_gradients"
                         : "attention_key_source_gradients";
}

}  // namespace fovea::cuda
