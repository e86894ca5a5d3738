/// Computes one attention on given or random tensors, for the program experiments/attend. B sentences, m queries, n
/// keys, H heads.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "attention/engine/attend.h"
#include "attention/method.h"
#include "experiments/support/program/device_flag.h"
#include "tensor/format/safetensors.h"

namespace fovea {

using CaseTensors = std::vector<std::pair<std::string, Tensor>>;

/// The command line of `attend`: which attention to compute, on which tensors, and how.
struct AttentionCase {
  /// bf16: inputs, parameters and cotangent are rounded to bf16, large matrix products round their operands to bf16 (as
  /// in training, gemm.h), and everything else is computed in f32.
  enum class Precision { f32, f64, bf16 };

  std::string method = "global";
  std::vector<int> shape{2, 6, 6, 8};  ///< B, m, n, d of random inputs
  int heads = 1;
  bool causal = false;
  /// If not given: decoder if causal; otherwise encoder if the keys are the queries, and cross if not. decoder requires
  /// causal; encoder and cross exclude it.
  std::optional<Place> place;
  AttentionEngine engine = AttentionEngine::fastest;
  Precision precision = Precision::f32;
  std::string device = "cpu";  ///< cpu, cuda or cuda:N
  bool gradients = false, weights = false;
  std::uint64_t seed = 1;

  void add_to(Cli& cli);
  Device compute_device() const { return device_of(device); }
};

/// All tensors of a run, as they are written to the file --out.
struct AttentionResult {
  CaseTensors tensors;  ///< inputs, parameters, output, quantities and, with the flags, weights and gradients
  std::vector<std::string> unread;  ///< names of given inputs that this attention does not read
  Place place;
};

/// A name that is not in `taken`: `name` itself, or else name_2, name_3, ...
std::string free_name(const std::string& name, const std::vector<std::string>& taken);

/// Computes the attention. `given` holds tensors by name, all optional; other names are errors:
///   query [B, m, d_q], key [B, n, d_k], value [B, n, d_v]   default of key: the query; default of value: the key
///   lengths [B]                                              number of real keys of each sentence; the rest is padding
///   query_offset or step [1]                                 position of the first query
///   allowed [B or 1, H or 1, m or 1, n]                      bool or u8: false where a query must not see a key
///   documents [B, n]                                         number of each token's document, if a row has several
///   mask [B or 1, H or 1, m or 1, n]                         AttentionInput::mask, numbers in [0, 1] or bool
///   left_pointer, right_pointer                              for window(pointers=given): positions [B or 1, H or 1,
///                                                            m or 1], or distributions over the keys [..., n]
///   grid [n, 2] or [B or 1, n, 2]                            row and column of each token
///   step_input [B, m, d_e], previous_focus [B] or [B, H]     inputs of step-by-step decoding
///   cotangent, of the output's shape                         gradients are those of the sum of output * cotangent
///   parameters, by their names
/// Query, cotangent and parameters that are not given are random, drawn with the seed. Floating-point tensors are
/// converted to the precision. Throws Error for unknown names, wrong shapes and types; the message has the names of the
/// file and of the tensor.
AttentionResult attend_case(const AttentionCase& options, const Safetensors& given);

}  // namespace fovea
