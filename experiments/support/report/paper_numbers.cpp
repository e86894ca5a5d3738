#include "experiments/support/report/paper_numbers.h"

#include <limits>
#include <map>
#include <set>

#include <fmt/core.h>

#include "attention/language/specification.h"
#include "attention/registry.h"
#include "experiments/support/sequence/sequence_models.h"
#include "experiments/support/text/number.h"

namespace fovea {

namespace {

constexpr const char *multiplicative = "window", *additive = "window(use=additive)";

/// Whether an option does not distinguish rows of a paper's table, such as the layers on which a method acts.
bool is_detail(const std::string& option) {
  for (const char* detail : {"layers", "heads", "clip", "hidden", "bias"})
    if (option == detail) return true;
  return false;
}

std::vector<OptionDescription> options_of(const std::string& method) {
  if (const MethodEntry* entry = find_method(method)) return describe_options(*entry);
  if (const Combination* entry = find_combination(method)) return describe_options(*entry);
  return {};
}

std::string joined(const std::set<std::string>& parts, const char* between) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : between) + part;
  return text;
}

/// The value in a unique form: 1.0 becomes 1.
std::string plain_value(const std::string& value) {
  const std::optional<double> known = number<double>(value);
  return known ? fmt::format("{}", *known) : value;
}

/// The methods of a sum, sorted by name, with their non-default options. "global" is left out unless it is alone.
std::string canonical(const std::vector<MethodText>& sum) {
  std::set<std::string> methods;
  for (const MethodText& method : sum) {
    if (method.name == "global") continue;
    std::set<std::string> parts;
    for (const OptionText& option : method.options) {
      bool is_default = false;
      for (const OptionDescription& known : options_of(method.name))
        is_default =
            is_default || (known.name == option.name && plain_value(known.default_value) == plain_value(option.value));
      if (!is_default && !is_detail(option.name)) parts.insert(option.name + "=" + plain_value(option.value));
    }
    std::size_t place = 0;  // shares are in the order of their heads
    for (const Share& share : method.shares)
      parts.insert(fmt::format("{}: {}*{}", place++, canonical(share.sum), share.heads));
    methods.insert(method.name + "(" + joined(parts, ",") + ")");
  }
  return methods.empty() ? "global" : joined(methods, "+");
}

std::string canonical(const std::string& specification) {
  return specification.empty() ? "global" : canonical(parse_specification(specification));
}

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

/// A row of a paper's table and the model that it belongs to. An empty attention is plain attention.
struct Published {
  const char* name;
  std::vector<double> values;
  const char *encoder = "", *decoder = "", *cross = "", *order = "attention > feed-forward";
};

struct PublishedTable {
  const char *program, *architecture, *units, *caption, *metric;  ///< units "": any
  std::vector<std::string> columns;
  std::vector<Published> rows;
};

constexpr const char* segments = "window(use=additive,segment=5)";

const std::vector<PublishedTable> published = {
    {"sentiment",
     "",
     "",
     "Nguyen et al. 2020, table 5: accuracy of tiny encoders with windows in layer 1 only. SST-2: 3000 updates on the "
     "phrases of GLUE's SST-2, sub-words (2^14), tested on its 872 development sentences. IMDB: 10000 updates on all "
     "25000 training reviews, sub-words (2^13), tested on the 25000 test reviews.",
     "accuracy",
     {"SST-2", "IMDB"},
     {{"Vaswani", {79.36, 83.65}},
      {"Shaw", {79.73, 84.61}, "relative"},
      {"Yang", {79.24, 84.13}, "gaussian"},
      {"Enc (MW)", {79.70, 85.09}, multiplicative},
      {"Enc (AW)", {82.13, 87.98}, additive}}},
    {"agreement",
     "",
     "",
     "Nguyen et al. 2020, table 5: accuracy of tiny encoders with windows in layer 1 only, after 10000 updates on 9 % "
     "of "
     "Linzen's 1.6 million sentences, on the hard subset of the rest (no noun between subject and verb, or attractors "
     "only).",
     "accuracy",
     {"SVA"},
     {{"Vaswani", {94.48}},
      {"Shaw", {95.27}, "relative"},
      {"Yang", {95.00}, "gaussian"},
      {"Enc (MW)", {95.95}, multiplicative},
      {"Enc (AW)", {96.19}, additive}}},
    {"translate",
     "transformer",
     "",
     "Nguyen et al. 2020, tables 1 to 3: BLEU on newstest2014, base models; windows in the first three layers.",
     "BLEU",
     {"En-De", "En-Fr"},
     {{"Vaswani", {27.46, 39.21}},
      {"Shaw", {27.56, 39.37}, "relative"},
      {"Yang", {27.62, 39.47}, "gaussian"},
      {"Enc (AW)", {27.90, unknown}, additive},
      {"Enc (MW)", {27.40, unknown}, multiplicative},
      {"Dec (AW)", {27.85, unknown}, "", additive},
      {"Dec (MW)", {28.04, unknown}, "", multiplicative},
      {"Cr (AW)", {27.97, unknown}, "", "", additive},
      {"Cr (MW)", {27.79, unknown}, "", "", multiplicative},
      {"Cr (AW, Seg)", {28.13, 40.06}, "", "", segments},
      {"Enc (AW) - Dec (MW)", {28.11, 40.24}, additive, multiplicative},
      {"Enc (AW) - Cr (AW, Seg) - Dec (MW)", {28.25, 40.32}, additive, multiplicative, segments}}},
    {"translate",
     "transformer",
     "",
     "Yang et al. 2018, table 4: BLEU of base models; localness in the first three layers of the encoder.",
     "BLEU",
     {"Zh-En", "En-De"},
     {{"Base", {24.13, 27.64}},
      {"+ Rel_Pos", {24.53, 27.94}, "relative"},
      {"+ Localness", {24.77, 28.11}, "gaussian"},
      {"+ both", {24.96, 28.54}, "relative + gaussian"}}},
    {"translate",
     "transformer",
     "",
     "Yang et al. 2018, table 1: BLEU on newsdev2017; localness in all six layers of the encoder.",
     "BLEU",
     {"Zh-En dev"},
     {{"Baseline", {22.59}},
      {"Fixed-Window", {23.07}, "gaussian(window=fixed)"},
      {"Layer-Spec.", {23.13}, "gaussian(window=layer)"},
      {"Query-Spec.", {23.13}, "gaussian"}}},
    {"translate",
     "transformer",
     "",
     "Yang et al. 2018, table 3: BLEU on newsdev2017; localness in the first three layers.",
     "BLEU",
     {"Zh-En dev"},
     {{"Enc", {23.29}, "gaussian"},
      {"Enc + Dec", {23.27}, "gaussian", "gaussian"},
      {"Enc + Enc-Dec", {23.33}, "gaussian", "", "gaussian"},
      {"all", {23.19}, "gaussian", "gaussian", "gaussian"}}},
    {"translate",
     "transformer",
     "",
     "Fan et al. 2021, tables 1, 3 and 4: BLEU.",
     "BLEU",
     {"IWSLT De-En", "WMT En-De base", "WMT En-De big"},
     {{"Transformer", {34.40, 27.3, 28.4}},
      {"C1", {35.51, unknown, unknown}, "", "", "", "C1"},
      {"C2", {35.66, unknown, unknown}, "", "", "", "C2"},
      {"C3", {35.86, unknown, unknown}, "", "", "", "C3"},
      {"C4", {35.91, unknown, unknown}, "", "", "", "C4"},
      {"C5, DMAN", {36.35, 29.1, 30.4}, "", "", "", "C5"},
      {"SMAN1", {35.52, unknown, unknown}, "", "", "", "sman > attention > feed-forward"},
      {"SMAN2", {35.55, unknown, unknown}, "", "", "", "sman(width=fixed) > attention > feed-forward"}}},
    {"summarize",
     "transformer",
     "",
     "Fan et al. 2021, table 2: ROUGE F1.",
     "ROUGE-1",
     {"CNN/DM R-1", "R-2", "R-L", "Gigaword R-1", "R-2", "R-L"},
     {{"Transformer", {39.50, 16.06, 36.63, 37.57, 18.90, 34.69}},
      {"Ours", {40.98, 18.29, 37.88, 38.28, 19.46, 35.46}, "", "", "", "C5"}}},
    {"language_model",
     "transformer",
     "",
     "Nguyen et al. 2020, table 6: perplexity on the 1 Billion Word Benchmark, sub-words.",
     "perplexity",
     {"perplexity"},
     {{"Vaswani", {46.37}},
      {"Shaw", {46.13}, "", "relative"},
      {"Dec (MW)", {44.00}, "", multiplicative},
      {"Dec (AW)", {44.95}, "", additive}}},
    {"translate",
     "rnn",
     "words",
     "Shu & Nakayama 2017, table 1: words, ASPEC En-Ja and WMT15 De-En.",
     "BLEU",
     {"En-Ja BLEU", "En-Ja RIBES", "De-En BLEU"},
     {{"Global", {34.87, 0.810, 20.62}, "classic(additive)"},
      {"Local", {34.52, 0.809, 21.09}, "classic(additive + local_p)"},
      {"Flexible, τ = ∞", {35.01, 0.814, 21.31}, "classic(additive + flexible)"},
      {"Flexible, τ = 1.2", {34.90, 0.812, 21.11}, "classic(additive + flexible(threshold=1.2))"}}},
    {"translate",
     "rnn",
     "characters",
     "Shu & Nakayama 2017, table 2: characters, ASPEC En-Ja.",
     "BLEU",
     {"En-Ja BLEU", "En-Ja RIBES"},
     {{"Global", {26.18, 0.767}, "classic(additive)"},
      {"Flexible, τ = ∞", {26.68, 0.763}, "classic(additive + flexible)"},
      {"Flexible, τ = 1.0", {26.18, 0.757}, "classic(additive + flexible(threshold=1.0))"}}},
};

/// The parts of an order, with specifications of attentions in canonical form.
std::string canonical_order(const std::string& order) {
  std::string text;
  for (const std::string& part : parts_of_order(order)) {
    const bool is_kind = part == "attention" || part == "cross" || part == "feed-forward";
    text += (is_kind ? part : canonical(part)) + ">";
  }
  return text;
}

struct ModelKey {
  std::string encoder, decoder, cross, order;
  bool operator==(const ModelKey&) const = default;
};

ModelKey key_of(const Published& row) {
  return {canonical(row.encoder), canonical(row.decoder), canonical(row.cross), canonical_order(row.order)};
}

ModelKey key_of(const std::string& program, const Json& configuration) {
  auto flag = [&](const char* name) { return configuration.value(name, std::string()); };
  std::string encoder = flag("attention"), decoder = flag("decoder-attention");
  if (program == "language_model") {
    if (decoder.empty()) decoder = encoder;
    encoder.clear();
  }
  if (encoder.empty() && flag("architecture") == "rnn") encoder = "classic(additive)";
  return {canonical(encoder), canonical(decoder), canonical(flag("cross-attention")),
          canonical_order(configuration.value("block-order", std::string("attention > feed-forward")))};
}

}  // namespace

std::vector<PaperTable> paper_tables(const std::string& program, const std::vector<Json>& configurations) {
  std::vector<PaperTable> tables;
  for (const PublishedTable& from : published) {
    if (program != from.program) continue;
    PaperTable table{from.caption, from.metric, from.columns, {}};
    std::set<std::string> found;
    for (const Json& configuration : configurations) {
      table.rows.emplace_back();
      const std::string units = configuration.value("units", std::string());
      if (configuration.value("architecture", std::string()) != from.architecture) continue;
      if (*from.units && units != from.units) continue;
      const ModelKey key = key_of(program, configuration);
      for (const Published& row : from.rows) {
        if (!(key_of(row) == key)) continue;
        table.rows.back() = PaperTable::Row{row.name, row.values};
        found.insert(row.name);
      }
    }
    if (found.size() > 1) tables.push_back(std::move(table));
  }
  return tables;
}

}  // namespace fovea
