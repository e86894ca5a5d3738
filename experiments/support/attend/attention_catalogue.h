/// Descriptions of attention methods for users. A method's card and options come from the registry; everything else,
/// such as the inputs that it reads and the engines that support it, is found by running the method.
#pragma once
#include <string>
#include <vector>

#include "experiments/support/report/table.h"
#include "nn/attention.h"

namespace fovea {

/// All methods with their options.
std::string attention_catalogue();

/// The names of the optional inputs (mask, left_pointer, right_pointer, grid, step_input, previous_focus) that an
/// attention reads, found by running it with and without each. All names if the attention cannot be run.
std::vector<std::string> inputs_read(const std::string& specification, const AttentionShape& shape);

/// One row for each method and combination: name, what it does, paper, places where it is defined, and engines, with
/// the options that have no fused form.
Table attention_table();

/// A description of a specification: equations, options, places, parameters, inputs and results with their shapes.
/// Sizes in shapes are letters, which are found by comparing attentions of two sizes; where no letter fits, they are
/// the numbers for `shape`. The name of a combination alone stands for a simple example: concat means concat(dot*2).
std::string describe_attention(const std::string& specification, const AttentionShape& shape);

}  // namespace fovea
