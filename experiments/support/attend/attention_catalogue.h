/// The catalogue of attention methods, for those who choose one. What is said of a method comes from the method: its
/// card and options from the registry, everything else from trying.
#pragma once
#include <string>
#include <vector>

#include "experiments/support/report/table.h"
#include "nn/attention.h"

namespace fovea {

/// All methods with their options.
std::string attention_catalogue();

/// Those of mask, step_input and previous_focus that an attention reads: found by trying. All of them where nothing can
/// be tried.
std::vector<std::string> inputs_read(const std::string& specification, const AttentionShape& shape);

/// One row for each method and combination: name, what it does, paper, places, and engines with the options that have
/// no fused form.
Table attention_table();

/// All about a specification: equations, options, where it can be, parameters, what goes in and what comes out. Sizes
/// are letters where two attentions of other sizes agree on them, and those of `shape` otherwise. A name alone of a
/// combination stands for one of its simplest: concat(dot*2).
std::string describe_attention(const std::string& specification, const AttentionShape& shape);

}  // namespace fovea
