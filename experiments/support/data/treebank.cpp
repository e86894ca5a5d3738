#include "experiments/support/data/treebank.h"

#include <algorithm>
#include <map>
#include <unordered_set>

#include "experiments/support/text/words.h"
#include "tensor/error.h"

namespace fovea {

namespace {

const std::vector<std::string> five_classes = {"very negative", "negative", "neutral", "positive", "very positive"};
const std::vector<std::string> two_classes = {"negative", "positive"};

/// A text with SST's label, 0 (very negative) to 4 (very positive).
struct Rated {
  std::string text;
  int rating = 0;
};

/// The Penn Treebank's escapes undone in one word.
std::string unescaped(std::string_view word) {
  static const std::map<std::string, std::string, std::less<>> brackets = {
      {"-LRB-", "("}, {"-RRB-", ")"}, {"-LSB-", "["}, {"-RSB-", "]"}, {"-LCB-", "{"}, {"-RCB-", "}"},
      {"-lrb-", "("}, {"-rrb-", ")"}, {"-lsb-", "["}, {"-rsb-", "]"}, {"-lcb-", "{"}, {"-rcb-", "}"}};
  if (const auto found = brackets.find(word); found != brackets.end()) return found->second;
  std::string result;
  for (std::size_t i = 0; i < word.size(); ++i) {
    const bool escape = word[i] == '\\' && i + 1 < word.size() && (word[i + 1] == '/' || word[i + 1] == '*');
    if (!escape) result += word[i];
  }
  return result;
}

std::string unescaped_sentence(std::string_view text) {
  std::string result;
  for (const std::string_view word : split_words(text)) {
    if (!result.empty()) result += ' ';
    result += unescaped(word);
  }
  return result;
}

/// One line of trees/*.txt: `(label word)` or `(label tree tree ...)`.
class TreeParser {
 public:
  TreeParser(const TextFile& file, std::size_t line) : file_(file), line_(line), text_(file.lines[line]) {}

  /// The texts of all nodes, the root's first; with `root_only`, the root's alone.
  std::vector<Rated> parse(bool root_only) {
    open_node();
    while (!open_.empty()) {
      skip_spaces();
      if (at_ < text_.size() && text_[at_] == '(') {
        open_node();
      } else if (at_ < text_.size() && text_[at_] == ')') {
        close_node();
      } else {
        read_word();
      }
    }
    skip_spaces();
    if (at_ < text_.size()) fail_here("text after the end of the tree");
    return texts(root_only);
  }

 private:
  struct Node {
    int rating;
    std::size_t first_word, last_word;  ///< [first, last) of words_
    bool has_word = false, has_child = false;
  };
  static constexpr std::size_t most_words = 4096;  // a node's text is copied: bounds what a hostile line can ask for

  void open_node() {
    skip_spaces();
    if (at_ >= text_.size() || text_[at_] != '(') fail_here("expected '(' and a label 0-4");
    if (!open_.empty()) {
      if (nodes_[open_.back()].has_word) fail_here("a node has a word and a child");
      nodes_[open_.back()].has_child = true;
    }
    ++at_;
    skip_spaces();
    const bool digit = at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '4';
    const bool ends = at_ + 1 < text_.size() && (text_[at_ + 1] == ' ' || text_[at_ + 1] == '(');
    if (!digit || !ends) fail_here("expected a label 0-4 after '('");
    if (nodes_.size() >= 2 * most_words) fail_here("a tree of more than {} nodes", 2 * most_words);
    open_.push_back(nodes_.size());
    nodes_.push_back({.rating = text_[at_] - '0', .first_word = words_.size(), .last_word = words_.size()});
    ++at_;
  }

  void close_node() {
    Node& node = nodes_[open_.back()];
    if (!node.has_word && !node.has_child) fail_here("a node without a word");
    node.last_word = words_.size();
    open_.pop_back();
    ++at_;
  }

  void read_word() {
    const std::size_t end = std::min(text_.find_first_of(" ()", at_), text_.size());
    if (end == at_) fail_here("the line ends inside the tree: {} '(' are not closed", open_.size());
    Node& node = nodes_[open_.back()];
    if (node.has_word || node.has_child) fail_here("a node with two words, or with a word and a child");
    if (words_.size() >= most_words) fail_here("a sentence of more than {} words", most_words);
    node.has_word = true;
    words_.push_back(unescaped(text_.substr(at_, end - at_)));
    at_ = end;
  }

  std::vector<Rated> texts(bool root_only) const {
    std::vector<Rated> result;
    for (const Node& node : nodes_) {
      std::string text;
      for (std::size_t i = node.first_word; i < node.last_word; ++i) {
        if (i > node.first_word) text += ' ';
        text += words_[i];
      }
      result.push_back({std::move(text), node.rating});
      if (root_only) break;
    }
    return result;
  }

  void skip_spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }

  template <class... Args>
  [[noreturn]] void fail_here(fmt::format_string<Args...> format, Args&&... args) const {
    file_.fail_at(line_, "column {}: {}", at_ + 1, fmt::format(format, std::forward<Args>(args)...));
  }

  const TextFile& file_;
  std::size_t line_;
  std::string_view text_;
  std::size_t at_ = 0;
  std::vector<std::string> words_;
  std::vector<Node> nodes_;
  std::vector<std::size_t> open_;
};

/// Trees: sentences or, each distinct (phrase, label) once, phrases. SST had a phrase labelled once, however often it
/// occurs, so its repetitions say nothing about sentiment.
std::vector<Rated> read_trees(const TextFile& file, bool all_phrases) {
  std::vector<Rated> result;
  std::unordered_set<std::string> seen;
  for (std::size_t i = 0; i < file.lines.size(); ++i) {
    if (is_blank(file.lines[i])) continue;
    for (Rated& node : TreeParser(file, i).parse(!all_phrases)) {
      if (all_phrases && !seen.insert(static_cast<char>('0' + node.rating) + node.text).second) continue;
      result.push_back(std::move(node));
    }
  }
  return result;
}

std::vector<Rated> read_label_lines(const TextFile& file) {
  std::vector<Rated> result;
  for (std::size_t i = 0; i < file.lines.size(); ++i) {
    const std::string_view line = file.lines[i];
    if (is_blank(line)) continue;
    const std::size_t bar = line.find("|||");
    if (bar == std::string_view::npos) file.fail_at(i, "no '|||', expected 'label ||| sentence'");
    const auto label = split_words(line.substr(0, bar));
    if (label.size() != 1 || label[0].size() != 1 || label[0][0] < '0' || label[0][0] > '4') {
      file.fail_at(i, "label '{}', expected 0-4", line.substr(0, bar));
    }
    std::string text = unescaped_sentence(line.substr(bar + 3));
    if (text.empty()) file.fail_at(i, "the sentence is empty");
    result.push_back({std::move(text), label[0][0] - '0'});
  }
  return result;
}

std::vector<Example> classified(std::vector<Rated> texts, int classes, bool already_binary, const std::string& file) {
  std::vector<Example> result;
  result.reserve(texts.size());
  for (Rated& item : texts) {
    if (classes == 2 && !already_binary && item.rating == 2) continue;
    require(!already_binary || item.rating <= 1, "{}: '{}' has the label {}; the training labels are 0 and 1 only",
            file, item.text, item.rating);
    const int label = classes == 5 || already_binary ? item.rating : item.rating > 2 ? 1 : 0;
    result.push_back({.text = std::move(item.text), .label = label});
  }
  return result;
}

}  // namespace

ClassificationData load_treebank(const SentimentOptions& options, const SplitFiles& files, const TextFile& train) {
  const bool trees = options.format == SentimentFormat::trees;
  const bool phrases = trees && options.phrases == Phrases::all;
  const auto read = [&](const TextFile& file, bool all) {
    return trees ? read_trees(file, all) : read_label_lines(file);
  };
  std::vector<Rated> texts = read(train, phrases);
  // A `label ||| sentence` file of labels 0 and 1 alone is SST-2 already, not a treebank without positive sentences.
  const bool already_binary =
      !trees && std::all_of(texts.begin(), texts.end(), [](const Rated& text) { return text.rating <= 1; });
  const int classes = options.classes == 0 ? 2 : options.classes;
  require(!(already_binary && classes == 5), "{}: the labels are 0 and 1 only, --classes asks for 5", train.name);

  ClassificationData data;
  data.classes = classes == 5 ? five_classes : two_classes;
  data.source = fmt::format("{}: SST, {}", named(files),
                            phrases ? "all phrases (each once), dev and test whole sentences" : "whole sentences");
  data.train = classified(std::move(texts), classes, already_binary, train.name);
  const auto part = [&](const auto& path) {
    const TextFile file = read_lines(path);
    return classified(read(file, false), classes, already_binary, file.name);
  };
  if (!files.dev.empty()) data.dev = part(files.dev);
  if (!files.test.empty()) data.test = part(files.test);
  return data;
}

}  // namespace fovea
