#include "experiments/support/metrics/alignment.h"

#include <algorithm>
#include <optional>

#include <fmt/core.h>

#include "experiments/support/text/number.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"

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

bool has_first_word(const GoldAlignment& alignment) {
  return std::ranges::any_of(alignment.possible, [](const Link& link) { return link.source == 0 || link.target == 0; });
}

std::string alignment_text(const std::set<Link>& links) {
  std::string text;
  for (const Link& link : links) text += fmt::format("{}{}-{}", text.empty() ? "" : " ", link.source, link.target);
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

}  // namespace fovea
