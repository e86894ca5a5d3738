#include "experiments/support/report/attention_pictures.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

#include "attention/language/specification.h"
#include "autograd/operations.h"

namespace fovea {

namespace {

constexpr std::int64_t shortest_shown = 8, longest_shown = 16, most_tokens = 32, most_heads = 8;

/// What a method says of itself for one sentence, of one shape: [h, I, J] of pairs or [h, I] of queries.
struct Quantity {
  std::string name;
  Tensor values;
};

/// Its first heads, queries and keys, spread from [B, h, I, J], or from what broadcasts to [B, h, I] as PerQuery
/// captures do. Nothing for what has another shape.
std::optional<Quantity> for_one_sentence(const std::string& name, Tensor values, std::int64_t queries,
                                         std::int64_t keys) {
  while (values.rank() < 3) values = values.unsqueeze(0);
  if (values.rank() > 4) return std::nullopt;
  if (values.size(1) > most_heads) values = values.slice(1, 0, most_heads);
  std::vector<std::int64_t> sizes{1, values.size(1)};
  for (int dim = 2; dim < values.rank(); ++dim) {
    const std::int64_t shown = dim == 2 ? queries : keys;
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

HeadMaps maps_of(const Quantity& quantity, const std::vector<std::string>& queries,
                 const std::vector<std::string>& keys) {
  HeadMaps maps{.title = title_of(quantity), .queries = queries, .keys = keys};
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

std::int64_t misfit_of_map(std::int64_t tokens) {
  return tokens < shortest_shown ? shortest_shown - tokens : std::max<std::int64_t>(tokens - longest_shown, 0);
}

std::vector<std::size_t> sentences_to_show(const EncodedExamples& examples, std::size_t count) {
  std::vector<std::size_t> order(examples.size());
  std::iota(order.begin(), order.end(), 0);
  auto misfit = [&](std::size_t k) { return misfit_of_map(examples.lengths[k]); };
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

SentencePictures pictures_of(const AttentionTrace& trace, const std::string& place, std::vector<std::string> queries,
                             std::vector<std::string> keys) {
  if (queries.size() > most_tokens) queries.resize(most_tokens);
  if (keys.size() > most_tokens) keys.resize(most_tokens);
  auto shown = [&](const std::string& name, const Variable& values) {
    return for_one_sentence(name, values.value(), std::int64_t(queries.size()), std::int64_t(keys.size()));
  };
  std::vector<Quantity> quantities;
  for (const auto& [name, values] : trace.quantities) {
    if (auto quantity = shown(name, values)) quantities.push_back(*quantity);
  }
  SentencePictures pictures;
  pictures.maps.push_back(maps_of(shown("weights", trace.weights).value(), queries, keys));
  auto heads = static_cast<std::int64_t>(pictures.maps.front().heads.size());
  const Quantity* center = find(quantities, "center", heads);
  if (!center) center = find(quantities, "focus", heads);
  const Quantity* width = find(quantities, "width", heads);
  if (center) mark_centers(pictures.maps.front(), *center, width);
  for (const Quantity& quantity : quantities) {
    if (quantity.values.rank() == 3) {
      pictures.maps.push_back(maps_of(quantity, queries, keys));
    } else if (&quantity != center && !(center && &quantity == width)) {
      pictures.curves.push_back(curves_of(quantity));
    }
  }
  if (!place.empty()) {
    for (HeadMaps& maps : pictures.maps) maps.title = place + ": " + maps.title;
    for (LineChart& curves : pictures.curves) curves.title = place + ": " + curves.title;
  }
  return pictures;
}

SentencePictures pictures_of(EncoderClassifier& model, const std::vector<int>& tokens, const Tokenizer& tokenizer,
                             int layer) {
  NoGrad off;
  auto length = static_cast<std::int64_t>(tokens.size());
  std::vector<AttentionTrace> traces;
  model.forward(Tensor::from(tokens, {1, length}), Tensor::from(std::vector<std::int32_t>{std::int32_t(length)}, {1}),
                &traces);
  std::vector<std::string> words;
  for (int token : tokens) words.push_back(tokenizer.token(token));
  return pictures_of(traces.at(static_cast<std::size_t>(layer)), "", words, words);
}

namespace {

std::size_t bytes_of(const SentencePictures& pictures) {
  std::size_t bytes = 0;
  for (const HeadMaps& maps : pictures.maps) bytes += svg(maps).size();
  for (const LineChart& curves : pictures.curves) bytes += svg(curves).size();
  return bytes;
}

/// How many sentences of each model there is room for.
std::vector<std::size_t> shown_sentences(const std::vector<ModelPictures>& models, std::size_t most_bytes) {
  std::vector<std::size_t> shown(models.size());
  std::size_t bytes = 0, most = 0;
  for (const ModelPictures& model : models) most = std::max(most, model.sentences.size());
  for (std::size_t k = 0; k < most; ++k) {
    for (std::size_t m = 0; m < models.size(); ++m) {
      if (k >= models[m].sentences.size()) continue;
      bytes += bytes_of(models[m].sentences[k].pictures);
      if (bytes > most_bytes) return shown;
      shown[m] = k + 1;
    }
  }
  return shown;
}

}  // namespace

void add_attention_section(Report& report, const std::string& explanation, const std::vector<ModelPictures>& models,
                           std::size_t most_bytes) {
  report.section("Attention").text(explanation);
  const std::vector<std::size_t> shown = shown_sentences(models, most_bytes);
  for (std::size_t m = 0; m < models.size(); ++m) {
    const ModelPictures& model = models[m];
    report.subsection(model.title);
    report.text(shown[m] ? model.note : "No pictures: the page would grow over its size.");
    for (std::size_t k = 0; k < shown[m]; ++k) {
      report.text(model.sentences[k].text);
      for (const HeadMaps& maps : model.sentences[k].pictures.maps) report.add(maps);
      for (const LineChart& curves : model.sentences[k].pictures.curves) report.add(curves);
    }
  }
}

}  // namespace fovea
