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
#include "nn/row_quantities.h"
#include "tensor/format/safetensors.h"

namespace fovea {

using CaseTensors = std::vector<std::pair<std::string, Tensor>>;

/// The command line of `attend`: which attention to compute, on which tensors, and how.
struct AttentionCase {
  /// bf16: inputs, parameters and cotangent are rounded to bf16, large matrix products round their operands to bf16 (as
  /// in training, gemm.h), and everything else is computed in f32.
  enum class Precision { f32, f64, bf16 };

  std::string method = "global";
  std::vector<int> shape{2, 6, 6, 8};  ///< B, I, J, d of random inputs
  int heads = 1;
  std::optional<Place> place =
      {};  ///< if not given: cross if there are keys that are not the queries, otherwise encoder
  AttentionEngine engine = AttentionEngine::fastest;
  Precision precision = Precision::f32;
  std::string device = "cpu";  ///< cpu, cuda or cuda:N
  bool gradients = false, weights = false;
  bool rows = false;  ///< the row quantities, in place of weights and of the method's quantities
  std::uint64_t seed = 1;

  void add_to(Cli& cli);
  Device compute_device() const { return device_of(device); }
};

/// Computes the attention and returns all tensors in the order of the file --out: inputs, parameters, output, the
/// method's quantities and, with the flags, weights, row quantities and gradients. `given` holds tensors by name, all
/// optional; other names are errors:
///   query [B, I, d_q], key [B, J, d_k], value [B, J, d_v]   default of key: the query; default of value: the key
///   lengths, query_offset, allowed, documents               of AttentionInput, for all methods
///   mask, left_pointer, right_pointer, grid,                of AttentionInput, for methods that read them; those of
///   step_input, previous_focus                              floating-point numbers are differentiable
///   cotangent, of the output's shape                        gradients are those of the sum of output * cotangent
///   parameters, by their names
/// Results of an earlier run are computed anew. Query, cotangent and parameters that are not given are random, drawn
/// with the seed; without query_offset, the last query of a decoder is at the last key. Floating-point tensors are
/// converted to the precision. Throws Error for unknown names, wrong shapes and types.
CaseTensors attend_case(const AttentionCase& options, const Safetensors& given);

/// The row quantities by the names of their tensors.
inline constexpr std::pair<const char*, Tensor RowQuantities::*> row_tensors[] = {
    {"rows.maximum", &RowQuantities::maximum},
    {"rows.key", &RowQuantities::key},
    {"rows.logsumexp", &RowQuantities::logsumexp},
    {"rows.entropy", &RowQuantities::entropy},
    {"rows.key_mass", &RowQuantities::key_mass}};

/// The inputs that every method reads; other optional ones are those of inputs_of().
inline const std::vector<std::string> common_inputs{"query",   "key",       "value",        "lengths",
                                                    "allowed", "documents", "query_offset", "cotangent"};

}  // namespace fovea
