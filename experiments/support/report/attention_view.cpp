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

/// Adds the quantity if it has a number for each query and key, or for each query.
void add_quantity(AttentionView& view, const std::string& name, Tensor values) {
  while (values.rank() < 3) values = values.unsqueeze(0);
  if (values.rank() == 5) values = mean(Variable(values), {4}).value();
  const auto I = std::int64_t(view.queries.size()), J = std::int64_t(view.keys.size());
  const std::int64_t heads = values.size(1);
  if (values.rank() == 4 && values.size(3) == 2 && name.ends_with("range")) {  // first and last key of a window
    const std::string before = name.substr(0, name.size() - 5);
    add_quantity(view, before + "first_key", values.select(3, 0));
    add_quantity(view, before + "last_key", values.select(3, 1));
    return;
  }
  const bool of_pairs = values.rank() == 4;
  std::vector<std::int64_t> sizes{1, heads, I};
  if (of_pairs) sizes.push_back(J);
  std::vector<double> numbers = broadcast_values(values, sizes);
  if (!numbers.empty()) view.quantities.push_back({name, heads, of_pairs, std::move(numbers)});
}

/// In a combination of mechanisms, "head_1.scores", "head_2.scores", ... become one quantity "scores" of all heads.
void join_mechanisms(AttentionView& view) {
  std::map<std::string, ViewedQuantity> joined;
  for (const ViewedQuantity& part : view.quantities) {
    const std::size_t dot = part.name.find('.');
    if (!part.name.starts_with("head_") || dot == std::string::npos) continue;
    ViewedQuantity& all = joined[part.name.substr(dot + 1)];
    all.of_pairs = part.of_pairs;
    all.heads += part.heads;
    all.values.insert(all.values.end(), part.values.begin(), part.values.end());
  }
  for (auto& [name, all] : joined) {
    if (all.heads != view.quantities.front().heads) continue;  // not all mechanisms have it
    std::erase_if(view.quantities, [&, suffix = "." + name](const auto& part) { return part.name.ends_with(suffix); });
    all.name = name;
    view.quantities.push_back(std::move(all));
  }
}

/// Adds the softmax of the scores over the keys that a query sees: the weights without all else that the method does.
void add_plain_weights(AttentionView& view) {
  const ViewedQuantity *scores = view.find("scores"), *seen = view.find("seen");
  if (!scores || !seen || !scores->of_pairs) return;
  ViewedQuantity plain{"plain_weights", scores->heads, true, scores->values};
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

const ViewedQuantity* AttentionView::find(const std::string& name) const {
  for (const ViewedQuantity& quantity : quantities)
    if (quantity.name == name || quantity.name.ends_with("." + name)) return &quantity;
  return nullptr;
}

const ViewedQuantity& AttentionView::at(const std::string& name) const {
  if (const ViewedQuantity* found = find(name)) return *found;
  std::string names;
  for (const ViewedQuantity& quantity : quantities) names += (names.empty() ? "" : ", ") + quantity.name;
  fail("{}: its attention, {}, has no '{}'; it has {}", title(), method, name, names);
}

std::vector<double> AttentionView::head(const ViewedQuantity& quantity, std::int64_t head) const {
  const std::size_t size = quantity.values.size() / std::size_t(quantity.heads);
  const auto begin = [&](std::int64_t h) { return quantity.values.begin() + h * std::ptrdiff_t(size); };
  const std::int64_t heads = quantities.front().heads;  // of the weights; other quantities may be the same for all
  require(head <= heads, "--head {}: {} has {}", head, title(), counted(std::size_t(heads), "head"));
  if (quantity.heads == 1) head = 1;
  require(head <= quantity.heads, "--head {}: {} of the {} heads have '{}'; they are counted from 1", head,
          quantity.heads, heads, quantity.name);
  if (head > 0) return {begin(head - 1), begin(head)};
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
  add_quantity(view, "weights", trace.weights.value());
  for (const auto& [name, values] : trace.quantities) add_quantity(view, name, values.value());
  join_mechanisms(view);
  add_plain_weights(view);
  return view;
}

}  // namespace fovea
