#include "experiments/support/metrics/alignment.h"

#include <algorithm>
#include <optional>

#include <fmt/core.h>

#include "experiments/support/program/cli.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"
#include "tensor/support/warning.h"

namespace fovea {

namespace {

std::optional<std::int64_t> index(std::string_view digits, std::int64_t first) {
  const auto value = number<std::int64_t>(digits);
  return value && *value >= first ? std::optional(*value - first) : std::nullopt;
}

std::int64_t shared(const std::set<Link>& a, const std::set<Link>& b) {
  return std::ranges::count_if(a, [&](const Link& link) { return b.contains(link); });
}

}  // namespace

GoldAlignment parse_alignment(std::string_view line, std::int64_t first) {
  GoldAlignment gold;
  for (std::string_view word : split_words(line)) {
    const std::size_t sign = word.find_first_of("-?");
    require(sign != std::string_view::npos, "'{}': expected a link like 0-2 or 0?2", word);
    const auto source = index(word.substr(0, sign), first), target = index(word.substr(sign + 1), first);
    require(source && target, "'{}': expected a link like 0-2 or 0?2, of words counted from {}", word, first);
    gold.possible.insert({*source, *target});
    if (word[sign] == '-') gold.sure.insert({*source, *target});
  }
  return gold;
}

void FirstWords::add(const GoldAlignment& alignment) {
  for (const Link& link : alignment.possible) any = true, source |= link.source == 0, target |= link.target == 0;
}

std::string alignment_text(const std::set<Link>& links) {
  std::string text;
  for (const Link& link : links) append_word(text, fmt::format("{}-{}", link.source, link.target));
  return text;
}

std::set<Link> strongest_links(std::span<const double> attention, std::int64_t sources) {
  require(sources > 0 && attention.size() % std::size_t(sources) == 0,
          "alignment: {} attention weights, expected rows of {}", attention.size(), sources);
  std::set<Link> links;
  for (std::size_t begin = 0; begin < attention.size(); begin += std::size_t(sources)) {
    const auto row = attention.subspan(begin, std::size_t(sources));
    links.insert({std::ranges::max_element(row) - row.begin(), std::int64_t(begin) / sources});
  }
  return links;
}

SummedMetric alignment_error(std::span<const std::set<Link>> links, std::span<const GoldAlignment> gold) {
  SummedMetric metric{.width = 2,
                      .of_sums = [](auto sums) { return sums[1] == 0 ? 0 : 1 - sums[0] / sums[1]; },
                      .higher_is_better = false};
  for (std::size_t k = 0; k < gold.size(); ++k)
    metric.statistics.insert(metric.statistics.end(),
                             {double(shared(links[k], gold[k].sure) + shared(links[k], gold[k].possible)),
                              double(links[k].size() + gold[k].sure.size())});
  return metric;
}

std::vector<std::int64_t> words_of_tokens(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::int64_t> words;
  std::int64_t number = 0;
  for (std::string_view word : split_words(text)) words.insert(words.end(), tokenizer.encode(word).size(), number++);
  return words;
}

std::vector<std::int64_t> words_of_tokens(const Tokenizer& tokenizer, std::span<const int> tokens) {
  std::vector<std::int64_t> words;
  std::int64_t number = 0;
  std::size_t begin = 0;  // of the word
  for (std::size_t k = 0; k < tokens.size(); ++k) {
    // Tokens form one word as long as they decode to one word. Some tokenizers mark beginnings of words, some ends.
    if (split_words(tokenizer.decode(tokens.subspan(begin, k + 1 - begin))).size() > 1) {
      ++number;
      begin = k;
    }
    words.push_back(number);
  }
  return words;
}

std::set<Link> word_links(const std::vector<std::vector<float>>& attention,
                          const std::vector<std::int64_t>& source_words,
                          const std::vector<std::int64_t>& target_words) {
  if (source_words.empty() || target_words.empty()) return {};
  const auto S = std::size_t(source_words.back() + 1), T = std::size_t(target_words.back() + 1);
  std::vector<double> sums(T * S, 0);
  for (std::size_t t = 0; t < std::min(target_words.size(), attention.size()); ++t)
    for (std::size_t j = 0; j < std::min(source_words.size(), attention[t].size()); ++j)
      sums[std::size_t(target_words[t]) * S + std::size_t(source_words[j])] += attention[t][j];
  std::set<Link> links = strongest_links(sums, std::int64_t(S));
  std::erase_if(links, [&](const Link& link) {  // the target word attends to </s> alone
    return sums[std::size_t(link.target) * S + std::size_t(link.source)] == 0;
  });
  return links;
}

std::vector<GoldAlignment> gold_alignments(const std::vector<TextPair>& pairs) {
  std::vector<GoldAlignment> all;
  if (std::ranges::all_of(pairs, [](const TextPair& pair) { return pair.alignment.empty(); })) return all;
  FirstWords first;
  for (const TextPair& pair : pairs) {
    const auto sources = std::ssize(split_words(pair.source)), targets = std::ssize(split_words(pair.target));
    with_flag(pair.alignment_place, [&] {
      all.push_back(parse_alignment(pair.alignment));
      for (const Link& link : all.back().possible)
        require(link.source < sources && link.target < targets,
                "'{}-{}': the texts have {} and {} words, counted from 0", link.source, link.target, sources, targets);
    });
    first.add(all.back());
  }
  if (first.any && !first.source && !first.target)
    warn("the gold alignments have no link of a word 0: are they counted from 1? They must be from 0");
  return all;
}

}  // namespace fovea
