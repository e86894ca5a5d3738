/// The Spec of a call's kernels (pairs.cuh), as data and as text for NVRTC.
#pragma once
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
  bool has_product = false, has_window = false, has_sink = false, has_dropout = false, renormalizes = false,
       has_densities = false;
  Expression logit, logit_gradients, weight, weight_gradients;
};

/// The Spec of one of a call's kernels.
SpecOfCall spec_of(const TileCall& call, Pass pass);

/// The text of the kernel, a function that is called attention_kernel.
std::string kernel_text(const SpecOfCall& spec, Pass pass);
inline constexpr const char* kernel_of_text = "attention_kernel";
/// The kernel's second argument: the constants of the four expressions, one after the other; at least one number.
std::vector<double> constants_of(const SpecOfCall& spec);

}  // namespace fovea::cuda
