/// "did you mean ...?" for misspelt names: flags, methods, keys of a configuration.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fovea {

/// The candidate that a person who typed `name` probably meant: fewest insertions, deletions, replacements and swaps of
/// neighbouring letters (optimal string alignment; case, '-' and '_' cost nothing), or the one that `name` abbreviates
/// ("enc-attention" for "encoder-attention"). Nothing if even the nearest differs in more than a third of its letters.
/// Among candidates that are equally near, the first one is returned.
std::optional<std::string> nearest_name(std::string_view name, const std::vector<std::string>& candidates);

/// The end of an error message: "; did you mean 'gaussian'?", or "" if no candidate is near.
std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace fovea
