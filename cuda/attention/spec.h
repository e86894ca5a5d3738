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
  std::size_t always = 0, dilations = 0, masks = 0;  ///< numbers of these parts of the LoweredCall
  bool has_product = false, has_window = false, has_sink = false, has_dropout = false, renormalizes = false,
       has_densities = false;
  bool makes_keys = false, makes_values = false;  ///< which gradients a key-owned kernel makes
  Expression logit, logit_gradients, weight, weight_gradients;
};

/// The Spec of one of a call's kernels.
SpecOfCall spec_of(const TileCall& call, Pass pass);

/// Whether the gradients of keys and of values are made by two kernels, because registers cannot hold both.
bool splits_key_gradients(const TileCall& call);

/// The text of the kernel, a function that is called attention_kernel.
std::string kernel_text(const SpecOfCall& spec, Pass pass);
inline constexpr const char* kernel_of_text = "attention_kernel";
/// The kernel's second argument: the constants of the four expressions, one after the other; at least one number.
std::vector<double> constants_of(const SpecOfCall& spec);

}  // namespace fovea::cuda
