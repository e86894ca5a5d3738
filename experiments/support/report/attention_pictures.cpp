#include "experiments/support/report/attention_pictures.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

#include "attention/specification.h"
#include "autograd/operations.h"

namespace fovea {

namespace {

constexpr std::int64_t shortest_shown = 8, longest_shown = 16, most_tokens = 32, most_heads = 8;

/// What a method says of itself for one sentence, of one shape: [h, I, J] of pairs or [h, I] of queries.
struct Quantity {
  std::string name;
  Tensor values;
};

/// Its first heads, and its first `shown` queries and keys, spread from [B, h, I, J], or from what broadcasts to [B, h,
/// I] as PerQuery captures do. Nothing for what has another shape.
std::optional<Quantity> for_one_sentence(const std::string& name, Tensor values, std::int64_t shown) {
  while (values.rank() < 3) values = values.unsqueeze(0);
  if (values.rank() > 4) return std::nullopt;
  if (values.size(1) > most_heads) values = values.slice(1, 0, most_heads);
  std::vector<std::int64_t> sizes{1, values.size(1)};
  for (int dim = 2; dim < values.rank(); ++dim) {
    if (values.size(dim) > shown) values = values.slice(dim, 0, shown);
    if (values.size(dim) != 1 && values.size(dim) != shown) return std::nullopt;
    sizes.push_back(shown);
  }
  return Quantity{name, values.slice(0, 0, 1).expand(Shape(sizes)).select(0, 0)};
}

std::vector<double> row(const Tensor& values, std::int64_t head) { return values.select(0, head).to_vector<double>(); }

/// One of the quantities by its name, for every one of `heads`; null if there is none.
const Quantity* find(const std::vector<Quantity>& quantities, const std::string& name, std::int64_t heads) {
  for (const Quantity& quantity : quantities) {
    bool is_for_all = quantity.values.size(0) == heads || quantity.values.size(0) == 1;
    if (quantity.name == name && quantity.values.rank() == 2 && is_for_all) return &quantity;
  }
  return nullptr;
}

/// "left pointer" for left_pointer.
std::string title_of(const Quantity& quantity) {
  std::string title = quantity.name;
  std::replace(title.begin(), title.end(), '_', ' ');
  return title;
}

HeadMaps maps_of(const Quantity& quantity, const std::vector<std::string>& words) {
  HeadMaps maps{.title = title_of(quantity), .queries = words, .keys = words};
  for (std::int64_t h = 0; h < quantity.values.size(0); ++h)
    maps.heads.push_back({.name = fmt::format("head {}", h + 1), .values = row(quantity.values, h)});
  return maps;
}

/// A line for each head, over the queries.
LineChart curves_of(const Quantity& quantity) {
  LineChart chart{.title = title_of(quantity), .x = {"query"}};
  std::vector<double> position(static_cast<std::size_t>(quantity.values.size(1)));
  std::iota(position.begin(), position.end(), 0);
  for (std::int64_t h = 0; h < quantity.values.size(0); ++h)
    chart.series.push_back({.name = fmt::format("head {}", h + 1), .x = position, .y = row(quantity.values, h)});
  return chart;
}

/// Draws centre and width into the maps of the weights.
void mark_centers(HeadMaps& weights, const Quantity& center, const Quantity* width) {
  for (std::size_t h = 0; h < weights.heads.size(); ++h) {
    auto of_head = [&](const Quantity& q) { return row(q.values, q.values.size(0) == 1 ? 0 : std::int64_t(h)); };
    weights.heads[h].center = of_head(center);
    if (width) weights.heads[h].width = of_head(*width);
  }
}

constexpr int no_layer = 1 << 30;

/// Counted from 1; no_layer where every method is global.
int first_layer(const std::vector<MethodText>& sum) {
  int first = no_layer;
  for (const MethodText& method : sum) {
    int layer = method.name == "global" || method.name == "heads" ? no_layer : 1;
    for (const OptionText& option : method.options) {
      if (option.name == "layers") layer = std::stoi(option.value);  // the registry has checked FIRST-LAST
    }
    for (const Share& share : method.shares) layer = std::min(layer, first_layer(share.sum));
    first = std::min(first, layer);
  }
  return first;
}

}  // namespace

std::vector<std::size_t> sentences_to_show(const EncodedExamples& examples, std::size_t count) {
  std::vector<std::size_t> order(examples.size());
  std::iota(order.begin(), order.end(), 0);
  auto misfit = [&](std::size_t k) {
    std::int64_t length = examples.lengths[k];
    return length < shortest_shown ? shortest_shown - length : std::max<std::int64_t>(length - longest_shown, 0);
  };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(misfit(a), -examples.groups[a]) < std::pair(misfit(b), -examples.groups[b]);
  });
  std::vector<std::size_t> chosen;
  std::set<std::vector<int>> texts;
  while (chosen.size() < count) {
    std::set<int> classes;
    std::size_t before = chosen.size();
    for (std::size_t k : order) {
      if (chosen.size() == count) break;
      if (classes.count(examples.labels[k]) || !texts.insert(examples.tokens[k]).second) continue;
      classes.insert(examples.labels[k]);
      chosen.push_back(k);
    }
    if (chosen.size() == before) break;
  }
  return chosen;
}

int first_layer_of(const std::string& attention) {
  int first = first_layer(parse_specification(attention));
  return first == no_layer ? 0 : first - 1;
}

SentencePictures pictures_of(EncoderClassifier& model, const std::vector<int>& tokens, const Tokenizer& tokenizer,
                             int layer) {
  NoGrad off;
  auto length = static_cast<std::int64_t>(tokens.size());
  std::vector<AttentionTrace> traces;
  model.forward(Tensor::from(tokens, {1, length}), Tensor::from(std::vector<std::int32_t>{std::int32_t(length)}, {1}),
                &traces);
  const AttentionTrace& trace = traces.at(static_cast<std::size_t>(layer));

  std::int64_t shown = std::min(length, most_tokens);
  std::vector<std::string> words;
  for (std::int64_t t = 0; t < shown; ++t) words.push_back(tokenizer.token(tokens[static_cast<std::size_t>(t)]));
  std::vector<Quantity> quantities;
  for (const auto& [name, value] : trace.quantities) {
    if (auto quantity = for_one_sentence(name, value.value(), shown)) quantities.push_back(*quantity);
  }
  SentencePictures pictures;
  pictures.maps.push_back(maps_of(for_one_sentence("weights", trace.weights.value(), shown).value(), words));
  auto heads = static_cast<std::int64_t>(pictures.maps.front().heads.size());
  const Quantity* center = find(quantities, "center", heads);
  const Quantity* width = find(quantities, "width", heads);
  if (center) mark_centers(pictures.maps.front(), *center, width);
  for (const Quantity& quantity : quantities) {
    if (quantity.values.rank() == 3) {
      pictures.maps.push_back(maps_of(quantity, words));
    } else if (&quantity != center && !(center && &quantity == width)) {
      pictures.curves.push_back(curves_of(quantity));
    }
  }
  return pictures;
}

}  // namespace fovea
