#include "experiments/support/data/localness.h"

#include <cstdlib>

#include <fmt/core.h>

namespace fovea {

namespace {

using Words = std::vector<std::string>;

/// A text of so many words with their tags.
struct Tagged {
  explicit Tagged(std::int64_t length) : words(std::size_t(length)), tags(std::size_t(length)) {}
  std::int64_t length() const { return std::ssize(words); }
  Words words, tags;
};

char letter(bool is_b) { return is_b ? 'b' : 'a'; }

std::vector<bool> draw_bits(SplitMix& random, std::int64_t length) {
  std::vector<bool> bits(std::size_t(length), false);
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = random.chance(.5);
  return bits;
}

/// The letter of most of the words from `first` to `last`; on a tie, that of word i.
char majority(const std::vector<bool>& is_b, std::int64_t first, std::int64_t last, std::int64_t i) {
  std::int64_t lead = 0;  // of b
  for (std::int64_t j = std::max<std::int64_t>(first, 0); j <= std::min(last, std::ssize(is_b) - 1); ++j)
    lead += is_b[std::size_t(j)] ? 1 : -1;
  return letter(lead == 0 ? is_b[std::size_t(i)] : lead > 0);
}

/// Letters, whose tags are the majorities at most as far away as each of the `widths()`.
void draw_majorities(SplitMix& random, Tagged& text, bool is_shown, auto widths) {
  const std::vector<bool> is_b = draw_bits(random, text.length());
  for (std::int64_t i = 0; i < text.length(); ++i) {
    text.words[std::size_t(i)] = letter(is_b[std::size_t(i)]);
    for (const std::int64_t width : widths()) {
      if (is_shown) text.words[std::size_t(i)] += std::to_string(width);
      text.tags[std::size_t(i)] += majority(is_b, i - width, i + width, i);
    }
  }
}

void draw_majority(SplitMix& random, Tagged& text) {
  draw_majorities(random, text, false, [] { return std::array{3}; });
}

void draw_widths(SplitMix& random, Tagged& text) {
  draw_majorities(random, text, false, [] { return std::array{1, 9}; });
}

void draw_own_width(SplitMix& random, Tagged& text) {
  draw_majorities(random, text, true, [&] { return std::array{std::array{1, 3, 9}[random.below(3)]}; });
}

void draw_segments(SplitMix& random, Tagged& text) {
  const std::vector<bool> is_b = draw_bits(random, text.length());
  for (std::int64_t first = 0; first < text.length();) {
    const std::int64_t end = std::min(first + random.between(3, 15), text.length());  // the place of the sign
    for (std::int64_t i = first; i < end; ++i) {
      text.words[std::size_t(i)] = letter(is_b[std::size_t(i)]);
      text.tags[std::size_t(i)] = majority(is_b, first, end - 1, i);
    }
    if (end < text.length()) text.words[std::size_t(end)] = text.tags[std::size_t(end)] = "|";
    first = end + 1;
  }
}

void draw_ranks(SplitMix& random, Tagged& text) {
  std::vector<std::uint64_t> digits;
  for (std::int64_t i = 0; i < text.length(); ++i) digits.push_back(random.below(10));
  for (std::int64_t i = 0; i < text.length(); ++i) {
    const std::uint64_t own = digits[std::size_t(i)];
    int smaller = 0;
    for (std::int64_t j = std::max<std::int64_t>(i - 3, 0); j <= std::min(i + 3, text.length() - 1); ++j)
      smaller += digits[std::size_t(j)] < own;
    text.words[std::size_t(i)] = fmt::format("{}", own);
    text.tags[std::size_t(i)] = fmt::format("{}", smaller);
  }
}

/// One of eight letters for each word, whose tag is the letter `distance(i)` places further on.
void draw_moved(SplitMix& random, Tagged& text, bool is_shown, auto distance) {
  std::string letters;
  for (std::int64_t i = 0; i < text.length(); ++i) letters += char('a' + random.below(8));
  for (std::int64_t i = 0; i < text.length(); ++i) {
    const std::int64_t moved = distance(), from = i + moved;
    const char own = letters[std::size_t(i)];
    text.words[std::size_t(i)] = is_shown ? fmt::format("{}{:+}", own, moved) : std::string(1, own);
    text.tags[std::size_t(i)] = from < 0 || from >= text.length() ? own : letters[std::size_t(from)];
  }
}

void draw_back(SplitMix& random, Tagged& text) {
  draw_moved(random, text, false, [] { return -5; });
}

void draw_displaced(SplitMix& random, Tagged& text) {
  draw_moved(random, text, true, [&] { return random.between(-3, 3); });
}

void draw_agreement(SplitMix& random, Tagged& text) {
  constexpr const char* numbers[] = {"singular", "plural"};
  std::int64_t last_subject = -40;
  std::uint64_t number = 0;
  for (std::int64_t i = 0; i < text.length(); ++i) {
    std::string& word = text.words[std::size_t(i)];
    if (i - last_subject == 40 || random.below(12) == 0) {
      last_subject = i;
      number = random.below(2);
      word = fmt::format("subject-{}", numbers[number]);
    } else {
      word = random.below(3) == 0 ? fmt::format("noun-{}", numbers[random.below(2)])
                                  : fmt::format("word-{}", random.below(6));
    }
    text.tags[std::size_t(i)] = numbers[number];
  }
}

/// In a text of an odd number of words one key occurs once; its tag is its own value.
void draw_recall(SplitMix& random, Tagged& text) {
  std::vector<std::size_t> places(text.words.size());
  for (std::size_t i = 0; i < places.size(); ++i) places[i] = i;
  random.shuffle(std::span(places));
  for (std::size_t i = 0; i < places.size(); i += 2) {
    const std::size_t one = places[i], other = places[std::min(i + 1, places.size() - 1)];
    std::uint64_t values[] = {random.below(4), random.below(4)};
    if (one == other) values[1] = values[0];
    text.words[one] = fmt::format("key{}={}", i / 2, values[0]);
    text.words[other] = fmt::format("key{}={}", i / 2, values[1]);
    text.tags[one] = fmt::format("{}", values[1]);
    text.tags[other] = fmt::format("{}", values[0]);
  }
}

struct Task {
  const char* name;
  void (*draw)(SplitMix& random, Tagged& text);
};
constexpr Task tasks[] = {{"majority", draw_majority},   {"widths", draw_widths},       {"own_width", draw_own_width},
                          {"segments", draw_segments},   {"ranks", draw_ranks},         {"back", draw_back},
                          {"displaced", draw_displaced}, {"agreement", draw_agreement}, {"recall", draw_recall}};

}  // namespace

LocalnessGrammar::LocalnessGrammar() {
  for (const Task& task : tasks) task_.names.push_back(task.name);
}

std::vector<GrammarOption> LocalnessGrammar::options() { return {{"task", &task_}, {"length", &length_, 8, 1000}}; }

TextPair LocalnessGrammar::draw(SplitMix& random) const {
  Tagged text(random.between(length_.low, length_.high));
  tasks[task_.chosen].draw(random, text);
  TextPair pair;
  for (std::size_t i = 0; i < text.words.size(); ++i) {
    append_word(pair.source, text.words[i]);
    append_word(pair.target, text.tags[i]);
  }
  return pair;
}

}  // namespace fovea
