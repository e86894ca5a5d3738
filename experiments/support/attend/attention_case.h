/// One attention on given tensors: what experiments/attend computes. B sentences, m queries, n keys, H heads.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "attention/engine/attend.h"
#include "attention/method.h"
#include "experiments/support/program/cli.h"
#include "tensor/format/safetensors.h"

namespace fovea {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

struct AttentionCase {
  /// bf16: inputs, parameters and cotangent are rounded to bf16, products are as training's with that precision
  /// (gemm.h), and the rest is in f32.
  enum class Precision { f32, f64, bf16 };

  std::string method = "global";
  std::vector<int> shape{2, 6, 6, 8};  ///< B, m, n, d of random inputs
  int heads = 1;
  bool causal = false;
  /// Not given: decoder if causal, encoder if the keys are the queries, cross otherwise. decoder must be causal,
  /// encoder and cross must not be.
  std::optional<Place> place;
  AttentionEngine engine = AttentionEngine::fastest;
  Precision precision = Precision::f32;
  Device device = Device::cpu;
  bool gradients = false, weights = false;
  std::uint64_t seed = 1;

  void add_to(Cli& cli);
};

/// Every input and parameter that was used, by name, what the attention gave, and the gradients, if asked for.
struct AttentionResult {
  NamedTensors tensors;
  std::vector<std::string> unread;  ///< inputs that were given and change nothing
  Place place;
};

/// The name under which a quantity is written: its own, or "mask_2" where "mask" is taken, by an input or by a quantity
/// before.
std::string free_name(const std::string& name, const std::vector<std::string>& taken);

/// `given` may have, and nothing else:
///   query [B, m, d_q], key [B, n, d_k], value [B, n, d_v]   no key: that of self-attention; no value: the keys
///   lengths [B]                                              real keys of each sentence
///   query_offset or step [1]                                 position of the first query
///   allowed [B or 1, H or 1, m or 1, n]                      bool or u8: false where a query must not see a key
///   documents [B, n]                                         the number of each token's document, several in one row
///   mask [B or 1, H or 1, m or 1, n]                         numbers or bool
///   left_pointer, right_pointer                              of window(pointers=given): positions [B or 1, H or 1, m
///   or
///                                                            1], or distributions over the keys [..., n]
///   grid [n, 2] or [B or 1, n, 2]                            row and column of each token
///   step_input [B, m, d_e], previous_focus [B] or [B, H]     of decoders that go step by step
///   cotangent, like the output                               of the gradients
///   and parameters under their names
/// What is not there is random, by the seed (query, cotangent, parameters), or does without. The numbers are cast to
/// the precision. Throws Error for whatever is wrong, with the file's name and the tensor's.
AttentionResult attend_case(const AttentionCase& options, const Safetensors& given);

}  // namespace fovea
