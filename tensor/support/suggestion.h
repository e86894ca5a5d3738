/// "did you mean ...?" for misspelt names: flags, methods, keys of a configuration.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace fovea {

/// Returns the end of an error message, "; did you mean 'gaussian'?", with the candidate that a person who typed `name`
/// probably meant. This is the one with the fewest insertions, deletions, replacements and swaps of neighbouring
/// letters (optimal string alignment); upper and lower case count as equal, and so do '-' and '_'. A candidate that
/// `name` abbreviates ("enc-attention" for "encoder-attention") counts as one edit away. Among equally near candidates
/// the first wins. Returns "" if the nearest one is more than one edit away and differs in more than a third of the
/// letters of the longer name, or if no letter agrees.
std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace fovea
