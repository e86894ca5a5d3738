/// The attentions of a trained model on one sentence, as numbers and words: what analyses and pages are made from.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "nn/attention.h"

namespace fovea {

/// One quantity of an attention: "weights", a part of the equation (TracedEquationScope), or what the method computes
/// on the way, such as "center".
struct ViewedQuantity {
  std::string name;
  std::int64_t heads = 0;       ///< of `values`: all from first_head to last_head, or 1, which stands for all of them
  bool of_pairs = false;        ///< whether it has a number for each key
  std::vector<double> values;   ///< [heads, I, J] of pairs, otherwise [heads, I]
  std::int64_t first_head = 1;  ///< of those on which its method acts, counted from 1
  std::int64_t last_head = 1;

  bool is_of(std::int64_t head) const { return first_head <= head && head <= last_head; }
  /// Whether this is its name, also if it belongs to one mechanism of several ("head_2.center").
  bool is_named(const std::string& wanted) const { return name == wanted || name.ends_with("." + wanted); }
};

struct AttentionView {
  Place place = Place::encoder;
  int layer = 1;            ///< from 1
  int number = 1;           ///< 1 for the first attention at this place in the layer, 2 for the second
  std::string method = {};  ///< the specification
  std::vector<std::string> queries = {}, keys = {};  ///< tokens
  std::vector<ViewedQuantity> quantities = {};       ///< the weights first

  /// The quantity of this name that the head, counted from 1, has; 0: the first of this name. Null: there is none.
  const ViewedQuantity* find(const std::string& name, std::int64_t head = 0) const;
  /// Like find(), but if other heads have it, the first, and if none has, throws Error and lists the known names.
  const ViewedQuantity& at(const std::string& name, std::int64_t head = 0) const;
  /// One of the quantity's heads, [I, J] or [I]; 0: their mean. Throws Error for a head that does not have it.
  std::vector<double> head(const ViewedQuantity& quantity, std::int64_t head) const;
  /// "encoder, layer 1", and the method if the layer has several.
  std::string title() const;
};

/// The view of a trace of one sentence, which has as many tokens as there are queries and keys. Weights per value
/// dimension (fine_grained) are averaged over the dimensions.
AttentionView view_of(const AttentionTrace& trace, Place place, std::vector<std::string> queries,
                      std::vector<std::string> keys);

const char* name_of(Place place);
/// "head 2"; for 0: "mean of heads".
std::string head_name(std::int64_t head);

}  // namespace fovea
