// The papers' statements about the numbers of their tables, judged by ours.
#include <algorithm>
#include <cmath>
#include <tuple>

#include <fmt/core.h>

#include "experiments/support/metrics/statistics.h"
#include "experiments/support/report/sheet.h"
#include "experiments/support/text/number.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"

namespace fovea {

namespace {

/// A number, or one of the table.
struct Operand {
  const Sheet::Row* row = nullptr;
  const Sheet::Column* column = nullptr;
  std::string heading = {};
  double value = std::nan(""), paper = std::nan("");  ///< ours, and the paper's
};

/// "BLEU[Enc (AW)]", or a number.
Operand operand_of(const Sheet& sheet, const SheetRuns& runs, const std::string& text) {
  if (const std::optional<double> value = number<double>(text)) return {.value = *value, .paper = *value};
  const std::size_t open = text.find('[');
  require(open != std::string::npos && text.ends_with(']'), "sheet '{}': '{}' is neither a number nor COLUMN[ROW]",
          sheet.name, text);
  const std::string heading = text.substr(0, open);
  const Sheet::Row& row = sheet.row(text.substr(open + 1, text.size() - open - 2));
  for (const Sheet::Column& column : sheet.columns)
    if (heading == column.heading || heading == column.task + " " + column.heading)
      return {&row, &column, heading, mean(our_values(runs, column, row)), printed(sheet, column, row)};
  fail("sheet '{}': '{}': there is no column '{}'", sheet.name, text, heading);
}

/// A comparison in a claim, and its words in a sentence. Numbers that differ by less than `tolerance` count as equal.
struct Relation {
  const char *sign, *words;
  bool (*holds)(double left, double right, double tolerance);
};
constexpr Relation relations[] = {
    {">=", "is at least", [](double left, double right, double tolerance) { return left >= right - tolerance; }},
    {"<=", "is at most", [](double left, double right, double tolerance) { return left <= right + tolerance; }},
    {">", "is above", [](double left, double right, double) { return left > right; }},
    {"<", "is below", [](double left, double right, double) { return left < right; }},
    {"=", "equals", [](double left, double right, double tolerance) { return std::abs(left - right) <= tolerance; }}};

/// The first sign between spaces behind COLUMN[ROW], whose names may contain signs, and the place of the space before
/// the sign. Throws Error if there is none.
std::pair<const Relation*, std::size_t> relation_of(const Sheet& sheet, const std::string& claim) {
  const std::size_t left = claim.find(']');
  for (std::size_t at = left == std::string::npos ? 0 : left; at < claim.size(); ++at)
    for (const Relation& one : relations)
      if (claim.compare(at, std::string_view(one.sign).size() + 2, fmt::format(" {} ", one.sign)) == 0)
        return {&one, at};
  fail("sheet '{}': '{}' has none of the signs >, <, >=, <=, =", sheet.name, claim);
}

/// "BLEU of 'Yang' is above that of 'Vaswani'".
std::string words_of(const Operand& left, const Relation& relation, const Operand& right) {
  auto name = [](const Operand& one) {
    return one.row ? fmt::format("{} of '{}'", one.heading, one.row->name) : fmt::format("{:g}", one.value);
  };
  const bool is_same = left.row && right.row && left.heading == right.heading;
  return fmt::format("{} {} {}", name(left), relation.words,
                     is_same ? "that of '" + right.row->name + "'" : name(right));
}

/// The verdict on a difference, of which a claim says that it is positive, or with < negative.
Verdict verdict_on(const SeededDifference& difference, const std::string& sign) {
  auto [low, high] = difference.interval();
  if (sign.starts_with('<')) std::tie(low, high) = std::pair(-high, -low);
  return low > 0 ? Verdict::holds : high < 0 ? Verdict::fails : Verdict::open;
}

bool is_speed(const Sheet::Column& column) { return column.metric == "steps/s" || column.metric == "ms/sentence"; }

CheckedClaim::Side side_of(const SheetRuns& runs, const Operand& one) {
  if (!one.column) return {.value = one.value};
  return {metric_of(*one.column, *one.row), runs_of(runs, one.row->name, one.column->task), one.value};
}

}  // namespace

std::vector<CheckedClaim> check_claims(const Sheet& sheet, const SheetRuns& runs) {
  std::vector<CheckedClaim> checked;
  std::map<const Sheet::Column*, SeedSpread> spreads;
  for (const Sheet::Claim& claim : sheet.claims) {
    const auto [relation, at] = relation_of(sheet, claim.text);
    const std::string sign = relation->sign;
    const Operand left = operand_of(sheet, runs, trimmed(claim.text.substr(0, at)));
    const Operand right = operand_of(sheet, runs, trimmed(claim.text.substr(at + sign.size() + 2)));
    CheckedClaim& one = checked.emplace_back(CheckedClaim{.claim = claim, .words = words_of(left, *relation, right)});
    one.decimals = left.column ? left.column->decimals : 2;
    one.sign = sign;
    one.left = side_of(runs, left);
    one.right = side_of(runs, right);
    one.in_paper = left.paper - right.paper;
    if (std::isnan(left.value) || std::isnan(right.value)) continue;
    one.numbers = fmt::format("{:.4g} and {:.4g}", left.value, right.value);
    const double tolerance = 1e-6 * std::max({1.0, std::abs(left.value), std::abs(right.value)});
    one.verdict = relation->holds(left.value, right.value, tolerance) ? Verdict::holds : Verdict::fails;
    if (claim.is_required || sign == "=" || !left.column || left.column != right.column) continue;
    const Sheet::Column& column = *left.column;
    if (is_speed(column)) {
      one.verdict = Verdict::open;
      one.why_open = "speeds are not judged, because other work changes them";
      continue;
    }
    if (!spreads.contains(&column)) spreads[&column] = spread_of(sheet, runs, column);
    one.difference = seeded_difference(seeded_score(runs, column, *left.row), seeded_score(runs, column, *right.row),
                                       spreads[&column]);
    one.verdict = verdict_on(*one.difference, sign);
  }
  return checked;
}

namespace {

const char* word_of(Verdict verdict) {
  return verdict == Verdict::holds   ? "holds"
         : verdict == Verdict::fails ? "does not hold"
         : verdict == Verdict::open  ? "cannot tell"
                                     : "not measured";
}

/// Whether the numbers do not differ clearly, but the paper's difference lies outside their interval.
bool excludes_the_papers(const CheckedClaim& one) {
  if (one.verdict != Verdict::open || !one.difference) return false;
  const auto [low, high] = one.difference->interval();
  return one.in_paper < low || one.in_paper > high;
}

constexpr const char* paper_is_outside = "; the paper's lies outside the interval";

}  // namespace

std::string CheckedClaim::verdict_text() const {
  const char* text = word_of(verdict);
  if (!why_open.empty()) return fmt::format("{}: {}", text, why_open);
  if (!difference) return text;
  if (difference_text().empty())
    return fmt::format("{}: that needs a second seed, or scores of the same test examples", text);
  if (verdict == Verdict::open)
    return fmt::format("{}: a difference of {:.{}f} would have been found four times in five{}{}", text,
                       difference->visible(), decimals, excludes_the_papers(*this) ? paper_is_outside : "",
                       difference->covers_seeds ? "" : "; one seed");
  return difference->covers_seeds ? text : fmt::format("{}; one seed, and others may say otherwise", text);
}

std::string CheckedClaim::outcome_text() const {
  const std::string interval = difference_text();
  const std::string text = fmt::format("{}: {}", interval.empty() ? numbers : interval, word_of(verdict));
  if (!why_open.empty()) return text + "; " + why_open;
  const bool is_of_one_seed = difference && (interval.empty() || !difference->covers_seeds);
  return text + (excludes_the_papers(*this) ? paper_is_outside : "") + (is_of_one_seed ? "; one seed" : "");
}

std::vector<Cell> CheckedClaim::cells() const {
  return {words + (claim.is_required ? ", at any size" : ""), Cell::number(in_paper, decimals), numbers,
          difference_text(), verdict_text()};
}

std::string CheckedClaim::difference_text() const {
  const std::string interval = difference ? interval_text(*difference, decimals) : "";
  return interval.empty() ? "" : fmt::format("{:.{}f} ({})", difference->value, decimals, interval);
}

}  // namespace fovea
