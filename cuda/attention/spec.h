/// The Spec of a call's kernels (pairs.cuh), as data and as text for NVRTC.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "attention/engine/tiles.h"
#include "cuda/attention/call.h"
#include "cuda/attention/layout.h"

namespace fovea::cuda {

/// What is known of a call when its kernels are compiled.
struct SpecOfCall {
  DType number = DType::f32;
  bool rounds = false;  ///< factors of products are bf16
  BlockShape block;
  int logits = 0;  ///< number of captures that the logit reads
  std::vector<Index> indices;
  std::vector<bool> wants;
  std::vector<int> numbers_of_sources;  ///< of each capture of a source, which of their numbers it is (BlockSources)
  std::vector<Side> sides;              ///< of each source; pointers come first
  int pointers = 0;
  bool has_output = true;
  std::size_t always = 0, dilations = 0, masks = 0;  ///< numbers of these parts of the LoweredCall
  bool has_product = false, has_window = false, has_sink = false, has_dropout = false, renormalizes = false,
       has_densities = false, has_relative_values = false, has_hidden = false, has_focus = false, has_rows = false,
       continues = false;
  Kernel kernel = {};
  Expression logit, logit_gradients, weight, weight_gradients;
};

/// A kernel of a call, as it is compiled and launched.
struct KernelOfCall {
  SpecOfCall spec;
  std::string text;               ///< defines the kernel kernel_of_text
  std::vector<double> constants;  ///< the kernel's second argument: those of the four expressions; at least one number
};
inline constexpr const char* kernel_of_text = "attention_kernel";

/// The largest shared memory that a block may have, in bytes: on this process's GPU or, without one, on a GPU for which
/// kernels may be compiled.
int most_shared_bytes();
/// The same for GPUs of this architecture, 10 · major + minor (CUDA C++ Programming Guide, "Compute Capabilities").
int most_shared_bytes(int architecture);

/// The Spec of one of a call's kernels, for blocks with at most so many bytes of shared memory if tiles can be that
/// small.
SpecOfCall spec_of(const TileCall& call, const Kernel& kernel, int most_bytes);
/// The width of queries and keys; 0 if the call has none.
std::int64_t width_of(const LoweredCall& call);
/// The keys that a pointer may point to.
Side side_of(const LoweredSource& source);
/// The kernels of a pass, which make all its results together.
std::vector<Kernel> kernels_of(const TileCall& call, Pass pass);
/// The kernel that makes the gradients of the focus before each query alone.
Kernel kernel_of_focus_gradients();
/// All kernels of a call.
std::vector<Kernel> kernels_of(const TileCall& call);

/// One of a call's kernels. With `spills`, its tiles are halved while that is true of it, if they can be so small. The
/// text is made once for all calls with equal formulas, options and shapes of heads, because that takes longer than to
/// launch it.
std::shared_ptr<const KernelOfCall> kernel_of(const TileCall& call, const Kernel& kernel,
                                              int most_bytes = most_shared_bytes(),
                                              bool (*spills)(const KernelOfCall&) = nullptr);
/// Halves the columns of a kernel's tiles, so that it takes fewer registers. Returns false if it has no more than 16.
bool halve_tiles(KernelOfCall& kernel);

}  // namespace fovea::cuda
