#include "experiments/support/report/attention_view.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "autograd/operations.h"
#include "experiments/support/text/words.h"

namespace fovea {

namespace {

/// The first `sizes` of the tensor, which broadcasts to them; empty if it does not.
std::vector<double> broadcast_values(Tensor values, const std::vector<std::int64_t>& sizes) {
  if (values.rank() != int(sizes.size())) return {};
  for (int d = 0; d < values.rank(); ++d) {
    const std::int64_t wanted = sizes[std::size_t(d)];
    if (values.size(d) > wanted && wanted > 0) values = values.slice(d, 0, wanted);
    if (values.size(d) != 1 && values.size(d) != wanted) return {};
  }
  return values.expand(Shape(sizes)).to_vector<double>();
}

/// Adds the quantity if it has a number for each query and key, or for each query, of each of its heads or of all.
void add_quantity(AttentionView& view, const TracedQuantity& traced) {
  const std::string& name = traced.name;
  Tensor values = traced.value.value();
  if (values.rank() == 1 && values.size(0) == traced.heads) values = values.unsqueeze(1);  // [heads]
  while (values.rank() < 3) values = values.unsqueeze(0);
  if (values.rank() == 5) values = mean(Variable(values), {4}).value();
  const auto I = std::int64_t(view.queries.size()), J = std::int64_t(view.keys.size());
  const std::int64_t heads = values.size(1), first = traced.first_head + 1;
  if (values.rank() == 4 && values.size(3) == 2 && name.ends_with("range")) {  // first and last key of a window
    const std::string before = name.substr(0, name.size() - 5);
    add_quantity(view, {before + "first_key", values.select(3, 0), traced.first_head, traced.heads});
    add_quantity(view, {before + "last_key", values.select(3, 1), traced.first_head, traced.heads});
    return;
  }
  if (heads != 1 && heads != traced.heads) return;  // a method's own dimension, which is not that of heads
  const bool of_pairs = values.rank() == 4;
  std::vector<std::int64_t> sizes{1, heads, I};
  if (of_pairs) sizes.push_back(J);
  std::vector<double> numbers = broadcast_values(values, sizes);
  if (numbers.empty()) return;
  view.quantities.push_back({name, heads, of_pairs, std::move(numbers), first, first + traced.heads - 1});
}

/// Quantities of one name that together belong to all heads become one: those of several methods, or of the mechanisms
/// of a combination ("head_1.scores", "head_2.scores", ...).
void join_heads(AttentionView& view) {
  std::map<std::string, std::vector<ViewedQuantity*>> by_name;
  for (ViewedQuantity& part : view.quantities) {
    const std::size_t dot = part.name.starts_with("head_") ? part.name.find('.') : std::string::npos;
    by_name[dot == std::string::npos ? part.name : part.name.substr(dot + 1)].push_back(&part);
  }
  std::vector<ViewedQuantity> joined;
  for (auto& [name, parts] : by_name) {
    if (parts.size() == 1 && parts.front()->name == name) continue;
    std::ranges::sort(parts, {}, &ViewedQuantity::first_head);
    ViewedQuantity all{name, 0, parts.front()->of_pairs, {}};
    bool fit = true;  // each part begins where the one before it ends
    for (const ViewedQuantity* part : parts) {
      fit = fit && part->first_head == all.heads + 1 && part->of_pairs == all.of_pairs;
      const std::int64_t heads = part->last_head - part->first_head + 1;
      for (std::int64_t copy = 0; copy < heads / part->heads; ++copy)  // numbers that are the same for all its heads
        all.values.insert(all.values.end(), part->values.begin(), part->values.end());
      all.heads += heads;
    }
    all.last_head = all.heads;
    if (!fit || all.heads != view.quantities.front().heads) continue;
    for (ViewedQuantity* part : parts) part->name.clear();
    joined.push_back(std::move(all));
  }
  std::erase_if(view.quantities, [](const ViewedQuantity& part) { return part.name.empty(); });
  view.quantities.insert(view.quantities.end(), joined.begin(), joined.end());
}

/// Adds the softmax of the scores over the keys that a query sees: the weights without all else that the method does.
void add_plain_weights(AttentionView& view) {
  const ViewedQuantity *scores = view.find("scores"), *seen = view.find("seen");
  if (!scores || !seen || !scores->of_pairs) return;
  ViewedQuantity plain = *scores;
  plain.name = "plain_weights";
  const auto J = std::ptrdiff_t(view.keys.size());
  for (auto row = plain.values.begin(); row < plain.values.end(); row += J) {
    const auto see = seen->values.begin() + (row - plain.values.begin()) % std::ssize(seen->values);
    double largest = -HUGE_VAL, sum = 0;
    for (std::ptrdiff_t j = 0; j < J; ++j)
      if (see[j] > 0) largest = std::max(largest, row[j]);
    for (std::ptrdiff_t j = 0; j < J; ++j) sum += row[j] = see[j] > 0 ? std::exp(row[j] - largest) : 0;
    for (std::ptrdiff_t j = 0; j < J; ++j) row[j] /= sum;
  }
  view.quantities.push_back(std::move(plain));
}

}  // namespace

const char* name_of(Place place) {
  return place == Place::encoder ? "encoder" : place == Place::decoder ? "decoder" : "cross";
}

std::string head_name(std::int64_t head) { return head == 0 ? "mean of heads" : fmt::format("head {}", head); }

const ViewedQuantity* AttentionView::find(const std::string& name, std::int64_t head) const {
  for (const ViewedQuantity& quantity : quantities)
    if (quantity.is_named(name) && (head == 0 || quantity.is_of(head))) return &quantity;
  return nullptr;
}

const ViewedQuantity& AttentionView::at(const std::string& name, std::int64_t head) const {
  if (const ViewedQuantity* found = find(name, head)) return *found;
  if (const ViewedQuantity* found = find(name)) return *found;
  std::string names;
  for (const ViewedQuantity& quantity : quantities) names += (names.empty() ? "" : ", ") + quantity.name;
  fail("{}: its attention, {}, has no '{}'; it has {}", title(), method, name, names);
}

std::vector<double> AttentionView::head(const ViewedQuantity& quantity, std::int64_t head) const {
  const std::size_t size = quantity.values.size() / std::size_t(quantity.heads);
  const auto begin = [&](std::int64_t h) { return quantity.values.begin() + h * std::ptrdiff_t(size); };
  const std::int64_t heads = quantities.front().heads;  // of the weights
  require(head <= heads, "--head {}: {} has {}", head, title(), counted(std::size_t(heads), "head"));
  require(head == 0 || quantity.is_of(head), "--head {}: the first head that has '{}' is {}, the last {}, of {}", head,
          quantity.name, quantity.first_head, quantity.last_head, heads);
  if (quantity.heads == 1) return quantity.values;
  if (head > 0) return {begin(head - quantity.first_head), begin(head - quantity.first_head + 1)};
  std::vector<double> mean(size, 0);
  for (std::int64_t h = 0; h < quantity.heads; ++h)
    for (std::size_t i = 0; i < size; ++i) mean[i] += begin(h)[std::ptrdiff_t(i)] / double(quantity.heads);
  return mean;
}

std::string AttentionView::title() const {
  return fmt::format("{}, layer {}{}", name_of(place), layer, number > 1 ? fmt::format(", attention {}", number) : "");
}

AttentionView view_of(const AttentionTrace& trace, Place place, std::vector<std::string> queries,
                      std::vector<std::string> keys) {
  AttentionView view{.place = place, .queries = std::move(queries), .keys = std::move(keys)};
  view.layer = leading_number<int>(trace.name).value_or(0) + 1;  // "2.cross"; a recurrent model has one attention
  if (const std::size_t number = trace.name.rfind('_'); number != std::string::npos)
    view.number = leading_number<int>(trace.name.substr(number + 1)).value_or(1);  // "2.attention_2"
  add_quantity(view, {"weights", trace.weights, 0, trace.weights.size(1)});
  for (const TracedQuantity& quantity : trace.quantities) add_quantity(view, quantity);
  join_heads(view);
  add_plain_weights(view);
  return view;
}

}  // namespace fovea
