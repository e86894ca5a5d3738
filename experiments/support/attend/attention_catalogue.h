/// Descriptions of attention methods for users. Cards, options and the inputs that a method reads come from the
/// registry; places, engines and the shapes of parameters and results are found by computing the method.
#pragma once
#include <string>

#include "experiments/support/report/table.h"
#include "nn/attention.h"

namespace fovea {

/// All methods with their options.
std::string attention_catalogue();

/// One row for each method and combination: name, what it does, paper, places where it is defined, and whether the
/// fused engine computes it with its usual options.
Table attention_table();

/// A description of a specification: equations, options, places, engines, inputs, and the parameters and results of a
/// call with this width and number of heads. The name of a combination alone stands for a simple example: concat means
/// concat(dot*2).
std::string describe_attention(const std::string& specification, const AttentionShape& shape);

}  // namespace fovea
