/// Properties that every attention must have, whatever its methods are. The tests check the registry, `attend --check`
/// checks a method of the user's.
///
/// A property is checked on one small attention with random parameters at a time. Its name is the claim.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "nn/attention.h"
#include "tensor/tensor.h"

namespace fovea::properties {

/// The attention on which a property is checked. random_attention() makes it from the specification, for one place in a
/// model; the check may change its parameters.
struct Subject {
  const std::string& specification;
  Place place;
  Attention& attention;
};

struct Property {
  const char* name;  ///< the claim: "padding_changes_nothing"
  /// Returns false if the property says nothing about the subject. Throws Error, with what differs, if the subject does
  /// not have the property. The engine of the thread is fused if it can compute the subject, otherwise composed.
  std::function<bool(const Subject&)> check;
  bool needs_gpu = false;  ///< compares a GPU, or the CPU in its stead, with the CPU
};

/// All properties, the cheapest and most telling first.
const std::vector<Property>& all_properties();

struct Failure {
  std::string specification;
  Place place;
  std::string reason;
};
struct Outcome {
  int checked = 0;  ///< subjects that the property says something about
  std::vector<Failure> failures;
};
/// Checks a property on these specifications in every place where they are defined, or in one place only.
Outcome check(const Property& property, const std::vector<std::string>& specifications, std::optional<Place> only = {});

/// The parameters that change no output in any of the places, or in the only one, with rows of five keys: those that
/// the method forgets to read, and those that matter for longer rows only. Those of the projections around the method
/// are left out, because some methods need no queries and keys.
std::vector<std::string> parameters_without_effect(const std::string& specification, std::optional<Place> only = {});

/// Throws Error, which begins with `what`, unless the two have the same shape and no numbers differ by more than
/// `tolerance`. NaN differs from everything.
void require_near(const Tensor& a, const Tensor& b, double tolerance, const std::string& what);

// The properties of each file.
std::vector<Property> gradient_properties();
std::vector<Property> state_properties();
std::vector<Property> decoding_properties();
std::vector<Property> engine_properties();
std::vector<Property> unseen_properties();

}  // namespace fovea::properties
