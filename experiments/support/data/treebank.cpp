#include "experiments/support/data/treebank.h"

#include <algorithm>
#include <span>
#include <unordered_set>

#include <fmt/format.h>

#include "experiments/support/text/lines.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"

namespace fovea {

namespace {

/// A text with SST's label, 0 (very negative) to 4 (very positive).
struct Rated {
  std::string text;
  int rating = 0;
};

/// A word with the Penn Treebank's escapes undone: `\/`, -LRB-.
std::string unescaped(std::string_view word) {
  constexpr std::pair<std::string_view, const char*> brackets[] = {{"-lrb-", "("}, {"-rrb-", ")"}, {"-lsb-", "["},
                                                                   {"-rsb-", "]"}, {"-lcb-", "{"}, {"-rcb-", "}"}};
  for (const auto& [name, bracket] : brackets)
    if (word.starts_with('-') && lower_case(word) == name) return bracket;
  std::string result;
  for (std::size_t i = 0; i < word.size(); ++i)
    if (word[i] != '\\' || i + 1 == word.size() || (word[i + 1] != '/' && word[i + 1] != '*')) result += word[i];
  return result;
}

/// The texts of all nodes of a tree, `(label word)` or `(label tree tree ...)`, the root's first.
std::vector<Rated> nodes_of(const LineReader& at, std::string_view tree) {
  constexpr std::size_t most_words = 4096;  // a node's text is copied: bounds what a hostile line can ask for
  struct Node {
    int rating;
    std::size_t first_word, last_word;
    bool has_word = false;
  };
  std::vector<Node> nodes;
  std::vector<std::string> words;
  std::vector<std::size_t> open;
  std::size_t place = 0;
  const auto require_tree = [&](bool claim, const char* what) {
    at.require_here(claim, "column {}: {}", place + 1, what);
  };
  do {
    place = std::min(tree.find_first_not_of(' ', place), tree.size());
    const char c = place < tree.size() ? tree[place] : '\0';
    Node* const parent = open.empty() ? nullptr : &nodes[open.back()];
    if (c == '(') {
      require_tree(!parent || !parent->has_word, "a node has a word and a child");
      place = std::min(tree.find_first_not_of(' ', place + 1), tree.size());
      const bool is_label = place + 1 < tree.size() && tree[place] >= '0' && tree[place] <= '4' &&
                            (tree[place + 1] == ' ' || tree[place + 1] == '(');
      require_tree(is_label, "expected a label 0-4 after '('");
      require_tree(nodes.size() < 2 * most_words, "a tree of more than 8192 nodes");
      open.push_back(nodes.size());
      nodes.push_back({.rating = tree[place++] - '0', .first_word = words.size(), .last_word = words.size()});
    } else if (!parent) {
      require_tree(false, "expected '(' and a label 0-4");
    } else if (c == ')') {
      require_tree(words.size() > parent->first_word, "a node without a word");
      parent->last_word = words.size();
      open.pop_back();
      ++place;
    } else {
      require_tree(c != '\0', "the line ends inside the tree");
      require_tree(words.size() == parent->first_word, "a node with two words, or with a word and a child");
      require_tree(words.size() < most_words, "a sentence of more than 4096 words");
      parent->has_word = true;
      const std::size_t end = std::min(tree.find_first_of(" ()", place), tree.size());
      words.push_back(unescaped(tree.substr(place, end - place)));
      place = end;
    }
  } while (!open.empty());
  place = std::min(tree.find_first_not_of(' ', place), tree.size());
  require_tree(place == tree.size(), "text after the end of the tree");
  std::vector<Rated> result;
  for (const Node& node : nodes) {
    const auto own = std::span(words).subspan(node.first_word, node.last_word - node.first_word);
    result.push_back({fmt::format("{}", fmt::join(own, " ")), node.rating});
  }
  return result;
}

/// `3 ||| a sentence`
Rated labelled_sentence(const LineReader& at, std::string_view line) {
  const std::size_t bar = line.find("|||");
  at.require_here(bar != std::string_view::npos, "no '|||', expected 'label ||| sentence'");
  const auto label = split_words(line.substr(0, bar));
  at.require_here(label.size() == 1 && label[0].size() == 1 && label[0][0] >= '0' && label[0][0] <= '4',
                  "label '{}', expected 0-4", line.substr(0, bar));
  std::vector<std::string> words;
  for (const std::string_view word : split_words(line.substr(bar + 3))) words.push_back(unescaped(word));
  at.require_here(!words.empty(), "the sentence is empty");
  return {fmt::format("{}", fmt::join(words, " ")), label[0][0] - '0'};
}

/// SST had a phrase labelled once, however often it occurs, so its repetitions say nothing about sentiment.
std::vector<Rated> read(const std::filesystem::path& file, bool has_trees, bool all_phrases) {
  LineReader reader(file);
  std::vector<Rated> texts;
  std::unordered_set<std::string> seen;
  for (std::string line; reader.next(line);) {
    if (is_blank(line)) continue;
    std::vector<Rated> nodes = has_trees ? nodes_of(reader, line) : std::vector<Rated>{labelled_sentence(reader, line)};
    if (!all_phrases) nodes.resize(1);
    for (Rated& node : nodes)
      if (!all_phrases || seen.insert(static_cast<char>('0' + node.rating) + node.text).second)
        texts.push_back(std::move(node));
  }
  return texts;
}

}  // namespace

LabelledTexts read_treebank(const SplitFiles& files, bool has_trees, bool five_classes, bool all_phrases) {
  LabelledTexts data;
  data.labels = five_classes
                    ? std::vector<std::string>{"very negative", "negative", "neutral", "positive", "very positive"}
                    : std::vector<std::string>{"negative", "positive"};
  data.source = fmt::format(
      "{}: SST, {}", files.description(),
      has_trees && all_phrases ? "all phrases (each once), dev and test whole sentences" : "whole sentences");
  for (const auto& [part, file] :
       {std::pair(Part::train, files.train), std::pair(Part::dev, files.dev), std::pair(Part::test, files.test)}) {
    if (file.empty()) continue;
    for (Rated& text : read(file, has_trees, has_trees && all_phrases && part == Part::train)) {
      if (!five_classes && text.rating == 2) continue;
      const int label = five_classes ? text.rating : text.rating > 2 ? 1 : 0;
      data[part].push_back({.source = std::move(text.text), .target = data.labels[static_cast<std::size_t>(label)]});
    }
  }
  return data;
}

}  // namespace fovea
